"""Numbers of Fig. 3 from its results: distances between spectra, tails beside excess errors."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy import stats

from attnrate.experiments.experiment import Result, select
from attnrate.spectra.measures import tails
from attnrate.theory.statistics import Interval

#: Fig. 3(b) of the paper: m_h^-0.27 + 1.05
PAPER_EXPONENT, PAPER_CONSTANT = 0.27, 1.05
MEASURES = {
    "train_loss": "training loss",
    "test_loss": "test loss",
    "train_error": "training error",
    "test_error": "test error",
}


def head_sizes(results: Sequence[Result]) -> list[int]:
    """The head sizes of which there is a model."""
    return sorted({one.label["m_h"] for one in results})


def mean_spectrum(one: Result) -> np.ndarray:
    """σ of the first head of the last layer, averaged over images."""
    return np.asarray(np.mean(_groups(one), 0))


def distances(
    results: Sequence[Result], spectra: Callable[[Result], list[list[float]]] | None = None
) -> dict[int, dict[int, list[float]]]:
    """By seed and larger m_h: |σ - σ'| of successive models, one value a group of images.

    They are shares of |σ| of that seed's largest model, so that they compare over seeds. `spectra`
    are those of the groups, of trained models unless told.
    """
    of = _groups if spectra is None else spectra
    found: dict[int, dict[int, list[float]]] = {}
    for seed in sorted({one.label["seed"] for one in results}):
        ours = sorted(select(results, seed=seed), key=lambda one: one.label["m_h"])
        if len(ours) < 2:
            continue
        whole = float(np.linalg.norm(np.mean(of(ours[-1]), 0)))
        found[seed] = {}
        for one, other in itertools.pairwise(ours):
            pairs = zip(of(one), of(other), strict=False)
            apart = [_apart(np.array(a), np.array(b)) / max(whole, 1e-300) for a, b in pairs]
            found[seed][other.label["m_h"]] = apart
    return found


def by_head_size(found: Mapping[int, Mapping[int, Sequence[float]]]) -> dict[int, list[float]]:
    """Distances by the larger m_h, the mean over groups of images for every seed."""
    sizes = sorted({m_h for by_size in found.values() for m_h in by_size})
    return {
        m_h: [float(np.mean(by_size[m_h])) for by_size in found.values() if m_h in by_size]
        for m_h in sizes
    }


def untrained_distances(results: Sequence[Result]) -> dict[int, list[float]]:
    """The same before training: what there was from the beginning."""
    return by_head_size(distances(results, lambda one: [one.values["spectra"]["untrained_last"]]))


def _groups(one: Result) -> list[list[float]]:
    groups: list[list[float]] = one.values["spectra"]["last"]["groups"]
    return groups


def _apart(sigma: np.ndarray, other: np.ndarray) -> float:
    """The distance of two spectra; the shorter one goes on with zeros."""
    longer = np.zeros((2, max(len(sigma), len(other))))
    longer[0, : len(sigma)], longer[1, : len(other)] = sigma, other
    return float(np.linalg.norm(longer[0] - longer[1]))


def seeds_apart(results: Sequence[Result]) -> list[float]:
    """How far spectra of the largest model are apart over pairs of seeds, in the same measure."""
    if not results:
        return []
    sigma = [mean_spectrum(one) for one in select(results, m_h=head_sizes(results)[-1])]
    return [
        _apart(a, b) / max(float(np.linalg.norm(b)), 1e-300)
        for i, a in enumerate(sigma)
        for b in sigma[:i]
    ]


def predictions(done: Sequence[Result]) -> list[tuple[int, float, float]]:
    """For every smaller m_h, the largest model's energy beyond m_h and the excess of the loss.

    Both are of the same seed, and means over seeds, which are no more than one point a head size;
    the energy is a share, the mean over all heads, with the rows' means, which softmax does not
    see, taken out.
    """
    by_size: dict[int, list[tuple[float, float]]] = {}
    for seed in sorted({one.label["seed"] for one in done}):
        ours = sorted(select(done, seed=seed), key=lambda one: one.label["m_h"])
        largest = ours[-1]
        heads = np.array(largest.values["spectra"]["gauged"])
        shares = np.square(tails(heads) / np.maximum(tails(heads)[..., :1], 1e-300))
        for one in ours[:-1]:
            m_h = one.label["m_h"]
            excess = one.values["train_loss"] - largest.values["train_loss"]
            by_size.setdefault(m_h, []).append((float(shares[..., m_h].mean()), float(excess)))
    return [(m_h, *np.mean(by_size[m_h], 0).tolist()) for m_h in sorted(by_size)]


def correlation(x: Sequence[float], y: Sequence[float]) -> Interval:
    """Pearson's, with Fisher's interval."""
    if len(x) < 4 or len(set(x)) < 2 or len(set(y)) < 2:
        return Interval(math.nan, math.nan, math.nan, len(x))
    r = float(stats.pearsonr(x, y).statistic)
    z = math.atanh(min(max(r, -0.999999), 0.999999))
    half = 1.96 / math.sqrt(len(x) - 3)
    return Interval(r, math.tanh(z - half), math.tanh(z + half), len(x))
