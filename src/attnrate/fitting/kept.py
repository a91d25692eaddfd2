"""Models as `train` keeps them: one file with the weights and the settings they were made by."""

from pathlib import Path
from typing import Any

from torch import nn

from attnrate.errors import StoreError
from attnrate.fitting import checkpoint
from attnrate.models.seq2seq import Seq2Seq
from attnrate.models.vit import ViT

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
        model = kind(**{name: tuple(v) if isinstance(v, list) else v for name, v in told.items()})
    except (KeyError, TypeError) as problem:
        raise StoreError(
            f"the file does not say which model it is of ({problem})", path, "Train it again."
        ) from problem
    checkpoint.load_weights(model, whole)
    return model.eval()
