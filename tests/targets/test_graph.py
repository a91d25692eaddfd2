"""Graph targets of App. B.1 against direct loops over their definitions."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.targets import (
    EQ66_INDICES,
    FactoredCoupling,
    centre_of_gravity,
    gravity,
    nearest_point,
    selection,
    selection_example,
)

SEEDS = st.integers(0, 2**31)


@pytest.mark.parametrize("squared", [False, True])
@given(SEEDS, st.integers(1, 7), st.integers(1, 3))
def test_nearest_point_is_the_nearest_point(squared, seed, points, dim):
    target = nearest_point(points, dim, squared)
    x = target.sample(3, seed)
    y, attention = target(x).numpy(), target.attention(x).numpy()
    for n, t in np.ndindex(3, points):
        u, v = x[n, t, :dim].numpy(), x[n, :, dim:].numpy()
        nearest = min(range(points), key=lambda s: np.linalg.norm(u - v[s]))
        np.testing.assert_array_equal(y[n, t], v[nearest])
        np.testing.assert_array_equal(attention[n, t], np.eye(points)[nearest])


def test_nearest_point_has_the_paper_s_settings_and_ranks():
    target = nearest_point()
    assert (target.length, target.d, target.out, target.normalise) == (6, 4, 2, "hardmax")
    assert isinstance(nearest_point(squared=True).rho, FactoredCoupling)
    assert nearest_point(squared=True).rho.rank == 3


def test_the_squared_coupling_differs_from_minus_the_square_by_a_function_of_u():
    x = nearest_point().sample(4, 0)
    gauge = nearest_point(squared=True).logits(x) + nearest_point().logits(x) ** 2
    np.testing.assert_allclose(gauge, gauge[..., :1].expand_as(gauge), atol=1e-14)


def centres(x, dim):
    """Output and attention of Eq. 62 by walking along the sequence, segment after segment."""
    length = len(x)
    starts = [t for t in range(length) if x[t, dim + 3] == 1]
    attention = np.eye(length)
    for a, b in zip(starts, [*starts[1:], length], strict=True):
        masses = x[a + 1 : b, dim]
        attention[a] = 0
        attention[a, a + 1 : b] = masses / masses.sum()
    return np.linalg.norm(attention @ x[:, :dim], axis=1), attention


@given(SEEDS, st.integers(1, 3), st.integers(1, 4), st.integers(0, 10))
def test_centre_of_gravity_is_that_of_each_segment(seed, dim, min_segment, more):
    length = min_segment + 1 + more
    target = centre_of_gravity(length, dim, min_segment)
    x = target.sample(4, seed)
    for n in range(4):
        y, attention = centres(x[n].numpy(), dim)
        np.testing.assert_allclose(target(x)[n, :, 0], y, atol=1e-11)
        np.testing.assert_allclose(target.attention(x)[n], attention, atol=1e-11)


def test_eq_60_gives_eq_61():
    points = np.array([[0.1, 0.9], [0.4, 0.2], [0.8, 0.5], [0.3, 0.3], [0.6, 0.7]])
    m = np.array([0.2, 0.5, 1.0, 0.4, 0.9])
    target = centre_of_gravity(7, 2, 2)
    x = np.zeros((1, 7, 6))
    x[0, :, 4] = range(7)
    x[0, [0, 4], 2] = 1.0
    x[0, [0, 4], 5] = 1.0
    x[0, 4:, 3] = 1.0
    x[0, [1, 2, 3, 5, 6], :2] = points
    x[0, [1, 2, 3, 5, 6], 2] = m
    first = np.linalg.norm(m[:3] @ points[:3] / m[:3].sum())
    second = np.linalg.norm(m[3:] @ points[3:] / m[3:].sum())
    norms = np.linalg.norm(points, axis=1)
    expected = [first, *norms[:3], second, *norms[3:]]
    np.testing.assert_allclose(target(torch.tensor(x))[0, :, 0], expected, atol=1e-12)


@given(SEEDS, st.integers(1, 4), st.integers(0, 12))
def test_every_segment_opens_with_a_prediction_token_and_has_enough_points(seed, least, more):
    length = least + 1 + more
    x = centre_of_gravity(length, 2, least).sample(8, seed).numpy()
    np.testing.assert_array_equal(x[:, :, 4], np.tile(range(length), (8, 1)))
    for row in x:
        segment, prediction = row[:, 3], row[:, 5]
        assert prediction[0] == 1
        np.testing.assert_array_equal(segment, prediction.cumsum() - 1)
        assert min(np.bincount(segment.astype(int))) >= least + 1
        masses = row[prediction == 0, 2]
        assert (masses >= 0.1).all()
        assert (masses <= 1).all()


def test_every_number_of_segments_occurs():
    x = centre_of_gravity().sample(300, 0)
    assert set(x[:, -1, 3].tolist()) == {0.0, 1.0, 2.0}


def test_centre_of_gravity_has_rank_four_and_one_output():
    target = centre_of_gravity()
    assert (target.length, target.d, target.out, target.rho.rank) == (10, 6, 1, 4)


def test_centre_of_gravity_holds_in_float32():
    target = centre_of_gravity()
    x = target.sample(200, 0)
    assert (target(x.float()) - target(x)).abs().max() < 1e-4


def test_eq_66_gives_its_index_frequencies():
    printed = [
        {4: 1, 5: 2},
        {4: 3},
        {1: 2, 7: 1},
        {5: 3},
        {0: 1, 3: 1, 7: 1},
        {0: 1, 6: 1, 7: 1},
        {2: 3},
        {2: 1, 3: 1, 4: 1},
    ]
    expected = np.zeros((8, 8))
    for t, counts in enumerate(printed):
        for s, count in counts.items():
            expected[t, s] = count / 3
    x = selection_example()
    assert x.shape == (1, 8, 6)
    np.testing.assert_array_equal(x[0, :, 2:5], EQ66_INDICES)
    np.testing.assert_allclose(selection().attention(x)[0], expected, atol=1e-14)
    np.testing.assert_allclose(selection()(x)[0], expected @ x[0, :, :2].numpy(), atol=1e-14)


def test_another_seed_gives_the_example_other_values():
    assert not torch.equal(selection_example(0)[..., :2], selection_example(1)[..., :2])


@given(SEEDS, st.integers(1, 9), st.integers(1, 3), st.integers(1, 5))
def test_selection_averages_the_values_its_indices_name(seed, length, dim, k):
    target = selection(length, dim, k)
    assert (target.rho.rank, target.d, target.out) == (length, dim + k + 1, dim)
    x = target.sample(3, seed)
    for n, t in np.ndindex(3, length):
        indices = x[n, t, dim : dim + k].long()
        expected = x[n, indices, :dim].sum(0) / k
        np.testing.assert_allclose(target(x)[n, t], expected, atol=1e-13)


@given(SEEDS, st.permutations(range(8)))
def test_selection_finds_its_values_wherever_they_stand(seed, p):
    target = selection()
    x = target.sample(2, seed)
    np.testing.assert_allclose(target(x[:, p]), target(x)[:, p], atol=1e-13)


@given(st.integers(0, 7), st.integers(0, 2), st.sampled_from([-1.0, 8.0, 0.5, math.nan]))
def test_an_index_that_names_no_position_is_refused(t, i, bad):
    x = selection_example()
    x[0, t, 2 + i] = bad
    with pytest.raises(InputError, match="from 0 to 7"):
        selection()(x)


@given(SEEDS, st.integers(1, 6), st.integers(1, 3), st.floats(0.01, 2))
def test_gravity_weighs_every_body_by_its_softened_pull(seed, bodies, dim, softening):
    target = gravity(bodies, dim, softening)
    x = target.sample(2, seed)
    for n, t in np.ndindex(2, bodies):
        z, m = x[n, :, :dim].numpy(), x[n, :, dim].numpy()
        pull = [m[s] / (sum((z[t] - z[s]) ** 2) + softening**2) for s in range(bodies)]
        expected = sum(w * z[s] for s, w in enumerate(pull)) / sum(pull)
        np.testing.assert_allclose(target(x)[n, t], expected, atol=1e-12)


def test_a_body_without_mass_is_refused():
    x = gravity().sample(1, 0)
    x[0, 3, 2] = 0.0
    with pytest.raises(InputError, match="rho is not finite") as caught:
        gravity()(x)
    assert caught.value.value == -math.inf


WHOLE = [
    (nearest_point, ("points", "dim")),
    (centre_of_gravity, ("length", "dim", "min_segment")),
    (selection, ("length", "dim", "k")),
    (gravity, ("bodies", "dim")),
]


@pytest.mark.parametrize(
    ("make", "parameter"), [(make, name) for make, names in WHOLE for name in names]
)
@given(st.integers(max_value=0) | st.floats() | st.none() | st.text() | st.booleans())
def test_sizes_are_whole_numbers_from_one(make, parameter, bad):
    with pytest.raises(InputError, match=parameter) as caught:
        make(**{parameter: bad})
    assert caught.value.value is bad


@given(st.integers(1, 20), st.integers(1, 20))
def test_a_sequence_has_room_for_one_segment(length, min_segment):
    if length > min_segment:
        assert centre_of_gravity(length, 2, min_segment).length == length
        return
    with pytest.raises(InputError) as caught:
        centre_of_gravity(length, 2, min_segment)
    assert caught.value.value == length


@given(st.floats(max_value=0) | st.sampled_from([math.nan, math.inf, "1", None, True]))
def test_softening_is_a_positive_number(bad):
    with pytest.raises(InputError) as caught:
        gravity(softening=bad)
    assert caught.value.value is bad
