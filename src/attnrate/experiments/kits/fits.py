"""Errors of finished fits: by seed, two by two, and as a curve with intervals."""

from collections.abc import Sequence
from typing import Any

from attnrate.experiments.contract import Done
from attnrate.figures.figure import Series
from attnrate.statistics import Interval, mean

#: Finished jobs whose outcomes have an `error`, None if the fit diverged
Fits = Sequence[Done[Any, Any]]


def errors(fits: Fits) -> list[float]:
    """The errors of those fits that did not diverge."""
    return [one.outcome.error for one in fits if one.outcome.error is not None]


def errors_by_seed(fits: Fits) -> dict[int, float]:
    """The errors of fits that differ in their seeds alone, by seed."""
    return {int(one.label.seed): error for one in fits for error in errors([one])}


def paired(above: Fits, below: Fits, *names: str) -> list[float]:
    """error / error of every two fits, one of each list, whose labels agree in these fields."""
    found: dict[tuple[object, ...], list[float]] = {}
    for one in below:
        found.setdefault(_place(one, names), []).extend(errors([one]))
    return [
        a / b for one in above for a in errors([one]) for b in found.get(_place(one, names), [])
    ]


def _place(fit: Done[Any, Any], names: Sequence[str]) -> tuple[object, ...]:
    return tuple(getattr(fit.label, name) for name in names)


def curve(label: str, points: Sequence[tuple[float, Interval]], group: str | None = None) -> Series:
    """Measured values with their intervals, over x."""
    return Series(
        label,
        tuple(x for x, _ in points),
        tuple(one.value for _, one in points),
        tuple(one.low for _, one in points),
        tuple(one.high for _, one in points),
        group=group,
    )


def spread(values: Sequence[float]) -> Interval:
    """The mean of the values, with the least and the largest of them in place of an interval."""
    return Interval(mean(values).value, min(values), max(values), len(values))
