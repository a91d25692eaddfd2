"""Table 1: drops paired by seed, verdicts at their borders, tasks and what they cost."""

import json

import pytest

from attnrate.experiments import load
from attnrate.experiments.experiment import Result
from attnrate.experiments.record import Record, record_from_plain, record_to_plain
from attnrate.experiments.table1 import drop, kept, lost, scores
from attnrate.experiments.table1_cifar import HALF
from attnrate.statistics import Interval

NAMES = ("table1-cifar", "table1-translation")
MODELS = {"table1-cifar": ("ViT", "GRU"), "table1-translation": ("Transformer", "GRU")}


def values(name, share):
    """What a task says of a model with this share of the best score."""
    if name == "table1-cifar":
        return {"test_error": 1 - share, "parameters": 10, "epochs": [{"test_accuracy": share}]}
    half = {"bleu": 20 * share, "bleu_half": 0.5, "signature": "nrefs:1|v:2"}
    return {
        **half,
        "moved": {**half, "count": 7},
        "samples": [["a", "b", "c"]],
        "parameters": 10,
        "epochs": [{"loss": 5.0}, {"loss": 4.0 - share}],
        "tests": 9,
        "documented": True,
    }


def everything(name, original=0.8, untuned=0.4, tuned=0.79, scratch=0.8, rival=0.5, seeds=3):
    made = []
    attention, other = MODELS[name]
    for seed in range(seeds):
        shake = 0.001 * seed
        first = values(name, original + shake)
        first |= {"untuned": values(name, untuned), "tuned": values(name, tuned)}
        first["continued"] = values(name, original + shake)
        for model, altered, found in (
            (attention, False, first),
            (attention, True, values(name, scratch)),
            (other, False, values(name, original + shake)),
            (other, True, values(name, rival)),
        ):
            made.append(Result({"model": model, "altered": altered, "seed": seed}, found))
    return made


def concluded(name, results):
    said = load(name).conclude(results)
    record = Record(name, "", "", "paper", 1, 1, 0.0, {}, said)
    plain = json.loads(json.dumps(record_to_plain(record), allow_nan=False))
    assert record_to_plain(record_from_plain(plain)) == plain
    cells = [str(cell) for table in said.tables for row in table.rows for cell in row]
    words = " ".join([*said.paragraphs, *(c.evidence for c in said.claims), *cells])
    assert "nan" not in words
    return said


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
    assert "fine-tuning was too short" in said[f"{name}-fine-tuned"]
    assert "trained on for as long" in said[f"{name}-fine-tuned"]


@pytest.mark.parametrize("name", NAMES)
def test_the_drop_as_the_paper_has_it_stands_beside_ours(name):
    results = everything(name, original=0.8, tuned=0.72, seeds=1)
    results[0].values["continued"] = values(name, 0.9)
    results[0].values.update(epochs=[{"test_accuracy": 0.8, "loss": 2.0}] * 4, images=100)
    results[0].values["tuned"]["epochs"] = [{}] * 2
    said = concluded(name, results)
    row = dict(zip(said.tables[0].columns, said.tables[0].rows[0], strict=True))
    assert row["relative drop, fine-tuned, from as much training on"] == "0.2"
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
    part = [one for one in whole if not (one.label["altered"] and one.label["seed"])]
    for one in part:
        if one.label["seed"]:
            one.values["test_error"] = 0.5
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
    label = {"model": MODELS[name][0], "altered": False, "seed": 0}
    said = concluded(name, [Result(label, {"missing": "no package client"})])
    assert {claim.verdict for claim in said.claims} == {"not testable here"}
    assert all(claim.correction == "no package client" for claim in said.claims)
    some = [*everything(name), Result(label | {"seed": 9}, {"missing": "no package client"})]
    assert "1 of 13 models are missing: no package client" in concluded(name, some).paragraphs[0]


def test_a_drop_is_relative_and_paired_by_seed():
    found = scores(everything("table1-cifar", 0.8, tuned=0.72, seeds=1), HALF)
    assert drop(found, "ViT", "tuned").value == pytest.approx(0.1)
    found["ViT"]["continued"][0] = 0.9
    assert drop(found, "ViT", "tuned").value == pytest.approx(0.2)
    assert drop(found, "ViT", "scratch").value == pytest.approx(0.0)
    two = everything("table1-cifar", seeds=2)
    lacking = [one for one in two if not (one.label["altered"] and one.label["seed"] == 1)]
    assert drop(scores(lacking, HALF), "ViT", "scratch").count == 1


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


def test_translations_are_shown_with_the_signature():
    said = concluded("table1-translation", everything("table1-translation"))
    assert any("nrefs:1" in table.note for table in said.tables)
    shown = next(table for table in said.tables if table.title.startswith("Translations"))
    assert ("English", "a") in shown.rows
    assert ("Transformer, altered, fine-tuned", "c") in shown.rows


def test_all_of_the_real_data_stays_below_its_budget():
    for preset, most in (("quick", 4 * 45), ("paper", 20 * 3600)):
        costs = {}
        for name in ("fig2", "fig3", *NAMES):
            tasks = load(name).tasks(preset)
            assert len({task.trial.key for task in tasks}) == len(tasks)
            assert all(task.label["seed"] == task.trial.seed for task in tasks)
            costs |= {task.trial.key: task.cost for task in tasks}
        assert 0.1 * most < sum(costs.values()) < most


@pytest.mark.parametrize("name", NAMES)
def test_every_model_has_its_altered_counterpart(name):
    for preset in ("quick", "paper"):
        labels = [task.label for task in load(name).tasks(preset)]
        for model in MODELS[name]:
            assert {lab["altered"] for lab in labels if lab["model"] == model} == {True, False}


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_translators_see_every_pair_once_as_their_verdicts_say(preset):
    for task in load("table1-translation").tasks(preset):
        asked = task.trial.target["text"]
        assert asked["epochs"] == asked["parts"]
