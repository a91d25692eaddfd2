"""Whisper: an encoder of audio frames, and a decoder that looks at itself and at the encoder.

Queries arrive scaled by 1/√m_h already, so a call's scale is 1.
"""

from contextlib import AbstractContextManager
from typing import Any

from torch import nn

from attnrate.spectra.adapters.interface import modules_of, watch_interface
from attnrate.spectra.capture import Edit, See, Site

# Audio is cut or filled to one length and its frames are never masked: silence counts as sound.
_FRAMES = None
_TOKENS = "decoder_attention_mask"


class Whisper:
    """Speech to text: `encoder…self_attn`, `decoder…self_attn` and `decoder…encoder_attn`."""

    family = "whisper"

    def sites(self, model: nn.Module) -> list[Site]:
        """The encoder's layers, then each decoder layer's self and cross attention."""
        return [_site(path, part) for path, part in modules_of(model, "WhisperAttention")]

    def watch(
        self, model: nn.Module, sites: list[Site], see: See | None = None, edit: Edit | None = None
    ) -> AbstractContextManager[None]:
        """Through the attention interface."""
        return watch_interface(sites, see, edit)


def _site(path: str, part: Any) -> Site:
    cross = path.endswith("encoder_attn")
    queries = _TOKENS if part.is_decoder else _FRAMES
    return Site(
        name=path,
        module=part,
        heads=part.num_heads,
        groups=part.num_heads,
        m_h=part.head_dim,
        kind="cross" if cross else "self",
        streams=(queries, _FRAMES if cross else queries),
    )
