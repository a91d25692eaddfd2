"""What is known of one attention layer: its spectra and moments, collected batch by batch."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float, Int

from attnrate.shown import Shown
from attnrate.spectra.cut import Cut, Projection, projection
from attnrate.spectra.estimate import Gram, spectra
from attnrate.words import GAUGES, Gauge

Array = np.ndarray
Stage: TypeAlias = Literal["logits", "plain"]
"""Where queries and keys are looked at: "logits" as they meet, "plain" before rotary embedding."""

#: What two records of one layer have in common
FACTS = ("name", "kind", "heads", "groups", "m_h", "m_v", "rotary", "causal", "run", "scale")


@dataclass(frozen=True, repr=False)
class LayerSpectra(Shown):
    """The spectra of one attention layer.

    Attributes:
        number: The layer's place among all attention layers of the model, from 0, in the order in
            which they run.
        name: The path of the layer within the model. Of a module that runs several times in a pass
            each run is a layer of its own; the second is called `path#2`.
        kind: "self" for self attention, "cross" for attention to another sequence.
        heads: The number of query heads.
        groups: The number of key heads, fewer than `heads` where query heads share keys.
        m_h: The head size: that of queries and keys.
        m_v: The size of values.
        rotary: Whether queries and keys are turned by their positions (rotary embedding).
        causal: Whether no query sees keys after it.
        run: Which run of its module the layer is, from 1.
        scale: The factor of the logits, usually 1/√m_h.
        tokens: The number of queries of each input, padding left out.
        sigma: The singular values of each input's logits, (inputs, heads, m_h), by stage and gauge.
        moments: The second moments of all queries and of all keys, by stage: `spread`, the sum of
            (x - mean)(x - mean)ᵀ, `mean` and `count`, by heads.
        query: The second moments of the queries from which cuts are made. The inputs on which cuts
            are measured have no part in them.
        key: The second moments of the keys from which cuts are made.
        cuts: For each share of the energy what a cut to the ranks that hold it does:
            `cuts[0.99].weights` is the share of attention that moves, `.output` the relative change
            of the head's output, `.ranks` the sizes of the heads, all of shape (inputs, heads).
        bias: The position bias of the longest input, (heads, T, S); None without one.

    Examples:
        >>> import torch
        >>> attention = ar.Transformer(2, 1, n=8, m_h=4)
        >>> found = ar.profile(attention, torch.rand(4, 16, 2))
        >>> found.layer(0)
        layer 0 (last): self attention, 1 head of size 4
        >>> found.layer(0).pooled["logits", "softmax"].shape
        (1, 4)

    """

    number: int
    name: str
    kind: str
    heads: int
    groups: int
    m_h: int
    m_v: int
    rotary: bool
    causal: bool
    run: int
    scale: float
    tokens: Int[Array, " inputs"]
    sigma: Mapping[tuple[Stage, Gauge], Float[Array, "inputs heads m_h"]]
    moments: Mapping[Stage, tuple[Gram, Gram]]
    query: Gram
    key: Gram
    cuts: Mapping[float, Cut]
    bias: Float[Array, "heads T S"] | None = None

    def __str__(self) -> str:
        heads = f"{self.heads} head{'s' if self.heads > 1 else ''} of size {self.m_h}"
        shared = f", {self.groups} key heads" if self.groups < self.heads else ""
        turned = ", rotary embedding" if self.rotary else ""
        where = f"layer {self.number} ({self.name})"
        return f"{where}: {self.kind} attention, {heads}{shared}{turned}"

    @functools.cached_property
    def pooled(self) -> dict[tuple[Stage, Gauge], Float[Array, "heads m_h"]]:
        """The singular values over all inputs together, (heads, m_h), by stage and gauge."""
        return {
            (stage, gauge): sigma.numpy()
            for stage, moments in self.moments.items()
            for gauge, sigma in zip(GAUGES, spectra(*moments, self.scale), strict=True)
        }

    def cut_to(self, ranks: Sequence[int], gauge: Gauge) -> Projection:
        """The projections that cut the layer's heads to smaller sizes.

        Args:
            ranks: The new size of each head.
            gauge: "softmax" leaves out of the kept logits what softmax cannot see; "none" keeps it.

        Returns:
            One matrix P per head, (heads, m_h, m_h): queries q become Pᵀ q.

        """
        return projection(self.query, self.key, ranks, gauge == "softmax")


class Collected:
    """One layer of a model, put together from pieces that were measured on different inputs."""

    def __init__(self, first: LayerSpectra) -> None:
        self._first = first
        self._moments = dict(first.moments)
        self._for_cuts = first.query, first.key
        self._sigma = {key: [values] for key, values in first.sigma.items()}
        self._tokens = [first.tokens]
        self._cuts = {share: [cut] for share, cut in first.cuts.items()}
        self._bias = first.bias

    def add(self, piece: LayerSpectra) -> None:
        """Add a piece of the same layer."""
        for stage, moments in piece.moments.items():
            before = self._moments.get(stage)
            self._moments[stage] = moments if before is None else _sum(before, moments)
        self._for_cuts = _sum(self._for_cuts, (piece.query, piece.key))
        for key, values in piece.sigma.items():
            self._sigma.setdefault(key, []).append(values)
        self._tokens.append(piece.tokens)
        for share, cut in piece.cuts.items():
            self._cuts.setdefault(share, []).append(cut)
        bias = piece.bias
        if bias is not None and (self._bias is None or bias.shape[-1] > self._bias.shape[-1]):
            self._bias = bias

    def done(self) -> LayerSpectra:
        """The layer on all inputs so far."""
        first = self._first
        return LayerSpectra(
            number=first.number,
            **{name: getattr(first, name) for name in FACTS},
            tokens=np.concatenate(self._tokens),
            sigma={key: np.concatenate(parts) for key, parts in self._sigma.items()},
            moments=dict(self._moments),
            query=self._for_cuts[0],
            key=self._for_cuts[1],
            cuts={share: Cut.joined(parts) for share, parts in self._cuts.items()},
            bias=self._bias,
        )


def _sum(before: tuple[Gram, Gram], more: tuple[Gram, Gram]) -> tuple[Gram, Gram]:
    return before[0].joined(more[0]), before[1].joined(more[1])
