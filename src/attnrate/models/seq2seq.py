"""Seq2Seq: the Transformer of Vaswani et al. (2017), from a sentence to its translation.

Norms come before each part and once at the end, which trains without their long warm-up; else it is
theirs: sinusoidal positions, ReLU, and one matrix for both embeddings and the read-out.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import nn

from attnrate.errors import InputError
from attnrate.models.decoding import TextSettings, WordTranslator, last_places
from attnrate.models.multihead import FeedForward, Layer, Multihead, Padding
from attnrate.models.positions import sinusoids
from attnrate.models.presets import as_settings
from attnrate.settings import Count, checked_fields

Tensor = torch.Tensor


@checked_fields()
@dataclass(frozen=True)
class Seq2SeqSettings(TextSettings):
    """Sizes of a Seq2Seq with `layers` layers in encoder and decoder each."""

    heads: Count = 4
    m_h: Count = 64
    m_v: Count | None = None
    m_ff: Count = 512


#: `paper` is the base model of Vaswani et al. with their shared vocabulary of 37,000
SEQ2SEQ_PRESETS = {
    "cpu": Seq2SeqSettings(),
    "paper": Seq2SeqSettings(
        vocabulary=37_000, width=512, layers=6, heads=8, m_h=64, m_ff=2048, longest=512
    ),
}


def seq2seq_settings(preset: object = "cpu", **changes: object) -> Seq2SeqSettings:
    """The settings of a preset (`cpu` or `paper`) or given ones, with changes."""
    return as_settings(SEQ2SEQ_PRESETS, preset, changes)


class Seq2Seq(WordTranslator):
    """Encoder and decoder, each with its own positions, joined by attention across."""

    settings: Seq2SeqSettings

    def __init__(self, settings: object = "cpu", **changes: object) -> None:
        chosen = seq2seq_settings(settings, **changes)
        super().__init__(chosen)
        sizes = chosen.width, chosen.heads, chosen.m_h, chosen.m_v, chosen.m_ff, chosen.dropout
        self.encoder_layers = nn.ModuleList(Layer(*sizes, nn.ReLU()) for _ in range(chosen.layers))
        self.encoder_norm = nn.LayerNorm(chosen.width)
        self.decoder_layers = nn.ModuleList(_Decoder(chosen) for _ in range(chosen.layers))
        self.decoder_norm = nn.LayerNorm(chosen.width)
        places = sinusoids(chosen.longest, chosen.width).float()
        self.positions: Tensor
        self.register_buffer("positions", places, persistent=False)

    def encode(
        self, source: Int[Tensor, "batch S"]
    ) -> tuple[Float[Tensor, "batch S width"], Bool[Tensor, "batch S"] | None]:
        """The source's tokens after the encoder, and which are no padding; None: all."""
        source, _ = self.in_order(source)
        kept = self._kept(source)
        x = self._placed(source)
        for layer in self.encoder_layers:
            x = layer(x, Padding(kept, kept))
        return self.encoder_norm(x), kept

    def states(
        self, source: Int[Tensor, "batch S"], target: Int[Tensor, "batch T"]
    ) -> Float[Tensor, "batch T width"]:
        """What the decoder knows at each place of the target."""
        memory, kept = self.encode(source)
        last_places(target, self.settings)
        own = self._kept(target)
        x = self._placed(target)
        for layer in self.decoder_layers:
            x = layer(x, memory, Padding(own, own), Padding(own, kept))
        result: Tensor = self.decoder_norm(x)
        return result

    def begin(self, source: Int[Tensor, "batch S"]) -> Any:
        """Keys and values of the source for every layer; of the target, none yet."""
        memory, kept = self.encode(source)
        kept = torch.ones_like(source, dtype=torch.bool) if kept is None else kept
        none = memory[:, :0]
        across = tuple(layer.across.remember(memory) for layer in self._decoders)
        own = tuple(layer.attention.remember(none) for layer in self._decoders)
        return kept, across, own

    def step(
        self, state: Any, tokens: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch width"], Any]:
        """One token on, with the keys and values of those before it."""
        kept, across, own = state
        place = own[0][0].shape[2]
        if place >= self.settings.longest:
            raise InputError(
                "a translation may have no more tokens than the model has positions", place + 1
            )
        x = self.drop(self.embedded(tokens[:, None]) + self.positions[place])
        after = []
        for layer, source, before in zip(self._decoders, across, own, strict=True):
            x, so_far = layer.step(x, before, source, Padding(key=kept))
            after.append(so_far)
        return self.decoder_norm(x)[:, 0], (kept, across, tuple(after))

    @property
    def _decoders(self) -> list["_Decoder"]:
        return [layer for layer in self.decoder_layers if isinstance(layer, _Decoder)]

    def _kept(self, tokens: Int[Tensor, "batch S"]) -> Bool[Tensor, "batch S"] | None:
        """Which tokens are no padding; None: all."""
        kept = tokens != self.specials.pad
        return None if bool(kept.all()) else kept

    def _placed(self, tokens: Int[Tensor, "batch S"]) -> Float[Tensor, "batch S width"]:
        placed: Tensor = self.drop(self.embedded(tokens) + self.positions[: tokens.shape[1]])
        return placed


class _Decoder(nn.Module):
    """Attention to the target so far, attention across to the source, feed-forward."""

    def __init__(self, settings: Seq2SeqSettings) -> None:
        super().__init__()
        width, heads, m_h, m_v = settings.width, settings.heads, settings.m_h, settings.m_v
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.norm_3 = nn.LayerNorm(width)
        self.attention = Multihead(width, heads, m_h, m_v, causal=True)
        self.across = Multihead(width, heads, m_h, m_v)
        self.feed_forward = FeedForward(width, settings.m_ff, nn.ReLU(), settings.dropout)
        self.drop = nn.Dropout(settings.dropout)

    def forward(
        self,
        x: Float[Tensor, "batch T width"],
        memory: Float[Tensor, "batch S width"],
        own: Padding,
        across: Padding,
    ) -> Float[Tensor, "batch T width"]:
        """Target tokens in, target tokens out."""
        x = x + self.drop(self.attention(self.norm_1(x), padding=own))
        x = x + self.drop(self.across(self.norm_2(x), memory, across))
        result: Tensor = x + self.drop(self.feed_forward(self.norm_3(x)))
        return result

    def step(
        self,
        x: Float[Tensor, "batch 1 width"],
        before: tuple[Tensor, Tensor],
        source: tuple[Tensor, Tensor],
        padding: Padding,
    ) -> tuple[Float[Tensor, "batch 1 width"], tuple[Tensor, Tensor]]:
        """One token with the keys and values before it; returns those with its own."""
        y = self.norm_1(x)
        new = self.attention.remember(y)
        keys, values = (torch.cat(pair, 2) for pair in zip(before, new, strict=True))
        x = x + self.attention.attend(y, keys, values)
        x = x + self.across.attend(self.norm_2(x), *source, padding)
        return x + self.feed_forward(self.norm_3(x)), (keys, values)
