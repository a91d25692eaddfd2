"""The tensors of a checkpoint and what its settings say, read one tensor at a time.

A checkpoint is a folder of safetensors files with its config.json, or a GGUF file with its
metadata. No model is built, and no code of the checkpoint is run.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attnrate.errors import InputError
from attnrate.extras import is_installed, missing
from attnrate.spectra.batches import is_finite
from attnrate.spectra.checkpoint import (
    Checkpoint,
    gguf_file,
    local_folder,
    open_checkpoint,
    opened,
)
from attnrate.spectra.pretrained import from_hub
from attnrate.training.checkpoint import facts_of

Tensor = torch.Tensor

_PLAIN = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
#: What a GGUF file says of the model, and the name of the same setting in config.json
_METADATA = {"attention.head_count": "num_attention_heads", "attention.key_length": "head_dim"}
#: A projection's name in GGUF: blk.0.attn_q.weight, dec.blk.0.cross_attn_k.weight
_PROJECTION = re.compile(r"(.*attn)_(q|k|qkv)(\.weight)")
_LATENT = re.compile(r".*\.attn_kv_a_mqa\.weight")


@dataclass(frozen=True)
class WeightFiles:
    """The tensors of a checkpoint by name, and what is known about the model.

    Attributes:
        model: The name of the checkpoint: that of its folder or of its GGUF file.
        names: The names of the tensors.
        settings: The model's settings, by the names of config.json.
        tensor: A function from a name to the tensor, which it reads from its file each time.
        unread: Names of attention tensors that cannot be read, each with the reason.

    """

    model: str
    names: frozenset[str] = field(repr=False)
    settings: dict[str, Any] = field(repr=False)
    tensor: Callable[[str], Tensor] = field(repr=False)
    unread: dict[str, str] = field(repr=False)

    def read(self, name: str, axes: int = 2) -> Tensor:
        """A tensor of the checkpoint in float64.

        An InputError names a tensor with another number of axes, one that holds no numbers or some
        that are not finite, and one that is quantised.
        """
        tensor = self.tensor(name)
        # floating point numbers of 8 bits or fewer mean nothing without the scales beside them
        if tensor.dtype not in _PLAIN or tensor.dim() != axes or not tensor.numel():
            shape = "matrix" if axes == 2 else f"array with {axes} axes"
            raise InputError(
                f"{name} is no {shape} of floating point numbers of 16 bits or more",
                (str(tensor.dtype), tuple(tensor.shape)),
                f"{self.quantised()}Quantised weights have to be saved in float first.",
            )
        if not is_finite(tensor.float()):
            raise InputError(
                "a tensor holds nan or inf", name, "Train or download the model again."
            )
        return tensor.double()

    def quantised(self) -> str:
        """A sentence that says how config.json says that weights are quantised; "" if it does not.

        The sentence ends in a space, so that another can follow it.
        """
        said = self.settings.get("quantization_config")
        method = said.get("quant_method") if isinstance(said, dict) else None
        return f"config.json says that weights are quantised by {method}. " if method else ""


def open_weights(source: str | os.PathLike[str]) -> WeightFiles:
    """Find the tensors of a checkpoint and read its settings.

    Args:
        source: The path of a folder with safetensors files or one GGUF file, the path of such a
            file, or the id of a model on the Hugging Face hub.

    Returns:
        The names of the tensors, the settings, and the way to read a tensor.

    """
    folder = local_folder(source)
    name = str(source) if folder is None else folder.resolve().name
    if folder is None:
        folder = from_hub(str(source))
    gguf = gguf_file(source, folder)
    if gguf is not None:
        return _gguf(gguf)
    checkpoint = open_checkpoint(folder, need_config=False)
    settings = checkpoint.config or _own_settings(checkpoint)
    names = frozenset(checkpoint.place_of)
    return WeightFiles(name, names, settings, partial(_safetensor, checkpoint), {})


def _safetensor(checkpoint: Checkpoint, name: str) -> Tensor:
    # opened again for each tensor, so that the file's pages do not stay in memory
    with opened(checkpoint.place_of[name], f"the tensor {name} cannot be read") as file:
        tensor: Tensor = file.get_tensor(name)
    return tensor


def _own_settings(checkpoint: Checkpoint) -> dict[str, Any]:
    """The settings of a model of `train`; an empty dictionary for any other model."""
    facts = facts_of(next(iter(checkpoint.place_of.values()))) or {}
    settings = facts.get("settings")
    found = settings.get("model") if isinstance(settings, dict) else None
    return {"num_heads": found["heads"]} if isinstance(found, dict) and "heads" in found else {}


def _gguf(path: Path) -> WeightFiles:
    """The tensors and metadata of a GGUF file.

    Projections are named as in other checkpoints: blk.0.attn_q.weight is blk.0.attn.q.weight. Fused
    ones are stacked in every GGUF file, because llama.cpp takes them apart in that way only.
    """
    if not is_installed("gguf"):
        raise missing("gguf", "hf", "a .gguf file", str(path))
    from gguf import GGUFReader

    try:
        reader = GGUFReader(path)
        stored: dict[str, Any] = {one.name: one for one in reader.tensors}
        family = _said(reader, "general.architecture")
        settings = {to: _said(reader, f"{family}.{key}") for key, to in _METADATA.items()}
    except Exception as problem:  # the reader raises errors of many kinds for a broken file
        raise InputError(
            f"the GGUF file cannot be read ({type(problem).__name__}: {problem})",
            str(path),
            "Download or copy it once more.",
        ) from None
    tensors, unread = {}, {}
    for name, one in stored.items():
        match = _PROJECTION.fullmatch(name)
        if match is not None and name.partition("attn_")[0] + "ssm_a" in stored:
            unread[name] = "a recurrence, not softmax attention"
        elif match is not None:
            tensors["{}.{}{}".format(*match.groups())] = one
        elif _LATENT.fullmatch(name):
            unread[name] = "multi-head latent attention is read from safetensors only"
    settings = {key: value for key, value in settings.items() if value is not None}
    names = frozenset(tensors)
    return WeightFiles(path.stem, names, settings, partial(_gguf_tensor, path, tensors), unread)


def _said(reader: Any, key: str) -> Any:
    """A value of a GGUF file's metadata, or None."""
    found = reader.get_field(key)
    return None if found is None else found.contents()


def _gguf_tensor(path: Path, tensors: dict[str, Any], name: str) -> Tensor:
    """A tensor of a GGUF file as floating point numbers, whatever it is stored as."""
    from gguf import dequantize

    try:
        found = dequantize(tensors[name].data, tensors[name].tensor_type)
    except Exception as problem:  # of any kind: kinds of numbers that the package does not know
        raise InputError(
            f"the tensor {name} of the GGUF file cannot be read "
            f"({type(problem).__name__}: {problem})",
            str(path),
            "Download it once more, or take a file with numbers of another kind (Q8_0, F16).",
        ) from None
    return torch.from_numpy(np.array(found, dtype=np.float32))  # a copy: the file is read-only
