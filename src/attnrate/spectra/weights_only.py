"""Spectra of W_Qᵀ W_K of every head, from a checkpoint's files alone and one layer at a time.

W_Qᵀ W_K is what queries and keys of a head can see of two tokens before any data is known. With
W_Q, W_K of shape (m_h, d) and W_Qᵀ = P R, W_Kᵀ = P' R' (QR) its singular values are those of R R'ᵀ
of size m_h: no d x d matrix is formed, no model is built, and of a checkpoint larger than memory
only one layer's queries and keys are read at a time.

Not part of W_Qᵀ W_K: the biases of queries and keys, the logits' scale, norms of queries and keys,
the rotation of rotary embeddings, position biases, and the law of the tokens, which decides which
of these directions are used. `attnrate.profile` measures that.
"""

import re
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float

from attnrate.errors import AccuracyWarning, InputError, require_whole
from attnrate.spectra.batches import is_finite
from attnrate.spectra.capture import PROJECTIONS
from attnrate.spectra.checkpoint import (
    Checkpoint,
    gguf_file,
    local_folder,
    open_checkpoint,
    opened,
)
from attnrate.spectra.measures import (
    SHARES,
    law_columns,
    law_counts,
    rank_columns,
    rank_words,
    stable_rank,
)
from attnrate.theory.decay import fit_decay
from attnrate.training.checkpoint import facts_of

if TYPE_CHECKING:
    import pandas as pd

Tensor = torch.Tensor

# keys by queries, after the name of the layer; the last is torch.nn.MultiheadAttention with kdim
_KEYS_OF = {f"{query}.weight": f"{key}.weight" for query, key, _ in PROJECTIONS}
_KEYS_OF["q_proj_weight"] = "k_proj_weight"
# queries, keys and values in one tensor, side by side (GPT-2's Conv1D) or stacked (torch's Linear)
_FUSED = ("c_attn.weight", "in_proj_weight")
# others that are attention, too, of families that are not known here
_UNKNOWN = ("qkv.weight", "Wqkv.weight", "query_key_value.weight", "qkv_proj.weight")
_ENDS = "|".join(map(re.escape, (*_KEYS_OF, *_FUSED, *_UNKNOWN)))
_NAME = re.compile(rf"((?:.*\.)?)({_ENDS})", re.DOTALL)
_PLAIN = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_HEADS = ("num_attention_heads", "n_head", "num_heads", "n_heads")


@dataclass(frozen=True)
class LayerWeights:
    """Singular values of W_Qᵀ W_K of one layer's query heads, largest first."""

    name: str
    groups: int
    sigma: Float[np.ndarray, "heads m_h"] = field(repr=False)


@dataclass(frozen=True)
class WeightSpectra:
    """What a checkpoint's weights say about its heads. `str` sums it up."""

    model: str
    layers: tuple[LayerWeights, ...]

    def sigma(self, layer: object, head: object) -> Float[np.ndarray, " m_h"]:
        """Singular values of W_Qᵀ W_K of one head; layers and heads count from 0."""
        chosen = self.layers[require_whole("layer", layer, 0, len(self.layers) - 1)].sigma
        return np.asarray(chosen[require_whole("head", head, 0, len(chosen) - 1)])

    def to_frame(self) -> "pd.DataFrame":
        """A row a head: size, largest value, ranks, and the law of decay with its interval."""
        import pandas as pd

        rows = [
            _row(number, layer, head)
            for number, layer in enumerate(self.layers)
            for head in range(len(layer.sigma))
        ]
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        frame = self.to_frame()
        sizes = " and ".join(map(str, sorted(set(frame.m_h))))
        return "\n".join(
            (
                f"{self.model}, weights only: {len(self.layers)} attention layers, {len(frame)} "
                f"heads of size {sizes}.",
                *(rank_words(frame, each, "the energy of W_QᵀW_K") + "." for each in SHARES),
                law_counts(frame, "spectra"),
                "Weights alone do not know the data: profile the model on inputs before cutting.",
            )
        )


def weight_spectra(source: object, heads: object = None) -> WeightSpectra:
    """Spectra of W_Qᵀ W_K of every head of a local folder of safetensors files, in float64.

    `heads` is the number of query heads of a layer, for a checkpoint without a config.json that
    says it. Heads that share keys (grouped queries) are known by the tensors' shapes.
    """
    folder = local_folder(source)
    if folder is None:
        raise InputError("there is no such folder", source, "Pass the path of a model's folder.")
    if gguf_file(source, folder) is not None:
        raise InputError(
            "weights alone are read from safetensors, and this is GGUF",
            str(source),
            "Profile the model on inputs instead, or save it with save_pretrained.",
        )
    count = None if heads is None else require_whole("heads", heads, 1)
    checkpoint = open_checkpoint(folder, need_config=False)
    layers = []
    for name, tensors in _layers(checkpoint):
        query, key = _weights(checkpoint, tensors)
        known = _head_count(checkpoint, name) if count is None else count
        layers.append(_spectra(name, query, key, known, checkpoint.config))
    return WeightSpectra(folder.resolve().name, tuple(layers))


def head_spectra(
    query: Float[Tensor, "heads m_h d"], key: Float[Tensor, "groups m_h e"]
) -> Float[Tensor, "heads m_h"]:
    """Singular values of W_Qᵀ W_K of every head, from the triangular factors."""
    left = torch.linalg.qr(query.mT, mode="r").R
    right = torch.linalg.qr(key.mT, mode="r").R
    right = right.repeat_interleave(len(query) // len(key), 0)
    sigma = torch.linalg.svdvals(left @ right.mT)
    # a model narrower than its heads has fewer of them; the others are zero
    return torch.nn.functional.pad(sigma, (0, query.shape[1] - sigma.shape[1]))


def _layers(checkpoint: Checkpoint) -> list[tuple[str, tuple[str, ...]]]:
    """Layers with the names of their tensors: queries and keys, or the one that holds both."""
    names = checkpoint.place_of
    found: dict[str, tuple[str, ...]] = {}
    left = []
    for name, match in zip(names, map(_NAME.fullmatch, names), strict=True):
        if match is None:
            continue
        layer, end = match.groups()
        crossed = f"{layer}q_attn.weight"  # GPT-2 has the queries of cross attention apart
        if end in _UNKNOWN:
            left.append(name)
        elif end in _FUSED:
            found[layer] = (crossed, name) if crossed in names else (name,)
        elif layer + _KEYS_OF[end] in names:
            found[layer] = (name, layer + _KEYS_OF[end])
    if not found:
        raise InputError(
            "no attention of a known family is among the tensors",
            sorted(names)[:20],
            f"Known are the names {', '.join((*_KEYS_OF, *_FUSED))}.",
        )
    if left:
        warnings.warn(
            f"attention of families that are not known is left out: {', '.join(sorted(left)[:5])}"
            + (f" and {len(left) - 5} more" if len(left) > 5 else ""),
            AccuracyWarning,
            stacklevel=3,
        )
    ordered = sorted(found, key=_order)
    return [(layer.rstrip(".") or "attention", found[layer]) for layer in ordered]


def _order(layer: str) -> tuple[object, ...]:
    """The order in which layers run: by number, decoders behind encoders, the unnamed one last."""
    parts = re.split(r"(\d+)", layer.replace("encoder_attn", "~cross"))
    numbered = [part.zfill(9) if part.isdigit() else part for part in parts]
    return layer == "", "decoder" in layer, numbered


def _weights(checkpoint: Checkpoint, names: tuple[str, ...]) -> tuple[Tensor, Tensor]:
    """Queries (rows, d) and keys (rows, e) of one layer, in float64."""
    first, *others = (_read(checkpoint, name) for name in names)
    if others and names[0].endswith("q_attn.weight"):
        return first.mT.double(), others[0].mT.chunk(2)[0].double()
    if others:
        return first.double(), others[0].double()
    high, wide = first.shape
    if 3 * high != wide and 3 * wide != high:
        raise InputError(
            f"{names[0]} does not hold queries, keys and values of one size, side by side or "
            "stacked",
            (high, wide),
            "Profile the model on inputs instead.",
        )
    query, key, _ = (first if high > wide else first.mT).chunk(3)
    return query.double(), key.double()


def _read(checkpoint: Checkpoint, name: str) -> Tensor:
    # opened anew for every tensor, so that pages of the file do not stay with the process
    with opened(checkpoint.place_of[name], f"the tensor {name} cannot be read") as file:
        tensor: Tensor = file.get_tensor(name)
    # floating point numbers of 8 bits and fewer mean nothing without the scales beside them
    if tensor.dtype not in _PLAIN or tensor.dim() != 2 or not tensor.numel():
        raise InputError(
            f"{name} is no matrix of floating point numbers of 16 bits or more",
            (str(tensor.dtype), tuple(tensor.shape)),
            "Quantised weights have to be saved in float first.",
        )
    if not is_finite(tensor.float()):
        raise InputError("a tensor holds nan or inf", name, "Train or download the model again.")
    return tensor


def _head_count(checkpoint: Checkpoint, layer: str) -> int:
    """The number of query heads of a layer, by config.json, or as `attnrate train` tells it."""
    config = checkpoint.config or _own_settings(checkpoint)
    side = "decoder" if "decoder" in layer else "encoder"
    part = "vision_config" if "vision" in layer else "text_config"
    inner = config.get(part)
    for settings in (inner if isinstance(inner, dict) else {}, config):
        for key in (f"{side}_attention_heads", *_HEADS):
            value = settings.get(key)
            if isinstance(value, int) and value > 0:
                return value
    raise InputError(
        "config.json does not say how many heads a layer has",
        layer,
        "Say it: heads=12 in Python, --heads 12 on the command line.",
    )


def _own_settings(checkpoint: Checkpoint) -> dict[str, Any]:
    """The settings of a model that `attnrate train` has kept; nothing for any other."""
    facts = facts_of(next(iter(checkpoint.place_of.values()))) or {}
    settings = facts.get("settings")
    found = settings.get("model") if isinstance(settings, dict) else None
    return {"num_heads": found["heads"]} if isinstance(found, dict) and "heads" in found else {}


def _spectra(
    name: str, query: Tensor, key: Tensor, heads: int, config: dict[str, Any]
) -> LayerWeights:
    m_h, rest = divmod(query.shape[0], heads)
    said = config.get("head_dim") or m_h
    groups = key.shape[0] // m_h if m_h else 0
    if rest or m_h != said or groups == 0 or key.shape[0] % m_h or heads % groups:
        raise InputError(
            f"the weights of {name} do not fit {heads} heads of size {said}",
            {"queries": tuple(query.shape), "keys": tuple(key.shape)},
            "Check the number of heads (config.json, heads=..., --heads).",
        )
    sigma = head_spectra(query.view(heads, m_h, -1), key.view(groups, m_h, -1))
    return LayerWeights(name, groups, sigma.numpy())


def _row(number: int, layer: LayerWeights, head: int) -> dict[str, Any]:
    sigma = layer.sigma[head]
    return {
        "layer": number,
        "name": layer.name,
        "head": head,
        "m_h": len(sigma),
        "sigma_1": float(sigma[0]),
        "stable_rank": float(stable_rank(sigma)),
        **rank_columns(sigma),
        **law_columns(fit_decay(sigma)),
    }
