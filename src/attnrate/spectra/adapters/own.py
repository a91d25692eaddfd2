"""This package's own Transformers: the inner layers, then the last one (Eq. 5)."""

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from attnrate.models.attention import Layer
from attnrate.models.transformer import Transformer
from attnrate.spectra.adapters.hooks import watch_outputs
from attnrate.spectra.capture import Call, Edit, See, Site

Tensor = torch.Tensor


class Own:
    """attnrate.Transformer and the classes that are made from it without another forward."""

    family = "attnrate"

    def sites(self, model: nn.Module) -> list[Site]:
        """`inner.0`, `inner.1`, ... and `last`, of every Transformer in the model."""
        return [
            site
            for path, part in model.named_modules()
            if isinstance(part, Transformer) and type(part).forward is Transformer.forward
            for site in _sites(path + "." if path else "", part)
        ]

    def watch(
        self, model: nn.Module, sites: list[Site], see: See | None = None, edit: Edit | None = None
    ) -> AbstractContextManager[None]:
        """By hooks at W_Q, W_K, W_V."""
        return watch_outputs(sites, see, edit, _parts, _call)


def _sites(prefix: str, model: Transformer) -> list[Site]:
    layers: list[tuple[str, Layer | Transformer]] = [
        (f"inner.{index}", layer)
        for index, layer in enumerate(model.inner)
        if isinstance(layer, Layer)
    ]
    return [
        Site(prefix + name, part, model.heads, model.heads, model.m_h, streams=(None, None))
        for name, part in [*layers, ("last", model)]
    ]


def _parts(module: Any) -> tuple[nn.Module, nn.Module, nn.Module]:
    return module.W_Q, module.W_K, module.W_V


def _call(site: Site, query: Tensor, key: Tensor, value: Tensor, _given: dict[str, Any]) -> Call:
    rule: Any = site.module.rule
    return Call(query, key, value, rule.factor, causal=rule.causal)
