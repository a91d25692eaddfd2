"""Windows of series: how long, which ones are whole, and how many there are in all."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from attnrate.choose.clock import Clock

_LEAST, _MOST = 16, 168  # rows of a window that was not given
_SHARE = 50  # windows that the rows should hold one after the other
_DAY = 86_400_000_000  # in microseconds
#: Stretches of time that a window should hold, the longest first, with their names
_STRETCHES = {
    "us": (
        (364 * _DAY, "52 weeks"),
        (56 * _DAY, "8 weeks"),
        (28 * _DAY, "4 weeks"),
        (2 * _DAY, "2 days"),
        (_DAY, "a day"),
        (_DAY // 2, "12 hours"),
        (_DAY // 4, "6 hours"),
        (_DAY // 8, "3 hours"),
        (_DAY // 24, "an hour"),
        (_DAY // 48, "half an hour"),
        (_DAY // 1440, "a minute"),
    ),
    "weekday": ((40, "8 weeks"), (20, "4 weeks")),
    "month": ((120, "10 years"), (48, "4 years"), (24, "2 years")),
}


@dataclass(frozen=True, eq=False)
class Windows:
    """The windows that can be learned from, and why others cannot.

    Attributes:
        starts: The first row of each whole window, in the order of the rows.
        count: The number of windows that lie within one series.
        gaps: How many of these cross a gap in time.
        missing: How many of the others touch a missing value.

    """

    starts: Int64[np.ndarray, " samples"]
    count: int
    gaps: int
    missing: int


def default_window(clock: Clock, horizon: int, longest: int, stretch: int) -> tuple[int, str]:
    """Choose the length of a window: some days or weeks if the step is known.

    Args:
        clock: The times of the rows.
        horizon: How many values ahead are wanted.
        longest: The number of rows of the longest series.
        stretch: The number of rows of the longest stretch without a gap.

    Returns:
        The number of rows, and why as the end of a sentence.

    """
    most = max(_LEAST, min(_MOST, longest // _SHARE))
    length, why = most, "a fiftieth of the rows, at least 16 and at most 168"
    for size, name in _STRETCHES.get(clock.unit, ()):
        rows = size / clock.amount
        if rows == int(rows) and _LEAST <= rows <= most:
            length, why = int(rows), name
            break
    if length + horizon > stretch:
        length, why = max(1, stretch - horizon), "what the longest stretch without a gap allows"
    return length, why


def stretches(breaks: Bool[np.ndarray, " rows"]) -> Int64[np.ndarray, " stretches"]:
    """Count the rows of each stretch that begins with a break."""
    return np.diff(np.append(np.flatnonzero(breaks), len(breaks))).astype(np.int64)


def whole_windows(
    first: Bool[np.ndarray, " rows"],
    breaks: Bool[np.ndarray, " rows"],
    seen: Bool[np.ndarray, " rows"],
    wanted: Bool[np.ndarray, " rows"],
    length: int,
    horizon: int,
) -> Windows:
    """Find the windows that lie in one series, cross no gap, and touch no missing value.

    Args:
        first: Whether a row is the first of its series.
        breaks: Whether a row does not follow the one before by one step of time.
        seen: Whether all inputs of a row are there.
        wanted: Whether all targets of a row are there.
        length: The number of rows of a window.
        horizon: How many rows after it are wanted; 0 stands for its last row.

    """
    reach = length + horizon
    starts = np.arange(max(0, len(first) - reach + 1))
    starts = starts[_none(first, starts + 1, reach - 1)]
    straight = starts[_none(breaks, starts + 1, reach - 1)]
    whole = _none(~seen, straight, length)
    whole &= _none(~wanted, straight + length - (horizon == 0), max(horizon, 1))
    found = straight[whole]
    gaps = len(starts) - len(straight)
    return Windows(found.astype(np.int64), len(starts), gaps, len(straight) - len(found))


def _none(
    marked: Bool[np.ndarray, " rows"], starts: Int64[np.ndarray, " some"], count: int
) -> Bool[np.ndarray, " some"]:
    """Whether none of the `count` rows from each start on is marked."""
    total = np.concatenate([[0], np.cumsum(marked)])
    return np.asarray(total[starts + count] == total[starts], dtype=bool)


def apart(
    first: Float64[np.ndarray, " samples"], last: Float64[np.ndarray, " samples"], enough: int
) -> int:
    """Count windows that do not overlap in time, one after the other.

    Args:
        first: The first moment of each.
        last: The last moment of each, what is wanted included.
        enough: Where counting ends.

    """
    # the earliest end leaves most room for the next
    count = 0
    while count < enough and len(last):
        count += 1
        later = first > last.min()
        first, last = first[later], last[later]
    return count
