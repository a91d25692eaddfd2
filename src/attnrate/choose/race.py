"""The race: contenders with equally many parameters, over seeds and folds, compared in pairs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from attnrate.choose.comparing import errors_of, paired
from attnrate.choose.contender import Shape, contender, contenders
from attnrate.choose.jobs import (
    Place,
    RaceJob,
    Row,
    by_contender,
    digest_of,
    folded,
    run_jobs,
    training_seconds,
)
from attnrate.choose.judging import constant_errors
from attnrate.choose.on_folds import rung_rows
from attnrate.choose.planning import Course
from attnrate.choose.rungs import WORDS, Class
from attnrate.choose.samples import Samples
from attnrate.shown import Shown
from attnrate.statistics import Interval

if TYPE_CHECKING:
    import pandas as pd

#: Errors that differ by less than this factor are as good as each other
SAME = 1.01
#: The cheapest of those that are tied has at most this many times the error of the best
_CLOSE = 1.02
_NOTHING = Interval(math.nan, math.nan, math.nan, 0)


@dataclass(frozen=True)
class Racer:
    """One contender after the race.

    Attributes:
        name: Its name.
        title: Its name on pages.
        parameters: The number of its parameters.
        fits: The number of its fits.
        diverged: How many of them diverged; a seed counts only where no fold diverged.
        mse: The held-out error in units of the data, with its interval; not known if all diverged.
        share: The error beside the held-out variance, with its interval.
        difference: The error minus that of the best, paired by fold, seed and unit.
        ratio: The error beside that of the best, of the seeds that both have; nan if all diverged.
        tied: Whether it is as good as the best: the interval of the difference holds 0 or ends
            below it, or the ratio is below 1.01.
        seconds: The mean seconds of processor time of a training, on the machine that ran it.
        inference: The mean seconds that 1,000 samples take there.
        nominal: The seconds of a training by the fixed model of costs, the same everywhere.
        memory: The bytes that training takes, estimated, apart from the data.
        rates: The step size of each fit (the ridge of a map that is solved).

    Examples:
        >>> racer = ar.Racer(
        ...     name="gru", title="GRU", parameters=5978, fits=9, diverged=0,
        ...     mse=ar.Interval(2.0, 1.9, 2.1, 9), share=ar.Interval(0.4, 0.38, 0.42, 9),
        ...     difference=ar.Interval(0.0, 0.0, 0.0, 9), ratio=1.0, tied=True, seconds=3.2,
        ...     inference=0.01, nominal=3.0, memory=10_000_000, rates=(0.01,) * 9,
        ... )
        >>> racer.share.shown, racer.tied
        ('0.4 [0.38, 0.42]', True)

    """

    name: str
    title: str
    parameters: int
    fits: int
    diverged: int
    mse: Interval
    share: Interval
    difference: Interval
    ratio: float
    tied: bool
    seconds: float
    inference: float
    nominal: float
    memory: int
    rates: tuple[float, ...]


@dataclass(frozen=True, repr=False)
class Race(Shown):
    """The outcome of a race.

    Attributes:
        racers: The contenders, the best first, those that diverged last.
        steps: The number of steps of each fit.
        seeds: The number of seeds.
        folds: The number of folds.
        variance: The held-out variance, what a share is a share of.
        failures: Why jobs failed that are no part of the result.
        least_squares: What least squares leave on the same folds, of the class of the ladder that
            is enough; None if they were not asked for, or had too few samples.

    Examples:
        >>> same = ar.Interval(0.0, 0.0, 0.0, 9)
        >>> def racer(name: str, error: float, tied: bool, nominal: float) -> ar.Racer:
        ...     mse = ar.Interval(error, 0.9 * error, 1.1 * error, 9)
        ...     return ar.Racer(name, name.upper(), 6000, 9, 0, mse, mse, same, error / 0.5, tied,
        ...                     nominal, 0.01, nominal, 10_000_000, (0.01,) * 9)
        >>> race = ar.Race((racer("gru", 0.5, True, 9.0), racer("tcn", 0.505, True, 2.0),
        ...                 racer("linear", 0.9, False, 0.1)), 500, 3, 3, 1.0)
        >>> race.best.title, race.tied, race.cheapest.title
        ('GRU', ('gru', 'tcn'), 'TCN')

    """

    racers: tuple[Racer, ...]
    steps: int
    seeds: int
    folds: int
    variance: float
    failures: tuple[str, ...] = ()
    least_squares: Racer | None = None

    @property
    def solved(self) -> bool:
        """Whether least squares leave surely less than every model, by 1 % at least."""
        least = self.least_squares
        return least is not None and least.difference.high < 0 and least.ratio * SAME < 1

    @property
    def outrun(self) -> bool:
        """Whether least squares leave surely more than the best model, by 1 % at least."""
        least = self.least_squares
        return least is not None and least.difference.low > 0 and least.ratio >= SAME

    @property
    def best(self) -> Racer | None:
        """The contender with the least error; None if all diverged."""
        first = self.racers[0] if self.racers else None
        return first if first is not None and first.mse.known else None

    @property
    def tied(self) -> tuple[str, ...]:
        """The names of those that are as good as the best, itself included."""
        return tuple(each.name for each in self.racers if each.tied)

    @property
    def cheapest(self) -> Racer | None:
        """The tied one with the least nominal seconds of training; None if all diverged.

        It has at most 1.02 times the error of the best: a wide interval can hold 0 far from it.
        Nominal seconds do not depend on the machine, so that the same race has the same answer.
        """
        tied = [each for each in self.racers if each.tied and each.ratio <= _CLOSE]
        return min(tied, key=lambda one: one.nominal, default=None)

    def racer(self, name: str) -> Racer:
        """Give the contender of a name; a KeyError if it did not take part.

        Args:
            name: The name.

        """
        return {each.name: each for each in self.racers}[name]

    def to_frame(self) -> "pd.DataFrame":
        """Return one row for each contender, the best first."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "contender": each.name,
                    "parameters": each.parameters,
                    "share": each.share.value,
                    "share_low": each.share.low,
                    "share_high": each.share.high,
                    "mse": each.mse.value,
                    "mse_low": each.mse.low,
                    "mse_high": each.mse.high,
                    "ratio": each.ratio,
                    "difference": each.difference.value,
                    "difference_low": each.difference.low,
                    "difference_high": each.difference.high,
                    "tied": each.tied,
                    "fits": each.fits,
                    "diverged": each.diverged,
                    "seconds": each.seconds,
                    "inference": each.inference,
                    "memory": each.memory,
                }
                for each in self.racers
            ]
        )

    def _table(self) -> "pd.DataFrame":
        return self.to_frame()

    def __str__(self) -> str:
        if self.best is None:
            return "race: no contender has a finite error"
        lines = [f"race over {self.folds} folds × {self.seeds} seeds, {self.steps} steps a fit"]
        for each in self.racers:
            said = f"{each.share.shown} of the variance" if each.mse.known else "diverged"
            same = ", as good as the best" if each.tied and each is not self.best else ""
            lines.append(f"  {each.title}: {said}, {each.seconds:.1f} s a fit{same}")
        return "\n".join(lines)


def race(
    samples: Samples,
    course: Course,
    place: Place,
    names: Sequence[str] | None = None,
    rung: Class | None = None,
) -> Race:
    """Let contenders learn the samples, with equally many parameters and steps.

    A race that was killed goes on where it was when it is called again with the same store.

    Args:
        samples: The samples.
        course: How much each contender is trained; `planned_steps` gives the steps of some minutes.
        place: Where the fits run and are kept.
        names: The contenders. Default: all of them.
        rung: A class of the ladder whose least squares are judged on the same folds.

    Returns:
        The contenders with their errors and how they compare.

    """
    ran = run_jobs(samples, race_jobs(samples, course, names), place)
    found = race_of(samples, ran.rows, course)
    least = None
    if rung is not None:
        least = least_squares_of(samples, rung, ran.rows, found, course.seed, place.progress)
    return replace(found, failures=ran.failures, least_squares=least)


def least_squares_of(
    samples: Samples,
    name: Class,
    rows: Sequence[Row],
    found: Race,
    seed: int = 0,
    progress: bool | None = None,
) -> Racer | None:
    """Compare the least squares of a class with the best model of a race, on its folds.

    Args:
        samples: The samples.
        name: A class of the ladder that is the same at all times.
        rows: The finished fits of the race.
        found: The race.
        seed: The seed by which a panel is divided into folds.
        progress: As in `sweep`.

    Returns:
        What they leave; None if either has no finite error, or a fold too few samples.

    """
    if found.best is None:
        return None
    own = rung_rows(samples, name, found.folds, seed, progress)
    errors = errors_of(own) if own else None
    if errors is None:
        return None
    mse = errors.interval()
    difference, ratio, tied = _compared(own, by_contender(rows)[found.best.name])
    raced = [row.raced for row in own]
    seconds = float(np.mean([each.seconds for each in raced]))
    return Racer(
        name,
        f"least squares of {WORDS[name]}",
        raced[0].parameters,
        len(own),
        0,
        mse,
        scaled(mse, found.variance),
        difference,
        ratio,
        tied,
        seconds,
        float(np.mean([each.judged.inference for each in raced if each.judged is not None])),
        seconds,
        raced[0].memory,
        tuple(each.rate for each in raced),
    )


def race_jobs(
    samples: Samples, course: Course, names: Sequence[str] | None = None
) -> list[RaceJob]:
    """List the fits of a race; the arguments are those of `race`."""
    digest = digest_of(samples)
    jobs = []
    for kind in [contender(name) for name in names or contenders()]:
        # what a solved map does depends neither on a seed nor on these settings
        own = replace(course, seeds=1, parameters=0, steps=0, batch=0) if kind.solved else course
        jobs += [
            RaceJob(
                *(digest, kind.name, kind.m_h, own.parameters, own.steps, own.batch),
                *(fold, own.folds, own.seed, start),
            )
            for start in range(own.seed, own.seed + own.seeds)
            for fold in range(own.folds)
        ]
    return jobs


def race_of(samples: Samples, rows: Sequence[Row], course: Course) -> Race:
    """Compare finished fits.

    Args:
        samples: The samples.
        rows: The finished fits.
        course: How much the contenders were trained.

    """
    each = by_contender(rows)
    errors = {name: errors_of(those) for name, those in each.items()}
    known = {name: found for name, found in errors.items() if found is not None}
    best = min(known, key=lambda name: known[name].mean, default=None)
    variance = _variance(samples, course.folds, course.seed)
    racers = [
        _racer(name, those, each.get(best or ""), variance, Shape.of(samples))
        for name, those in each.items()
    ]
    # the least error first, and what has none last
    racers.sort(key=lambda one: (not one.mse.known, one.mse.value if one.mse.known else 0.0))
    return Race(tuple(racers), course.steps, course.seeds, course.folds, variance)


def _racer(
    name: str, rows: list[Row], best: list[Row] | None, variance: float, shape: Shape
) -> Racer:
    kind, job, raced = contender(name), rows[0].job, [row.raced for row in rows]
    found = errors_of(rows)
    mse = _NOTHING if found is None else found.interval()
    apart, ratio, same = _compared(rows, best)
    seen = [each.judged.inference for each in raced if each.judged is not None]
    return Racer(
        name,
        kind.title,
        raced[0].parameters,
        len(rows),
        sum(each.status == "diverged" for each in raced),
        mse,
        scaled(mse, variance),
        apart,
        ratio,
        same,
        float(np.mean([each.seconds for each in raced])),
        float(np.mean(seen)) if seen else math.nan,
        training_seconds(name, shape, raced[0].parameters, job.steps, job.batch),
        max(each.memory for each in raced),
        tuple(each.rate for each in raced),
    )


def _compared(rows: list[Row], best: list[Row] | None) -> tuple[Interval, float, bool]:
    """The difference from the best, the ratio, and whether both are as good as each other."""
    apart = None if best is None else paired(rows, best)
    if apart is None or best is None:
        return _NOTHING, math.nan, False
    if rows is best:
        return Interval(0.0, 0.0, 0.0, apart.interval().count), 1.0, True
    beside = errors_of(best)
    assert beside is not None
    difference = apart.interval()
    ratio = 1 + difference.value / beside.mean if beside.mean > 0 else math.nan
    # without an interval nothing says that they differ
    return difference, ratio, not difference.low > 0 or ratio < SAME


def scaled(interval: Interval, unit: float) -> Interval:
    """Give an interval in another unit.

    Args:
        interval: The interval.
        unit: What becomes 1.

    """
    if not unit > 0:
        return _NOTHING
    value, low, high = (each / unit for each in (interval.value, interval.low, interval.high))
    return Interval(value, low, high, interval.count)


def _variance(samples: Samples, folds: int, seed: int) -> float:
    """The held-out variance: squared deviations from the mean of each fold, over all folds."""
    total, count = 0.0, 0
    for fold in folded(samples, folds, seed):
        errors, sizes = constant_errors(samples, fold.held)
        total += float((errors * sizes).sum())
        count += len(fold.held)
    return total / count
