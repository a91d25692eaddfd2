"""What attnrate raises and warns: an error for a wrong request, a warning for a doubtful result."""

from collections.abc import Callable


class AttnrateError(Exception):
    """Base of every error that attnrate raises on purpose."""


class InputError(AttnrateError, ValueError):
    """A request that cannot be carried out: what was wrong, the value, and the way out.

    `value` is the offending value itself, for programs; the message is for people.
    """

    def __init__(self, what: str, value: object, remedy: str = "") -> None:
        self.what = what
        self.value = value
        self.remedy = remedy
        shown = repr(value)
        if len(shown) > 200:
            shown = shown[:197] + "..."
        super().__init__(f"{what}: got {shown}." + (f" {remedy}" if remedy else ""))


class StoreError(AttnrateError):
    """A store of results that cannot be read or written: what happened, where, and the way out."""

    def __init__(self, what: str, path: object, remedy: str = "") -> None:
        self.what = what
        self.path = path
        self.remedy = remedy
        super().__init__(f"{what}: {path}." + (f" {remedy}" if remedy else ""))


class WorkerError(AttnrateError):
    """The processes or machines that should run the trials cannot be started or reached."""


class AccuracyWarning(UserWarning):
    """A result was returned whose error is larger than what was asked for."""


def require_whole(name: str, value: object, least: int, most: int | None = None) -> int:
    """`value` as an int, or an InputError when it is no whole number in [least, most]."""
    wanted = f"a whole number of at least {least}" + ("" if most is None else f", at most {most}")
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InputError(f"{name} must be {wanted}", value, f"Pass {name}={least} or more.")
    number = int(value.__index__())
    if number < least or (most is not None and number > most):
        way_out = f"Pass {name}={least} or more." if number < least else f"At most {name}={most}."
        raise InputError(f"{name} must be {wanted}", value, way_out)
    return number


def require_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """An InputError naming the choices when `value` is none of them."""
    if not any(value is choice or value == choice for choice in choices):
        listed = ", ".join(map(repr, choices))
        raise InputError(f"{name} is not known", value, f"Choose one of {listed}.")


def require_callable(name: str, value: object) -> Callable[..., object]:
    """`value` itself, or an InputError when it cannot be called."""
    if not callable(value):
        raise InputError(f"{name} must be a function", value, f"Pass {name} as a callable.")
    return value
