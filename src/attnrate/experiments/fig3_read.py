"""Numbers of Fig. 3 from its results: distances between spectra, tails beside excess errors."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from attnrate.experiments.experiment import Result, select
from attnrate.spectra.measures import tails
from attnrate.statistics import Interval, mean, slope

#: Fig. 3(b) of the paper: m_h^-0.27 + 1.05
PAPER_EXPONENT, PAPER_CONSTANT = 0.27, 1.05
#: Singular values below this share of the largest are the rounding of the arithmetic, and would
#: stretch an axis over empty decades
ROUNDING = 1e-6
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


def untrained(one: Result) -> list[list[float]]:
    """For `distances`: the spectrum before training, which is of all images."""
    return [one.values["spectra"]["untrained_last"]]


def slopes(
    found: Mapping[int, Mapping[int, Sequence[float]]], larger_half: bool = False
) -> Interval:
    """The exponent of distances as a power of m_h: one a seed, and the mean over seeds.

    Distances of one seed share their models, so that only seeds count as repetitions.
    """
    values = []
    for by_size in found.values():
        sizes = sorted(by_size)
        kept = sizes[len(sizes) // 2 :] if larger_half else sizes
        if len(kept) > 1:
            far = [max(float(np.mean(by_size[m_h])), 1e-300) for m_h in kept]
            values.append(slope([float(m_h) for m_h in kept], far).value)
    return mean(values)


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


def predictions(done: Sequence[Result]) -> dict[int, dict[int, tuple[float, float]]]:
    """By seed and smaller m_h: the largest model's energy beyond m_h and the excess of the loss.

    The energy is a share, the mean over all heads, with the rows' means, which softmax does not
    see, taken out.
    """
    found: dict[int, dict[int, tuple[float, float]]] = {}
    for seed in sorted({one.label["seed"] for one in done}):
        ours = sorted(select(done, seed=seed), key=lambda one: one.label["m_h"])
        largest = ours[-1]
        heads = np.array(largest.values["spectra"]["gauged"])
        shares = np.square(tails(heads) / np.maximum(tails(heads)[..., :1], 1e-300))
        found[seed] = {
            one.label["m_h"]: (
                float(shares[..., one.label["m_h"]].mean()),
                float(one.values["train_loss"] - largest.values["train_loss"]),
            )
            for one in ours[:-1]
        }
    return found


def foretold(pairs: Sequence[tuple[float, float]]) -> float:
    """How much of the excess the energy tells, where excess = κ · energy: at most 1.

    κ comes from the other head sizes and so does the mean excess, which is what one would guess
    without a spectrum: 1 - Σ (excess - κ energy)² / Σ (excess - mean)². NaN for fewer than three.
    """
    energy, excess = np.array(pairs, dtype=float).reshape(-1, 2).T
    if len(energy) < 3:
        return math.nan
    wrong = guessed = 0.0
    for left_out in range(len(energy)):
        kept = np.arange(len(energy)) != left_out
        size = float(energy[kept] @ energy[kept])
        factor = float(energy[kept] @ excess[kept]) / size if size else 0.0
        wrong += float(excess[left_out] - factor * energy[left_out]) ** 2
        guessed += float(excess[left_out] - excess[kept].mean()) ** 2
    return 1 - wrong / guessed if guessed else math.nan
