"""GPT-2: causal self attention, and cross attention where it is the decoder of a pair."""

from contextlib import AbstractContextManager
from typing import Any

from torch import nn

from attnrate.errors import InputError
from attnrate.spectra.adapters.interface import modules_of, text_streams, watch_interface
from attnrate.spectra.capture import Edit, See, Site


class GPT2:
    """Decoders that make queries, keys and values in one product."""

    family = "gpt2"

    def sites(self, model: nn.Module) -> list[Site]:
        """Every block's self attention, and after it the cross attention where there is one."""
        return [_site(model, path, part) for path, part in modules_of(model, "GPT2Attention")]

    def watch(
        self, model: nn.Module, sites: list[Site], see: See | None = None, edit: Edit | None = None
    ) -> AbstractContextManager[None]:
        """Through the attention interface, which one way of computing does not use."""
        for site in sites:
            part: Any = site.module
            if part.reorder_and_upcast_attn and part.config._attn_implementation == "eager":
                raise InputError(
                    f"{site.name} computes its logits out of sight; reorder_and_upcast_attn",
                    True,
                    'Call model.set_attn_implementation("sdpa") first, or load the model with '
                    "reorder_and_upcast_attn=False.",
                )
        return watch_interface(sites, see, edit)


def _site(model: nn.Module, path: str, part: Any) -> Site:
    kind = "cross" if part.is_cross_attention else "self"
    return Site(
        name=path,
        module=part,
        heads=part.num_heads,
        groups=part.num_heads,
        m_h=part.head_dim,
        kind=kind,
        streams=text_streams(model, path, kind),
    )
