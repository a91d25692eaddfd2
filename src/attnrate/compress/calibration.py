"""What cuts of a model's layers need to know of them, from one pass over calibration inputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from attnrate.compress.held import Held
from attnrate.compress.held import joined as held_joined
from attnrate.compress.how_far import LOOKING, At, one_by_one, unseen
from attnrate.compress.moments import Moments
from attnrate.compress.moments import joined as moments_joined
from attnrate.compress.projections import Found, find
from attnrate.errors import InputError
from attnrate.spectra import batches
from attnrate.spectra.batches import Batch
from attnrate.spectra.capture import Call, Site
from attnrate.spectra.cut import kept_tokens
from attnrate.spectra.watching.watcher import Watcher

Tensor = torch.Tensor
_TRIED = 8  # inputs on which closed forms are compared at most
_LEAST = 4  # inputs on which closed forms are compared at least, where there are four
_SHARE = 8  # one input of eight is tried, since each costs several forward passes


@dataclass(frozen=True)
class Calibration:
    """What is known of a model's layers from calibration inputs.

    Attributes:
        watcher: The model.
        given: The inputs.
        found: Where its layers make queries, keys, values and outputs.
        held: The calls of each layer that are kept, by the layer's name.
        tried: The calls of each layer on the inputs on which closed forms are compared.
        moments: The moments of each layer over all inputs.
        others: The moments of each layer without the inputs tried, so that a form that fits its
            inputs too well is found out; over all inputs where all are tried.
        is_whole: Whether the calls are kept on all inputs; otherwise on those tried.

    """

    watcher: Watcher
    given: Sequence[Batch]
    found: Found
    held: Mapping[str, Held]
    tried: Mapping[str, Held]
    moments: Mapping[str, Moments]
    others: Mapping[str, Moments]
    is_whole: bool = True


def calibrate(
    model: nn.Module,
    given: Sequence[Batch],
    at_once: int | None = None,
    at: At = unseen,
    found: Found | None = None,
) -> Calibration:
    """Run a model on calibration inputs once and keep what cuts of its layers need.

    Args:
        model: The model.
        given: The inputs. The calls of all layers on them are kept in memory.
        at_once: Of models with more layers than this, only the calls on a few inputs are kept;
            None for no such limit.
        at: Where progress is shown.
        found: Where its layers make queries, keys, values and outputs; None lets it look.

    Returns:
        Projections, moments and calls of its attention layers.

    Raises:
        InputError: No layer of the model can be cut.

    """
    watcher = Watcher(model)
    found = find(watcher, given[0]) if found is None else found
    if not found.projections:
        why = "; ".join(f"{each.name}: {each.reason}" for each in found.refused[:3])
        raise InputError("no attention layer of this model can be cut", why or "it has none")
    whole: dict[str, list[Held]] = {}
    tried: dict[str, list[Held]] = {}
    of_tried: dict[str, list[Moments]] = {}
    of_others: dict[str, list[Moments]] = {}
    is_whole = at_once is None or len(found.projections) <= at_once
    W_O = {name: own.output.weight for name, own in found.projections.items()}
    places = _places(given, count_tried(given))
    for number, batch in enumerate(one_by_one(given, LOOKING, at)):
        few = [i for b, i in places if b == number]

        def see(site: Site, call: Call, batch: Batch = batch, few: list[int] = few) -> None:
            if site.name not in found.projections:
                return
            one = Held.of(call, kept_tokens(site, call, batch))
            if is_whole:
                whole.setdefault(site.name, []).append(one)
            rows = _rows(few, one.inputs, batch)
            left = sorted({*range(one.inputs)} - {*rows})
            if rows:
                some = one.pick(rows)
                tried.setdefault(site.name, []).append(some)
                of_tried.setdefault(site.name, []).append(Moments.of(some, W_O[site.name]))
            if left:
                own = Moments.of(one.pick(left), W_O[site.name])
                of_others.setdefault(site.name, []).append(own)

        watcher.see(batch, see)
    calls = {name: held_joined(own) for name, own in tried.items()}
    moments = {
        name: moments_joined(own + of_others.get(name, [])) for name, own in of_tried.items()
    }
    others = {name: moments_joined(own) for name, own in of_others.items()}
    held = {name: held_joined(own) for name, own in whole.items()} if is_whole else calls
    return Calibration(watcher, given, found, held, calls, moments, moments | others, is_whole)


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


def count_tried(given: Sequence[Batch]) -> int:
    """The number of inputs on which closed forms are compared."""
    count = sum(batches.size(batch) for batch in given)
    return min(_TRIED, max(_LEAST, count // _SHARE), count)


def some(given: Sequence[Batch], most: int) -> list[Batch]:
    """`most` inputs, spread evenly over all, as batches; all where there are fewer."""
    own = _places(given, most)
    return [
        batches.pick(given[b], [i for c, i in own if c == b]) for b in sorted({b for b, _ in own})
    ]


def spaced(count: int, most: int) -> list[int]:
    """`most` of the numbers below `count`, spread evenly, or all where there are fewer."""
    return [i * count // most for i in range(most)] if count > most else [*range(count)]


def _places(given: Sequence[Batch], most: int) -> list[tuple[int, int]]:
    """The batches and numbers of `most` inputs, spread evenly over all."""
    places = [(b, i) for b, batch in enumerate(given) for i in range(batches.size(batch))]
    return [places[i] for i in spaced(len(places), most)]


def _rows(inputs: Sequence[int], rows: int, batch: Batch) -> list[int]:
    """The rows of a call that belong to some inputs of a batch: one each, or one a window."""
    each = max(1, rows // batches.size(batch))
    return [row for i in inputs for row in range(i * each, (i + 1) * each)]
