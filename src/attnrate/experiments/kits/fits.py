"""Errors of finished fits: by seed, in pairs, and as a curve with intervals."""

from collections.abc import Sequence
from typing import Any

from attnrate.experiments.contract import Done
from attnrate.figures.figure import Series
from attnrate.statistics import Interval


def errors(done: Sequence[Done[Any, Any]]) -> list[float]:
    """The errors of those fits that did not diverge."""
    return [one.outcome.error for one in done if one.outcome.error is not None]


def errors_by_seed(done: Sequence[Done[Any, Any]]) -> dict[int, float]:
    """The errors of fits that differ in nothing but their seeds, without those that diverged."""
    return {one.label.seed: error for one in done for error in errors([one])}


def paired(
    above: Sequence[Done[Any, Any]], below: Sequence[Done[Any, Any]], *fields: str
) -> list[float]:
    """error / error of every two fits, one of each list, whose labels agree in these fields."""
    found: dict[tuple[object, ...], list[float]] = {}
    for one in below:
        found.setdefault(_fields(one, fields), []).extend(errors([one]))
    return [
        a / b for one in above for a in errors([one]) for b in found.get(_fields(one, fields), [])
    ]


def _fields(done: Done[Any, Any], names: Sequence[str]) -> tuple[object, ...]:
    return tuple(getattr(done.label, name) for name in names)


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
