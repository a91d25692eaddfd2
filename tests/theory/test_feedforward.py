"""C_FF of sines in closed form, and each bound held against what it bounds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import chebyshev

from attnrate.errors import InputError
from attnrate.theory.domain import box, union
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


# Functions of two and three variables

SQUARE = box((0, 1), (0, 1))


def crest(x):
    """A product of cosines whose crests lie inside."""
    return np.cos(2 * np.pi * x).prod(-1)


@pytest.mark.parametrize("d", [2, 3])
def test_a_product_of_cosines_has_closed_forms_in_every_family(d):
    """D² at a crest is (2π)² I, frequencies have |ω|_B = d π, and |∇g| is at most 2π."""
    cube, rounded = box(*[(0, 1)] * d), float(2**d - 1)
    assert Barron().complexity(crest, cube) == pytest.approx(2 * d * np.pi, rel=1e-9)
    assert KlusowskiBarron(d).complexity(crest, cube) == pytest.approx((d * np.pi) ** 2, rel=1e-9)
    bent = Interpolant(d).share(cube) * d / 8 * (2 * np.pi) ** 2
    assert bent * (1 - 1e-7) <= Interpolant(d).complexity(crest, cube) <= 1.11 * bent
    smooth = Sobolev(2).constant * rounded ** (2 / d) * d * np.pi**2
    assert smooth * (1 - 1e-7) <= Sobolev(2, d).complexity(crest, cube) <= 1.11 * smooth
    steep = 131 * np.sqrt(d) * 64 ** (2 / d) * 2 * np.pi
    assert Hoelder(d=d).complexity(crest, cube) == pytest.approx(steep, rel=1e-3)


@pytest.mark.parametrize("name", ["interpolant", "klusowski-barron", "sobolev", "barron"])
def test_a_function_of_one_of_two_variables_costs_what_it_costs_in_one(name):
    """Up to what two variables cost: the share of the cells, d in d/8, the rounding of n."""
    one = require_family("family", name)
    two = one.in_dimension(2)
    factor = {"interpolant": 15 * 2, "sobolev": 3.0}.get(name, 1.0)
    flat = two.complexity(lambda x: sine(1)(x[..., 1]), SQUARE)
    assert flat == pytest.approx(factor * one.complexity(sine(1)), rel=0.03)


@settings(max_examples=6)
@given(
    name=st.sampled_from(["interpolant", "barron", "klusowski-barron", "sobolev", "hoelder"]),
    scale=st.floats(1e-3, 1e3),
    low=st.floats(-5.0, 5.0),
    side=st.floats(0.1, 10.0),
)
def test_complexity_in_two_variables_scales_and_moves(name, scale, low, side):
    each = require_family("family", name).in_dimension(2)
    moved = lambda x: -scale * crest((x - low) / side)  # noqa: E731
    there = box((low, low + side), (low, low + side))
    plain = each.complexity(crest, SQUARE)
    assert each.complexity(moved, there) == pytest.approx(scale * plain, rel=0.01)


@settings(max_examples=6)
@given(
    name=st.sampled_from(["interpolant", "hoelder"]), gap=st.floats(0.1, 2.0), d=st.integers(1, 2)
)
def test_complexity_is_not_smaller_on_a_larger_union(name, gap, d):
    each = require_family("family", name).in_dimension(d)
    both = union((0, 1), (1 + gap, 2 + gap))
    g = (lambda x: np.cos(3 * x)) if d == 1 else (lambda x: np.cos(3 * x[..., 0] + x[..., 1]))
    part = (0.0, 1.0) if d == 1 else SQUARE
    whole = both if d == 1 else box(both, (0, 1))
    assert each.complexity(g, whole) >= each.complexity(g, part) * (1 - 1e-3)


def test_on_two_intervals_networks_bridge_the_gap():
    """m units: (m+1)/2 - 1 pieces on each, so 4 units have one piece; the larger side decides."""
    g = lambda u: u**2  # noqa: E731
    region = union((0, 1), (2, 4))
    assert Interpolant().rate(g, 9, region) == pytest.approx(2**2 * 2 / 8 / 4**2, rel=6e-3)
    assert Interpolant().complexity(g, region) == pytest.approx(4**2 * 2**2 * 2 / 8, rel=6e-3)
    with pytest.raises(InputError, match="at least 3"):
        Interpolant().rate(g, 2, region)


@pytest.mark.parametrize("m", [1, 5, 9, 30, 100])
def test_tensor_polynomials_stay_within_the_sobolev_bound_of_two_variables(m):
    g = lambda x: np.sin(2 * x[..., 0] + x[..., 1]) * np.exp(x[..., 1])  # noqa: E731
    n = int(np.sqrt(m))
    nodes, fine = chebyshev.chebpts1(n), np.linspace(-1, 1, 101)
    at = lambda t: np.stack(np.meshgrid((t + 1) / 2, (t + 1) / 2, indexing="ij"), -1)  # noqa: E731
    to = chebyshev.chebvander(fine, n - 1) @ np.linalg.inv(chebyshev.chebvander(nodes, n - 1))
    error = np.max(np.abs(to @ g(at(nodes)) @ to.T - g(at(fine))))
    assert error <= Sobolev(2, d=2).rate(g, m, SQUARE) + 1e-12


def test_a_family_says_which_of_it_takes_more_variables():
    with pytest.raises(InputError, match=r"Pass Interpolant\(d=2\)"):
        Interpolant().complexity(crest, SQUARE)
    with pytest.raises(InputError, match="one interval or box"):
        Sobolev(2, d=2).complexity(crest, box(union((0, 1), (2, 3)), (0, 1)))
    assert Interpolant(d=3).in_dimension(2) == Interpolant(d=3)
    assert Barron().in_dimension(3) == Barron()
    assert [Interpolant(d).beta for d in (1, 2, 3)] == [2.0, 1.0, 2 / 3]
    for wrong in (lambda: Interpolant(4), lambda: Sobolev(2, 0), lambda: Hoelder(d=4)):
        with pytest.raises(InputError, match="d must be"):
            wrong()
