"""Numbers as words, and names of files."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnrate.figures.words import clean, duration, number, with_interval
from attnrate.files import safe_names


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "∞"),
        (0.0, "0"),
        (-0.0, "0"),
        (12, "12"),
        (1234567, "1234567"),
        (0.123456, "0.123"),
        (-2.0, "−2"),
        (999.6, "1000"),
        (12345.6, "12300"),
        (123456.0, "1.23×10⁵"),
        (1.02e-7, "1.02×10⁻⁷"),
        (0.000999999, "0.001"),
    ],
)
def test_a_number_has_three_digits(value: float | None, words: str) -> None:
    assert number(value) == words


@given(st.floats(-1e300, 1e300))
def test_a_number_read_again_is_right_to_three_digits(value: float) -> None:
    raised = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    text = number(value).replace("×10", "e").replace("−", "-").translate(raised)
    assert float(text) == pytest.approx(value, rel=0.00501, abs=1e-307)


def test_an_interval_is_shown_only_when_both_ends_are_known() -> None:
    assert with_interval(0.5, 0.25, 0.75) == "0.5 [0.25, 0.75]"
    assert with_interval(0.5, math.nan, 0.75) == "0.5"
    assert with_interval(5.55, 0.005, 6220.0) == "5.55 (interval over 6 decades)"


@pytest.mark.parametrize(("seconds", "words"), [(5.0, "5 s"), (90.0, "1.5 min"), (7200.0, "2 h")])
def test_a_duration_is_in_a_unit_that_suits_it(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@given(st.text())
def test_cleaned_text_has_no_control_characters_and_one_line(text: str) -> None:
    cleaned = clean(text)
    assert cleaned.isprintable() or all(ord(c) >= 32 for c in cleaned)
    assert len(cleaned.splitlines()) <= 1


@given(st.lists(st.text(max_size=6), max_size=8))
def test_safe_names_differ_and_name_nothing_outside_their_folder(names: list[str]) -> None:
    safe = safe_names(names)
    assert len({name.lower() for name in safe}) == len(names)
    assert all(name and "/" not in name and not name.startswith(".") for name in safe)
    assert all(name.isascii() for name in safe)
