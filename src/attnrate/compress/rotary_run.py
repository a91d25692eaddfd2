"""A rotary decoder cut to smaller heads: from inputs to thin layers, with what was measured."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from attnrate.compress.how_far import LOOKING, At, looking, one_by_one, unseen, within
from attnrate.compress.modules.llama import copied, require_same, thinned
from attnrate.compress.modules.rotary_layers import attention_layers
from attnrate.compress.resume import NOWHERE, Repairs
from attnrate.compress.rotary import PairCut, RotaryMaps, Shared, cut_pairs
from attnrate.compress.rotary_moments import Felt, gather
from attnrate.compress.rotary_repair import examples, repair
from attnrate.compress.rotary_values import ValueCut, cut_values
from attnrate.compress.trial import relative
from attnrate.spectra import batches
from attnrate.spectra.batches import Batch
from attnrate.spectra.watching.watcher import Watcher

Tensor = torch.Tensor
_AT_ONCE = 8  # layers whose inputs are kept in memory for their repair


@dataclass(frozen=True)
class RotaryCut:
    """A rotary decoder with smaller heads.

    Attributes:
        model: The module, called as the original is.
        closed: The thin layers by elimination and refit alone, before all repair.
        layers: The thin layers of `model`.

    """

    model: nn.Module = field(repr=False)
    closed: Mapping[str, nn.Module] = field(repr=False)
    layers: Mapping[str, nn.Module] = field(repr=False)


def cut_rotary(
    model: nn.Module,
    given: Sequence[Batch],
    sizes: Mapping[str, int],
    value_sizes: Mapping[str, int],
    shared: Shared = "head",
    steps: int = 0,
    seed: int = 0,
    felt: Mapping[str, Felt] | None = None,
    at: At = unseen,
    kept: Repairs = NOWHERE,
) -> RotaryCut:
    """Cut the heads of a rotary decoder.

    Args:
        model: The model, which stays as it is.
        given: Calibration inputs, as batches.
        sizes: The new size of queries and keys of each layer, by its name; of one size for all
            layers where the pairs are shared by the whole model.
        value_sizes: The new size of values, for layers whose values are cut.
        shared: Who has one set of pairs.
        steps: The number of steps by which each layer is repaired.
        seed: The seed of the repair.
        felt: What `gather` has found on these inputs; None lets it look.
        at: Where progress is shown.
        kept: Where finished layers are kept.

    Returns:
        The model with thin layers.

    Raises:
        InputError: The model is not built as Llama is.

    """
    whole = attention_layers(model)
    watcher = Watcher(model)
    if felt is None:
        require_same(model, given[0])
        felt = gather(watcher, one_by_one(given, LOOKING, at))
    found = felt
    cuts: dict[str, PairCut] = {}
    said, alike = "choosing pairs: layer", [[name] for name in sizes]
    if shared == "model":  # layers that have pairs in common are cut at once
        every = sorted({*sizes.values()})
        said = "choosing pairs of all layers: size"
        alike = [[name for name in sizes if sizes[name] == size] for size in every]
    for own in one_by_one(alike, said, at):
        moments = {name: found[name].weights for name in own}
        cuts |= cut_pairs(moments, {n: found[n].groups for n in own}, sizes[own[0]], shared)
    values = {
        name: value_cut_of(whole[name], found[name], size) for name, size in value_sizes.items()
    }
    closed = {n: thinned(whole[n], cuts[n], values.get(n)) for n in whole if n in cuts}
    layers: dict[str, nn.Module] = dict(closed)
    if steps:
        for name, maps in _repaired(watcher, whole, given, cuts, steps, seed, at, kept):
            layers[name] = thinned(whole[name], maps, values.get(name))
    # the whole layers are shared with the copy until they are replaced, so that none is copied
    made = copied(model, layers, [whole[name] for name in layers])
    return RotaryCut(made, closed, layers)


def layer_changes(
    model: nn.Module, layers: Mapping[str, nn.Module], given: Sequence[Batch]
) -> dict[str, float]:
    """How much thin layers change what each adds to the model when all other layers are whole.

    Args:
        model: The whole model.
        layers: The thin layers by the names of the whole ones.
        given: Inputs to measure on.

    Returns:
        The root of Σ ‖change‖² / Σ ‖output‖² of each layer, by its name.

    """
    wrong, size = dict.fromkeys(layers, 0.0), dict.fromkeys(layers, 0.0)
    batch: Batch = given[0]

    def watch(name: str, thin: nn.Module) -> Any:
        def hook(_part: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> None:
            made, whole = (x[0].detach().float() for x in (thin(*args, **kwargs), output))
            kept = batches.padding(model, batch, tuple(whole.shape[:2]))
            there = slice(None) if kept is None else kept.to(whole.device)
            wrong[name] += float((made - whole)[there].square().sum())
            size[name] += float(whole[there].square().sum())

        return hook

    with batches.at_rest(model), ExitStack() as hooks:
        for name, thin in layers.items():
            hooks.enter_context(batches.at_rest(thin))
            part = model.get_submodule(name)
            hooks.enter_context(part.register_forward_hook(watch(name, thin), with_kwargs=True))
        for batch in given:  # the hooks look at it
            batches.run(model, batch)
    return {name: relative(wrong[name], size[name]) for name in layers}


def value_cut_of(module: Any, found: Felt, size: int) -> ValueCut:
    """The cut of a layer's values; the mean of what is lost goes into the output bias."""
    return cut_values(found.attended, module.o_proj.weight, found.groups, size)


def _repaired(
    watcher: Watcher,
    whole: Mapping[str, nn.Module],
    given: Sequence[Batch],
    cuts: Mapping[str, PairCut],
    steps: int,
    seed: int,
    at: At,
    kept: Repairs,
) -> Iterator[tuple[str, RotaryMaps]]:
    """The repaired maps of each layer, some layers at a time; those that were kept first."""
    left = []
    for name, cut in cuts.items():
        layer: Any = whole[name]
        found = kept.recall(name, vars(cut.maps(layer.head_dim)))
        if found is None:
            left.append(name)
        else:
            yield name, RotaryMaps(**found)
    behind = len(cuts) - len(left)
    for start in range(0, len(left), _AT_ONCE):
        look = looking(at, (behind + start) / len(cuts), start == 0)
        known = examples(watcher, one_by_one(given, LOOKING, look), left[start : start + _AT_ONCE])
        for number, (name, own) in enumerate(known.items(), behind + start):
            generator = torch.Generator().manual_seed(seed)
            said = f"repair: layer {number + 1} of {len(cuts)}, "
            own_at = within(at, said, number / len(cuts), (number + 1) / len(cuts))
            maps = repair(whole[name], cuts[name], own, generator, steps, at=own_at).maps
            kept.keep(name, vars(maps))
            yield name, maps
