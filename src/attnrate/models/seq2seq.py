"""Seq2Seq: the Transformer of Vaswani et al. (2017), from a sentence to its translation.

Norms come before each part and once at the end, which trains without their long warm-up. Everything
else is as they have it: sinusoidal positions, ReLU, and one matrix for both embeddings and the
read-out.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, Unpack, cast

import torch
from jaxtyping import Bool, Float, Int
from pydantic import ConfigDict, SkipValidation, with_config
from torch import nn

from attnrate.errors import InputError
from attnrate.models.decoding import (
    DecoderState,
    TextChanges,
    TextSettings,
    WordTranslator,
    last_places,
)
from attnrate.models.multihead import FeedForward, Layer, Multihead, Padding
from attnrate.models.positions import sinusoids
from attnrate.models.presets import preset_of, with_changes
from attnrate.settings import Count, by, checked, checked_fields

Tensor = torch.Tensor
#: Keys and values of every layer
_Memory: TypeAlias = tuple[tuple[Tensor, Tensor], ...]
#: Which tokens of the source are no padding, the memory of the source, that of the target so far
_State: TypeAlias = tuple[Tensor, _Memory, _Memory]


@checked_fields()
@dataclass(frozen=True)
class Seq2SeqSettings(TextSettings):
    """The sizes of a Seq2Seq.

    Attributes:
        vocabulary: The size of the vocabulary.
        width: The number of features of a token.
        layers: The number of layers for the source and for the target each.
        dropout: The share of features that training leaves out, from 0 to below 1.
        moved: Table 1's altered relation: this many tokens at the beginning of a source come last,
            before anything reads them. The target's order stays, because it is read causally.
        longest: The largest number of tokens of a sentence.
        pad: The number of the token that fills up sentences.
        begin: The number of the token that begins a target.
        end: The number of the token that ends a sentence.
        heads: The number of heads of each layer.
        m_h: The head size.
        m_v: The size of the values of a head. Default: m_h.
        m_ff: The number of hidden units of the feed-forward networks.

    Examples:
        >>> ar.Seq2SeqSettings(m_h=8).heads
        4

    """

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


#: The settings of a Seq2Seq, or the name of a preset
Seq2SeqLike = Annotated[Seq2SeqSettings | Literal["cpu", "paper"], by(preset_of(SEQ2SEQ_PRESETS))]


#: Settings or any word, which is checked at run time
_Seq2SeqGiven = Annotated[Seq2SeqSettings | str, by(preset_of(SEQ2SEQ_PRESETS))]


@with_config(ConfigDict(extra="allow"))
class Seq2SeqChanges(TextChanges, total=False):
    """Settings of a Seq2Seq by name; `Seq2SeqSettings` says what each means and checks it."""

    heads: SkipValidation[int]
    m_h: SkipValidation[int]
    m_v: SkipValidation[int | None]
    m_ff: SkipValidation[int]


@checked
def seq2seq_settings(
    settings: _Seq2SeqGiven = "cpu", **changes: Unpack[Seq2SeqChanges]
) -> Seq2SeqSettings:
    """The settings of a preset (`cpu` or `paper`), or given ones, with changes."""
    return with_changes(settings, SEQ2SEQ_PRESETS, {**changes})


class Seq2Seq(WordTranslator):
    """The Transformer of Vaswani et al. (2017), from a sentence to its translation.

    Encoder and decoder have their own positions and are joined by attention across. Norms come
    before each part.

    Args:
        settings: The sizes, or a preset: "cpu", or "paper", the base model of Vaswani et al.
        **changes: Settings that differ, by name; see `Seq2SeqSettings`.

    Examples:
        >>> import torch
        >>> model = ar.Seq2Seq(vocabulary=12, width=16, layers=1, m_h=4, m_ff=32)
        >>> source, begun = torch.tensor([[5, 6, 7, 2]]), torch.tensor([[1, 8]])
        >>> model(source, begun).shape
        torch.Size([1, 2, 12])

    """

    settings: Seq2SeqSettings

    @checked
    def __init__(self, settings: Seq2SeqLike = "cpu", **changes: Unpack[Seq2SeqChanges]) -> None:
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
        """Read a source by the encoder.

        Args:
            source: Token numbers, each sentence with its end, then padding.

        Returns:
            The tokens after the encoder, and which of them are no padding; None for all.

        """
        source, x = self._placed_source(source)
        kept = self._kept(source)
        for layer in self.encoder_layers:
            x = layer(x, Padding(kept, kept))
        return self.encoder_norm(x), kept

    def states(
        self, source: Int[Tensor, "batch S"], target: Int[Tensor, "batch T"]
    ) -> Float[Tensor, "batch T width"]:
        """Compute what the decoder knows at each place of the target.

        Args:
            source: Token numbers of the sources.
            target: Token numbers of the targets, from their beginning.

        Returns:
            The states, which `read_out` turns into logits.

        """
        memory, kept = self.encode(source)
        last_places(target, self.settings)
        own = self._kept(target)
        x = self._placed(target)
        for layer in self.decoder_layers:
            x = layer(x, memory, Padding(own, own), Padding(own, kept))
        result: Tensor = self.decoder_norm(x)
        return result

    def begin(self, source: Int[Tensor, "batch S"]) -> DecoderState:
        """Prepare decoding: compute the keys and values of the source for every layer.

        Args:
            source: Token numbers of the sources.

        Returns:
            What the first `step` needs.

        """
        memory, kept = self.encode(source)
        kept = torch.ones_like(source, dtype=torch.bool) if kept is None else kept
        none = memory[:, :0]
        across = tuple(layer.across.remember(memory) for layer in self._decoders)
        own = tuple(layer.attention.remember(none) for layer in self._decoders)
        return kept, across, own

    def step(
        self, state: DecoderState, tokens: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch width"], DecoderState]:
        """Go one token on, with the keys and values of those before it.

        Args:
            state: What `begin` or the step before gave.
            tokens: The number of the next token of each sentence.

        Returns:
            The states after these tokens, and what the next step needs.

        """
        kept, across, own = cast(_State, state)
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
        """Which tokens are no padding; None for all."""
        kept = tokens != self.specials.pad
        return None if bool(kept.all()) else kept

    def _placed_source(
        self, source: Int[Tensor, "batch S"]
    ) -> tuple[Int[Tensor, "batch S"], Float[Tensor, "batch S width"]]:
        """The source in the order in which the encoder reads it, and its tokens with positions."""
        source, _ = self.in_order(source)
        return source, self._placed(source)

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
        self.attention = Multihead(width, heads, m_h, m_v, causal=True, in_cache=True)
        self.across = Multihead(width, heads, m_h, m_v, in_cache=True)
        self.feed_forward = FeedForward(width, settings.m_ff, nn.ReLU(), settings.dropout)
        self.drop = nn.Dropout(settings.dropout)

    def forward(
        self,
        x: Float[Tensor, "batch T width"],
        memory: Float[Tensor, "batch S width"],
        own: Padding,
        across: Padding,
    ) -> Float[Tensor, "batch T width"]:
        """Map the tokens of the target to tokens of the same shape."""
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
        """Map one token, given the keys and values before it; also give these with its own."""
        y = self.norm_1(x)
        new = self.attention.remember(y)
        keys, values = (torch.cat(pair, 2) for pair in zip(before, new, strict=True))
        x = x + self.attention.attend(y, keys, values)
        x = x + self.across.attend(self.norm_2(x), *source, padding)
        return x + self.feed_forward(self.norm_3(x)), (keys, values)
