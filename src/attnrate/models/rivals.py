"""The rivals of ViT and Seq2Seq: recurrent and state-space models of about their size."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Unpack, cast

import torch
from jaxtyping import Float, Int
from pydantic import ConfigDict, SkipValidation, with_config
from torch import nn
from typing_extensions import TypedDict

from attnrate.models.base import Counted, nearest_size
from attnrate.models.decoding import (
    DecoderState,
    TextChanges,
    TextSettings,
    WordTranslator,
    last_places,
)
from attnrate.models.presets import preset_of, with_changes
from attnrate.models.recurrent import GRU
from attnrate.models.seq2seq import Seq2Seq, Seq2SeqSettings
from attnrate.models.state_space import StateSpace
from attnrate.models.vit import Patches, PatchSettings, ViT, ViTSettings
from attnrate.settings import Count, by, checked, checked_fields

Tensor = torch.Tensor
C = TypeVar("C", bound=Counted)
#: The layers of a Scanner
Scan: TypeAlias = Literal["gru", "state-space"]


@checked_fields()
@dataclass(frozen=True)
class ScannerSettings(PatchSettings):
    """The sizes of a Scanner.

    Attributes:
        image: The side of the square images, in pixels.
        patch: The side of a patch, in pixels.
        stride: The distance between two patches, in pixels. Default: `patch`; a smaller stride
            makes the patches overlap.
        channels: The number of colours.
        classes: The number of classes.
        width: The number of features of a token.
        layers: The number of layers.
        dropout: The share of features that training leaves out, from 0 to below 1.
        order: A permutation of the patch tokens, Table 1's altered relation: the tokens x become
            x∘order before anything reads them. Default: none.
        kind: What the layers are: "gru" or "state-space".
        state: The size of the state of each channel of a state-space model.

    Examples:
        >>> ar.ScannerSettings(kind="state-space").state
        32

    """

    kind: Scan = "gru"
    state: Count = 32


SCANNER_PRESETS = {"gru": ScannerSettings(), "state-space": ScannerSettings(kind="state-space")}
#: The settings of a Scanner, or the kind of its layers
ScannerLike = Annotated[ScannerSettings | Scan, by(preset_of(SCANNER_PRESETS))]


@with_config(ConfigDict(extra="allow"))
class ScannerChanges(TypedDict, total=False):
    """Settings of a Scanner by name; `ScannerSettings` says what each means and checks it."""

    image: SkipValidation[int]
    patch: SkipValidation[int]
    stride: SkipValidation[int | None]
    channels: SkipValidation[int]
    classes: SkipValidation[int]
    width: SkipValidation[int]
    layers: SkipValidation[int]
    dropout: SkipValidation[float]
    order: SkipValidation[Sequence[int] | None]
    kind: SkipValidation[Scan]
    state: SkipValidation[int]


class Scanner(Counted):
    """A rival of ViT without attention: a GRU or a state-space model that scans the patches.

    Patches -> layers x + drop(causal(norm(x))) -> norm -> mean over the tokens -> classes, where
    `causal` reads the patches one after the other and so knows their order without positions.

    Args:
        settings: The sizes, or the kind of the layers, "gru" or "state-space".
        **changes: Settings that differ, by name; see `ScannerSettings`.

    Examples:
        >>> import torch
        >>> model = ar.Scanner("gru", image=8, patch=4, width=16, layers=1)
        >>> model(torch.rand(2, 3, 8, 8)).shape
        torch.Size([2, 10])

    """

    @checked
    def __init__(self, settings: ScannerLike = "gru", **changes: Unpack[ScannerChanges]) -> None:
        super().__init__()
        chosen = with_changes(settings, SCANNER_PRESETS, {**changes})
        self.settings = chosen
        width = chosen.width
        self.patches = Patches(chosen)
        self.layers = nn.ModuleList(
            GRU(width, width, width)
            if chosen.kind == "gru"
            else StateSpace(width, width, chosen.state, width)
            for _ in range(chosen.layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(chosen.layers))
        self.norm = nn.LayerNorm(width)
        self.drop = nn.Dropout(chosen.dropout)
        self.classify = nn.Linear(width, chosen.classes)

    def forward(
        self, images: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch classes"]:
        """Compute the logits of the classes."""
        x = self.patches(images)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + self.drop(layer(norm(x)))
        result: Tensor = self.classify(self.norm(x).mean(1))
        return result


@checked
def scanner_like(settings: ViTSettings, kind: Scan = "gru", layers: Count = 3) -> Scanner:
    """Make a Scanner for the same images with about as many parameters as a ViT.

    Args:
        settings: The settings of the ViT.
        kind: What the layers of the Scanner are: "gru" or "state-space".
        layers: The number of its layers. Default: 3.

    Returns:
        The Scanner; its width is chosen.

    Examples:
        >>> small = ar.ViTSettings(image=8, patch=4, width=16, layers=1, m_h=4, m_ff=32)
        >>> rival = ar.scanner_like(small, layers=1)
        >>> ar.ViT(small).parameter_count(), rival.parameter_count()
        (2738, 2635)

    """
    given = _shared(settings, PatchSettings) | {"layers": layers}
    return _of_size(lambda: ViT(settings), lambda width: Scanner(kind, **given | {"width": width}))


def _shared(settings: PatchSettings | TextSettings, kind: type) -> dict[str, Any]:
    """The settings that a model shares with its rival: those of their common kind."""
    return {each.name: getattr(settings, each.name) for each in fields(kind)}


def _of_size(attention: Callable[[], Counted], make: Callable[[int], C]) -> C:
    """The rival from `make(size)` that has about as many parameters as the attention model."""
    with torch.device("meta"):
        wanted = attention().parameter_count()
    return make(nearest_size(lambda size: make(size).parameter_count(), wanted))


@checked_fields()
@dataclass(frozen=True)
class GRUTranslatorSettings(TextSettings):
    """The sizes of a GRUTranslator.

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
        hidden: The size of the states.

    Examples:
        >>> ar.GRUTranslatorSettings().hidden
        512

    """

    layers: Count = 2
    hidden: Count = 512


TRANSLATOR_PRESETS = {"cpu": GRUTranslatorSettings()}
#: The settings of a GRUTranslator, or the name of a preset
GRUTranslatorLike = Annotated[
    GRUTranslatorSettings | Literal["cpu"], by(preset_of(TRANSLATOR_PRESETS))
]


@with_config(ConfigDict(extra="allow"))
class GRUTranslatorChanges(TextChanges, total=False):
    """Settings of a GRUTranslator by name; `GRUTranslatorSettings` says what each means."""

    hidden: SkipValidation[int]


class GRUTranslator(WordTranslator):
    """A rival of Seq2Seq without attention: an encoder-decoder of GRUs (Cho et al. 2014).

    The last states of the encoder begin those of the decoder, and the last layer's goes into each
    step of the decoder.

    Args:
        settings: The sizes, or the preset "cpu".
        **changes: Settings that differ, by name; see `GRUTranslatorSettings`.

    Examples:
        >>> import torch
        >>> model = ar.GRUTranslator(vocabulary=12, width=16, hidden=8)
        >>> model(torch.tensor([[5, 6, 7, 2]]), torch.tensor([[1, 8]])).shape
        torch.Size([1, 2, 12])

    """

    @checked
    def __init__(
        self, settings: GRUTranslatorLike = "cpu", **changes: Unpack[GRUTranslatorChanges]
    ) -> None:
        chosen = with_changes(settings, TRANSLATOR_PRESETS, {**changes})
        super().__init__(chosen)
        width, hidden = chosen.width, chosen.hidden
        sizes = [width, *[hidden] * (chosen.layers - 1)]
        self.encoders = nn.ModuleList(nn.GRU(size, hidden, batch_first=True) for size in sizes)
        sizes = [width + hidden, *sizes[1:]]
        self.decoders = nn.ModuleList(nn.GRU(size, hidden, batch_first=True) for size in sizes)
        self.narrow = nn.Linear(hidden, width)

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
        last_places(target, self.settings)
        return self._decoded(target, self.begin(source))[0]

    def begin(self, source: Int[Tensor, "batch S"]) -> DecoderState:
        """Prepare decoding: read the sources by the encoder.

        Args:
            source: Token numbers of the sources.

        Returns:
            The context, then the first state of every layer.

        """
        source, last = self.in_order(source)
        x = self.drop(self.embedded(source))
        finals = []
        for encoder in self.encoders:
            x, _ = encoder(x)
            # states at the last token; what comes after it is padding
            finals.append(x[torch.arange(len(x), device=x.device), last])
            x = self.drop(x)
        return finals[-1], tuple(finals)

    def step(
        self, state: DecoderState, tokens: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch width"], DecoderState]:
        """Go one token on.

        Args:
            state: What `begin` or the step before gave.
            tokens: The number of the next token of each sentence.

        Returns:
            The states after these tokens, and what the next step needs.

        """
        found, after = self._decoded(tokens[:, None], state)
        return found[:, 0], after

    def _decoded(
        self, target: Int[Tensor, "batch T"], state: DecoderState
    ) -> tuple[Float[Tensor, "batch T width"], DecoderState]:
        """The states at each place of the target, and what the next step needs."""
        context, before = cast(tuple[Tensor, tuple[Tensor, ...]], state)
        spread = context[:, None].expand(-1, target.shape[1], -1)
        x = torch.cat([self.drop(self.embedded(target)), spread], -1)
        after = []
        for decoder, first in zip(self.decoders, before, strict=True):
            x, last = decoder(x, first[None].contiguous())
            after.append(last[0])
            x = self.drop(x)
        return self.narrow(x), (context, tuple(after))


@checked
def translator_like(settings: Seq2SeqSettings, layers: Count = 2) -> GRUTranslator:
    """Make a GRUTranslator with about as many parameters as a Seq2Seq.

    Args:
        settings: The settings of the Seq2Seq.
        layers: The number of layers of the encoder and of the decoder each. Default: 2.

    Returns:
        The GRUTranslator; its `hidden` is chosen.

    Examples:
        >>> small = ar.Seq2SeqSettings(vocabulary=12, width=16, layers=1, m_h=4, m_ff=32)
        >>> rival = ar.translator_like(small)
        >>> ar.Seq2Seq(small).parameter_count(), rival.parameter_count()
        (5824, 5525)

    """
    given = _shared(settings, TextSettings) | {"layers": layers}
    return _of_size(
        lambda: Seq2Seq(settings), lambda hidden: GRUTranslator(**given | {"hidden": hidden})
    )
