"""Orders of a translator: twins, intervals over sentences, and verdicts that go both ways."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trained_models import concluded as concluded_from
from trained_models import epochs

from attnrate.experiments.contract import Done, from_plain, to_plain
from attnrate.experiments.kits.reordered import Reordered, ReorderedOutcome
from attnrate.experiments.paper import translation_order as experiment
from attnrate.experiments.paper.translation_order import (
    ALL,
    ALTERED,
    ONE,
    ONE_LENGTH,
    ORDERS,
    Place,
    Twins,
    TwinsOutcome,
    place_of,
    ratio,
    reordered,
    wider,
)
from attnrate.experiments.run import run_job
from attnrate.statistics import Interval, mean

WORDS = (10, 20, 15, 12, 18, 11, 14, 16)
NOISE = np.random.default_rng(0).normal(0, 0.01, (3, len(WORDS)))
#: The loss per token above the original order that the predictions expect, by order
RISES = {
    "sinusoidal": {"one permutation": 0.05, "Table 1's order": 0.25},
    "learned": {"one permutation": 0.0, "Table 1's order": 0.2},
}
#: What twins decide without real data
EXACTLY = {"relabelled", "places", "fixed-learned", "one-length"}
ALL_TWINS = TwinsOutcome(1e-14, 0.0, 0.3, 0.2, 0.5, 0.0, 0.0)


def trained(place, seed, rise, bleu=8.0, scatter=0.001):
    """A translator whose loss is 3.5 and a rise, with seeds and sentences that scatter."""
    asked = ONE if place.only else ALL
    words = np.asarray(WORDS)
    off = rise + scatter * (seed - 1) * (place.order != "original")
    losses = words * (3.5 + off) + 0.1 * scatter * NOISE[seed] * words
    found = ReorderedOutcome(
        losses=tuple(losses.tolist()),
        words=WORDS,
        bleu=bleu + 0.01 * seed,
        bleu_half=0.4,
        signature="nrefs:1|v:2",
        untuned=4.0 if place.order == "original" else None,
        pairs=100,
        lengths=tuple([0] * 11 + [1] * 54),
        documented=True,
        parameters=10,
        tests=len(WORDS),
        seconds=1.0,
        epochs=epochs(2),
    )
    return Done(reordered(asked, place.positions, place.order, seed), found)


def everything(twins=ALL_TWINS, seeds=3, one_length=0.0, scatter=0.001, **changes):
    """All results; `changes` are rises, named sinusoidal_one, sinusoidal_moved, learned_one, ..."""
    done = [Done(Twins(), twins)]
    bleu = changes.pop("bleu", {})
    for place in {place.original for place in ALTERED} | {*ALTERED}:
        short = {"one permutation": "one", "Table 1's order": "moved"}.get(place.order, "")
        rise = 0.0 if not short else RISES[place.positions][place.order]
        rise = one_length if place.only and short else rise
        rise = rise if place.only else changes.get(f"{place.positions}_{short}", rise)
        score = bleu.get(short, {"": 8.0, "one": 7.8, "moved": 5.7}[short])
        done += [trained(place, seed, rise, score, scatter) for seed in range(seeds)]
    return done


def concluded(done, *missing):
    return concluded_from("translation-order", done, *missing)


def verdicts(done, *missing):
    said = concluded(done, *missing).claims
    return {claim.name.removeprefix("translation-order-"): claim.verdict for claim in said}


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_every_job_is_planned_once_and_found_again(preset):
    jobs = [one.job for one in experiment.plan(preset)]
    assert len({job.key for job in jobs}) == len(jobs)
    for job in jobs:
        fields = {**job.settings["target"], "seed": job.seed}
        again = from_plain(
            type(job), {k: v for k, v in fields.items() if k not in ("kind", "work")}
        )
        assert again == job
    places = {place_of(job) for job in jobs if isinstance(job, Reordered)}
    expected = {place.original for place in ALTERED} | {*ALTERED}
    assert places == (expected if preset == "paper" else set())
    minutes = sum(one.size for one in experiment.plan(preset)) / 60
    assert minutes < (150 if preset == "paper" else 40 / 60)


def test_what_was_predicted_is_found_where_it_is_so():
    assert set(verdicts(everything()).values()) == {"holds"}


def test_verdicts_go_the_other_way():
    opposite = verdicts(
        everything(
            twins=TwinsOutcome(0.1, 0.0, 0.3, 0.2, 0.0, 0.0, 0.0),
            one_length=0.2,
            sinusoidal_one=0.2,
            sinusoidal_moved=0.25,
            learned_one=0.2,
            bleu={"one": 6.0},
        )
    )
    # sinusoidal positions lose in both cases
    assert opposite.pop("fixed-sinusoidal") == "holds"
    assert set(opposite.values()) == {"does not hold"}
    assert verdicts(everything(sinusoidal_one=0.0))["fixed-sinusoidal"] == "does not hold"
    assert verdicts(everything(twins=replace(ALL_TWINS, one_length=1e-3)))["relabelled"] == (
        "does not hold"
    )
    assert verdicts(everything(twins=replace(ALL_TWINS, unknown_permuted=0.1)))["places"] == (
        "does not hold"
    )


def test_what_is_too_small_or_scatters_is_open():
    weak = verdicts(everything(bleu={"": 2.0, "one": 1.9}))
    assert (weak["bleu"], weak["explained"]) == ("open", "holds")
    # without a rise there is nothing to explain
    none = verdicts(everything(sinusoidal_moved=0.01, sinusoidal_one=0.0))
    assert none["explained"] == "open"
    # twins decide whatever chance does to models, if they agree
    wide = verdicts(everything(scatter=0.3, twins=replace(ALL_TWINS, permuted=0.1)))
    assert wide["one-length"] == "holds"
    wide = verdicts(everything(scatter=0.3)[1:])
    assert {wide[name] for name in ("fixed-learned", "fixed-sinusoidal", "one-length")} == {"open"}
    single = verdicts(everything(seeds=1))
    assert {name for name, verdict in single.items() if verdict == "holds"} == EXACTLY
    assert {single[name] for name in single.keys() - EXACTLY} == {"open"}


def test_missing_results_leave_claims_open():
    assert set(verdicts([]).values()) == {"open"}
    quick = concluded([Done(Twins(), ALL_TWINS)])
    found = {claim.name.removeprefix("translation-order-"): claim.verdict for claim in quick.claims}
    assert {name for name, verdict in found.items() if verdict == "holds"} == EXACTLY
    assert {found[name] for name in found.keys() - EXACTLY} == {"open"}
    assert (quick.figures, quick.tables) == ((), ())
    for one in everything():
        assert "does not hold" not in verdicts([one]).values()
    gone = verdicts([Done(Twins(), ALL_TWINS)], "apt is not here")
    assert {name for name, verdict in gone.items() if verdict == "holds"} == EXACTLY
    assert gone["explained"] == "not testable here"


def test_what_was_made_up_is_in_the_figure_the_table_and_the_sentences():
    said = concluded(everything())
    panel = said.figures[0].panels[0]
    assert panel.rows == tuple(map(str, ALTERED))
    by_label = {series.label: series for series in panel.series}
    assert by_label["sinusoidal positions"].x == (0, 2, 4)
    assert by_label["sinusoidal positions"].y == pytest.approx((0.25, 0.05, 0.0), abs=1e-3)
    assert by_label["learned positions"].y == pytest.approx((0.2, 0.0, 0.0), abs=1e-3)
    assert len(said.tables[0].rows) == 2 * len(ORDERS) + 4
    assert len(said.tables[0].columns) == 6
    claims = {claim.name: claim for claim in said.claims}
    assert claims["translation-order-explained"].value == pytest.approx(0.8, abs=0.01)
    assert claims["translation-order-lengths"].value == pytest.approx(0.2, abs=0.01)
    assert "from 3.5 to 4" in claims["translation-order-one-length"].evidence
    places = [place for place in ALTERED if place.only]
    assert {place.only for place in places} == {ONE_LENGTH}


def test_models_that_do_not_use_positions_are_told():
    done = [
        replace(one, outcome=replace(one.outcome, untuned=3.5))
        if isinstance(one.outcome, ReorderedOutcome) and one.outcome.untuned
        else one
        for one in everything()
    ]
    claims = {claim.name: claim for claim in concluded(done).claims}
    assert "hardly use positions" in claims["translation-order-one-length"].evidence


@given(st.lists(st.floats(-5, 5), min_size=3, max_size=8).filter(lambda x: max(x) > min(x)))
def test_over_sentences_of_one_word_a_ratio_is_a_mean(values):
    found, expected = ratio(np.asarray(values), np.ones(len(values))), mean(values)
    assert (found.value, found.low, found.high) == pytest.approx(
        (expected.value, expected.low, expected.high), abs=1e-9
    )


def test_a_ratio_that_is_the_same_for_all_sentences_is_exact():
    words = np.asarray(WORDS, dtype=float)
    found = ratio(0.3 * words, words)
    assert (found.value, found.low, found.high) == pytest.approx((0.3, 0.3, 0.3))


def test_the_outer_ends_of_two_intervals_count():
    one, two = Interval(1.0, 0.5, 1.5, 3), Interval(1.1, 0.8, 2.0, 99)
    assert wider(one, two) == Interval(1.0, 0.5, 2.0, 3)
    # a single seed has no interval, however many sentences there are
    alone = wider(Interval(1.0, math.nan, math.nan, 1), two)
    assert math.isnan(alone.low)
    assert math.isnan(alone.high)


def test_twins_agree_to_rounding_where_a_table_undoes_the_order():
    job = Twins(sentences=12, longest=16, epochs=2)
    found = job.run()
    assert run_job(job.settings).items() >= to_plain(found).items()
    assert max(found.permuted, found.one_length) < 1e-12
    assert min(found.moved, found.sinusoidal) > 1e-3
    assert (found.unknown_permuted, found.unknown_one_length) == (0.0, 0.0)
    assert 0 < found.unknown < 1


def test_a_place_knows_the_original_that_it_is_compared_with():
    place = Place("learned", "one permutation")
    assert place.original == Place("learned", "original")
    assert place_of(reordered(ALL, "learned", "one permutation", 0)) == place
