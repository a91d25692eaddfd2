"""Comparing two profiles head by head: which heads gained or lost rank, with intervals over inputs.

The rank of a head is a whole number for each input. What is compared is its mean over inputs:
differences input by input where both profiles have the same inputs, else those of two samples. A
change of less than half a dimension rounds to none. So a head has gained or lost rank if the claim
that the mean changes by at most half a dimension is given up. With a thousand heads some claims
would be given up by chance: Benjamini and Hochberg's rule bounds the share of these.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float

from attnrate.errors import InputError
from attnrate.settings import by, checked
from attnrate.spectra.comparison import RATE, Change, Comparison, HeadChange, Measured
from attnrate.spectra.matching import LayerPairs, Match, Pair, matched
from attnrate.spectra.measures import SHARES, rank_of, stable_rank, tails
from attnrate.spectra.result import Profile
from attnrate.statistics import Difference, difference, false_discovery, paired_difference
from attnrate.words import Gauge

Array = np.ndarray
#: A mean change of the rank below this rounds to none
_ROUNDS_TO_NONE = 0.5
#: A rank whose change lies within this is the same: no dimension more or fewer
_ONE_DIMENSION = 1.0
#: The step in which a measure is counted: ranks are whole numbers
_STEPS = {"rank99": 1.0, "rank999": 1.0, "stable_rank": 0.0, "tail": 0.0}


def _require_profile(name: str, value: object) -> Profile:
    if not isinstance(value, Profile):
        what = f"{name} must be a profile"
        raise InputError(what, type(value).__name__, "Pass what profile() returned.")
    return value


AProfile = Annotated[Profile, by(_require_profile)]


@checked
def compare(
    before: AProfile,
    after: AProfile,
    *,
    layers: LayerPairs | None = None,
    match: Match = "name",
) -> Comparison:
    """Compare two profiles: which heads gained rank, which lost rank, and by how much.

    The models are one before and after fine-tuning, a base and what was distilled from it, or two
    checkpoints. Their profiles are best made on the same inputs: differences are then taken input
    by input, and the intervals are narrower.

    Args:
        before: The profile of the first model.
        after: The profile of the second model.
        layers: Which layers belong together where their names differ: numbers or names of layers
            after, each with that of the layer before. Other layers are not compared.
        match: "name" compares layers of one name. "depth" compares each layer after with the layer
            before at the same relative depth, among those of its part and kind.

    Returns:
        Every head that both have, with its ranks, stable rank and tail before and after, the
        changes with their 95 % intervals over inputs, and a verdict: gained, lost, same or open.
        docs/profile.md, "Comparing two models", has the rule.

    Raises:
        InputError: No layers can be compared, or the profiles differ in their gauge.

    Examples:
        >>> import torch
        >>> model = ar.Transformer(4, 1, n=8, m_h=4, heads=2)
        >>> for part in (model.W_Q, model.W_K):
        ...     _ = torch.nn.init.orthogonal_(part.weight)
        >>> inputs = torch.randn(8, 32, 4)
        >>> before = ar.profile(model, inputs)
        >>> _ = model.W_Q.weight.data[:3].zero_()  # three of four dimensions of head 0
        >>> found = ar.compare(before, ar.profile(model, inputs))
        >>> found.counts["lost"], found.head(layer=0, head=0).verdict
        (1, 'lost')

    """
    if before.gauge != after.gauge:
        raise InputError(
            "the gauge of both profiles must be the same",
            (before.gauge, after.gauge),
            "Profile both with one gauge.",
        )
    pairs, unmatched = matched(before, after, layers, match)
    paired = all(np.array_equal(one.tokens, two.tokens) for one, two in pairs)
    found = [each for pair in pairs for each in _heads(pair, before.gauge, paired)]
    adjusted = false_discovery([each.chance for each in found])
    heads = tuple(each.with_verdict(q) for each, q in zip(found, adjusted, strict=True))
    return Comparison(before, after, heads, tuple(unmatched), paired)


@dataclass(frozen=True)
class _Head:
    """A head before the verdict, which rests on all heads."""

    layers: Pair
    head: int
    measured: dict[str, Measured]
    chance: float

    def with_verdict(self, adjusted: float) -> HeadChange:
        """The head with its verdict; `adjusted` is its p-value, adjusted for all heads."""
        old, new = self.layers
        return HeadChange(
            layer=new.number,
            name=new.name,
            name_before=old.name,
            head=self.head,
            m_h_before=old.m_h,
            m_h=new.m_h,
            **self.measured,
            chance=self.chance,
            adjusted=adjusted,
            verdict=_verdict(self.measured["rank99"], adjusted),
        )


def _verdict(rank: Measured, adjusted: float) -> Change:
    change = rank.change
    if adjusted <= RATE:
        return "gained" if change.value > 0 else "lost"
    within = change.low >= -_ONE_DIMENSION and change.high <= _ONE_DIMENSION
    return "same" if within else "open"


def _heads(pair: Pair, gauge: Gauge, paired: bool) -> list[_Head]:
    """The heads of two layers, measured and tested."""
    sigmas = [layer.sigma["logits", gauge] for layer in pair]
    pooled = [layer.pooled["logits", gauge] for layer in pair]
    # the size of a head that keeps 99 % of the energy before
    size = rank_of(pooled[0], SHARES[0])
    ways: dict[str, Callable[[Array], Array]] = {
        "rank99": lambda sigma: rank_of(sigma, SHARES[0]),
        "rank999": lambda sigma: rank_of(sigma, SHARES[1]),
        "stable_rank": stable_rank,
        "tail": lambda sigma: _tail(sigma, size),
    }
    values = {name: [way(each) for each in (*pooled, *sigmas)] for name, way in ways.items()}
    found = []
    for head in range(pair[1].heads):
        measured: dict[str, Measured] = {}
        tested: dict[str, Difference] = {}
        for name, (one, two, *inputs) in values.items():
            old, new = (each[:, head].astype(float) for each in inputs)
            tested[name] = _difference(old, new, _STEPS[name], paired)
            ends = float(one[head]), float(two[head])
            measured[name] = Measured(*ends, old, new, tested[name].interval)
        found.append(_Head(pair, head, measured, tested["rank99"].chance(_ROUNDS_TO_NONE)))
    return found


def _difference(
    before: Float[Array, " n"], after: Float[Array, " m"], step: float, paired: bool
) -> Difference:
    way = paired_difference if paired else difference
    return way(before.tolist(), after.tolist(), step)


def _tail(sigma: Float[Array, "*many heads m"], size: Sequence[int] | Array) -> Array:
    """The tail of each head's spectrum beyond the head's own size."""
    most = np.minimum(np.asarray(size), sigma.shape[-1])
    beyond = tails(sigma)
    places = np.broadcast_to(most[..., None], (*beyond.shape[:-1], 1))
    return np.asarray(np.take_along_axis(beyond, places, -1)[..., 0])
