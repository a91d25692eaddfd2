"""The heads: the error of the Transformer against its head size, with values of full size."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from attnrate.choose.comparing import errors_of, paired
from attnrate.choose.contender import contender
from attnrate.choose.jobs import Place, RaceJob, Row, run_jobs
from attnrate.choose.planning import Course, head_sizes
from attnrate.choose.race import SAME, race_jobs
from attnrate.choose.samples import Samples
from attnrate.shown import Shown
from attnrate.statistics import Interval

if TYPE_CHECKING:
    import pandas as pd

#: The error of an advised size is surely at most this many times that of the largest: its interval
#: ends below. That an interval holds 0 shows nothing, as a wide one does so for any size.
_MOST = 1.1


@dataclass(frozen=True)
class HeadSize:
    """One head size.

    Attributes:
        m_h: The head size.
        parameters: The number of parameters of the model with it.
        mse: The held-out error in units of the data, with its interval; not known if all diverged.
        difference: The error minus that of the largest size, paired by fold, seed and unit.
        ratio: The error beside that of the largest size.
        enough: Whether it is shown to be no worse than the largest: the interval of the difference
            holds 0 or ends below it, or the ratio is below 1.01; and the interval of the ratio ends
            at 1.1 or below. Where seeds or data differ too much to show it, it is not enough.
        diverged: The number of its fits that diverged.
        ratio_high: The upper end of the interval of the ratio; nan if it has none.

    Examples:
        >>> error, more = ar.Interval(0.51, 0.49, 0.53, 9), ar.Interval(0.01, -0.01, 0.03, 9)
        >>> size = ar.HeadSize(2, 5700, error, more, ratio=1.02, enough=True, diverged=0,
        ...                    ratio_high=1.06)
        >>> size.m_h, size.enough
        (2, True)

    """

    m_h: int
    parameters: int
    mse: Interval
    difference: Interval
    ratio: float
    enough: bool
    diverged: int
    ratio_high: float = math.nan


@dataclass(frozen=True, repr=False)
class Heads(Shown):
    """Errors against the head size.

    Attributes:
        name: The contender whose heads these are.
        sizes: The head sizes, the smallest first.
        spectra: The singular values of the logits of the model with the largest heads, in the gauge
            of softmax: the mean over folds and seeds, for each layer. They are shown beside the
            errors; the errors decide.
        failures: Why jobs failed that are no part of the result.

    Examples:
        >>> error, same = ar.Interval(0.5, 0.45, 0.55, 9), ar.Interval(0.0, -0.01, 0.01, 9)
        >>> sizes = [ar.HeadSize(1, 5600, error, same, ratio=1.4, enough=False, diverged=0),
        ...          ar.HeadSize(2, 5700, error, same, ratio=1.02, enough=True, diverged=0),
        ...          ar.HeadSize(4, 6000, error, same, ratio=1.0, enough=True, diverged=0)]
        >>> heads = ar.Heads("transformer", tuple(sizes), spectra=((3.1, 0.8, 0.01, 0.0),))
        >>> heads.advised
        2
        >>> print(heads)
        heads of 2 are enough; errors beside the largest: m_h = 1: 1.4, m_h = 2: 1.02, m_h = 4: 1

    """

    name: str
    sizes: tuple[HeadSize, ...]
    spectra: tuple[tuple[float, ...], ...]
    failures: tuple[str, ...] = ()

    @property
    def advised(self) -> int | None:
        """The smallest size that is shown to be no worse than the largest, like all above it.

        A small size that is as good while a larger one is worse was lucky with its seeds. The
        largest itself where nothing is shown; None if it diverged.
        """
        found = None
        for each in reversed(self.sizes):
            if not each.enough:
                break
            found = each.m_h
        return found

    def to_frame(self) -> "pd.DataFrame":
        """Return one row for each head size, the smallest first."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "m_h": each.m_h,
                    "parameters": each.parameters,
                    "mse": each.mse.value,
                    "mse_low": each.mse.low,
                    "mse_high": each.mse.high,
                    "ratio": each.ratio,
                    "ratio_high": each.ratio_high,
                    "difference": each.difference.value,
                    "difference_low": each.difference.low,
                    "difference_high": each.difference.high,
                    "enough": each.enough,
                    "diverged": each.diverged,
                }
                for each in self.sizes
            ]
        )

    def _table(self) -> "pd.DataFrame":
        return self.to_frame()

    def __str__(self) -> str:
        if self.advised is None:
            return "heads: the model with the largest heads diverged"
        said = ", ".join(f"m_h = {each.m_h}: {each.ratio:.3g}" for each in self.sizes)
        return f"heads of {self.advised} are enough; errors beside the largest: {said}"


def heads(samples: Samples, course: Course, place: Place, name: str = "transformer") -> Heads:
    """Fit the Transformer with smaller and smaller heads.

    The largest head has as many rows as there are features; its fits are those of the race and are
    taken from the store where they are there. Smaller heads leave all else as it is.

    Args:
        samples: The samples.
        course: How much each model is trained; its parameters are those of the largest heads.
        place: Where the fits run and are kept.
        name: The contender: "transformer" or "patches".

    """
    ran = run_jobs(samples, head_jobs(samples, course, name), place)
    return replace(heads_of(ran.rows, name), failures=ran.failures)


def head_jobs(samples: Samples, course: Course, name: str = "transformer") -> list[RaceJob]:
    """List the fits; the arguments are those of `heads`."""
    largest = race_jobs(samples, course, [name])
    sizes = head_sizes(contender(name).m_h or 1)
    return [replace(job, m_h=m_h) for m_h in sizes for job in largest]


def heads_of(rows: Sequence[Row], name: str) -> Heads:
    """Compare finished fits of one contender with several head sizes.

    Args:
        rows: The finished fits.
        name: The name of the contender.

    """
    each: dict[int, list[Row]] = {}
    for row in rows:
        each.setdefault(row.job.m_h or 1, []).append(row)
    largest = each.get(contender(name).m_h or 1, [])
    found = [_size(m_h, each[m_h], largest) for m_h in sorted(each)]
    layers = [row.raced.spectra for row in largest if row.raced.spectra]
    means = np.mean(layers, axis=0).tolist() if layers else []
    return Heads(name, tuple(found), tuple(tuple(layer) for layer in means))


def _size(m_h: int, rows: list[Row], largest: list[Row]) -> HeadSize:
    unknown = Interval(math.nan, math.nan, math.nan, 0)
    found, beside, apart = errors_of(rows), errors_of(largest), paired(rows, largest)
    difference, ratio, high, enough = unknown, math.nan, math.nan, False
    if beside is not None and apart is not None:
        difference = apart.interval()
        if beside.mean > 0:
            ratio, high = (1 + end / beside.mean for end in (difference.value, difference.high))
        close = not difference.low > 0 or ratio < SAME
        enough = rows is largest or (close and high <= _MOST)
    return HeadSize(
        m_h,
        rows[0].raced.parameters,
        unknown if found is None else found.interval(),
        difference,
        ratio,
        enough,
        sum(row.raced.status == "diverged" for row in rows),
        high,
    )
