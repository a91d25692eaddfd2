"""A ViT whose patches are read by convolutions: a stem in place of the linear embedding."""

from itertools import pairwise
from typing import Annotated

import torch
from jaxtyping import Float
from torch import nn

from attnrate.errors import InputError, require_whole
from attnrate.models.vit import ViT, ViTSettings
from attnrate.settings import Count, by, checked

Tensor = torch.Tensor


class Stem(nn.Module):
    """Convolutions of 3 x 3 pixels with stride 2, until one pixel is left of every patch.

    Between them are batch norms and ReLUs, after them a linear map to the width of the tokens (Xiao
    et al. 2021, "Early convolutions help Transformers see better"). A token reads the pixels of its
    patch and some around it, where the linear embedding reads those of its patch alone.

    Args:
        settings: The sizes of the ViT; the side of its patches is a power of 2.
        features: The number of features of the first convolution, which doubles with each.

    """

    def __init__(self, settings: ViTSettings, features: int) -> None:
        super().__init__()
        halvings = settings.patch.bit_length() - 1
        if settings.patch != 1 << halvings or halvings == 0 or settings.step != settings.patch:
            raise InputError(
                "a stem needs patches of 2, 4, 8, ... pixels that do not overlap", settings.patch
            )
        if settings.order is not None:
            raise InputError("a stem keeps the patches in their order", settings.order)
        sizes = [settings.channels, *(features << k for k in range(halvings))]
        layers: list[nn.Module] = []
        for one, two in pairwise(sizes):
            convolution = nn.Conv2d(one, two, 3, stride=2, padding=1, bias=False)
            layers += [convolution, nn.BatchNorm2d(two), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Conv2d(sizes[-1], settings.width, 1))

    def forward(
        self, images: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch tokens features"]:
        """Map images to tokens, row by row from the top left."""
        tokens: Tensor = self.layers(images)
        return tokens.flatten(2).mT


class StemViT(ViT):
    """A `ViT` that reads images by a convolutional stem.

    Args:
        settings: The sizes.
        features: The number of features of the stem's first convolution, which doubles with each.

    """

    @checked
    def __init__(
        self, settings: ViTSettings, features: Annotated[Count, by(require_whole, 1)] = 8
    ) -> None:
        super().__init__(settings)
        # the embedding was drawn first and is dropped; nothing else depends on it
        self.add_module("patches", Stem(settings, features))
