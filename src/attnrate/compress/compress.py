"""Smaller heads for a trained model, from one call: sizes, the cut, its repair, and what it costs.

Content heads go through `run.cut`, heads with a rotary embedding through `rotary_run.cut_rotary`.
Everything that can be refused is refused before the work.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import nn

from attnrate.compress import run
from attnrate.compress.fold import fold, path_of
from attnrate.compress.how_far import At
from attnrate.compress.layers import Layers
from attnrate.compress.measured import Judged, Models, measured
from attnrate.compress.modules.llama import with_layers
from attnrate.compress.modules.maps import maps_of
from attnrate.compress.planned import Plan, cutter_of, planned, require_target
from attnrate.compress.projections import fullest
from attnrate.compress.quality import require_judge
from attnrate.compress.result import Compressed, CompressedLayer
from attnrate.compress.resume import COMMAND, Repairs, require_something
from attnrate.compress.rotary import Shared
from attnrate.compress.rotary_run import cut_rotary, layer_changes
from attnrate.compress.sizes import (
    Target,
    Wanted,
    require_average,
    require_share,
    require_sizes,
    require_tokens,
)
from attnrate.compress.sound import require_sound
from attnrate.compress.timing import SECONDS, require_seconds
from attnrate.compress.tokens import tokens_of
from attnrate.compress.trial import Split, changes, split
from attnrate.errors import InputError, require_choice
from attnrate.fitting.provenance import provenance
from attnrate.progress import QUIET, Progress
from attnrate.settings import Count, Natural, Switch, by, checked
from attnrate.spectra import batches
from attnrate.spectra.advise import Advice
from attnrate.spectra.batches import Batch, Inputs, require_inputs
from attnrate.spectra.capture import PROJECTIONS
from attnrate.spectra.inputs.given import as_batches
from attnrate.spectra.load import LoadedModel, ModelLike, module_of, require_model
from attnrate.spectra.resume import require_resume

Tensor = torch.Tensor
_COMPARING = "comparing outputs"
_TRIED = 2  # inputs on which saved files are held against the model


@checked
def compress(
    model: Annotated[ModelLike, by(require_model)],
    inputs: Annotated[Inputs, by(require_inputs)],
    *,
    size: Count | None = None,
    sizes: Annotated[Advice | Sequence[int] | None, by(require_sizes)] = None,
    keep: Annotated[float | None, by(require_share)] = None,
    loss: Annotated[float | None, by(require_share)] = None,
    bytes: Count | None = None,
    average: Annotated[float | None, by(require_average)] = None,
    multiple_of: Count | None = None,
    values: Switch = False,
    repair: Natural = 0,
    together: Natural = 0,
    shared: Shared = "head",
    metric: Annotated[Callable[[nn.Module], float] | None, by(require_judge)] = None,
    timing: Annotated[float, by(require_seconds)] = SECONDS,
    seed: int = 0,
    resume: Annotated[str | os.PathLike[str] | None, by(require_resume, COMMAND)] = None,
    progress: bool | None = None,
) -> Compressed:
    """Make the heads of a trained model smaller, and measure what that costs.

    Queries and keys become narrower by closed forms: of several, the one that changes the output
    least on calibration inputs is taken. Heads with a rotary embedding lose pairs of dimensions,
    and their queries make up for them. Where queries and keys are normalised (Qwen3, Gemma 3), they
    are projected behind that: their weights stay whole, and the cache becomes smaller. Repair then
    takes gradient steps against what the whole heads gave. One input of five has no part in all
    this; on these is measured how good the model still is, how long it takes, and what quantised
    keys would cost instead.

    Args:
        model: A torch module, or a model opened by `load_model`; it is not changed.
        inputs: Calibration inputs, as `profile` takes them, as long as those in use. All are kept
            in memory.
        size: The new size of queries and keys in all layers.
        sizes: Sizes of their own for layers: what `advise` has returned, or a list with one for
            each layer in the order in which they run. Odd advice for a rotary layer is raised to
            the next even size.
        keep: The share of each head that stays, rounded to a multiple; by default half stays.
        loss: The most that the output may change by the cut, as a share of its size. The sizes are
            those with the fewest bytes whose change, measured on the calibration inputs, is within
            it; repair makes it smaller still.
        bytes: The most bytes of keys and values per token, over all layers that can be cut. The
            sizes are those whose measured change is least; also where there is no cache.
        average: The largest mean size over layers, of which likewise those are taken whose measured
            change is least. One of `size`, `sizes`, `keep`, `loss`, `bytes`, `average` can be
            given. The last three try every size in every layer, and `curves` of the result has what
            was measured.
        multiple_of: The number of which new sizes are multiples, unless a head keeps its size: 8 by
            default, and 2 for heads below 16, and any for `size` and `sizes`. Advised sizes are
            raised to the next multiple. Where heads turn in pairs, sizes are even as well.
        values: Whether values become as small as the keys, too. Their mean goes into the bias of
            the output projection.
        repair: The number of gradient steps by which each layer is repaired; some hundred do.
        together: The number of steps by which all layers are then repaired together against the
            model's output. Not for rotary layers.
        shared: For rotary layers, who has one set of pairs: each key head its own ("head"), all
            heads of a "layer", or the whole "model", as files of stock Llama need it.
        metric: A function of the torch module that gives a number. It is called for the original,
            for the model after the cut alone, and after repair. For models of `train`, such as
            `lambda model: 1 - ar.judge_images(model, images).test_error` with `images` of
            `photographs`, or `lambda model: ar.score_translations(model, pairs).bleu` with `pairs`
            of `sentences`.
        timing: About how many seconds times are measured, of the model whole and cut in turn; each
            has three turns at least. 0 leaves times out.
        seed: The seed of the repair.
        resume: A folder that keeps each layer as soon as it is repaired, and the state of the steps
            `together` after every quarter of them, so that a run that was killed can be gone on
            with: the same call, with the same inputs, repairs what is missing, and its result is
            the same, bit for bit. What comes before the repair is done again, the search for sizes
            too. The folder stays, because the model is not saved yet; delete it then. None keeps
            nothing.
        progress: True writes plain lines where there is no terminal; False shows nothing. By
            default a terminal or a notebook shows a live line after a second.

    Returns:
        The smaller model with its report; `save` writes it.

    Raises:
        InputError: A size does not fit the heads, the calibration tokens are too few for it, or
            the model's weights cannot be cut: the message names the layer and the reason. Or the
            metric raises an exception or gives no number for the original. Or `resume` is the
            folder of another run; the message says what differs.
        StoreError: What is finished cannot be written.

    Examples:
        >>> import torch
        >>> model = ar.ViT(image=8, patch=2, width=16, layers=2, heads=2, m_h=8, classes=3)
        >>> done = ar.compress(model, torch.randn(20, 3, 8, 8), size=4, values=True, repair=5)
        >>> done.parameters_before - done.parameters
        1072
        >>> [(layer.size, layer.value_size) for layer in done.layers]
        [(4, 4), (4, 4)]

    """
    asked = Wanted(size, sizes, keep, Target(loss, bytes, average), multiple_of)
    require_choice("shared", shared, ("head", "layer", "model"))
    folder = None if resume is None else Path(resume)
    require_something(folder, repair, together)
    module = module_of(model)
    parts = split([*batches.batches(as_batches(model, inputs))])
    name = model.name if isinstance(model, LoadedModel) else type(module).__name__
    require_sound(module, fullest(parts.own[0]))
    judge = Judged.of(metric, module)
    kept = Repairs.of(folder, module, parts.own, repair, seed, shared)
    with _shown("looking at the layers", progress) as shown, kept:
        known = Layers.of(module, parts.own[0])
        if known.behind and shared != "head":
            raise InputError(
                "shared is for rotary heads that lose pairs; these normalise queries and keys, are "
                "projected behind that, and fit no files of stock Llama",
                shared,
                'Leave shared out, and save in the format "attnrate".',
            )
        tokens = tokens_of(module, parts.own, known.length)
        if known.rotary and together:
            raise InputError(
                "together is for heads without a rotary embedding",
                together,
                "Pass together=0, and repair layer by layer (repair=200).",
            )
        if asked.is_target:
            grid = require_target(asked, known.whole, values, known.rotary and shared == "model")
            require_tokens(tokens, grid.largest)
            cutter = cutter_of(module, parts.own, known.found, values, shared, shown.at)
            plan = planned(name, parts.own, cutter, grid, asked, shown)
        else:
            plan = Plan(asked.of(known.whole, [each.name for each in known.refused]))
            require_tokens(tokens, max(plan.sizes.values()))
        own = {n: min(r, known.whole[n].m_v) for n, r in plan.sizes.items()} if values else {}
        asked_for = _Asked(plan, own, repair, together, shared, seed, shown.at, kept)
        kept.begin(plan.sizes)
        done = (_rotary if known.rotary else _content)(module, parts, known, asked_for)
    with _shown("measuring the smaller model", progress) as shown:
        cached = any(layer.in_cache for layer in done.layers)
        thinner = any(layer.value_size < layer.m_v for layer in done.layers)
        models = Models(module, done.closed, done.model, cached, thinner)
        found = measured(models, parts.held, judge, timing, shown.at)
    before = sum(x.numel() for x in module.parameters())
    settings: dict[str, str | int | bool | None] = {**provenance()}
    settings |= {"repair": repair, "together": together, "seed": seed}
    if known.rotary:
        settings["shared"] = shared
    if plan.curves is not None:
        settings["target"] = plan.curves.target
    return Compressed(
        model=done.model,
        name=name,
        layers=done.layers,
        parameters_before=before,
        parameters=sum(x.numel() for x in done.model.parameters()),
        change_cut=done.change_cut,
        change=done.change,
        repaired=(repair, together),
        tokens=tokens,
        held_out=sum(batches.size(batch) for batch in parts.held),
        measured=found,
        has_cache=cached,
        rotary=known.rotary,
        left=known.left,
        folder=model.folder if isinstance(model, LoadedModel) else None,
        outputs=done.outputs,
        trial=_trial(parts.held[0]),
        made_by=settings,
        curves=plan.curves,
    )


def _shown(text: str, wanted: bool | None) -> Progress:
    """Where the progress of a part is shown; `text` says what it begins with."""
    return Progress(text, wanted=wanted, after=QUIET, name="compress", steady=True)


@dataclass(frozen=True)
class _Asked:
    """What was asked for, by the names of layers; where progress is shown, and repairs are kept."""

    plan: Plan
    value_sizes: Mapping[str, int]
    steps: int
    together: int
    shared: Shared
    seed: int
    at: At
    kept: Repairs


@dataclass(frozen=True)
class _Done:
    """A model that was cut, also as it was before its repair, and what was measured."""

    model: nn.Module
    closed: nn.Module | None
    layers: tuple[CompressedLayer, ...]
    change_cut: float
    change: float
    outputs: Mapping[str, str]


def _content(model: nn.Module, given: Split, known: Layers, asked: _Asked) -> _Done:
    """Cut heads that know no positions, or that are cut behind their rotation."""
    values = asked.value_sizes or None
    plan, steps = asked.plan, (asked.steps, asked.together, asked.seed)
    more = asked.at, asked.kept, known.found
    done = run.cut(model, given.own, plan.sizes, values, *steps, plan.calibration, *more)
    asked.at(_COMPARING, None)
    closed = fold(model, done.closed) if asked.steps or asked.together else None
    now, cut = _changes(model, done.model, closed, given.held)
    layers = []
    for each in done.layers:
        thin = done.model.get_submodule(path_of(each.name))
        maps = maps_of(thin)
        parts = (*projections_of(thin), done.model.get_submodule(done.outputs[each.name]), *maps)
        sizes = each.size, each.value_size
        felt = each.before, each.before if each.after is None else each.after
        layer = _layer(each.name, known, sizes, parts, felt, each.objective)
        cached = known.cached if each.name in known.behind else getattr(thin, "in_cache", False)
        layers.append(replace(layer, added=_count(maps), in_cache=cached))
    return _Done(done.model, closed, tuple(layers), cut, now, done.outputs)


def _rotary(model: nn.Module, given: Split, known: Layers, asked: _Asked) -> _Done:
    """Cut heads with a rotary embedding."""
    plan, steps = asked.plan, (asked.steps, asked.seed)
    every = {name: plan.sizes.get(name, own.m_h) for name, own in known.whole.items()}
    if asked.shared == "model" and len({*every.values()}) > 1:
        raise InputError(
            'shared="model" needs one size for all layers',
            every,
            f"Pass size={max(plan.sizes.values())}.",
        )
    own = plan.sizes, asked.value_sizes, asked.shared
    done = cut_rotary(model, given.own, *own, *steps, plan.felt, asked.at, asked.kept)
    asked.at(_COMPARING, None)
    felt = felt_cut = layer_changes(model, done.layers, given.held)
    closed = None
    if asked.steps:
        felt_cut = layer_changes(model, done.closed, given.held)
        closed = with_layers(model, done.closed)
    now, cut = _changes(model, done.model, closed, given.held)
    layers = []
    for name, thin in done.layers.items():
        layer: Any = thin
        parts = layer.q_proj, layer.k_proj, layer.v_proj, layer.o_proj
        sizes = layer.head_dim, layer.shape.m_v
        made = _layer(name, known, sizes, parts, (felt_cut[name], felt[name]), "pairs")
        layers.append(replace(made, in_cache=known.cached))
    return _Done(done.model, closed, tuple(layers), cut, now, {})


def _changes(
    model: nn.Module, after: nn.Module, closed: nn.Module | None, held: Sequence[Batch]
) -> tuple[float, float]:
    """The changes of the output after all repair, and by the cut alone."""
    found = changes(model, [after] if closed is None else [after, closed], held)
    return found[0], found[-1]


def _layer(
    name: str,
    known: Layers,
    sizes: tuple[int, int],
    parts: Sequence[nn.Module],
    felt: tuple[float | None, float | None],
    objective: str | None,
) -> CompressedLayer:
    """The record of a layer."""
    own = known.whole[name]
    return CompressedLayer(
        name,
        own.m_h,
        sizes[0],
        own.m_v,
        sizes[1],
        _count(known.parts[name]),
        _count(parts),
        own.number * (own.m_h + own.m_v),
        own.number * sum(sizes),
        *felt,
        objective,
    )


def projections_of(thin: nn.Module) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
    """The parts of a thin layer that make queries, keys and values."""
    for names in PROJECTIONS:
        found = [getattr(thin, name, None) for name in names]
        own = [part for part in found if isinstance(part, nn.Linear)]
        if len(own) == len(names):
            return own[0], own[1], own[2]
    raise InputError("this layer has no queries, keys and values", type(thin).__name__)


def _count(parts: Sequence[nn.Module]) -> int:
    """The number of parameters of parts; one that serves several counts once."""
    seen = {id(x): x.numel() for part in parts for x in part.parameters()}
    return sum(seen.values())


def _trial(batch: Batch) -> Batch:
    """A few inputs of a batch."""
    if not batches.is_separable(batch):
        return batch
    return batches.pick(batch, [*range(min(_TRIED, batches.size(batch)))])
