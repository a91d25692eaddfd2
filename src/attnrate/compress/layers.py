"""The attention layers of a model that can be cut, found by running it on one input."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from attnrate.compress.fold import path_of, require_thin
from attnrate.compress.generation import writes
from attnrate.compress.modules.llama import attention_layers
from attnrate.compress.modules.normed import normed_parts, require_same
from attnrate.compress.projections import Found, find
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
        rotary: Whether heads lose pairs of dimensions, because they are turned behind the parts.
        left: The layers that cannot be cut, each with its reason.
        length: The number of tokens of an input.
        behind: Whether queries and keys are normalised and turned before they can be cut.
        cached: Whether the model keeps keys and values for tokens to come.

    """

    whole: Mapping[str, Whole]
    groups: Mapping[str, int]
    parts: Mapping[str, tuple[nn.Module, ...]]
    rotary: bool
    left: tuple[str, ...]
    length: int
    behind: bool
    cached: bool

    @classmethod
    def of(cls, model: nn.Module, batch: Batch) -> "Layers":
        """Find them by running; an InputError names the first reason why there are none."""
        watcher = Watcher(model)
        sites: dict[str, tuple[Site, int]] = {}
        lengths: list[int] = []
        one = batches.pick(batch, [0]) if batches.is_separable(batch) else batch

        def see(site: Site, call: Call) -> None:
            sites[site.name] = site, call.value.shape[-1]
            lengths.append(call.query.shape[0] * call.query.shape[2] // batches.size(one))

        watcher.see(one, see)
        length = min(lengths, default=0)
        turned = [site for site, _ in sites.values() if site.rotary]
        if turned and all(normed_parts(site.module) is None for site in turned):
            return cls._of_rotary(model, sites, length)
        found = find(Watcher(model), one)
        left = tuple(f"{each.name}: {each.reason}" for each in found.refused)
        if not found.projections:
            raise InputError(
                f"the weights of this {type(model).__name__} cannot be cut: {{value}}",
                "; ".join(left[:3]) or "it has no attention that could be read",
            )
        for own in found.projections.values():
            require_thin(model, own)
        behind = [path_of(n) for n, own in found.projections.items() if own.behind]
        if behind:
            require_same(model, behind, one)
        causal = any(getattr(model.get_submodule(n), "is_causal", False) for n in behind)
        return cls._of_content(found, left, length, bool(behind), causal or writes(model))

    @classmethod
    def _of_content(
        cls, found: Found, left: tuple[str, ...], length: int, behind: bool, cached: bool
    ) -> "Layers":
        whole, groups, parts = {}, {}, {}
        for name, own in found.projections.items():
            number = own.site.groups * _element(own.key.part)
            whole[name] = Whole(own.site.m_h, own.value.features.shape[1], False, number)
            groups[name] = own.site.groups
            parts[name] = own.query.part, own.key.part, own.value.part, own.output.part
        return cls(whole, groups, parts, False, left, length, behind, cached)

    @classmethod
    def _of_rotary(
        cls, model: nn.Module, sites: Mapping[str, tuple[Site, int]], length: int
    ) -> "Layers":
        there = attention_layers(model)
        whole, groups, parts = {}, {}, {}
        for name, (site, m_v) in sites.items():
            if name in there:
                layer: Any = there[name]
                number = site.groups * _element(layer.k_proj)
                whole[name] = Whole(site.m_h, m_v, True, number)
                groups[name] = site.groups
                parts[name] = layer.q_proj, layer.k_proj, layer.v_proj, layer.o_proj
        why = "it is not built as the attention of Llama is"
        left = tuple(f"{name}: {why}" for name in sites if name not in there)
        if not whole:
            raise InputError(
                f"the weights of this {type(model).__name__} cannot be cut: {{value}}",
                "; ".join(left[:3]),
                "Models built as Llama, Mistral or Qwen2 are can be cut.",
            )
        return cls(whole, groups, parts, True, left, length, False, True)


def _element(part: nn.Module) -> int:
    """The bytes of one number of a part's weights."""
    weight: Any = part.weight
    return int(weight.element_size())
