"""A trial of the real kind: complete settings, what its result holds, the same numbers anywhere."""

import json
import math
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from attnrate.errors import InputError
from attnrate.fitting.build import build, complete
from attnrate.fitting.fit import Fit, initial
from attnrate.fitting.provenance import provenance
from attnrate.fitting.recipe import STRONG
from attnrate.fitting.spec import load_spec
from attnrate.fitting.sweep import run_from_cli, sweep
from attnrate.fitting.trial import Trial, run_trial
from attnrate.models.build import build_model
from attnrate.targets.build import build_target

SPECTRAL = {"kind": "spectral", "alpha": 1.0, "rank": 2, "length": 4}
SMALL = {"kind": "transformer", "n": 2, "m_h": 1, "m_v": 2, "width": 4, "depth": 1}
# n = 2 features: 1·4+4 + 4·2+2 in f̂, 2·4+4 + 4·1+1 in F̂, 2·1 for each of W_Q and W_K, 2·2 for W_V.
SMALL_PARAMETERS = 18 + 17 + 2 + 2 + 4


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What `fit` was called with, in place of fitting; seed 13 diverges."""
    calls: list[dict[str, Any]] = []

    def fit(target: object, model: Any, **given: Any) -> Fit:
        calls.append({"target": target, **given})
        diverged = given["seed"] == 13
        error = math.nan if diverged else 0.25
        return Fit(
            error=error,
            standard_error=error,
            seconds=1.5,
            steps=10,
            stopped="diverged" if diverged else "plateau",
            seed=given["seed"],
            recipe=STRONG,
            learning_rate=0.01,
            starts=(error,),
            curve=(),
            model=model(),
        )

    monkeypatch.setitem(sys.modules, "attnrate.fitting.fit", SimpleNamespace(fit=fit))
    return calls


def test_a_complete_trial_has_every_setting_and_is_its_own_completion() -> None:
    (one,) = complete([Trial(SPECTRAL, {"kind": "linear_rnn"}, {}, 5)])
    assert one.job.model["hidden"] == 128
    assert one.job.recipe == asdict(STRONG)
    assert one.job.seed == 5
    (again,) = complete([one.job])
    assert again.job.settings == one.job.settings


def test_the_size_is_parameters_times_tokens() -> None:
    long, recipe = {**SPECTRAL, "length": 8}, {"steps": 10, "first_batch": 4, "batch": 16}
    trials = [
        Trial(SPECTRAL, SMALL, recipe),
        Trial(long, SMALL, recipe),
        Trial(SPECTRAL, SMALL, {**recipe, "starts": 3}),
        Trial(SPECTRAL, SMALL, {**recipe, "steps": 20}),
    ]
    one = SMALL_PARAMETERS * 4 * (5 * 4 + 5 * 16)
    assert [sized.size for sized in complete(trials)] == [one, 2 * one, 3 * one, 2 * one]


def test_a_seed_that_leaves_no_room_for_the_seeds_of_inputs_is_refused_before_anything_runs(
    tmp_path: Path,
) -> None:
    with pytest.raises(InputError, match="seed"):
        sweep([Trial(SPECTRAL, SMALL, {}, 2**63 - 1)], store=tmp_path / "s.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_completing_leaves_the_global_random_numbers_alone() -> None:
    before = torch.random.get_rng_state()
    complete([Trial(SPECTRAL, SMALL)])
    assert (torch.random.get_rng_state() == before).all()


def test_completing_a_warm_start_leaves_them_alone_too() -> None:
    before = torch.random.get_rng_state()
    complete([Trial(SPECTRAL, {"kind": "transformer", "m_h": 2}, {"name": "warm"})])
    assert (torch.random.get_rng_state() == before).all()


@pytest.mark.parametrize(
    ("recipe", "value", "words"),
    [
        ({"name": "strog"}, "strog", "Did you mean 'strong'"),
        ({"name": ["strong"]}, ["strong"], "recipe.name is not known"),
        ({"stpes": 3}, 3, "Did you mean 'steps'"),
    ],
)
def test_a_wrong_recipe_is_refused_before_anything_runs(
    recipe: dict[str, Any], value: object, words: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=words) as caught:
        sweep([Trial(SPECTRAL, SMALL, recipe)], store=tmp_path / "s.sqlite")
    assert caught.value.value == value
    assert list(tmp_path.iterdir()) == []


def test_a_default_that_is_spelled_out_is_the_same_trial(tmp_path: Path) -> None:
    grid = {
        "target": SPECTRAL,
        "grid": {"model": [{"kind": "gru"}, {"kind": "gru", "hidden": 128}]},
    }
    assert len(load_spec(grid)) == 2
    with pytest.raises(InputError, match="there twice"):
        sweep(grid, store=tmp_path / "s.sqlite")


def test_a_result_is_plain_and_carries_versions_and_size(fits: list[dict[str, Any]]) -> None:
    result = run_trial(Trial(SPECTRAL, SMALL, {"steps": 3}, 2).settings)
    assert json.loads(json.dumps(result)) == result
    assert (result["error"], result["steps"], result["stopped"]) == (0.25, 10, "plateau")
    assert result["parameters"] == SMALL_PARAMETERS
    assert provenance().items() <= result.items()
    (call,) = fits
    assert (call["seed"], call["threads"], call["recipe"]) == (2, 1, replace(STRONG, steps=3))


def test_a_diverged_fit_has_no_error(fits: list[dict[str, Any]]) -> None:
    result = run_trial(Trial(SPECTRAL, SMALL, {}, 13).settings)
    assert (result["error"], result["standard_error"], result["diverged"]) == (None, None, True)


@pytest.mark.parametrize("kind", ["transformer", "linear_rnn", "gru"])
def test_the_first_weights_are_those_that_torch_draws_with_the_trials_seed(kind: str) -> None:
    trial = Trial(SPECTRAL, {"kind": kind}, {}, 7)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        expected = build_model(trial.model, build_target(trial.target)).state_dict()
    before = torch.random.get_rng_state()
    _, make_model, _ = build(trial)
    found = initial(make_model, trial.seed).state_dict()
    assert (torch.random.get_rng_state() == before).all()
    assert all(torch.equal(found[name], weight) for name, weight in expected.items())
    other = initial(make_model, 8).state_dict()
    assert not all(torch.equal(other[name], weight) for name, weight in expected.items())


def test_a_warm_trial_has_the_parameters_of_the_compiled_model_that_was_trained() -> None:
    large = {**SMALL, "n": 3, "width": 16}
    result = run_trial(Trial(SPECTRAL, large, {"name": "warm", "steps": 1}).settings)
    n, units = 2 * 1 + 1, 16
    f_hat, F_hat = 2 * units + n * (units + 1), 2 * units + (units + 1)
    assert result["parameters"] == f_hat + F_hat + n * (1 + 1 + 1)


def test_a_trial_with_starts_is_the_best_of_them() -> None:
    recipe = {"name": "paper", "steps": 20}
    whole = run_trial(Trial(SPECTRAL, SMALL, {**recipe, "starts": 2}, 1).settings)
    parts = [run_trial(Trial(SPECTRAL, SMALL, recipe, seed).settings) for seed in (1, 1 + 2**32)]
    assert whole["error"] in {part["error"] for part in parts}
    assert whole["steps"] == 40


@pytest.mark.slow
def test_a_real_fit_gives_the_numbers_of_a_bare_loop(tmp_path: Path) -> None:
    spec = tmp_path / "grid.toml"
    spec.write_text(
        "[target]\nkind = 'spectral'\nalpha = 1.0\nrank = 2\nlength = 4\n"
        "[model]\nkind = 'transformer'\nn = 2\nm_h = 1\nm_v = 2\nwidth = 4\ndepth = 1\n"
        "[recipe]\nname = 'paper'\nsteps = 20\n[grid]\nseed = [0, 1]\n"
    )
    result = run_from_cli(spec, workers=2, export=tmp_path / "t.csv", progress=False)
    assert not result.failed, result.failed[0].error
    bare = [run_trial(one.job.settings) for one in complete(load_spec(spec).trials)]
    assert [row.result["error"] for row in result.finished] == [one["error"] for one in bare]
    assert (tmp_path / "t.csv").read_text().count("\n") == 3
    assert str(run_from_cli(spec, status=True)) == "2 of 2 trials finished"


@pytest.mark.parametrize(
    ("model", "recipe", "words"),
    [
        ({"kind": "linear_rnn"}, {"name": "warm"}, "a warm start needs a Transformer"),
        ({"kind": "coupling", "m_h": 2}, {"name": "warm"}, "plain form of Eq. 5"),
        ({"kind": "transformer", "m_h": 2, "readout": "linear"}, {"name": "warm"}, "plain form"),
        ({"kind": "transformer", "m_h": 16}, {"name": "warm"}, "would need n = 33"),
    ],
)
def test_a_start_that_is_not_the_model_s_own_is_refused_before_anything_runs(
    model: dict[str, Any], recipe: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        complete([Trial(SPECTRAL, model, recipe)])
