"""Wrong requests of `pod`: each is an InputError that carries the value at fault."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.theory.domain import box
from attnrate.theory.pod import pod

BROKEN = st.sampled_from([np.nan, np.inf, -np.inf])
CORNERS = st.floats(0, 0.8)


def one(u, v):
    return np.exp(-((u - v) ** 2))


def untouched(u, v):
    raise AssertionError("rho was called although the request was wrong")


@given(CORNERS, CORNERS, BROKEN)
@settings(max_examples=600)
def test_a_value_that_is_not_finite_is_named_with_its_place(a, b, broken):
    def rho(u, v):
        inside = (u >= a) & (u <= a + 0.2) & (v >= b) & (v <= b + 0.2)
        return np.where(inside, broken, one(u, v))

    with pytest.raises(InputError, match="rho is not finite at u = ") as caught:
        pod(rho, (0, 1))
    assert repr(caught.value.value) == repr(float(broken))
    place = caught.value.what.split("u = ")[1].split(", v = ")
    assert a <= float(place[0]) <= a + 0.2
    assert b <= float(place[1]) <= b + 0.2


@given(CORNERS, BROKEN, st.booleans())
@settings(max_examples=300)
def test_a_line_of_values_that_are_not_finite_is_found(a, broken, swap):
    def rho(u, v):
        t = v if swap else u
        return np.where((t >= a) & (t <= a + 0.2), broken, one(u, v))

    with pytest.raises(InputError, match="not finite") as caught:
        pod(rho, (0, 1))
    assert repr(caught.value.value) == repr(float(broken))


@given(CORNERS, BROKEN)
@settings(max_examples=150)
def test_points_of_a_box_are_named_in_full(a, broken):
    def rho(u, v):
        return np.where((u[..., 0] >= a) & (u[..., 0] <= a + 0.2), broken, v[..., 1])

    with pytest.raises(InputError, match=r"u = \[.*, .*\], v = \[.*, .*\]") as caught:
        pod(rho, box((0, 1), (0, 1)))
    assert repr(caught.value.value) == repr(float(broken))


@given(st.integers(1, 30), st.integers(1, 30), BROKEN, st.data())
@settings(max_examples=300)
def test_a_sample_at_which_rho_is_not_finite_is_named(n, m, broken, data):
    i, j = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, m - 1))
    x, y = np.arange(n, dtype=float), np.arange(m, dtype=float)

    def rho(u, v):
        return np.where((u == i) & (v == j), broken, u + v)

    with pytest.raises(InputError) as caught:
        pod(rho, x, y)
    assert f"rho is not finite at u = {i}, v = {j}" in str(caught.value)
    assert repr(caught.value.value) == repr(float(broken))


def test_a_pole_on_the_diagonal_is_found_and_not_smoothed_over():
    def rho(u, v):
        return np.log(np.abs(u - v))

    with pytest.raises(InputError, match="not finite") as caught:
        pod(rho, (0, 1))
    assert caught.value.value == -np.inf


@given(
    st.one_of(
        st.floats(allow_nan=True, allow_infinity=True).filter(lambda t: not 0 < t < 1),
        st.integers(),
        st.booleans(),
        st.none(),
        st.text(max_size=3),
        st.just([1e-3]),
        st.just(1e-3 + 0j),
    )
)
@settings(max_examples=400)
def test_an_rtol_that_is_no_number_between_0_and_1_is_refused(rtol):
    with pytest.raises(InputError, match="rtol") as caught:
        pod(untouched, (0, 1), rtol=rtol)
    assert caught.value.value is rtol


@given(
    st.one_of(
        st.integers(max_value=0),
        st.floats(),
        st.booleans(),
        st.none(),
        st.text(max_size=3),
    )
)
@settings(max_examples=400)
def test_a_max_rank_that_is_no_positive_whole_number_is_refused(max_rank):
    with pytest.raises(InputError, match="max_rank") as caught:
        pod(untouched, (0, 1), max_rank=max_rank)
    assert caught.value.value is max_rank


@given(st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.just(["softmax"])))
@settings(max_examples=300)
def test_an_unknown_gauge_is_refused_and_the_known_ones_are_named(gauge):
    assume(gauge not in ("softmax", "none"))
    with pytest.raises(InputError, match="'softmax'") as caught:
        pod(untouched, (0, 1), gauge=gauge)
    assert caught.value.value is gauge


@given(
    st.one_of(
        st.none(),
        st.text(max_size=5),
        st.integers(),
        st.floats(),
        st.lists(st.floats(), max_size=3),
    )
)
@settings(max_examples=200)
def test_what_cannot_be_called_is_no_coupling(rho):
    with pytest.raises(InputError, match="rho must be a function") as caught:
        pod(rho, (0, 1))
    assert caught.value.value is rho


@given(st.lists(st.integers(2, 31), min_size=1, max_size=3))
@settings(max_examples=200)
def test_a_shape_that_does_not_broadcast_is_shown_beside_the_one_expected(shape):
    with pytest.raises(InputError, match="does not") as caught:
        pod(lambda u, v: np.zeros(shape), (0, 1))
    assert caught.value.value == tuple(shape)
    # a shape that suits the first few tokens is found out by the next ones
    suits = shape[-2:] in ([4], [3, 4]) and len(shape) <= 2
    assert f"broadcast to {(32, 32) if suits else (3, 4)}" in str(caught.value)


@given(
    st.sampled_from(
        [
            lambda u, v: u + 1j * v,
            lambda u, v: "text",
            lambda u, v: None,
            lambda u, v: np.array([object()]),
            lambda u, v: np.full((32, 32), "1"),
        ]
    )
)
def test_what_is_no_real_number_is_refused(rho):
    with pytest.raises(InputError, match="rho must return real numbers"):
        pod(rho, (0, 1))


def test_complex_values_are_refused_for_what_they_are():
    with pytest.raises(InputError, match=r"real numbers.*complex128.*np\.real") as caught:
        pod(lambda u, v: np.exp(1j * u * v), (0, 1))
    assert "single numbers" not in str(caught.value)
    with pytest.raises(InputError, match=r"real numbers: got None\."):
        pod(lambda u, v: None, (0, 1))


@pytest.mark.parametrize("rho", [lambda u: u, lambda u, v, w: u, lambda: 1.0])
def test_a_function_of_another_number_of_arguments_is_refused_for_that(rho):
    with pytest.raises(InputError, match="function of two arguments, u and v"):
        pod(rho, (0, 1))


@pytest.mark.parametrize("rho", [lambda u, v: True, lambda u, v: 3, lambda u, v: (u > v) * 0 + 1])
def test_truth_values_and_whole_numbers_are_numbers(rho):
    assert pod(rho, (0, 1)).rank == 1


@pytest.mark.parametrize("which", ["u", "v"])
@pytest.mark.parametrize("domain", [(1, 0), (0, 0), (0, np.nan), "01", None, [], [(0, 1)] * 4])
def test_a_wrong_domain_is_refused_before_rho_is_called(which, domain):
    u, v = (domain, (0, 1)) if which == "u" else ((0, 1), domain)
    if which == "v" and domain is None:
        return
    with pytest.raises(InputError):
        pod(untouched, u, v)


@given(st.one_of(st.integers(max_value=-1), st.floats(), st.none(), st.booleans()))
@settings(max_examples=200)
def test_ranks_of_tails_and_truncations_are_whole_and_not_negative(r):
    result = pod(one, np.arange(3.0))
    for method in (result.tail, result.truncate):
        with pytest.raises(InputError, match="r must be") as caught:
            method(r)
        assert caught.value.value is r


@given(st.lists(st.integers(0, 4), max_size=3).filter(lambda s: not s or s[-1] != 2))
@settings(max_examples=100)
def test_points_of_the_plane_need_two_coordinates(shape):
    result = pod(lambda u, v: u[..., 0] * v[..., 1], box((0, 1), (0, 1)), rtol=1e-3)
    with pytest.raises(InputError, match=r"\(\.\.\., 2\)") as caught:
        result.phi(np.zeros(shape))
    assert caught.value.value == tuple(shape)


@pytest.mark.parametrize("points", ["abc", [1j], [None], [[0.1], [0.1, 0.2]]])
def test_points_that_are_no_numbers_are_refused(points):
    result = pod(one, (0, 1), rtol=1e-3)
    with pytest.raises(InputError, match="real numbers") as caught:
        result.psi(points)
    assert caught.value.value is points


def test_a_network_that_returns_no_number_is_refused():
    class Broken(torch.nn.Module):
        def forward(self, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return torch.log(u - 2 - v)

    with pytest.raises(InputError, match="not finite"):
        pod(Broken(), (0, 1))
