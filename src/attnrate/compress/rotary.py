"""Cutting rotary heads: which pairs are kept, and how the queries make up for the rest.

A map of a head that may be applied before the rotation instead of after it is one complex number
per pair. So a cut keeps some pairs of each key head, and each query head that uses it has a complex
c_j for each kept pair, which is folded into W_Q: q'_j = c_j q_j. In the features of
`rotary_moments` the logits are wᵀf with w = (Re c, -Im c), and w⁰ = (1, …, 1, 0, …, 0) are those of
the whole head. What is felt of a cut is (w - w⁰)ᵀ Γ (w - w⁰), least over the kept pairs K for
w_K = w⁰_K + Γ_KK⁻¹ Γ_KD w⁰_D.

Backward elimination (the optimal brain surgeon of Hassibi and Stork, 1993, for blocks of two):
with B = Γ_KK⁻¹ the pair j is dropped for which w_jᵀ (B_jj)⁻¹ w_j, summed over the query heads that
share the pairs, is least; w and B are updated by the Schur complement.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Complex, Float, Int

from attnrate.errors import InputError, require_choice

Tensor = torch.Tensor
Shared = Literal["head", "layer", "model"]
"""Who has one set of pairs: each key head its own, each layer, or the whole model."""
# The share of Γ's mean diagonal that is added to it: beside it only pairs that no query ever used
_RIDGE = 1e-8


@dataclass(frozen=True)
class RotaryMaps:
    """What becomes of queries and keys before the rotation: q' = Xᵀq, k' = Yᵀk, and then they turn.

    Attributes:
        pairs: The pairs of the whole head whose frequencies turn the pairs (i, i + r / 2) of the
            thin ones, of each key head.
        queries: X of each query head.
        keys: Y of each key head.

    """

    pairs: Int[Tensor, "groups kept"]
    queries: Float[Tensor, "heads m r"]
    keys: Float[Tensor, "groups m r"]


@dataclass(frozen=True)
class PairCut:
    """A cut of the keys and queries of a layer with rotary position embedding.

    Attributes:
        pairs: The pairs that each key head keeps, in rising order.
        factors: The complex c_j of each query head and kept pair.
        felt: What is felt of the cut over what is felt of the head, (w - w⁰)ᵀΓ(w - w⁰) / w⁰ᵀΓw⁰, of
            each query head: 0 for a whole head; 1 says that all logits might as well be constant.

    """

    pairs: Int[Tensor, "groups kept"]
    factors: Complex[Tensor, "heads kept"]
    felt: Float[Tensor, " heads"]

    @property
    def size(self) -> int:
        """The size of the cut heads: two dimensions for each pair."""
        return 2 * self.pairs.shape[1]

    def maps(self, m: int) -> RotaryMaps:
        """The cut of heads of size m as matrices: Y picks the pairs, X picks and turns them."""
        groups, kept = self.pairs.shape
        place = torch.arange(kept)
        keys = torch.zeros(groups, m, 2 * kept, dtype=torch.float64)
        for group, own in enumerate(self.pairs):
            keys[group, own, place] = 1.0
            keys[group, own + m // 2, place + kept] = 1.0
        queries = keys.repeat_interleave(len(self.factors) // groups, 0)
        turn = torch.zeros(len(self.factors), 2 * kept, 2 * kept, dtype=torch.float64)
        # q' = c q: Re q' = Re c Re q - Im c Im q, Im q' = Im c Re q + Re c Im q
        for row, column, part in (
            (place, place, self.factors.real),
            (place + kept, place + kept, self.factors.real),
            (place + kept, place, -self.factors.imag),
            (place, place + kept, self.factors.imag),
        ):
            turn[:, row, column] = part.double()
        return RotaryMaps(self.pairs, queries @ turn, keys)


def cut_pairs(
    moments: Mapping[str, Float[Tensor, "heads m m"]],
    groups: Mapping[str, int],
    size: int,
    shared: Shared = "head",
    refit: bool = True,
) -> dict[str, PairCut]:
    """Cut the keys and queries of rotary layers to one size.

    Args:
        moments: Γ of the query heads of each layer, by the names of layers.
        groups: The number of key heads of each layer.
        size: The new head size, an even number; `size / 2` pairs are kept.
        shared: Whether each key head has pairs of its own, all heads of a layer have the same
            pairs, or all layers have.
        refit: Whether the kept pairs make up for those that are dropped; without it all c_j are 1.

    Returns:
        The cuts, by the names of layers.

    """
    require_choice("shared", shared, ("head", "layer", "model"))
    for name, gamma in moments.items():
        require_size(size, gamma.shape[-1], name)
    chosen: dict[str, Tensor] = {}
    count = size // 2
    if shared == "model":
        whole = torch.cat(list(moments.values()))
        pairs = eliminate(whole, count, refit)
        chosen = {name: pairs.expand(groups[name], -1) for name in moments}
    for name, gamma in moments.items():
        if shared == "layer":
            chosen[name] = eliminate(gamma, count, refit).expand(groups[name], -1)
        elif shared == "head":
            own = gamma.reshape(groups[name], -1, *gamma.shape[1:])
            chosen[name] = torch.stack([eliminate(of_group, count, refit) for of_group in own])
    return {name: with_pairs(moments[name], pairs, refit) for name, pairs in chosen.items()}


def with_pairs(
    gamma: Float[Tensor, "heads m m"], pairs: Int[Tensor, "groups kept"], refit: bool = True
) -> PairCut:
    """The cut that keeps the given pairs of each key head, with the best c_j or with c_j = 1."""
    every = pairs.repeat_interleave(len(gamma) // len(pairs), 0)
    factors = refitted(gamma, every) if refit else torch.ones(every.shape, dtype=torch.complex128)
    return PairCut(pairs.clone(), factors, share_felt(gamma, every, factors))


def eliminate(
    gamma: Float[Tensor, "heads m m"], count: int, refit: bool = True
) -> Int[Tensor, " kept"]:
    """The `count` pairs that heads keep in common, by backward elimination.

    Args:
        gamma: Γ of the heads that share their pairs.
        count: The number of pairs that are kept.
        refit: Whether the kept pairs make up for those that are dropped.

    Returns:
        The kept pairs in rising order.

    """
    kept = torch.ones(gamma.shape[-1] // 2, dtype=torch.bool)
    kept[dropped(gamma, count, refit)] = False
    return kept.nonzero()[:, 0]


def dropped(
    gamma: Float[Tensor, "heads m m"], count: int, refit: bool = True
) -> Int[Tensor, " dropped"]:
    """The pairs that backward elimination drops, in its order: the first ones for a larger size.

    Args:
        gamma: Γ of the heads that share their pairs.
        count: The number of pairs that are kept at the end.
        refit: Whether the kept pairs make up for those that are dropped.

    Returns:
        The numbers of the dropped pairs.

    """
    heads, m, _ = gamma.shape
    pairs = m // 2
    by_pairs = _by_pairs(with_ridge(gamma))
    kept = torch.ones(pairs, dtype=torch.bool)
    order: list[int] = []
    if not refit:
        # What is felt of dropping D is Σ_{i, j in D} Γ_ij of the real parts alone.
        real = by_pairs[:, :, 0, :, 0].sum(0)
        lost = torch.zeros(pairs, dtype=gamma.dtype)
        while int(kept.sum()) > count:
            j = int((real.diagonal() + 2 * lost).masked_fill(~kept, torch.inf).argmin())
            kept[j] = False
            order.append(j)
            lost = lost + real[j]
        return torch.tensor(order, dtype=torch.long)
    B = torch.linalg.inv(by_pairs.reshape(heads, m, m)).reshape(heads, pairs, 2, pairs, 2)
    w = torch.zeros(heads, pairs, 2, dtype=gamma.dtype)
    w[..., 0] = 1.0
    numbers = torch.arange(pairs)
    while int(kept.sum()) > count:
        own = B[:, numbers, :, numbers, :].transpose(0, 1)
        own = torch.where(kept[:, None, None], own, torch.eye(2, dtype=gamma.dtype))
        cost = (w * torch.linalg.solve(own, w[..., None])[..., 0]).sum((0, 2))
        j = int(cost.masked_fill(~kept, torch.inf).argmin())
        kept[j] = False
        order.append(j)
        column = B[:, :, :, j, :]
        step = torch.linalg.solve(own[:, j].mT, column.flatten(1, 2).mT).mT
        w = w - (step @ w[:, j, :, None]).reshape(w.shape)
        B = B - (step @ column.flatten(1, 2).mT).reshape(B.shape)
        # What was dropped is exactly zero, not zero to rounding.
        w[:, j], B[:, j], B[:, :, :, j] = 0.0, 0.0, 0.0
    return torch.tensor(order, dtype=torch.long)


def refitted(
    gamma: Float[Tensor, "heads m m"], pairs: Int[Tensor, "heads kept"]
) -> Complex[Tensor, "heads kept"]:
    """The best c_j of each head for the pairs that it keeps: w_K = w⁰_K + Γ_KK⁻¹ Γ_KD w⁰_D."""
    m = gamma.shape[-1]
    gamma = with_ridge(gamma)
    factors = []
    for own, kept in zip(gamma, pairs, strict=True):
        parts = torch.cat([kept, kept + m // 2])
        dropped = _others(kept, m // 2)
        w = torch.zeros(len(parts), dtype=own.dtype)
        w[: len(kept)] = 1.0
        w += torch.linalg.solve(own[parts][:, parts], own[parts][:, dropped].sum(-1))
        factors.append(torch.complex(w[: len(kept)], -w[len(kept) :]))
    return torch.stack(factors)


def share_felt(
    gamma: Float[Tensor, "heads m m"],
    pairs: Int[Tensor, "heads kept"],
    factors: Complex[Tensor, "heads kept"],
) -> Float[Tensor, " heads"]:
    """What is felt of a cut over what is felt of the head, of each query head."""
    half = gamma.shape[-1] // 2
    w = torch.zeros(len(gamma), 2 * half, dtype=gamma.dtype)
    w[:, :half] = 1.0
    whole = torch.einsum("hi,hij,hj->h", w, gamma, w)
    w.scatter_add_(1, pairs, -factors.real.to(w))
    w.scatter_add_(1, pairs + half, factors.imag.to(w))
    left = torch.einsum("hi,hij,hj->h", w, gamma, w)
    return torch.where(whole > 0, left / whole.clamp(min=1e-300), 0.0)


def require_size(size: int, m: int, name: str) -> int:
    """`size`, or an InputError where heads of size m cannot be cut to it."""
    if size < 2 or size > m or size % 2:
        raise InputError(
            f"heads of {name} have the size {m} and a rotary embedding, which turns pairs; they "
            f"can be cut to an even size from 2 to {m}",
            size,
            f"Pass {min(max(2, size + size % 2), m)}.",
        )
    return size


def with_ridge(gamma: Float[Tensor, "heads m m"]) -> Float[Tensor, "heads m m"]:
    """Γ and a small multiple of the identity, which draws c_j to 1 where inputs say nothing."""
    m = gamma.shape[-1]
    size = gamma.diagonal(dim1=-2, dim2=-1).mean(-1).clamp(min=torch.finfo(gamma.dtype).tiny)
    return gamma + _RIDGE * size[:, None, None] * torch.eye(m, dtype=gamma.dtype)


def _by_pairs(gamma: Float[Tensor, "heads m m"]) -> Float[Tensor, "heads pairs 2 pairs 2"]:
    """Γ with the two features of each pair beside each other."""
    half = gamma.shape[-1] // 2
    return gamma.reshape(len(gamma), 2, half, 2, half).permute(0, 2, 1, 4, 3)


def _others(kept: Int[Tensor, " kept"], pairs: int) -> Int[Tensor, " dropped"]:
    there: Bool[Tensor, " pairs"] = torch.ones(pairs, dtype=torch.bool)
    there[kept] = False
    return there.nonzero()[:, 0]
