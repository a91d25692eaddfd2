"""Singular values of logit matrices from their factors; the matrices are never formed.

L = scale · Q Kᵀ with Q (T, m_h) and K (S, m_h) has as squared singular values the eigenvalues of
scale² · Aᵀ KᵀK A, where A Aᵀ = QᵀQ: matrices of size m_h, O((T + S) m_h²) operations and O(m_h²)
numbers to keep. Divided by √(T S) they estimate those of the coupling ρ̂ under the law of tokens.

The gauge: softmax over s does not see what does not depend on s, so L may be replaced by the
least of all L + c 1ᵀ, which is L with its rows' means taken out: K - k̄ instead of K, and KᵀK less
S k̄k̄ᵀ.

Gram matrices are summed in float64 about the mean (nothing cancels), so that values down to about
1e-8 ‖Q‖‖K‖ are right; the rounding of a float32 model is larger than that.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float

Tensor = torch.Tensor


@dataclass(frozen=True)
class Gram:
    """The second moments of some vectors x.

    Attributes:
        spread: Σ (x - x̄)(x - x̄)ᵀ.
        mean: The mean x̄.
        count: The number of vectors.

    """

    spread: Float[Tensor, "*many m m"]
    mean: Float[Tensor, "*many m"]
    count: Float[Tensor, " *many"]

    @classmethod
    def of(
        cls, x: Float[Tensor, "batch heads T m"], kept: Bool[Tensor, "batch T"] | None = None
    ) -> "Gram":
        """The moments of the rows of each input and head; `kept` says which rows count."""
        # A copy, laid out by heads, is changed in place: passes over memory cost as much as the
        # products.
        rows = with_float64(x.detach())
        kept = None if kept is None else kept.to(rows.device)
        own = rows.to(torch.float64, memory_format=torch.contiguous_format, copy=True)
        if kept is None or bool(kept.all()):
            count = own.new_full(own.shape[:2], own.shape[2])
            mean = own.mean(-2)
            own -= mean[..., None, :]
        else:
            padding = ~kept[:, None, :, None]
            count = kept.sum(-1, keepdim=True).to(own).expand(own.shape[:2])
            # filled and not multiplied by zero: padding may hold inf or nan
            own.masked_fill_(padding, 0.0)
            mean = own.sum(-2) / count.clamp(min=1)[..., None]
            own -= mean[..., None, :]
            own.masked_fill_(padding, 0.0)
        return cls(own.mT @ own, mean, count)

    @property
    def about_zero(self) -> Float[Tensor, "*many m m"]:
        """Σ x xᵀ."""
        return self.spread + self.count[..., None, None] * _outer(self.mean)

    def cpu(self) -> "Gram":
        """A copy of these moments on the CPU."""
        return Gram(self.spread.cpu(), self.mean.cpu(), self.count.cpu())

    def pick(self, inputs: list[int]) -> "Gram":
        """The moments of those inputs (the first axis) whose numbers are given."""
        return Gram(self.spread[inputs], self.mean[inputs], self.count[inputs])

    def pooled(self) -> "Gram":
        """The moments of all inputs (the first axis) taken together."""
        count = self.count.sum(0)
        share = self.count / count.clamp(min=1)
        mean = (share[..., None] * self.mean).sum(0)
        apart = self.count[..., None, None] * _outer(self.mean - mean)
        return Gram((self.spread + apart).sum(0), mean, count)

    def joined(self, other: "Gram") -> "Gram":
        """The moments of these vectors and those of `other` taken together."""
        both = (self.spread, other.spread), (self.mean, other.mean), (self.count, other.count)
        return Gram(*(torch.stack(pair) for pair in both)).pooled()


def with_float64(x: Tensor) -> Tensor:
    """`x` on a device that has float64: the CPU in place of Apple's GPU, any other as it is."""
    return x.cpu() if x.device.type == "mps" else x


def spectra(
    query: Gram, key: Gram, scale: float
) -> tuple[Float[Tensor, "*many heads m"], Float[Tensor, "*many heads m"]]:
    """The singular values of scale · QKᵀ / √(T S), largest first, in both gauges.

    Args:
        query: The moments of queries; the last of the leading axes counts query heads.
        key: The moments of keys; the last of the leading axes counts key heads, which several
            query heads may share.
        scale: The factor of the logits.

    Returns:
        The singular values with the rows' means taken out (gauge "softmax"), and with them left in
        (gauge "none").

    """
    root = _root(query.about_zero)
    shared = query.count.shape[-1] // key.count.shape[-1]
    spread, mean = (
        x.repeat_interleave(shared, query.count.dim() - 1) for x in (key.spread, key.mean)
    )
    count = key.count.repeat_interleave(shared, -1)
    centred = root.mT @ spread @ root
    means = _outer((root.mT @ mean[..., None])[..., 0])
    size = abs(scale) / (query.count * count).sqrt().clamp(min=1)
    gauged, whole = (
        size[..., None] * _roots(squares)
        for squares in (centred, centred + count[..., None, None] * means)
    )
    return gauged, whole


def _roots(squares: Float[Tensor, "*many m m"]) -> Float[Tensor, "*many m"]:
    """The roots of the eigenvalues, largest first; one below 0 is rounding and gives 0."""
    value: Tensor = torch.linalg.eigvalsh(squares)
    return value.clamp(min=0).sqrt().flip(-1)


def _outer(x: Float[Tensor, "*many m"]) -> Float[Tensor, "*many m m"]:
    return x[..., :, None] * x[..., None, :]


def _root(gram: Float[Tensor, "*many m m"]) -> Float[Tensor, "*many m m"]:
    """A matrix A with A Aᵀ = gram, by Cholesky, or by eigenvectors where gram is singular."""
    factor: Tensor
    factor, failed = torch.linalg.cholesky_ex(gram)
    bad = failed > 0
    if bad.any():
        value, vector = torch.linalg.eigh(gram[bad])
        factor[bad] = vector * value.clamp(min=0).sqrt()[..., None, :]
    return factor
