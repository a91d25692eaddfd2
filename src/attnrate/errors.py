"""What attnrate raises and warns: an error for a wrong request, a warning for a doubtful result."""

import difflib
import math
import os
import traceback
from collections.abc import Callable, Collection, Sequence
from numbers import Real
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
#: The largest whole number that any setting takes: what 64 bits hold
LARGEST = 2**63 - 1
#: Where the sentence of an InputError holds the value
_HERE = "{value}"
#: The folder of attnrate
_HOME = Path(__file__).parent


class AttnrateError(Exception):
    """An error that attnrate raises on purpose; the base of all of them.

    Examples:
        >>> try:
        ...     ar.pod("u * v", (0, 1))
        ... except ar.AttnrateError as problem:
        ...     print(type(problem).__name__)
        InputError

    """


class _ExplainedError(AttnrateError):
    """An error whose message says what was wrong, with which value, and what to do about it.

    Args:
        what: What was wrong: a sentence without its full stop.
        shown: What the message adds to the sentence, such as ": got 3".
        remedy: What to do instead: whole sentences, or "".
        given: The arguments from which a subclass makes the error again.

    """

    def __init__(self, what: str, shown: str, remedy: str, given: tuple[object, ...]) -> None:
        self.what = what
        self.remedy = remedy
        self._given = given
        super().__init__(f"{what}{shown}." + (f" {remedy}" if remedy else ""))

    def __reduce__(self) -> tuple[object, ...]:
        # an exception is pickled by its message alone, from which it cannot be made again
        return type(self), self._given

    def _render_traceback_(self) -> list[str]:
        """The lines that IPython shows: the user's frames alone; the message says the rest."""
        return _brief(self).splitlines()


class InputError(_ExplainedError, ValueError):
    """A request that cannot be carried out: a wrong value, or values that do not go together.

    The message says what was wrong, the value, and what to do. It is raised before any long work
    begins. It is a ValueError too.

    Args:
        what: What was wrong. The value is put where the sentence has "{value}"; a sentence without
            it ends in ": got VALUE".
        value: The value that was wrong.
        remedy: What to do instead; whole sentences.

    Attributes:
        what: What was wrong: the sentence, which may hold the value.
        value: The value that was wrong, for programs.
        remedy: What to do instead.

    Examples:
        >>> try:
        ...     ar.pod(lambda u, v: u * v, (0, 1), max_rank=0)
        ... except ar.InputError as problem:
        ...     print(problem)
        max_rank must be a whole number of at least 1: got 0. Pass max_rank=1 or more.

    """

    def __init__(self, what: str, value: object, remedy: str = "") -> None:
        self.value = value
        shown, given = _shown(value), (what, value, remedy)
        if _HERE in what:
            super().__init__(what.replace(_HERE, shown), "", remedy, given)
        else:
            super().__init__(what, f": got {shown}", remedy, given)


class StoreError(_ExplainedError):
    """A store or a record of results that cannot be read or written.

    Args:
        what: What was wrong.
        path: The file; None where there is none.
        remedy: What to do; whole sentences.

    Attributes:
        what: What was wrong.
        path: The file, for programs.
        remedy: What to do.

    Examples:
        >>> spec = {"target": {"kind": "spectral", "alpha": 1.0, "rank": 2, "length": 4},
        ...         "model": {"kind": "coupling", "m_h": 1}, "recipe": {"steps": 1}}
        >>> with open("notes.txt", "w") as file:
        ...     _ = file.write("This is no store of results.")
        >>> try:
        ...     ar.sweep(spec, store="notes.txt", progress=False)
        ... except ar.StoreError as problem:
        ...     print("notes.txt" in str(problem.path))
        True

    """

    def __init__(self, what: str, path: str | os.PathLike[str] | None, remedy: str = "") -> None:
        self.path = path
        super().__init__(what, f": {path}", remedy, (what, path, remedy))


class WorkerError(AttnrateError):
    """The processes or machines that should run the trials cannot be started or reached."""


class AccuracyWarning(UserWarning):
    """A result was returned whose error is larger than what was asked for.

    Examples:
        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     rough = ar.pod(lambda u, v: abs(u - v) ** 0.1, (0, 1), max_evaluations=5000)
        >>> caught[0].category.__name__, rough.converged
        ('AccuracyWarning', False)

    """


def is_out_of_memory(problem: BaseException) -> bool:
    """Whether an error says that memory ran out: MemoryError of numpy, RuntimeError of torch."""
    refused = "allocate memory" in str(problem) or "not enough memory" in str(problem)
    return isinstance(problem, MemoryError) or (isinstance(problem, RuntimeError) and refused)


def _brief(problem: BaseException) -> str:
    """A traceback of an error and of its causes with the user's frames alone."""
    frames = traceback.extract_tb(problem.__traceback__)
    theirs = [one for one in frames if not is_inner(one.filename)]
    head = "" if problem.__cause__ is None else _brief(problem.__cause__) + "\n"
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(theirs or frames)]
    return head + "".join([*lines, *traceback.format_exception_only(problem)])


def is_inner(file: str) -> bool:
    """Whether a file is part of attnrate or of an installed package, or was made by beartype."""
    path = Path(file)
    return _HOME in path.parents or "site-packages" in path.parts or file.startswith("<@beartype")


def _shown(value: object) -> str:
    """The value as text for a message, at most 200 characters of it, on one line."""
    kind = type(value).__name__
    try:
        shown = repr(value)
    except (RecursionError, ValueError):  # nested too deeply; a number of thousands of digits
        return f"a value that is too large to show, of type {kind}"
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and ("\n" in shown or len(shown) > 200):
        return f"{kind} of shape {tuple(shape)}"
    if "\n" in shown and not isinstance(value, str):
        return f"a {kind}"
    return shown if len(shown) <= 200 else shown[:197] + "..."


def require_whole(name: str, value: object, least: int, most: int | None = None) -> int:
    """`value` as an int; InputError where it is not a whole number from `least` to `most`."""
    wanted = f"a whole number of at least {least}" + ("" if most is None else f", at most {most}")
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        near = isinstance(value, float) and math.isfinite(value) and round(value) >= least
        way_out = f"Write {name}={round(value)}." if near else f"Pass {name}={least} or more."  # type: ignore[call-overload]
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
    """`value` as a float; InputError where it is not finite, not above `above`, or above `most`.

    Without `above` and `most`, every finite number is taken.
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
    """The one of `choices` that equals `value`; InputError, which lists them, where none does."""
    for choice in choices:
        if value is choice or value == choice:
            return choice
    listed = ", ".join(map(repr, choices))
    raise InputError(f"{name} is not known", value, f"Choose one of {listed}.")


def require_none(what: str, found: Sequence[object], remedy: str = "") -> None:
    """Raise an InputError about `found` where it is not empty: nothing should have been found."""
    if found:
        raise InputError(what, found, remedy)


def hint(name: str, known: Collection[str]) -> str:
    """A remedy for a name that is not known: the nearest known name, then all of them."""
    listed = ", ".join(sorted(known)) or "none"
    near = difflib.get_close_matches(name, known, 1, 0.5)
    return (f"Did you mean {near[0]!r}? " if near else "") + f"Known: {listed}."


def require_callable(name: str, value: object) -> Callable[..., object]:
    """`value` itself; InputError where it cannot be called."""
    if not callable(value):
        raise InputError(f"{name} must be a function", value, f"Pass {name} as a callable.")
    return value
