"""Training in epochs: it learns, never waits, and goes on after kill -9 as if nothing was."""

import json
import math
import re
import signal
import warnings
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import epoch_standin
import numpy as np
import pytest
import torch
from warm_commands import program

from attnrate.errors import AccuracyWarning, InputError, StoreError
from attnrate.models.vit import ViT
from attnrate.progress import Progress
from attnrate.training import checkpoint as store
from attnrate.training import epochs, machine
from attnrate.training.epochs import (
    Epoch,
    EpochRecipe,
    evaluate,
    make_optimizers,
    train_epochs,
)

HISTORY = tuple(each.name for each in fields(Epoch))


def small(**changes: object) -> ViT:
    torch.manual_seed(1)
    return ViT("cpu", **(epoch_standin.SIZES | changes))


def same_weights(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_a_small_vit_learns_bright_from_dark(optimizer: str) -> None:
    recipe = epoch_standin.recipe(optimizer=optimizer, epochs=8, lr=1e-2)
    test = epoch_standin.feed(augment=False)
    done = train_epochs(small(), epoch_standin.feed(), recipe, test=test)
    assert done.epochs[-1].loss < 0.7 * done.epochs[0].loss
    assert done.epochs[-1].test_accuracy > 0.3
    assert evaluate(done.model, test) == (done.epochs[-1].test_loss, done.epochs[-1].test_accuracy)


@pytest.mark.slow
def test_a_run_killed_within_an_epoch_ends_with_the_same_bits(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    script = Path(epoch_standin.__file__)
    whole, folder, out = tmp_path / "whole.safetensors", tmp_path / "run", tmp_path / "out"
    done = program(script, tmp_path / "uninterrupted", whole)
    assert done.returncode == 0, done.stderr
    for when in (1, 12), (2, 9):
        done = program(script, folder, out, *when)
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert not out.exists()
    assert [path.name for path in store.saved(folder)] == [
        "epoch-00001.safetensors",
        "epoch-00002.safetensors",
    ]
    done = program(script, folder, out)
    assert done.returncode == 0, done.stderr
    assert same_weights(load_file(whole), load_file(out))


def test_a_run_in_parts_is_the_run_in_one(tmp_path: Path) -> None:
    whole = epoch_standin.run(None)
    epoch_standin.run(tmp_path, until=1)
    epoch_standin.run(tmp_path, until=3)
    parts = epoch_standin.run(tmp_path)
    assert same_weights(whole.model.state_dict(), parts.model.state_dict())
    assert [e.loss for e in whole.epochs] == [e.loss for e in parts.epochs]
    assert len(store.saved(tmp_path)) == 2


def test_what_changes_the_last_bits_is_told_when_a_run_goes_on(tmp_path: Path) -> None:
    epoch_standin.run(tmp_path, until=1)
    torch.manual_seed(1)
    model = ViT("cpu", **epoch_standin.SIZES, dropout=0.1)
    with pytest.warns(AccuracyWarning, match="last bits will differ.*threads 1 then, 2 now"):
        train_epochs(
            model, epoch_standin.feed(), epoch_standin.recipe(threads=2), folder=tmp_path, until=2
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train_epochs(
            model, epoch_standin.feed(), epoch_standin.recipe(threads=None), folder=tmp_path
        )


def test_training_leaves_the_callers_generator_and_threads_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    threads = torch.get_num_threads()
    state = torch.get_rng_state()
    model = small()
    torch.set_rng_state(state)
    train_epochs(model, epoch_standin.feed(), epoch_standin.recipe(epochs=1))
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize(
    ("model", "recipe", "data", "said"),
    [
        ({"width": 20}, {}, {}, r"model\.width is 16 there and here: got 20"),
        ({"order": (1, 0, 2, 3)}, {}, {}, r"model\.order is None there"),
        ({}, {"lr": 0.1}, {}, r"recipe\.lr is 0\.005 there and here: got 0\.1"),
        ({}, {"epochs": 3}, {}, r"recipe\.epochs is 4 there"),
        ({}, {}, {"batch": 20}, r"data\.batch is 16 there and here: got 20"),
    ],
)
def test_a_checkpoint_of_another_configuration_names_the_field(
    tmp_path: Path,
    model: dict[str, object],
    recipe: dict[str, object],
    data: dict[str, object],
    said: str,
) -> None:
    first = epoch_standin.recipe()
    train_epochs(small(), epoch_standin.feed(), first, folder=tmp_path, until=1)
    with pytest.raises(InputError, match=said):
        train_epochs(
            small(**model),
            epoch_standin.feed(**data),
            epoch_standin.recipe(**recipe),
            folder=tmp_path,
        )


def test_norms_biases_and_positions_do_not_decay() -> None:
    model = small()
    names = {id(p): name for name, p in model.named_parameters()}
    adamw, muon = make_optimizers(model, EpochRecipe(weight_decay=0.3))
    plain = {names[id(p)] for g in adamw.param_groups if not g["weight_decay"] for p in g["params"]}
    assert {"positions", "norm.weight", "layers.0.attention.W_Q.bias"} <= plain
    assert all(model.get_parameter(name).dim() == 1 for name in plain - {"positions"})
    assert {names[id(p)] for p in muon.param_groups[0]["params"]} == {
        name for name, p in model.named_parameters() if p.dim() == 2 and name.startswith("layers.")
    }


def test_the_step_size_warms_up_and_falls_to_a_hundredth() -> None:
    recipe = EpochRecipe(lr=1.0, warmup=0.1)
    assert recipe.rate(0.05) == pytest.approx(0.5)
    assert recipe.rate(0.1) == pytest.approx(1.0)
    assert recipe.rate(0.55) == pytest.approx(0.505)
    assert recipe.rate(1.0) == pytest.approx(0.01)


def test_a_loss_that_is_not_finite_is_told() -> None:
    model = small()
    torch.nn.init.constant_(model.positions, math.inf)
    with pytest.raises(InputError, match="epoch 1 is not finite"):
        train_epochs(model, epoch_standin.feed(), epoch_standin.recipe())


def test_an_error_in_the_data_comes_out_of_the_loop() -> None:
    feed = epoch_standin.feed()
    broken = type(feed)(feed.images, np.full(320, 99), batch=16)
    with pytest.raises(IndexError):
        train_epochs(small(), broken, epoch_standin.recipe())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"lr": -1.0}, r"recipe\.lr"),
        ({"lr": 1e300}, r"recipe\.lr .* at most 1e\+30"),
        ({"epochs": 0}, r"recipe\.epochs"),
        ({"warmup": 1.0}, r"recipe\.warmup is out of range"),
        ({"threads": 0}, r"recipe\.threads"),
        ({"threads": 10**9}, r"recipe\.threads"),
    ],
)
def test_wrong_recipes_are_told(changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        EpochRecipe(**changes)


@pytest.mark.parametrize(
    "facts",
    [
        {"history": 5},
        {"history": [{"a": 1}]},
        {"history": [dict.fromkeys(HISTORY, "a")]},
        {"machine": 7},
        {"machine": {"threads": 10**9}},
        {"precision": "float8"},
        {"precision": []},
    ],
)
def test_a_checkpoint_that_lies_about_its_run_is_told(
    tmp_path: Path, facts: dict[str, object]
) -> None:
    epoch_standin.run(tmp_path, until=1)
    (path,) = store.saved(tmp_path)
    found = store.read(path)
    store.write(tmp_path, store.Checkpoint(1, found.tensors, {**found.facts, **facts}))
    with pytest.raises(StoreError, match="does not fit the run"):
        epoch_standin.run(tmp_path)


def test_a_checkpoint_without_a_tensor_of_the_run_is_told(tmp_path: Path) -> None:
    epoch_standin.run(tmp_path, until=1)
    (path,) = store.saved(tmp_path)
    found = store.read(path)
    tensors = {name: value for name, value in found.tensors.items() if name != "random.cpu"}
    store.write(tmp_path, store.Checkpoint(1, tensors, found.facts))
    with pytest.raises(StoreError, match="does not fit the run"):
        epoch_standin.run(tmp_path)


def test_wrong_places_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="folder must be a path"):
        train_epochs(small(), epoch_standin.feed(), epoch_standin.recipe(), folder=3)
    with pytest.raises(InputError, match="device is not known"):
        train_epochs(small(), epoch_standin.feed(), epoch_standin.recipe(), device="abacus")
    with pytest.raises(InputError, match="until must be"):
        train_epochs(small(), epoch_standin.feed(), epoch_standin.recipe(), until=9)


def test_a_line_says_epoch_loss_accuracy_speed_and_time_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = epochs._line(Epoch(1, 1.5, 0.5, 1.0, 0.25, 20.0, 0.0, 150.0), 10, "images")
    times = map(float, range(0, 100, 10))
    clock = SimpleNamespace(monotonic=lambda: next(times))
    monkeypatch.setattr("attnrate.progress.time", clock)
    with (tmp_path / "said").open("w", encoding="utf-8") as stream:
        shown = Progress("", 0.0, wanted=True, stream=stream, name="train")
        for half in range(1, 5):  # of an epoch, in 10 seconds
            shown.at(line, half / 20)
        shown.mark()
    # 8 more epochs of 20 seconds
    assert (tmp_path / "said").read_text(encoding="utf-8") == (
        "train: epoch 2/10 · loss 1.500 · accuracy 50.0 % · test 25.0 % · 150 images/s · "
        "about 3 min left\n"
    )


def test_a_log_has_a_line_an_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    test = epoch_standin.feed(augment=False)
    done = train_epochs(
        small(), epoch_standin.feed(), epoch_standin.recipe(epochs=2), test=test, progress=True
    )
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    for line, epoch in zip(lines, done.epochs, strict=True):
        assert line.startswith(f"train: epoch {epoch.number + 1}/2 · loss {epoch.loss:.3f} · ")
        assert f" · test {100 * epoch.test_accuracy:.1f} % · " in line
        assert (" left" in line) == (epoch.number == 0)


def test_a_terminal_has_a_live_line(on_a_terminal: Callable[[Callable[[], object]], str]) -> None:
    def train() -> None:
        train_epochs(small(), epoch_standin.feed(), epoch_standin.recipe(epochs=1))

    written = on_a_terminal(train)
    assert "the first batch" in written
    assert re.search(r"epoch 1/1 · loss [\d.]+ · accuracy [\d.]+ % · [\d,]+ images/s", written)


def test_the_precision_is_chosen_once_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = epoch_standin.recipe(precision="auto", epochs=2)
    # as if bfloat16 were fast at the first start, and slow at the second
    monkeypatch.setattr(machine, "_seconds", lambda dtype, _: 2.0 if dtype.itemsize == 4 else 1.0)
    first = train_epochs(small(), epoch_standin.feed(), recipe, folder=tmp_path, until=1)
    monkeypatch.setattr(machine, "_seconds", lambda dtype, _: 1.0)
    again = train_epochs(small(), epoch_standin.feed(), recipe, folder=tmp_path)
    fresh = train_epochs(small(), epoch_standin.feed(), recipe, until=1)
    assert [done.precision for done in (first, again, fresh)] == ["bfloat16"] * 2 + ["float32"]


def test_the_history_is_kept_in_the_checkpoint(tmp_path: Path) -> None:
    done = epoch_standin.run(tmp_path, until=2)
    facts = store.read(store.saved(tmp_path)[-1]).facts
    assert [each["loss"] for each in facts["history"]] == [e.loss for e in done.epochs]
    assert json.dumps(facts["settings"]["recipe"])
    assert 0 <= done.epochs[0].waiting <= 1
