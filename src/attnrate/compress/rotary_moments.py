"""What a cut of rotary heads has to know of calibration inputs: second moments of pair products.

A head of size m has m / 2 pairs (i, i + m / 2), read as complex numbers q_j and k_j. After the
rotation its logit is scale · Σ_j Re(q_j k̄_j). The features f = (Re, Im)(q_j k̄_j) of a query t and a
key s are linear in the key, f = D_t k, so that what attention sees of them at t is
D_t Cov_{p_t}(k) D_tᵀ: the features of T · S pairs of tokens are never formed.

- "weights": Γ = scale² Σ_t Cov_{p_t}(f). A change δ of the coefficients of the features changes the
  attention weights by Σ_t KL ≈ ½ δᵀ Γ δ.
- "outputs": Γ = scale² Σ_t J_tᵀ W_OᵀW_O J_t with J_t = Cov_{p_t}(v, f). The change of what the head
  adds to the model is Σ_t ‖W_O (A' - A) V‖² ≈ δᵀ Γ δ.

A bound on logits (soft cap) makes large ones move less; Γ leaves that out.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import nn

from attnrate.spectra.attention import weights
from attnrate.spectra.batches import Batch
from attnrate.spectra.capture import Call, Kept, Site
from attnrate.spectra.cut import kept_tokens
from attnrate.spectra.estimate import Gram
from attnrate.spectra.watching.watcher import Watcher

Tensor = torch.Tensor
_NUMBERS = 2**21  # in a block of weighted keys: 16 MB in float64


@dataclass(frozen=True)
class Felt:
    """What a layer feels of its pairs and of its values, summed over calibration inputs.

    Attributes:
        weights: Γ of attention weights, by query heads.
        outputs: Γ of what heads add to the model, by query heads.
        attended: The moments of A V, of each query head.
        groups: The number of key heads.
        queries: The number of queries t that were summed over.

    """

    weights: Float[Tensor, "heads m m"]
    outputs: Float[Tensor, "heads m m"]
    attended: Gram
    groups: int
    queries: int

    def joined(self, other: "Felt") -> "Felt":
        """What was felt on these inputs and on those of `other` taken together."""
        return Felt(
            self.weights + other.weights,
            self.outputs + other.outputs,
            self.attended.joined(other.attended),
            self.groups,
            self.queries + other.queries,
        )


def felt(call: Call, kept: Kept, W_O: Float[Tensor, "d wide"], outputs: bool = True) -> Felt:
    """What a layer feels in one call, in float64.

    Args:
        call: The call; its queries and keys have been rotated.
        kept: Which queries and keys are no padding; None: all are.
        W_O: The weight of the layer's output projection.
        outputs: Whether Γ of the outputs is wanted, which takes as long again; it is zero if not.

    Returns:
        The sums over all inputs of the call and all queries that are no padding.

    """
    query = _emptied(call.query, kept[0]).double()
    key, value = (_emptied(x, kept[1]).double() for x in (call.key, call.value))
    inputs, heads, T, m = query.shape
    groups, m_v = key.shape[1], value.shape[-1]
    shared = heads // groups
    every_key = key.repeat_interleave(shared, 1)
    metric = W_O.detach().double().to(query.device).reshape(len(W_O), heads, m_v)
    triangle = torch.linalg.qr(metric.transpose(0, 1), mode="r").R if outputs else None
    by_weights, by_outputs = query.new_zeros(heads, m, m), query.new_zeros(heads, m, m)
    attended = query.new_zeros(inputs, heads, T, m_v)
    rows = max(1, min(T, _NUMBERS // (m * key.shape[2])))
    for start in range(0, T, rows):
        part = slice(start, min(start + rows, T))
        p = weights(call, query[:, :, part], every_key, part, kept[1])
        # Causal attention does not reach beyond its own row: those keys need no products.
        reached = int(p.sum((0, 1, 2)).nonzero().max()) + 1 if bool(p.any()) else 1
        p = p[..., :reached]
        for i in range(inputs):
            for h in range(heads):
                k, v = key[i, h // shared, :reached], value[i, h // shared, :reached]
                D, weight = query[i, h, part], p[i, h]
                attended[i, h, part] = weight @ v
                others = k if triangle is None else torch.cat([k, v @ triangle[h].mT], -1)
                moments = _moments(weight, k, others)
                by_weights[h] += _turned(moments[..., :m], D, both=True)
                if triangle is not None:
                    J = _turned(moments[..., m:].mT, D, both=False).flatten(0, 1)
                    by_outputs[h] += J.mT @ J
    scale = call.scale**2
    moments_of_values = Gram.of(attended, kept[0]).pooled()
    counted = inputs * T if kept[0] is None else int(kept[0].sum())
    made = Felt(by_weights * scale, by_outputs * scale, moments_of_values, groups, counted)
    return made if query.device.type == "cpu" else _on_cpu(made)


def gather(watcher: Watcher, inputs: Iterable[Batch]) -> dict[str, Felt]:
    """What each layer feels of its weights on calibration inputs, in one pass over them.

    Args:
        watcher: The model.
        inputs: The calibration inputs as batches.

    Returns:
        The sums over all inputs, by the names of layers that ran on them and have an output
        projection. Γ of the outputs, which takes as long again, is left out: it is zero.

    """
    found: dict[str, Felt] = {}

    for batch in inputs:

        def see(site: Site, call: Call, batch: Batch = batch) -> None:
            projection = getattr(site.module, "o_proj", None)
            if not isinstance(projection, nn.Linear):
                return
            kept = kept_tokens(site, call, batch)
            new = felt(call, kept, projection.weight, outputs=False)
            known = found.get(site.name)
            found[site.name] = new if known is None else known.joined(new)

        watcher.see(batch, see)
    return found


def _moments(
    weight: Float[Tensor, "t S"], k: Float[Tensor, "S m"], other: Float[Tensor, "S n"]
) -> Float[Tensor, "t m n"]:
    """Cov_{p_t}(k, other) for each t, in one product."""
    t, S = weight.shape
    weighted = (weight[:, None, :] * k.mT).reshape(-1, S)
    about_zero = (weighted @ other).reshape(t, k.shape[-1], -1)
    return about_zero - (weight @ k)[..., :, None] * (weight @ other)[..., None, :]


def _turned(x: Float[Tensor, "t n m"], D: Float[Tensor, "t m"], both: bool) -> Float[Tensor, "..."]:
    """x_t D_tᵀ for each t, or Σ_t D_t x_t D_tᵀ: from keys to the features of their pairs."""
    y = _by_pairs(x, D)
    return _by_pairs(y.mT, D).mT.sum(0) if both else y


def _by_pairs(x: Float[Tensor, "t n m"], D: Float[Tensor, "t m"]) -> Float[Tensor, "t n m"]:
    """The features (Re, Im)(q k̄) in place of the key's two parts, along the last axis."""
    re_q, im_q = D[:, None, :].chunk(2, -1)
    re_k, im_k = x.chunk(2, -1)
    return torch.cat([re_q * re_k + im_q * im_k, im_q * re_k - re_q * im_k], -1)


def _emptied(x: Tensor, kept: Tensor | None) -> Tensor:
    """`x` with zeros in place of padding, where a model may leave inf or nan."""
    x = x.detach()
    return x if kept is None else x.masked_fill(~kept[:, None, :, None], 0.0)


def _on_cpu(made: Felt) -> Felt:
    moments = made.weights.cpu(), made.outputs.cpu(), made.attended.cpu()
    return Felt(*moments, made.groups, made.queries)
