"""Figures 4 to 6 and gravity: their tasks build, their work runs, their verdicts go both ways."""

import copy
import json

import pytest

from attnrate.experiments import attention_maps, load
from attnrate.experiments.experiment import Result
from attnrate.experiments.record import Record, record_from_plain, record_to_plain
from attnrate.experiments.work import run_job
from attnrate.fitting.build import build_model, build_recipe, build_target
from attnrate.fitting.trial import Trial

NAMES = ("fig4", "fig5", "fig6", "gravity")


def tiny(trial: Trial) -> Trial:
    settings = {**trial.target, "recipe": {**trial.target["recipe"], "steps": 2, "batch": 8}}
    return Trial(settings, {}, {}, trial.seed)


@pytest.fixture(scope="module")
def worked() -> dict[str, list[Result]]:
    """Every task of seed 0 of the paper preset, run for two steps and measured on few inputs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention_maps, "SEQUENCES", 256)
        return {
            name: [
                Result(task.label, run_job(tiny(task.trial).settings))
                for task in load(name).tasks("paper")
                if task.trial.seed == 0
            ]
            for name in NAMES
        }


def concluded(name, results, preset="paper"):
    said = load(name).conclude(results)
    record = Record(name, "", "", preset, 1, 1, 0.0, {}, said)
    plain = json.loads(json.dumps(record_to_plain(record), allow_nan=False))
    assert record_to_plain(record_from_plain(plain)) == plain
    return said


def words_of(said):
    claims = [claim.evidence + claim.correction for claim in said.claims]
    cells = [str(cell) for table in said.tables for row in table.rows for cell in row]
    captions = [figure.caption for figure in said.figures]
    return " ".join([*said.paragraphs, *claims, *cells, *captions])


def verdicts(name, results):
    return {claim.name: claim.verdict for claim in concluded(name, results).claims}


def changed(results, changes, **label):
    """The results with values at dotted paths replaced where the label matches."""
    made = []
    for one in results:
        values = copy.deepcopy(dict(one.values))
        if all(one.label[key] == value for key, value in label.items()):
            for path, value in changes.items():
                *heads, last = path.split(".")
                place = values
                for head in heads:
                    place = place[head]
                place[last] = value
        made.append(Result(one.label, values))
    return made


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_the_tasks_are_buildable_and_different(name, preset):
    tasks = load(name).tasks(preset)
    assert len({task.trial.key for task in tasks}) == len(tasks)
    for task in tasks:
        settings = task.trial.target
        build_model(settings["model"], build_target(settings["target"]))
        assert build_recipe(settings["recipe"]).steps > 0
        assert task.label["seed"] == task.trial.seed
    seeds = {task.trial.seed for task in tasks}
    assert seeds == ({0} if preset == "quick" else {0, 1, 2, 3, 4})


@pytest.mark.parametrize("name", NAMES)
def test_the_work_gives_plain_values_that_can_be_concluded(name, worked):
    for one in worked[name]:
        assert json.loads(json.dumps(one.values, allow_nan=False)) == one.values
        for row in one.values["example"]["true"]:
            assert sum(row) == pytest.approx(1.0, abs=1e-4)
    said = concluded(name, worked[name])
    assert said.figures
    assert all(claim.experiment == name for claim in said.claims)
    assert all(claim.name.startswith(f"{name}-") for claim in said.claims)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_finished_leaves_every_claim_open(name):
    said = concluded(name, [])
    assert {claim.verdict for claim in said.claims} == {"open"}
    assert said.figures == ()


@pytest.mark.parametrize("name", NAMES)
def test_diverged_fits_are_no_evidence(name, worked):
    gone = [Result(one.label, {"error": None, "stopped": "diverged"}) for one in worked[name]]
    assert set(verdicts(name, gone).values()) == {"open"}


@pytest.mark.parametrize("name", NAMES)
def test_any_part_of_the_cells_can_be_concluded(name, worked):
    whole = worked[name]
    for i in range(len(whole)):
        for part in (whole[i : i + 1], whole[:i] + whole[i + 1 :], []):
            said = concluded(name, part)
            assert said.claims
            assert "nan" not in words_of(said)


GOOD_LINKS = {"rows.link": 0.99, "rows.near_link": 0.995, "pointwise.rms": 0.01}
BAD_LINKS = {"rows.link": 0.4, "rows.near_link": 0.5, "pointwise.rms": 0.2}


def test_fig4_decides_by_the_network_and_is_corrected_by_the_linear_readout(worked):
    good = changed(worked["fig4"], GOOD_LINKS)
    assert set(verdicts("fig4", good).values()) == {"holds"}
    wide_bad = changed(good, BAD_LINKS, readout="wide")
    assert set(verdicts("fig4", wide_bad).values()) == {"holds when corrected"}
    one_bad = changed(good, BAD_LINKS, readout="network")
    assert set(verdicts("fig4", one_bad).values()) == {"holds when corrected"}
    claims = {claim.name: claim for claim in concluded("fig4", one_bad).claims}
    assert claims["fig4-links"].correction
    assert "40.0 %" in claims["fig4-links"].evidence
    assert "99.0 %" in claims["fig4-links"].evidence
    assert "in 1 of 2 fits" in claims["fig4-links"].correction
    both_bad = changed(worked["fig4"], BAD_LINKS)
    assert set(verdicts("fig4", both_bad).values()) == {"does not hold"}


def of_seed(results, seed):
    return [Result({**one.label, "seed": seed}, one.values) for one in results]


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("fig4", {"rows.link": 0.99}, {"rows.link": 0.34}),
        ("fig5", {"predictions.mae": 0.001}, {"predictions.mae": 0.0375}),
        ("gravity", {"rows.mae": 0.001}, {"rows.mae": 0.0375}),
    ],
)
def test_seeds_that_differ_decide_nothing_though_their_mean_might(name, good, bad, worked):
    seeds = changed(worked[name], good) + changed(of_seed(worked[name], 1), bad)
    claim = concluded(name, seeds).claims[0]
    assert claim.verdict == "open"


def test_fig4_counts_the_seeds_that_are_there(worked):
    again = [Result({**one.label, "seed": 1}, one.values) for one in worked["fig4"]]
    both = changed(worked["fig4"], GOOD_LINKS) + changed(again[:1], {"rows.link": 0.98})
    table = concluded("fig4", both).tables[0]
    assert [row[1] for row in table.rows] == [2, 1, 1]


GOOD_WEIGHTS = {"predictions.mae": 0.01, "points.mae": 0.01, "pointwise.rms": 0.01}
BAD_WEIGHTS = {"predictions.mae": 0.1, "points.mae": 0.2, "pointwise.rms": 0.7}


def test_fig5_decides_by_the_whole_model_and_is_corrected_by_held_values(worked):
    good = changed(worked["fig5"], GOOD_WEIGHTS)
    assert set(verdicts("fig5", good).values()) == {"holds"}
    one_bad = changed(good, BAD_WEIGHTS, freedom="whole")
    assert set(verdicts("fig5", one_bad).values()) == {"holds when corrected"}
    assert "everything learned, in 1 of 1 fits" in concluded("fig5", one_bad).paragraphs[1]
    assert "nothing forced them" in concluded("fig5", good).paragraphs[1]
    assert set(verdicts("fig5", changed(good, BAD_WEIGHTS)).values()) == {"does not hold"}


def test_fig5_shows_an_input_with_the_papers_prediction_tokens(worked):
    for one in worked["fig5"]:
        flags = [token[5] for token in one.values["example"]["x"]]
        assert [t for t, flag in enumerate(flags) if flag] == [0, 5]


def test_fig6_needs_its_correction_even_when_the_weights_are_right(worked):
    good = changed(worked["fig6"], {"rows.mae": 0.01, "example.mae": 0.015, "pointwise.rms": 0.01})
    assert verdicts("fig6", good) == {
        "fig6-frequencies": "holds when corrected",
        "fig6-example": "holds",
        "fig6-identity": "holds",
    }
    only_linear = changed(good, {"rows.mae": 0.05, "example.mae": 0.05}, readout="network")
    claims = {claim.name: claim for claim in concluded("fig6", only_linear).claims}
    assert claims["fig6-example"].verdict == "holds when corrected"
    assert "F̂ linear" in claims["fig6-frequencies"].correction
    bad = changed(good, {"rows.mae": 0.05, "example.mae": 0.05, "pointwise.rms": 0.2})
    assert set(verdicts("fig6", bad).values()) == {"does not hold"}


def test_fig6_is_shown_on_the_indices_of_the_paper(worked):
    # Eq. 66: output 0 averages 4, 5, 5; output 1 is value 4.
    true = worked["fig6"][0].values["example"]["true"]
    assert true[0] == pytest.approx([0, 0, 0, 0, 1 / 3, 2 / 3, 0, 0], abs=1e-5)
    assert true[1] == pytest.approx([0, 0, 0, 0, 1, 0, 0, 0], abs=1e-5)


def test_gravity_verdicts_go_both_ways(worked):
    good = changed(worked["gravity"], {"rows.mae": 0.01, "error": 1e-4})
    good = changed(good, {"error": 1.5e-4}, fit="permuted")
    assert set(verdicts("gravity", good).values()) == {"holds"}
    bad = changed(good, {"error": 1e-2}, fit="permuted")
    bad = changed(bad, {"rows.mae": 0.1, "equivariance": 0.1}, fit="plain")
    assert set(verdicts("gravity", bad).values()) == {"does not hold"}
    order = {claim.name: claim for claim in concluded("gravity", bad).claims}["gravity-order"]
    assert order.value == pytest.approx(100.0)


def test_trained_attention_permutes_with_the_bodies_only_without_encoding(worked):
    gaps = {one.label["fit"]: one.values["equivariance"] for one in worked["gravity"]}
    assert gaps["plain"] < 1e-12
    assert gaps["encoded"] > 1e-6
