"""Cutting the values of grouped heads and the output projections that read them.

What a query head adds to the model is W_O o with o = A V. With grouped queries one value head
v' = Rᵀv is shared by several query heads, each of which reads it with a matrix L of its own:
W_V → RᵀW_V, W_O → W_O L. R is that of the best common L: with C the covariance of o and
M = W_OᵀW_O, both summed over the heads of the group, and M = NᵀN, it is Rᵀ = UᵀN for the leading
eigenvectors U of N C Nᵀ. Then each head has the least squares L = C_h R (RᵀC_hR)⁻¹. The mean of
what is left out is a constant, which the output bias adds at no cost: attention weights add up
to 1.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float

from attnrate.errors import require_whole
from attnrate.spectra.estimate import Gram

Tensor = torch.Tensor
_RIDGE = 1e-8


@dataclass(frozen=True)
class ValueCut:
    """A cut of the values and the output projection of a layer.

    Attributes:
        into: R of each key head: its values become Rᵀv.
        out: L of each query head: its part of the output projection becomes W_O L.
        left: What the cut leaves out of the mean of A V, (I - L Rᵀ) ō, of each query head; W_O
            times this goes into the output bias.
        felt: What is felt of the cut over what is felt of the head, Σ‖W_O (ô - o)‖² / Σ‖W_O o‖²,
            about the mean.

    """

    into: Float[Tensor, "groups m_v r"]
    out: Float[Tensor, "heads m_v r"]
    left: Float[Tensor, "heads m_v"]
    felt: Float[Tensor, " heads"]

    @property
    def size(self) -> int:
        """The size of the cut values."""
        return self.into.shape[-1]


def cut_values(attended: Gram, W_O: Float[Tensor, "d wide"], groups: int, size: int) -> ValueCut:
    """Cut the values of a layer to a smaller size.

    Args:
        attended: The moments of A V of each query head.
        W_O: The weight of the output projection.
        groups: The number of key heads.
        size: The new size of the values.

    Returns:
        The cut.

    """
    heads, m_v = attended.mean.shape
    require_whole("size", size, 1, m_v)
    C = attended.spread / attended.count[:, None, None]
    eye = torch.eye(m_v, dtype=C.dtype)
    by_head = W_O.detach().cpu().double().reshape(len(W_O), heads, m_v).transpose(0, 1)
    M = by_head.mT @ by_head
    shared = heads // groups
    C_of_group, M_of_group = (x.reshape(groups, shared, m_v, m_v).sum(1) for x in (C, M))
    value, vector = torch.linalg.eigh(M_of_group)
    # Directions that no head reads still need an inverse; the bound is the rounding of float64.
    root = value.clamp(min=1e-13 * float(value.max())).sqrt()
    N = root[..., None] * vector.mT
    U = torch.linalg.eigh(N @ C_of_group @ N.mT).eigenvectors[..., -size:]
    R = (U.mT @ N).mT
    common = (vector / root[..., None, :]) @ U
    of_head = R.repeat_interleave(shared, 0)
    # The ridge draws a head to the common L where its own outputs say nothing.
    extent = C_of_group.diagonal(dim1=-2, dim2=-1).mean(-1).repeat_interleave(shared)
    smooth = C + _RIDGE * extent.clamp(min=1e-300)[:, None, None] * eye
    start = common.repeat_interleave(shared, 0)
    missed = smooth - start @ (of_head.mT @ smooth)
    L = start + torch.linalg.solve(of_head.mT @ smooth @ of_head, (missed @ of_head).mT).mT
    Q = eye - L @ of_head.mT
    whole = (M * C).sum((-2, -1))
    lost = (M * (Q @ C @ Q.mT)).sum((-2, -1))
    left = (Q @ attended.mean[..., None])[..., 0]
    return ValueCut(
        into=R,
        out=L,
        left=left,
        felt=torch.where(whole > 0, lost / whole.clamp(min=1e-300), 0.0),
    )
