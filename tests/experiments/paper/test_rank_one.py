"""One dimension of attention: jobs build and run, and verdicts go both ways."""

import math
from dataclasses import replace
from functools import partial

import conclusions
import pytest
import torch
from conclusions import fitted

from attnrate.experiments.contract import Done, Fit, to_plain
from attnrate.experiments.paper import rank_one as experiment
from attnrate.experiments.paper.rank_one import (
    LENGTHS,
    RANKS,
    Construction,
    ConstructionOutcome,
    Price,
    PriceOutcome,
    Trained,
    maps_of,
    means,
    steepest_growth,
)
from attnrate.experiments.run import run_job
from attnrate.fitting.build import complete
from attnrate.targets import spectral_target
from attnrate.theory.rank_one import apart
from attnrate.theory.steepness import steepness

concluded = partial(conclusions.concluded, experiment.EXPERIMENT)
MARGINS = (0.04, 0.05, 0.08, 0.1)


def built(length, margin, error=1e-14, rounding=1.0, off=0.0):
    """A construction whose steepness has the expected exponent, or one that is off by `off`."""
    maps = tuple(maps_of(length))
    steep = margin ** -(steepest_growth(length) + off)
    one = (error,) * len(maps)
    job = Construction(length=length, margin=margin, sequences=1)
    return Done(job, ConstructionOutcome(maps, one, one, (rounding,) * len(maps), steep))


def priced(rank, length, before=8.0):
    """Steepness 8 at m_h = 1, `before` at r - 1, and 1/2 at r."""
    typical = (8.0, *(before,) * (rank - 2), 0.5) if rank > 2 else (8.0, 0.5)
    cut = (*(0.01 / m_h for m_h in range(1, rank)), 0.0)
    job = Price(rank=rank, length=length, margin=0.05, sequences=1)
    return Done(job, PriceOutcome(typical, typical, cut))


def trained(times=1.0, scatter=0.05):
    return [
        fitted(
            Trained(m_h, width, seed), (times if m_h == 1 else 1.0) * (1 + scatter * seed) / width
        )
        for m_h in (1, 3)
        for width in (8, 64)
        for seed in range(3)
    ]


def everything(before=8.0, times=1.0, **changes):
    return [
        *(built(length, margin, **changes) for length in LENGTHS for margin in MARGINS),
        *(priced(rank, length, before) for rank in RANKS for length in LENGTHS),
        *trained(times),
    ]


def verdicts(done):
    return {c.name.removeprefix("rank-one-"): c.verdict for c in concluded(done).claims}


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_every_job_builds_once(preset):
    jobs = [one.job for one in experiment.plan(preset)]
    assert len({job.key for job in jobs}) == len(jobs)
    complete([job.trial for job in jobs if isinstance(job, Fit)])


def test_verdicts_go_both_ways():
    assert verdicts(everything()) == {
        "exact": "holds",
        "determined": "holds when corrected",
        "price": "holds",
        "gradual": "does not hold",
        "trained": "holds",
    }
    worse = verdicts(everything(error=1e-3))
    assert worse["exact"] == "does not hold"
    # a construction that fails does not show that the rank is necessary
    assert worse["determined"] == "open"
    assert verdicts(everything(rounding=100.0))["exact"] == "does not hold"
    assert verdicts(everything(off=-1.0))["price"] == "does not hold"
    # in logarithms half of the fall from 8 to 1/2 is done at 2
    assert verdicts(everything(before=1.0))["gradual"] == "holds"
    assert verdicts(everything(times=20.0))["trained"] == "does not hold"


def test_seeds_that_scatter_leave_the_training_open():
    done = [*trained(1.0, scatter=0.0)]
    wide = [
        Done(one.job, replace(one.outcome, error=one.outcome.error * 10**one.label.seed))
        if one.label.m_h == 1
        else one
        for one in done
    ]
    assert verdicts(wide)["trained"] == "open"


def test_what_was_made_up_is_in_the_sentences_figures_and_tables():
    said = concluded(everything())
    assert len(said.paragraphs) == 3
    assert "16 [16, 16] times as steep at m_h = 1" in said.paragraphs[1]
    assert "F is the identity, has 0.01" in said.paragraphs[2]
    assert [figure.name for figure in said.figures] == ["rank-one", "rank-one-price"]
    assert all(len(figure.panels) == 2 for figure in said.figures)
    construction, price = said.tables
    assert construction.columns == ("map H_t", "τ = 2", "τ = 3", "τ = 4")
    assert len(construction.rows) == 7
    assert len(price.rows) == len(RANKS) * len(LENGTHS)


def test_missing_results_leave_claims_open():
    assert set(verdicts([]).values()) == {"open"}
    assert concluded([]).figures == ()
    whole = everything()
    # two of three lengths, one price, one fit
    for part in (whole[:1], whole[:8], whole[12:13], whole[21:22]):
        assert set(verdicts(part).values()) == {"open"}
    without = verdicts(whole[:12])
    assert (without["exact"], without["determined"], without["gradual"]) == (
        "holds",
        "open",
        "open",
    )


def test_the_construction_runs_and_is_exact():
    job = Construction(length=3, margin=0.1, sequences=8)
    found = job.run()
    assert run_job(job.settings).items() >= to_plain(found).items()
    assert found.maps == tuple(maps_of(3))
    assert max(found.errors) < 1e-12
    assert all(error <= limit for error, limit in zip(found.errors, found.limits, strict=True))
    assert found.steepest > 1


def test_the_price_ends_with_that_of_the_identity():
    found = Price(rank=3, length=3, margin=0.05, sequences=40).run()
    # f = z in [-1, 1], and x has half of its slope
    assert found.typical[-1] == pytest.approx(0.5, abs=0.02)
    assert found.steepest[-1] <= 0.5 + 1e-9
    assert found.typical[0] >= found.typical[1] > 2 * found.typical[2]
    assert found.cut[0] > found.cut[1] > 0
    assert found.cut[2] < 1e-20


def test_couplings_below_the_rank_still_tell_all_tokens_apart():
    target, x = spectral_target(1.0, 6, 3), apart(50, 3, 0.1, (0.0, 1.0), seed=0)
    for m_h in range(1, 6):
        assert steepness(experiment.everything, partial(means, target, m_h), x).isfinite().all()
    z = 2 * x - 1
    rank_one = (z @ z.mT).softmax(-1) @ torch.cat([z**j for j in range(1, 6)], dim=-1)
    assert torch.allclose(means(target, 1, x), rank_one)
    assert torch.allclose(means(target, 6, x)[..., :1], 2 * target(x) - 1)


def test_exponents_are_those_of_the_made_up_steepness():
    done = concluded(everything())
    price = next(claim for claim in done.claims if claim.name == "rank-one-price")
    assert price.value == pytest.approx(3.0)
    assert not math.isnan(price.low)
