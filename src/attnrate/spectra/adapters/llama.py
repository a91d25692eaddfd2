"""Llama and its relatives (SmolLM, Mistral, Qwen 2 and 3): RoPE, grouped queries, QK-norm."""

from contextlib import AbstractContextManager
from typing import Any

from torch import nn

from attnrate.spectra.adapters.interface import modules_of, watch_interface
from attnrate.spectra.capture import Edit, See, Site

_CLASSES = ("LlamaAttention", "MistralAttention", "Qwen2Attention", "Qwen3Attention")


class Llama:
    """Decoders with rotary embedding, whose key heads may serve several query heads."""

    family = "llama"

    def sites(self, model: nn.Module) -> list[Site]:
        """One site a decoder layer."""
        return [_site(path, part) for path, part in modules_of(model, *_CLASSES)]

    def watch(
        self, model: nn.Module, sites: list[Site], see: See | None = None, edit: Edit | None = None
    ) -> AbstractContextManager[None]:
        """Through the attention interface; before the rotation, at the projections or norms."""
        return watch_interface(sites, see, edit, _before_rotation)


def _site(path: str, part: Any) -> Site:
    config = part.config
    return Site(
        name=path,
        module=part,
        heads=config.num_attention_heads,
        groups=config.num_key_value_heads,
        m_h=part.head_dim,
        rotary=True,
    )


def _before_rotation(part: Any) -> tuple[nn.Module, nn.Module]:
    # Qwen 3 norms each head's queries and keys after the projection and before the rotation.
    if hasattr(part, "q_norm"):
        return part.q_norm, part.k_norm
    return part.q_proj, part.k_proj
