"""From spectra to head sizes: how small each layer's heads could be, and a real check of it.

A cut to rank r leaves out logits of root mean square tail(r). To first order softmax turns an error
e of the logits into a total variation of ½ E_A |e - E_A e|, E_A the mean under the attention
weights, so the loss is c · tail(r) with a factor c of the head, ½ at most if attention looks at
typical keys. c is taken from the cuts that the profile has measured, with its interval over inputs.
A head without measured cuts gets c = ½, and the advice says so.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import torch
from jaxtyping import Float

from attnrate.errors import InputError, require_none, require_whole
from attnrate.progress import QUIET, Progress
from attnrate.settings import by, checked
from attnrate.shown import Shown
from attnrate.spectra import batches
from attnrate.spectra.batches import Batch, Inputs, require_inputs
from attnrate.spectra.capture import Call, Site
from attnrate.spectra.cut import Projection, losses, run_cut
from attnrate.spectra.drawn import sizes_figure
from attnrate.spectra.layer import LayerSpectra
from attnrate.spectra.load import ModelLike, module_of, require_model
from attnrate.spectra.measures import percent, tails
from attnrate.spectra.result import Profile
from attnrate.spectra.watching.watcher import Watcher
from attnrate.statistics import Interval, mean
from attnrate.words import Gauge

if TYPE_CHECKING:
    import pandas as pd

    from attnrate.figures.drawing import Drawing

Tensor = torch.Tensor
Array = np.ndarray
TOLERANCE = 0.05
_TOKENS_PER_DIMENSION = 10


@dataclass(frozen=True)
class LayerAdvice:
    """The head size that is advised for one layer.

    Attributes:
        layer: The number of the layer.
        name: The path of the layer within the model.
        m_h: The head size as it is.
        size: The advised head size: the least at which the upper end of the interval of the
            predicted loss is within the tolerance.
        low: The least head size at which the lower end of that interval is within the tolerance.
        predicted: The predicted loss at `size`, of the head that loses most.
        predicted_high: The upper end of its interval.

    Examples:
        >>> import torch
        >>> found = ar.profile(ar.Transformer(2, 1, n=8, m_h=4), torch.rand(8, 16, 2))
        >>> first = ar.advise(found, tolerance=0.5).layers[0]
        >>> (first.layer, first.name, first.m_h, first.size)
        (0, 'last', 4, 1)

    """

    layer: int
    name: str
    m_h: int
    size: int
    low: int
    predicted: float
    predicted_high: float


@dataclass(frozen=True, repr=False)
class Checked(Shown):
    """What happened when a model was cut for real as advised.

    Attributes:
        weights: For each layer, cut by itself, the share of attention that moves in the head that
            loses most, with its interval over inputs.
        output: The relative change of the model's output when all layers are cut at once.
        tolerance: The share of attention that was allowed to move.

    Examples:
        >>> import torch
        >>> model = ar.Transformer(2, 1, n=8, m_h=4)
        >>> advice = ar.advise(ar.profile(model, torch.rand(8, 16, 2)), tolerance=0.5)
        >>> checked = advice.check(model, torch.rand(4, 16, 2))
        >>> checked.kept
        1

    """

    weights: tuple[Interval, ...]
    output: Interval
    tolerance: float

    @property
    def kept(self) -> int:
        """The number of layers in which the loss is within the tolerance."""
        return sum(each.value <= self.tolerance for each in self.weights)

    def __str__(self) -> str:
        worst = max(self.weights, key=lambda each: each.value)
        return (
            f"Cut for real, {self.kept} of {len(self.weights)} layers stay within "
            f"{percent(self.tolerance)}; the worst head moves {worst} of its attention. With all "
            f"layers cut at once the model's output changes by {self.output} of its size."
        )


@dataclass(frozen=True, repr=False)
class Advice(Shown):
    """How small the heads of each layer could be; `advise` makes it from a profile.

    Attributes:
        model: The name of the model.
        tolerance: The share of any head's attention that the smaller heads may move.
        budget: The largest sum of head sizes over layers, if one was given.
        layers: The head size of each layer.
        measured: Whether the profile has measured a cut of every head. The loss of a head without
            one is estimated as ½ · tail(r), half of the root mean square of the logits that a cut
            to rank r leaves out.
        rotary: Whether some layer has a rotary embedding. Its heads cannot be cut out of the
            weights.
        profile: The profile that the advice is made from.

    Examples:
        >>> import torch
        >>> model = ar.Transformer(2, 1, n=8, m_h=4)
        >>> found = ar.profile(model, torch.rand(8, 16, 2), name="mine")
        >>> advice = ar.advise(found, tolerance=0.5)
        >>> print(str(advice).splitlines()[0])
        mine: heads of size 1 (layer by layer, now 4) would move at most 50.0 % of any head's
        attention: 1 of 4 dimensions.
        >>> advice.to_frame()[["layer", "m_h", "size"]].to_dict("records")
        [{'layer': 0, 'm_h': 4, 'size': 1}]

    """

    model: str
    tolerance: float
    budget: int | None
    layers: tuple[LayerAdvice, ...]
    measured: bool
    rotary: bool
    profile: Profile

    @property
    def total(self) -> int:
        """The sum of the advised head sizes over layers."""
        return sum(layer.size for layer in self.layers)

    def to_frame(self) -> "pd.DataFrame":
        """The advice as a table with one row per layer.

        Returns:
            A pandas DataFrame with the fields of `LayerAdvice` as columns.

        """
        import pandas as pd

        return pd.DataFrame([vars(layer) for layer in self.layers])

    def plot(self) -> "Drawing":
        """Draw the head sizes of each layer, as they are and as advised.

        Returns:
            A matplotlib figure that notebooks show.

        """
        from attnrate.figures.draw import draw

        return draw(sizes_figure(self))

    def _table(self) -> "pd.DataFrame":
        return self.to_frame()

    def _figure(self) -> "Drawing":
        return self.plot()

    @checked
    def check(
        self,
        model: Annotated[ModelLike, by(require_model)],
        inputs: Annotated[Inputs, by(require_inputs)],
    ) -> Checked:
        """Cut the heads of a model as advised, and measure what that does.

        The model itself is not changed: its queries are cut while it runs.

        Args:
            model: The model that was profiled.
            inputs: Inputs as `profile` takes them, best such that the profile has not seen.

        Returns:
            How much attention moves in each layer, and how much the model's output changes.

        Raises:
            InputError: The model lacks layers that were profiled, or has heads of another number or
                size there.

        """
        watcher = Watcher(module_of(model))
        names = [layer.name for layer in self.layers]
        cut = {
            layer.name: spectra.cut_to([layer.size] * spectra.heads, self.profile.gauge)
            for layer, spectra in zip(self.layers, self.profile.layers, strict=True)
        }
        given = list(batches.batches(inputs))
        with Progress("cutting heads", after=QUIET) as shown:
            watcher.see(given[0], self._same_heads)
            missing = {*names} - {site.name for site in watcher.sites}
            require_none("the model lacks layers that were profiled", sorted(missing))
            alone = losses(watcher, given, [cut], shown)[0]
            changes: list[float] = []
            for number, batch in enumerate(given, start=1):
                changes += _changes(watcher, batch, cut)
                said = f"all layers cut at once: batch {number} of {len(given)}"
                shown.at(said, number / len(given))
        moved = [alone[name].weights for name in names]
        worst = [mean(each[:, each.mean(0).argmax()].tolist()).within(0.0, 1.0) for each in moved]
        return Checked(tuple(worst), mean(changes).within(0.0, math.inf), self.tolerance)

    def _same_heads(self, site: Site, call: Call) -> None:
        """Raise an InputError if a profiled layer has other heads than those that were profiled."""
        known = {spectra.name: spectra for spectra in self.profile.layers}
        if site.name in known:
            _require_same_heads(site, known[site.name])

    def __str__(self) -> str:
        before = sum(layer.m_h for layer in self.layers)
        sizes = ", ".join(str(layer.size) for layer in self.layers)
        now = " and ".join(map(str, sorted({layer.m_h for layer in self.layers})))
        least = sum(layer.low for layer in self.layers)
        fewer = f"; it could be as few as {least}" if least < self.total else ""
        asked = "" if self.budget is None else f"within a budget of {self.budget} "
        lines = [
            f"{self.model}: {asked}heads of size {sizes} (layer by layer, now {now}) would move at "
            f"most {percent(self.tolerance)} of any head's attention: {self.total} of {before} "
            f"dimensions{fewer}."
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
                "No cut was measured in some heads. Their loss is estimated as half of the root "
                "mean square of the logits that are cut off (docs/profile.md, 'Advice')."
            )
        if self.rotary:
            lines.append(
                "Behind a rotary embedding this is what the logits need; to get it, train with "
                "smaller heads: it cannot be cut out of the weights."
            )
        return "\n".join(lines)


def _changes(watcher: Watcher, batch: Batch, cut: dict[str, Projection]) -> list[float]:
    """The relative change of the model's output for each input when all layers are cut at once."""
    with batches.at_rest(watcher.model):
        before = _output(batches.run(watcher.model, batch))
    after = _output(run_cut(watcher, batch, cut))
    kept = batches.padding(batch, tuple(before.shape[:2]))
    found = []
    # one input after another: the outputs of a language model are large
    for number, (one, two) in enumerate(zip(before, after, strict=True)):
        if kept is not None:
            tokens = kept[number].to(one.device)
            one, two = one[tokens], two[tokens]
        size = one.double().norm().clamp(min=1e-300)
        found.append(float((two.double() - one.double()).norm() / size))
    return found


def _require_same_heads(site: Site, spectra: LayerSpectra) -> None:
    """Raise an InputError unless a layer of a model has the heads that were profiled."""
    found, profiled = (site.heads, site.m_h), (spectra.heads, spectra.m_h)
    if found != profiled:
        raise InputError(
            f"{site.name} must have the heads that were profiled, {profiled[0]} of size "
            f"{profiled[1]}; their number and size",
            found,
            "Pass the model that was profiled.",
        )


def _require_profile(name: str, value: object) -> Profile:
    if not isinstance(value, Profile):
        raise InputError("advise needs a profile", type(value).__name__, "Call profile first.")
    return value


def _require_budget(name: str, value: object) -> int | None:
    return None if value is None else require_whole(name, value, 1)


def _require_tolerance(name: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise InputError(f"{name} must be a share between 0 and 1", value, "Pass e.g. 0.05.")
    return float(value)


@checked
def advise(
    profile: Annotated[Profile, by(_require_profile)],
    budget: Annotated[int | None, by(_require_budget)] = None,
    *,
    tolerance: Annotated[float | None, by(_require_tolerance)] = None,
) -> Advice:
    """Say how small the heads of each layer could be.

    The loss of a head is the share of its attention that a cut moves: the total variation of its
    attention weights, mean over queries and inputs. The size of a layer is that of the head which
    needs most. It is the least size whose predicted loss, at the upper end of its interval, is
    within the tolerance.

    Args:
        profile: What `profile` returned.
        budget: The largest sum of head sizes over layers. The advice is then the sizes within the
            budget whose worst loss is least.
        tolerance: The share of any head's attention that may move, between 0 and 1; 0.05 by
            default. Only one of `budget` and `tolerance` can be given.

    Returns:
        The head sizes with their predicted losses; `check` cuts a model as advised.

    Raises:
        InputError: Both goals were given, or the budget is less than one dimension per layer.

    Examples:
        >>> import torch
        >>> model = ar.Transformer(2, 1, n=8, m_h=4, layers=2)
        >>> found = ar.profile(model, torch.rand(8, 16, 2))
        >>> ar.advise(found, budget=3).total
        3

    """
    asked, chosen = goal(budget, tolerance)
    predicted = _as_run(profile, [_predicted(layer, profile.gauge) for layer in profile.layers])
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
    """The budget, if one is given, and the tolerance; an InputError when both are given."""
    if budget is not None and tolerance is not None:
        raise InputError(
            "only one of budget and tolerance can be given", (budget, tolerance), "Leave one out."
        )
    share = _require_tolerance("tolerance", tolerance)
    return _require_budget("budget", budget), TOLERANCE if share is None else share


_Curves = tuple[Float[Array, " sizes"], Float[Array, " sizes"], Float[Array, " sizes"]]


def _predicted(layer: LayerSpectra, gauge: Gauge) -> tuple[_Curves, bool]:
    """The predicted loss of the worst head for sizes 0, ..., m_h.

    Returns the lower end, the value and the upper end of the loss, each (m_h + 1,), and whether
    cuts of all heads were measured.
    """
    tail = tails(layer.pooled["logits", gauge])
    factors = [_factor(layer, head) for head in range(layer.heads)]
    ends = [np.array([getattr(each, end) for each in factors]) for end in ("low", "value", "high")]
    # No more than all of the attention can move.
    low, value, high = (np.minimum(end[:, None] * tail, 1.0).max(0) for end in ends)
    return (low, value, high), all(each.count > 0 for each in factors)


def _as_run(profile: Profile, predicted: list[tuple[_Curves, bool]]) -> list[tuple[_Curves, bool]]:
    """The predictions, the worst of its runs for a module that runs several times in a pass.

    Its weights are there once, so its heads have one size.
    """
    runs: dict[str, list[int]] = {}
    for place, layer in enumerate(profile.layers):
        runs.setdefault(layer.name.split("#")[0], []).append(place)
    found = list(predicted)
    for places in runs.values():
        ends = zip(*(predicted[place][0] for place in places), strict=True)
        low, value, high = (np.maximum.reduce(curves) for curves in ends)
        for place in places:
            found[place] = (low, value, high), predicted[place][1]
    return found


def _tokens(layer: LayerSpectra) -> int:
    """The number of queries or keys, whichever is smaller, that a layer's cuts are made from."""
    return int(min(layer.query.count.min(), layer.key.count.min()))


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


def _size(curve: Float[Array, " sizes"], tolerance: float) -> int:
    within = np.flatnonzero(curve <= tolerance)
    return max(1, int(within[0]))


def _least_tolerance(curves: Sequence[_Curves], budget: int) -> float:
    """The least worst loss that head sizes with this sum can have."""
    losses = np.unique(np.concatenate([high[1:] for _, _, high in curves]))
    for tolerance in losses:
        if sum(_size(high, tolerance) for _, _, high in curves) <= budget:
            return float(tolerance)
    return float(losses[-1])


def _output(given: Any) -> Tensor:
    """The first output of a model that has one row per input, unlike a loss."""
    if isinstance(given, Tensor):
        return given
    parts = given.values() if isinstance(given, Mapping) else given
    for part in parts:
        if isinstance(part, Tensor) and part.is_floating_point() and part.dim() >= 2:
            return part
    raise InputError("the model gives nothing that could be compared", type(given).__name__)
