"""Compiled Transformers: exact where the rank allows it, interpolants where networks are asked."""

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from unbounded import Normal

from attnrate.errors import InputError
from attnrate.models import Transformer
from attnrate.targets import (
    AttentionTarget,
    FactoredCoupling,
    FunctionCoupling,
    PositionedInputs,
    centre_of_gravity,
    identity,
    linear_target,
    nearest_point,
    selection,
    spectral_target,
)
from attnrate.theory.basis import coupling_basis
from attnrate.theory.compile import compile_target, fitted, interpolant, knots

FRESH = 1234


def gap(target: AttentionTarget, model: Transformer, n: int = 200) -> torch.Tensor:
    x = target.sample(n, FRESH)
    with torch.no_grad():
        return (model(x) - target(x)).norm(dim=-1)


def gauged() -> AttentionTarget:
    """rho = exp(3u) + a coupling of rank 2 with no mean in v."""

    def rho(u, v):
        u, v = u[..., 0], v[..., 0]
        return torch.exp(3 * u) + 2 * torch.sin(4 * u) * (v - 0.5) + u**2 * torch.cos(np.pi * v)

    return AttentionTarget(identity, identity, FunctionCoupling(rho), 6)


@given(st.floats(0.51, 4.0), st.integers(1, 20), st.integers(1, 12), st.integers(0, 3))
@settings(max_examples=40)
def test_a_finite_rank_at_most_m_h_leaves_rounding_only(alpha, rank, length, spare):
    target = spectral_target(alpha, rank, length)
    assert gap(target, compile_target(target, rank + spare), 20).max() < 1e-12


@pytest.mark.parametrize(
    ("target", "rank"),
    [
        (selection(), 8),
        (centre_of_gravity(), 4),
        (nearest_point(squared=True).softened(5.0), 3),
        (nearest_point(points=4, dim=3, squared=True).softened(50.0), 4),
    ],
)
def test_graph_targets_are_exact_from_their_rank_on(target, rank):
    for m_h in (rank, rank + 3):
        assert gap(target, compile_target(target, m_h)).max() < 1e-10


def test_below_the_rank_the_error_does_not_vanish():
    for target, m_h in ((spectral_target(1.0, 6), 5), (selection(), 3)):
        assert gap(target, compile_target(target, m_h)).mean() > 1e-3


@pytest.mark.parametrize("m_ff", [None, 16])
@pytest.mark.parametrize(
    ("target", "d", "m_v"), [(spectral_target(1.0, 6), 1, 1), (selection(), 6, 2)]
)
def test_weights_are_selector_rows_and_n_is_that_of_theorem_4_1(target, d, m_v, m_ff):
    model = compile_target(target, 3, m_ff)
    n = 2 * 3 + m_v
    assert isinstance(model, Transformer)
    assert (model.d, model.n, model.m_h, model.m_v) == (d, n, 3, m_v)
    unit = np.eye(n)
    np.testing.assert_array_equal(model.W_Q.weight.detach(), unit[:3])
    np.testing.assert_array_equal(model.W_K.weight.detach(), unit[3:6])
    np.testing.assert_array_equal(model.W_V.weight.detach(), unit[6:])


@pytest.mark.parametrize("m_h", [1, 3, 5])
def test_logits_are_the_truncated_pod_sum(m_h):
    target = spectral_target(0.7, 6)
    x = target.sample(10, FRESH)
    u, v = x.numpy(), x.numpy().transpose(0, 2, 1)
    k = range(1, m_h + 1)
    expected = sum(2 * i**-0.7 * np.sin(2 * np.pi * i * u) * np.sin(2 * np.pi * i * v) for i in k)
    logits = compile_target(target, m_h).logits(x).detach().numpy()
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-13)


def test_logits_of_any_coupling_are_those_of_its_decomposition():
    target = gauged()
    basis, x = coupling_basis(target, None), target.sample(5, FRESH)
    expected = (basis.phi(x)[..., :2] * torch.tensor(basis.sigma[:2])) @ basis.psi(x)[..., :2].mT
    logits = compile_target(target, 2, gauge=None).logits(x).detach()
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-12)


def test_what_depends_on_u_alone_costs_no_rank_with_the_gauge():
    target = gauged()
    assert gap(target, compile_target(target, 2)).max() < 1e-10
    assert gap(target, compile_target(target, 2, gauge=None)).max() > 1e-4
    assert gap(target, compile_target(target, 1)).max() > 1e-4


def test_networks_are_exact_at_their_knots():
    target = spectral_target(1.0, 4)
    model = compile_target(target, 3, 24)
    at = torch.linspace(0, 1, 25, dtype=torch.float64)[:, None]
    basis = coupling_basis(target)
    expected = torch.cat([basis.query(at, 3), basis.key(at, 3), at], dim=-1)
    torch.testing.assert_close(model.f_hat(at), expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(model.F_hat(at), at, rtol=0, atol=1e-13)


def test_networks_are_linear_between_knots():
    model = compile_target(spectral_target(1.0, 4), 2, 10)
    inside = torch.linspace(0.3, 0.4, 7, dtype=torch.float64)[:, None]
    bends = model.f_hat(inside).detach().diff(n=2, dim=0)
    assert bends.abs().max() < 1e-12


def test_the_error_of_networks_falls_with_the_square_of_their_width():
    """In sup norm m_ff^-2 for every basis, so m_ff^-4 for the mean squared error of the output."""
    target = spectral_target(1.0, 2, length=4)
    widths = np.array([64, 128, 256, 512])
    at = torch.linspace(0, 1, 5001, dtype=torch.float64)[:, None]
    exact = compile_target(target, 2).f_hat(at)
    models = [compile_target(target, 2, int(m)) for m in widths]
    sup = [float((model.f_hat(at) - exact).detach()[:, 0].abs().max()) for model in models]
    mse = [float(gap(target, model, 2000).square().mean()) for model in models]
    assert np.polyfit(np.log(widths), np.log(sup), 1)[0] == pytest.approx(-2.0, abs=0.02)
    assert np.polyfit(np.log(widths), np.log(mse), 1)[0] == pytest.approx(-4.0, abs=0.1)


def test_targets_in_two_dimensions():
    def rho(u, v):
        return torch.exp(-(u - v).square().sum(-1))

    target = AttentionTarget(
        identity, lambda x: x[..., :1] * x[..., 1:], FunctionCoupling(rho, 2), 4
    )
    errors = [float(gap(target, compile_target(target, m_h)).mean()) for m_h in (1, 4, 8, 16)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-5
    trained = [float(gap(target, compile_target(target, 8, m_ff)).mean()) for m_ff in (8, 256)]
    assert trained[1] < trained[0] / 5


@pytest.mark.parametrize("d", [2, 3])
def test_interpolants_of_several_variables_are_exact_at_the_nodes(d):
    def rho(u, v):
        return (u * v).sum(-1)

    target = AttentionTarget(
        torch.sin, lambda x: x.square().sum(-1, keepdim=True), FunctionCoupling(rho, d), 4
    )
    model = compile_target(target, 2, 100, networks="interpolant")
    basis, at = coupling_basis(target), torch.zeros(1, d, dtype=torch.float64)
    for corner in (at, at + 1):
        expected = torch.cat([basis.query(corner, 2), basis.key(corner, 2), target.f(corner)], -1)
        torch.testing.assert_close(model.f_hat(corner), expected, rtol=0, atol=1e-12)
    # one hidden layer by default
    assert len(compile_target(target, 2, 100).f_hat) == 3
    assert len(model.f_hat) == 2 * d + 1


def test_interpolants_need_a_box_of_at_most_three_dimensions():
    for target in (selection(), AttentionTarget(identity, identity, near, 4, Normal())):
        with pytest.raises(InputError, match="uniform on a box"):
            compile_target(target, 2, 64, networks="interpolant")
    with pytest.raises(InputError, match="networks"):
        compile_target(spectral_target(1.0, 2), 2, 64, networks="deep")


def test_targets_with_positions():
    def rho(u, v):
        return torch.cos(u * v)[..., 0]

    inputs = PositionedInputs(((2.0, 2.5), (0.0, 1.0), (1.2, 1.5)))
    target = AttentionTarget(torch.sin, torch.square, FunctionCoupling(rho), 3, inputs)
    assert gap(target, compile_target(target, 20)).max() < 1e-9
    errors = [float(gap(target, compile_target(target, 20, m)).mean()) for m in (11, 95, 383)]
    assert errors[1] < errors[0] / 30
    assert errors[2] < errors[1] / 10


def test_knots_are_shared_by_the_intervals_of_a_union():
    assert knots(((0.0, 1.0),), 4) == (0.0, 0.25, 0.5, 0.75, 1.0)
    # two pieces in each interval and one in each gap: 8 in all
    assert knots(((0.0, 1.0), (2.0, 3.0), (5.0, 6.0)), 9) == (
        0.0, 0.5, 1.0, 2.0, 2.5, 3.0, 5.0, 5.5, 6.0,
    )  # fmt: skip
    with pytest.raises(InputError, match="at least 5") as caught:
        knots(((0.0, 1.0), (2.0, 3.0), (5.0, 6.0)), 4)
    assert caught.value.value == 4


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=9), st.integers(0, 4))
def test_an_interpolant_is_numpy_s(values, spare):
    places = tuple(float(i) ** 1.5 for i in range(len(values)))
    network = interpolant(places, torch.tensor(values).double()[:, None], len(values) - 1 + spare)
    t = np.linspace(places[0], places[-1], 57)
    got = network(torch.from_numpy(t)[:, None])[:, 0].detach().numpy()
    np.testing.assert_allclose(got, np.interp(t, places, np.float32(values)), atol=1e-10)


def test_a_fitted_network_leaves_nothing_that_its_hinges_could_explain():
    points = torch.rand(200, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values = torch.sin(4 * points)
    network = fitted(points, values, 40, seed=3)
    with torch.no_grad():
        left, hidden = values - network(points), network[:2](points)
    assert (hidden.T @ left).abs().max() < 1e-9
    assert left.sum(0).abs().max() < 1e-9


def test_compiling_leaves_the_global_generator_alone_and_repeats_itself():
    target = nearest_point(squared=True).softened(5.0)
    before = torch.get_rng_state()
    one, two = (compile_target(target, 3, 20, seed=5) for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    for p, q in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(p, q)


def test_a_coupling_that_softmax_cannot_see_compiles_to_the_mean():
    target = AttentionTarget(
        identity, identity, FunctionCoupling(lambda u, v: torch.exp(u)[..., 0]), 4
    )
    x = target.sample(10, FRESH)
    mean = x.mean(1, keepdim=True).expand(-1, 4, -1)
    torch.testing.assert_close(compile_target(target, 1)(x).detach(), mean, rtol=0, atol=1e-13)


def test_factors_that_cancel_interpolate_as_their_sum_does():
    """Σ left̂_k right̂_k is the interpolant of rho in both variables, whatever its factors are."""

    def left(x):
        return torch.cat([x + 1000 * torch.sin(9 * x), -1000 * torch.sin(9 * x)], -1)

    def right(x):
        return torch.cat([x, x], -1)

    rough = AttentionTarget(identity, identity, FactoredCoupling(left, right, 2), 4)
    smooth = AttentionTarget(identity, identity, FactoredCoupling(lambda x: x, lambda x: x, 1), 4)
    x = rough.sample(50, FRESH)
    one, two = (compile_target(t, 2, 8)(x).detach() for t in (rough, smooth))
    torch.testing.assert_close(one, two, rtol=0, atol=1e-10)


def test_targets_that_eq_5_cannot_hold_are_refused_with_the_way_out():
    with pytest.raises(InputError, match=r"softened\(beta\)") as caught:
        compile_target(nearest_point(), 3)
    assert caught.value.value == "hardmax"
    altered = (
        spectral_target(1.0, 2).permuted(range(16)),
        linear_target("exponential", 4),
        "target",
    )
    for other in altered:
        with pytest.raises(InputError, match=r"Eq\. 8") as caught:
            compile_target(other, 3)
        assert caught.value.value == type(other).__name__


WRONG = st.one_of(
    st.integers(max_value=0), st.floats(), st.booleans(), st.text(max_size=3), st.just([1])
)


@given(st.sampled_from(["m_h", "m_ff"]), WRONG)
@settings(max_examples=300)
def test_sizes_that_are_none_are_refused_with_the_value(name, value):
    target = spectral_target(1.0, 2, length=2)
    with pytest.raises(InputError, match=rf"^{name} must be a whole number") as caught:
        compile_target(target, **{"m_h": 1, name: value})
    assert caught.value.value is value


@given(st.one_of(st.integers(max_value=-1), st.floats(), st.none(), st.text(max_size=3)))
def test_seeds_that_are_none_are_refused_with_the_value(value):
    with pytest.raises(InputError, match=r"^seed must be") as caught:
        compile_target(spectral_target(1.0, 2, length=2), 1, seed=value)
    assert caught.value.value is value


def near(u, v):
    return torch.exp(-((u - v).square().sum(-1)))


@pytest.mark.parametrize("m_ff", [None, 64])
def test_unbounded_tokens_are_compiled_from_samples(m_ff):
    """A larger head does better on tokens that did not make the model, as far as m_ff allows."""
    target = AttentionTarget(torch.tanh, identity, FunctionCoupling(near), 4, Normal())
    one, four = (gap(target, compile_target(target, m_h, m_ff)).mean() for m_h in (1, 4))
    assert four < one / 2
    assert one < gap(target, lambda x: torch.zeros_like(x)).mean() / 2


@pytest.mark.parametrize("m_ff", [None, 16])
@pytest.mark.parametrize("m_h", [2, 5])
def test_a_compiled_model_can_be_copied_and_pickled(m_h, m_ff):
    target = spectral_target(1.0, 4, 3)
    model = compile_target(target, m_h, m_ff)
    x = target.sample(5, FRESH)
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301
        assert torch.equal(again(x), model(x))


def test_None_is_the_gauge_none():
    target, x = gauged(), gauged().sample(3, FRESH)
    plain, none = (compile_target(target, 2, gauge=gauge) for gauge in (None, "none"))
    assert torch.equal(plain(x), none(x))
