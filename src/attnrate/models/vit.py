"""ViT: an image as a sequence of patches, read by a pre-norm Transformer (Dosovitskiy et al.)."""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from torch import nn

from attnrate.errors import InputError
from attnrate.models.base import Counted
from attnrate.models.multihead import Layer
from attnrate.models.presets import Share, as_settings
from attnrate.settings import Count, by, checked_fields
from attnrate.targets.alter import as_permutation

Tensor = torch.Tensor


def _require_order(name: str, value: object) -> tuple[int, ...]:
    return as_permutation(value, None)


@dataclass(frozen=True)
class PatchSettings:
    """An image as a sequence of patches, and the sizes of a model that reads and classifies it.

    Patches of `patch` pixels are `stride` pixels apart (`patch` by default; a smaller stride makes
    them overlap). `order`, if given, is Table 1's altered relation: the patch tokens x are replaced
    by x∘order before anything reads them.
    """

    image: Count = 32
    patch: Count = 4
    stride: Count | None = None
    channels: Count = 3
    classes: Count = 10
    width: Count = 128
    layers: Count = 6
    dropout: Share = 0.0
    order: Annotated[tuple[int, ...], by(_require_order)] | None = None

    def __post_init__(self) -> None:
        if self.step > self.patch or self.image % self.step or (self.patch - self.step) % 2:
            raise InputError(
                f"an image of {self.image} pixels cannot be cut into patches of {self.patch} "
                f"pixels, {self.step} apart; patch",
                self.patch,
                "The stride must divide the image, and patch - stride must be even and not below "
                "zero.",
            )
        if self.order is not None:
            as_permutation(self.order, self.tokens)

    @property
    def step(self) -> int:
        """How many pixels patches are apart."""
        return self.patch if self.stride is None else self.stride

    @property
    def tokens(self) -> int:
        """How many patches an image has."""
        return (self.image // self.step) ** 2


@checked_fields()
@dataclass(frozen=True)
class ViTSettings(PatchSettings):
    """Sizes of a ViT; heads · m_h need not be the width.

    `pool` says what is classified: the mean of all tokens, or a class token of its own as in the
    paper's ViT-B/16, which no order moves.
    """

    heads: Count = 2
    m_h: Count = 64
    m_v: Count | None = None
    m_ff: Count = 256
    pool: Literal["mean", "class"] = "mean"


#: `cpu` is made for an hour on two cores; `paper` is ViT-B/16 at 224 pixels
VIT_PRESETS = {
    "cpu": ViTSettings(),
    "paper": ViTSettings(
        image=224, patch=16, width=768, layers=12, heads=12, m_h=64, m_ff=3072, pool="class"
    ),
}


def vit_settings(preset: object = "cpu", **changes: object) -> ViTSettings:
    """The settings of a preset (`cpu` or `paper`) or given ones, with changes."""
    return as_settings(VIT_PRESETS, preset, changes)


class ViT(Counted):
    """Patches + positions -> layers of attention and feed-forward -> norm -> classes."""

    def __init__(self, settings: object = "cpu", **changes: object) -> None:
        super().__init__()
        chosen = vit_settings(settings, **changes)
        self.settings = chosen
        width = chosen.width
        self.patches = Patches(chosen)
        own = chosen.pool == "class"
        self.class_token = nn.Parameter(torch.zeros(1, 1, width)) if own else None
        self.positions = nn.Parameter(0.02 * torch.randn(1, chosen.tokens + own, width))
        sizes = width, chosen.heads, chosen.m_h, chosen.m_v, chosen.m_ff, chosen.dropout
        self.layers = nn.ModuleList(Layer(*sizes, nn.GELU()) for _ in range(chosen.layers))
        self.norm = nn.LayerNorm(width)
        self.classify = nn.Linear(width, chosen.classes)
        self.drop = nn.Dropout(chosen.dropout)
        nn.init.zeros_(self.classify.weight)
        nn.init.zeros_(self.classify.bias)

    def forward(
        self, images: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch classes"]:
        """Logits of the classes."""
        tokens = self.patches(images)
        if self.class_token is not None:
            tokens = torch.cat([self.class_token.expand(len(tokens), -1, -1), tokens], 1)
        x = self.drop(tokens + self.positions)
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        pooled = x.mean(1) if self.class_token is None else x[:, 0]
        result: Tensor = self.classify(pooled)
        return result


class Patches(nn.Module):
    """An image's patches, each mapped to a token, in the order of the settings."""

    def __init__(self, settings: PatchSettings) -> None:
        super().__init__()
        self.settings = settings
        self.embed = nn.Linear(settings.channels * settings.patch**2, settings.width)
        nn.init.xavier_uniform_(self.embed.weight)
        nn.init.zeros_(self.embed.bias)

    def forward(
        self, images: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch tokens features"]:
        """Row by row from the top left, then permuted."""
        wanted = (self.settings.channels, self.settings.image, self.settings.image)
        if tuple(images.shape[1:]) != wanted:
            raise InputError(
                f"images must have the shape (batch, {', '.join(map(str, wanted))})",
                tuple(images.shape),
                "Make the model for images of this size, or resize them.",
            )
        tokens: Tensor = self.embed(self.cut(images))
        order = self.settings.order
        return tokens if order is None else tokens[:, list(order)]

    def cut(
        self, images: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch tokens pixels"]:
        """The pixels of every patch: row, column, channel. Overlapping ones reach into a border."""
        size, step = self.settings.patch, self.settings.step
        border = (size - step) // 2
        if border:
            images = nn.functional.pad(images, (border,) * 4)
        # a view; the copy is made once, by flatten
        windows = images.unfold(2, size, step).unfold(3, size, step)
        return windows.permute(0, 2, 3, 4, 5, 1).flatten(3).flatten(1, 2)
