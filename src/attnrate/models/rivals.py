"""What ViT and Seq2Seq are compared with: recurrent and state-space models of about their size."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

import torch
from jaxtyping import Float, Int
from torch import nn

from attnrate.errors import require_choice
from attnrate.models.base import Counted, nearest_size
from attnrate.models.decoding import TextSettings, WordTranslator, last_places
from attnrate.models.presets import as_settings
from attnrate.models.recurrent import GRU
from attnrate.models.seq2seq import Seq2Seq, Seq2SeqSettings
from attnrate.models.state_space import StateSpace
from attnrate.models.vit import Patches, PatchSettings, ViT, ViTSettings
from attnrate.settings import Count, checked_fields

Tensor = torch.Tensor
C = TypeVar("C", bound=Counted)


@checked_fields()
@dataclass(frozen=True)
class ScannerSettings(PatchSettings):
    """Sizes of a Scanner, whose layers are of one `kind`; `state` is for state-space models."""

    kind: Literal["gru", "state-space"] = "gru"
    state: Count = 32


class Scanner(Counted):
    """Patches -> layers x + drop(causal(norm(x))) -> norm -> mean over the tokens -> classes.

    `causal` is a GRU or a diagonal state-space model, which read the patches one after the other;
    they know the order without any positions.
    """

    def __init__(self, settings: object = "gru", **changes: object) -> None:
        super().__init__()
        presets = {"gru": ScannerSettings(), "state-space": ScannerSettings(kind="state-space")}
        chosen = as_settings(presets, settings, changes)
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
        """Logits of the classes."""
        x = self.patches(images)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + self.drop(layer(norm(x)))
        result: Tensor = self.classify(self.norm(x).mean(1))
        return result


def scanner_like(settings: ViTSettings, kind: object = "gru", layers: object = 3) -> Scanner:
    """A Scanner for the same images with about as many parameters as a ViT of these settings."""
    require_choice("kind", kind, ("gru", "state-space"))
    given = _shared(settings, PatchSettings) | {"layers": layers}
    return _of_size(ViT, settings, lambda width: Scanner(str(kind), **given | {"width": width}))


def _shared(settings: PatchSettings | TextSettings, kind: type) -> dict[str, object]:
    """The settings that a model shares with its rival: those of their common kind."""
    return {each.name: getattr(settings, each.name) for each in fields(kind)}


def _of_size(
    attention: Callable[[object], Counted], settings: object, make: Callable[[int], C]
) -> C:
    """The rival that `make` makes of a size, with about as many parameters as the model has."""
    with torch.device("meta"):
        wanted = attention(settings).parameter_count()
    return make(nearest_size(lambda size: make(size).parameter_count(), wanted))


@checked_fields()
@dataclass(frozen=True)
class GRUTranslatorSettings(TextSettings):
    """Sizes of a GRUTranslator; `hidden` is that of its states."""

    layers: Count = 2
    hidden: Count = 512


class GRUTranslator(WordTranslator):
    """An encoder-decoder of GRUs (Cho et al. 2014), without attention.

    The encoder's last states begin the decoder's, and the last one goes into each of its steps.
    """

    def __init__(self, settings: object = "cpu", **changes: object) -> None:
        chosen = as_settings({"cpu": GRUTranslatorSettings()}, settings, changes)
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
        """What the decoder knows at each place of the target."""
        last_places(target, self.settings)
        return self._decoded(target, self.begin(source))[0]

    def begin(self, source: Int[Tensor, "batch S"]) -> Any:
        """The context, then the first state of every layer."""
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
        self, state: Any, tokens: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch width"], Any]:
        """One token on."""
        found, after = self._decoded(tokens[:, None], state)
        return found[:, 0], after

    def _decoded(
        self, target: Int[Tensor, "batch T"], state: Any
    ) -> tuple[Float[Tensor, "batch T width"], Any]:
        context, before = state
        spread = context[:, None].expand(-1, target.shape[1], -1)
        x = torch.cat([self.drop(self.embedded(target)), spread], -1)
        after = []
        for decoder, first in zip(self.decoders, before, strict=True):
            x, last = decoder(x, first[None].contiguous())
            after.append(last[0])
            x = self.drop(x)
        return self.narrow(x), (context, tuple(after))


def translator_like(settings: Seq2SeqSettings, layers: object = 2) -> GRUTranslator:
    """A GRUTranslator with about as many parameters as a Seq2Seq of these settings."""
    given = _shared(settings, TextSettings) | {"layers": layers}
    return _of_size(Seq2Seq, settings, lambda hidden: GRUTranslator(**given | {"hidden": hidden}))
