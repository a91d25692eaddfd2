"""A model's heads cut to smaller sizes: from inputs to thin weights, with what was measured.

The closed forms differ little, and which is best differs from model to model. So all are computed,
each layer's and the whole model's change is measured on some of the inputs, and the best is taken;
the record says which.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from attnrate.compress.content import Factors, content, require_size
from attnrate.compress.distil import distil
from attnrate.compress.fold import ThinLayer, fold
from attnrate.compress.held import Held
from attnrate.compress.held import joined as held_joined
from attnrate.compress.how_far import LOOKING, At, looking, one_by_one, unseen, within
from attnrate.compress.moments import OBJECTIVES, Moments, Objective
from attnrate.compress.moments import joined as moments_joined
from attnrate.compress.projections import Found, Refusal, find
from attnrate.compress.repair import Repaired, output_error, repair
from attnrate.compress.resume import NOWHERE, Repairs
from attnrate.compress.values import ValueFactors, value_cut
from attnrate.errors import InputError
from attnrate.spectra import batches
from attnrate.spectra.batches import Batch
from attnrate.spectra.capture import Call, Site
from attnrate.spectra.check import output_of
from attnrate.spectra.cut import kept_tokens, run_cut
from attnrate.spectra.watching.watcher import Watcher

Tensor = torch.Tensor
_TRIED = 8  # inputs on which closed forms are compared
_AT_ONCE = 8  # layers whose calls on all inputs are kept in memory
PER_LAYER = "per layer"


@dataclass(frozen=True)
class Calibration:
    """What is known of a model's layers from calibration inputs.

    Attributes:
        watcher: The model.
        given: The inputs.
        found: Where its layers make queries, keys, values and outputs.
        held: The calls of each layer that are kept, by the layer's name.
        moments: The moments of each layer over all inputs.
        is_whole: Whether the calls are kept on all inputs; otherwise on those tried first.

    """

    watcher: Watcher
    given: Sequence[Batch]
    found: Found
    held: Mapping[str, Held]
    moments: Mapping[str, Moments]
    is_whole: bool = True


@dataclass(frozen=True)
class Choice:
    """Cuts by closed forms, chosen by measurement.

    Attributes:
        factors: The cut of each layer, by its name.
        objectives: The objective from which each layer's cut is.
        rule: "per layer" where each layer has that with the least error of its own, else the one
            objective of all layers.
        changes: The relative change of the model's output on the inputs tried, by rule.
        errors: The relative change of each layer's own output on the inputs tried.

    """

    factors: Mapping[str, Factors]
    objectives: Mapping[str, str]
    rule: str
    changes: Mapping[str, float]
    errors: Mapping[str, float]


@dataclass(frozen=True)
class LayerCut:
    """What became of a layer.

    Attributes:
        name: Its name.
        size: The size of queries and keys.
        value_size: The size of values.
        objective: The objective of its closed form; None where only values are cut.
        before: The relative change of its output by the cut of queries and keys: on inputs held
            out from the repair, or without one on those by which it was chosen; None where only
            values are cut.
        after: The same after its repair; None without one.

    """

    name: str
    size: int
    value_size: int
    objective: str | None
    before: float | None = None
    after: float | None = None


@dataclass(frozen=True)
class CutModel:
    """A model with smaller heads.

    Attributes:
        model: The module, called as the original is.
        layers: What became of each layer.
        choice: How the closed forms were chosen.
        factors: The cut of queries and keys of each layer, after all repair.
        refused: The layers that could not be cut, each with its reason.
        closed: What the layers were by closed forms alone, before all repair.
        outputs: The path of the part that takes what the heads of a layer give, by its name.
        distilled: The relative change of the model's output on inputs held out, before and after
            all layers were repaired together; None without that.

    """

    model: nn.Module = field(repr=False)
    layers: tuple[LayerCut, ...]
    choice: Choice
    factors: Mapping[str, Factors] = field(repr=False)
    refused: tuple[Refusal, ...]
    closed: Mapping[str, ThinLayer] = field(repr=False)
    outputs: Mapping[str, str] = field(repr=False)
    distilled: tuple[float, float] | None = None


def calibrate(
    model: nn.Module, given: Sequence[Batch], at_once: int | None = None, at: At = unseen
) -> Calibration:
    """Run a model on calibration inputs once and keep what cuts of its layers need.

    Args:
        model: The model.
        given: The inputs. The calls of all layers on them are kept in memory.
        at_once: Of models with more layers than this, only the calls on a few inputs are kept;
            None for no such limit.
        at: Where progress is shown.

    Returns:
        Projections, moments and calls of its attention layers.

    Raises:
        InputError: No layer of the model can be cut.

    """
    watcher = Watcher(model)
    found = find(watcher, given[0])
    if not found.projections:
        why = "; ".join(f"{each.name}: {each.reason}" for each in found.refused[:3])
        raise InputError("no attention layer of this model can be cut", why or "it has none")
    held: dict[str, list[Held]] = {}
    moments: dict[str, list[Moments]] = {}
    is_whole = at_once is None or len(found.projections) <= at_once
    W_O = {name: own.output.weight for name, own in found.projections.items()}
    tried = _places(given, _TRIED)
    for number, batch in enumerate(one_by_one(given, LOOKING, at)):
        few = None if is_whole else [i for b, i in tried if b == number]

        def see(site: Site, call: Call, batch: Batch = batch, few: list[int] | None = few) -> None:
            if site.name in found.projections:
                one = Held.of(call, kept_tokens(site, call, batch))
                if few is None or few:
                    some = one if few is None else one.pick(_rows(few, one.inputs, batch))
                    held.setdefault(site.name, []).append(some)
                moments.setdefault(site.name, []).append(Moments.of(one, W_O[site.name]))

        watcher.see(batch, see)
    return Calibration(
        watcher,
        given,
        found,
        {name: held_joined(calls) for name, calls in held.items()},
        {name: moments_joined(parts) for name, parts in moments.items()},
        is_whole,
    )


def calls_of(known: Calibration, names: Sequence[str], at: At = unseen) -> dict[str, Held]:
    """The calls of some layers on all inputs; the model runs again where they were not kept."""
    if known.is_whole:
        return {name: known.held[name] for name in names}
    held: dict[str, list[Held]] = {}
    for batch in one_by_one(known.given, LOOKING, at):

        def see(site: Site, call: Call, batch: Batch = batch) -> None:
            if site.name in names:
                one = Held.of(call, kept_tokens(site, call, batch))
                held.setdefault(site.name, []).append(one)

        known.watcher.see(batch, see)
    return {name: held_joined(calls) for name, calls in held.items()}


def choose(known: Calibration, sizes: Mapping[str, int], at: At = unseen) -> Choice:
    """Cut queries and keys by every closed form, and take what changes the model least.

    Args:
        known: What is known of the model.
        sizes: The new head size of each layer, by its name.
        at: Where progress is shown.

    Returns:
        The cuts, and what was measured.

    """
    forms: dict[str, dict[Objective, Factors]] = {}
    errors: dict[str, dict[Objective, float]] = {}
    for name, size in one_by_one([*sizes.items()], "closed forms: layer", at):
        forms[name], errors[name] = closed_forms(known, name, size)
    best = {name: min(own, key=lambda o: (own[o], o)) for name, own in errors.items()}
    rules: dict[str, dict[str, Objective]] = {o: dict.fromkeys(sizes, o) for o in OBJECTIVES}
    rules[PER_LAYER] = best
    cuts = {
        rule: {name: forms[name][o] for name, o in chosen.items()} for rule, chosen in rules.items()
    }
    tried = one_by_one(some(known.given, _TRIED), "comparing closed forms: batch", at)
    changes = changes_of(known.watcher, tried, cuts)
    rule = min(changes, key=lambda each: changes[each])
    felt = {name: errors[name][o] for name, o in rules[rule].items()}
    return Choice(cuts[rule], rules[rule], rule, changes, felt)


def closed_forms(
    known: Calibration, name: str, size: int
) -> tuple[dict[Objective, Factors], dict[Objective, float]]:
    """Cut a layer's queries and keys by every closed form.

    Args:
        known: What is known of the model.
        name: The name of the layer.
        size: The new head size.

    Returns:
        The cuts by their objectives, and the relative change of the layer's own output by each.

    """
    own = {o: content(known.moments[name], o, size) for o in OBJECTIVES}
    tried = known.held[name].pick(_spaced(known.held[name].inputs, _TRIED))
    W_O = known.found.projections[name].output.weight
    return own, dict(zip(own, output_error(tried, W_O, [*own.values()]), strict=True))


def changes_of(
    watcher: Watcher, given: Iterable[Batch], cuts: Mapping[str, Mapping[str, Factors]]
) -> dict[str, float]:
    """The relative change of a model's output when all layers are cut, for each of several cuts.

    Args:
        watcher: The model, which the watcher has seen at work.
        given: The inputs to measure on.
        cuts: The cuts of layers, by the names of the layers, by names of their own.

    Returns:
        The root of Σ ‖change‖² / Σ ‖output‖² for each cut.

    """
    wrong, size = dict.fromkeys(cuts, 0.0), 0.0
    edits = {
        rule: {name: each.projection() for name, each in own.items()} for rule, own in cuts.items()
    }
    for batch in given:
        with batches.at_rest(watcher.model):
            whole = output_of(batches.run(watcher.model, batch)).float()
        kept = batches.padding(batch, tuple(whole.shape[:2]))
        there = slice(None) if kept is None else kept.to(whole.device)
        size += float(whole[there].square().sum())
        for rule, edit in edits.items():
            made = output_of(run_cut(watcher, batch, edit)).float()
            wrong[rule] += float((made - whole)[there].square().sum())
    return {rule: (each / max(size, 1e-300)) ** 0.5 for rule, each in wrong.items()}


def cut(
    model: nn.Module,
    inputs: Sequence[Batch],
    sizes: int | Mapping[str, int],
    value_sizes: int | Mapping[str, int] | None = None,
    steps: int = 0,
    together: int = 0,
    seed: int = 0,
    known: Calibration | None = None,
    at: At = unseen,
    kept: Repairs = NOWHERE,
) -> CutModel:
    """Cut a model's heads to smaller sizes.

    Args:
        model: The model, which stays as it is.
        inputs: Calibration inputs, as batches.
        sizes: The new size of queries and keys, for all layers or by their names.
        value_sizes: The new size of values; None leaves values as they are.
        steps: The number of steps by which each layer is repaired by itself.
        together: The number of steps by which all layers are then repaired together.
        seed: The seed of both repairs.
        known: What `calibrate` has found on these inputs; None lets it look.
        at: Where progress is shown.
        kept: Where finished repairs are kept.

    Returns:
        The model with thin heads, and what was chosen and measured.

    """
    known = calibrate(model, inputs, _AT_ONCE, at) if known is None else known
    wanted = _by_layer(sizes, known)
    choice = choose(known, wanted, at)
    factors = dict(choice.factors)
    repaired: dict[str, Repaired] = {}
    if steps:
        repaired = repair_layers(known, factors, steps, seed, at, kept)
        factors = {name: each.factors for name, each in repaired.items()}
    distilled = None
    if together:
        found = known.found.projections
        done = distil(model, inputs, found, known.moments, factors, together, seed, at, kept)
        factors, distilled = dict(done.factors), (done.before, done.after)
    values = {} if value_sizes is None else _values(known, _by_layer(value_sizes, known, True))
    thin, closed = (
        {
            name: ThinLayer(own, cuts.get(name), values.get(name))
            for name, own in known.found.projections.items()
            if name in cuts or name in values
        }
        for cuts in (factors, choice.factors)
    )
    made = fold(model, thin)
    layers = []
    for name in thin:
        own, held = repaired.get(name), known.held[name]
        layers.append(
            LayerCut(
                name,
                factors[name].size if name in factors else held.key.shape[-1],
                values[name].size if name in values else held.value.shape[-1],
                choice.objectives.get(name),
                choice.errors.get(name) if own is None else own.before,
                None if own is None else own.after,
            )
        )
    outputs = {name: each.projections.output.path for name, each in thin.items()}
    refused = known.found.refused
    return CutModel(made, tuple(layers), choice, factors, refused, closed, outputs, distilled)


def repair_layers(
    known: Calibration,
    start: Mapping[str, Factors],
    steps: int,
    seed: int = 0,
    at: At = unseen,
    kept: Repairs = NOWHERE,
) -> dict[str, Repaired]:
    """Repair the cut of each layer by itself.

    Args:
        known: What is known of the model.
        start: The cuts to begin with, by the names of layers.
        steps: The number of steps for each layer.
        seed: The seed of what each step looks at.
        at: Where progress is shown.
        kept: Where finished layers are kept.

    Returns:
        The repaired cut of each layer, by its name.

    """
    done: dict[str, Repaired] = {}
    for name, cut in start.items():
        found = kept.recall(name, Repaired(cut, 0.0, 0.0, 0, 0.0).tensors())
        if found is not None:
            done[name] = Repaired.of(found)
    names = [*done, *(name for name in start if name not in done)]
    # a step takes time by the keys that queries look at; a whole layer takes no steps
    sizes = {
        n: known.held[n].key[0].numel() * (own.size < own.X.shape[1]) for n, own in start.items()
    }
    work = [sizes[name] for name in names]
    behind = [sum(work[:number]) / max(1, sum(work)) for number in range(len(work) + 1)]
    for first in range(len(done), len(names), _AT_ONCE):
        look = looking(at, behind[first], first == len(done))
        held = calls_of(known, names[first : first + _AT_ONCE], look)
        for number, name in enumerate(names[first : first + _AT_ONCE], first):
            W_O = known.found.projections[name].output.weight
            said = f"repair: layer {number + 1} of {len(names)}, "
            own_at = within(at, said, behind[number], behind[number + 1])
            done[name] = repair(
                held[name], known.moments[name], W_O, start[name], steps, seed, own_at
            )
            kept.keep(name, done[name].tensors())
    return {name: done[name] for name in start}


def _values(known: Calibration, sizes: Mapping[str, int]) -> dict[str, ValueFactors]:
    found = known.found.projections
    return {
        name: value_cut(known.moments[name], found[name].output.weight, size)
        for name, size in sizes.items()
    }


def _by_layer(
    sizes: int | Mapping[str, int], known: Calibration, values: bool = False
) -> dict[str, int]:
    """Sizes by the names of layers; an InputError for a layer that is not there or too small."""
    there = known.found.projections
    wanted = dict.fromkeys(there, sizes) if isinstance(sizes, int) else dict(sizes)
    for name, size in wanted.items():
        if name not in there:
            raise InputError("no layer of that name can be cut", name, f"There are {[*there]}.")
        own = known.held[name].value if values else known.held[name].key
        require_size(size, own.shape[-1])
    return wanted


def _spaced(count: int, most: int) -> list[int]:
    """At most so many numbers below `count`, spread evenly."""
    every = max(1, count // most)
    return [*range(0, count, every)][:most]


def some(given: Sequence[Batch], most: int) -> list[Batch]:
    """At most so many of the inputs, spread evenly over the batches."""
    own = _places(given, most)
    return [
        batches.pick(given[b], [i for c, i in own if c == b]) for b in sorted({b for b, _ in own})
    ]


def _places(given: Sequence[Batch], most: int) -> list[tuple[int, int]]:
    """The batches and numbers of at most so many inputs, spread evenly over all."""
    places = [(b, i) for b, batch in enumerate(given) for i in range(batches.size(batch))]
    return [places[i] for i in _spaced(len(places), most)]


def _rows(inputs: Sequence[int], rows: int, batch: Batch) -> list[int]:
    """The rows of a call that belong to some inputs of a batch: one each, or one a window."""
    each = max(1, rows // batches.size(batch))
    return [row for i in inputs for row in range(i * each, (i + 1) * each)]
