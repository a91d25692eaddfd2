"""A layer before attention: jobs build and run, and verdicts go both ways."""

import math
from functools import partial

import conclusions
import pytest
from hybrids import WHOLE, exact, trained, viewed

from attnrate.experiments.contract import Results
from attnrate.experiments.paper import hybrids as experiment
from attnrate.experiments.paper.hybrids import CASES, CHOSEN, LAYERS

concluded = partial(conclusions.concluded, experiment.EXPERIMENT)
SEEDS = range(5)
#: Errors over the variance that make every claim hold; without strength λ = 1
GOOD = {
    ("original", "plain"): 0.01,
    ("original", "convolution"): 0.011,
    ("mixed", "plain"): 0.2,
    ("mixed", "convolution"): 0.02,
    ("mixed", "linear RNN"): 0.03,
    ("mixed", "true filter"): 0.015,
    ("permuted", "plain"): 0.1,
    ("permuted", "convolution"): 0.12,
    ("unstable", "convolution"): 0.3,
    ("unstable", "linear RNN"): 0.05,
}
OPEN = (
    *("undone", "inverse", "mixing-hurts", "convolution", "head", "learned", "harmless"),
    *("order", "recurrence", "when", "stem"),
)


def fitted(changes=None, scatter=0.02, small=0.05, weak=0.02):
    """Fits of every cell; m_h = 1 with the error `small`, λ = 0.3 with `weak` without the layer."""
    errors = {**GOOD, **(changes or {})}
    return [
        *(
            trained(case, name, seed, error * (1 + scatter * seed))
            for (case, name), error in errors.items()
            for seed in SEEDS
        ),
        *(trained("mixed", "convolution", seed, small * (1 + 0.01 * seed), 1) for seed in SEEDS),
        *(trained("mixed", "plain", seed, weak, strength=0.3) for seed in SEEDS),
        *(trained("mixed", "convolution", seed, 0.01, strength=0.3) for seed in SEEDS),
    ]


def everything(**changes):
    return [*map(exact, SEEDS), *fitted(**changes), *viewed(0.6, 0.65)]


def verdicts(done):
    return {c.name.removeprefix("hybrids-"): c.verdict for c in concluded(done).claims}


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_every_job_builds_once_and_keeps_to_its_time(preset):
    jobs = experiment.plan(preset)
    assert len({one.job.key for one in jobs}) == len(jobs)
    seconds = {"fits": 0.0, "images": 0.0}
    for one in jobs:
        words = one.job.settings["target"]["work"]
        seconds["images" if words in ("hybrids.stem", "fig3.image") else "fits"] += one.size
    limits = {"quick": (40, 0), "paper": (90 * 60, 60 * 60)}[preset]
    assert seconds["fits"] <= limits[0]
    assert seconds["images"] <= limits[1]


def test_everything_holds_with_these_errors():
    assert verdicts(everything()) == dict.fromkeys(OPEN, "holds")


@pytest.mark.parametrize(
    ("claim", "changes"),
    [
        ("mixing-hurts", {("mixed", "plain"): 0.015}),
        ("convolution", {("mixed", "convolution"): 0.18}),
        ("learned", {("mixed", "convolution"): 0.06}),
        ("harmless", {("original", "convolution"): 0.05}),
        ("order", {("permuted", "convolution"): 0.02}),
        ("recurrence", {("unstable", "linear RNN"): 0.28}),
    ],
)
def test_one_error_turns_one_verdict(claim, changes):
    assert verdicts(everything(changes=changes))[claim] == "does not hold"


def test_the_other_verdicts_turn_as_well():
    assert verdicts(everything(small=0.5))["head"] == "does not hold"
    # the gain of ten at λ = 1 against one of a hundred at λ = 0.3
    assert verdicts(everything(weak=1.0))["when"] == "does not hold"
    done = everything()[5:]
    assert verdicts([*(exact(s, oracle=1e-3) for s in SEEDS), *done])["undone"] == "does not hold"
    for worse in ({"recurrence": 1e-3}, {"never": 0.01}, {"left": 0.2}):
        said = verdicts([*(exact(s, **worse) for s in SEEDS), *done])
        assert said["inverse"] == "does not hold"
    assert verdicts(viewed(0.65, 0.6))["stem"] == "does not hold"
    assert verdicts(viewed(0.6, 0.601))["stem"] == "open"


def test_seeds_that_differ_and_single_seeds_leave_claims_open():
    wide = [
        trained(case, name, seed, error * 10 ** (seed - 2 if name == "convolution" else 0))
        for (case, name), error in GOOD.items()
        for seed in SEEDS
    ]
    for claim in ("convolution", "learned", "harmless", "order", "recurrence"):
        assert verdicts(wide)[claim] == "open"
    single = [one for one in everything() if one.job.seed == 0]
    decided = {name for name, verdict in verdicts(single).items() if verdict != "open"}
    assert decided == {"undone", "inverse"}


def test_a_fit_that_diverged_decides_nothing():
    done = [trained("mixed", "convolution", 0, None), trained("mixed", "plain", 0, 0.1)]
    assert set(verdicts(done).values()) == {"open"}
    words = {one.name: one.evidence for one in concluded(done).claims}
    assert words["hybrids-convolution"] == "The fits that this compares: diverged."
    assert words["hybrids-order"] == "The fits that this compares: not run."


def test_one_strength_of_mixing_does_not_say_when_it_pays():
    done = [one for one in everything() if getattr(one.job, "strength", 1.0) == 1.0]
    assert verdicts(done)["when"] == "open"


def test_no_results_leave_claims_open_and_missing_images_are_said():
    assert verdicts([]) == dict.fromkeys(OPEN, "open")
    assert concluded([]).figures == ()
    said = experiment.conclude(Results([exact(0)], ["no network"]))
    by_name = {one.name: one for one in said.claims}
    assert by_name["hybrids-stem"].verdict == "not testable here"
    assert by_name["hybrids-stem"].correction == "no network"
    assert by_name["hybrids-undone"].verdict == "holds"


def test_what_was_made_up_is_in_figures_tables_and_sentences():
    said = concluded(everything(scatter=0.0))
    helped, limits = said.figures
    rows, heads = helped.panels
    assert rows.rows == tuple(CASES[case] for case in ("original", "mixed", "permuted"))
    by_label = {one.label: one for one in rows.series}
    assert by_label["convolution"].y == pytest.approx((1.1, 0.1, 1.2))
    assert by_label["linear RNN"].x == (1.0,)
    assert {one.label for one in heads.series} == {
        *("no layer", "convolution", "true filter, given", "true filter, compiled"),
    }
    gains, left = limits.panels
    (gained,) = gains.series
    assert gained.x == pytest.approx((0.2, 0.9))
    assert gained.y == pytest.approx((2.0, 10.0), rel=0.01)
    assert len(left.series) == 2
    errors, images = said.tables
    assert len(errors.columns) == 6
    assert [row[0] for row in errors.rows[:3]] == [
        "nothing to undo",
        "mixed target, m_h = 1",
        "mixed target",
    ]
    assert len(images.rows) == 2
    assert "from 6 to 12, as in" in said.paragraphs[1]
    assert "the slides are right" in said.paragraphs[2]
    assert not any(
        "right" in text for text in concluded(fitted({("mixed", "convolution"): 0.3})).paragraphs
    )


def test_the_paper_preset_has_every_layer_on_every_altered_target():
    cells = {(case, name) for case, name, m_h, strength in CHOSEN["paper"].cells if m_h == 6}
    altered = [case for case in CASES if case != "original"]
    assert {(case, name) for case in altered for name in LAYERS} <= cells
    assert WHOLE == 1.0
    assert math.isclose(max(strength for *_, strength in CHOSEN["paper"].cells), WHOLE)
