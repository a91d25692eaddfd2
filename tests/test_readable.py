"""help() and editors show signatures as they are written, without validators and long unions."""

import inspect
import pydoc
from collections.abc import Callable, Sequence
from typing import Annotated

import pytest

import attnrate as ar
from attnrate.readable import Written
from attnrate.settings import Count, Positive, by, checked

Some = Annotated[int | str, by(lambda name, value: value)]
_Hidden = Annotated[
    int | Callable[[int], int] | Callable[[str], int], by(lambda name, value: value)
]


def shown(function: Callable[..., object]) -> str:
    return str(inspect.signature(function))


@checked
def asked(
    size: Count,
    scale: Positive | None = None,
    *rest: Annotated[Sequence[float], by(lambda name, value: value)],
    some: Some = 3,
    hidden: _Hidden = 4,
    later: "Count | None" = None,
    plain: list[int] | None = None,
) -> "dict[str, int]":
    return {}


def test_types_are_shown_as_they_are_written() -> None:
    assert shown(asked) == (
        "(size: int, scale: float | None = None, *rest: Sequence[float], some: Some = 3, "
        "hidden: int | Callable = 4, later: Count | None = None, plain: list[int] | None = None) "
        "-> dict[str, int]"
    )


def test_a_function_without_source_is_shown_by_its_types() -> None:
    space: dict[str, object] = {"Count": Count, "checked": checked}
    exec("@checked\ndef made(size: Count | None = None) -> int: return 1", space)  # noqa: S102
    made = space["made"]
    assert callable(made)
    assert shown(made) == "(size: int | None = None) -> int"


def test_the_type_itself_is_still_there() -> None:
    annotation = inspect.signature(asked).parameters["size"].annotation
    assert isinstance(annotation, Written)
    assert annotation.kind == Count


@pytest.mark.parametrize(
    "name", [name for name in ar.__all__ if callable(getattr(ar, name)) and name[0].islower()]
)
def test_no_public_signature_shows_a_validator(name: str) -> None:
    text = pydoc.plain(pydoc.render_doc(getattr(ar, name)))
    first = text.split("\n\n")[1].splitlines()[0]
    assert "Annotated" not in first
    assert "by(" not in first
    assert "numpy._typing" not in first


def test_the_constructor_of_a_class_is_shown_too() -> None:
    assert "(d: int, out: int, n: int = 32, m_h: int = 8" in shown(ar.Transformer)
    assert "rho: Coupling | Callable | Module, length: int" in shown(ar.AttentionTarget)


def test_a_type_variable_is_shown_by_its_bound() -> None:
    fit = inspect.signature(ar.fit)
    assert repr(fit.parameters["model"].annotation) == "Module | Callable[[], Module]"
    assert repr(fit.return_annotation) == "Fit[Module]"
    assert repr(inspect.signature(ar.Sized).parameters["job"].annotation) == "Job"
