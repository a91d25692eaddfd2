"""Covariates that are the target, shifted: what must not be known, and what adds nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64

#: A correlation from which on two series are the same
_SAME = 0.99999
#: By how much the next best shift must fall short of the best: a factor, and an absolute margin
_CLEARLY, _MARGIN = 100.0, 1e-9
_FEWEST = 10  # rows that a correlation needs
_SPREAD = 8.0  # rows that the variance must come from: one spike in each of two series says nothing
_MOST_ROWS = 1 << 19  # padding included; what is beyond them is not looked at


@dataclass(frozen=True)
class Leak:
    """A covariate that is the target at another row, times a number plus a number.

    Attributes:
        column: The name of the covariate.
        target: The name of the target.
        shift: At how many rows ahead the target is what the covariate is; negative for the past.
        correlation: Their correlation at that shift.

    """

    column: str
    target: str
    shift: int
    correlation: float

    @property
    def when(self) -> str:
        """The shift in words: "3 rows ahead", "1 row before", "at the same row"."""
        if not self.shift:
            return "at the same row"
        count = abs(self.shift)
        return f"{count} row{'s' * (count > 1)} {'ahead' if self.shift > 0 else 'before'}"


def find_leaks(
    values: Float64[np.ndarray, "rows columns"],
    first: Bool[np.ndarray, " rows"],
    targets: Sequence[str],
    covariates: Sequence[str],
    most: int,
    forbidden: int,
) -> list[Leak]:
    """Find covariates that are a target at some shift, where other shifts fit clearly worse.

    The correlation of c(t) with y(t + s) is computed for all |s| ≤ `most` by FFT, over the rows
    where both are there. A slowly varying series is like itself at all small shifts, and a periodic
    one at every period, so that a shift counts only if the shifts beside it are clearly worse, and
    an allowed shift goes before a forbidden one that is no better.

    Args:
        values: The targets, then the covariates, NaN where a value is missing.
        first: Whether a row is the first of its series.
        targets: The names of the targets.
        covariates: The names of the covariates.
        most: The largest shift.
        forbidden: The shift from which on the target must not be known: 1 when its future is
            wanted, 0 when it is wanted at the row itself.

    """
    values, first = _fewer(values, first, most)
    lengths = np.diff(np.append(np.flatnonzero(first), len(first)))
    most = min(most, int(lengths.max()) - 1)
    if most < 0 or not covariates:
        return []
    at = np.arange(len(first)) + most * (np.cumsum(first) - 1)
    size = int(at[-1]) + 1 + most
    found = []
    for i, target in enumerate(targets):
        y = _Masked(values[:, i], at, size)
        for j, name in enumerate(covariates):
            c = _Masked(values[:, len(targets) + j], at, size)
            shift = _shift(y, c, most, forbidden)
            if shift is not None:
                found.append(Leak(name, target, *shift))
    return found


def _fewer(
    values: Float64[np.ndarray, "rows columns"], first: Bool[np.ndarray, " rows"], most: int
) -> tuple[Float64[np.ndarray, "some columns"], Bool[np.ndarray, " some"]]:
    """The first rows, with padding between series: a column leaks in all of them or in none."""
    starts = np.append(np.flatnonzero(first), len(first))
    fit = np.flatnonzero(starts[1:] + most * np.arange(1, len(starts)) <= _MOST_ROWS)
    end = int(starts[fit[-1] + 1]) if fit.size else min(_MOST_ROWS, int(starts[1]))
    return values[:end], first[:end]


class _Masked:
    """A series with gaps, padded with zeros, and the Fourier transforms of its moments.

    Args:
        values: The values, NaN where one is missing.
        at: The place of each value in the padded series.
        size: The length of the padded series.

    """

    def __init__(self, values: Float64[np.ndarray, " rows"], at: np.ndarray, size: int) -> None:
        from scipy.fft import next_fast_len, rfft

        there = ~np.isnan(values)
        centred = np.where(there, values, 0.0)
        if there.any():
            # the largest first: squares of large numbers would be infinite
            scaled = values / (np.abs(values[there]).max() or 1.0)
            spread = float(scaled[there].std()) or 1.0
            centred = np.where(there, (scaled - scaled[there].mean()) / spread, 0.0)
        self.values, self.mask = np.zeros(size), np.zeros(size)
        self.values[at], self.mask[at] = centred, there
        self.length = next_fast_len(2 * size, real=True)
        parts = np.stack([self.mask, self.values, self.values**2])
        self.moments = rfft(parts, self.length)


def _shift(y: _Masked, c: _Masked, most: int, forbidden: int) -> tuple[int, float] | None:
    """The shift at which c is y, and their correlation; None if there is none."""
    shifts = np.arange(-most, most + 1)
    short = 1 - np.abs(_correlations(y, c, shifts))
    best = int(np.argmin(short))
    if short[best] >= 1 - _SAME:
        return None
    # the transforms leave about 1e-12; a copy is exact
    value = _correlation(y, c, int(shifts[best]))
    limit = _CLEARLY * (1 - abs(value)) + _MARGIN
    beside = [one for one in (best - 1, best + 1) if 0 <= one < len(shifts)]
    if 1 - abs(value) >= 1 - _SAME or any(short[one] <= limit for one in beside):
        return None
    if shifts[best] >= forbidden:
        past = np.flatnonzero((short <= limit) & (shifts < forbidden))
        if past.size:
            return int(shifts[past[-1]]), float(1 - short[past[-1]])
    return int(shifts[best]), value


def _correlations(y: _Masked, c: _Masked, shifts: np.ndarray) -> Float64[np.ndarray, " shifts"]:
    """The correlation of c(t) with y(t + s) for each s; 0 where there is too little for one."""
    from scipy.fft import irfft

    def sums(of_y: int, of_c: int) -> Float64[np.ndarray, " shifts"]:
        whole = irfft(y.moments[of_y] * np.conj(c.moments[of_c]), y.length)
        return np.asarray(whole[shifts], dtype=np.float64)

    n = np.rint(sums(0, 0))
    safe = np.maximum(n, 1)
    y1, c1, y2, c2 = sums(1, 0), sums(0, 1), sums(2, 0), sums(0, 2)
    cross = sums(1, 1) - y1 * c1 / safe
    spread = (y2 - y1**2 / safe) * (c2 - c1**2 / safe)
    enough = (n >= max(_FEWEST, n.max() / 4)) & (spread > 1e-18 * safe**2)
    return np.where(enough, cross / np.sqrt(np.where(enough, spread, 1.0)), 0.0)


def _correlation(y: _Masked, c: _Masked, shift: int) -> float:
    """The correlation of c(t) with y(t + shift), summed directly; 0 if few rows make it."""
    ahead = slice(max(shift, 0), len(y.values) + min(shift, 0))
    now = slice(max(-shift, 0), len(y.values) - max(shift, 0))
    both = (y.mask[ahead] * c.mask[now]) > 0
    one, two = y.values[ahead][both], c.values[now][both]
    one, two = one - one.mean(), two - two.mean()
    if (one**2).sum() ** 2 < _SPREAD * (one**4).sum():
        return 0.0
    return float(one @ two / np.sqrt((one @ one) * (two @ two)))
