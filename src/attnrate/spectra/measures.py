"""Numbers that a spectrum is summed up by: ranks by energy, stable rank, tail."""

import numpy as np
from jaxtyping import Float, Int

Array = np.ndarray


def rank_of(sigma: Float[Array, "*many m"], share: float) -> Int[Array, " *many"]:
    """The least r with Σ_{k <= r} σ_k² >= share · Σ_k σ_k²; 0 for a spectrum of zeros."""
    energy = np.square(sigma.astype(float))
    # from the tail upwards, where small terms are not lost beside the large ones
    beyond = np.flip(np.flip(energy, -1).cumsum(-1), -1)
    whole = beyond[..., :1]
    return np.asarray((beyond > (1 - share) * whole).sum(-1))


def stable_rank(sigma: Float[Array, "*many m"]) -> Float[Array, " *many"]:
    """Σ σ_k² / σ_1²; 0 for a spectrum of zeros."""
    energy = np.square(sigma.astype(float))
    top = energy[..., 0]
    return np.asarray(energy.sum(-1) / np.where(top > 0, top, 1.0))


def tails(sigma: Float[Array, "*many m"]) -> Float[Array, "*many m+1"]:
    """The root of Σ_{k > r} σ_k² for r = 0, ..., m: the mean square of what a cut leaves out."""
    energy = np.square(sigma.astype(float))
    beyond = np.flip(np.flip(energy, -1).cumsum(-1), -1)
    ends = np.zeros((*beyond.shape[:-1], 1))
    return np.asarray(np.sqrt(np.concatenate([beyond, ends], -1)))
