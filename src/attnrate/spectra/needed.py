"""How much attention each head is predicted to lose at each size, and the size that it needs.

A cut to rank r leaves out logits of root mean square tail(r), and moves c · tail(r) of the
attention. c is a factor of the head: the largest that its measured cuts give, with its interval
over inputs, or ½ without measured cuts. `advise.py` says why.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from attnrate.spectra.layer import LayerSpectra
from attnrate.spectra.measures import tails
from attnrate.spectra.result import Profile
from attnrate.statistics import Interval, mean
from attnrate.words import Gauge

Array = np.ndarray


@dataclass(frozen=True)
class Losses:
    """The predicted loss of attention at sizes 0, …, m_h, of each head or of the worst one.

    Attributes:
        low: The lower end of its interval.
        value: The predicted loss itself.
        high: The upper end of its interval.
        measured: Whether a cut of the head was measured.

    """

    low: Float[Array, "*heads sizes"]
    value: Float[Array, "*heads sizes"]
    high: Float[Array, "*heads sizes"]
    measured: Bool[Array, "*heads"]

    @property
    def worst(self) -> "Losses":
        """The largest loss of any head at each size."""
        return Losses(
            self.low.max(0), self.value.max(0), self.high.max(0), np.array(self.measured.all())
        )


def predicted(layer: LayerSpectra, gauge: Gauge) -> Losses:
    """The predicted losses of the heads of a layer, one row per head."""
    tail = tails(layer.pooled["logits", gauge])
    factors = [_factor(layer, head) for head in range(layer.heads)]
    ends = [np.array([getattr(each, end) for each in factors]) for end in ("low", "value", "high")]
    # no more than all of the attention can move
    low, value, high = (np.minimum(end[:, None] * tail, 1.0) for end in ends)
    return Losses(low, value, high, np.array([each.count > 0 for each in factors]))


def layer_losses(profile: Profile) -> list[Losses]:
    """The predicted losses of the worst head of each layer.

    Of a module that runs several times in a pass each run has the losses of the worst run: its
    weights are there once, so its heads have one size.
    """
    found = [predicted(layer, profile.gauge).worst for layer in profile.layers]
    runs: dict[str, list[Losses]] = {}
    modules = [layer.name.split("#")[0] for layer in profile.layers]
    for module, own in zip(modules, found, strict=True):
        runs.setdefault(module, []).append(own)
    together = {module: _stacked(own).worst for module, own in runs.items()}
    return [
        Losses(all_.low, all_.value, all_.high, own.measured)
        for all_, own in zip((together[module] for module in modules), found, strict=True)
    ]


def _stacked(losses: list[Losses]) -> Losses:
    """Losses of several runs, one row for each."""
    names = ("low", "value", "high", "measured")
    return Losses(*(np.stack([getattr(each, name) for each in losses]) for name in names))


def least_size(losses: Float[Array, "*heads sizes"], tolerance: float) -> Int[Array, "*heads"]:
    """The least size, from 1 on, at which a loss that falls with the size is within a tolerance."""
    return np.asarray(np.maximum(1, (losses > tolerance).sum(-1)))


def _factor(layer: LayerSpectra, head: int) -> Interval:
    """The factor c of a head: the largest that its measured cuts give, or ½ without any."""
    found = []
    for cut in layer.cuts.values():
        left_out = cut.tail[:, head]
        if left_out.min() > 0:
            found.append(mean((cut.weights[:, head] / left_out).tolist()))
    if not found:
        return Interval(0.5, 0.5, 0.5, 0)
    largest = max(found, key=lambda each: each.value)
    if math.isnan(largest.low):
        return Interval(largest.value, largest.value, largest.value, 1)
    return Interval(largest.value, max(0.0, largest.low), largest.high, largest.count)
