"""What attnrate raises and warns: an error for a wrong request, a warning for a doubtful result."""

import difflib
import math
from collections.abc import Callable, Collection, Sequence
from numbers import Real
from typing import TypeVar

T = TypeVar("T")
#: The largest whole number that any setting takes: what 64 bits hold
LARGEST = 2**63 - 1


class AttnrateError(Exception):
    """Base of every error that attnrate raises on purpose."""


class _ExplainedError(AttnrateError):
    """What was wrong, with which value, and the way out; the message is for people."""

    def __init__(self, what: str, shown: str, remedy: str) -> None:
        self.what = what
        self.remedy = remedy
        super().__init__(f"{what}: {shown}." + (f" {remedy}" if remedy else ""))


class InputError(_ExplainedError, ValueError):
    """A request that cannot be carried out; `value` is the offending value, for programs."""

    def __init__(self, what: str, value: object, remedy: str = "") -> None:
        self.value = value
        super().__init__(what, f"got {_shown(value)}", remedy)


class StoreError(_ExplainedError):
    """A store of results that cannot be read or written; `path` is where."""

    def __init__(self, what: str, path: object, remedy: str = "") -> None:
        self.path = path
        super().__init__(what, str(path), remedy)


class WorkerError(AttnrateError):
    """The processes or machines that should run the trials cannot be started or reached."""


class AccuracyWarning(UserWarning):
    """A result was returned whose error is larger than what was asked for."""


def is_out_of_memory(problem: BaseException) -> bool:
    """Whether the system had no memory left: numpy says MemoryError, torch a RuntimeError."""
    refused = "allocate memory" in str(problem) or "not enough memory" in str(problem)
    return isinstance(problem, MemoryError) or (isinstance(problem, RuntimeError) and refused)


def _shown(value: object) -> str:
    """The value for a message, cut to 200 characters; some values cannot be written at all."""
    try:
        shown = repr(value)
    except (RecursionError, ValueError):  # nested too deeply; a number of thousands of digits
        return f"a value that is too large to show, of type {type(value).__name__}"
    return shown if len(shown) <= 200 else shown[:197] + "..."


def require_whole(name: str, value: object, least: int, most: int | None = None) -> int:
    """`value` as an int, or an InputError when it is no whole number in [least, most]."""
    wanted = f"a whole number of at least {least}" + ("" if most is None else f", at most {most}")
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        same = isinstance(value, float) and value.is_integer() and value >= least
        way_out = f"Write {name}={int(value)}." if same else f"Pass {name}={least} or more."  # type: ignore[call-overload]
        raise InputError(f"{name} must be {wanted}", value, way_out)
    number = int(value.__index__())
    top = LARGEST if most is None else most
    if number < least or number > top:
        way_out = f"Pass {name}={least} or more." if number < least else f"At most {name}={top}."
        raise InputError(f"{name} must be {wanted}", value, way_out)
    return number


def require_number(
    name: str, value: object, above: float | None = None, most: float | None = None
) -> float:
    """`value` as a float, or an InputError when it is not finite, not above `above` or too large.

    `most` is the largest that is taken; without it any finite number is.
    """
    wanted = "a finite number" + ("" if above is None else f" greater than {above:g}")
    wanted += "" if most is None else f", at most {most:g}"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"{name} must be {wanted}", value, f"Pass {name} as a number.")
    number = float(value)
    low, high = above is not None and number <= above, most is not None and number > most
    if not math.isfinite(number) or low or high:
        raise InputError(f"{name} must be {wanted}", value, f"Pass {name} as {wanted}.")
    return number


def require_choice(name: str, value: object, choices: tuple[T, ...]) -> T:
    """The choice that `value` is, or an InputError naming the choices when it is none of them."""
    for choice in choices:
        if value is choice or value == choice:
            return choice
    listed = ", ".join(map(repr, choices))
    raise InputError(f"{name} is not known", value, f"Choose one of {listed}.")


def require_none(what: str, found: Sequence[object], remedy: str = "") -> None:
    """An InputError that shows what was found, when anything was that should not be there."""
    if found:
        raise InputError(what, found, remedy)


def hint(name: str, known: Collection[str]) -> str:
    """A remedy for a name that is not known: the nearest one, and all there are."""
    listed = ", ".join(sorted(known)) or "none"
    near = difflib.get_close_matches(name, known, 1, 0.5)
    return (f"Did you mean {near[0]!r}? " if near else "") + f"Known: {listed}."


def require_callable(name: str, value: object) -> Callable[..., object]:
    """`value` itself, or an InputError when it cannot be called."""
    if not callable(value):
        raise InputError(f"{name} must be a function", value, f"Pass {name} as a callable.")
    return value
