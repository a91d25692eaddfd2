"""Counts as people write them on a command line: 5000, 200k, 1.5M."""

import re
from fractions import Fraction

from attnrate.errors import InputError, require_whole

_TIMES = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9}
_COUNT = re.compile(r"(?P<digits>\d+(?:_\d+)*(?:\.\d+)?)(?P<unit>[kmb]?)", re.IGNORECASE | re.ASCII)


def parse_count(name: str, text: str) -> int:
    """A count of at least one from its text.

    Args:
        name: What is counted, for the message.
        text: Digits, with k, M or B after them for thousands, millions and billions: "200k".

    Returns:
        The number; an InputError where the text is no whole number of at least one.

    """
    found = _COUNT.fullmatch(text.strip())
    value = None
    if found:
        value = Fraction(found["digits"]) * _TIMES[found["unit"].lower()]
    if value is None or value.denominator != 1:
        what = f"{name} must be a whole number, as 5000, 200k or 1.5M"
        raise InputError(what, text, f"Write {name}=200k for 200 thousand.")
    return require_whole(name, int(value), 1)
