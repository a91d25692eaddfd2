"""Counting windows that do not overlap."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attnrate.choose.windows import apart, stretches


def most_apart(first: list[int], last: list[int]) -> int:
    """The largest number of stretches without overlap, by trying all sets."""
    best = 0
    for chosen in range(1 << len(first)):
        some = [i for i in range(len(first)) if chosen >> i & 1]
        pairs = ((a, b) for a in some for b in some if a < b)
        if all(last[a] < first[b] or last[b] < first[a] for a, b in pairs):
            best = max(best, len(some))
    return best


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8)), max_size=8))
def test_the_windows_apart_are_as_many_as_there_can_be(drawn: list[tuple[int, int]]) -> None:
    first, last = [a for a, _ in drawn], [a + b for a, b in drawn]
    found = apart(np.array(first, dtype=float), np.array(last, dtype=float), 99)
    assert found == most_apart(first, last)


def test_counting_ends_where_there_are_enough() -> None:
    assert apart(np.arange(100.0), np.arange(100.0), 8) == 8


def test_a_stretch_begins_with_each_break() -> None:
    assert stretches(np.array([True, False, True, True, False])).tolist() == [2, 1, 2]
