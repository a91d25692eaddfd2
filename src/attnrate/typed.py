"""Checking that values read from a file have the types that their dataclasses name."""

import sys
import types
from dataclasses import is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


def require_types(thing: Any) -> None:
    """Raise a TypeError with the first field, in `thing` or below it, that has another type.

    A whole number may stand in place of a float, if it is not larger than a float can be.

    Args:
        thing: An instance of a dataclass whose fields are words, numbers, tuples, lists, dicts
            and dataclasses.

    """
    for name, kind in get_type_hints(type(thing)).items():
        value = getattr(thing, name)
        if not _is(value, kind):
            shown = repr(value)[:60]
            raise TypeError(f"{type(thing).__name__}.{name} is of another type: {shown}")


def _is(value: Any, kind: Any) -> bool:
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(_is(value, one) for one in inner)
    if origin is Literal:
        return any(value == one and type(value) is type(one) for one in inner)
    if origin is tuple:
        return isinstance(value, tuple) and _are(value, inner)
    if origin is list:
        return isinstance(value, list) and all(_is(one, inner[0]) for one in value)
    if origin is dict:
        return isinstance(value, dict)
    if kind in (float, int):
        wanted = (float, int) if kind is float else int
        plain = isinstance(value, wanted) and not isinstance(value, bool)
        return plain and (isinstance(value, float) or abs(value) <= sys.float_info.max)
    if not isinstance(value, kind):
        return False
    if is_dataclass(kind):
        require_types(value)
    return True


def _are(values: tuple[Any, ...], kinds: tuple[Any, ...]) -> bool:
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return all(_is(value, kinds[0]) for value in values)
    return len(values) == len(kinds) and all(map(_is, values, kinds))
