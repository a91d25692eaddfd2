"""BERT and the encoders that share its attention: RoBERTa, XLM-R, Electra, MiniLM and others."""

from contextlib import AbstractContextManager
from typing import Any

from torch import nn

from attnrate.spectra.adapters.interface import modules_of, text_streams, watch_interface
from attnrate.spectra.capture import Edit, See, Site

# MiniLM is made of BERT's classes. Those of all others have the same text under another name.
_MODELS = (
    "Bert",
    "BertGeneration",
    "Camembert",
    "Data2VecText",
    "Electra",
    "Ernie",
    "Roberta",
    "RobertaPreLayerNorm",
    "XLMRoberta",
    "XLMRobertaXL",
)


class Bert:
    """Encoders, and decoders that may look at an encoder's states."""

    family = "bert"

    def sites(self, model: nn.Module) -> list[Site]:
        """Every layer's self attention, and after it the cross attention where there is one."""
        names = [f"{name}{kind}Attention" for name in _MODELS for kind in ("Self", "Cross")]
        return [_site(model, path, part) for path, part in modules_of(model, *names)]

    def watch(
        self, model: nn.Module, sites: list[Site], see: See | None = None, edit: Edit | None = None
    ) -> AbstractContextManager[None]:
        """Through the attention interface."""
        return watch_interface(sites, see, edit)


def _site(model: nn.Module, path: str, part: Any) -> Site:
    kind = "cross" if type(part).__name__.endswith("CrossAttention") else "self"
    return Site(
        name=path,
        module=part,
        heads=part.num_attention_heads,
        groups=part.num_attention_heads,
        m_h=part.attention_head_size,
        kind=kind,
        streams=text_streams(model, path, kind),
    )
