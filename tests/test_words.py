"""The gauge and the norm: one word each, None for the gauge "none", errors with the choices."""

import pytest

from attnrate.errors import InputError
from attnrate.settings import checked
from attnrate.words import GAUGES, NORMS, GaugeLike, NormLike, require_gauge, require_norm


@pytest.mark.parametrize("word", GAUGES)
def test_a_gauge_is_its_word(word: str) -> None:
    assert require_gauge("gauge", word) == word


def test_none_is_the_gauge_none() -> None:
    assert require_gauge("gauge", None) == "none"


@pytest.mark.parametrize("wrong", ["", "Softmax", "hardmax", 7, True, ["softmax"]])
def test_what_is_no_gauge_is_refused_with_the_choices(wrong: object) -> None:
    with pytest.raises(InputError, match=r"gauge is not known.*'softmax', 'none'"):
        require_gauge("gauge", wrong)


@pytest.mark.parametrize("word", NORMS)
def test_a_norm_is_its_word(word: str) -> None:
    assert require_norm("norm", word) == word


@pytest.mark.parametrize("wrong", [None, "L1", "l2", 1])
def test_what_is_no_norm_is_refused_with_the_choices(wrong: object) -> None:
    with pytest.raises(InputError, match=r"norm is not known.*'mse', 'l1'"):
        require_norm("norm", wrong)


def test_checked_functions_take_them_as_parameters() -> None:
    @checked
    def asked(gauge: GaugeLike = "softmax", norm: NormLike = "mse") -> tuple[object, object]:
        return gauge, norm

    assert asked() == ("softmax", "mse")
    assert asked(None, "l1") == ("none", "l1")
    with pytest.raises(InputError, match="Choose one of"):
        asked("soft")  # type: ignore[arg-type]
