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
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import torch
from jaxtyping import Float

from attnrate.errors import AccuracyWarning, InputError, require_choice, require_whole
from attnrate.progress import QUIET, Progress
from attnrate.settings import Natural, by, checked
from attnrate.shown import Shown
from attnrate.spectra.checkpoint import require_source
from attnrate.spectra.drawn import spectrum_figure
from attnrate.spectra.fused import LAYOUTS, Layout, Part, Projections, projections_of
from attnrate.spectra.measures import (
    SHARES,
    counted,
    law_columns,
    law_counts,
    rank_columns,
    rank_words,
    stable_rank,
)
from attnrate.spectra.places import UnknownSizesError, find_places, listed, settings_of
from attnrate.spectra.weight_files import open_weights
from attnrate.theory.decay import fit_decay
from attnrate.theory.pod import level_of_caller

if TYPE_CHECKING:
    import pandas as pd

    from attnrate.figures.drawing import Drawing

Tensor = torch.Tensor


@dataclass(frozen=True, repr=False)
class LayerWeights(Shown):
    """The spectra of W_Qᵀ W_K of one layer's heads.

    Attributes:
        name: The name of the layer in the checkpoint.
        groups: The number of key heads, fewer than query heads where these share keys.
        sigma: The singular values of each query head, (heads, m_h), largest first.
        layout: How queries and keys lie in the checkpoint: "separate" tensors; one fused tensor
            that is "stacked" (all queries, then all keys), "interleaved" (head by head) or has the
            blocks of "codegen"; or "latent" for multi-head latent attention.
        part: Of multi-head latent attention, whose logits are a sum of two products, which of
            them: "without rotation" or "rotary". Otherwise "".

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
    layout: Layout = "separate"
    part: Part = ""

    def __str__(self) -> str:
        heads, m_h = self.sigma.shape
        shared = f", {counted(self.groups, 'key head')}" if self.groups < heads else ""
        return f"{self.title}: {counted(heads, 'head')} of size {m_h}{shared}"

    @property
    def title(self) -> str:
        """The name of the layer, with the part that is meant where there are two."""
        return f"{self.name} ({self.part})" if self.part else self.name


@dataclass(frozen=True, repr=False)
class WeightSpectra(Shown):
    """The spectra of W_Qᵀ W_K of all heads of a checkpoint.

    Attributes:
        model: The name of the checkpoint's folder or GGUF file.
        layers: The spectra of each attention layer, in the order in which the layers run. A layer
            of multi-head latent attention has two entries, one for each part of its logits.
        left_out: The attention that could not be read: names of tensors or layers, each with the
            reason.

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
    left_out: tuple[tuple[str, str], ...] = ()

    @checked
    def sigma(self, layer: Natural, head: Natural) -> Float[np.ndarray, " m_h"]:
        """The singular values of W_Qᵀ W_K of one head.

        Args:
            layer: The number of an entry of `layers`, from 0.
            head: The number of a query head, from 0.

        Returns:
            The m_h singular values, largest first.

        """
        chosen = self.layers[require_whole("layer", layer, 0, len(self.layers) - 1)].sigma
        return np.asarray(chosen[require_whole("head", head, 0, len(chosen) - 1)])

    def plot(self, layer: int = 0, head: int = 0) -> "Drawing":
        """Draw the singular values of one head.

        Args:
            layer: The number of an entry of `layers`, from 0.
            head: The number of a query head, from 0.

        Returns:
            A matplotlib figure that notebooks show.

        """
        from attnrate.figures.draw import draw

        sigma = self.sigma(layer, head)
        title = f"{self.layers[layer].title}, head {head}"
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
        layers = len({layer.name for layer in self.layers})
        heads = sum(len(layer.sigma) for layer in self.layers if layer.part != "rotary")
        lines = (
            f"{self.model}, weights only: {counted(layers, 'attention layer')}, "
            f"{counted(heads, 'head')} of size {self._sizes()}.",
            self._layouts(),
            *(rank_words(frame, each, "the energy of W_QᵀW_K") + "." for each in SHARES),
            law_counts(frame, "spectra"),
            f"Left out: {listed(dict(self.left_out))}." if self.left_out else "",
            "Weights alone do not know the data: profile the model on inputs before cutting.",
        )
        return "\n".join(filter(None, lines))

    def _sizes(self) -> str:
        """The head sizes, largest part first where heads have two."""
        sizes = {
            (layer.part != "", layer.part == "rotary", layer.sigma.shape[1], layer.part)
            for layer in self.layers
        }
        return " and ".join(f"{m_h} {part}".strip() for *_, m_h, part in sorted(sizes))

    def _layouts(self) -> str:
        """A sentence about fused tensors; "" where there are none."""
        found = sorted({layer.layout for layer in self.layers} - {"separate", "latent"})
        return f"Fused queries, keys and values are read as {' and '.join(found)}." if found else ""


def _require_heads(name: str, value: object) -> int | None:
    return None if value is None else require_whole(name, value, 1)


def require_layout(name: str, value: object) -> Literal["stacked", "interleaved"] | None:
    """`value` as a layout of fused tensors, or None; an InputError when it is neither."""
    return None if value is None else require_choice(name, value, LAYOUTS)


@checked
def weight_spectra(
    source: Annotated[str | os.PathLike[str], by(require_source)],
    heads: Annotated[int | None, by(_require_heads)] = None,
    layout: Annotated[Literal["stacked", "interleaved"] | None, by(require_layout)] = None,
) -> WeightSpectra:
    """Compute the spectra of W_Qᵀ W_K of all heads from a checkpoint's files alone.

    No model is built and no inputs are needed; the files are read one layer at a time, so that a
    checkpoint larger than memory can be looked at. Weights do not know the data: `profile` measures
    what heads use of these directions.

    Args:
        source: A folder with safetensors files or one GGUF file, such a file, or the id of a model
            on the Hugging Face hub.
        heads: The number of query heads per layer. By default config.json says it. Heads that
            share keys are recognised by the tensors' shapes.
        layout: How queries, keys and values lie in tensors that hold all three: "stacked" (all
            queries, then all keys, then all values) or "interleaved" (head by head). By default
            the family in config.json or the name of the tensor says it.

    Returns:
        The singular values of each head in float64, with `to_frame` and `plot`.

    Raises:
        InputError: There are no weights that can be read, no attention of a known family, or it is
            not known how many heads there are or how they lie in a fused tensor.

    Warns:
        AccuracyWarning: Some attention cannot be read and is left out.

    Examples:
        >>> import torch
        >>> from safetensors.torch import save_file
        >>> names = ("layer.0.q_proj.weight", "layer.0.k_proj.weight")
        >>> save_file({name: torch.eye(8) for name in names}, "model.safetensors")
        >>> ar.weight_spectra("model.safetensors", heads=2).sigma(0, 1).tolist()
        [1.0, 1.0, 1.0, 1.0]

    """
    files = open_weights(source)
    places, left = find_places(files)
    fused = any(place.kind == "fused" for place in places)
    if layout is not None and not fused:
        raise InputError(
            "layout is for tensors that hold queries, keys and values together, and here they are "
            "apart",
            layout,
            "Leave it out.",
        )
    layers: list[LayerWeights] = []
    problems: list[UnknownSizesError] = []
    with Progress("spectra of weights", after=QUIET) as shown:
        for number, place in enumerate(places, start=1):
            said = settings_of(place.layer, files.settings)
            try:
                made = projections_of(files, place, said, heads, layout)
            except UnknownSizesError as problem:
                if heads is not None:
                    raise
                problems.append(problem)
                left[place.layer] = "its number of heads is not in config.json or does not fit"
                continue
            layers += [_spectra(place.layer, one) for one in made]
            shown.at(f"spectra of weights: layer {number} of {len(places)}", number / len(places))
    if not layers:
        raise problems[0]
    if left:
        message = f"attention is left out: {listed(left)}"
        warnings.warn(message, AccuracyWarning, stacklevel=level_of_caller())
    return WeightSpectra(files.model, tuple(layers), tuple(sorted(left.items())))


def _spectra(name: str, made: Projections) -> LayerWeights:
    sigma = head_spectra(made.query, made.key)
    return LayerWeights(name, len(made.key), sigma.numpy(), made.layout, made.part)


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


def _row(number: int, layer: LayerWeights, head: int) -> dict[str, Any]:
    sigma = layer.sigma[head]
    return {
        "layer": number,
        "name": layer.title,
        "head": head,
        "m_h": len(sigma),
        "sigma_1": float(sigma[0]),
        "stable_rank": float(stable_rank(sigma)),
        **rank_columns(sigma),
        **law_columns(fit_decay(sigma)),
    }
