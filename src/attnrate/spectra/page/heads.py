"""All heads of a profile as compact data, from which the page's script draws one at a time.

A singular value is kept as a whole number of 16 bits, on a logarithmic scale that all heads share:
0 for a value that is rounding, else 1 + (65534/R) log(σ/low), R the log of the largest over `low`.
That is exact to 2 in 10,000, and a head of size 64 takes 700 characters.
"""

import base64
import math
from typing import Any

import numpy as np
from jaxtyping import Float

from attnrate.figures.words import number
from attnrate.spectra.drawn import ROUNDING
from attnrate.spectra.layer import LayerSpectra
from attnrate.spectra.measures import percent
from attnrate.spectra.page.figures import law_words
from attnrate.spectra.page.layers import label_of
from attnrate.spectra.page.subject import Subject
from attnrate.spectra.result import Profile

#: The quantiles over inputs that are drawn
QUANTILES = (0.05, 0.5, 0.95)
#: Of more singular values than this, not all k are kept, so that a page stays small
MOST_VALUES = 400_000
_FEWEST = 16  # k of a head
_CODES = 65534


def heads_data(subject: Subject) -> dict[str, Any]:
    """All heads of a profile as JSON values.

    `layers` has the layers in their order, each with lists over its heads. `spectra` of a layer is
    base64 of whole numbers of 16 bits, little-endian, (4, heads, k): the pooled spectrum, then the
    quantiles over inputs. `low` and `range` are those of the scale of all numbers.
    """
    profile, advice = subject.profile, subject.advice
    largest = max(float(layer.pooled["logits", profile.gauge].max()) for layer in profile.layers)
    single = [layer.sigma["logits", profile.gauge] for layer in profile.layers]
    largest = max([largest, *(float(each.max()) for each in single)]) or 1.0
    low = ROUNDING * largest
    span = math.log(largest / low)
    total = sum(layer.heads * layer.m_h for layer in profile.layers)
    keep = min(1.0, MOST_VALUES / (total * (1 + len(QUANTILES))))
    layers: list[dict[str, Any]] = []
    before = 0
    for layer, advised in zip(profile.layers, advice.layers, strict=True):
        rows = slice(before, before + layer.heads)
        own, before = subject.heads.iloc[rows], rows.stop
        places = _places(layer.m_h, keep)
        plain = {
            "label": label_of(layer),
            "name": layer.name,
            "part": profile.parts[layer.name],
            "kind": layer.kind,
            "m_h": layer.m_h,
            "size": advised.size,
            "needed": subject.needed.iloc[rows].tolist(),
            "rank99": own.rank99.tolist(),
            "rank999": own.rank999.tolist(),
            "stable": [number(each) for each in own.stable_rank.tolist()],
            "law": [law_words(profile.decay(layer.number, head)) for head in range(layer.heads)],
            "k": places.tolist(),
            "spectra": _encoded(_spectra(layer, profile)[..., places - 1], low, span),
        }
        if "weights_loss99" in own:
            plain["moved"] = [percent(each) for each in own.weights_loss99.tolist()]
            plain["changed"] = [percent(each) for each in own.output_loss99.tolist()]
        layers.append(plain)
    return {
        "tolerance": percent(advice.tolerance),
        "inputs": len(profile.tokens),
        "low": low,
        "range": span,
        "layers": layers,
    }


def _places(size: int, keep: float) -> np.ndarray:
    """The k of a head of that size that are kept: all of them, or some that lie evenly."""
    count = size if keep >= 1 else min(size, max(_FEWEST, int(size * keep)))
    return np.unique(np.round(np.linspace(1, size, count)).astype(int))


def _spectra(layer: LayerSpectra, profile: Profile) -> Float[np.ndarray, "curves heads m_h"]:
    """The pooled spectra of a layer, and the quantiles of those of its inputs."""
    single, pooled = layer.sigma["logits", profile.gauge], layer.pooled["logits", profile.gauge]
    over = np.quantile(single.astype(float), QUANTILES, axis=0)
    return np.concatenate([pooled.astype(float)[None], over])


def _encoded(sigma: Float[np.ndarray, "..."], low: float, span: float) -> str:
    """Singular values on the scale of all heads, as base64."""
    seen = sigma > low
    codes = 1 + np.log(np.where(seen, sigma, low) / low) * (_CODES / span)
    whole = np.where(seen, np.clip(np.round(codes), 1, _CODES + 1), 0).astype("<u2")
    return base64.b64encode(whole.tobytes()).decode()
