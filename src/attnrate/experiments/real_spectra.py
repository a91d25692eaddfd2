"""The spectra of a ViT's logits as plain values, which the experiments on CIFAR-10 keep."""

from typing import Any

import numpy as np
from jaxtyping import UInt8
from torch import nn

from attnrate.spectra.measures import rank_of
from attnrate.spectra.profile import profile
from attnrate.spectra.result import Profile
from attnrate.training.feed import normalised

_GROUPS = 8  # of test images, whose mean spectra tell how much depends on the images
_LARGEST = 16  # singular values of which every head's are kept
_BATCH = 250


def spectra_of(model: nn.Module, images: UInt8[np.ndarray, "batch 32 32 3"]) -> Profile:
    """The spectra of a model's logits on these images."""
    batches = [normalised(images[at : at + _BATCH]) for at in range(0, len(images), _BATCH)]
    return profile(model, batches, gauge="none", cut_inputs=0)


def spectra_plain(found: Profile) -> dict[str, Any]:
    """The first head of the first and of the last layer in full, all heads summed up.

    "groups" are mean spectra of disjoint sets of images, "values" quantiles over images of each
    singular value; both as the paper has them, without the gauge; "all" has such quantiles of the
    largest ones of every head. "mean" has every head's mean
    spectrum, layers by heads by m_h; "gauged" the same without what softmax cannot see.
    """
    last = found.layers[-1].number
    heads = [[(layer.number, head) for head in range(layer.heads)] for layer in found.layers]

    def means(gauge: str) -> list[Any]:
        return [
            [found.sigma(*place, gauge=gauge).mean(0).tolist() for place in row] for row in heads
        ]

    return {
        "first": _head_plain(found, 0),
        "last": _head_plain(found, last),
        "all": [
            [_quantiles(found.sigma(*place)[:, :_LARGEST], 11) for place in row] for row in heads
        ],
        "mean": means("none"),
        "gauged": means("softmax"),
        "rank99": ranks_of(found),
        "rank99_gauged": ranks_of(found, "softmax"),
    }


def untrained_plain(found: Profile) -> dict[str, Any]:
    """What is kept of a model before its training, to compare: ranks, and one mean spectrum."""
    last = found.layers[-1].number
    return {
        "untrained_rank99": ranks_of(found),
        "untrained_last": found.sigma(last, 0).mean(0).tolist(),
    }


def _head_plain(found: Profile, layer: int) -> dict[str, Any]:
    sigma = found.sigma(layer, 0).astype(float)
    ranks = rank_of(sigma, 0.99)
    return {
        "groups": [part.mean(0).tolist() for part in np.array_split(sigma, _GROUPS) if len(part)],
        "values": _quantiles(sigma, 21),
        "variation": (sigma.std(0) / np.maximum(sigma.mean(0), 1e-300)).tolist(),
        "rank99": [float(np.quantile(ranks, share)) for share in (0.05, 0.5, 0.95)],
    }


def _quantiles(sigma: np.ndarray, count: int) -> list[list[float]]:
    """Of every singular value over images, so many from the least to the largest."""
    found: list[list[float]] = np.quantile(sigma, np.linspace(0.0, 1.0, count), axis=0).T.tolist()
    return found


def ranks_of(found: Profile, gauge: str = "none") -> list[list[float]]:
    """Per layer and head the median over images of the rank that holds 99 % of the energy."""
    return [
        [
            float(np.median(rank_of(found.sigma(layer.number, head, gauge=gauge), 0.99)))
            for head in range(layer.heads)
        ]
        for layer in found.layers
    ]
