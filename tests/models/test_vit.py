"""ViT: patches where they should be, orders before positions, presets of the stated sizes."""

import pytest
import torch

from attnrate.errors import InputError
from attnrate.models.vit import ViT, vit_settings
from attnrate.targets.alter import move_to_end

Tensor = torch.Tensor
SMALL = {"image": 8, "patch": 4, "width": 12, "layers": 2, "heads": 3, "m_h": 5, "m_ff": 10}


def made(**changes: object) -> ViT:
    torch.manual_seed(0)
    model = ViT("cpu", **(SMALL | changes)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.3)
    return model


def images(count: int = 2, size: int = 8) -> Tensor:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(1))


def test_patches_are_cut_row_by_row() -> None:
    model, x = made(), images()
    cut = model.patches.cut(x)
    assert cut.shape == (2, 4, 48)
    second = x[:, :, :4, 4:].permute(0, 2, 3, 1).reshape(2, 48)
    assert torch.equal(cut[:, 1], second)


def test_overlapping_patches_are_centred_on_the_others_places() -> None:
    x = images()
    wide = made(patch=8, stride=4).patches.cut(x).reshape(2, 4, 8, 8, 3)
    plain = made().patches.cut(x).reshape(2, 4, 4, 4, 3)
    assert torch.equal(wide[:, :, 2:6, 2:6], plain)
    assert torch.equal(wide[:, 0, :2], torch.zeros(2, 2, 8, 3))


@pytest.mark.parametrize("pool", ["mean", "class"])
def test_an_order_is_undone_by_the_same_order_of_the_positions(pool: str) -> None:
    order = (2, 0, 3, 1)
    plain, altered = made(pool=pool), made(pool=pool, order=order)
    altered.load_state_dict(plain.state_dict())
    assert not torch.allclose(altered(images()), plain(images()), atol=1e-3)
    with torch.no_grad():
        patches = altered.positions[:, -4:].clone()
        altered.positions[:, -4:] = patches[:, list(order)]
    torch.testing.assert_close(altered(images()), plain(images()))


def test_table_1s_order_is_one_of_64_patches() -> None:
    settings = vit_settings("cpu", order=move_to_end(64, 10))
    assert settings.order is not None
    assert settings.order[:2] == (10, 11)
    assert settings.order[-1] == 9


def test_the_paper_preset_is_vit_b_16() -> None:
    with torch.device("meta"):
        model = ViT("paper", classes=1000)
    # the count of Dosovitskiy et al.'s ViT-B/16 at 224 pixels with 1000 classes
    assert model.parameter_count() == 86_567_656


@pytest.mark.parametrize("m_h", [1, 3, 64])
def test_head_sizes_are_free(m_h: int) -> None:
    model = made(m_h=m_h)
    assert model.layers[0].attention.W_Q.weight.shape == (3 * m_h, 12)
    assert model(images()).shape == (2, 10)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"width": 0}, "width must be a whole number"),
        ({"m_h": "8"}, "m_h must be a whole number"),
        ({"patch": 5}, "cannot be cut into patches"),
        ({"patch": 3, "stride": 2}, "cannot be cut into patches"),
        ({"pool": "max"}, "pool is not known"),
        ({"order": (0, 1, 1, 2)}, r"p\[2\] repeats"),
        ({"order": (0, 1)}, "must have 4 entries"),
        ({"dropout": 1.0}, "dropout must be"),
        ({"depth": 3}, r"ViTSettings\.depth is not known.*Known: channels"),
    ],
)
def test_wrong_settings_are_named(changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        ViT("cpu", **(SMALL | changes))


def test_an_unknown_preset_is_told() -> None:
    with pytest.raises(InputError, match="preset is not known"):
        ViT("gpu")


def test_images_of_another_size_are_told() -> None:
    with pytest.raises(InputError, match=r"\(batch, 3, 8, 8\)"):
        made()(images(size=12))
