"""The attention layers of a model that can be cut, found by running it on one input."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from attnrate.compress.fold import path_of
from attnrate.compress.generation import writes
from attnrate.compress.modules.llama import ThinLlamaAttention
from attnrate.compress.modules.normed import normed_parts, require_same
from attnrate.compress.modules.rotary_layers import attention_layers, require_rotary
from attnrate.compress.projections import Found, Refusal, find, fullest
from attnrate.compress.rebuilt import require_rebuilt
from attnrate.compress.sizes import Whole
from attnrate.errors import InputError
from attnrate.spectra import batches
from attnrate.spectra.batches import Batch
from attnrate.spectra.capture import Call, Site
from attnrate.spectra.watching.watcher import Watcher


@dataclass(frozen=True)
class Layers:
    """The attention layers of a model that can be cut.

    Attributes:
        whole: The sizes of each layer as it is, by its name.
        groups: The number of key heads of each layer.
        parts: The parts of each layer that make queries, keys, values and its output.
        found: Where the layers make queries, keys, values and their outputs; None where heads lose
            pairs of dimensions, because they are turned behind these parts.
        refused: The layers that cannot be cut, each with its reason.
        length: The number of tokens of an input.
        behind: The layers whose queries and keys are normalised and turned before they can be cut.
        cached: Whether such layers keep keys and values for tokens to come.

    """

    whole: Mapping[str, Whole]
    groups: Mapping[str, int]
    parts: Mapping[str, tuple[nn.Module, ...]]
    found: Found | None
    refused: tuple[Refusal, ...]
    length: int
    behind: frozenset[str]
    cached: bool

    @property
    def rotary(self) -> bool:
        """Whether heads lose pairs of dimensions."""
        return self.found is None

    @property
    def left(self) -> tuple[str, ...]:
        """The layers that cannot be cut, each with the reason."""
        return tuple(map(str, self.refused))

    @classmethod
    def of(cls, model: nn.Module, batch: Batch) -> "Layers":
        """Find them by running; an InputError names the first reason why there are none."""
        if any(isinstance(part, ThinLlamaAttention) for part in model.modules()):
            attention_layers(model)  # which says that its heads were cut before
        watcher = Watcher(model)
        sites: dict[str, tuple[Site, int]] = {}
        lengths: list[int] = []
        one = fullest(batch)

        def see(site: Site, call: Call) -> None:
            sites[site.name] = site, call.value.shape[-1]
            lengths.append(call.query.shape[0] * call.query.shape[2] // batches.size(one))

        watcher.see(one, see)
        length = min(lengths, default=0)
        turned = [site for site, _ in sites.values() if site.rotary]
        if turned and all(normed_parts(site.module) is None for site in turned):
            return cls._of_rotary(model, sites, length)
        found = require_rebuilt(model, find(Watcher(model), one), one)
        if not found.projections:
            raise InputError(
                f"the weights of this {type(model).__name__} cannot be cut: {{value}}",
                "; ".join(map(str, found.refused[:3])) or "it has no attention that could be read",
            )
        behind = frozenset(n for n, own in found.projections.items() if own.behind)
        paths = [path_of(name) for name in found.projections if name in behind]
        if paths:
            require_same(model, paths, one)
        causal = any(getattr(model.get_submodule(n), "is_causal", False) for n in paths)
        return cls._of_content(found, length, behind, causal or writes(model))

    @classmethod
    def _of_content(
        cls, found: Found, length: int, behind: frozenset[str], cached: bool
    ) -> "Layers":
        whole, groups, parts = {}, {}, {}
        for name, own in found.projections.items():
            number = own.site.groups * own.key.weight_bytes
            whole[name] = Whole(own.site.m_h, own.value.features.shape[1], False, number)
            groups[name] = own.site.groups
            parts[name] = own.query.part, own.key.part, own.value.part, own.output.part
        return cls(whole, groups, parts, found, found.refused, length, behind, cached)

    @classmethod
    def _of_rotary(
        cls, model: nn.Module, sites: Mapping[str, tuple[Site, int]], length: int
    ) -> "Layers":
        there = attention_layers(model)
        whole, groups, parts = {}, {}, {}
        known = {n: require_rotary(there[path_of(n)]) for n in sites if path_of(n) in there}
        several = _several(known)
        left = [Refusal(name, "its weights serve several layers") for name in several]
        for name, (site, m_v) in sites.items():
            if name not in known:
                left.append(Refusal(name, "it is not built as the attention of Llama is"))
            elif name not in several:
                number = site.groups * _element(known[name][1])
                whole[name] = Whole(site.m_h, m_v, True, number)
                groups[name], parts[name] = site.groups, known[name]
        if not whole:
            raise InputError(
                f"the weights of this {type(model).__name__} cannot be cut: {{value}}",
                "; ".join(map(str, left[:3])),
                "Models built as Llama, Mistral or Qwen2 are can be cut.",
            )
        causal = any(getattr(layer, "is_causal", True) for layer in there.values())
        cached = causal or writes(model)
        return cls(whole, groups, parts, None, tuple(left), length, frozenset(), cached)


def _several(known: Mapping[str, Sequence[nn.Module]]) -> list[str]:
    """The layers, or runs of a layer, that have weights in common with others."""
    owners: dict[int, list[str]] = {}
    for name, parts in known.items():
        for part in parts:
            owners.setdefault(id(part.weight), []).append(name)
    return [name for name in known if any(name in own and len(own) > 1 for own in owners.values())]


def _element(part: nn.Module) -> int:
    """The bytes of one number of a part's weights."""
    weight: Any = part.weight
    return int(weight.element_size())
