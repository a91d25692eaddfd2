"""Checkpoints of a training run, as safetensors files that are written whole or not at all.

The last two are kept. The model of a finished run is written in the same way, without what only
training needs. Jobs of experiments keep their checkpoints in the cache until their results are
stored.
"""

import json
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attnrate.data.registry import cache_folder, older_than
from attnrate.errors import InputError, StoreError
from attnrate.files import replaced
from attnrate.models.seq2seq import Seq2Seq
from attnrate.models.vit import ViT

Tensor = torch.Tensor
MODEL = "model.safetensors"
_CLASSES: dict[str, type[nn.Module]] = {"ViT": ViT, "Seq2Seq": Seq2Seq}
_KEPT = 2
_STALE = 30 * 86_400.0  # seconds
#: The errors that reading a file and the JSON in it can raise
UNREADABLE = (OSError, ValueError, RecursionError)
DELETE = "Delete it; the next run then goes on from an older one in the same folder."
_AGAIN = "Copy it again, or train the model again in another folder."
_NAME = re.compile(r"epoch-(\d{5,})\.safetensors")


@dataclass(frozen=True)
class Checkpoint:
    """The state of a training after some epochs.

    Attributes:
        epochs: The number of epochs that are done.
        tensors: Weights, the optimisers' memory and the generators' states, by name.
        facts: Settings, history and machine, as JSON values.

    """

    epochs: int
    tensors: Mapping[str, Tensor]
    facts: Mapping[str, Any]


def snapshot(
    epochs: int,
    model: nn.Module,
    optimizers: list[torch.optim.Optimizer],
    facts: Mapping[str, Any],
) -> Checkpoint:
    """A checkpoint of a model, its optimisers' memory and the state of torch's generators."""
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    for number, optimizer in enumerate(optimizers):
        for index, state in optimizer.state_dict()["state"].items():
            for name, value in state.items():
                tensors[f"optimizer.{number}.{index}.{name}"] = torch.as_tensor(value)
    tensors["random.cpu"] = torch.get_rng_state()
    device = next(model.parameters()).device
    if device.type == "cuda":
        tensors["random.cuda"] = torch.cuda.get_rng_state(device)
    return Checkpoint(epochs, tensors, dict(facts))


def restore(
    checkpoint: Checkpoint, model: nn.Module, optimizers: list[torch.optim.Optimizer]
) -> None:
    """Put model, optimisers and generators into the state of a checkpoint.

    A checkpoint that does not fit them raises a ValueError, KeyError, RuntimeError or TypeError.
    """
    model.load_state_dict(_part(checkpoint, "model."))
    for number, optimizer in enumerate(optimizers):
        state: dict[int, dict[str, Tensor]] = {}
        for path, value in _part(checkpoint, f"optimizer.{number}.").items():
            index, name = path.split(".", 1)
            state.setdefault(int(index), {})[name] = value
        if len({frozenset(entries) for entries in state.values()}) > 1:
            raise ValueError("some of the optimiser's memory is missing")
        optimizer.load_state_dict(optimizer.state_dict() | {"state": state})
    torch.set_rng_state(checkpoint.tensors["random.cpu"])
    device = next(model.parameters()).device
    if device.type == "cuda" and "random.cuda" in checkpoint.tensors:
        torch.cuda.set_rng_state(checkpoint.tensors["random.cuda"], device)


def _part(checkpoint: Checkpoint, prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value
        for name, value in checkpoint.tensors.items()
        if name.startswith(prefix)
    }


def write(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write the checkpoint of an epoch, then delete all but the last two."""
    path = folder / f"epoch-{checkpoint.epochs:05d}.safetensors"
    write_file(path, checkpoint)
    for old in saved(folder)[:-_KEPT]:
        old.unlink(missing_ok=True)
    return path


def write_file(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint to a file, whole or not at all; a StoreError if that fails."""
    from safetensors.torch import save

    tensors = {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in checkpoint.tensors.items()
    }
    facts = json.dumps({"epochs": checkpoint.epochs, **checkpoint.facts})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced(path) as beside:
            beside.write_bytes(save(tensors, {"attnrate": facts}))
    except OSError as problem:
        before = saved(path.parent)
        raise StoreError(
            f"a checkpoint could not be written ({problem.strerror})",
            path,
            (f"{before[-1].name} is kept. " if before else "")
            + "Make room and run the same command again; it goes on from there.",
        ) from problem


def saved(folder: Path) -> list[Path]:
    """The files of a folder's checkpoints, the oldest first."""
    if not folder.is_dir():
        return []
    found = {
        int(match[1]): path for path in folder.iterdir() if (match := _NAME.fullmatch(path.name))
    }
    return [found[epochs] for epochs in sorted(found)]


def read(path: Path, remedy: str = DELETE) -> Checkpoint:
    """Read a checkpoint from its file; a StoreError if it is not whole."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads((file.metadata() or {})["attnrate"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return Checkpoint(int(facts.pop("epochs")), tensors, facts)
    except (*UNREADABLE, AttributeError, KeyError, TypeError, SafetensorError) as problem:
        what = f"this is no whole checkpoint of attnrate ({problem})"
        raise StoreError(what, path, remedy) from problem


def facts_of(path: Path) -> dict[str, Any] | None:
    """The facts in a checkpoint's file, without reading its tensors; None for any other file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            plain = (file.metadata() or {}).get("attnrate")
    except (SafetensorError, OSError):
        return None
    try:
        return None if plain is None else dict(json.loads(plain))
    except (ValueError, TypeError, RecursionError):
        return {}  # the file is a checkpoint, and `read` says what is wrong with it


def load_weights(model: nn.Module, source: Checkpoint) -> None:
    """Load the weights of a checkpoint and nothing else, for instance to fine-tune a model."""
    require_fitting(model, source)
    model.load_state_dict(_part(source, "model."))


def require_fitting(model: nn.Module, source: Checkpoint) -> None:
    """Raise an InputError with the first tensor whose shape differs in model and checkpoint."""
    weights = _part(source, "model.")
    wanted = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    found = {name: tuple(value.shape) for name, value in weights.items()}
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            raise InputError(
                f"the checkpoint is of another model: {name} has the shape {wanted.get(name)} in "
                "the model and in the checkpoint",
                found.get(name),
                "Make the model with the checkpoint's settings.",
            )


class ConfigurationError(InputError):
    """A checkpoint was written with other settings."""


def require_same(
    checkpoint: Checkpoint, settings: Mapping[str, Mapping[str, object]], path: Path
) -> None:
    """Raise an InputError with the first setting in which a run and a checkpoint differ."""
    # through JSON, so that a tuple equals the list that it is stored as
    now = json.loads(json.dumps(settings))
    before = checkpoint.facts.get("settings", {})
    if not isinstance(before, dict) or not all(isinstance(part, dict) for part in before.values()):
        raise StoreError("this checkpoint does not say which settings it is of", path, DELETE)
    for part in sorted({*now, *before}):
        one, other = now.get(part, {}), before.get(part, {})
        for name in sorted({*one, *other}):
            if name not in one or name not in other or one[name] != other[name]:
                was = repr(other[name]) if name in other else "absent"
                raise ConfigurationError(
                    f"the checkpoint {path} is of another configuration: {part}.{name} is "
                    f"{was} there and here",
                    one.get(name),
                    "Train with the same settings, or in another folder.",
                )


def keep_model(folder: Path, whole: Checkpoint) -> None:
    """Write the model of a checkpoint into a folder, without what only training needs."""
    kept = {name: value for name, value in whole.tensors.items() if name.startswith("model.")}
    write_file(folder / MODEL, Checkpoint(whole.epochs, kept, whole.facts))


def holds_model(folder: Path) -> bool:
    """Whether a folder has a model that `keep_model` has written."""
    return facts_of(folder / MODEL) is not None


def read_model(folder: Path) -> nn.Module:
    """The model that `keep_model` has written into a folder, in evaluation mode."""
    path = folder / MODEL
    whole = read(path, _AGAIN)
    try:
        settings: dict[str, Any] = dict(whole.facts["settings"]["model"])
        # JSON has lists where settings have tuples
        kind = _CLASSES[settings.pop("class")]
        given = {name: tuple(v) if isinstance(v, list) else v for name, v in settings.items()}
        _require_modest(given, whole)
        with torch.device("meta"):  # sizes that the file does not have cost no memory
            shapes = kind(**given)
        require_fitting(shapes, whole)
        model = kind(**given)
    except (KeyError, TypeError, ValueError, RuntimeError) as problem:
        what = f"the file does not say which model it is of ({first_line(problem)})"
        raise StoreError(what, path, _AGAIN) from problem
    load_weights(model, whole)
    return model.eval()


def _require_modest(given: dict[str, Any], whole: Checkpoint) -> None:
    """Raise a ValueError for settings of a model that is far larger than the file's tensors."""
    numbers = sum(tensor.numel() for tensor in whole.tensors.values())
    for name, value in given.items():
        most = len(whole.tensors) if name == "layers" else max(numbers, 1)
        if isinstance(value, int) and value > most:
            raise ValueError(f"{name} is {value}, and the file has {numbers} numbers in all")


def first_line(problem: Exception) -> str:
    """The first line of an error's message, or the name of its class if it has no message."""
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0][:200]


def training_folder(key: str) -> Path:
    """The folder in the cache for the checkpoints of the job with this key."""
    return _all() / key[:20]


def clear_epochs(stored: Iterable[str]) -> None:
    """Delete the checkpoints of jobs whose results are stored, and those unused for a month."""
    if not _all().is_dir():
        return
    for folder in (*map(training_folder, stored), *older_than(_STALE, _all().iterdir())):
        shutil.rmtree(folder, ignore_errors=True)
        folder.with_suffix(".lock").unlink(missing_ok=True)


def _all() -> Path:
    return cache_folder() / "training"
