"""Table 1: drops paired by seed, verdicts at their borders, jobs and what they cost."""

from dataclasses import replace

import pytest
from trained_models import concluded as concluded_from
from trained_models import epochs, image_outcome, text_outcome

from attnrate.experiments import load
from attnrate.experiments.contract import Done
from attnrate.experiments.kits.images import Image, image_job
from attnrate.experiments.kits.real import Text
from attnrate.experiments.paper import fig3
from attnrate.experiments.paper.table1 import (
    CIFAR,
    PHOTOGRAPHS,
    PRESETS,
    TRANSLATION,
    Model,
    Scores,
    kept,
    lost,
)
from attnrate.statistics import Interval

NAMES = ("table1-cifar", "table1-translation")
MODELS = {"table1-cifar": ("ViT", "GRU"), "table1-translation": ("Transformer", "GRU")}


def settings(job):
    return job.image if isinstance(job, Image) else job.text


def done(name, kind, altered, seed, share, ways=None):
    """A finished model with this share of the best score."""
    if name == "table1-cifar":
        job = image_job("paper", 64, seed, kind=kind, altered=altered).job
        return Done(job, image_outcome(share, ways))
    asked = replace(PRESETS["paper"], kind=kind, altered=altered)
    return Done(Text(text=asked, seed=seed), text_outcome(share, ways))


def everything(
    name,
    original=0.8,
    untuned=0.4,
    tuned=0.79,
    scratch=0.8,
    rival=0.5,
    seeds=3,
    continued=None,
):
    made = []
    for seed in range(seeds):
        first = original + 0.001 * seed
        ways = (first if continued is None else continued, untuned, tuned)
        made += [
            done(name, "attention", False, seed, first, ways),
            done(name, "attention", True, seed, scratch),
            done(name, "gru", False, seed, first),
            done(name, "gru", True, seed, rival),
        ]
    return made


def concluded(name, done, *missing):
    return concluded_from(name, [*done], *missing)


def verdicts(name, results):
    found = {c.name.removeprefix(f"{name}-"): c.verdict for c in concluded(name, results).claims}
    assert found.pop("values") == "not testable here"
    return found


@pytest.mark.parametrize("name", NAMES)
def test_what_the_paper_says_is_found_where_it_is_so(name):
    assert set(verdicts(name, everything(name)).values()) == {"holds"}


@pytest.mark.parametrize("name", NAMES)
def test_the_opposite_is_found_where_that_is_so(name):
    other = everything(name, untuned=0.8, tuned=0.6, scratch=0.6, rival=0.8)
    assert set(verdicts(name, other).values()) == {"does not hold"}


@pytest.mark.parametrize("name", NAMES)
def test_a_drop_that_is_not_there_from_scratch_may_be_of_too_short_a_tuning(name):
    results = everything(name, tuned=0.6)
    assert verdicts(name, results)["fine-tuned"] == "open"
    said = {c.name: c.evidence for c in concluded(name, results).claims}
    assert "fine-tuning may have been too short" in said[f"{name}-fine-tuned"]
    assert "after as much further training" in said[f"{name}-fine-tuned"]


@pytest.mark.parametrize("name", NAMES)
def test_the_drop_as_the_paper_has_it_stands_beside_ours(name):
    whole = everything(name, original=0.8, tuned=0.72, continued=0.9, seeds=1)
    found = whole[0].outcome
    tuned = replace(found.tuned, epochs=epochs(2))
    whole[0] = replace(whole[0], outcome=replace(found, epochs=epochs(4, 0.8), tuned=tuned))
    said = concluded(name, whole)
    row = dict(zip(said.tables[0].columns, said.tables[0].rows[0], strict=True))
    assert row["relative drop, fine-tuned, from as much further training"] == "0.2"
    assert row["relative drop, fine-tuned, from the original"] == "0.1"
    assert "fine-tuned for 0.5 times as long as it was trained" in said.paragraphs[0]


@pytest.mark.parametrize("name", NAMES)
def test_one_seed_decides_by_a_large_drop_only(name):
    for given in ((0.8, 0.65, 0.79, 0.79, 0.65), (0.8, 0.8, 0.81, 0.81, 0.8)):
        found = verdicts(name, everything(name, *given, seeds=1))
        assert set(found.values()) == {"open"}
    found = verdicts(name, everything(name, 0.8, 0.5, 0.5, 0.5, 0.5, seeds=1))
    assert [*found.values()] == ["does not hold", "does not hold", "holds", "holds"]


def test_scores_of_the_seeds_that_have_both_orders_are_compared():
    whole = everything("table1-cifar", original=0.8, scratch=0.8)
    part = [one for one in whole if not (one.job.image.altered and one.job.seed)]
    part = [
        replace(one, outcome=replace(one.outcome, test_error=0.5)) if one.job.seed else one
        for one in part
    ]
    said = {c.name: c.evidence for c in concluded("table1-cifar", part).claims}
    assert "accuracy 0.8 on the original order" in said["table1-cifar-from-scratch"]


@pytest.mark.parametrize("name", NAMES)
def test_a_model_that_has_not_learned_decides_nothing(name):
    weak = everything(name, 0.2, 0.1, 0.2, 0.2, 0.1)
    assert set(verdicts(name, weak).values()) == {"open"}
    assert set(verdicts(name, []).values()) == {"open"}


@pytest.mark.parametrize("name", NAMES)
def test_any_part_of_the_models_can_be_concluded(name):
    whole = everything(name)
    for i in range(len(whole)):
        for part in (whole[i : i + 1], whole[:i] + whole[i + 1 :]):
            assert concluded(name, part).claims


@pytest.mark.parametrize("name", NAMES)
def test_no_data_are_told_and_nothing_fails(name):
    said = concluded(name, [], "no package client")
    assert {claim.verdict for claim in said.claims} == {"not testable here"}
    assert all(claim.correction == "no package client" for claim in said.claims)
    some = concluded(name, everything(name), "no package client")
    assert "1 of 13 models are missing: no package client" in some.paragraphs[0]


def model(altered, seed, **scores):
    asked = replace(image_job("paper", 64, seed).job.image, altered=altered)
    return Model(asked, seed, image_outcome(0.5), 100, scores, (0.5,))


def test_a_drop_is_relative_and_paired_by_seed():
    one = model(False, 0, original=0.8, continued=0.8, tuned=0.72)
    scratch = model(True, 0, scratch=0.8)
    found = Scores(PHOTOGRAPHS, [one, scratch])
    assert found.drop("ViT", "tuned").value == pytest.approx(0.1)
    longer = replace(one, scores={**one.scores, "continued": 0.9})
    found = Scores(PHOTOGRAPHS, [longer, scratch])
    assert found.drop("ViT", "tuned").value == pytest.approx(0.2)
    assert found.drop("ViT", "scratch").value == pytest.approx(0.0)
    two = [one, model(False, 1, original=0.8), scratch]
    assert Scores(PHOTOGRAPHS, two).drop("ViT", "scratch").count == 1


def test_verdicts_at_the_border():
    assert kept(Interval(0.03, 0.01, 0.05, 3), True) == "holds"
    assert kept(Interval(0.03, 0.01, 0.0501, 3), True) == "open"
    assert kept(Interval(0.1, 0.0501, 0.2, 3), True) == "does not hold"
    assert lost(Interval(0.1, 0.0501, 0.2, 3), True) == "holds"
    assert lost(Interval(0.03, 0.01, 0.05, 3), True) == "does not hold"
    assert lost(Interval(0.1, 0.0501, 0.2, 3), False) == "open"


@pytest.mark.parametrize(("name", "ends"), [(NAMES[0], (0.8, 0.6)), (NAMES[1], (3.2, 3.4))])
def test_curves_of_one_seed_tell_how_training_went(name, ends):
    figure = concluded(name, everything(name, original=0.8, scratch=0.6)).figures[1]
    series = {each.label: each.y for each in figure.panels[0].series}
    model = MODELS[name][0]
    assert [series[label][-1] for label in (model, f"{model}, altered")] == pytest.approx(ends)


def test_all_of_the_real_data_stays_below_its_budget():
    for preset, most in (("quick", 4 * 45), ("paper", 20 * 3600)):
        costs = {}
        for name in ("fig2", "fig3", *NAMES):
            jobs = load(name).plan(preset)
            assert len({one.job.key for one in jobs}) == len(jobs)
            costs |= {one.job.key: one.size for one in jobs}
        assert 0.1 * most < sum(costs.values()) < most


@pytest.mark.parametrize("name", NAMES)
def test_every_model_has_its_altered_counterpart(name):
    for preset in ("quick", "paper"):
        asked = [settings(one.job) for one in load(name).plan(preset)]
        for kind in ("attention", "gru"):
            assert {each.altered for each in asked if each.kind == kind} == {True, False}


@pytest.mark.parametrize(("preset", "seeds"), [("quick", 1), ("paper", 3)])
def test_originals_are_the_largest_models_of_fig3(preset, seeds):
    jobs = [one.job for one in CIFAR.plan(preset)]
    theirs = {one.job.key: one.job for one in fig3.EXPERIMENT.plan(preset)}
    largest = max(job.m_h for job in theirs.values())
    originals, others = jobs[:seeds], jobs[seeds:]
    assert [theirs[job.key].m_h for job in originals] == [largest] * seeds
    assert all(job.image.tuned for job in originals)
    assert {job.m_h for job in others} == {largest}
    kinds = [(job.image.kind, job.image.altered) for job in others]
    for wanted in (("attention", True), ("gru", False), ("gru", True)):
        assert kinds.count(wanted) == seeds


def test_the_score_is_the_share_of_tests_that_are_told_right():
    job = CIFAR.plan("quick")[0].job
    said = concluded("table1-cifar", [Done(job, image_outcome(0.75, (0.7, 0.2, 0.6)))])
    row = dict(zip(said.tables[0].columns, said.tables[0].rows[0], strict=True))
    assert (row["model"], row["original"], row["original, trained further"]) == (
        "ViT",
        "0.75",
        "0.7",
    )
    assert (row["altered, not fine-tuned"], row["altered, fine-tuned"]) == ("0.2", "0.6")


def test_translations_are_shown_with_the_signature():
    jobs = [one.job for one in TRANSLATION.plan("paper")]
    ways = (0.8, 0.4, 0.7)
    done = [Done(job, text_outcome(0.8, ways if job.text.tuned else None)) for job in jobs]
    said = concluded("table1-translation", done)
    assert any("nrefs:1" in table.note for table in said.tables)
    shown = next(table for table in said.tables if table.title.startswith("Translations"))
    assert ("English", "a") in shown.rows
    assert ("Transformer, altered, fine-tuned", "c") in shown.rows


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_translators_see_every_pair_once_as_their_verdicts_say(preset):
    for one in TRANSLATION.plan(preset):
        assert one.job.text.epochs == one.job.text.parts


def test_translators_that_have_learned_nothing_are_not_listed():
    whole = concluded("table1-translation", everything("table1-translation"))
    assert [table.title for table in whole.tables][1:] == [
        "BLEU of every model",
        "Translations of test sentences, seed 0",
    ]
    assert "have not learned to translate" not in whole.tables[0].note
    mute = [
        done("table1-translation", kind, altered, 0, 0.0)
        for kind in ("attention", "gru")
        for altered in (False, True)
    ]
    (only,) = concluded("table1-translation", mute).tables
    assert "4 of 4 models have a BLEU of 0.00" in only.note
    spoken = [*mute[1:], done("table1-translation", "attention", False, 0, 0.8)]
    listed = concluded("table1-translation", spoken).tables[1]
    assert {row[:2] for row in listed.rows} == {("Transformer", "original")}
