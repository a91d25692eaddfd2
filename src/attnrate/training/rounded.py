"""Results as they are kept: numbers with as many digits as mean something."""

from dataclasses import fields, is_dataclass, replace
from math import isfinite
from typing import Any, TypeVar

T = TypeVar("T")

_DIGITS = 6


def rounded(value: T) -> T:
    """A dataclass with its floats, nested ones too, rounded to six digits; None for NaN and inf."""
    made: T = _rounded(value)
    return made


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if isfinite(value) else None
    if isinstance(value, list | tuple):
        return tuple(map(_rounded, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _rounded(getattr(value, f.name)) for f in fields(value)})
    return value
