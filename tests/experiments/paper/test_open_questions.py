"""Variants of Eq. 5: equal parameters, and verdicts that go both ways."""

import math
from dataclasses import replace
from functools import partial

import conclusions
import pytest
from conclusions import fitted

from attnrate.experiments.contract import Done
from attnrate.experiments.kits.spectral import LONG, RECIPES, Spectral, Tried
from attnrate.experiments.paper import fig1
from attnrate.experiments.paper import open_questions as questions
from attnrate.experiments.paper.open_questions import BASELINE, VARIANTS
from attnrate.experiments.run import run_job
from attnrate.fitting.build import complete
from attnrate.fitting.trial import Trial
from attnrate.models.build import build_model
from attnrate.targets import spectral_target

concluded = partial(conclusions.concluded, questions.EXPERIMENT)
CELLS = ((Spectral(1.0, LONG), 4), (Spectral(1.0, LONG), 16), (Spectral(0.55, LONG), 4))


def everything(times=None, slope=-1.0, seeds=(0, 1, 2), variants=tuple(VARIANTS)):
    """Errors c size^slope, times a factor for some variants, with a little scatter."""
    done = []
    for target, size in (*CELLS, (Spectral(0.55, LONG), 16)):
        for index, name in enumerate(variants):
            for seed in seeds:
                factor = (times or {}).get(name, 1.0) * (1 + 0.01 * math.sin(index + 5 * seed))
                label, error = Tried(name, target, size, seed), 0.1 * factor * size**slope
                done.append(fitted(label, error, parameters=100))
    return done


def with_errors(done, error_of):
    """The fits with other errors, made of each one."""
    return [Done(one.job, replace(one.outcome, error=error_of(one))) for one in done]


def claims(done):
    return {c.name.removeprefix("open-questions-"): c for c in concluded(done).claims}


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_every_job_builds_once(preset):
    jobs = [one.job for one in questions.plan(preset)]
    assert len({job.key for job in jobs}) == len(jobs)
    complete([job.trial for job in jobs])


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_the_baseline_s_fits_are_those_of_fig1(preset):
    keys = {one.job.key for one in fig1.plan(preset)}
    base = [one.job for one in questions.plan(preset) if one.job.label.curve == BASELINE]
    assert base
    assert {job.key for job in base} <= keys


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("size", [4, 8, 16])
def test_variants_have_the_baseline_s_parameters_and_total_head_size(name, size):
    target = spectral_target(1.0, 6)
    model, base = (
        build_model(questions.model_settings(VARIANTS[one], size), target)
        for one in (name, BASELINE)
    )
    assert model.parameter_count() == pytest.approx(base.parameter_count(), rel=0.05)
    assert model.heads * model.m_h == size
    assert model.heads * model.m_v == base.m_v


def test_variants_that_do_the_same_hold():
    found = claims(everything())
    assert {claim.verdict for claim in found.values()} == {"holds"}
    assert found["heads"].value == pytest.approx(1.0, abs=0.05)


def test_variants_that_do_better_or_worse_are_told():
    found = claims(everything({"4 heads": 0.1, "2 layers": 7.0}))
    assert found["heads"].verdict == found["depth"].verdict == "does not hold"
    assert found["heads"].value == pytest.approx(0.1, rel=0.05)
    assert "pessimistic" in found["heads"].correction
    assert "optimistic" in found["depth"].correction
    assert found["scale"].verdict == "holds"


def test_variants_that_point_both_ways_are_both_told():
    found = claims(everything({"2 layers": 3.5, "2 layers, residual": 0.3}))["depth"]
    assert "2 layers has 3.5 times the error" in found.correction
    assert "2 layers, residual has 0.3 times the error" in found.correction
    assert claims(everything({"4 heads": 1.6}))["heads"].verdict == "holds"


def with_slope(slope, *variants):
    return [one for one in everything() if one.label.curve not in variants] + everything(
        slope=slope, variants=variants
    )


def test_errors_that_grow_with_the_head_size_refute_the_phenomenon():
    others = [name for name in VARIANTS if name != BASELINE]
    assert claims(with_slope(0.5, *others))["phenomenon"].verdict == "does not hold"
    assert claims(with_slope(0.5, "4 heads"))["phenomenon"].verdict == "open"
    # which the statement does not name
    assert claims(with_slope(0.5, "1/√m_h"))["phenomenon"].verdict == "holds"
    # there is nothing to be seen where the error of Eq. 5 does not fall
    assert claims(everything(slope=0.5))["phenomenon"].verdict == "open"


def test_what_is_missing_leaves_claims_open():
    assert {claim.verdict for claim in claims([]).values()} == {"open"}
    no_base = everything(variants=("4 heads", "layer norm"))
    assert claims(no_base)["heads"].verdict == "open"
    lost = with_errors(everything(), lambda one: None)
    assert {claim.verdict for claim in claims(lost).values()} == {"open"}


def test_a_spread_too_wide_to_tell_is_open():
    wide = with_errors(
        everything(),
        lambda one: (
            one.outcome.error * 30 ** ((-1) ** one.label.seed)
            if one.label.curve == "4 heads"
            else one.outcome.error
        ),
    )
    assert claims(wide)["heads"].verdict == "open"


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([0.51, 1.95] * 3, "holds"),
        ([1e-9, *[0.4] * 5], "does not hold"),
        ([0.2, 1.9] * 3, "open"),
        ([0.6, 1.8], "open"),
        ([0.05, 0.4], "open"),
    ],
)
def test_six_cells_that_agree_decide_where_their_interval_cannot_and_two_do_not(ratios, verdict):
    done = [
        one
        for seed in range(len(ratios))
        for one in everything(seeds=(seed,), variants=(BASELINE, "1/√m_h"))[:2]
    ]
    scaled = with_errors(
        done, lambda one: 1e-3 * (1 if one.label.curve == BASELINE else ratios[one.label.seed])
    )
    assert claims(scaled)["scale"].verdict == verdict


def test_numbers_of_parameters_are_told_where_they_are_known():
    more = [
        Done(one.job, replace(one.outcome, parameters=103)) if one.label.seed == 1 else one
        for one in everything(variants=(BASELINE, "4 heads"))
    ]
    said = concluded(more)
    assert "within 3 %" in said.figures[0].caption
    assert [row[1] for row in said.tables[0].rows] == ["100 to 103", "100 to 103"]
    unknown = [Done(one.job, replace(one.outcome, parameters=None)) for one in more]
    assert [row[1] for row in concluded(unknown).tables[0].rows] == [
        "unknown",
        "unknown",
    ]


def test_the_costliest_variant_is_fitted():
    settings = questions.model_settings(VARIANTS["2 layers, residual, layer norm"], 4)
    recipe = {**RECIPES["quick"], "steps": 2}
    target = {"kind": "spectral", "alpha": 1.0, "rank": 6}
    found = run_job(Trial(target, settings, recipe, 0).settings)
    assert found["error"] > 0
