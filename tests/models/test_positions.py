"""Position encodings: the tables by hand, the intervals of Eq. 7, and what they refuse."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.models import (
    IntervalShift,
    LearnedPosition,
    NoPosition,
    SinusoidalPosition,
    position_encoding,
)
from attnrate.models.positions import sinusoids


def inputs(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, generator=generator, dtype=torch.float64)


def test_no_position_changes_nothing():
    x = inputs(2, 5, 3)
    assert NoPosition(3)(x) is x


def test_the_learned_encoding_is_a_product_and_a_vector_for_each_position():
    encoding, x = LearnedPosition(2, 4, 3).double(), inputs(5, 4, 2)
    A, e = encoding.A.weight, encoding.e
    for t in range(4):
        torch.testing.assert_close(encoding(x)[:, t], x[:, t] @ A.T + e[t])
    assert {name for name, _ in encoding.named_parameters()} == {"A.weight", "e"}


def test_the_table_is_the_one_of_vaswani():
    table = sinusoids(3, 4)
    for t in range(3):
        expected = [math.sin(t), math.cos(t), math.sin(t / 100), math.cos(t / 100)]
        assert table[t].tolist() == pytest.approx(expected, abs=1e-15)


def test_an_odd_number_of_features_ends_with_a_sine():
    slowest = 10000 ** (-2 / 3)
    assert sinusoids(2, 3)[1].tolist() == pytest.approx(
        [math.sin(1), math.cos(1), slowest], rel=1e-5
    )


def test_only_the_matrix_of_the_sinusoidal_encoding_is_trained():
    encoding, x = SinusoidalPosition(2, 6, 4).double(), inputs(3, 6, 2)
    assert [name for name, _ in encoding.named_parameters()] == ["A.weight"]
    torch.testing.assert_close(
        encoding(x) - x @ encoding.A.weight.T, sinusoids(6, 4).expand(3, 6, 4)
    )


def test_a_detour_through_float32_does_not_round_the_table():
    encoding = SinusoidalPosition(1, 6, 4).float().double()
    torch.testing.assert_close(
        encoding(torch.zeros(6, 1).double()), sinusoids(6, 4), rtol=0, atol=1e-16
    )


def test_the_shift_of_table_2_puts_position_t_into_2t_to_2t_plus_1():
    shift = IntervalShift(1, 4)
    assert shift.intervals == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert shift(torch.full((4, 1), 0.25)).flatten().tolist() == [0.25, 2.25, 4.25, 6.25]


@given(
    st.integers(1, 20),
    st.floats(1e-3, 1e3),
    st.floats(1e-3, 1e3),
    st.floats(-1e3, 1e3),
    st.integers(0, 1000),
)
def test_every_position_lands_in_its_own_interval(length, width, gap, low, seed):
    shift = IntervalShift(2, length, width, gap, low)
    x = low + width * inputs(3, length, 2, seed=seed)
    encoded = shift(x.clamp(low, low + width))
    for t, (a, b) in enumerate(shift.intervals):
        assert ((encoded[:, t] >= a - 1e-9) & (encoded[:, t] <= b + 1e-9)).all()
    for (_, left), (right, _) in zip(shift.intervals, shift.intervals[1:], strict=False):
        assert right - left == pytest.approx(gap, rel=1e-6)


def test_the_ends_of_the_interval_belong_to_it():
    shift = IntervalShift(1, 2, width=0.2, low=0.1)
    for dtype in (torch.float32, torch.float64):
        shift(torch.tensor([[0.1], [0.1 + 0.2]], dtype=dtype))


@given(st.floats(-1e6, 0, allow_nan=False), st.integers(1, 5))
def test_touching_and_overlapping_intervals_are_refused_by_name(gap, length):
    with pytest.raises(InputError, match=r"intervals 0 and 1, \(0\.0, 1\.0\) and") as caught:
        IntervalShift(1, length, gap=gap)
    assert caught.value.value == gap


def test_a_gap_that_rounding_closes_is_refused():
    with pytest.raises(InputError, match="intervals 0 and 1 are not disjoint"):
        IntervalShift(1, 2, width=1e6, gap=1e-12)


@given(
    st.integers(0, 2),
    st.integers(0, 3),
    st.one_of(st.floats(), st.floats(1, 2), st.floats(-1, 0)).filter(lambda v: not 0 <= v <= 1),
)
def test_a_token_outside_is_refused_with_its_value_and_position(batch, t, value):
    x = inputs(3, 4, 1)
    x[batch, t, 0] = value
    with pytest.raises(InputError, match=rf"position {t} lies outside \[0, 1\]") as caught:
        IntervalShift(1, 4)(x)
    assert caught.value.value == value or math.isnan(value)


@pytest.mark.parametrize(
    ("kind", "made", "features"),
    [
        ("none", NoPosition, 2),
        ("learned", LearnedPosition, 7),
        ("sinusoidal", SinusoidalPosition, 7),
        ("shift", IntervalShift, 2),
    ],
)
def test_every_kind_has_a_name(kind, made, features):
    encoding = position_encoding(kind, 2, 5, 7)
    assert type(encoding) is made
    assert encoding.features == features
    assert encoding(inputs(3, 5, 2).float()).shape == (3, 5, features)


def test_the_settings_of_the_shift_reach_it():
    shift = position_encoding("shift", 1, 2, width=2.0, gap=0.5, low=-1.0)
    assert shift.intervals == ((-1, 1), (1.5, 3.5))


@given(
    st.one_of(st.none(), st.integers(), st.text(max_size=5), st.lists(st.integers(), max_size=2))
)
def test_other_kinds_are_refused_with_the_list(kind):
    with pytest.raises(InputError, match="'none', 'learned', 'sinusoidal', 'shift'") as caught:
        position_encoding(kind, 1, 4, 2)
    assert caught.value.value is kind


@pytest.mark.parametrize("kind", ["learned", "sinusoidal", "shift"])
def test_positions_need_a_length_and_keep_to_it(kind):
    with pytest.raises(InputError, match=f"'{kind}' needs the length"):
        position_encoding(kind, 1)
    encoding = position_encoding(kind, 1, 4)
    assert encoding(torch.zeros(2, 3, 1)).shape == (2, 3, 1)
    with pytest.raises(InputError, match="4 positions at most") as caught:
        encoding(torch.zeros(2, 5, 1))
    assert caught.value.value == 5


NO_SIZE = st.one_of(
    st.integers(max_value=0), st.floats(), st.booleans(), st.none(), st.text(max_size=3)
)


@given(st.sampled_from(["d", "length", "features"]), NO_SIZE)
@settings(max_examples=100)
def test_sizes_that_are_none_are_refused_with_the_value(name, value):
    for made in (LearnedPosition, SinusoidalPosition):
        with pytest.raises(InputError, match=rf"^{name} must be a whole number") as caught:
            made(**{"d": 1, "length": 2, "features": 3, name: value})
        assert caught.value.value is value


@given(
    st.sampled_from(["width", "gap", "low"]),
    st.sampled_from([None, "1", True, float("nan"), float("inf"), [1.0]]),
)
def test_ends_that_are_no_numbers_are_refused_with_the_value(name, value):
    with pytest.raises(InputError, match=rf"^{name} must be a finite number") as caught:
        IntervalShift(1, 2, **{name: value})
    assert caught.value.value is value


def test_inputs_of_another_shape_or_kind_are_refused():
    for encoding in (NoPosition(2), LearnedPosition(2, 4, 3), IntervalShift(2, 4)):
        for shape in [(4,), (2,), (3, 4, 1)]:
            with pytest.raises(InputError, match="inputs must have shape") as caught:
                encoding(torch.zeros(shape))
            assert caught.value.value == shape
        with pytest.raises(InputError, match="inputs must hold") as caught:
            encoding(torch.zeros(3, 4, 2, dtype=torch.int64))
        assert caught.value.value == torch.int64
