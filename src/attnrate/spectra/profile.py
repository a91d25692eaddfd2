"""Profiling a model: one pass for the spectra, a second over a few inputs for what cuts cost.

For each call of an attention layer, estimate.py takes the second moments of queries and keys and
turns them into the spectra of each input; the sums of the moments give the pooled spectrum. No
matrix of size T × T is formed. Only the few inputs on which cuts are measured are kept. They have
no part in making the cuts, so that what is measured holds for inputs that come later.
"""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Annotated, TypeAlias

import numpy as np
import torch
from torch import nn

from attnrate.errors import (
    AccuracyWarning,
    InputError,
    require_none,
    require_whole,
)
from attnrate.fitting.provenance import provenance
from attnrate.progress import QUIET, Progress
from attnrate.settings import Natural, by, checked
from attnrate.spectra import batches
from attnrate.spectra.adapters import adapter_for
from attnrate.spectra.batches import Batch, Inputs, Watched, count_of, require_inputs
from attnrate.spectra.capture import Call, Site
from attnrate.spectra.cut import kept_tokens, losses
from attnrate.spectra.estimate import Gram, spectra
from attnrate.spectra.inputs.given import as_batches
from attnrate.spectra.load import LoadedModel, ModelLike, module_of, require_model
from attnrate.spectra.measures import SHARES, rank_of
from attnrate.spectra.result import LayerSpectra, Profile, Stage
from attnrate.words import GAUGES, Gauge, GaugeLike, require_gauge

Tensor = torch.Tensor
_KEPT = ("name", "kind", "heads", "groups", "m_h", "rotary")  # what a profile keeps of a site
#: Frames between a public function that is `checked` and whoever calls it
_CHECKED_FRAMES = 4

Layers: TypeAlias = int | str | Iterable[int | str]
"""Attention layers of a model: one number or name, or several."""


def _require_layers(name: str, value: object) -> Layers | None:
    """`value` itself; an InputError when it cannot be numbers or names of layers."""
    if value is None or isinstance(value, Iterable):
        return value
    return require_whole(name, value, 0)


@checked
def profile(
    model: Annotated[ModelLike, by(require_model)],
    inputs: Annotated[Inputs, by(require_inputs)],
    gauge: GaugeLike = "softmax",
    *,
    layers: Annotated[Layers | None, by(_require_layers)] = None,
    cut_inputs: Natural = 8,
    name: str | None = None,
    progress: bool | None = None,
) -> Profile:
    """Measure what each attention head of a trained model uses of its dimensions.

    The model is run on the inputs in evaluation mode; it is not changed. For each head the singular
    values of its logits, the matrix that goes into softmax, say how many dimensions the head uses.
    What smaller heads would cost is measured by cutting them for real. See docs/profile.md for the
    definitions and for the models that are known.

    Args:
        model: A torch module, or a model opened by `load_model`.
        inputs: A batch (a dictionary of tensors by the names of the model's arguments, or a tensor
            for a model with one argument), several batches one after another (a list, a
            DataLoader, a generator), or texts for a model of `load_model`: strings, chats, rows of
            a dataset. `Inputs` says more.
        gauge: "softmax" takes out of the logits what softmax cannot see, the mean of each row;
            "none" leaves it in. Both are computed; this one is shown.
        layers: Numbers or names of the attention layers to profile; all by default.
        cut_inputs: The number of inputs on which cuts are measured. They are the first ones, and
            have no part in making the cuts; some inputs are always left to make cuts from. 0
            measures no cuts.
        name: The model's name in tables and figures; the name of its folder or class by default.
        progress: True writes plain lines where there is no terminal; False shows nothing. By
            default a terminal or a notebook shows a live line after a second.

    Returns:
        The spectra of all heads, with `to_frame`, `plot`, `plot_ranks`, and `advise` to go on.

    Raises:
        InputError: The model's attention is of no known family, or the model cannot be run on the
            inputs.

    Warns:
        AccuracyWarning: Some attention of the model is of no known family, or a layer runs more
            than once in a pass.

    Examples:
        >>> import torch
        >>> layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        >>> found = ar.profile(layer, torch.randn(4, 20, 16), cut_inputs=2)
        >>> [(one.name, one.heads, one.m_h) for one in found.layers]
        [('self_attn', 2, 8)]
        >>> found.pooled(layer=0, head=0).shape
        (8,)

    """
    shown = require_gauge("gauge", gauge)
    module = module_of(model)
    inputs = as_batches(model, inputs)
    adapter, sites = adapter_for(module)
    _warn_of_unknown(module, sites)
    chosen = chosen_sites(sites, layers)
    watched = Watched(module, adapter, list(chosen.values()))
    found = {site.name: _Spectra(number, site, module) for number, site in chosen.items()}
    sample: list[Batch] = []
    repeated: set[str] = set()
    total = count_of(inputs)
    with Progress("spectra", wanted=progress, after=QUIET) as line:
        held_out = _held_out(batches.batches(inputs), cut_inputs)
        for number, (batch, held) in enumerate(held_out, start=1):

            def see(site: Site, call: Call, batch: Batch = batch, held: list[int] = held) -> None:
                found[site.name].add(call, batch, held)

            repeated |= watched.see(batch, see)
            if held:
                sample.append(batches.pick(batch, held))
            of = "" if total is None else f" of {total}"
            line.at(f"spectra: batch {number}{of}", None if total is None else number / total)
    if repeated:
        warnings.warn(
            f"of layers that run more than once in a pass only the first run counts: "
            f"{', '.join(sorted(repeated))}",
            AccuracyWarning,
            stacklevel=1 + _CHECKED_FRAMES,
        )
    used = [site for site in watched.sites if found[site.name].calls]
    if not used:
        raise InputError(
            "none of the attention layers was seen at work on these inputs",
            list(found),
            "They did not run, or their family does not call the attention interface and needs "
            "hooks (docs/profile.md, 'Another family').",
        )
    done = [found[site.name].done() for site in used]
    if sample:
        with Progress("cutting heads", wanted=progress, after=QUIET) as line:
            done = _with_cuts(replace(watched, sites=used), sample, done, shown, line)
    own = model.name if isinstance(model, LoadedModel) else type(module).__name__
    return Profile(
        model=name or own,
        family=adapter.family,
        gauge=shown,
        layers=tuple(done),
        tokens=found[done[0].name].tokens,
        made_by=provenance(),
    )


def _held_out(given: Iterable[Batch], wanted: int) -> Iterator[tuple[Batch, list[int]]]:
    """Each batch with the numbers of its inputs on which cuts are measured.

    They are the first inputs, in a row: neighbouring pieces of a text are alike, so taking every
    second one would measure cuts on what they nearly know. Some inputs are always left to make cuts
    from: half of a single batch, and the only input if there is one.
    """
    rest = iter(given)
    batch = next(rest)
    held = 0
    others = False
    while True:
        following = next(rest, None)
        size = batches.size(batch)
        last_chance = following is None and not others
        free = (0 if held else size // 2) if last_chance else size
        taken = min(wanted - held, free)
        held += taken
        others = others or taken < size
        yield batch, list(range(taken))
        if following is None:
            return
        batch = following


class _Spectra:
    """The spectra and moments of one site, collected batch by batch."""

    def __init__(self, number: int, site: Site, model: nn.Module) -> None:
        self.number, self.site, self._model = number, site, model
        self.calls = 0
        self._sigma: dict[tuple[Stage, Gauge], list[np.ndarray]] = {}
        self._moments: dict[Stage, tuple[Gram, Gram]] = {}
        self._for_cuts: tuple[Gram, Gram] | None = None
        self._tokens: list[np.ndarray] = []
        self._scale = 1.0
        self._bias: Tensor | None = None

    def add(self, call: Call, batch: Batch, held: list[int]) -> None:
        """Add the spectra and the moments of a call.

        `held` are the numbers of the inputs that have no part in making cuts.
        """
        if call.query.shape[0] != batches.size(batch):
            raise InputError(
                f"{self.site.name} sees another number of inputs than the batch has along its "
                f"first axis, {batches.size(batch)}",
                call.query.shape[0],
                "Put the inputs along the first axis (batch_first=True), one axis for them.",
            )
        self.calls += 1
        self._scale = call.scale
        kept = kept_tokens(self.site, call, batch)
        pairs: dict[Stage, tuple[Tensor, Tensor]] = {"logits": (call.query, call.key)}
        if call.plain is not None:
            pairs["plain"] = call.plain
        for stage, (query, key) in pairs.items():
            q, k = Gram.of(query, kept[0]), Gram.of(key, kept[1])
            _check(self.site, self._model, q, k)
            for gauge, sigma in zip(GAUGES, spectra(q, k, call.scale), strict=True):
                self._sigma.setdefault((stage, gauge), []).append(sigma.float().cpu().numpy())
            self._moments[stage] = _sum(self._moments.get(stage), q, k)
            if stage == "logits":
                self._tokens.append(q.count[:, 0].long().cpu().numpy())
                others = [number for number in range(len(q.count)) if number not in held]
                if others:
                    self._for_cuts = _sum(self._for_cuts, q.pick(others), k.pick(others))
        bias = call.bias
        if bias is not None and (self._bias is None or bias.shape[-1] > self._bias.shape[-1]):
            self._bias = bias

    @property
    def tokens(self) -> np.ndarray:
        """The number of queries of each input."""
        return np.concatenate(self._tokens)

    def done(self) -> LayerSpectra:
        """The layer's spectra so far, without cuts."""
        pooled = {
            (stage, gauge): sigma.cpu().numpy()
            for stage, moments in self._moments.items()
            for gauge, sigma in zip(GAUGES, spectra(*moments, self._scale), strict=True)
        }
        query, key = self._for_cuts or self._moments["logits"]
        return LayerSpectra(
            number=self.number,
            **{name: getattr(self.site, name) for name in _KEPT},
            scale=self._scale,
            sigma={key: np.concatenate(parts) for key, parts in self._sigma.items()},
            pooled=pooled,
            query=query.cpu(),
            key=key.cpu(),
            cuts={},
            bias=None if self._bias is None else self._bias[0].detach().float().cpu().numpy(),
        )


def _sum(before: tuple[Gram, Gram] | None, query: Gram, key: Gram) -> tuple[Gram, Gram]:
    if before is None:
        return query.pooled(), key.pooled()
    return before[0].joined(query.pooled()), before[1].joined(key.pooled())


def _with_cuts(
    watched: Watched, sample: list[Batch], done: list[LayerSpectra], gauge: Gauge, shown: Progress
) -> list[LayerSpectra]:
    """The layers, with the measured effect of cutting their heads to the ranks of the shares."""
    ranks = [
        {layer.name: rank_of(layer.pooled["logits", gauge], share) for layer in done}
        for share in SHARES
    ]
    cuts = [
        {layer.name: layer.cut_to(of[layer.name].tolist(), gauge) for layer in done} for of in ranks
    ]
    measured = losses(watched, sample, cuts, shown)
    return [
        replace(
            layer,
            cuts={
                share: (of[layer.name], loss[layer.name])
                for share, of, loss in zip(SHARES, ranks, measured, strict=True)
                if layer.name in loss
            },
        )
        for layer in done
    ]


def _warn_of_unknown(model: nn.Module, sites: list[Site]) -> None:
    """Warn of attention modules that are outside all known attention layers of the model."""
    within = {id(part) for site in sites for part in site.module.modules()}
    unknown = {
        type(part).__name__
        for part in model.modules()
        if "attention" in type(part).__name__.lower()
        and not any(id(inner) in within for inner in part.modules())
    }
    if unknown:
        warnings.warn(
            f"attention that no adapter knows is left out: {', '.join(sorted(unknown))}",
            AccuracyWarning,
            stacklevel=2 + _CHECKED_FRAMES,
        )


def chosen_sites(sites: list[Site], layers: Layers | None) -> dict[int, Site]:
    """The sites that were asked for, by their numbers; all of them without a request."""
    if layers is None:
        return dict(enumerate(sites))
    asked = [layers] if isinstance(layers, str | int) else layers
    names = [site.name for site in sites]
    picked = set()
    for layer in asked:
        if isinstance(layer, str):
            if layer not in names:
                raise InputError("no layer has this name", layer, f"Known: {', '.join(names)}.")
            picked.add(names.index(layer))
        else:
            picked.add(require_whole("layers", layer, 0, len(sites) - 1))
    if not picked:
        raise InputError("no layer was named", layers, f"Known: {', '.join(names)}.")
    return {number: sites[number] for number in sorted(picked)}


def _check(site: Site, model: nn.Module, *moments: Gram) -> None:
    """Raise an InputError for inputs without tokens and for queries or keys that are not finite."""
    for each in moments:
        empty = (each.count[:, 0] == 0).nonzero()[:, 0].tolist()
        said = f"inputs are nothing but padding in {site.name}; their numbers in the batch"
        require_none(said, empty, "Leave them out.")
    if not all(bool(torch.isfinite(each.spread).all()) for each in moments):
        broken = batches.not_finite(model)
        raise InputError(
            f"queries or keys of {site.name} are not finite, and of the model's weights {{value}}",
            broken or "none",
            "Load these weights anew."
            if broken
            else "Look at the inputs, or use a wider number type.",
        )
