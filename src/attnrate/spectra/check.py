"""Cutting a model for real: how its attention, its output and a metric of the user's change."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from torch import nn

from attnrate.errors import InputError, require_callable, require_none
from attnrate.figures.words import change_words
from attnrate.progress import QUIET, Progress
from attnrate.shown import Shown
from attnrate.spectra import batches
from attnrate.spectra.batches import Batch, Inputs
from attnrate.spectra.capture import Call, Site
from attnrate.spectra.cut import Projection, cutting, losses, run_cut
from attnrate.spectra.estimate import with_float64
from attnrate.spectra.inputs.given import as_batches
from attnrate.spectra.layer import LayerSpectra
from attnrate.spectra.load import ModelLike, module_of
from attnrate.spectra.measures import counted, percent
from attnrate.spectra.result import Profile
from attnrate.spectra.watching.watcher import Watcher
from attnrate.statistics import Interval, mean, paired_difference

Tensor = torch.Tensor
Judged: TypeAlias = float | Tensor | np.ndarray | Sequence[float]
"""What a metric gives: one number, or one for each input."""

Metric: TypeAlias = (
    Callable[[nn.Module, Tensor], Judged]
    | Callable[[nn.Module, dict[str, Tensor]], Judged]
    | Callable[[nn.Module, Batch], Judged]
)
"""What a user judges a model by: a function of the torch module and a batch, which runs the module.

The batch is one of those that were given to `check`, on the module's device. The function returns
one number for each input of the batch, as a tensor, an array or a list, or one number for the whole
batch.
"""


@dataclass(frozen=True, repr=False)
class MetricChange(Shown):
    """A metric of a model with its heads whole and with the heads of all layers cut at once.

    Attributes:
        before: The mean with whole heads, with its interval.
        after: The mean with heads cut, with its interval.
        change: The mean of after - before, input by input, with its interval.
        per_input: Whether the metric gave a number for each input. Else the means are over batches,
            each of which counts the same.

    Examples:
        >>> import torch
        >>> model = ar.Transformer(2, 1, n=8, m_h=4)
        >>> advice = ar.advise(ar.profile(model, torch.rand(8, 16, 2)), budget=4)
        >>> size = lambda model, batch: model(batch).abs().mean((1, 2))  # one number per input
        >>> found = advice.check(model, torch.rand(6, 16, 2), metric=size).metric
        >>> found.per_input, found.change.count, found.change.value  # whole heads were advised
        (True, 6, 0.0)

    """

    before: Interval
    after: Interval
    change: Interval
    per_input: bool

    def __str__(self) -> str:
        count = self.change.count
        batch = "1 batch" if count == 1 else f"{count} batches"
        over = counted(count, "input") if self.per_input else batch
        return (
            f"The metric goes from {self.before} to {self.after}: {change_words(self.change)}, "
            f"mean over {over}."
        )


@dataclass(frozen=True, repr=False)
class Checked(Shown):
    """What happened when a model was cut for real as advised.

    Attributes:
        weights: For each layer, cut by itself, the share of attention that moves in the head that
            loses most, with its interval over inputs.
        output: The relative change of the model's output when all layers are cut at once.
        tolerance: The share of attention that was allowed to move.
        metric: The user's metric with heads whole and cut; None if none was given.

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
    metric: MetricChange | None = None

    @property
    def kept(self) -> int:
        """The number of layers in which the loss is within the tolerance."""
        return sum(each.value <= self.tolerance for each in self.weights)

    def __str__(self) -> str:
        worst = max(self.weights, key=lambda each: each.value)
        text = (
            f"Cut for real, {self.kept} of {len(self.weights)} layers stay within "
            f"{percent(self.tolerance)}; the worst head moves {worst} of its attention. With all "
            f"layers cut at once the model's output changes by {self.output} of its size."
        )
        return text if self.metric is None else f"{text} {self.metric}"


def require_metric(name: str, value: object) -> Metric | None:
    """`value` itself, or an InputError when it is no function."""
    return None if value is None else cast(Metric, require_callable(name, value))


def check_cut(
    profile: Profile,
    sizes: Sequence[int],
    tolerance: float,
    model: ModelLike,
    inputs: Inputs,
    metric: Metric | None,
) -> Checked:
    """Cut the heads of a model that was profiled, and measure what that does.

    Args:
        profile: The profile from which the cuts are made.
        sizes: The new size of the heads of each layer.
        tolerance: The share of attention that may move.
        model: The model that was profiled.
        inputs: The inputs to measure on.
        metric: What the model is judged by, if anything.

    Returns:
        What happens to attention, to the output and to the metric.

    """
    watcher = Watcher(module_of(model))
    cut = {
        layer.name: layer.cut_to([size] * layer.heads, profile.gauge)
        for layer, size in zip(profile.layers, sizes, strict=True)
    }
    known = {layer.name: layer for layer in profile.layers}

    def same_heads(site: Site, call: Call) -> None:
        if site.name in known:
            _require_same_heads(site, known[site.name])

    given = list(batches.batches(as_batches(model, inputs)))
    with Progress("cutting heads", after=QUIET) as shown:
        watcher.see(given[0], same_heads)
        missing = sorted({*known} - {site.name for site in watcher.sites})
        require_none("the model lacks layers that were profiled", missing, _WHOLE_MODEL)
        # first, because a metric that gives no number is refused before the rest of the work
        judged = None if metric is None else _metric(watcher, given, cut, metric, shown)
        alone = losses(watcher, given, [cut], shown)[0]
        changes: list[float] = []
        for number, batch in enumerate(given, start=1):
            changes += _changes(watcher, batch, cut)
            said = f"all layers cut at once: batch {number} of {len(given)}"
            shown.at(said, number / len(given))
    moved = [alone[name].weights for name in known]
    worst = [mean(each[:, each.mean(0).argmax()].tolist()).within(0.0, 1.0) for each in moved]
    return Checked(tuple(worst), mean(changes).within(0.0, math.inf), tolerance, judged)


_WHOLE_MODEL = (
    "Pass the model that was profiled. A model with the head of its task has other names than its "
    "base: to check the one, profile that one."
)


def _metric(
    watcher: Watcher,
    given: Sequence[Batch],
    cut: dict[str, Projection],
    metric: Metric,
    shown: Progress,
) -> MetricChange:
    """The metric with heads whole and with all layers cut at once."""
    before: list[float] = []
    after: list[float] = []
    per_input = True
    for number, batch in enumerate(given, start=1):
        count = batches.size(batch)
        whole = _judged(watcher.model, metric, batch, "with whole heads")
        done: set[str] = set()
        with watcher.open(count, edit=cutting(cut, done)):
            less = _judged(watcher.model, metric, batch, "with heads cut")
        require_none(
            "the metric does not run layers that are cut",
            sorted({*cut} - done)[:5],
            "Let it run the whole model that it is given, as model(**batch).",
        )
        if len(less) != len(whole):
            said = "the metric must return as many numbers with heads cut as with whole heads"
            raise InputError(said, (len(less), len(whole)), "Return one for each input.")
        per_input = per_input and len(whole) == count
        before += whole
        after += less
        shown.at(f"metric: batch {number} of {len(given)}", number / len(given))
    change = paired_difference(before, after).interval
    return MetricChange(mean(before), mean(after), change, per_input)


def _judged(model: nn.Module, metric: Metric, batch: Batch, when: str) -> list[float]:
    """What a metric gives for a batch: one number, or one for each input."""
    placed = batches.placed(model, batch)
    device = next(iter([placed] if isinstance(placed, Tensor) else placed.values())).device
    # whoever wrote the metric knows what kind of batch it is given
    judge = cast(Callable[[nn.Module, Batch], Judged], metric)
    with batches.at_rest(model), batches.same_random_numbers(device):
        found = judge(model, placed)
    count = batches.size(batch)
    wanted = f"the metric must return a number, or one for each of the {count} inputs of a batch"
    try:
        values = torch.as_tensor(cast(Any, found)).detach().cpu()
    except (TypeError, ValueError, RuntimeError):
        what = f"{wanted}; {when} it returned {{value}}"
        raise InputError(what, found, "Return a float or a tensor.") from None
    if values.is_complex() or tuple(values.shape) not in ((), (count,)):
        what = f"{wanted}; {when} it returned numbers of type {values.dtype} and shape {{value}}"
        raise InputError(what, tuple(values.shape), "Take their mean over tokens, for example.")
    numbers: list[float] = values.double().reshape(-1).tolist()
    bad = [each for each in numbers if not math.isfinite(each)]
    require_none(f"the metric is not finite {when}", bad[:5], "Leave out inputs without a value.")
    return numbers


def _changes(watcher: Watcher, batch: Batch, cut: dict[str, Projection]) -> list[float]:
    """The relative change of the model's output for each input when all layers are cut at once."""
    with batches.at_rest(watcher.model):
        before = output_of(batches.run(watcher.model, batch))
    after = output_of(run_cut(watcher, batch, cut))
    kept = batches.padding(watcher.model, batch, tuple(before.shape[:2]))
    found = []
    # one input after another: the outputs of a language model are large
    for number, (one, two) in enumerate(zip(before, after, strict=True)):
        if kept is not None:
            tokens = kept[number].to(one.device)
            one, two = one[tokens], two[tokens]
        one, two = with_float64(one).double(), with_float64(two).double()
        found.append(float((two - one).norm() / one.norm().clamp(min=1e-300)))
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


def output_of(given: Any) -> Tensor:
    """The first output of a model that has one row per input, unlike a loss."""
    if isinstance(given, Tensor):
        return given
    parts = given.values() if isinstance(given, Mapping) else given
    for part in parts:
        if isinstance(part, Tensor) and part.is_floating_point() and part.dim() >= 2:
            return part
    raise InputError("the model gives nothing that could be compared", type(given).__name__)
