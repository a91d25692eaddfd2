"""Singular values of logit matrices from their factors; the matrices are never formed.

L = scale · Q Kᵀ with Q (T, m_h) and K (S, m_h) has the singular values of A_Qᵀ A_K, where
A_Q A_Qᵀ = QᵀQ and A_K A_Kᵀ = KᵀK are of size m_h: O((T + S) m_h²) operations and O(m_h²) numbers to
keep. Divided by √(T S) they estimate those of the coupling ρ̂ under the law of the tokens.

The gauge: softmax over s does not see what does not depend on s, so L may be replaced by the least
of all L + c 1ᵀ, which is L with its rows' means taken out: K - k̄ instead of K.

Gram matrices are summed in float64 about the mean (nothing cancels), so that values down to about
1e-8 ‖Q‖‖K‖ are right; the rounding of a float32 model is larger than that.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float

Tensor = torch.Tensor


@dataclass(frozen=True)
class Gram:
    """Second moments of vectors x: Σ (x - x̄)(x - x̄)ᵀ, x̄, and how many there are."""

    spread: Float[Tensor, "*many m m"]
    mean: Float[Tensor, "*many m"]
    count: Float[Tensor, " *many"]

    @classmethod
    def of(
        cls, x: Float[Tensor, "batch heads T m"], kept: Bool[Tensor, "batch T"] | None = None
    ) -> "Gram":
        """Those of every input's and head's rows, without the rows that are not kept."""
        x = x.double()
        if kept is None:
            count = x.new_full(x.shape[:2], x.shape[2])
            mean = x.mean(-2)
            centred = x - mean[..., None, :]
        else:
            rows = kept[:, None, :, None].to(x)
            count = rows.sum((-2, -1)).expand(x.shape[:2])
            # where() and not a product: what a model leaves in padding may be inf or nan
            x = torch.where(rows > 0, x, 0.0)
            mean = x.sum(-2) / count.clamp(min=1)[..., None]
            centred = (x - mean[..., None, :]) * rows
        return cls(centred.mT @ centred, mean, count)

    @property
    def about_zero(self) -> Float[Tensor, "*many m m"]:
        """Σ x xᵀ."""
        return self.spread + self.count[..., None, None] * _outer(self.mean)

    def pick(self, inputs: list[int]) -> "Gram":
        """Some inputs of the batch (the first axis)."""
        return Gram(self.spread[inputs], self.mean[inputs], self.count[inputs])

    def pooled(self) -> "Gram":
        """All inputs of the batch (the first axis) taken together."""
        count = self.count.sum(0)
        share = self.count / count.clamp(min=1)
        mean = (share[..., None] * self.mean).sum(0)
        apart = self.count[..., None, None] * _outer(self.mean - mean)
        return Gram((self.spread + apart).sum(0), mean, count)

    def joined(self, other: "Gram") -> "Gram":
        """These vectors and those of the other."""
        both = (self.spread, other.spread), (self.mean, other.mean), (self.count, other.count)
        return Gram(*(torch.stack(pair) for pair in both)).pooled()


def spectrum(query: Gram, key: Gram, scale: float, gauge: bool) -> Float[Tensor, "*many heads m"]:
    """σ_k of scale · QKᵀ / √(T S), largest first; with `gauge`, of its rows without their means.

    The last of the leading axes counts heads; several query heads may share a key head.
    """
    left = _root(query.about_zero)
    right = _root(key.spread if gauge else key.about_zero)
    shared = query.count.shape[-1] // key.count.shape[-1]
    right = right.repeat_interleave(shared, -3)
    tokens = (query.count * key.count.repeat_interleave(shared, -1)).sqrt().clamp(min=1)
    sigma: Tensor = torch.linalg.svdvals(left.mT @ right)
    return abs(scale) * sigma / tokens[..., None]


def _outer(x: Float[Tensor, "*many m"]) -> Float[Tensor, "*many m m"]:
    return x[..., :, None] * x[..., None, :]


def _root(gram: Float[Tensor, "*many m m"]) -> Float[Tensor, "*many m m"]:
    """A with A Aᵀ = gram: Cholesky's, or by eigenvectors where gram is singular."""
    factor: Tensor
    factor, failed = torch.linalg.cholesky_ex(gram)
    bad = failed > 0
    if bad.any():
        value, vector = torch.linalg.eigh(gram[bad])
        factor[bad] = vector * value.clamp(min=0).sqrt()[..., None, :]
    return factor
