"""Fig. 2: verdicts at their borders, and which models it looks at."""

from dataclasses import fields, replace

import pytest
from trained_models import concluded, epochs, image_outcome, spectra

from attnrate.experiments.contract import Done
from attnrate.experiments.kits.images import FirstHead
from attnrate.experiments.paper import fig2, fig3

JOBS = [one.job for one in fig2.EXPERIMENT.plan("paper")]
LONGER, MUON, ADAMW = JOBS[:3], JOBS[3:6], JOBS[6:]


def made(job, variation=0.2, rank=10.0, ranks=8.0, error=0.4, every=None):
    head = FirstHead(
        groups=((4.0, 1.0),) * 2,
        values=((3.0, 4.0, 5.0), (0.5, 1.0, 1.5)),
        variation=(variation, 9.0),
        rank99=(1.0, 2.0, rank),
    )
    table = ((ranks, ranks), (ranks, 60.0))
    found = spectra(
        head,
        2,
        rank99=((ranks,) * 2,) * 6 if every is None else every,
        rank99_gauged=table,
        untrained_rank99=table,
    )
    return Done(job, replace(image_outcome(1 - error), spectra=found, epochs=epochs(3)))


def verdicts(*done):
    said = concluded("fig2", [*done])
    assert all("After 3 epochs" in claim.evidence for claim in said.claims if done)
    return [claim.verdict for claim in said.claims]


def test_the_variation_is_weighted_by_energy():
    head = made(LONGER[0], variation=0.2).outcome.spectra.first
    assert fig2.variation(head) == pytest.approx((16 * 0.2 + 9.0) / 17)


def test_verdicts_go_both_ways_by_the_interval_over_seeds():
    good = [made(job, variation=-0.4 + 0.01 * job.seed) for job in LONGER]
    assert verdicts(*good) == ["holds"] * 3
    bad = [made(job, variation=2.0, rank=40.0 + job.seed, ranks=30.0) for job in LONGER]
    assert verdicts(*bad) == ["does not hold"] * 3
    mixed = [made(job, rank=rank) for job, rank in zip(LONGER, (2.0, 16.0, 40.0), strict=True)]
    assert verdicts(*mixed)[1] == "open"


def test_one_seed_or_a_model_that_has_not_learned_decides_nothing():
    assert set(verdicts(made(LONGER[0]))) == {"open"}
    assert set(verdicts(*(made(job, error=0.7) for job in LONGER))) == {"open"}
    assert set(verdicts()) == {"open"}


def test_quick_looks_at_the_largest_models_of_fig3_and_trains_nothing():
    ours = [one.job for one in fig2.EXPERIMENT.plan("quick")]
    theirs = {one.job.key: one.job for one in fig3.EXPERIMENT.plan("quick")}
    assert ours
    largest = max(job.m_h for job in theirs.values())
    assert all(theirs[job.key].m_h == largest for job in ours)
    assert "1 trained ViT " in concluded("fig2", [made(ours[0])]).paragraphs[0]


def differences(one, other):
    a, b = one.image, other.image
    return {each.name for each in fields(a) if getattr(a, each.name) != getattr(b, each.name)}


def test_paper_has_models_of_fig3_that_are_trained_for_longer():
    assert [(job.m_h, job.seed) for job in LONGER] == [(64, seed) for seed in range(3)]
    theirs = [one.job for one in fig3.EXPERIMENT.plan("paper") if one.job.m_h == 64]
    for one, other in zip(LONGER, theirs, strict=True):
        assert differences(one, other) == {"epochs", "tuned"}
        assert one.image.epochs == 4 * other.image.epochs


def test_optimisers_are_compared_on_models_that_differ_in_nothing_else():
    theirs = {one.job.key for one in fig3.EXPERIMENT.plan("paper")}
    assert len(MUON) == 3
    assert {job.key for job in MUON} <= theirs
    for one, other in zip(MUON, ADAMW, strict=True):
        assert differences(one, other) == {"recipe", "tuned"}
        assert (one.image.recipe.optimizer, other.image.recipe.optimizer) == ("muon", "adamw")
        assert one.seed == other.seed


def test_models_beside_are_told_and_decide_nothing():
    beside = [made(job, ranks=60.0) for job in (*MUON, *ADAMW)]
    good = [made(job) for job in LONGER]
    assert verdicts(*good, *beside) == verdicts(*good)
    said = concluded("fig2", [*good, *beside])
    assert "60 [60, 60] after 3 epochs of Muon" in said.paragraphs[0]
    assert "60 [60, 60] after 3 epochs of AdamW" in said.paragraphs[0]
    assert [row[0] for row in said.tables[0].rows].count("AdamW") == 3
    alone = concluded("fig2", beside, "npm is not here")
    assert alone.paragraphs == ("No model of this experiment is finished.",)


def test_equal_seeds_do_not_make_a_share_exact():
    # 33 of 36 heads: one less would be below the limit of 0.9
    every = (((8.0, 8.0),) * 5) + ((8.0, 60.0),)
    claim = concluded("fig2", [made(job, every=every) for job in LONGER]).claims[2]
    assert claim.verdict == "open"
    assert (claim.low, claim.high) == pytest.approx((32 / 36, 34 / 36))


def test_a_model_of_few_heads_can_be_of_low_rank_in_all_of_them():
    # as many heads as in the full preset: 4 layers of 2
    done = [made(job, every=((8.0, 8.0),) * 4) for job in LONGER]
    claim = concluded("fig2", done).claims[2]
    assert claim.verdict == "holds"
    assert (claim.low, claim.high) == pytest.approx((23 / 24, 1.0))
    done[0] = made(LONGER[0], every=((8.0, 8.0),) * 3 + ((60.0, 60.0),))
    assert concluded("fig2", done).claims[2].verdict == "open"
