"""Tokens and weights from moments: Prony's problem for attention with the logits z(t) z(s).

A measure Σ_s p_s δ(z_s) on τ points has 2τ unknowns, and its moments m_0 = 1, m_1, ..., m_{2τ-1}
determine them (Prony 1795). With V_sj = z_s^j, the Hankel matrices are (m_{i+j}) = Vᵀ P V and
(m_{i+j+1}) = Vᵀ P Z V, so the z_s are the eigenvalues of the pencil, and (m_{i+j}) = L Lᵀ makes it
symmetric (Golub & Welsch 1969): the eigenvectors of L⁻¹ (m_{i+j+1}) L⁻ᵀ hold the weights.

Prony's problem is ill-conditioned: it does not use that p is a softmax of z(t) z(·), so that there
are τ unknowns, not 2τ. `refined` does, by Gauss and Newton, and has rounding errors alone.
"""

import torch
from jaxtyping import Float, Int

Tensor = torch.Tensor
#: Steps of `refined`; from Prony's solution one or two are enough, further ones change nothing
_STEPS = 6
#: The least eigenvalue of a Hankel matrix, relative to m_0 = 1: smaller ones are rounding errors
_LEAST = 1e-3 * torch.finfo(torch.float64).eps


def powers(z: Float[Tensor, "*shape"], count: int) -> Float[Tensor, "*shape count"]:
    """z, z², ..., z^count in a new last axis."""
    return torch.stack([z**j for j in range(1, count + 1)], dim=-1)


def prony(
    moments: Float[Tensor, "n moments"],
) -> tuple[Float[Tensor, "n length"], Float[Tensor, "n length"]]:
    """The points, in increasing order, and weights with these moments m_1, ..., m_{2τ-1}."""
    length = (moments.shape[-1] + 1) // 2
    m = torch.cat([torch.ones_like(moments[:, :1]), moments], dim=-1)
    i = torch.arange(length, device=m.device)
    size, turn = torch.linalg.eigh(m[:, i[:, None] + i])
    root = size.clamp_min(_LEAST).sqrt()[:, None]
    left, inverse = turn * root, (turn / root).mT
    points, vectors = torch.linalg.eigh(inverse @ m[:, i[:, None] + i + 1] @ inverse.mT)
    weights = (vectors.mT @ left[:, 0, :, None])[..., 0].square()
    return points, weights


def asking(
    points: Float[Tensor, "n length"], weights: Float[Tensor, "n length"]
) -> Int[Tensor, " n"]:
    """The t for which weights ∝ exp(z(t) z(s)): log weights against points have the slope z(t)."""
    height = weights.clamp_min(torch.finfo(weights.dtype).tiny).log()
    height = height - height.mean(-1, keepdim=True)
    along = points - points.mean(-1, keepdim=True)
    slope = (height * along).sum(-1) / along.square().sum(-1)
    return (points - slope[:, None]).abs().argmin(-1)


def attended(z: Float[Tensor, "n length"], t: Int[Tensor, " n"]) -> Float[Tensor, "n moments"]:
    """The moments m_1, ..., m_{2τ-1} of the points under the weights softmax[z(t) z(·)]."""
    weights = (z.gather(1, t[:, None]) * z).softmax(-1)
    return (weights[:, None] @ powers(z, 2 * z.shape[1] - 1))[:, 0]


def jacobian(
    z: Float[Tensor, "n length"], t: Int[Tensor, " n"]
) -> Float[Tensor, "n moments length"]:
    """The derivatives ∂m_j/∂z_i of `attended`.

    ∂m_j/∂z_i = p_i (j z_i^(j-1) + z_t (z_i^j - m_j)) + [i=t] Σ_s p_s z_s (z_s^j - m_j).
    """
    count = 2 * z.shape[1] - 1
    asks = z.gather(1, t[:, None])
    p = (asks * z).softmax(-1)[:, None]
    j = torch.arange(1, count + 1, device=z.device, dtype=z.dtype)[:, None]
    high = powers(z, count).mT
    low = torch.cat([torch.ones_like(high[:, :1]), high[:, :-1]], dim=1)
    off = high - (p * high).sum(-1, keepdim=True)
    own = torch.nn.functional.one_hot(t, z.shape[1])[:, None].to(z.dtype)
    return p * (j * low + asks[:, None] * off) + own * (p * z[:, None] * off).sum(-1, keepdim=True)


def refined(
    z: Float[Tensor, "n length"], t: Int[Tensor, " n"], moments: Float[Tensor, "n moments"]
) -> Float[Tensor, "n length"]:
    """Points near z whose `attended` moments are nearest to the given ones (Gauss-Newton).

    A step is taken where it makes the distance smaller, so that points stay where rounding ends.
    """
    left = moments - attended(z, t)
    for _ in range(_STEPS):
        step = torch.linalg.lstsq(jacobian(z, t), left[..., None]).solution[..., 0]
        rest = moments - attended(z + step, t)
        better = (rest.norm(dim=-1) < left.norm(dim=-1))[:, None]
        z, left = torch.where(better, z + step, z), torch.where(better, rest, left)
    return z
