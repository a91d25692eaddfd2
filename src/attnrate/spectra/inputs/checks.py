"""What files and models must be for inputs to be read: each check raises an InputError."""

import inspect
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from attnrate.errors import InputError, require_whole


def require_file(name: str, value: object) -> Path:
    """`value` as the path of a file with something in it, or an InputError."""
    file = Path(value) if isinstance(value, str | os.PathLike) else None
    if file is None or not file.is_file():
        raise InputError("there is no such file of inputs", _shown(value), "Check the path.")
    if file.stat().st_size == 0:
        raise InputError("the file of inputs is empty", str(file), "Put something into it.")
    return file


def require_folder(name: str, value: object, things: str) -> Path:
    """`value` as the path of a folder of images or other things, or an InputError."""
    where = Path(value) if isinstance(value, str | os.PathLike) else None
    if where is None or not where.is_dir():
        what = f"there is no such folder of {things}"
        raise InputError(what, _shown(value), "Pass the path of a folder.")
    return where


def _shown(value: object) -> object:
    return str(value) if isinstance(value, os.PathLike) else value


def require_length(name: str, value: object) -> int | None:
    """`value` as a number of tokens per input, or None; an InputError for fewer than two."""
    return None if value is None else require_whole(name, value, 2)


def arguments(model: nn.Module) -> list[str]:
    """The names of the arguments that a model takes, without **kwargs."""
    takes = inspect.signature(model.forward).parameters.values()
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [argument.name for argument in takes if argument.kind not in kinds]


def main_input(model: nn.Module) -> str | None:
    """The name of the main input of a model of transformers; None for other models."""
    name = getattr(model, "main_input_name", None)
    return name if isinstance(name, str) else None


def has_decoder(model: nn.Module) -> bool:
    """Whether a model of transformers has an encoder and a decoder, each with its inputs."""
    return bool(getattr(getattr(model, "config", None), "is_encoder_decoder", False))


def require_names(model: nn.Module, names: Sequence[str]) -> None:
    """Raise an InputError unless a model can be run on inputs of these names."""
    takes = inspect.signature(model.forward).parameters.values()
    free = any(argument.kind is argument.VAR_KEYWORD for argument in takes)
    known = arguments(model)
    wrong = [name for name in names if name not in known]
    # a model that takes any argument (**kwargs) still has a main input with a known name
    if wrong and (not free or hasattr(model, "main_input_name")):
        raise InputError("the model takes no inputs of these names", wrong, f"It takes {known}.")
    main = main_input(model)
    if main is not None and main not in names and "inputs_embeds" not in names:
        raise InputError("the model's main input is missing", list(names), f"Add {main}.")
    if has_decoder(model) and not {"decoder_input_ids", "decoder_inputs_embeds"} & {*names}:
        raise InputError("the decoder has no input", list(names), "Add decoder_input_ids.")


def require_known(ids: np.ndarray, name: str, model: nn.Module) -> None:
    """Raise an InputError where token ids are none of the model's vocabulary."""
    config: Any = getattr(model, "config", None)
    count = None if config is None else getattr(config.get_text_config(), "vocab_size", None)
    least, most = int(ids.min()), int(ids.max())
    if least < 0 or (count is not None and most >= count):
        raise InputError(
            f"{name} has tokens outside the vocabulary",
            [least, most],
            f"The model knows 0 to {'...' if count is None else count - 1}.",
        )


def require_short(name: str, tokens: int, longest: int | None) -> None:
    """Raise an InputError where an input has more tokens than the model has positions."""
    if longest is not None and tokens > longest:
        raise InputError(
            f"{name} is longer than the model's positions, which are at most {longest} tokens",
            tokens,
            f"Cut the inputs to {longest} tokens.",
        )


def spread(count: int, most: int | None) -> list[int]:
    """The numbers of at most `most` things, spread evenly over `count`; all if `most` is None."""
    taken = count if most is None else min(most, count)
    return [number * count // taken for number in range(taken)]
