"""Spectra of W_Qᵀ W_K of every head, from a checkpoint's files alone and one layer at a time.

W_Qᵀ W_K is the matrix by which a head compares two tokens, before any data is known. With W_Q, W_K
of shape (m_h, d) and W_Qᵀ = P R, W_Kᵀ = P' R' (QR) its singular values are those of R R'ᵀ of size
m_h. So no d × d matrix is formed, no model is built, and a checkpoint larger than memory can be
read: only one layer's queries and keys are in memory at a time.

W_Qᵀ W_K leaves out the biases of queries and keys, the logits' scale, norms of queries and keys,
the rotation of rotary embeddings, position biases, and the law of the tokens, which decides which
directions are used. `attnrate.profile` measures these.
"""

import os
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import torch
from jaxtyping import Float

from attnrate.errors import AccuracyWarning, InputError, require_whole
from attnrate.progress import QUIET, Progress
from attnrate.settings import Natural, by, checked
from attnrate.shown import Shown
from attnrate.spectra.batches import is_finite
from attnrate.spectra.capture import PROJECTIONS
from attnrate.spectra.checkpoint import (
    Checkpoint,
    gguf_file,
    local_folder,
    open_checkpoint,
    opened,
    require_source,
)
from attnrate.spectra.drawn import spectrum_figure
from attnrate.spectra.measures import (
    SHARES,
    counted,
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

    from attnrate.figures.drawing import Drawing

Tensor = torch.Tensor

# the name of the keys by that of the queries; the last is torch.nn.MultiheadAttention with kdim
_KEYS_OF = {f"{query}.weight": f"{key}.weight" for query, key, _ in PROJECTIONS}
_KEYS_OF["q_proj_weight"] = "k_proj_weight"
# one tensor for queries, keys and values, side by side (GPT-2's Conv1D) or stacked (torch's Linear)
_FUSED = ("c_attn.weight", "in_proj_weight")
# attention of families that are not known here
_UNKNOWN = ("qkv.weight", "Wqkv.weight", "query_key_value.weight", "qkv_proj.weight")
_ENDS = "|".join(map(re.escape, (*_KEYS_OF, *_FUSED, *_UNKNOWN)))
_NAME = re.compile(rf"((?:.*\.)?)({_ENDS})", re.DOTALL)
_PLAIN = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_HEADS = ("num_attention_heads", "n_head", "num_heads", "n_heads")


@dataclass(frozen=True, repr=False)
class LayerWeights(Shown):
    """The spectra of W_Qᵀ W_K of one layer's heads.

    Attributes:
        name: The name of the layer in the checkpoint.
        groups: The number of key heads, fewer than query heads where these share keys.
        sigma: The singular values of each query head, (heads, m_h), largest first.

    Examples:
        >>> import torch
        >>> from safetensors.torch import save_file
        >>> names = ("layer.0.q_proj.weight", "layer.0.k_proj.weight")
        >>> save_file({name: torch.eye(8) for name in names}, "model.safetensors")
        >>> ar.weight_spectra("model.safetensors", heads=2).layers[0]
        layer.0: 2 heads of size 4

    """

    name: str
    groups: int
    sigma: Float[np.ndarray, "heads m_h"]

    def __str__(self) -> str:
        heads, m_h = self.sigma.shape
        shared = f", {counted(self.groups, 'key head')}" if self.groups < heads else ""
        return f"{self.name}: {counted(heads, 'head')} of size {m_h}{shared}"


@dataclass(frozen=True, repr=False)
class WeightSpectra(Shown):
    """The spectra of W_Qᵀ W_K of all heads of a checkpoint.

    Attributes:
        model: The name of the checkpoint's folder.
        layers: The spectra of each attention layer, in the order in which the layers run.

    Examples:
        >>> import torch
        >>> from safetensors.torch import save_file
        >>> names = ("layer.0.q_proj.weight", "layer.0.k_proj.weight")
        >>> save_file({name: torch.eye(8) for name in names}, "model.safetensors")
        >>> found = ar.weight_spectra("model.safetensors", heads=2)
        >>> found.to_frame()[["head", "m_h", "rank99"]].to_dict("records")
        [{'head': 0, 'm_h': 4, 'rank99': 4}, {'head': 1, 'm_h': 4, 'rank99': 4}]

    """

    model: str
    layers: tuple[LayerWeights, ...]

    @checked
    def sigma(self, layer: Natural, head: Natural) -> Float[np.ndarray, " m_h"]:
        """The singular values of W_Qᵀ W_K of one head.

        Args:
            layer: The number of a layer, from 0.
            head: The number of a query head, from 0.

        Returns:
            The m_h singular values, largest first.

        """
        chosen = self.layers[require_whole("layer", layer, 0, len(self.layers) - 1)].sigma
        return np.asarray(chosen[require_whole("head", head, 0, len(chosen) - 1)])

    def plot(self, layer: int = 0, head: int = 0) -> "Drawing":
        """Draw the singular values of one head.

        Args:
            layer: The number of a layer, from 0.
            head: The number of a query head, from 0.

        Returns:
            A matplotlib figure that notebooks show.

        """
        from attnrate.figures.draw import draw

        sigma = self.sigma(layer, head)
        title = f"{self.layers[layer].name}, head {head}"
        return draw(spectrum_figure(self.model, title, "W_QᵀW_K", sigma))

    def _table(self) -> "pd.DataFrame":
        return self.to_frame()

    def _figure(self) -> "Drawing":
        return self.plot()

    def to_frame(self) -> "pd.DataFrame":
        """The spectra as a table with one row per head.

        Returns:
            A pandas DataFrame with head size, largest singular value, ranks by energy, and the law
            of decay with its interval.

        """
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
                f"{self.model}, weights only: {counted(len(self.layers), 'attention layer')}, "
                f"{counted(len(frame), 'head')} of size {sizes}.",
                *(rank_words(frame, each, "the energy of W_QᵀW_K") + "." for each in SHARES),
                law_counts(frame, "spectra"),
                "Weights alone do not know the data: profile the model on inputs before cutting.",
            )
        )


def _require_heads(name: str, value: object) -> int | None:
    return None if value is None else require_whole(name, value, 1)


@checked
def weight_spectra(
    source: Annotated[str | os.PathLike[str], by(require_source)],
    heads: Annotated[int | None, by(_require_heads)] = None,
) -> WeightSpectra:
    """Compute the spectra of W_Qᵀ W_K of all heads from a checkpoint's files alone.

    No model is built and no inputs are needed; the files are read one layer at a time, so that a
    checkpoint larger than memory can be looked at. Weights do not know the data: `profile` measures
    what heads use of these directions.

    Args:
        source: A folder with safetensors files, or one such file.
        heads: The number of query heads per layer. By default config.json says it. Heads that
            share keys are recognised by the tensors' shapes.

    Returns:
        The singular values of each head in float64, with `to_frame` and `plot`.

    Raises:
        InputError: The folder has no safetensors files, no attention of a known family, or does
            not say how many heads there are.

    Warns:
        AccuracyWarning: Some attention is of no known family and is left out.

    Examples:
        >>> import torch
        >>> from safetensors.torch import save_file
        >>> names = ("layer.0.q_proj.weight", "layer.0.k_proj.weight")
        >>> save_file({name: torch.eye(8) for name in names}, "model.safetensors")
        >>> ar.weight_spectra("model.safetensors", heads=2).sigma(0, 1).tolist()
        [1.0, 1.0, 1.0, 1.0]

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
    checkpoint = open_checkpoint(folder, need_config=False)
    layers = []
    found = _layers(checkpoint)
    with Progress("spectra of weights", after=QUIET) as shown:
        for number, (name, tensors) in enumerate(found, start=1):
            query, key = _weights(checkpoint, tensors)
            known = _head_count(checkpoint, name) if heads is None else heads
            layers.append(_spectra(name, query, key, known, checkpoint.config))
            shown.at(f"spectra of weights: layer {number} of {len(found)}", number / len(found))
    return WeightSpectra(folder.resolve().name, tuple(layers))


def head_spectra(
    query: Float[Tensor, "heads m_h d"], key: Float[Tensor, "groups m_h e"]
) -> Float[Tensor, "heads m_h"]:
    """The singular values of W_Qᵀ W_K of each head, from the triangular factors of W_Q and W_K."""
    left = torch.linalg.qr(query.mT, mode="r").R
    right = torch.linalg.qr(key.mT, mode="r").R
    right = right.repeat_interleave(len(query) // len(key), 0)
    sigma = torch.linalg.svdvals(left @ right.mT)
    # a model narrower than its heads has fewer singular values; the others are zero
    return torch.nn.functional.pad(sigma, (0, query.shape[1] - sigma.shape[1]))


def _layers(checkpoint: Checkpoint) -> list[tuple[str, tuple[str, ...]]]:
    """The names of layers, each with those of its tensors: queries and keys, or one for both."""
    names = checkpoint.place_of
    found: dict[str, tuple[str, ...]] = {}
    left = []
    for name, match in zip(names, map(_NAME.fullmatch, names), strict=True):
        if match is None:
            continue
        layer, end = match.groups()
        crossed = f"{layer}q_attn.weight"  # the queries of GPT-2's cross attention
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
    """A sorting key: layers by number, decoders after encoders, a layer without a name last."""
    parts = re.split(r"(\d+)", layer.replace("encoder_attn", "~cross"))
    numbered = [part.zfill(9) if part.isdigit() else part for part in parts]
    return layer == "", "decoder" in layer, numbered


def _weights(checkpoint: Checkpoint, names: tuple[str, ...]) -> tuple[Tensor, Tensor]:
    """The weights of queries (rows, d) and of keys (rows, e) of one layer, in float64."""
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
    # opened again for each tensor, so that the file's pages do not stay in memory
    with opened(checkpoint.place_of[name], f"the tensor {name} cannot be read") as file:
        tensor: Tensor = file.get_tensor(name)
    # floating point numbers of 8 bits or fewer mean nothing without the scales that go with them
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
    """The number of query heads of a layer, from config.json or from the settings of `train`."""
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
    """The settings of a model of `train`; an empty dictionary for any other model."""
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
