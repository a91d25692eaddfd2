"""A model's heads cut to smaller sizes: from inputs to thin weights, with what was measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from torch import nn

from attnrate.compress.calibration import Calibration, calibrate, calls_of
from attnrate.compress.choice import Choice, choose
from attnrate.compress.content import Factors, require_size
from attnrate.compress.distil import distil
from attnrate.compress.fold import ThinLayer, fold
from attnrate.compress.how_far import At, looking, unseen, within
from attnrate.compress.projections import Found, Refusal
from attnrate.compress.repair import Repaired, repair
from attnrate.compress.resume import NOWHERE, Repairs
from attnrate.compress.values import ValueFactors, value_cut
from attnrate.errors import InputError
from attnrate.spectra.batches import Batch

_AT_ONCE = 8  # layers whose calls on all inputs are kept in memory


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
        after: That change on the same inputs after its repair; None without one.

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

    """

    model: nn.Module = field(repr=False)
    layers: tuple[LayerCut, ...]
    choice: Choice
    factors: Mapping[str, Factors] = field(repr=False)
    refused: tuple[Refusal, ...]
    closed: Mapping[str, ThinLayer] = field(repr=False)
    outputs: Mapping[str, str] = field(repr=False)


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
    found: Found | None = None,
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
        found: Where its layers make queries, keys, values and outputs; None lets it look.

    Returns:
        The model with thin heads, and what was chosen and measured.

    """
    known = calibrate(model, inputs, _AT_ONCE, at, found) if known is None else known
    wanted = _by_layer(sizes, known)
    choice = choose(known, wanted, at)
    factors = dict(choice.factors)
    repaired: dict[str, Repaired] = {}
    if steps:
        repaired = repair_layers(known, factors, steps, seed, at, kept)
        factors = {name: each.factors for name, each in repaired.items()}
    if together:
        parts = known.found.projections
        done = distil(model, inputs, parts, known.moments, factors, together, seed, at, kept)
        factors = dict(done.factors)
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
    return CutModel(made, tuple(layers), choice, factors, refused, closed, outputs)


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
        found = kept.recall(name, Repaired(cut, 0.0, 0.0, 0.0).tensors())
        if found is not None:
            done[name] = Repaired.of(found)
    names = [*done, *(name for name in start if name not in done)]
    # a step takes time by the keys that queries look at; a whole layer takes no steps
    sizes = {
        n: known.held[n].key[0].numel() * (own.size < own.X.shape[1]) for n, own in start.items()
    }
    work = [sizes[name] for name in names]
    behind = [sum(work[:number]) / max(1, sum(work)) for number in range(len(work) + 1)]
    begun = len(done)
    for first in range(begun, len(names), _AT_ONCE):
        look = looking(at, behind[first], first == begun)
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
