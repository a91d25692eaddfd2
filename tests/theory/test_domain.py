"""Domains: what users may write, what is drawn from them, and what is refused."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

from attnrate.errors import InputError
from attnrate.theory.domain import Region, Samples, as_domain, box, union
from attnrate.theory.pod import pod

NUMBERS = st.floats(-1e6, 1e6)
BROKEN = st.sampled_from([np.nan, np.inf, -np.inf])


@st.composite
def intervals(draw):
    a, b = sorted((draw(NUMBERS), draw(NUMBERS)))
    assume(b - a > 1e-6)
    return a, b


@given(intervals())
def test_a_pair_is_an_interval_in_every_spelling(pair):
    a, b = pair
    expected = Region((((a, b),),))
    assert as_domain(pair) == as_domain([a, b]) == as_domain(expected) == expected
    assert box(pair) == union(pair) == expected
    assert expected.d == 1


def test_a_list_of_pairs_is_a_box_and_never_a_union():
    assert as_domain([(0, 1), (2, 3)]) == box((0, 1), (2, 3))
    assert as_domain([(0, 1), (2, 3)]).d == 2
    assert union((0, 1), (2, 3)).d == 1


def test_the_intervals_of_a_union_are_sorted():
    assert union((2, 3), (0, 1)) == union((0, 1), (2, 3))


def test_an_array_is_samples():
    domain = as_domain(np.zeros((3, 2)))
    assert isinstance(domain, Samples)
    assert (domain.d, domain.volume) == (2, 1.0)
    np.testing.assert_array_equal(domain.weights, np.full(3, 1 / 3))
    assert Samples(np.arange(4.0)).nodes.shape == (4, 1)


@pytest.mark.parametrize(
    ("domain", "volume"),
    [(box((0, 2)), 2.0), (box((0, 2), (-1, 2)), 6.0), (union((0, 1), (5, 5.5)), 1.5)],
)
def test_the_weights_of_the_grid_add_up_to_the_volume(domain, volume):
    grid = domain.start_grid()
    assert grid.volume == pytest.approx(volume, rel=1e-15)
    assert grid.weights.sum() == pytest.approx(volume, rel=1e-14)


def test_points_are_drawn_by_length_and_lie_inside():
    points = union((0, 1), (10, 13)).draw(20_000, np.random.default_rng(0))
    assert points.shape == (20_000, 1)
    first = (points >= 0) & (points <= 1)
    assert np.all(first | ((points >= 10) & (points <= 13)))
    assert first.mean() == pytest.approx(0.25, abs=0.02)
    assert points[~first].mean() == pytest.approx(11.5, abs=0.05)


def test_samples_are_drawn_from_the_samples():
    points = np.random.default_rng(1).normal(size=(5, 2))
    drawn = Samples(points).draw(100, np.random.default_rng(0))
    assert {tuple(row) for row in drawn} == {tuple(row) for row in points}


@given(NUMBERS, st.floats(0, 1e6))
@settings(max_examples=200)
def test_empty_and_reversed_intervals_are_refused(a, length):
    b = a - length
    word = "empty" if a == b else "reversed"
    for make in (as_domain, box, union):
        with pytest.raises(InputError, match=word) as caught:
            make((a, b))
        assert caught.value.value == (a, b)


@given(NUMBERS, BROKEN, st.booleans())
@settings(max_examples=200)
def test_ends_that_are_not_finite_are_refused(a, broken, first):
    pair = (broken, a) if first else (a, broken)
    for make in (as_domain, box, union):
        with pytest.raises(InputError, match="finite") as caught:
            make(pair)
        assert repr(caught.value.value) == repr(pair)


@pytest.mark.parametrize("pair", [(0, np.inf), (-np.inf, np.inf), (-np.inf, 0)])
def test_an_unbounded_domain_is_refused_with_what_to_do_instead(pair):
    with pytest.raises(InputError, match=r"must be bounded.*Samples.*quantile function"):
        as_domain(pair)
    # the change of variables that the message names: a Gaussian law by its quantile function
    # turns e^{-x²-y²}, whose one singular value is E e^{-2x²} = 5^-½
    by_quantiles = pod(lambda s, t: np.exp(-(ndtri(s) ** 2) - ndtri(t) ** 2), (0, 1), rtol=1e-6)
    np.testing.assert_allclose(by_quantiles.sigma, [5**-0.5], rtol=1e-5)


@given(st.lists(intervals(), min_size=2, max_size=5))
@settings(max_examples=200)
def test_overlapping_intervals_are_refused(pairs):
    ordered = sorted(pairs)
    assume(any(two[0] <= one[1] for one, two in pairwise(ordered)))
    with pytest.raises(InputError, match="disjoint") as caught:
        union(*pairs)
    one, two = caught.value.value
    assert two[0] <= one[1]
    assert {one, two} <= {*pairs}


@given(st.integers(4, 50))
def test_boxes_of_more_than_three_sides_are_referred_to_samples(sides):
    for make in (lambda s: box(*s), as_domain):
        with pytest.raises(InputError, match="Samples") as caught:
            make([(0, 1)] * sides)
        assert caught.value.value == sides


@given(
    st.one_of(
        st.none(),
        st.text(),
        st.integers(),
        st.floats(),
        st.just([]),
        st.just({}),
        st.just({0.0, 1.0}),
        st.lists(st.floats(0, 1), min_size=3, max_size=6),
        st.lists(st.floats(0, 1), min_size=1, max_size=1),
        st.tuples(st.text(min_size=1), st.floats(0, 1)),
        st.tuples(st.none(), st.none()),
        st.just((1j, 2j)),
        st.just([(0, 1), 3]),
        st.just([(0, 1, 2)]),
        st.binary(),
    )
)
@settings(max_examples=400)
def test_what_is_no_domain_is_refused(value):
    with pytest.raises(InputError):
        as_domain(value, "u")


@pytest.mark.parametrize("make", [box, union])
def test_nothing_is_no_domain(make):
    with pytest.raises(InputError):
        make()


@given(
    st.integers(1, 20),
    st.integers(1, 4),
    BROKEN,
    st.data(),
)
@settings(max_examples=200)
def test_samples_that_are_not_finite_are_refused(n, d, broken, data):
    points = np.zeros((n, d))
    where = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, d - 1))
    points[where] = broken
    with pytest.raises(InputError, match="not finite") as caught:
        as_domain(points)
    assert repr(caught.value.value) == repr(float(broken))
    assert str(where) in str(caught.value)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (), (2, 2, 2)])
def test_samples_of_a_wrong_shape_are_refused(shape):
    with pytest.raises(InputError, match="shape") as caught:
        as_domain(np.zeros(shape))
    assert caught.value.value == shape


def test_whole_numbers_are_samples_too():
    assert as_domain(np.arange(3)).points.dtype == float
    assert Samples([[1, 2], [3, 4]]).d == 2


@pytest.mark.parametrize("points", [np.array(["a", "b"]), np.array([1j]), [None], [[1], [1, 2]]])
def test_samples_that_are_no_real_numbers_are_refused(points):
    with pytest.raises(InputError):
        Samples(points)
