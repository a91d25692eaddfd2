"""Axes show their values and have ticks that can be read, however narrow they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnrate.figures.axes import axis_over, log_ticks


@given(st.floats(1e-12, 1e12), st.floats(1.01, 1e6))
def test_a_logarithmic_axis_has_two_ticks_within_its_range_in_order(
    low: float, factor: float
) -> None:
    high = low * factor
    places = [place for place, _ in log_ticks(low, high, [low * 1.001, high / 1.001])]
    assert len(places) >= 2
    assert places == sorted(places)
    assert all(low <= place <= high for place in places)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([1.03, 1.52], ["1.2", "1.4"]),
        ([1.03e-6, 1.52e-6], [f"{m}×10⁻⁶" for m in ("1.2", "1.4")]),
        ([1.5, 45.0], ["2", "5", "10", "20", "50"]),
    ],
)
def test_ticks_say_their_values(values: list[float], words: list[str]) -> None:
    axis = axis_over("", values, scale="log")
    assert [word for _, word in axis.ticks or ()] == words
