"""What the closed forms of a cut need to know of a layer, summed in one pass over its calls.

With queries q_t, keys k_s and weights p_t of a head, an error δ_t of the query changes the logits
by δ_tᵀk_s. What that does is, summed over the queries:

- "logits": Σ_s (δ_tᵀk_s)², the metric KᵀK
- "gauge": the same without what softmax cannot see: Kᵀ(I - 11ᵀ/S)K, centred within each input
- "felt": Var_{p_t}(δ_tᵀk), twice the divergence of the attention weights to second order
- "output": ‖W_O Cov_{p_t}(v, k) δ_t‖², the change of what the head gives to second order
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal

import torch
from jaxtyping import Float

from attnrate.compress.held import Held

Tensor = torch.Tensor
Objective = Literal["logits", "gauge", "felt", "output"]
OBJECTIVES: tuple[Objective, ...] = ("logits", "gauge", "felt", "output")
_SAMPLED = 8  # queries of each input on which the metric of outputs is summed


@dataclass(frozen=True)
class Moments:
    """Sums over the tokens of a layer, in float64.

    Attributes:
        query: Σ q qᵀ of each query head.
        logits: KᵀK of each key head.
        gauge: KᵀK, centred within each input.
        felt: Σ_t Cov_{p_t}(k) of each query head.
        output: Σ_t JᵀJ of each query head with J = W_O Cov_{p_t}(v, k), over some of the queries.
        mixed: Σ o oᵀ of each head's outputs o = Σ_s p_t(s) v_s.
        mixed_sum: Σ o.
        queries: The number of queries.
        keys: The number of keys.

    """

    query: Float[Tensor, "heads m m"]
    logits: Float[Tensor, "groups m m"]
    gauge: Float[Tensor, "groups m m"]
    felt: Float[Tensor, "heads m m"]
    output: Float[Tensor, "heads m m"]
    mixed: Float[Tensor, "heads m_v m_v"]
    mixed_sum: Float[Tensor, "heads m_v"]
    queries: Float[Tensor, ""]
    keys: Float[Tensor, ""]

    @classmethod
    def of(cls, held: Held, W_O: Float[Tensor, "heads m_v n"] | None = None) -> "Moments":
        """The sums of a call; without `W_O` the outputs of heads are weighed as they are."""
        return joined([_of_input(held.pick([number]), W_O) for number in range(held.inputs)])

    def metric(self, objective: Objective) -> Float[Tensor, "heads m m"]:
        """The metric of an objective, one for each query head."""
        made: Tensor = getattr(self, objective)
        return made.repeat_interleave(len(self.query) // len(made), 0)

    @property
    def mixed_mean(self) -> Float[Tensor, "heads m_v"]:
        """The mean of the heads' outputs."""
        return self.mixed_sum / self.queries

    @property
    def mixed_spread(self) -> Float[Tensor, "heads m_v m_v"]:
        """The covariance of the heads' outputs."""
        mean = self.mixed_mean
        return self.mixed / self.queries - mean[:, :, None] * mean[:, None, :]


def joined(parts: Sequence[Moments]) -> Moments:
    """The sums of several calls of a layer taken together."""
    names = [field.name for field in fields(Moments)]
    return Moments(
        **{name: torch.stack([getattr(p, name) for p in parts]).sum(0) for name in names}
    )


def _of_input(held: Held, W_O: Tensor | None) -> Moments:
    there, seen = held.tokens[0] > 0, held.counted[0].double()
    key = held.key[0].double()
    own = key[:, there]
    # Variances do not see a shift of the keys, and without it nothing cancels. With sinks they do:
    # attention to no token is attention to a key at zero.
    shift = own.mean(1, keepdim=True) if held.sinks is None else torch.zeros_like(own[:, :1])
    moved = (key - shift) * there[None, :, None]
    wide = held.spread(moved[None])[0]
    value = held.spread(held.value)[0]
    if W_O is not None:
        # ‖W_Oᵀ x‖² = ‖Rᵀx‖² with R Rᵀ = W_O W_Oᵀ, which is small
        felt_value = (value.double() @ _root(W_O.double() @ W_O.double().mT)).float()
    else:
        felt_value = value
    keys, query = held.spread(held.key)[0], held.query[0]
    heads, m, m_v = len(query), key.shape[-1], value.shape[-1]
    felt, output = key.new_zeros(heads, m, m), key.new_zeros(heads, m, m)
    mixed, mixed_sum = key.new_zeros(heads, m_v, m_v), key.new_zeros(heads, m_v)
    columns = key.new_zeros(heads, key.shape[1])
    every = max(1, query.shape[1] // _SAMPLED)
    narrow = wide.float()
    for part in held.blocks():
        A = held.weights(query[None, :, part], keys[None], part)[0] * seen[part, None].float()
        columns += A.sum(1, dtype=torch.float64)
        mean = (A @ narrow).double()
        felt -= mean.mT @ mean
        out = (A @ value).double()
        mixed += out.mT @ out
        mixed_sum += out.sum(1)
        for t in range(-part.start % every, part.stop - part.start, every):
            output += _felt_by_output(A[:, t], narrow, felt_value)
    felt += wide.mT @ (columns[..., None] * wide)
    Q = query.double() * seen[:, None]
    centred = own - own.mean(1, keepdim=True)
    return Moments(
        query=Q.mT @ Q,
        logits=own.mT @ own,
        gauge=centred.mT @ centred,
        felt=felt,
        output=output,
        mixed=mixed,
        mixed_sum=mixed_sum,
        queries=seen.sum(),
        keys=there.double().sum(),
    )


def _felt_by_output(p: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """JᵀJ of one query of every head, with J = Cov_p(v, k)."""
    weighted = p[..., None] * key
    J = value.mT @ weighted - (value.mT @ p[..., None]) * weighted.sum(1)[:, None, :]
    return J.double().mT @ J.double()


def _root(gram: Tensor) -> Tensor:
    value, vector = torch.linalg.eigh(gram)
    made: Tensor = vector * value.clamp(min=0).sqrt()[..., None, :]
    return made
