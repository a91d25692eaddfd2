"""Verdicts: each is reached, and its reasons are sentences with numbers."""

import re
from dataclasses import replace

import numpy as np
import pytest
from made_ladders import made_ladder
from made_samples import row, series

from attnrate.choose.heads import heads_of
from attnrate.choose.planning import Course
from attnrate.choose.race import Race, race_of
from attnrate.choose.rungs import Class
from attnrate.choose.verdict import (
    MEANING,
    Conclusion,
    Verdict,
    by_ladder,
    by_race,
    cannot_tell,
    promising,
    share,
)
from attnrate.statistics import Interval
from attnrate.theory.recurrent import rnn_complexity

CASES: list[tuple[Verdict, Class]] = [
    ("nothing", "nothing"),
    ("memoryless", "memoryless linear"),
    ("memoryless", "memoryless"),
    ("linear", "filter"),
    ("linear", "causal"),
    ("linear", "linear"),
    ("short-memory", "additive"),
    ("pairwise", "pairwise"),
]


def require_sentences(said: Conclusion) -> None:
    assert said.because
    for sentence in said.because:
        assert re.fullmatch(r"[A-Z].*[A-Za-z0-9)%\]]\.", sentence), sentence
        assert "nan" not in sentence
        assert "  " not in sentence
        assert "{" not in sentence
    assert any(re.search(r"\d", sentence) for sentence in said.because)


@pytest.mark.parametrize(("verdict", "name"), CASES)
def test_a_ladder_gives_the_verdict_of_the_class_that_is_enough(
    verdict: Verdict, name: Class
) -> None:
    said = by_ladder(made_ladder({"nothing": 1.0, name: 0.4}))
    assert (said.verdict, said.enough) == (verdict, name)
    assert said.verdict in MEANING
    require_sentences(said)
    if name != "nothing":
        # 0.4 of the variance, in per cent with its interval
        assert re.search(r"leaves 40 % \[3\S+, 4\S+\] of the variance on what", said.because[0])
        assert re.search(r"explains 60 % \[5\S+, 6\S+\] of the variance more", said.because[1])


def test_only_simpler_classes_are_those_that_it_explains_more_than() -> None:
    left: dict[Class, float] = {"nothing": 1.0, "memoryless": 0.7, "filter": 0.4}
    found = made_ladder({**left, "causal": 0.45, "additive": 0.42})
    said = by_ladder(found)
    assert said.enough == "filter"
    assert "more than any function of the token now" in said.because[1]
    assert "Nothing richer is surely better: a sum of functions of single tokens" in said.because[2]


def test_drift_is_refused_from_a_quarter_more_error_and_said_from_a_twentieth() -> None:
    left: dict[Class, float] = {"nothing": 1.0, "filter": 0.4}
    refused = by_ladder(made_ladder(left, drift=Interval(1.4, 1.2, 1.6, 40)))
    assert (refused.verdict, refused.enough) == ("cannot-tell", None)
    assert "has 1.4 [1.2, 1.6] times the error" in refused.because[0]
    require_sentences(refused)
    for value, low in ((1.4, 1.05), (1.2, 1.15)):
        said = by_ladder(made_ladder(left, drift=Interval(value, low, 1.7, 40)))
        assert said.verdict == "linear"
        assert "The data change somewhat with time" in said.because[-1]
        require_sentences(said)
    still = by_ladder(made_ladder(left, drift=Interval(1.02, 1.01, 1.03, 40)))
    assert "change" not in " ".join(still.because)


def test_the_kernel_is_said_where_a_filter_is_enough() -> None:
    left: dict[Class, float] = {"nothing": 1.0, "filter": 0.4}
    complexity = rnn_complexity(np.exp(-np.arange(20) / 3))
    said = by_ladder(made_ladder(left, reach=19, complexity=complexity))
    assert any(
        "reaches back 19 tokens; exponential decay: decay time 3" in each
        and each.endswith("C_RNN = 4.")
        for each in said.because
    ), said.because
    assert any(
        "reaches back 1 token." in each for each in by_ladder(made_ladder(left, reach=1)).because
    )
    assert not any("reaches" in each for each in by_ladder(made_ladder(left)).because)
    require_sentences(said)


def test_pairs_are_said_with_their_share_and_rank_or_that_they_were_not_tried() -> None:
    left: dict[Class, float] = {"nothing": 1.0, "additive": 0.6, "pairwise": 0.4}
    said = by_ladder(made_ladder(left, rank=2)).because[-1]
    assert re.match(r"Pairs of tokens explain 20 % \[19\S*, 20\S*\] of the variance bey", said)
    assert "About 2 singular values" in said
    none = by_ladder(made_ladder({"nothing": 1.0, "filter": 0.4}))
    assert "attention has nothing sure to do" in none.because[-1]
    many = made_ladder({"nothing": 1.0, "filter": 0.4}, paired=False)
    assert "were not tried" in by_ladder(many).because[-1]
    require_sentences(by_ladder(many))
    assert promising(many, "filter")


def test_a_race_is_due_where_a_map_with_memory_that_is_not_linear_may_be_better() -> None:
    assert promising(made_ladder({"nothing": 1.0, "pairwise": 0.4}), "pairwise")
    assert promising(made_ladder({"nothing": 1.0, "filter": 0.4, "additive": 0.39}), "filter")
    assert not promising(made_ladder({"nothing": 1.0, "filter": 0.4, "additive": 0.395}), "filter")
    assert not promising(made_ladder({"nothing": 1.0}), "nothing")


def raced(**errors: float | None) -> Race:
    """A race in which each contender leaves this error; None stands for divergence."""
    drawn = np.random.default_rng(0)
    noise = 0.001 * drawn.normal(size=(2, 2, 8))
    rows = [
        row(
            name,
            fold,
            seed,
            None if error is None else (error * (1 + noise[fold, seed])).tolist(),
        )
        for name, error in errors.items()
        for fold in (0, 1)
        for seed in (0, 1)
    ]
    return race_of(series(), rows, Course(10, 2, 2))


PAIRWISE = Conclusion("pairwise", ("Pairs of tokens explain 20 %.",), "pairwise")
FILTER = Conclusion("linear", ("A linear filter leaves 40 %.",), "filter")


def test_where_the_linear_map_is_tied_no_model_is_worth_its_training() -> None:
    race = raced(linear=1.0, gru=1.001, transformer=1.002, tcn=1.5)
    said = by_race(PAIRWISE, race, None)
    assert said.verdict == "linear"
    assert "No trained model is surely better than the linear map" in said.because[-1]
    assert by_race(FILTER, race, None).verdict == "linear"
    nothing = Conclusion("nothing", ("No class of maps leaves less.",), "nothing")
    assert by_race(nothing, race, None).verdict == "nothing"
    require_sentences(said)


def test_where_only_attention_is_tied_pairs_matter() -> None:
    said = by_race(FILTER, raced(linear=2.0, gru=1.5, transformer=1.0, patches=1.001), None)
    assert said.verdict == "pairwise"
    assert "No model without attention is as good." in said.because
    assert any("the linear map leaves" in each for each in said.because)
    require_sentences(said)


def test_a_linear_map_that_is_far_from_the_best_is_no_answer_however_wide_its_interval() -> None:
    race = raced(linear=1.3, gru=1.0, transformer=1.4)
    racers = [replace(each, tied=each.tied or each.name == "linear") for each in race.racers]
    wide = replace(race, racers=tuple(racers))
    assert wide.tied == ("gru", "linear")
    assert wide.cheapest is not None
    assert wide.cheapest.name == "gru"
    said = by_race(PAIRWISE, wide, None)
    assert said.verdict == "short-memory"
    assert any("The linear map has 1.3 times the error" in each for each in said.because)
    require_sentences(said)


def test_where_attention_is_surely_worse_a_short_memory_is_enough() -> None:
    said = by_race(PAIRWISE, raced(linear=2.0, gru=1.0, tcn=1.001, transformer=1.3), None)
    assert said.verdict == "short-memory"
    assert "Attention is surely worse" in said.because[-2]
    assert "has 1.3 times the error" in said.because[-2]
    assert (
        said.because[-1] == "Products of tokens matter, and models without attention make them too."
    )
    require_sentences(said)
    gone = by_race(FILTER, raced(linear=2.0, gru=1.0, transformer=None), None)
    assert gone.because[-1] == "No model with attention has a finite error."


def test_where_no_model_reaches_least_squares_the_ladder_has_the_last_word() -> None:
    race = raced(linear=2.0, gru=1.0, transformer=1.3)
    assert race.best is not None
    least = replace(race.best, difference=Interval(-0.5, -0.6, -0.4, 9), ratio=0.5)
    said = by_race(PAIRWISE, replace(race, least_squares=least), None)
    assert (said.verdict, said.enough) == ("pairwise", "pairwise")
    assert "what least squares leave on the same folds" in said.because[-1]
    require_sentences(said)
    close = replace(least, difference=Interval(-0.005, -0.006, -0.004, 9), ratio=0.995)
    assert by_race(PAIRWISE, replace(race, least_squares=close), None).verdict == "short-memory"


def test_a_linear_map_that_surely_leaves_less_than_the_class_of_the_ladder_is_the_answer() -> None:
    race = raced(linear=1.0, gru=1.5)
    assert race.best is not None
    before = Conclusion("memoryless", ("A map of the token now leaves 40 %.",), "memoryless linear")
    worse = replace(race.best, difference=Interval(0.07, 0.05, 0.09, 9), ratio=1.07)
    said = by_race(before, replace(race, least_squares=worse), None)
    assert said.verdict == "linear"
    assert "surely better than what the ladder takes for enough" in said.because[-1]
    require_sentences(said)
    for unsure in (
        replace(worse, difference=Interval(0.07, -0.01, 0.15, 9)),
        replace(worse, difference=Interval(0.005, 0.004, 0.006, 9), ratio=1.005),
    ):
        assert by_race(before, replace(race, least_squares=unsure), None).verdict == "memoryless"
    assert by_race(before, race, None).verdict == "memoryless"


def test_pairs_that_are_no_better_than_what_is_enough_are_no_reason_for_attention() -> None:
    # functions of single tokens lose to pairs, and neither is surely better than the filter
    found = by_ladder(
        made_ladder({"nothing": 1.0, "filter": 0.4, "additive": 0.5, "pairwise": 0.4})
    )
    assert found.verdict == "linear"
    assert "but not surely more than a linear filter" in found.because[-1]
    assert not any("attention has something to do" in each for each in found.because)
    require_sentences(found)


def test_where_both_are_tied_the_cheapest_is_named() -> None:
    race = raced(linear=2.0, gru=1.001, transformer=1.0)
    said = by_race(PAIRWISE, race, None)
    assert said.verdict == "tie"
    assert race.cheapest is not None
    assert said.because[-1].endswith(f"within 2 % of the best is {race.cheapest.title}.")
    require_sentences(said)


def test_where_all_diverged_nothing_can_be_told() -> None:
    said = by_race(PAIRWISE, raced(gru=None, transformer=None), None)
    assert (said.verdict, said.enough) == ("cannot-tell", None)
    assert said.because[-1] == "In the race the training of every model diverged."


def test_the_advised_head_is_said_with_its_error_beside_the_largest() -> None:
    rows = [
        row("transformer", fold, seed, [error] * 4, m_h)
        for m_h, error in ((1, 2.0), (4, 1.004), (16, 1.0))
        for fold in (0, 1)
        for seed in (0, 1)
    ]
    heads = heads_of(rows, "transformer")
    said = by_race(FILTER, raced(linear=2.0, transformer=1.0), heads)
    assert said.because[-1] == (
        "Heads of size m_h = 4 are enough: their error is 1 times that of m_h = 16, and surely at "
        "most 1 times."
    )
    require_sentences(said)
    alone = heads_of([each for each in rows if each.job.m_h != 4], "transformer")
    said = by_race(FILTER, raced(linear=2.0, transformer=1.0), alone)
    assert said.because[-1].startswith("No smaller head is shown to be as good as that of m_h = 16")
    require_sentences(said)


def test_reasons_not_to_tell_stay_as_they_are() -> None:
    assert cannot_tell(("Why.",)) == Conclusion("cannot-tell", ("Why.",), None)


def test_shares_are_per_cents_without_rounding_below_a_millionth() -> None:
    assert share(Interval(0.12345, -1e-12, 0.5, 9)) == "12.3 % [0, 50]"
