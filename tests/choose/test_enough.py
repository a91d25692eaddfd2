"""The simplest class that no other beats: surely, noticeably, and not by rounding."""

import numpy as np
import pytest
from made_ladders import made_ladder

from attnrate.choose.enough import beaten, enough
from attnrate.choose.ladder import Ladder
from attnrate.choose.rung_errors import Errors
from attnrate.choose.rungs import CLASSES, Class


@pytest.mark.parametrize("name", CLASSES)
def test_each_class_can_be_enough(name: Class) -> None:
    assert enough(made_ladder({"nothing": 1.0, name: 0.4})) == name


def test_a_class_is_beaten_by_a_sure_difference_only() -> None:
    sure = made_ladder({"nothing": 1.0, "filter": 0.9}, own=0.05)
    unsure = made_ladder({"nothing": 1.0, "filter": 0.9}, own=0.5)
    assert beaten(sure, "nothing", "filter")
    assert not beaten(unsure, "nothing", "filter")
    assert enough(unsure) == "nothing"


def test_three_standard_errors_are_sure_and_fewer_not() -> None:
    units = np.tile([1.0, -1.0], 20)
    # the standard error of the mean of 40 units is 1 / sqrt(39), and Student's quantile 3.2
    error = 1 / np.sqrt(39)
    for times, wanted in ((3.0, False), (3.1, False), (3.3, True), (4.0, True)):
        ladder = made_ladder({"nothing": 1.0})
        one = np.full(40, 10.0)
        # by amounts; ratios are as sure here
        held = dict.fromkeys(CLASSES, one) | {"filter": one - 0.01 * (times * error + units)}
        inside = Errors(held, held, np.full(40, 10))
        made = Ladder(
            ladder.rungs, 0.001, inside, None, ladder.coupling, ladder.kernel, ladder.models
        )
        assert beaten(made, "nothing", "filter") == wanted, times


def test_a_sure_difference_that_is_worth_nothing_beats_nobody() -> None:
    tiny = made_ladder({"nothing": 1.0, "filter": 0.4, "additive": 0.399}, own=1e-5)
    assert tiny.gain("filter", "additive").low > 0
    assert not beaten(tiny, "filter", "additive")
    assert enough(tiny) == "filter"
    small = made_ladder({"nothing": 1.0, "filter": 0.4, "additive": 0.396}, own=1e-5)
    assert enough(small) == "additive"


def test_differences_below_a_thousandth_of_the_variance_are_rounding() -> None:
    assert enough(made_ladder({"nothing": 1.0, "filter": 1e-3, "additive": 1e-5}, 1e-9)) == "filter"


def test_units_with_a_spike_do_not_drown_a_gain_in_all_the_others() -> None:
    ladder = made_ladder({"nothing": 1.0})
    drawn = np.random.default_rng(0)
    one = 10 + drawn.normal(size=40)
    other = 0.5 * one + 0.1 * drawn.normal(size=40)
    one[7] += 2000
    other[7] += 2000 + 15
    errors = Errors(dict.fromkeys(CLASSES, one) | {"filter": other}, {}, np.full(40, 10))
    made = Ladder(ladder.rungs, 1.0, errors, None, ladder.coupling, ladder.kernel, ladder.models)
    assert beaten(made, "nothing", "filter")


def test_a_richer_class_that_only_follows_noise_beats_nobody() -> None:
    found = made_ladder({"nothing": 1.0, "filter": 0.4, "causal": 0.45, "additive": 0.5})
    assert enough(found) == "filter"
    assert beaten(found, "additive", "filter")
