"""Ridge regression of the outputs of samples on all of their tokens, exact, in blocks."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Int64
from scipy import linalg

from attnrate.choose.contenders.linear import LinearMap
from attnrate.choose.predictor import Scales
from attnrate.choose.samples import Samples

#: Samples of which features are held in memory at once
_BLOCK = 4096
#: Ridges beside the mean eigenvalue of the covariance of the features; the first is least squares,
#: as far as float64 can tell it
_RIDGES = (1e-10, *(float(10.0**power) for power in range(-6, 3)))


@dataclass(frozen=True, eq=False)
class _Sums:
    """Second moments of the features and the outputs about means that are given."""

    xx: Float64[np.ndarray, "p p"]
    xy: Float64[np.ndarray, "p q"]


def solve(
    model: LinearMap,
    samples: Samples,
    scales: Scales,
    learned: Int64[np.ndarray, " learned"],
    watched: Int64[np.ndarray, " watched"],
) -> tuple[float, float]:
    """Set the weights of a linear map to those of the ridge that is best on the watched samples.

    The ridge is chosen with weights learned without the watched samples. Those are then joined to
    the others and solved with that ridge: unlike models that are trained, the map needs them no
    more.

    Args:
        model: The map; its weights are replaced.
        samples: The samples.
        scales: The means and standard deviations of tokens and outputs.
        learned: The numbers of the samples that are learned from.
        watched: The numbers of those that choose the ridge.

    Returns:
        The mean squared error on the watched samples, in scaled units, and the ridge.

    """
    x_mean, y_mean = _means(samples, scales, learned)
    sums = _sums(samples, scales, learned, x_mean, y_mean)
    values, vectors = linalg.eigh(sums.xx)
    values = np.maximum(values, 0.0)
    unit = float(values.mean()) or 1.0
    turned = vectors.T @ sums.xy
    errors = np.zeros(len(_RIDGES))
    weights = [vectors @ (turned / (values + r * unit)[:, None]) for r in _RIDGES]
    for x, y in _blocks(samples, scales, watched):
        for number, each in enumerate(weights):
            errors[number] += np.square((x - x_mean) @ each + y_mean - y).sum()
    best = int(np.argmin(errors))
    both = np.sort(np.concatenate([learned, watched]))
    x_mean, y_mean = _means(samples, scales, both)
    sums = _sums(samples, scales, both, x_mean, y_mean)
    ridge = _RIDGES[best] * float(np.trace(sums.xx)) / len(sums.xx) or 1.0
    found = linalg.solve(sums.xx + ridge * np.eye(len(sums.xx)), sums.xy, assume_a="pos")
    with torch.no_grad():
        model.map.weight.copy_(torch.from_numpy(found.T))
        model.map.bias.copy_(torch.from_numpy(y_mean - x_mean @ found))
    return float(errors[best]) / max(1, len(watched) * samples.places), _RIDGES[best]


Block = tuple[Float64[np.ndarray, "some p"], Float64[np.ndarray, "some q"]]


def _blocks(samples: Samples, scales: Scales, which: Int64[np.ndarray, " some"]) -> Iterator[Block]:
    """Give the scaled features and outputs of the samples, block by block."""
    for first in range(0, len(which), _BLOCK):
        part = which[first : first + _BLOCK]
        x = (samples.tokens(part) - scales.x_mean) / scales.x_scale
        y = (samples.truth(part) - scales.y_mean) / scales.y_scale
        yield x.reshape(len(part), -1), y.reshape(len(part), -1)


def _means(
    samples: Samples, scales: Scales, which: Int64[np.ndarray, " some"]
) -> tuple[Float64[np.ndarray, " p"], Float64[np.ndarray, " q"]]:
    sums = [(x.sum(0), y.sum(0)) for x, y in _blocks(samples, scales, which)]
    xs, ys = zip(*sums, strict=True)
    return np.sum(xs, axis=0) / len(which), np.sum(ys, axis=0) / len(which)


def _sums(
    samples: Samples,
    scales: Scales,
    which: Int64[np.ndarray, " some"],
    x_mean: Float64[np.ndarray, " p"],
    y_mean: Float64[np.ndarray, " q"],
) -> _Sums:
    p, q = len(x_mean), len(y_mean)
    xx, xy = np.zeros((p, p)), np.zeros((p, q))
    for x, y in _blocks(samples, scales, which):
        x -= x_mean
        xx += x.T @ x
        xy += x.T @ (y - y_mean)
    return _Sums(xx / len(which), xy / len(which))
