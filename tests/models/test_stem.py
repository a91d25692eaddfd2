"""A ViT behind convolutions: as many tokens, only images near a patch count, wrong sizes."""

import pytest
import torch

from attnrate.errors import InputError
from attnrate.models.stem import Stem, StemViT
from attnrate.models.vit import ViT, ViTSettings

SMALL = ViTSettings(image=16, patch=4, width=8, layers=1, m_h=4, m_ff=8)


def test_a_stem_makes_one_token_for_every_patch():
    images = torch.rand(2, 3, 16, 16)
    stem = Stem(SMALL, 4)
    assert stem(images).shape == ViT(SMALL).patches(images).shape == (2, 16, 8)
    assert StemViT(SMALL, 4)(images).shape == (2, 10)


def test_a_token_reads_its_patch_and_its_surroundings_alone():
    stem = Stem(SMALL, 4).eval()
    images = torch.rand(1, 3, 16, 16)
    changed = images.clone()
    changed[..., :4, :4] += 1.0  # the first patch
    off = (stem(images) - stem(changed)).abs().sum(-1).reshape(4, 4)
    assert off[0, 0] > 0
    # two 3 x 3 convolutions with stride 2 reach 3 pixels to the top left of the patch and none on
    # the other sides
    seen = off > 0
    assert seen[:2, :2].all()
    assert not seen[2:].any()
    assert not seen[:, 2:].any()


def test_numbers_of_parameters_are_those_of_the_layers():
    # 3·4·9 + 2·4 for the first convolution and its norm, 4·8·9 + 2·8, then 8·8 + 8
    count = sum(one.numel() for one in Stem(SMALL, 4).parameters())
    assert count == 116 + 304 + 72
    whole = ViT(SMALL).parameter_count() - (48 * 8 + 8) + count
    assert StemViT(SMALL, 4).parameter_count() == whole


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"patch": 1}, "patches of 2, 4, 8"), ({"order": range(15, -1, -1)}, "in their order")],
)
def test_what_a_stem_cannot_read_is_refused(changes, words):
    sizes = {"image": 16, "patch": 4, "width": 8, "layers": 1, "m_h": 4, "m_ff": 8, **changes}
    if "order" in changes:
        sizes["order"] = tuple(changes["order"])
    with pytest.raises(InputError, match=words):
        Stem(ViTSettings(**sizes), 4)
