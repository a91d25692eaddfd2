"""Couplings: their values by direct sums, orthonormal bases, and what they refuse."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.targets import (
    FactoredCoupling,
    FunctionCoupling,
    SpectralCoupling,
    spectral_coupling,
)

NOT_FINITE = st.sampled_from([math.nan, math.inf, -math.inf])


def rand(*shape):
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.rand(shape, generator=generator, dtype=torch.float64)


def direct(sigma, u, v):
    """Σ_k σ_k 2 sin(2πku) sin(2πkv), one term after the other."""
    total = 0.0
    for k, s in enumerate(sigma, start=1):
        total += s * 2 * math.sin(2 * math.pi * k * u) * math.sin(2 * math.pi * k * v)
    return total


@pytest.mark.parametrize("rank", [1, 2, 6, 63, 64, 65, 200])
def test_a_spectral_coupling_is_its_sum(rank):
    u, v = rand(2, 3, 1), rand(2, 4, 1)
    rho = spectral_coupling(1.0, rank)
    expected = [
        [[direct(rho.sigma, a.item(), b.item()) for b in v[n]] for a in u[n]] for n in range(2)
    ]
    outer = rho.outer(u, v)
    np.testing.assert_allclose(outer, expected, atol=1e-11)
    np.testing.assert_allclose(rho(u[:, :, None], v[:, None]), expected, atol=1e-11)


def test_the_spectrum_is_k_to_the_minus_alpha():
    rho = spectral_coupling(0.55, 5)
    np.testing.assert_allclose(rho.sigma, [k**-0.55 for k in (1, 2, 3, 4, 5)], rtol=1e-15)
    assert rho.sigma.dtype == np.float64
    assert rho.rank == 5


def test_the_bases_are_orthonormal_on_the_unit_interval():
    # the midpoint rule is exact for trigonometric polynomials below the number of its nodes
    nodes = (torch.arange(128, dtype=torch.float64)[:, None] + 0.5) / 128
    rho = spectral_coupling(1, 20)
    for basis in (rho.phi(nodes, 20), rho.psi(nodes, 20)):
        np.testing.assert_allclose(basis.T @ basis / 128, np.eye(20), atol=1e-13)


def test_the_tail_is_the_root_of_the_squares_beyond_the_rank():
    rho = SpectralCoupling([4.0, 3.0, 0.0])
    assert [rho.tail(r) for r in (0, 1, 2, 9)] == [5.0, 3.0, 0.0, 0.0]


def test_float32_keeps_its_digits_at_high_frequencies():
    u = rand(50, 1).float()
    rho = spectral_coupling(1, 2000)
    exact = rho.phi(u.double(), 2000)
    assert (rho.phi(u, 2000) - exact).abs().max() < 1e-6
    assert rho.phi(u, 2000).dtype == torch.float32


def test_thousands_of_bases_are_never_held_at_once(monkeypatch):
    widest = 0
    sin = torch.sin

    def watched(phase):
        nonlocal widest
        widest = max(widest, phase.shape[-1])
        return sin(phase)

    monkeypatch.setattr(torch, "sin", watched)
    x = rand(2, 5, 1)
    rho = spectral_coupling(1, 5000)
    rho.outer(x, x.clone())
    rho(x, x)
    assert 0 < widest <= 128


def test_the_spectrum_cannot_be_changed_from_outside():
    given_sigma = np.array([2.0, 1.0])
    rho = SpectralCoupling(given_sigma)
    given_sigma[0] = 9.0
    assert rho.sigma[0] == 2.0
    with pytest.raises(ValueError, match="read-only"):
        rho.sigma[0] = 5.0


def test_factors_give_the_sum_of_their_products():
    rho = FactoredCoupling(
        lambda u: torch.cat([u, u**2], -1), lambda v: torch.cat([v, 3 - v], -1), rank=2
    )
    u, v = torch.tensor([[2.0], [5.0]]).double(), torch.tensor([[7.0]]).double()
    np.testing.assert_allclose(rho.outer(u, v), [[14 - 16], [35 - 100]])
    np.testing.assert_allclose(rho(u, v), [-2, -65])


COUPLINGS = {
    "function": FunctionCoupling(lambda u, v: (u - 2 * v).sin().sum(-1), d=2),
    "factored": FactoredCoupling(lambda u: u.cos(), lambda v: v.exp(), rank=2, d=2),
    "spectral": spectral_coupling(0.7, 130),
}


@pytest.mark.parametrize("rho", COUPLINGS.values(), ids=COUPLINGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_outer_is_every_pair(rho, dtype):
    u, v = rand(3, 4, rho.d).to(dtype), rand(3, 2, rho.d).to(dtype)
    outer = rho.outer(u, v)
    assert outer.dtype == dtype
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    for n in range(3):
        for t in range(4):
            for s in range(2):
                assert abs(outer[n, t, s] - rho(u[n, t], v[n, s])) < tolerance


@pytest.mark.parametrize("rho", COUPLINGS.values(), ids=COUPLINGS)
def test_scaling_scales_and_keeps_the_kind(rho):
    x = rand(2, 3, rho.d)
    scaled = rho.scaled(2.5)
    assert type(scaled) is type(rho)
    np.testing.assert_allclose(scaled.outer(x, x), 2.5 * rho.outer(x, x), rtol=1e-12)


@pytest.mark.parametrize("rho", [COUPLINGS["factored"], COUPLINGS["spectral"]])
def test_left_times_right_is_the_coupling(rho):
    u, v = rand(4, rho.d), rand(3, rho.d)
    assert rho.left(u).shape == (4, rho.rank)
    np.testing.assert_allclose(rho.left(u) @ rho.right(v).T, rho.outer(u, v), atol=1e-12)


def test_a_constant_is_a_coupling():
    assert FunctionCoupling(lambda u, v: 3.0).outer(rand(2, 1), rand(4, 1)).shape == (
        2,
        4,
    )


@given(st.floats(max_value=0.5) | NOT_FINITE | st.sampled_from(["1", None, True]))
def test_alpha_must_be_a_number_above_one_half(alpha):
    with pytest.raises(InputError) as caught:
        spectral_coupling(alpha, 3)
    assert caught.value.value is alpha


@given(st.integers(max_value=0) | st.floats() | st.sampled_from(["3", None, True, [3]]))
def test_rank_must_be_a_whole_number_from_one(rank):
    with pytest.raises(InputError) as caught:
        spectral_coupling(1.0, rank)
    assert caught.value.value is rank


def test_an_infinite_rank_is_refused_with_the_reason():
    with pytest.raises(InputError, match=r"diverges on the diagonal.*rank=256"):
        spectral_coupling(1.0, math.inf)


@given(st.lists(st.floats(0, 10), min_size=2, max_size=8), st.data())
def test_a_spectrum_that_rises_is_refused_at_the_first_index_that_does(values, data):
    sigma = sorted(values, reverse=True)
    i = data.draw(st.integers(1, len(sigma) - 1))
    sigma[i] = sigma[i - 1] + data.draw(st.floats(0.1, 1))
    with pytest.raises(InputError, match=rf"sigma\[{i}\] is larger") as caught:
        SpectralCoupling(sigma)
    assert caught.value.value == (sigma[i - 1], sigma[i])


@given(st.integers(0, 5), st.floats(-1e9, -1e-300) | NOT_FINITE)
def test_a_negative_or_non_finite_singular_value_is_refused_by_index(i, bad):
    sigma = [1.0] * 6
    sigma[i] = bad
    with pytest.raises(InputError, match=rf"sigma\[{i}\]") as caught:
        SpectralCoupling(sigma)
    assert caught.value.value == bad or math.isnan(bad)


@pytest.mark.parametrize("sigma", [[], [[1.0]], 1.0, None, "ab", [1, "a"], [[1], [1, 2]], [1j]])
def test_what_is_no_spectrum_is_refused(sigma):
    with pytest.raises(InputError):
        SpectralCoupling(sigma)


@given(st.integers(0, 2), st.integers(0, 3), NOT_FINITE)
def test_a_value_that_is_not_finite_is_named_with_its_place(t, s, bad):
    u = torch.arange(3.0)[:, None]
    v = 10 + torch.arange(4.0)[:, None]

    def function(a, b):
        here = (a[..., 0] == t) & (b[..., 0] == 10 + s)
        return torch.where(here, bad, 0.0)

    with pytest.raises(InputError) as caught:
        FunctionCoupling(function).outer(u, v)
    message = str(caught.value)
    assert f"u = [{float(t)}], v = [{10.0 + s}]" in message
    assert caught.value.value == bad or math.isnan(bad)


@given(st.booleans(), NOT_FINITE)
def test_tokens_that_are_not_finite_show_up(left, bad):
    rho = COUPLINGS["spectral"]
    good, wrong = torch.zeros(2, rho.d), torch.full((2, rho.d), bad)
    with pytest.raises(InputError, match="rho is not finite"):
        rho.outer(*((wrong, good) if left else (good, wrong)))


@pytest.mark.parametrize(
    ("function", "came_back"),
    [
        (lambda u, v: torch.zeros(5), (5,)),
        (lambda u, v: torch.zeros(4, 3), (4, 3)),
        (lambda u, v: torch.zeros(2, 3, 4), (2, 3, 4)),
        (lambda u, v: np.zeros(5), (5,)),
    ],
)
def test_a_shape_that_does_not_broadcast_is_shown_with_the_expected_one(function, came_back):
    with pytest.raises(InputError, match=r"broadcast to \(3, 4\)") as caught:
        FunctionCoupling(function).outer(rand(3, 1), rand(4, 1))
    assert caught.value.value == came_back


def test_a_function_that_keeps_the_coordinates_of_points_is_refused():
    with pytest.raises(InputError, match=r"\(3, 4\) points.*\.sum\(-1\)") as caught:
        FunctionCoupling(lambda u, v: u * v, 2).outer(rand(3, 2), rand(4, 2))
    assert caught.value.value == (3, 4, 2)


def test_a_shape_that_is_wrong_for_other_tokens_is_found_when_they_come():
    fixed = FunctionCoupling(lambda u, v: torch.zeros(3, 4))
    assert fixed.outer(rand(3, 1), rand(4, 1)).shape == (3, 4)
    with pytest.raises(InputError, match=r"expected \(5, 6\)") as caught:
        fixed.outer(rand(5, 1), rand(6, 1))
    assert caught.value.value == (3, 4)


@pytest.mark.parametrize("result", ["a", None, [0.0]])
def test_a_function_that_returns_no_numbers_is_refused(result):
    with pytest.raises(InputError, match="real numbers"):
        FunctionCoupling(lambda u, v: result).outer(rand(3, 1), rand(4, 1))


@given(st.integers(1, 5).filter(lambda d: d != 2), st.booleans())
def test_tokens_of_another_dimension_are_refused(d, left):
    rho = COUPLINGS["function"]
    good, wrong = rand(3, 2), rand(3, d)
    with pytest.raises(InputError) as caught:
        rho(*((wrong, good) if left else (good, wrong)))
    assert caught.value.value == (3, d)


@pytest.mark.parametrize("rho", COUPLINGS.values(), ids=COUPLINGS)
def test_axes_that_do_not_broadcast_are_refused(rho):
    with pytest.raises(InputError, match="do not broadcast"):
        rho(rand(3, rho.d), rand(4, rho.d))
    with pytest.raises(InputError, match="do not broadcast"):
        rho.outer(rand(3, 5, rho.d), rand(4, 5, rho.d))


@pytest.mark.parametrize("rho", COUPLINGS.values(), ids=COUPLINGS)
def test_every_pair_needs_two_sequences(rho):
    with pytest.raises(InputError, match="v must be a sequence") as caught:
        rho.outer(rand(3, rho.d), rand(rho.d))
    assert caught.value.value == (rho.d,)


@pytest.mark.parametrize("width", [1, 3])
def test_factors_of_another_rank_are_refused(width):
    rho = FactoredCoupling(lambda u: u, lambda v: torch.zeros(*v.shape[:-1], width), 2, d=2)
    with pytest.raises(InputError, match="right_factors") as caught:
        rho.outer(rand(3, 2), rand(4, 2))
    assert caught.value.value == (4, width)


@pytest.mark.parametrize("bad", [0, -1, 1.5, "a", None, True])
def test_ranks_dimensions_and_counts_of_bases_are_whole_numbers(bad):
    def same(x):
        return x

    for attempt in (
        lambda: FunctionCoupling(lambda u, v: 0.0, d=bad),
        lambda: FactoredCoupling(same, same, rank=bad),
        lambda: FactoredCoupling(same, same, rank=1, d=bad),
        lambda: spectral_coupling(1, 3).phi(rand(2, 1), bad),
    ):
        with pytest.raises(InputError) as caught:
            attempt()
        assert caught.value.value is bad


def test_a_basis_takes_scalars_only():
    with pytest.raises(InputError):
        spectral_coupling(1, 3).phi(rand(2, 3), 3)


@pytest.mark.parametrize("function", [None, 3, "u*v"])
def test_a_coupling_needs_a_function(function):
    with pytest.raises(InputError) as caught:
        FunctionCoupling(function)
    assert caught.value.value is function
