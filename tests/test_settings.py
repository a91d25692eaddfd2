"""Settings: what types allow goes in, anything else is named; tables and Python say the same."""

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnrate.errors import InputError, require_whole
from attnrate.models import GRU
from attnrate.models.base import MODELS
from attnrate.models.build import build_model
from attnrate.settings import (
    Count,
    Kinds,
    Natural,
    Number,
    Positive,
    Switch,
    by,
    changed,
    checked,
    checked_fields,
    filled,
)
from attnrate.targets.build import build_target
from attnrate.targets.form import TARGETS


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
    with pytest.raises(TypeError, match="too many"):
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


def test_a_kind_is_found_by_the_word_and_made_from_its_table() -> None:
    kinds: Kinds[Any] = Kinds("thing", "attnrate.targets", without=("shown",))
    kinds.add("ramp")(ramp)
    assert kinds.make(kinds.complete({"kind": "ramp", "slope": 2})) == ramp(2)
    for kind, words in ((None, "thing.kind is missing"), ("rmap", "Did you mean 'ramp'")):
        with pytest.raises(InputError, match=words):
            kinds.complete({"kind": kind})


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        (TARGETS, ("spectral", "linear", "nearest_point", "selection", "gravity")),
        (MODELS, ("transformer", "coupling", "linear_rnn", "gru", "state_space", "convolution")),
    ],
)
def test_every_file_of_a_room_has_added_its_kinds(kinds: Kinds[Any], words: tuple[str]) -> None:
    assert all(callable(kinds.of({"kind": word})) for word in words)


def test_a_wrong_value_in_a_table_is_named_with_its_part_and_the_way_out() -> None:
    with pytest.raises(InputError, match=r"target\.rank must be .* Pass target\.rank=1 or more"):
        build_target({"kind": "spectral", "alpha": 1.0, "rank": 0})
    target = build_target({"kind": "spectral", "alpha": 1.0, "rank": 2})
    with pytest.raises(InputError, match=r"model\.hidden must be .* Write model\.hidden=4\."):
        build_model({"kind": "gru", "hidden": 4.0}, target)
    with pytest.raises(InputError, match=r"^hidden must be"):
        GRU(1, 1, 0)
    with pytest.raises(InputError, match=r"target\.permute\.swap_ends .*target\.length = 16"):
        build_target({"kind": "spectral", "alpha": 1.0, "rank": 2, "permute": "swap_ends"})


def test_a_kind_must_be_checked_and_belongs_to_one_file() -> None:
    kinds: Kinds[Any] = Kinds("thing", "attnrate.targets", without=())
    with pytest.raises(TypeError, match="not @checked"):
        kinds.add("plain")(lambda: None)
    kinds.add("gru")(GRU)
    with pytest.raises(TypeError, match=r"'gru' is taken: attnrate\.models\.recurrent and"):
        kinds.add("gru")(ramp)


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
