"""Checkpoints: whole or not at all, the last two, no pickle, and what goes wrong is told."""

import resource
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from attnrate.errors import InputError, StoreError
from attnrate.training import checkpoint as store
from attnrate.training.muon import Muon


def trained(steps: int = 2) -> tuple[nn.Module, list[torch.optim.Optimizer]]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    adamw = torch.optim.AdamW([p for p in model.parameters() if p.dim() == 1], fused=True)
    optimizers: list[torch.optim.Optimizer] = [adamw, Muon([model[0].weight], 0.1)]
    for _ in range(steps):
        model(torch.randn(5, 3)).pow(3).sum().backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    return model, optimizers


def test_what_was_written_is_read_again_and_goes_on_alike(tmp_path: Path) -> None:
    model, optimizers = trained()
    path = store.write(tmp_path, store.snapshot(3, model, optimizers, {"history": [1.5]}))
    expected = torch.rand(4)
    model.double()  # spoils every weight's type, which the copy must not see
    again, others = trained(steps=0)
    found = store.read(path)
    assert (found.epochs, found.facts) == (3, {"history": [1.5]})
    store.restore(found, again, others)
    assert torch.equal(torch.rand(4), expected)
    fresh, same = trained()
    assert all(
        torch.equal(a, b) for a, b in zip(again.parameters(), fresh.parameters(), strict=True)
    )
    for one, other in zip(others, same, strict=True):
        states = [each.state_dict()["state"].values() for each in (one, other)]
        for left, right in zip(*states, strict=True):
            assert left.keys() == right.keys()
            assert all(torch.equal(left[name], right[name]) for name in left)


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    model, optimizers = trained()
    (tmp_path / "epoch-notes.txt").write_text("mine")
    for epochs in (1, 2, 3, 12):
        store.write(tmp_path, store.snapshot(epochs, model, optimizers, {}))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "epoch-00003.safetensors",
        "epoch-00012.safetensors",
        "epoch-notes.txt",
    ]


def test_a_full_disk_is_told_and_the_older_checkpoint_survives(tmp_path: Path) -> None:
    model, optimizers = trained()
    older = store.write(tmp_path, store.snapshot(1, model, optimizers, {}))
    before = older.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, limits[1]))
    try:
        with pytest.raises(StoreError, match="could not be written") as told:
            store.write(tmp_path, store.snapshot(2, model, optimizers, {}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "epoch-00001.safetensors is kept" in str(told.value)
    assert [*tmp_path.iterdir()] == [older]
    assert older.read_bytes() == before


def test_a_torn_file_is_told(tmp_path: Path) -> None:
    model, optimizers = trained()
    path = store.write(tmp_path, store.snapshot(1, model, optimizers, {}))
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(StoreError, match="no whole checkpoint"):
        store.read(path)


def test_weights_alone_start_another_run_and_must_fit(tmp_path: Path) -> None:
    model, optimizers = trained()
    path = store.write(tmp_path, store.snapshot(1, model, optimizers, {}))
    again, _ = trained(steps=0)
    store.load_weights(again, store.read(path))
    assert torch.equal(again[0].weight, model[0].weight)
    other = nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5))
    with pytest.raises(InputError, match=r"another model: 0\.bias has the shape \(5,\)"):
        store.load_weights(other, store.read(path))


@pytest.mark.parametrize("told", ["5", "[1]", "null", "[" * 50_000, '{"epochs": null}', "{}"])
def test_a_checkpoint_that_does_not_say_what_it_is_of_is_told(tmp_path: Path, told: str) -> None:
    path = tmp_path / "epoch-00001.safetensors"
    save_file({"model.x": torch.ones(2)}, path, {"attnrate": told})
    assert isinstance(store.facts_of(path), dict)
    with pytest.raises(StoreError, match="no whole checkpoint"):
        store.read(path)


@pytest.mark.parametrize("settings", [5, [], {"model": []}, {"recipe": None}])
def test_settings_of_another_kind_are_told(tmp_path: Path, settings: object) -> None:
    found = store.Checkpoint(1, {}, {"settings": settings})
    with pytest.raises(StoreError, match="which settings"):
        store.require_same(found, {"model": {"width": 3}}, tmp_path)


def test_optimiser_memory_that_is_missing_in_part_does_not_fit() -> None:
    model, optimizers = trained()
    whole = store.snapshot(1, model, optimizers, {})
    missing = next(name for name in whole.tensors if name.endswith(".exp_avg"))
    part = {name: value for name, value in whole.tensors.items() if name != missing}
    with pytest.raises(ValueError, match="memory is missing"):
        store.restore(store.Checkpoint(1, part, {}), model, optimizers)
