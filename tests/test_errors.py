"""Checks that say what was wrong, with what value, and what to do."""

import pytest

from attnrate.errors import InputError, require_choice, require_none


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
