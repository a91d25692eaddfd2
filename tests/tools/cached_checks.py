"""Beartype for jaxtyping, which does not check the same nested signature twice.

jaxtyping hands beartype functions that do nothing but have a signature. A function within another
one is made anew at every call, and beartype would need milliseconds each time to write the checks
that it wrote before: a third of the time of a compression. Equal signatures have equal checks.
"""

import inspect
from collections.abc import Callable
from typing import Any

from beartype import beartype

_KNOWN: dict[object, Callable[..., Any]] = {}
_PLAIN = (type(None), bool, int, float, str)


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with beartype's checks of its arguments and its result."""
    key = _key(function)
    if key is None:
        return beartype(function)
    found = _KNOWN.get(key)
    if found is None:
        found = _KNOWN[key] = beartype(function)
    return found


def _key(function: Callable[..., Any]) -> object:
    """What decides the checks; None where they have to be made anew."""
    if "<locals>" not in getattr(function, "__qualname__", ""):
        return None  # made once
    asked = inspect.signature(function)
    hints = [asked.return_annotation, *(each.annotation for each in asked.parameters.values())]
    # a name that stands for a class may mean another one at the next call
    if any(isinstance(hint, str) or "ForwardRef" in repr(hint) for hint in hints):
        return None
    parts: list[object] = [function.__module__, function.__qualname__, asked.return_annotation]
    for each in asked.parameters.values():
        if each.default is not each.empty and type(each.default) not in _PLAIN:
            return None
        parts.append((each.name, each.kind, each.annotation, type(each.default), each.default))
    key = tuple(parts)
    try:
        hash(key)
    except TypeError:
        return None
    return key
