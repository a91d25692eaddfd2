"""MPNet: self attention of its own making, with a relative position bias that all layers share."""

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from attnrate.spectra.adapters.hooks import watch_outputs
from attnrate.spectra.adapters.interface import modules_of
from attnrate.spectra.capture import Call, Edit, See, Site

Tensor = torch.Tensor
_ARGUMENTS = ("hidden_states", "attention_mask", "position_bias")


class MPNet:
    """Encoders whose attention adds a bias by the distance of two tokens."""

    family = "mpnet"

    def sites(self, model: nn.Module) -> list[Site]:
        """One site an encoder layer."""
        return [
            Site(
                name=path,
                module=part,
                heads=part.num_attention_heads,
                groups=part.num_attention_heads,
                m_h=part.attention_head_size,
            )
            for path, part in modules_of(model, "MPNetSelfAttention")
        ]

    def watch(
        self, model: nn.Module, sites: list[Site], see: See | None = None, edit: Edit | None = None
    ) -> AbstractContextManager[None]:
        """By hooks: MPNet does not use the attention interface."""
        return watch_outputs(sites, see, edit, _parts, _call, _ARGUMENTS)


def _parts(module: Any) -> tuple[nn.Module, nn.Module, nn.Module]:
    return module.q, module.k, module.v


def _call(site: Site, query: Tensor, key: Tensor, value: Tensor, given: dict[str, Any]) -> Call:
    mask, bias = given.get("attention_mask"), given.get("position_bias")
    return Call(query, key, value, site.m_h**-0.5, mask, bias)
