"""What ViT and Seq2Seq are compared with: recurrent and state-space models of about their size."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import nn

from attnrate.errors import require_choice
from attnrate.models.base import Counted, nearest_size
from attnrate.models.decoding import Specials, Translator, last_places, moved_to_end
from attnrate.models.presets import as_settings, check_share, check_whole
from attnrate.models.recurrent import GRU
from attnrate.models.seq2seq import Seq2SeqSettings
from attnrate.models.state_space import StateSpace
from attnrate.models.vit import Patches, ViTSettings

Tensor = torch.Tensor


@dataclass(frozen=True)
class ScannerSettings:
    """Sizes of a Scanner; patches and `order` are those of a ViT."""

    kind: Literal["gru", "state-space"] = "gru"
    image: int = 32
    patch: int = 4
    stride: int | None = None
    channels: int = 3
    classes: int = 10
    width: int = 128
    layers: int = 6
    state: int = 32
    dropout: float = 0.0
    order: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        self.check(vars(self))

    @staticmethod
    def check(values: Mapping[str, object]) -> None:
        """An InputError for the first setting that cannot be."""
        require_choice("kind", values["kind"], ("gru", "state-space"))
        check_whole(values, "width", "layers", "state")
        shared = {name: values[name] for name in values if name not in ("kind", "state")}
        ViTSettings.check(vars(ViTSettings()) | shared)

    @property
    def patches(self) -> ViTSettings:
        """The same image as a ViT sees it."""
        return ViTSettings(
            image=self.image,
            patch=self.patch,
            stride=self.stride,
            channels=self.channels,
            width=self.width,
            order=self.order,
        )


class Scanner(Counted):
    """Patches -> layers x + drop(causal(norm(x))) -> norm -> mean over the tokens -> classes.

    `causal` is a GRU or a diagonal state-space model, which read the patches one after the other;
    they know the order without any positions.
    """

    def __init__(self, settings: object = "gru", **changes: object) -> None:
        super().__init__()
        presets = {"gru": ScannerSettings(), "state-space": ScannerSettings("state-space")}
        chosen = as_settings(presets, settings, changes)
        self.settings = chosen
        width = chosen.width
        self.patches = Patches(chosen.patches)
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
    from attnrate.models.vit import ViT

    with torch.device("meta"):
        wanted = ViT(settings).parameter_count()
    shared = ("image", "patch", "stride", "channels", "classes", "dropout", "order")
    given = {name: getattr(settings, name) for name in shared}

    def made(width: int) -> Scanner:
        return Scanner(str(kind), **given, layers=layers, width=width)

    return made(nearest_size(lambda width: made(width).parameter_count(), wanted))


@dataclass(frozen=True)
class GRUTranslatorSettings:
    """Sizes of a GRUTranslator; the others are as in Seq2SeqSettings."""

    vocabulary: int = 8000
    width: int = 256
    hidden: int = 512
    layers: int = 2
    dropout: float = 0.1
    moved: int = 0
    longest: int = 256
    pad: int = 0
    begin: int = 1
    end: int = 2

    def __post_init__(self) -> None:
        self.check(vars(self))

    @staticmethod
    def check(values: Mapping[str, object]) -> None:
        """An InputError for the first setting that cannot be."""
        check_whole(values, "hidden", "layers")
        check_share(values, "dropout")
        shared = {name: value for name, value in values.items() if name != "hidden"}
        Seq2SeqSettings.check(vars(Seq2SeqSettings()) | shared)


class GRUTranslator(Translator):
    """An encoder-decoder of GRUs (Cho et al. 2014), without attention.

    The encoder's last states begin the decoder's, and the last one goes into each of its steps.
    """

    def __init__(self, settings: object = "cpu", **changes: object) -> None:
        super().__init__()
        chosen = as_settings({"cpu": GRUTranslatorSettings()}, settings, changes)
        self.settings = chosen
        self.specials = Specials(chosen.pad, chosen.begin, chosen.end)
        self.longest = chosen.longest
        width, hidden = chosen.width, chosen.hidden
        self.embed = nn.Embedding(chosen.vocabulary, width)
        nn.init.normal_(self.embed.weight, 0.0, width**-0.5)
        sizes = [width, *[hidden] * (chosen.layers - 1)]
        self.encoders = nn.ModuleList(nn.GRU(size, hidden, batch_first=True) for size in sizes)
        sizes = [width + hidden, *sizes[1:]]
        self.decoders = nn.ModuleList(nn.GRU(size, hidden, batch_first=True) for size in sizes)
        self.narrow = nn.Linear(hidden, width)
        self.drop = nn.Dropout(chosen.dropout)

    def states(
        self, source: Int[Tensor, "batch S"], target: Int[Tensor, "batch T"]
    ) -> Float[Tensor, "batch T width"]:
        """What the decoder knows at each place of the target."""
        last_places(target, self.specials.pad, self.settings.longest, self.settings.vocabulary)
        return self._decoded(target, self.begin(source))[0]

    def read_out(self, states: Float[Tensor, "*some width"]) -> Float[Tensor, "*some vocabulary"]:
        """The logits of the next token, by the embedding's own matrix."""
        return nn.functional.linear(states, self.embed.weight)

    def begin(self, source: Int[Tensor, "batch S"]) -> Any:
        """The context, then the first state of every layer."""
        settings = self.settings
        last = last_places(source, self.specials.pad, settings.longest, settings.vocabulary)
        if settings.moved:
            source = moved_to_end(source, last, settings.moved)
        x = self._embedded(source)
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
        x = torch.cat([self._embedded(target), spread], -1)
        after = []
        for decoder, first in zip(self.decoders, before, strict=True):
            x, last = decoder(x, first[None].contiguous())
            after.append(last[0])
            x = self.drop(x)
        return self.narrow(x), (context, tuple(after))

    def _embedded(self, tokens: Int[Tensor, "batch S"]) -> Float[Tensor, "batch S width"]:
        result: Tensor = self.drop(self.embed(tokens) * self.settings.width**0.5)
        return result


def translator_like(settings: Seq2SeqSettings, layers: object = 2) -> GRUTranslator:
    """A GRUTranslator with about as many parameters as a Seq2Seq of these settings."""
    from attnrate.models.seq2seq import Seq2Seq

    with torch.device("meta"):
        wanted = Seq2Seq(settings).parameter_count()
    shared = ("vocabulary", "width", "dropout", "moved", "longest", "pad", "begin", "end")
    given = {name: getattr(settings, name) for name in shared}
    first = as_settings({"cpu": GRUTranslatorSettings()}, "cpu", {**given, "layers": layers})

    def made(hidden: int) -> GRUTranslator:
        return GRUTranslator(replace(first, hidden=hidden))

    return made(nearest_size(lambda hidden: made(hidden).parameter_count(), wanted))
