"""Profiling a model: one pass for the spectra, a second over a few inputs for what cuts cost.

For every call of an attention layer the second moments of queries and keys are taken (estimate.py)
and turned into the spectra of each input; their sums over all inputs give the pooled spectrum.
Nothing of size T × T is formed, and no input is kept but the few that cuts are measured on; those
have no part in the cuts themselves, so that what is measured holds for inputs that come later.
"""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from attnrate.errors import (
    AccuracyWarning,
    InputError,
    require_choice,
    require_none,
    require_whole,
)
from attnrate.fitting.provenance import provenance
from attnrate.spectra import batches
from attnrate.spectra.adapters import adapter_for
from attnrate.spectra.batches import Batch, Watched
from attnrate.spectra.capture import Call, Site
from attnrate.spectra.cut import kept_tokens, losses
from attnrate.spectra.estimate import Gram, spectra
from attnrate.spectra.measures import SHARES, rank_of
from attnrate.spectra.result import GAUGES, Gauge, LayerSpectra, Profile, Stage

Tensor = torch.Tensor
_KEPT = ("name", "kind", "heads", "groups", "m_h", "rotary")  # what a profile keeps of a site


def profile(
    model: object,
    inputs: object,
    gauge: object = "softmax",
    *,
    layers: object = None,
    cut_inputs: object = 8,
    name: str | None = None,
) -> Profile:
    """The spectra of every head's pre-softmax logits over the inputs.

    `inputs` is a batch (a dictionary of tensors by the names of the model's arguments, or a tensor)
    or an iterable of batches, which is read once. `layers` are numbers or names of attention
    layers, all by default. What it costs to cut heads is measured on the first `cut_inputs` inputs,
    with cuts made from the others; 0 leaves that out. `gauge` is "softmax" or "none"; both are
    computed, this one is shown.
    """
    shown = require_choice("gauge", gauge, GAUGES)
    sample_size = require_whole("cut_inputs", cut_inputs, 0)
    model = batches.require_module(model)
    adapter, sites = adapter_for(model)
    _warn_of_unknown(model, sites)
    chosen = chosen_sites(sites, layers)
    watched = Watched(model, adapter, list(chosen.values()))
    found = {site.name: _Spectra(number, site, model) for number, site in chosen.items()}
    sample: list[Batch] = []
    repeated: set[str] = set()
    for batch, held in _held_out(batches.batches(inputs), sample_size):

        def see(site: Site, call: Call, batch: Batch = batch, held: list[int] = held) -> None:
            found[site.name].add(call, batch, held)

        repeated |= watched.see(batch, see)
        if held:
            sample.append(batches.pick(batch, held))
    if repeated:
        warnings.warn(
            f"of layers that run more than once in a pass only the first run counts: "
            f"{', '.join(sorted(repeated))}",
            AccuracyWarning,
            stacklevel=2,
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
        done = _with_cuts(replace(watched, sites=used), sample, done, shown)
    return Profile(
        model=name or type(model).__name__,
        family=adapter.family,
        gauge=shown,
        layers=tuple(done),
        tokens=found[done[0].name].tokens,
        made_by=provenance(),
    )


def _held_out(given: Iterable[Batch], wanted: int) -> Iterator[tuple[Batch, list[int]]]:
    """Every batch with the inputs in it on which cuts are measured and from which none is made.

    They are the first ones, in a row: pieces of one text that lie side by side are alike, so taking
    every second one would measure on what the cuts nearly know. Some are always left to make cuts
    from, of a single batch half, but for a single input.
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
    """What is gathered of one site while batches go by."""

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
        """The spectra of a call's inputs, and its moments to the sums; `held` make no cuts."""
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
        """How many queries each input has."""
        return np.concatenate(self._tokens)

    def done(self) -> LayerSpectra:
        """The layer's spectra, without cuts yet."""
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
    watched: Watched, sample: list[Batch], done: list[LayerSpectra], gauge: Gauge
) -> list[LayerSpectra]:
    """The layers with what it does to them to cut each to the ranks that hold its energy."""
    ranks = [
        {layer.name: rank_of(layer.pooled["logits", gauge], share) for layer in done}
        for share in SHARES
    ]
    cuts = [
        {layer.name: layer.cut_to(of[layer.name].tolist(), gauge) for layer in done} for of in ranks
    ]
    measured = losses(watched, sample, cuts)
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
    """Say which attention of the model no adapter knows, if it knows some of it."""
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
            stacklevel=3,
        )


def chosen_sites(sites: list[Site], layers: object) -> dict[int, Site]:
    """The sites that were asked for, by their numbers."""
    if layers is None:
        return dict(enumerate(sites))
    asked = [layers] if isinstance(layers, str | int) else layers
    if not isinstance(asked, Iterable):
        raise InputError("layers must be numbers or names of layers", layers)
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
    """An InputError for inputs without tokens, and for queries or keys that are not finite."""
    for each in moments:
        empty = (each.count[:, 0] == 0).nonzero()[:, 0].tolist()
        said = f"inputs are nothing but padding in {site.name}; their numbers in the batch"
        require_none(said, empty, "Leave them out.")
    if not all(bool(torch.isfinite(each.spread).all()) for each in moments):
        broken = batches.not_finite(model)
        raise InputError(
            f"queries or keys of {site.name} are not finite; the model's weights that are not",
            broken or "none",
            "Load these weights anew."
            if broken
            else "Look at the inputs, or use a wider number type.",
        )
