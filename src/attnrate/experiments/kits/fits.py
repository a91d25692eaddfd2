"""Errors of finished fits: all of them, by seed, and in pairs."""

from collections.abc import Sequence
from typing import Any

from attnrate.experiments.contract import Done


def errors(found: Sequence[Done[Any, Any]]) -> list[float]:
    """The errors of those fits that did not diverge."""
    return [one.outcome.error for one in found if one.outcome.error is not None]


def errors_by_seed(found: Sequence[Done[Any, Any]]) -> dict[int, float]:
    """The error of every seed, of fits that differ in nothing but their seeds."""
    return {one.label.seed: error for one in found for error in errors([one])}


def paired(
    above: Sequence[Done[Any, Any]], below: Sequence[Done[Any, Any]], *names: str
) -> list[float]:
    """error / error of every two fits, one of each list, whose labels agree in these fields."""
    found: dict[tuple[object, ...], list[float]] = {}
    for one in below:
        found.setdefault(_fields(one, names), []).extend(errors([one]))
    return [
        a / b for one in above for a in errors([one]) for b in found.get(_fields(one, names), [])
    ]


def _fields(one: Done[Any, Any], names: Sequence[str]) -> tuple[object, ...]:
    return tuple(getattr(one.label, name) for name in names)
