"""What was read from a file is of the types that its dataclasses name, at every depth."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from attnrate.typed import require_types


@dataclass(frozen=True)
class Inner:
    word: str


@dataclass(frozen=True)
class Outer:
    number: float = 1.0
    whole: int = 1
    flag: bool = True
    kind: Literal["a", "b"] = "a"
    perhaps: float | None = None
    many: tuple[tuple[int | str, ...], ...] = ()
    pair: tuple[int, float] = (1, 2.5)
    rows: list[list[str]] | None = None
    table: dict[str, Any] | None = None
    inner: tuple[Inner, ...] = ()


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"number": 2, "perhaps": math.nan},
        {"many": ((1, "a"), ())},
        {"rows": [["a"], []], "table": {"a": object()}},
        {"inner": (Inner("a"),)},
    ],
)
def test_what_is_right_is_taken(given: dict[str, Any]) -> None:
    require_types(Outer(**given))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("number", value) for value in (None, "1", True, [1.0], 10**400)],
        *[("whole", value) for value in (1.5, True, -(10**400), None)],
        *[("flag", value) for value in (1, None)],
        *[("kind", value) for value in ("c", [], None)],
        *[("perhaps", value) for value in ("a", {})],
        *[("many", value) for value in ((1,), [[1]], ((1.5,),), None)],
        *[("pair", value) for value in ((1,), (1, 2, 3), (1.5, 1), [1, 2])],
        *[("rows", value) for value in ([5], ["a"], [[5]], (("a",),))],
        *[("table", value) for value in ([], 5)],
        *[("inner", value) for value in (("a",), Inner("a"), None)],
    ],
)
def test_what_is_wrong_is_named(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=rf"Outer\.{name} is of another type"):
        require_types(_unchecked(Outer, **{name: value}))


def test_what_is_wrong_below_is_named() -> None:
    with pytest.raises(TypeError, match=r"Inner\.word"):
        require_types(_unchecked(Outer, inner=(_unchecked(Inner, word=5),)))


def _unchecked(of: type, /, **given: Any) -> Any:
    """An instance made past its constructor, as of a file that holds anything."""
    made = object.__new__(of)
    for name in of.__annotations__:
        object.__setattr__(made, name, given.get(name, getattr(of, name, None)))
    return made
