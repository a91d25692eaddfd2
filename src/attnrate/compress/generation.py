"""Whether and how a model writes: its generation settings, kept beside its weights as JSON.

Among these are the token that a decoder begins with and those that it must not write, so that the
same weights without them write something else.
"""

from pathlib import Path
from typing import Any

from torch import nn

from attnrate.files import write_whole
from attnrate.spectra.checkpoint import read_json

FILE = "generation_config.json"


def writes(model: nn.Module) -> bool:
    """Whether a model writes token by token, and keeps keys and values for that."""
    config = getattr(model, "config", None)
    named = ("is_decoder", "is_encoder_decoder")
    can = getattr(model, "can_generate", None)
    return any(getattr(config, name, False) is True for name in named) or bool(can and can())


def write_generation(model: nn.Module, folder: Path) -> None:
    """Write the generation settings of a model into a folder; none for a model that writes not."""
    settings: Any = getattr(model, "generation_config", None)
    if settings is not None:
        write_whole(folder / FILE, settings.to_json_string(use_diff=False).encode())


def read_generation(model: nn.Module, folder: Path) -> None:
    """Give a model the generation settings of a folder, if it writes and the folder has some."""
    there: Any = model
    if getattr(model, "generation_config", None) is None or not (folder / FILE).is_file():
        return
    from transformers import GenerationConfig

    there.generation_config = GenerationConfig.from_dict(read_json(folder / FILE))
