"""Cutting values and outputs: the best r directions of what each head gives, the mean in the bias.

A head adds W_Oᵀo to the layer's output, with o = Σ_s p(s) v_s. Its mean needs no head at all: it
goes into the bias. Of the rest the best r directions are those of the SVD of C^½ W_O with the
covariance C of o: with leading left singular vectors U, values become Uᵀ C^-½ v, and the output
projection Uᵀ C^½ W_O. Key heads that several query heads share have one set of values for all.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float

from attnrate.compress.content import require_size, roots
from attnrate.compress.moments import Moments

Tensor = torch.Tensor


@dataclass(frozen=True)
class ValueFactors:
    """The matrices of a cut of values: W_V becomes Vᵀ W_V, and W_O becomes Uᵀ W_O.

    Attributes:
        V: One for each key head.
        U: One for each query head.
        shift: What is added to the bias of the output projection.

    """

    V: Float[Tensor, "groups m_v r"]
    U: Float[Tensor, "heads m_v r"]
    shift: Float[Tensor, " n"]

    @property
    def size(self) -> int:
        """The new size of the values."""
        return self.V.shape[-1]


def value_cut(moments: Moments, W_O: Float[Tensor, "heads m_v n"], size: int) -> ValueFactors:
    """The best cut of a layer's values for the change of the layer's output, head by head.

    Args:
        moments: The moments of the layer.
        W_O: The output projection, by query heads.
        size: The new size of the values, at most that of now.

    Returns:
        V of each key head, U of each query head, and what the bias of the output gains.

    Raises:
        InputError: The size is below 1 or above that of the values.

    """
    heads, m_v, n = W_O.shape
    groups = len(moments.logits)
    require_size(size, m_v)
    if size == m_v:
        whole = torch.eye(m_v, dtype=torch.float64, device=W_O.device)
        return ValueFactors(
            whole.repeat(groups, 1, 1), whole.repeat(heads, 1, 1), W_O.new_zeros(n).double()
        )
    spread = moments.mixed_spread.reshape(groups, heads // groups, m_v, m_v)
    felt = (W_O.double() @ W_O.double().mT).reshape(groups, heads // groups, m_v, m_v)
    # With Z = V Uᵀ the error (Zᵀ - I)(o - ō) costs ‖W_Oᵀ ·‖². It is the problem of content.py with
    # the outputs as queries and W_O W_Oᵀ as the metric; V is found where heads share it.
    root, inverse = roots(spread.mean(1))
    V_side = torch.linalg.eigh(root @ felt.sum(1) @ root).eigenvectors[..., -size:].flip(-1)
    V = inverse @ V_side
    own = V.repeat_interleave(heads // groups, 0)
    C = moments.mixed_spread
    U = C @ own @ torch.linalg.pinv(own.mT @ C @ own, hermitian=True)
    # o ≈ U Vᵀ (o - ō) + ō, as rows: what the mean loses is given back by the bias
    mean = moments.mixed_mean
    lost = mean - (U @ (own.mT @ mean[..., None]))[..., 0]
    shift = (lost[:, None, :] @ W_O.double()).sum((0, 1))
    return ValueFactors(V, U, shift)
