"""A sweep's description: every combination once, in order; what is wrong is named."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.fitting.spec import load_spec
from attnrate.fitting.trial import Trial, trial_of
from attnrate.models.build import build_model, complete_model
from attnrate.targets.build import build_target, complete_target

SPECTRAL = {"kind": "spectral", "alpha": 1.0, "rank": 2, "length": 4}
TOML = """
seed = 3
[target]
kind = "spectral"
rank = 6
[model]
kind = "transformer"
[recipe]
name = "strong"
[grid]
target.alpha = [0.55, 1.0]
"model.m_h" = [1, 2, 4]
"""

plain_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
tables = st.dictionaries(st.text(max_size=3), plain_values, max_size=3)


def test_a_file_is_every_combination_with_the_last_name_fastest(tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text(TOML)
    trials = load_spec(path).trials
    assert [(t.target["alpha"], t.model["m_h"]) for t in trials] == [
        *((0.55, 1), (0.55, 2), (0.55, 4), (1.0, 1), (1.0, 2), (1.0, 4)),
    ]
    assert all(t.target["rank"] == 6 and t.recipe == {"name": "strong"} for t in trials)
    assert {t.seed for t in trials} == {3}


def test_a_dictionary_says_the_same_as_the_file(tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text(TOML)
    table = {
        "seed": 3,
        "target": {"kind": "spectral", "rank": 6},
        "model": {"kind": "transformer"},
        "recipe": {"name": "strong"},
        "grid": {"target.alpha": [0.55, 1.0], "model": {"m_h": (1, 2, 4)}},
    }
    assert load_spec(table) == load_spec(str(path))


def test_whole_tables_can_be_varied_and_then_refined() -> None:
    models = [{"kind": "transformer", "m_h": 4}, {"kind": "linear_rnn"}]
    spec = load_spec({"target": SPECTRAL, "grid": {"model.hidden": [8, 9], "model": models}})
    assert [dict(t.model) for t in spec.trials] == [
        {"kind": "transformer", "m_h": 4, "hidden": 8},
        {"kind": "linear_rnn", "hidden": 8},
        {"kind": "transformer", "m_h": 4, "hidden": 9},
        {"kind": "linear_rnn", "hidden": 9},
    ]


def test_without_a_grid_there_is_one_trial() -> None:
    spec = load_spec({"target": SPECTRAL, "model": {"kind": "transformer"}})
    assert [t.seed for t in spec.trials] == [0]


@given(tables, tables, tables, st.integers(0, 2**63 - 1))
def test_a_trial_survives_json_and_keeps_its_key(
    target: dict[str, Any], model: dict[str, Any], recipe: dict[str, Any], seed: int
) -> None:
    trial = Trial(target, model, recipe, seed)
    again = trial_of(json.loads(json.dumps(trial.settings)))
    assert again == trial
    assert hash(again) == hash(trial)
    assert again.settings == trial.settings


@given(st.lists(st.integers(0, 50), unique=True, min_size=1, max_size=4), tables)
def test_different_trials_have_different_keys(seeds: list[int], target: dict[str, Any]) -> None:
    trials = [Trial(target, model, {}, seed) for seed in seeds for model in ({}, {"m_h": 1})]
    assert len({trial.key for trial in trials}) == 2 * len(seeds)


def test_neither_order_nor_the_kind_of_a_whole_number_changes_the_key() -> None:
    one = Trial({"kind": "spectral", "alpha": 1}, {"a": [1, 2]}, {}, 0)
    assert one.key == Trial({"alpha": 1.0, "kind": "spectral"}, {"a": [1.0, 2]}, {}, 0).key
    assert one.key != Trial({"kind": "spectral", "alpha": True}, {"a": [1, 2]}, {}, 0).key
    assert one.key != Trial({"kind": "spectral", "alpha": "1"}, {"a": [1, 2]}, {}, 0).key


def test_a_key_is_known_for_ever() -> None:
    # A change of this value makes every stored result unknown: raise FORMAT only on purpose.
    trial = Trial({"kind": "spectral", "alpha": 0.55, "rank": 6}, {"kind": "gru"}, {}, 1)
    assert trial.key == "ac62652ab375d8e52aedb95b901c61ab6b641b035456fd565d07f9e2141b3af7"


@pytest.mark.parametrize(
    ("table", "value", "words"),
    [
        ({"targets": {}}, {}, "Did you mean 'target'"),
        ({"target": 3}, 3, "target must be a table"),
        ({"grid": [1]}, [1], "grid must be a table"),
        ({"grid": {"sed": [1]}}, [1], "Did you mean 'seed'"),
        ({"grid": {"seed.x": [1]}}, [1], "grid.seed.x is not known"),
        ({"grid": {"target.": [1]}}, [1], "grid.target. is not known"),
        ({"grid": {"target": {"alpha": 2.0}}}, 2.0, "grid.target.alpha must be a list"),
        ({"grid": {"target.alpha": "0.5"}}, "0.5", "grid.target.alpha must be a list"),
        ({"grid": {"target.alpha": []}}, [], "no trials"),
        ({"grid": {"target": [3]}}, 3, "list of tables"),
        ({"grid": {"target.alpha": [math.inf]}}, math.inf, "grid.target.alpha[0] must be finite"),
        ({"grid": {"seed": [0.5]}}, 0.5, "seed must be a whole number"),
        ({"grid": {"seed": [-1]}}, -1, "seed must be a whole number"),
        ({"seed": True}, True, "seed must be a whole number"),
        ({"grid": {"target.kind.x": [1]}}, "spectral", "leads into kind"),
        ({"grid": {"target.alpha": [1], "target": {"alpha": [2]}}}, [2], "twice"),
        ({"grid": {f"recipe.{c}": [*range(100)] for c in "abcd"}}, 10**8, "more than"),
    ],
)
def test_a_wrong_table_is_refused_with_the_name_and_the_value(
    table: dict[str, Any], value: object, words: str
) -> None:
    with pytest.raises(InputError) as caught:
        load_spec({"target": SPECTRAL, "model": {"kind": "transformer"}, **table})
    assert caught.value.value == value
    assert words in str(caught.value)


@pytest.mark.parametrize("values", [[0, 0], [0, 1, 0]])
def test_a_trial_that_is_there_twice_is_refused(values: list[object]) -> None:
    with pytest.raises(InputError, match="there twice"):
        load_spec({"target": SPECTRAL, "model": {}, "grid": {"seed": values}})


@given(st.none() | st.integers() | st.binary() | st.floats() | st.lists(st.integers(), max_size=2))
def test_what_is_no_sweep_is_refused(source: object) -> None:
    with pytest.raises(InputError):
        load_spec(source)


@given(plain_values.filter(lambda value: not isinstance(value, (dict, type(None)))))
def test_a_part_that_is_no_table_is_refused_with_its_value(value: object) -> None:
    with pytest.raises(InputError) as caught:
        load_spec({"target": SPECTRAL, "model": value})
    assert caught.value.value == value


@pytest.mark.parametrize("text", ["[target", "a = ", "[grid]\nx = 1\nx = 2", "a = " + "[" * 3000])
def test_a_file_that_is_no_toml_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text(text)
    with pytest.raises(InputError, match="no TOML"):
        load_spec(path)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no /dev/zero")
def test_a_file_without_an_end_is_refused() -> None:
    with pytest.raises(InputError, match="at most 10,000,000 bytes"):
        load_spec(Path("/dev/zero"))


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_spec(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"a = '\xe9'")
    with pytest.raises(InputError, match="UTF-8"):
        load_spec(tmp_path / "latin.toml")


@pytest.mark.parametrize(
    "settings",
    [
        SPECTRAL,
        {"kind": "linear", "kernel": "exponential", "length": 5},
        {"kind": "linear", "kernel": {"uniform": 3}, "length": 5},
        {"kind": "linear", "kernel": [1.0, 0.5, 0.25], "length": 3},
        {"kind": "nearest_point"},
        {"kind": "centre_of_gravity"},
        {"kind": "selection"},
        {"kind": "gravity", "bodies": 4},
        {**SPECTRAL, "permute": {"swap_ends": 2}},
        {**SPECTRAL, "length": 20, "permute": "move_to_end"},
        {**SPECTRAL, "permute": [1, 0, 3, 2], "mix": {"theta": [0.5, 0.5]}},
    ],
)
def test_a_target_is_the_same_from_its_complete_settings(settings: dict[str, Any]) -> None:
    target, again = build_target(settings), build_target(complete_target(settings))
    x = target.sample(2, seed=1)
    assert complete_target(complete_target(settings)) == complete_target(settings)
    assert (target(x) == again(x)).all()


def test_alterations_are_those_of_the_targets() -> None:
    plain, altered = build_target(SPECTRAL), build_target({**SPECTRAL, "permute": {"swap_ends": 1}})
    x = plain.sample(3, seed=0)
    assert (altered(x[:, [3, 1, 2, 0]]) == plain(x)).all()
    mixed = build_target({**SPECTRAL, "mix": {"theta": [0.0, 1.0], "causal": False}})
    late = x.roll(-1, 1)
    late[:, -1] = 0
    assert (mixed(x) == plain(late)).all()


@pytest.mark.parametrize(
    "kind", ["transformer", "relative", "linear_rnn", "gru", "state_space", "convolution"]
)
def test_every_model_fits_its_target(kind: str) -> None:
    target = build_target({"kind": "gravity", "bodies": 4})
    model = build_model({"kind": kind}, target)
    assert model(target.sample(2, 0).float()).shape == (2, 4, target.out)
    assert complete_model(complete_model({"kind": kind})) == complete_model({"kind": kind})


@pytest.mark.parametrize(
    ("settings", "value", "words"),
    [
        ({"alpha": 1.0, "rank": 2}, None, "target.kind is missing"),
        ({"kind": "spektral"}, "spektral", "Did you mean 'spectral'"),
        ({"kind": 3}, 3, "target.kind is not known"),
        ({**SPECTRAL, "alhpa": 2.0}, 2.0, "Did you mean 'alpha'"),
        ({"kind": "linear", "kernel": [1.0], "length": 1, "inputs": 1}, 1, "target.inputs"),
        (
            {"kind": "spectral", "rank": 2},
            {"kind": "spectral", "rank": 2},
            "target.alpha is missing",
        ),
        ({**SPECTRAL, "rank": "six"}, "six", "rank must be a whole number"),
        ({**SPECTRAL, "rank": 6.0}, 6.0, "rank must be a whole number"),
        ({**SPECTRAL, "alpha": 0.5}, 0.5, "alpha must be"),
        ({**SPECTRAL, "permute": "swap_end"}, "swap_end", "Did you mean 'swap_ends'"),
        ({**SPECTRAL, "permute": {"swap_ends": 0}}, 0, "target.permute.swap_ends"),
        ({**SPECTRAL, "permute": {}}, {}, "target.permute is not known"),
        ({**SPECTRAL, "permute": [0, 0, 1, 2]}, 0, "no permutation"),
        ({**SPECTRAL, "mix": [1.0]}, [1.0], "target.mix must be a table"),
        ({**SPECTRAL, "mix": {"theta": [1.0], "casual": True}}, True, "Did you mean 'causal'"),
        ({**SPECTRAL, "mix": {"causal": True}}, {"causal": True}, "target.mix.theta is missing"),
        ({**SPECTRAL, "mix": {"theta": [1.0], "causal": 1}}, 1, "true or false"),
        ({"kind": "linear", "kernel": {"unifrom": 1}, "length": 3}, {"unifrom": 1}, "uniform"),
        ({"kind": "linear", "kernel": {"uniform": "x"}, "length": 3}, "x", "kernel.uniform"),
    ],
)
def test_a_wrong_target_is_refused_with_the_name_and_the_value(
    settings: dict[str, Any], value: object, words: str
) -> None:
    with pytest.raises(InputError) as caught:
        build_target(settings)
    assert caught.value.value == value
    assert words in str(caught.value)


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "shift"])
def test_a_model_that_needs_the_length_gets_it_from_the_target(position: str) -> None:
    target = build_target({"kind": "gravity", "bodies": 4})
    model = build_model({"kind": "transformer", "position": position}, target)
    assert model(target.sample(2, 0).float()).shape == (2, 4, target.out)
    long = build_target({**SPECTRAL, "length": 200})
    assert build_model({"kind": "convolution"}, long).receptive_field >= 200
    assert build_model({"kind": "convolution", "layers": 2}, long).receptive_field == 7


@pytest.mark.parametrize(
    ("settings", "value", "words"),
    [
        ({"kind": "transformr"}, "transformr", "Did you mean 'transformer'"),
        ({"kind": "transformer", "mh": 3}, 3, "Did you mean 'm_h'"),
        ({"kind": "transformer", "m_h": "8"}, "8", "m_h must be"),
        ({"kind": "transformer", "d": 8}, 8, "model.d is not known"),
        ({"kind": "linear_rnn", "hiden": 8}, 8, "Did you mean 'hidden'"),
    ],
)
def test_a_wrong_model_is_refused_with_the_name_and_the_value(
    settings: dict[str, Any], value: object, words: str
) -> None:
    with pytest.raises(InputError) as caught:
        build_model(settings, build_target(SPECTRAL))
    assert caught.value.value == value
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "values",
    [range(1, 3), (1, 2), np.arange(1, 3), torch.arange(1, 3), pd.Series([1, 2])],
    ids=lambda values: type(values).__name__,
)
def test_a_grid_takes_ranges_and_arrays_like_lists(values: object) -> None:
    base = {"target": SPECTRAL, "model": {"kind": "transformer"}}
    like = load_spec({**base, "grid": {"model.m_h": [1, 2]}})
    assert load_spec({**base, "grid": {"model.m_h": values}}).trials == like.trials
