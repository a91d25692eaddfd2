"""Settings: what types allow goes in, anything else is named; tables and Python say the same."""

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnrate.errors import InputError, require_whole
from attnrate.settings import (
    Count,
    Natural,
    Number,
    Positive,
    Switch,
    by,
    changed,
    checked,
    checked_fields,
    filled,
    in_words,
)


@checked
def ramp(
    slope: Positive,
    length: Count = 16,
    *,
    form: Literal["line", "square"] = "line",
    most: Annotated[int, by(require_whole, 2, 9)] = 3,
    shown: Switch = True,
    start: Natural | None = None,
) -> tuple[object, ...]:
    """Its settings."""
    if slope == 13:
        raise InputError("thirteen is refused inside", slope)
    return slope, length, form, most, shown, start


@checked_fields("ramp.")
@dataclass(frozen=True)
class Ramp:
    slope: Positive
    sizes: tuple[int, ...] = ()


def test_what_the_types_allow_arrives_as_the_types_say() -> None:
    assert ramp(2, 4, form="square", start=0) == (2.0, 4, "square", 3, True, 0)
    assert isinstance(ramp(2)[0], float)
    assert Ramp(1).slope == 1.0


@pytest.mark.parametrize(
    ("given", "value", "words"),
    [
        ({"slope": "2"}, "2", "slope must be a finite number greater than 0"),
        ({"slope": 0.0}, 0.0, "slope must be a finite number greater than 0"),
        ({"slope": 1, "length": 0}, 0, "length must be a whole number of at least 1"),
        ({"slope": 1, "length": True}, True, "length must be a whole number"),
        ({"slope": 1, "length": 4.0}, 4.0, "length must be a whole number"),
        ({"slope": 1, "form": "lime"}, "lime", "Choose one of 'line', 'square'"),
        ({"slope": 1, "form": None}, None, "form is not known"),
        ({"slope": 1, "most": 10}, 10, "most must be a whole number of at least 2, at most 9"),
        ({"slope": 1, "shown": 1}, 1, "shown must be True or False"),
        ({"slope": 1, "start": -1}, -1, "start must be a whole number of at least 0"),
        ({"slope": 13}, 13.0, "thirteen is refused inside"),
    ],
)
def test_a_wrong_value_is_named_with_the_way_out(
    given: dict[str, Any], value: object, words: str
) -> None:
    with pytest.raises(InputError) as caught:
        ramp(**given)
    assert caught.value.value == value
    assert words in str(caught.value)


def test_the_first_wrong_value_by_position_is_named_too() -> None:
    with pytest.raises(InputError, match="length must be"):
        ramp(1.0, "four")  # type: ignore[arg-type]


def test_arguments_that_are_missing_or_too_many_are_a_type_error_as_ever() -> None:
    with pytest.raises(TypeError, match="slope"):
        ramp()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="takes at most 2 positional arguments but 3 were given"):
        ramp(1, 2, 3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="colour"):
        ramp(1, colour=3)  # type: ignore[call-arg]


def test_fields_of_a_dataclass_are_checked_under_its_name_also_when_replaced() -> None:
    with pytest.raises(InputError, match=r"ramp\.slope must be a finite number"):
        Ramp(-1)
    with pytest.raises(InputError, match=r"ramp\.slope"):
        replace(Ramp(1), slope=-1.0)
    assert changed(Ramp(1), {"sizes": [1, 2]}, "ramp") == Ramp(1, (1, 2))
    with pytest.raises(InputError, match=r"ramp\.slpoe is not known.*Did you mean 'slope'"):
        changed(Ramp(1), {"slpoe": 2.0}, "ramp")


def test_a_table_is_filled_with_the_defaults_of_the_signature() -> None:
    full = filled("ramp", {"slope": 2.0, "kind": "ramp"}, ramp, ("shown",), ("kind",))
    assert full == {"slope": 2.0, "length": 16, "form": "line", "most": 3, "start": None}
    with pytest.raises(InputError, match=r"ramp\.slope is missing.*Set ramp\.slope"):
        filled("ramp", {}, ramp)
    with pytest.raises(InputError, match=r"ramp\.lenght is not known.*Did you mean 'length'"):
        filled("ramp", {"slope": 1.0, "lenght": 3}, ramp)


def test_a_check_shows_itself_by_the_function_and_its_limits() -> None:
    assert str(by(require_whole, 1)) == "by(require_whole, 1)"
    assert "PlainValidator" not in str(inspect.signature(ramp))


@given(st.one_of(st.integers(), st.floats(), st.booleans(), st.text(max_size=3), st.none()))
def test_a_checked_number_is_either_refused_or_what_was_given(value: Any) -> None:
    @checked
    def same(number: Number) -> float:
        return number

    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        assert same(value) == float(value)
    else:
        with pytest.raises(InputError) as refused:
            same(value)
        assert refused.value.value is value


@checked
def model(
    d: Count, out: Count, m_h: Count = 1, watch: Callable[[int], object] | None = None
) -> int:
    return d * out * m_h


class Model:
    @checked
    def __init__(self, d: Count, out: Count, m_h: Count = 1) -> None:
        self.size = d * out * m_h


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), {}, "is missing 2 required arguments: 'd' and 'out'"),
        ((1,), {}, "is missing the required argument 'out'"),
        ((), {"d": 1, "m_h": 2}, "is missing the required argument 'out'"),
        ((1, 1), {"mh": 2}, "got an unexpected keyword argument 'mh'. Did you mean 'm_h'?"),
        ((1, 1), {"d": 2}, "got several values for the argument 'd'"),
    ],
)
def test_arguments_that_do_not_fit_are_all_named_with_their_function(
    args: Any, kwargs: Any, words: str
) -> None:
    for made, called in ((model, "model()"), (Model, "Model()")):
        with pytest.raises(TypeError, match=re.escape(f"{called} {words}")):
            made(*args, **kwargs)


def test_too_many_arguments_are_counted_without_self() -> None:
    with pytest.raises(TypeError, match=r"Model\(\) takes at most 3 .* but 4 were given"):
        Model(1, 1, 1, 1)  # type: ignore[call-arg]


def test_types_are_named_in_words() -> None:
    with pytest.raises(InputError) as caught:
        model(1, 1, watch=3)  # type: ignore[arg-type]
    words = "watch must be a function or None: got 3. Pass a function or None."
    assert str(caught.value) == words
    assert in_words(int | str | None) == "a whole number or a text or None"
    assert in_words(Literal["a", "b"]) == "'a' or 'b'"
    assert in_words(InputError) == "an InputError"
    assert in_words(list[InputError]) == "list[InputError]"


def test_a_missing_setting_is_named_with_its_type() -> None:
    with pytest.raises(
        InputError, match=r"model\.out is missing.* Set model\.out to a whole number"
    ):
        filled("model", {"d": 1}, model)
