"""Cutting heads to a smaller size, and measuring how that changes attention.

The pooled spectrum of a head gives the best logits of rank r for all inputs at once. They are
q'(t)ᵀ k(s) with q' = Pᵀ q and P of rank r, so that W_Q' = Pᵀ W_Q, which has a head of size r:
P = X Yᵀ with W_Q → Xᵀ W_Q and W_K → Yᵀ W_K. Behind a rotary embedding the rotated queries are cut,
which no pair of smaller matrices before the rotation can do; the cut then says what the logits
need, not what can be cut out of the weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from attnrate.errors import InputError
from attnrate.progress import Progress
from attnrate.spectra import batches
from attnrate.spectra.attention import weights
from attnrate.spectra.batches import Batch
from attnrate.spectra.capture import Call, Edit, Kept, Site
from attnrate.spectra.estimate import Gram, with_float64
from attnrate.spectra.watching.watcher import Watcher

Tensor = torch.Tensor
Projection = Float[Tensor, "heads m m"]
_ROWS = 2**22  # numbers in a block of attention weights: 16 MB in float32


@dataclass(frozen=True)
class Loss:
    """What a cut does to an attention layer, for each input and head.

    Attributes:
        weights: The share of attention that moves: the total variation ½ Σ_s |A'(t, s) - A(t, s)|
            of the attention weights, mean over the queries t.
        output: The relative change of the head's output, ‖(A' - A) V‖ / ‖A V‖ over all t.

    """

    weights: Float[np.ndarray, "inputs heads"]
    output: Float[np.ndarray, "inputs heads"]

    def by_input(self, inputs: int) -> "Loss":
        """The means over the rows of each input, where a layer has several (windows)."""
        rows = len(self.weights)
        own = inputs if rows % inputs == 0 else 1

        def mean(x: np.ndarray) -> np.ndarray:
            return np.asarray(x.reshape(own, rows // own, -1).mean(1))

        return self if rows == own else Loss(mean(self.weights), mean(self.output))


@dataclass(frozen=True)
class Cut:
    """What cutting a layer's heads does, measured on some inputs.

    Attributes:
        ranks: The size to which each head was cut.
        tail: The root mean square of the logits that the cut leaves out.
        weights: The share of attention that moves.
        output: The relative change of the head's output.

    """

    ranks: Int[np.ndarray, "inputs heads"]
    tail: Float[np.ndarray, "inputs heads"]
    weights: Float[np.ndarray, "inputs heads"]
    output: Float[np.ndarray, "inputs heads"]

    @classmethod
    def joined(cls, parts: Sequence["Cut"]) -> "Cut":
        """The cuts of several pieces, inputs after inputs; each was cut as its own piece said."""
        names = ("ranks", "tail", "weights", "output")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def projection(query: Gram, key: Gram, ranks: Sequence[int], gauge: bool) -> Projection:
    """The matrices P that cut heads to smaller ranks, q' = Pᵀ q, from second moments.

    With QᵀQ = A Aᵀ, KᵀK = B Bᵀ and AᵀB = U S Vᵀ the best logits of rank r are
    Q A^-ᵀ U_r U_rᵀ Aᵀ Kᵀ.

    Args:
        query: The second moments of all queries, by heads.
        key: The second moments of all keys, by key heads.
        ranks: The new size of each head.
        gauge: Whether the keys' mean, which softmax cannot see, is taken out.

    Returns:
        One matrix per head, (heads, m_h, m_h); the identity for a head that keeps its size.

    """
    value, vector = torch.linalg.eigh(query.about_zero)
    # Directions without queries play no part; the bound is the rounding of float64.
    there = value > 1e-13 * value[..., -1:]
    root = torch.where(there, value, 0.0).sqrt()
    inverse = torch.where(there, 1 / root.clamp(min=1e-300), 0.0)
    shared = query.count.shape[-1] // key.count.shape[-1]
    keys = (key.spread if gauge else key.about_zero).repeat_interleave(shared, -3)
    A = vector * root[..., None, :]
    U: Tensor = torch.linalg.eigh(A.mT @ keys @ A).eigenvectors.flip(-1)
    size = U.shape[-1]
    wanted = torch.tensor(list(ranks), device=U.device)
    U = U * (torch.arange(size, device=U.device) < wanted[:, None])[:, None, :]
    P: Tensor = (vector * inverse[..., None, :]) @ U @ U.mT @ A.mT
    # A head that keeps its size stays as it is, also in directions that these queries never took.
    whole = torch.eye(size, dtype=P.dtype, device=P.device)
    return torch.where((wanted >= size)[:, None, None], whole, P)


def loss(call: Call, cut: Projection, kept: Kept) -> Loss:
    """The change of a call's attention weights and outputs when its queries are cut."""
    query = _emptied(call.query, kept[0])
    key, value = (
        _emptied(x.repeat_interleave(query.shape[1] // x.shape[1], 1), kept[1]).float()
        for x in (call.key, call.value)
    )
    # In float64: an oblique projection may have large entries that cancel.
    short = _projected(query, cut).float()
    query = query.float()
    inputs, heads, T, _ = query.shape
    moved = query.new_zeros(inputs, heads)
    wrong, whole = moved.clone(), moved.clone()
    rows = max(1, _ROWS // (inputs * heads * key.shape[2]))
    counted = query.new_ones(inputs, T) if kept[0] is None else kept[0].to(query)
    for start in range(0, T, rows):
        part = slice(start, min(start + rows, T))
        seen = counted[:, None, part]
        full = weights(call, query[:, :, part], key, part, kept[1])
        change = weights(call, short[:, :, part], key, part, kept[1]) - full
        moved += (change.abs().sum(-1) / 2 * seen).sum(-1)
        wrong += ((change @ value).square().sum(-1) * seen).sum(-1)
        whole += ((full @ value).square().sum(-1) * seen).sum(-1)
    tokens = counted.sum(-1)[:, None]
    output = (wrong / whole.clamp(min=torch.finfo(whole.dtype).tiny)).sqrt()
    return Loss((moved / tokens).cpu().double().numpy(), output.cpu().double().numpy())


def losses(
    watcher: Watcher,
    inputs: Sequence[Batch],
    cuts: Sequence[dict[str, Projection]],
    shown: Progress,
) -> list[dict[str, Loss]]:
    """Measure several cuts, each layer being cut by itself while the others stay whole.

    Args:
        watcher: The model.
        inputs: The batches to measure on.
        cuts: For each cut the projections by the names of layers.
        shown: Where progress is shown.

    Returns:
        For each cut what it does to each layer, by the layer's name. Layers that do not run on
        these inputs are left out.

    """
    found: list[dict[str, list[Loss]]] = [{} for _ in cuts]
    for number, batch in enumerate(inputs, start=1):

        def see(site: Site, call: Call, batch: Batch = batch) -> None:
            kept = kept_tokens(site, call, batch)
            for cut, into in zip(cuts, found, strict=True):
                if site.name in cut:
                    measured = loss(call, cut[site.name], kept).by_input(batches.size(batch))
                    into.setdefault(site.name, []).append(measured)

        watcher.see(batch, see)
        shown.at(f"measuring cuts: batch {number} of {len(inputs)}", number / len(inputs))
    return [{name: _joined(each) for name, each in one.items()} for one in found]


def run_cut(watcher: Watcher, batch: Batch, cut: dict[str, Projection]) -> object:
    """The model's output for a batch when all layers of `cut` are cut at once.

    The watcher must have seen the model at work before.
    """
    return watcher.run(batch, edit=cutting(cut))


def cutting(cut: dict[str, Projection], done: set[str] | None = None) -> Edit:
    """The edit that cuts the queries of layers; it adds the names of those to `done`."""

    def edit(site: Site, query: Tensor) -> Tensor:
        if site.name not in cut:
            return query
        if done is not None:
            done.add(site.name)
        return _projected(query, cut[site.name]).to(query)

    return edit


def kept_tokens(site: Site, call: Call, batch: Batch) -> Kept:
    """Which queries and keys of a call are no padding: what the call says, or else the batch."""
    found = []
    for kept, stream, rows in zip(call.kept, site.streams, (call.query, call.key), strict=True):
        said = batches.kept(batch, stream) if kept is None else None
        if said is not None:
            wanted = (rows.shape[0], rows.shape[2])
            if said.shape != wanted:
                raise InputError(
                    f"the padding mask must have the shape {wanted}", tuple(said.shape)
                )
            kept = said.to(rows.device)
        found.append(kept)
    return found[0], found[1]


def _joined(parts: Sequence[Loss]) -> Loss:
    return Loss(
        np.concatenate([part.weights for part in parts]),
        np.concatenate([part.output for part in parts]),
    )


def _projected(query: Tensor, cut: Projection) -> Tensor:
    """The queries after a cut, in float64 or in their own format where the device has none."""
    wide = with_float64(query).double()
    made: Tensor = wide @ cut.to(wide.device)
    return made if wide.device == query.device else made.to(query)


def _emptied(x: Tensor, kept: Tensor | None) -> Tensor:
    """`x` with zeros in place of padding, where a model may leave inf or nan."""
    return x if kept is None else x.masked_fill(~kept[:, None, :, None], 0.0)
