"""Counts as people write them."""

import pytest

from attnrate.cli.counts import parse_count
from attnrate.errors import InputError


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("5000", 5000),
        ("1", 1),
        ("200k", 200_000),
        ("200K", 200_000),
        (" 1M ", 1_000_000),
        ("1m", 1_000_000),
        ("1.5M", 1_500_000),
        ("0.25k", 250),
        ("2B", 2_000_000_000),
        ("200_000", 200_000),
        ("1000000000000", 10**12),
    ],
)
def test_a_count_is_what_it_says(text: str, count: int) -> None:
    assert parse_count("tokens", text) == count


@pytest.mark.parametrize(
    "text", ["", "k", "many", "-5", "1.5", "1.2345k", "1e5", "2kk", "5 k", "٣", "1__0", "0x10"]
)
def test_what_is_no_count_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InputError, match=r"tokens must be a whole number, as 5000, 200k or 1\.5M"):
        parse_count("tokens", text)


@pytest.mark.parametrize("text", ["0", "0k", "99999999999999999999"])
def test_a_count_is_at_least_one_and_not_beyond_all_measure(text: str) -> None:
    with pytest.raises(InputError, match="tokens must be a whole number of at least 1"):
        parse_count("tokens", text)
