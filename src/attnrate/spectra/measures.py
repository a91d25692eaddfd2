"""Numbers that a spectrum is summed up by: ranks by energy, stable rank, tail, law; their words."""

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from attnrate.theory.decay import DecayFit

if TYPE_CHECKING:
    import pandas as pd

Array = np.ndarray
SHARES = (0.99, 0.999)
"""Shares of the energy at which heads are cut."""


def rank_of(sigma: Float[Array, "*many m"], share: float) -> Int[Array, " *many"]:
    """The least r with Σ_{k <= r} σ_k² >= share · Σ_k σ_k²; 0 for a spectrum of zeros."""
    beyond = _beyond(sigma)
    return np.asarray((beyond > (1 - share) * beyond[..., :1]).sum(-1))


def share_name(share: float) -> str:
    """A share of the energy as columns of tables have it: 99 or 999."""
    return f"{share * 100:g}".replace(".", "")


def rank_columns(sigma: Float[Array, " m"], kind: str = "") -> dict[str, int]:
    """The ranks of one spectrum at each of the shares, as columns of a table."""
    return {f"rank{share_name(share)}{kind}": int(rank_of(sigma, share)) for share in SHARES}


def rank_words(frame: "pd.DataFrame", share: float, of: str) -> str:
    """The ranks of a table of heads at a share of the energy `of` something, without a stop."""
    ranks = frame[f"rank{share_name(share)}"]
    return (
        f"{share * 100:g} % of {of} lies in {ranks.median():g} dimensions in the median head "
        f"({ranks.min()} to {ranks.max()})"
    )


def law_counts(frame: "pd.DataFrame", of: str) -> str:
    """How many heads of a table have which law of decay."""
    counts = ", ".join(f"{law} {count}" for law, count in Counter(frame.law).most_common())
    return f"Laws of decay of the {len(frame)} {of}: {counts}."


def stable_rank(sigma: Float[Array, "*many m"]) -> Float[Array, " *many"]:
    """Σ σ_k² / σ_1²; 0 for a spectrum of zeros."""
    energy = np.square(sigma.astype(float))
    top = energy[..., 0]
    return np.asarray(energy.sum(-1) / np.where(top > 0, top, 1.0))


def tails(sigma: Float[Array, "*many m"]) -> Float[Array, "*many m+1"]:
    """The root of Σ_{k > r} σ_k² for r = 0, ..., m: the mean square of what a cut leaves out."""
    beyond = _beyond(sigma)
    ends = np.zeros((*beyond.shape[:-1], 1))
    return np.asarray(np.sqrt(np.concatenate([beyond, ends], -1)))


def law_columns(law: DecayFit) -> dict[str, Any]:
    """A law of decay with its parameter and interval (None: it has none), as columns of a table."""
    low, high = law.interval or (None, None)
    return {
        "law": law.law,
        "law_parameter": law.alpha or law.rate or law.order or law.rank,
        "law_low": low,
        "law_high": high,
    }


def _beyond(sigma: Float[Array, "*many m"]) -> Float[Array, "*many m"]:
    """Σ_{k >= r} σ_k², summed from the tail so that small terms are not lost beside large ones."""
    energy = np.square(sigma.astype(float))
    return np.flip(np.flip(energy, -1).cumsum(-1), -1)
