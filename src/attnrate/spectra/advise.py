"""From spectra to head sizes: how small each layer's heads could be, and a real check of it.

A cut to rank r leaves out logits of root mean square tail(r). To first order softmax turns an error
e of the logits into a total variation of ½ E_A |e - E_A e|, E_A the mean under the attention
weights, so the loss is c · tail(r) with a factor c of the head, ½ at most if attention looks at
typical keys. c is taken from the cuts that the profile has measured, with its interval over inputs;
without them c = ½ stands in, and the advice says so.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float

from attnrate.errors import InputError, require_none, require_whole
from attnrate.spectra import batches
from attnrate.spectra.adapters import adapter_for
from attnrate.spectra.batches import Watched
from attnrate.spectra.cut import losses, run_cut
from attnrate.spectra.measures import tails
from attnrate.spectra.result import Gauge, LayerSpectra, Profile
from attnrate.statistics import Interval, mean

if TYPE_CHECKING:
    import pandas as pd

Tensor = torch.Tensor
Array = np.ndarray
TOLERANCE = 0.05
_TOKENS_PER_DIMENSION = 10


@dataclass(frozen=True)
class LayerAdvice:
    """A layer's head size.

    `size` is advised: the least at which the upper end of the predicted loss's interval is within
    the tolerance; `low` the least at which its lower end is. `predicted` to `predicted_high` is the
    loss, at `size`, of the head that loses most.
    """

    layer: int
    name: str
    m_h: int
    size: int
    low: int
    predicted: float
    predicted_high: float


@dataclass(frozen=True)
class Checked:
    """What happens when a model is cut as advised, for real.

    `weights` is the share of attention that moves in the head that loses most, per layer, each
    layer by itself; `output` the relative change of the model's output with all layers cut at once.
    """

    weights: tuple[Interval, ...]
    output: Interval
    tolerance: float

    @property
    def kept(self) -> int:
        """In how many layers the loss is within the tolerance."""
        return sum(each.value <= self.tolerance for each in self.weights)

    def __str__(self) -> str:
        worst = max(self.weights, key=lambda each: each.value)
        return (
            f"Cut for real, {self.kept} of {len(self.weights)} layers stay within "
            f"{self.tolerance:.1%}; the worst head moves {worst} of its attention. With all "
            f"layers cut at once the model's output changes by {self.output} of its size."
        )


@dataclass(frozen=True)
class Advice:
    """The smallest head sizes whose predicted loss is within the tolerance; `str` is a sentence."""

    model: str
    tolerance: float
    budget: int | None
    layers: tuple[LayerAdvice, ...]
    measured: bool
    rotary: bool
    profile: Profile = field(repr=False)

    @property
    def total(self) -> int:
        """The sum of head sizes over layers."""
        return sum(layer.size for layer in self.layers)

    def to_frame(self) -> "pd.DataFrame":
        """A row a layer."""
        import pandas as pd

        return pd.DataFrame([vars(layer) for layer in self.layers])

    def check(self, model: object, inputs: object) -> Checked:
        """Cut the model as advised and measure; best on inputs that the profile has not seen."""
        model = batches.require_module(model)
        adapter, found = adapter_for(model)
        known = {site.name: site for site in found}
        names = [layer.name for layer in self.layers]
        missing = [name for name in names if name not in known]
        require_none("the model lacks layers that were profiled", missing)
        watched = Watched(model, adapter, [known[name] for name in names])
        cut = {
            layer.name: spectra.cut_to([layer.size] * spectra.heads, self.profile.gauge)
            for layer, spectra in zip(self.layers, self.profile.layers, strict=True)
        }
        given = list(batches.batches(inputs))
        alone = losses(watched, given, [cut])[0]
        idle = [name for name in names if name not in alone]
        require_none("layers that were profiled do not run on these inputs", idle)
        changes: list[float] = []
        for batch in given:
            with batches.at_rest(model):
                before = _output(batches.run(model, batch))
            after = _output(run_cut(watched, batch, cut))
            kept = batches.kept(batch, watched.sites[-1].streams[0])
            if kept is None or kept.shape != before.shape[:2]:
                kept = None
            # one input after another: the outputs of a language model are large
            for number, (one, two) in enumerate(zip(before, after, strict=True)):
                if kept is not None:
                    tokens = kept[number].to(one.device)
                    one, two = one[tokens], two[tokens]
                size = one.double().norm().clamp(min=1e-300)
                changes.append(float((two.double() - one.double()).norm() / size))
        moved = [alone[name].weights for name in names]
        worst = [mean(each[:, each.mean(0).argmax()].tolist()) for each in moved]
        return Checked(tuple(worst), mean(changes), self.tolerance)

    def __str__(self) -> str:
        before = sum(layer.m_h for layer in self.layers)
        sizes = ", ".join(str(layer.size) for layer in self.layers)
        now = " and ".join(map(str, sorted({layer.m_h for layer in self.layers})))
        least = sum(layer.low for layer in self.layers)
        asked = "" if self.budget is None else f"within a budget of {self.budget} "
        lines = [
            f"{self.model}: {asked}heads of size {sizes} (layer by layer, now {now}) would move at "
            f"most {self.tolerance:.1%} of any head's attention: {self.total} of {before} "
            f"dimensions; it could be as few as {least}."
        ]
        scarce = min(self.profile.layers, key=lambda layer: _tokens(layer) / layer.m_h)
        if _tokens(scarce) < _TOKENS_PER_DIMENSION * scarce.m_h:
            lines.append(
                f"Only {_tokens(scarce)} tokens made the cuts of {scarce.name}, fewer than "
                f"{_TOKENS_PER_DIMENSION} for each of {scarce.m_h} dimensions: profile more inputs "
                "before believing this."
            )
        if not self.measured:
            lines.append(
                "Not every head has a measured cut; the factor ½ stands in for the others."
            )
        if self.rotary:
            lines.append(
                "Behind a rotary embedding this is what the logits need; to get it, train with "
                "smaller heads: it cannot be cut out of the weights."
            )
        return "\n".join(lines)


def advise(profile: object, budget: object = None, *, tolerance: object = None) -> Advice:
    """The smallest head size of each layer that keeps the loss of attention within a tolerance.

    The loss of a head is the share of its attention that a cut moves: the total variation of its
    weights, mean over queries and inputs. A layer's size suits the head that needs most. Instead of
    a tolerance (5 % by default) a `budget` may be given, the sum of head sizes over layers: then it
    is the least tolerance that the budget allows.
    """
    if not isinstance(profile, Profile):
        raise InputError("advise needs a profile", type(profile).__name__, "Call profile first.")
    asked, chosen = goal(budget, tolerance)
    predicted = [_predicted(layer, profile.gauge) for layer in profile.layers]
    curves = [each for each, _ in predicted]
    if asked is not None:
        require_whole("budget", asked, len(curves))
        chosen = _least_tolerance(curves, asked)
    rows = []
    for layer, (low, value, high) in zip(profile.layers, curves, strict=True):
        size, least = _size(high, chosen), _size(low, chosen)
        ends = float(value[size]), float(high[size])
        rows.append(LayerAdvice(layer.number, layer.name, layer.m_h, size, least, *ends))
    return Advice(
        profile.model,
        chosen,
        asked,
        tuple(rows),
        all(measured for _, measured in predicted),
        any(layer.rotary for layer in profile.layers),
        profile,
    )


def goal(budget: object, tolerance: object) -> tuple[int | None, float]:
    """A budget and a tolerance that `advise` takes, of which at most one is given."""
    if budget is not None and tolerance is not None:
        raise InputError(
            "only one of budget and tolerance can be given", (budget, tolerance), "Leave one out."
        )
    if budget is not None:
        return require_whole("budget", budget, 1), TOLERANCE
    given = TOLERANCE if tolerance is None else tolerance
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < 1:
        raise InputError("tolerance must be a share between 0 and 1", given, "Pass e.g. 0.05.")
    return None, float(given)


_Curves = tuple[Float[Array, " sizes"], Float[Array, " sizes"], Float[Array, " sizes"]]


def _predicted(layer: LayerSpectra, gauge: Gauge) -> tuple[_Curves, bool]:
    """The loss of the worst head for sizes 0, ..., m_h, and whether all heads were measured.

    The loss has its low end, value and high end, each (m_h + 1,).
    """
    tail = tails(layer.pooled["logits", gauge])
    factors = [_factor(layer, head, tail[head]) for head in range(layer.heads)]
    ends = [np.array([getattr(each, end) for each in factors]) for end in ("low", "value", "high")]
    # No more than all of the attention can move.
    low, value, high = (np.minimum(end[:, None] * tail, 1.0).max(0) for end in ends)
    return (low, value, high), all(each.count > 0 for each in factors)


def _tokens(layer: LayerSpectra) -> int:
    """From how many queries or keys, whichever are fewer, a layer's cuts are made."""
    return int(min(layer.query.count.min(), layer.key.count.min()))


def _factor(layer: LayerSpectra, head: int, tail: Float[Array, " sizes"]) -> Interval:
    """c of a head: the larger of those of its measured cuts."""
    found = []
    for ranks, loss in layer.cuts.values():
        left_out = tail[ranks[head]]
        if left_out > 0:
            found.append(mean((loss.weights[:, head] / left_out).tolist()))
    if not found:
        return Interval(0.5, 0.5, 0.5, 0)
    largest = max(found, key=lambda each: each.value)
    if math.isnan(largest.low):
        return Interval(largest.value, largest.value, largest.value, 1)
    return Interval(largest.value, max(0.0, largest.low), largest.high, largest.count)


def _size(curve: Float[Array, " sizes"], tolerance: float) -> int:
    within = np.flatnonzero(curve <= tolerance)
    return max(1, int(within[0]))


def _least_tolerance(curves: Sequence[_Curves], budget: int) -> float:
    """The least loss that head sizes with this sum can have."""
    losses = np.unique(np.concatenate([high[1:] for _, _, high in curves]))
    for tolerance in losses:
        if sum(_size(high, tolerance) for _, _, high in curves) <= budget:
            return float(tolerance)
    return float(losses[-1])


def _output(given: Any) -> Tensor:
    """The model's first output that has a row an input; a loss is none."""
    if isinstance(given, Tensor):
        return given
    parts = given.values() if isinstance(given, Mapping) else given
    for part in parts:
        if isinstance(part, Tensor) and part.is_floating_point() and part.dim() >= 2:
            return part
    raise InputError("the model gives nothing that could be compared", type(given).__name__)
