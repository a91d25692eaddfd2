"""Errors of contenders over folds, seeds and units, compared in pairs, with intervals.

An error is known for each contender, fold, seed and bundle of units. Three folds with three seeds
are not nine independent observations: the seeds of a fold see the same held-out samples, and the
samples of a unit overlap. So the variance of a mean has two parts:

- of the data: errors (or differences) are averaged over seeds, and the deviations from their mean
  are added up by unit, over all folds; a unit that lies in two folds counts once. This part is what
  other held-out stretches would have changed. The deviations are those from the mean over all
  folds, so that folds that disagree widen the interval.
- of training: the variance between the seeds of a fold, whose errors all units have in common,
  divided by the number of folds times seeds.

The sum has Welch and Satterthwaite's degrees of freedom. Differences are paired: the same fold, the
same seed, the same units.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from attnrate.choose.jobs import Row
from attnrate.statistics import Interval, t_quantile


@dataclass(frozen=True, eq=False)
class Errors:
    """The errors of one contender.

    Attributes:
        values: The mean error of each bundle of units, for each seed; a bundle is a column.
        fold: The fold of each column.
        unit: The bundle of each column.
        weight: The number of held-out samples in each column.

    """

    values: Float64[np.ndarray, "seeds columns"]
    fold: Int64[np.ndarray, " columns"]
    unit: Int64[np.ndarray, " columns"]
    weight: Float64[np.ndarray, " columns"]

    @property
    def mean(self) -> float:
        """The mean over folds, samples and seeds."""
        return float((self.values.mean(0) * self.weight).sum() / self.weight.sum())

    def minus(self, other: "Errors") -> "Errors":
        """Pair the errors with those of another contender on the same folds.

        Args:
            other: The other; where one has a single seed, that stands for each of the other's.

        """
        return Errors(self.values - other.values, self.fold, self.unit, self.weight)

    def interval(self) -> Interval:
        """Give the mean with its 95 % interval; the ends are nan where there is but one unit."""
        data, units = _of_data(self)
        seeds, freedom = _of_seeds(self)
        variance = data + seeds
        if math.isnan(variance):
            return Interval(self.mean, math.nan, math.nan, units)
        parts = [data**2 / (units - 1)] + ([seeds**2 / freedom] if freedom else [])
        freed = variance**2 / sum(parts) if variance > 0 and sum(parts) > 0 else float(units - 1)
        half = t_quantile(freed) * math.sqrt(variance)
        return Interval(self.mean, self.mean - half, self.mean + half, units)


def errors_of(rows: list[Row]) -> Errors | None:
    """Collect the errors of one contender.

    Args:
        rows: Its finished jobs.

    Returns:
        Its errors, of the seeds with which no fold diverged; None if there is no such seed.

    """
    folds = sorted({row.job.fold for row in rows})
    found: dict[int, dict[int, Row]] = {}
    for row in rows:
        if row.raced.judged is not None:
            found.setdefault(row.job.seed, {})[row.job.fold] = row
    whole = [found[seed] for seed in sorted(found) if len(found[seed]) == len(folds)]
    if not whole:
        return None
    judged = [each for fold in folds if (each := whole[0][fold].raced.judged) is not None]
    values = [np.concatenate([_errors(seed[fold]) for fold in folds]) for seed in whole]
    return Errors(
        np.stack(values),
        np.repeat(folds, [len(each.units) for each in judged]).astype(np.int64),
        np.concatenate([each.units for each in judged]).astype(np.int64),
        np.concatenate([each.counts for each in judged]).astype(float),
    )


def paired(one: list[Row], other: list[Row]) -> Errors | None:
    """Collect the differences of two contenders, the first minus the second.

    Args:
        one: The finished jobs of the first.
        other: Those of the second.

    Returns:
        The differences for the seeds that both have; where one of them is solved and needs no
        seed, its error stands for each seed. None if nothing can be paired.

    """
    seeds = [_whole_seeds(rows) for rows in (one, other)]
    common = seeds[0] & seeds[1]
    if len(seeds[0]) > 1 and len(seeds[1]) > 1:
        one = [row for row in one if row.job.seed in common]
        other = [row for row in other if row.job.seed in common]
    first, second = errors_of(one), errors_of(other)
    return None if first is None or second is None else first.minus(second)


def _whole_seeds(rows: list[Row]) -> set[int]:
    bad = {row.job.seed for row in rows if row.raced.judged is None}
    return {row.job.seed for row in rows} - bad


def _errors(row: Row) -> Float64[np.ndarray, " columns"]:
    assert row.raced.judged is not None
    return np.array(row.raced.judged.errors)


def _of_data(errors: Errors) -> tuple[float, int]:
    """The variance of the mean by units, and the number of units."""
    away = (errors.values.mean(0) - errors.mean) * errors.weight
    _, where = np.unique(errors.unit, return_inverse=True)
    sums = np.bincount(where, weights=away)
    count = len(sums)
    if count < 2:
        return math.nan, count
    total = float(np.square(sums).sum()) / float(errors.weight.sum()) ** 2
    return total * count / (count - 1), count


def _of_seeds(errors: Errors) -> tuple[float, int]:
    """The variance of the mean by seeds within folds, and its degrees of freedom."""
    seeds = len(errors.values)
    if seeds < 2:
        return 0.0, 0
    total, whole = 0.0, float(errors.weight.sum())
    folds = np.unique(errors.fold)
    for fold in folds:
        here = errors.fold == fold
        weight = errors.weight[here]
        means = (errors.values[:, here] * weight).sum(1) / weight.sum()
        # the mean over all is a sum of the folds' means, each by its share of the samples
        total += (float(weight.sum()) / whole) ** 2 * float(means.var(ddof=1)) / seeds
    return total, len(folds) * (seeds - 1)
