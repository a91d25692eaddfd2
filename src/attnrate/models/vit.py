"""ViT: an image as a sequence of patches, read by a pre-norm Transformer (Dosovitskiy et al.)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Unpack

import torch
from jaxtyping import Float
from pydantic import ConfigDict, SkipValidation, with_config
from torch import nn
from typing_extensions import TypedDict

from attnrate.errors import InputError
from attnrate.models.base import Counted
from attnrate.models.multihead import Layer
from attnrate.models.presets import Share, preset_of, with_changes
from attnrate.settings import Count, by, checked, checked_fields
from attnrate.targets.alter import as_permutation

Tensor = torch.Tensor


def _require_order(name: str, value: object) -> tuple[int, ...]:
    return as_permutation(value, None)


@dataclass(frozen=True)
class PatchSettings:
    """An image as a sequence of patches, and the sizes of a model that reads and classifies it.

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
                f"an image of {self.image} pixels cannot be cut into patches of {{value}} pixels, "
                f"{self.step} apart",
                self.patch,
                "The stride must divide the image, and patch - stride must be even and not below "
                "zero.",
            )
        if self.order is not None:
            as_permutation(self.order, self.tokens)

    @property
    def step(self) -> int:
        """The distance between two patches, in pixels."""
        return self.patch if self.stride is None else self.stride

    @property
    def tokens(self) -> int:
        """The number of patches of an image."""
        return (self.image // self.step) ** 2


@checked_fields()
@dataclass(frozen=True)
class ViTSettings(PatchSettings):
    """The sizes of a ViT.

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
        heads: The number of heads of each layer; heads · m_h need not be the width.
        m_h: The head size.
        m_v: The size of the values of a head. Default: m_h.
        m_ff: The number of hidden units of the feed-forward networks.
        pool: What is classified: "mean", the mean of all tokens, or "class", a token of its own as
            in the paper's ViT-B/16, which no order moves.

    Examples:
        >>> ar.ViTSettings(image=32, patch=8).tokens
        16

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


#: The settings of a ViT, or the name of a preset
ViTLike = Annotated[ViTSettings | Literal["cpu", "paper"], by(preset_of(VIT_PRESETS))]


#: Settings or any word, which is checked at run time
_ViTGiven = Annotated[ViTSettings | str, by(preset_of(VIT_PRESETS))]


@with_config(ConfigDict(extra="allow"))
class ViTChanges(TypedDict, total=False):
    """Settings of a ViT by name; `ViTSettings` says what each means and checks its value."""

    image: SkipValidation[int]
    patch: SkipValidation[int]
    stride: SkipValidation[int | None]
    channels: SkipValidation[int]
    classes: SkipValidation[int]
    width: SkipValidation[int]
    layers: SkipValidation[int]
    dropout: SkipValidation[float]
    order: SkipValidation[Sequence[int] | None]
    heads: SkipValidation[int]
    m_h: SkipValidation[int]
    m_v: SkipValidation[int | None]
    m_ff: SkipValidation[int]
    pool: SkipValidation[Literal["mean", "class"]]


@checked
def vit_settings(settings: _ViTGiven = "cpu", **changes: Unpack[ViTChanges]) -> ViTSettings:
    """The settings of a preset (`cpu` or `paper`), or given ones, with changes."""
    return with_changes(settings, VIT_PRESETS, {**changes})


class ViT(Counted):
    """A vision Transformer: patches + positions -> layers of attention -> norm -> classes.

    Each layer has attention and a feed-forward network, with norms before them (Dosovitskiy et al.
    2021).

    Args:
        settings: The sizes, or a preset: "cpu" is made for an hour on two cores, "paper" is
            ViT-B/16 at 224 pixels.
        **changes: Settings that differ, by name; see `ViTSettings`.

    Examples:
        >>> import torch
        >>> model = ar.ViT(image=8, patch=4, width=16, layers=1, m_h=4, m_ff=32)
        >>> model(torch.rand(2, 3, 8, 8)).shape
        torch.Size([2, 10])

    """

    @checked
    def __init__(self, settings: ViTLike = "cpu", **changes: Unpack[ViTChanges]) -> None:
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
        """Compute the logits of the classes."""
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
        """Map the patches to tokens, row by row from the top left, then permute them."""
        wanted = (self.settings.channels, self.settings.image, self.settings.image)
        if tuple(images.shape[1:]) != wanted:
            raise InputError(
                f"images must have the shape (batch, {', '.join(map(str, wanted))})",
                tuple(images.shape),
                "Make the model for images of this size, or resize them.",
            )
        tokens: Tensor = self.embed(self.cut(images.to(self.embed.weight.dtype)))
        order = self.settings.order
        return tokens if order is None else tokens[:, list(order)]

    def cut(
        self, images: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch tokens pixels"]:
        """Cut out the pixels of every patch: row, column, channel; zeros beyond the image."""
        size, step = self.settings.patch, self.settings.step
        border = (size - step) // 2
        if border:
            images = nn.functional.pad(images, (border,) * 4)
        # a view; the copy is made once, by flatten
        windows = images.unfold(2, size, step).unfold(3, size, step)
        return windows.permute(0, 2, 3, 4, 5, 1).flatten(3).flatten(1, 2)
