"""Watching this package's own models: the Transformer of Eq. 5, ViT and Seq2Seq."""

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from attnrate.models.attention import Layer
from attnrate.models.multihead import NO_PADDING, Multihead
from attnrate.models.transformer import Transformer
from attnrate.spectra.adapters.hooks import projections, watch_outputs
from attnrate.spectra.capture import Call, Edit, See, Site

Tensor = torch.Tensor


class Own:
    """The adapter for Transformer, its subclasses with the same forward, and Multihead.

    What is padding is known from the calls of a Multihead.
    """

    family = "attnrate"

    def sites(self, model: nn.Module) -> list[Site]:
        """The layers `inner.0`, `inner.1`, … and `last` of each Transformer, and each Multihead."""
        found: list[Site] = []
        for path, part in model.named_modules():
            if isinstance(part, Transformer) and type(part).forward is Transformer.forward:
                inner = {f"inner.{i}": x for i, x in enumerate(part.inner) if isinstance(x, Layer)}
                prefix = path + "." if path else ""
                for name, own in {**inner, "last": part}.items():
                    found.append(_site(prefix + name, own, part))
            if isinstance(part, Multihead) and type(part).forward is Multihead.forward:
                # the name of cross attention in a decoder's layer
                kind = "cross" if path.rpartition(".")[2] == "across" else "self"
                found.append(_site(path or "attention", part, part, kind))
        return found

    def watch(
        self, model: nn.Module, sites: list[Site], see: See | None = None, edit: Edit | None = None
    ) -> AbstractContextManager[None]:
        """Watch the sites by hooks at W_Q, W_K and W_V."""
        return watch_outputs(sites, see, edit, projections, _call, ("x", "memory", "padding"))


def _site(name: str, part: nn.Module, sizes: Transformer | Multihead, kind: str = "self") -> Site:
    return Site(name, part, sizes.heads, sizes.heads, sizes.m_h, kind, streams=(None, None))


def _call(site: Site, query: Tensor, key: Tensor, value: Tensor, given: dict[str, Any]) -> Call:
    if isinstance(site.module, Multihead):
        padding = given.get("padding", NO_PADDING)
        part, kept = site.module, (padding.query, padding.key)
        return Call(query, key, value, part.scale, causal=part.causal, kept=kept)
    rule: Any = site.module.rule
    return Call(query, key, value, rule.factor, causal=rule.causal)


ADAPTERS = (Own(),)
