"""Numbers that sum up a spectrum: ranks by energy, stable rank, tail, law; and words for them."""

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from attnrate.theory.decay import Decay

if TYPE_CHECKING:
    import pandas as pd

Array = np.ndarray
SHARES = (0.99, 0.999)
"""The shares of the energy at which heads are cut."""


def rank_of(sigma: Float[Array, "*many m"], share: float) -> Int[Array, " *many"]:
    """The number of singular values that hold a share of the energy.

    It is the least r with Σ_{k <= r} σ_k² >= share · Σ_k σ_k².

    Args:
        sigma: Singular values, largest first, along the last axis.
        share: The share of the energy, between 0 and 1.

    Returns:
        One rank per spectrum; 0 for a spectrum of zeros.

    Examples:
        >>> import numpy as np
        >>> int(ar.rank_of(np.array([3.0, 2.0, 1.0, 0.0]), 0.9))  # 13 of 14
        2

    """
    beyond = _beyond(sigma)
    return np.asarray((beyond > (1 - share) * beyond[..., :1]).sum(-1))


def counted(number: int | float, thing: str) -> str:
    """A number with what is counted: "1 head", "2 heads", "2.5 heads"."""
    return f"{number:.12g} {thing}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    """A share in percent, to one digit after the point."""
    return f"{100 * share:.1f} %"


def share_name(share: float) -> str:
    """A share of the energy as it stands in the names of columns: "99" or "999"."""
    return f"{share * 100:g}".replace(".", "")


def rank_columns(sigma: Float[Array, " m"], kind: str = "") -> dict[str, int]:
    """The ranks of one spectrum at each of the shares, by the names of columns of a table."""
    return {f"rank{share_name(share)}{kind}": int(rank_of(sigma, share)) for share in SHARES}


def rank_words(frame: "pd.DataFrame", share: float, of: str) -> str:
    """How many dimensions hold a share of the energy, in words without a full stop.

    `frame` is a table of heads, `of` says what has the energy.
    """
    ranks = frame[f"rank{share_name(share)}"]
    if uses_all(frame, share):
        return f"{share * 100:g} % of {of} needs all dimensions of every head"
    lies = f"{share * 100:g} % of {of} lies in {counted(ranks.median(), 'dimension')}"
    if len(ranks) == 1:
        return f"{lies} in the only head"
    if ranks.min() == ranks.max():
        return f"{lies} in every head"
    return f"{lies} in the median head ({ranks.min()} to {ranks.max()})"


def uses_all(frame: "pd.DataFrame", share: float) -> bool:
    """Whether a share of the energy needs all dimensions of every head in a table of heads."""
    return bool((frame[f"rank{share_name(share)}"] == frame.m_h).all())


def law_counts(frame: "pd.DataFrame", of: str) -> str:
    """The number of heads with each law of decay, in words."""
    found = Counter(frame.law).most_common()
    counts = ", ".join(f"{'no known law' if law == 'none' else law} {n}" for law, n in found)
    return f"Laws of decay of the {len(frame)} {of}: {counts}."


def stable_rank(sigma: Float[Array, "*many m"]) -> Float[Array, " *many"]:
    """The stable rank Σ σ_k² / σ_1² of a spectrum.

    Args:
        sigma: Singular values, largest first, along the last axis.

    Returns:
        One number per spectrum, at most its rank; 0 for a spectrum of zeros.

    Examples:
        >>> import numpy as np
        >>> float(ar.stable_rank(np.array([2.0, 1.0, 1.0])))
        1.5

    """
    energy = np.square(sigma.astype(float))
    top = energy[..., 0]
    return np.asarray(energy.sum(-1) / np.where(top > 0, top, 1.0))


def tails(sigma: Float[Array, "*many m"]) -> Float[Array, "*many m+1"]:
    """The tail of a spectrum beyond each rank: the root of Σ_{k > r} σ_k² for r = 0, …, m.

    It is the root mean square of what a cut to rank r leaves out.

    Args:
        sigma: Singular values, largest first, along the last axis.

    Returns:
        m + 1 tails per spectrum; the last is 0.

    Examples:
        >>> import numpy as np
        >>> ar.tails(np.array([4.0, 3.0])).tolist()
        [5.0, 3.0, 0.0]

    """
    beyond = _beyond(sigma)
    ends = np.zeros((*beyond.shape[:-1], 1))
    return np.asarray(np.sqrt(np.concatenate([beyond, ends], -1)))


def law_columns(law: Decay) -> dict[str, Any]:
    """A law of decay, its parameter and its interval (None without one), as columns of a table."""
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
