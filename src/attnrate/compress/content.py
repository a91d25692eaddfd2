"""Cutting queries and keys by closed forms: the best P = X Yᵀ of rank r for a quadratic objective.

A cut replaces q by Xᵀq and k by Yᵀk, so that the logits become (Y Xᵀ q)ᵀ k. For a metric M the
error δ = Y Xᵀ q - q costs δᵀMδ. For one head the best is X = M^½ U, Y = M^-½ U with the leading
eigenvectors U of M^½ (Σ q qᵀ) M^½. Query heads that share a key head share Y; for a given Y the
best X of each is M Y (Yᵀ M Y)⁻¹.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float

from attnrate.compress.moments import Moments, Objective
from attnrate.errors import InputError

Tensor = torch.Tensor
_ROUNDING = 1e-12  # eigenvalues below this share of the largest are rounding


@dataclass(frozen=True)
class Factors:
    """The matrices of a cut: W_Q becomes Xᵀ W_Q, and W_K becomes Yᵀ W_K.

    Attributes:
        X: One for each query head.
        Y: One for each key head.

    """

    X: Float[Tensor, "heads m r"]
    Y: Float[Tensor, "groups m r"]

    @property
    def size(self) -> int:
        """The new size of the heads."""
        return self.X.shape[-1]

    def projection(self) -> Float[Tensor, "heads m m"]:
        """P = X Yᵀ of each query head, for `spectra.cut`: the query Pᵀq has the same logits."""
        shared = len(self.X) // len(self.Y)
        return self.X @ self.Y.repeat_interleave(shared, 0).mT


def content(moments: Moments, objective: Objective, size: int) -> Factors:
    """The best cut of a layer's queries and keys for a quadratic objective.

    Args:
        moments: The moments of the layer.
        objective: "logits", "gauge", "felt" or "output"; `moments` says what each is.
        size: The new size of the heads, at most that of now.

    Returns:
        X of each query head and Y of each key head, in float64.

    Raises:
        InputError: The size is below 1 or above the size of the heads.

    """
    heads, m, _ = moments.query.shape
    groups = len(moments.logits)
    require_size(size, m)
    if size == m:
        whole = torch.eye(m, dtype=torch.float64, device=moments.query.device)
        return Factors(whole.repeat(heads, 1, 1), whole.repeat(groups, 1, 1))
    metric = moments.metric(objective)
    shared = heads // groups
    # Of one head exactly the best; of several with metrics of their own, Y is that of their mean.
    common = metric.reshape(groups, shared, m, m).mean(1)
    query = moments.query.reshape(groups, shared, m, m).sum(1)
    root, inverse = roots(common)
    U = torch.linalg.eigh(root @ query @ root).eigenvectors[..., -size:].flip(-1)
    Y = inverse @ U
    own = Y.repeat_interleave(shared, 0)
    X = metric @ own @ torch.linalg.pinv(own.mT @ metric @ own, hermitian=True)
    return balanced(Factors(X, Y), moments)


def require_size(size: int, m: int) -> None:
    """Raise an InputError for a size that heads of size m cannot be cut to."""
    if not 1 <= size <= m:
        raise InputError(
            f"heads of size {m} cannot be cut to that size", size, f"Choose from 1 to {m}."
        )


def balanced(factors: Factors, moments: Moments) -> Factors:
    """A cut with queries and keys of one size in each of the r directions.

    A factor may move from column i of X to column i of Y; here it is such that the mean square of
    the queries is that of the keys, so that both keep well in half precision and train alike.
    """
    heads, groups = len(factors.X), len(factors.Y)
    query = _squares(factors.X, moments.query) / moments.queries
    query = query.reshape(groups, heads // groups, -1).mean(1)
    key = _squares(factors.Y, moments.gauge) / moments.keys
    there = (query > 0) & (key > 0)
    ratio = torch.where(there, query / torch.where(there, key, 1.0), 1.0) ** 0.25
    return Factors(
        factors.X / ratio.repeat_interleave(heads // groups, 0)[:, None, :],
        factors.Y * ratio[:, None, :],
    )


def _squares(columns: Tensor, gram: Tensor) -> Tensor:
    made: Tensor = (columns * (gram @ columns)).sum(1)
    return made.clamp(min=0)


def roots(metric: Tensor) -> tuple[Tensor, Tensor]:
    """M^½ and its inverse where M has one; directions that M does not see play no part."""
    value, vector = torch.linalg.eigh(metric)
    there = value > _ROUNDING * value[..., -1:].clamp(min=torch.finfo(value.dtype).tiny)
    root = torch.where(there, value, 0.0).sqrt()
    inverse = torch.where(there, 1 / root.clamp(min=torch.finfo(value.dtype).tiny), 0.0)
    return (
        vector * root[..., None, :] @ vector.mT,
        vector * inverse[..., None, :] @ vector.mT,
    )
