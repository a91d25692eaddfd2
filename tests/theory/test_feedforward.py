"""C_FF of sines in closed form, and each bound held against what it bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import chebyshev

from attnrate.errors import InputError
from attnrate.theory.feedforward import (
    FAMILIES,
    Barron,
    FeedForwardFamily,
    Hoelder,
    Interpolant,
    KlusowskiBarron,
    Sobolev,
    fourier_moment,
    hoelder_constant,
    require_family,
)
from attnrate.theory.smooth import expand, sup_derivative


def sine(i):
    """The paper's basis function sqrt(2) sin(2 pi i u)."""
    return lambda u: np.sqrt(2.0) * np.sin(2.0 * np.pi * i * u)


SMOOTH = {
    "exp": np.exp,
    "line": lambda u: 3.0 * u - 1.0,
    "cube": lambda u: u**3,
    "runge": lambda u: 1.0 / (1.0 + 400.0 * (u - 0.3) ** 2),
    "tanh": lambda u: np.tanh(30.0 * (u - 0.4)),
    "bell": lambda u: np.exp(-((u - 0.5) ** 2) / 0.02),
    "sine": lambda u: np.sin(9.5 * np.pi * u),
    "constant": lambda u: 2.0,
}


@pytest.mark.parametrize("i", [1, 2, 7, 40, 500])
def test_the_interpolant_of_a_sine_costs_its_second_derivative(i):
    exact = np.sqrt(2.0) * (2.0 * np.pi * i) ** 2 / 8.0
    assert exact <= Interpolant().complexity(sine(i)) <= 1.006 * exact


@pytest.mark.parametrize("i", [1, 2, 7, 40])
def test_the_first_fourier_moment_of_a_sine_is_its_amplitude_times_frequency(i):
    moment = np.sqrt(2.0) * 2.0 * np.pi * i
    assert fourier_moment(sine(i), 1) == pytest.approx(moment, rel=1e-8)
    assert Barron().complexity(sine(i)) == pytest.approx(moment, rel=1e-8)


@pytest.mark.parametrize("i", [1, 2, 7, 40])
def test_the_second_fourier_moment_of_a_sine(i):
    moment = np.sqrt(2.0) * (2.0 * np.pi * i) ** 2
    assert KlusowskiBarron().complexity(sine(i)) == pytest.approx(moment / 4.0, rel=1e-6)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("i", [1, 7])
def test_the_sobolev_complexity_of_a_sine_is_its_highest_derivative(order, i):
    exact = Sobolev(order).constant * np.sqrt(2.0) * (np.pi * i) ** order
    assert exact * (1 - 1e-9) <= Sobolev(order).complexity(sine(i)) <= 1.006 * exact


def test_the_sobolev_constants_follow_from_jackson():
    assert Sobolev(1).constant == pytest.approx(np.pi / 2)
    assert Sobolev(2).constant == pytest.approx((np.pi / 2) ** 2 * 2)


@pytest.mark.parametrize("i", [1, 7, 40])
def test_the_lipschitz_constant_of_a_sine(i):
    exact = np.sqrt(2.0) * 2.0 * np.pi * i
    assert hoelder_constant(sine(i)) == pytest.approx(exact, rel=1e-5)
    assert Hoelder().complexity(sine(i)) == pytest.approx(131.0 * 64.0**2 * exact, rel=1e-5)


@pytest.mark.parametrize("exponent", [0.3, 0.5, 0.8, 1.0])
def test_the_hoelder_constant_of_a_power_is_one(exponent):
    assert hoelder_constant(lambda u: u**exponent, exponent) == pytest.approx(1.0, rel=1e-9)


def test_the_hoelder_constant_of_a_kink_is_its_slope():
    assert hoelder_constant(lambda u: 3.0 * np.abs(u - 0.3)) == pytest.approx(3.0, rel=1e-9)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("m", [1, 2, 5, 16, 100])
@pytest.mark.parametrize("interval", [(0.0, 1.0), (-1.0, 2.5)])
def test_interpolation_stays_within_its_bound(name, m, interval):
    g = SMOOTH[name]
    nodes = np.linspace(*interval, m + 1)
    u = np.linspace(*interval, 20011)
    values = np.broadcast_to(g(u), u.shape)
    error = np.max(np.abs(values - np.interp(u, nodes, np.broadcast_to(g(nodes), nodes.shape))))
    assert error <= Interpolant().rate(g, m, interval) + 1e-12
    assert error <= KlusowskiBarron().rate(g, m, interval) * (1 + 1e-6) + 1e-7


@given(
    amplitudes=st.lists(st.floats(-3.0, 3.0), min_size=1, max_size=6),
    phase=st.floats(0.0, 6.0),
    m=st.integers(1, 60),
)
def test_interpolation_of_random_waves_stays_within_its_bound(amplitudes, phase, m):
    def g(u):
        return sum(a * np.cos(2.7 * k * u + phase * k) for k, a in enumerate(amplitudes))

    u = np.linspace(0.0, 1.0, 5003)
    nodes = np.linspace(0.0, 1.0, m + 1)
    values, at = (np.broadcast_to(g(x), x.shape) for x in (u, nodes))
    error = np.max(np.abs(values - np.interp(u, nodes, at)))
    assert error <= Interpolant().rate(g, m) + 1e-12


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("i", [0.5, 1, 3])
def test_near_best_polynomials_stay_within_the_sobolev_bound(order, i):
    x = np.linspace(-1.0, 1.0, 4001)
    g = sine(i)
    for m in (1, 2, 3, 4, 6, 10, 20, 40):
        fitted = chebyshev.chebinterpolate(lambda t: g((t + 1.0) / 2.0), m - 1)
        error = np.max(np.abs(chebyshev.chebval(x, fitted) - g((x + 1.0) / 2.0)))
        # Interpolation is within 2/pi log m + 1 of the best; the bound has room for that here.
        assert error <= Sobolev(order).rate(g, m) + 1e-12


def test_barrons_bound_holds_for_the_networks_that_interpolate():
    g = sine(2)
    u = np.linspace(0.0, 1.0, 20001)
    for m in (4, 16, 64):
        steps = np.linspace(0.0, 1.0, m + 1)
        levels = g((steps[:-1] + steps[1:]) / 2.0)
        piece = np.minimum((u * m).astype(int), m - 1)
        error = np.sqrt(np.mean((g(u) - levels[piece]) ** 2))
        assert error <= Barron().rate(g, m)


@pytest.mark.parametrize("name", [n for n in SMOOTH if n != "constant"])
@pytest.mark.parametrize("order", [1, 2])
def test_a_fourier_moment_is_never_below_the_derivative_it_bounds(name, order):
    sup = sup_derivative(SMOOTH[name], order)
    assert fourier_moment(SMOOTH[name], order) >= sup * (1 - 0.006) - 1e-6


@pytest.mark.parametrize("each", FAMILIES.values(), ids=list(FAMILIES))
def test_every_family_keeps_the_protocol(each):
    assert isinstance(each, FeedForwardFamily)
    assert each.norm in ("L2", "sup")
    assert each.statement.endswith(".")
    assert each.rate(sine(1), 7) == pytest.approx(each.complexity(sine(1)) / 7**each.beta)
    assert require_family("family", each.name) is each
    assert require_family("family", each) is each


@settings(max_examples=25)
@given(
    name=st.sampled_from(sorted(FAMILIES)),
    scale=st.floats(1e-3, 1e3),
    a=st.floats(-5.0, 5.0),
    length=st.floats(0.1, 10.0),
)
def test_complexity_scales_with_the_function_and_moves_with_the_interval(name, scale, a, length):
    each = require_family("family", name)

    def moved(u):
        return scale * sine(2)((u - a) / length)

    plain = each.complexity(sine(2))
    assert each.complexity(moved, (a, a + length)) == pytest.approx(scale * plain, rel=0.01)


def test_the_exponents_are_those_of_the_theorems():
    assert [KlusowskiBarron(d).beta for d in (1, 2, 4)] == [1.5, 1.0, 0.75]
    assert Sobolev(3).beta == 3.0
    assert Hoelder(0.5).beta == 1.0
    assert not KlusowskiBarron(2).certified
    assert KlusowskiBarron(2).rate(sine(1), 9) > KlusowskiBarron(2).complexity(sine(1)) / 9.0


def test_deeper_hoelder_networks_are_better():
    assert Hoelder(depth=40).complexity(sine(1)) < Hoelder(depth=29).complexity(sine(1))


@pytest.mark.parametrize("place", [0.5, 0.25, 0.3, 1 / np.pi])
@pytest.mark.parametrize("each", [Interpolant(), Sobolev(2)], ids=["interpolant", "sobolev"])
def test_a_kink_has_no_second_derivative_and_its_place_is_told(place, each):
    with pytest.raises(InputError, match=f"u = {place:.2f}"[:-1]) as caught:
        each.complexity(lambda u: np.abs(u - place))
    assert "hoelder" in str(caught.value)


def test_a_jump_of_the_second_derivative_leaves_the_interpolants_bound_true():
    g = lambda u: np.where(u < 0.5, 0.0, (u - 0.5) ** 2)  # noqa: E731
    assert Interpolant().complexity(g) == pytest.approx(2.0 / 8.0, rel=0.006)
    with pytest.raises(InputError, match=r"jumps at u = 0\.5"):
        Sobolev(3).complexity(g)


def test_noise_in_the_values_is_not_taken_for_a_kink():
    g = lambda u: np.sin(9.0 * u) + 1e-11 * np.sin(1e7 * u)  # noqa: E731
    assert sup_derivative(g, 2) == pytest.approx(81.0, rel=0.006)


def test_an_expansion_needs_no_more_pieces_than_the_function_asks_for():
    assert expand(np.exp).edges.size == 2
    assert expand(sine(40)).edges.size > 5


@pytest.mark.parametrize("g", [lambda u: np.abs(u - 0.5), lambda u: np.where(u < 0.3, 0.0, 1.0)])
def test_a_kink_or_a_jump_has_no_fourier_moment(g):
    with pytest.raises(InputError, match="no Fourier representation"):
        Barron().complexity(g)


def test_a_jump_is_not_lipschitz_and_a_root_is_not_either():
    with pytest.raises(InputError, match="not Hölder"):
        hoelder_constant(lambda u: np.where(u < 0.3, 0.0, 1.0))
    with pytest.raises(InputError, match="not Hölder"):
        hoelder_constant(np.sqrt)
    # which grow by a quarter only from one grid to the next
    for g in (lambda u: u * np.log(np.maximum(u, 1e-300)), lambda u: u**0.9):
        with pytest.raises(InputError, match="not Hölder continuous"):
            hoelder_constant(g)


@given(
    name=st.sampled_from(sorted(FAMILIES)),
    wrong=st.sampled_from([np.nan, np.inf, -np.inf]),
    place=st.floats(0.0, 1.0),
)
def test_a_value_that_is_not_finite_is_told_with_its_place(name, wrong, place):
    with pytest.raises(InputError, match="not finite at u = ") as caught:
        require_family("family", name).complexity(
            lambda u: np.where(np.abs(u - place) < 0.1, wrong, u)
        )
    np.testing.assert_equal(caught.value.value, wrong)


@given(
    name=st.sampled_from(sorted(FAMILIES)),
    interval=st.sampled_from(
        [(1.0, 0.0), (0.5, 0.5), (0.0, np.inf), (np.nan, 1.0), (0.0,), (0.0, 1.0, 2.0), 3.0, "ab"]
    ),
)
def test_what_is_no_interval_is_refused(name, interval):
    with pytest.raises(InputError) as caught:
        require_family("family", name).complexity(np.exp, interval)
    assert caught.value.value is interval


@pytest.mark.parametrize("name", ["relu", "", 3, None, Interpolant])
def test_an_unknown_family_is_refused_and_the_known_ones_are_listed(name):
    with pytest.raises(InputError, match="interpolant"):
        require_family("family", name)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Sobolev(0),
        lambda: Sobolev(7),
        lambda: KlusowskiBarron(0),
        lambda: Hoelder(0.0),
        lambda: Hoelder(1.5),
        lambda: Hoelder(1.0, depth=3),
        lambda: Interpolant().rate(np.exp, 0),
        lambda: Barron().complexity(lambda u: u[:3]),
        lambda: Interpolant().complexity(lambda u: np.stack([u, u])),
        lambda: Interpolant().complexity(lambda u: "text"),
        lambda: fourier_moment(np.exp, -1),
    ],
)
def test_settings_without_sense_are_refused(make):
    with pytest.raises(InputError):
        make()
