"""Models as `train` keeps them: one file with the weights and the settings they were made by."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from attnrate.errors import StoreError
from attnrate.models.seq2seq import Seq2Seq
from attnrate.models.vit import ViT
from attnrate.training import checkpoint

MODEL = "model.safetensors"
_CLASSES: dict[str, type[nn.Module]] = {"ViT": ViT, "Seq2Seq": Seq2Seq}


def keep_model(folder: Path, whole: checkpoint.Checkpoint) -> None:
    """Write the model of a checkpoint into the folder, without what only training needs."""
    checkpoint.write_file(folder / MODEL, checkpoint.weights_alone(whole))


def holds_model(folder: Path) -> bool:
    """Whether the folder has a model that `keep_model` has written."""
    return checkpoint.facts_of(folder / MODEL) is not None


def read_model(folder: Path) -> nn.Module:
    """The model of a folder, in evaluation mode."""
    path = folder / MODEL
    whole = checkpoint.read(path, "Copy it anew, or train the model again in another folder.")
    try:
        told: dict[str, Any] = dict(whole.facts["settings"]["model"])
        # JSON has lists where settings have tuples
        kind = _CLASSES[told.pop("class")]
        given = {name: tuple(v) if isinstance(v, list) else v for name, v in told.items()}
        _require_modest(given, whole)
        with torch.device("meta"):  # sizes that the file does not have cost no memory
            shapes = kind(**given)
        checkpoint.require_fitting(shapes, whole)
        model = kind(**given)
    except (KeyError, TypeError, ValueError, RuntimeError) as problem:
        raise StoreError(
            f"the file does not say which model it is of ({_first(problem)})",
            path,
            "Copy it anew, or train the model again in another folder.",
        ) from problem
    checkpoint.load_weights(model, whole)
    return model.eval()


def _require_modest(given: dict[str, Any], whole: checkpoint.Checkpoint) -> None:
    """A ValueError for settings of a model far larger than the tensors beside them."""
    numbers = sum(tensor.numel() for tensor in whole.tensors.values())
    for name, value in given.items():
        most = len(whole.tensors) if name == "layers" else max(numbers, 1)
        if isinstance(value, int) and value > most:
            raise ValueError(f"{name} is {value}, and the file has {numbers} numbers in all")


def _first(problem: Exception) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0][:200]
