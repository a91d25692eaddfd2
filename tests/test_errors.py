"""Checks that say what was wrong, with what value, and what to do."""

import copy
import doctest
import inspect
import pickle
import traceback
from pathlib import Path

import numpy as np
import pytest
import torch

import attnrate as ar
from attnrate.errors import InputError, StoreError, require_choice, require_none, require_whole
from attnrate.fitting.store import NoStoreError


def test_a_choice_is_given_back_and_any_other_word_is_refused_with_the_choices() -> None:
    assert require_choice("gauge", "none", ("softmax", "none")) == "none"
    assert require_choice("gauge", None, (None, "softmax")) is None
    with pytest.raises(InputError, match=r"gauge is not known: got 'hard'.*'softmax', 'none'"):
        require_choice("gauge", "hard", ("softmax", "none"))


def test_what_should_not_be_there_is_shown_and_nothing_is_fine() -> None:
    require_none("layers are missing", [])
    with pytest.raises(InputError, match=r"layers are missing: got \['a'\]. Copy them.") as caught:
        require_none("layers are missing", ["a"], "Copy them.")
    assert caught.value.value == ["a"]


def test_a_sentence_may_hold_the_value() -> None:
    problem = InputError(
        "the target has {value} attention, not softmax", "hardmax", "Pass another."
    )
    assert str(problem) == "the target has 'hardmax' attention, not softmax. Pass another."
    assert problem.what == "the target has 'hardmax' attention, not softmax"
    assert problem.value == "hardmax"


def test_a_sentence_without_the_value_is_followed_by_it() -> None:
    assert str(InputError("m_h is too large", 9)) == "m_h is too large: got 9."


@pytest.mark.parametrize(
    "problem",
    [
        InputError("m_h is too large", 9, "Pass less."),
        InputError("{value} is no norm", "l2"),
        StoreError("the store is broken", Path("results.sqlite"), "Delete it."),
        NoStoreError("there is no store", Path("results.sqlite")),
    ],
)
def test_errors_are_the_same_after_pickling_and_copying(problem: Exception) -> None:
    pickled = pickle.loads(pickle.dumps(problem))  # noqa: S301 - our own, just made
    for again in (pickled, copy.copy(problem), copy.deepcopy(problem)):
        assert type(again) is type(problem)
        assert str(again) == str(problem)
        assert vars(again) == vars(problem)


@pytest.mark.parametrize("name", ["AttnrateError", "InputError", "StoreError", "AccuracyWarning"])
def test_the_example_of_an_error_gives_what_it_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = inspect.cleandoc(getattr(ar, name).__doc__ or "")
    test = doctest.DocTestParser().get_doctest(text, {"ar": ar}, name, None, 0)
    said: list[str] = []
    result = doctest.DocTestRunner().run(test, out=said.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(said)


def shown_in_a_cell(code: str) -> str:
    """What a cell of a notebook shows of an error, by IPython itself."""
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    shell = InteractiveShell(colors="nocolor")
    with capture_output() as caught:
        shell.run_cell(code)
    return str(caught.stdout)


def test_a_notebook_shows_an_input_error_without_frames_of_attnrate() -> None:
    lines = "def mine():\n    return ar.spectral_target(1.0, 0)\nmine()"
    shown = shown_in_a_cell(f"import attnrate as ar\n{lines}")
    assert "rank must be a whole number of at least 1" in shown
    assert "return ar.spectral_target(1.0, 0)" in shown
    assert "settings.py" not in shown
    assert "pydantic" not in shown
    assert len(shown.splitlines()) < 12


def test_a_notebook_shows_the_cause_of_an_input_error_with_its_frames() -> None:
    model = "def fails(x):\n    raise KeyError('nokey')\n"
    call = "ar.error_of(fails, ar.linear_target('exponential', 4))"
    shown = shown_in_a_cell(f"import attnrate as ar\n{model}{call}")
    assert "raise KeyError('nokey')" in shown
    assert "InputError: the model fails on inputs of shape" in shown


def test_a_plain_traceback_keeps_all_frames() -> None:
    try:
        ar.spectral_target(1.0, 0)
    except InputError as problem:
        shown = "".join(traceback.format_exception(problem))
    assert "settings.py" in shown


def test_arrays_and_modules_are_shown_on_one_line() -> None:
    array, module = np.zeros((500, 4)), torch.nn.Sequential(torch.nn.Linear(1, 1))
    assert str(InputError("u is wrong", array)) == "u is wrong: got ndarray of shape (500, 4)."
    assert str(InputError("it is wrong", module)) == "it is wrong: got a Sequential."
    assert "got array([1, 2])" in str(InputError("u is wrong", np.array([1, 2])))


@pytest.mark.parametrize(
    ("value", "way"), [(1.5, "Write n=2."), (2.0, "Write n=2."), ("a", "n=1 or more")]
)
def test_the_nearest_whole_number_is_the_way_out(value: object, way: str) -> None:
    with pytest.raises(InputError, match=way):
        require_whole("n", value, 1)
