"""The known families of `transformers`: their classes of attention, and in what they differ.

A text family that uses the attention interface is one line of `ADAPTERS`. Others also say which
entries of a batch mark padding, or how they are watched.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from attnrate.errors import InputError
from attnrate.settings import checked_fields
from attnrate.spectra.adapters.hooks import projections, watch_outputs
from attnrate.spectra.adapters.interface import watch_interface
from attnrate.spectra.capture import Call, Edit, See, Site, Streams

Tensor = torch.Tensor
Watch = Callable[[list[Site], See | None, Edit | None], AbstractContextManager[None]]
"""A function that opens a watch over sites, as an adapter's `watch` does."""

# The name of the mask of the encoder's states, which are the decoder's keys, in an encoder-decoder
# made of two models. Patches have no padding; frames of sound are fewer than the mask's entries.
_PAIRS = {
    "EncoderDecoderModel": "attention_mask",
    "VisionEncoderDecoderModel": None,
    "SpeechEncoderDecoderModel": None,
}
# MiniLM uses BERT's classes; the others have copies of them under names of their own.
_LIKE_BERT = (
    *("Bert", "BertGeneration", "Camembert", "Data2VecText", "Electra", "Ernie"),
    *("Roberta", "RobertaPreLayerNorm", "XLMRoberta", "XLMRobertaXL"),
)
_LIKE_VIT = ("ViT", "DeiT", "Dinov2", "Dinov2WithRegisters", "IJepa", "ViTMAE", "ViTMSN")
_LIKE_LLAMA = ("Llama", "Mistral", "Qwen2", "Qwen3")


def _of_transformers(part: nn.Module) -> bool:
    return type(part).__module__.startswith("transformers.")


def _text(model: nn.Module, path: str, part: Any, cross: bool) -> Streams:
    """The names of a text model's masks, whether it is alone or half of an encoder-decoder."""
    own: str = "attention_mask"
    other: str | None = "encoder_attention_mask"
    pair = type(model).__name__
    if pair in _PAIRS and _of_transformers(model) and path.startswith("decoder."):
        own, other = "decoder_attention_mask", _PAIRS[pair]
    return own, other if cross else own


def _patches(model: nn.Module, path: str, part: Any, cross: bool) -> Streams:
    """No masks, because patches of an image have no padding."""
    return None, None


def _sound(model: nn.Module, path: str, part: Any, cross: bool) -> Streams:
    """The name of the mask of a decoder's tokens; the frames of sound have none.

    Sound is cut or filled up to one length, and its frames are never masked: silence counts.
    """
    queries = "decoder_attention_mask" if part.is_decoder else None
    return queries, None if cross else queries


@checked_fields()
@dataclass(frozen=True)
class Family:
    """The adapter of a family of `transformers`.

    Args:
        family: Its name.
        classes: Names of its classes of attention. They have num_attention_heads or num_heads
            (themselves or in their config), attention_head_size or head_dim, and
            num_key_value_groups where several query heads share keys.
        streams: A function of a model, a layer's path and module, and whether the layer is cross
            attention. It gives the entries of a batch that mark which queries and which keys are
            no padding.
        rotary: Whether queries and keys are turned by their positions. `opened` must then also
            show them before that, as for Llama.
        opened: How layers are watched; by default through the attention interface.

    """

    family: str
    classes: tuple[str, ...]
    streams: Callable[[nn.Module, str, Any, bool], Streams] = _text
    rotary: bool = False
    opened: Watch = watch_interface

    def sites(self, model: nn.Module) -> list[Site]:
        """The parts of a model whose class is one of the family's, in the model's order."""
        return [
            self._site(model, path, part)
            for path, part in model.named_modules()
            if type(part).__name__ in self.classes and _of_transformers(part)
        ]

    def watch(
        self, model: nn.Module, sites: list[Site], see: See | None = None, edit: Edit | None = None
    ) -> AbstractContextManager[None]:
        """While it is open, calls of these sites go to `see`, their queries through `edit`."""
        return self.opened(sites, see, edit)

    def _site(self, model: nn.Module, path: str, part: Any) -> Site:
        heads = _first_of("num_attention_heads", "num_heads", part, getattr(part, "config", None))
        cross = _is_cross(path, part)
        return Site(
            name=path,
            module=part,
            heads=heads,
            groups=heads // getattr(part, "num_key_value_groups", 1),
            m_h=_first_of("attention_head_size", "head_dim", part),
            kind="cross" if cross else "self",
            rotary=self.rotary,
            streams=self.streams(model, path, part, cross),
        )


def _first_of(name: str, other: str, *holders: Any) -> int:
    """A number that families keep under one of two names, in the module or in its config."""
    found = (getattr(part, each, None) for part in holders for each in (name, other))
    number = next((number for number in found if number is not None), None)
    if number is None:
        raise InputError(
            f"this class of attention has neither {name} nor {other}",
            type(holders[0]).__name__,
            "A Family cannot describe it; write an adapter (docs/profile.md, 'Another family').",
        )
    return int(number)


def _is_cross(path: str, part: Any) -> bool:
    """Whether keys come from another sequence, by the module's class, attribute or place."""
    return (
        type(part).__name__.endswith("CrossAttention")
        or getattr(part, "is_cross_attention", False)
        or path.endswith("encoder_attn")
    )


def _watch_gpt2(
    sites: list[Site], see: See | None, edit: Edit | None
) -> AbstractContextManager[None]:
    """Watch GPT-2 through the attention interface; one of its implementations does not use it."""
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


def _before_rotation(part: Any) -> tuple[nn.Module, nn.Module]:
    # Qwen 3 norms each head's queries and keys after the projection and before the rotation.
    if hasattr(part, "q_norm"):
        return part.q_norm, part.k_norm
    return part.q_proj, part.k_proj


def _call_of_mpnet(
    site: Site, query: Tensor, key: Tensor, value: Tensor, given: dict[str, Any]
) -> Call:
    mask, bias = given.get("attention_mask"), given.get("position_bias")
    return Call(query, key, value, site.m_h**-0.5, mask, bias)


ADAPTERS = (
    Family("bert", tuple(f"{name}{k}Attention" for name in _LIKE_BERT for k in ("Self", "Cross"))),
    # It does not use the attention interface, and has a position bias that all layers share.
    Family(
        "mpnet",
        ("MPNetSelfAttention",),
        opened=partial(
            watch_outputs,
            parts=projections,
            made=_call_of_mpnet,
            names=("hidden_states", "attention_mask", "position_bias"),
        ),
    ),
    Family("vit", tuple(f"{name}Attention" for name in _LIKE_VIT), _patches),
    Family("gpt2", ("GPT2Attention",), opened=_watch_gpt2),
    Family(
        "llama",
        tuple(f"{name}Attention" for name in _LIKE_LLAMA),
        rotary=True,
        opened=partial(watch_interface, plain=_before_rotation),
    ),
    # Queries arrive scaled by 1/√m_h already, so a call's scale is 1.
    Family("whisper", ("WhisperAttention",), _sound),
)
