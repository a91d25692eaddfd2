"""The rivals: of the size of what they rival, in order, and the same by steps as at once."""

import pytest
import torch

from attnrate.errors import InputError
from attnrate.models.base import nearest_size
from attnrate.models.rivals import GRUTranslator, Scanner, scanner_like, translator_like
from attnrate.models.seq2seq import Seq2Seq, seq2seq_settings
from attnrate.models.vit import ViT, vit_settings

SOURCE = torch.tensor([[5, 6, 7, 8, 9, 2], [10, 11, 2, 0, 0, 0]])
TARGET = torch.tensor([[1, 12, 13, 14], [1, 15, 0, 0]])


@pytest.mark.parametrize("kind", ["gru", "state-space"])
def test_a_scanner_has_the_parameters_of_the_vit(kind: str) -> None:
    settings = vit_settings("cpu", order=tuple(reversed(range(64))))
    rival = scanner_like(settings, kind)
    assert rival.parameter_count() == pytest.approx(ViT(settings).parameter_count(), rel=0.02)
    assert rival.settings.order == settings.order
    assert rival(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_a_translator_has_the_parameters_of_the_transformer() -> None:
    settings = seq2seq_settings("cpu", moved=10)
    rival = translator_like(settings)
    assert rival.parameter_count() == pytest.approx(Seq2Seq(settings).parameter_count(), rel=0.02)
    assert rival.settings.moved == 10


@pytest.mark.parametrize("kind", ["gru", "state-space"])
def test_an_order_of_the_patches_is_an_order_of_the_image(kind: str) -> None:
    sizes = {"image": 8, "width": 12, "layers": 2, "state": 4}
    torch.manual_seed(0)
    plain = Scanner(kind, **sizes).double().eval()
    altered = Scanner(kind, **sizes, order=(2, 3, 0, 1)).double().eval()
    altered.load_state_dict(plain.state_dict())
    images = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    halves = torch.cat([images[:, :, 4:], images[:, :, :4]], 2)
    torch.testing.assert_close(altered(images), plain(halves))
    assert not torch.allclose(altered(images), plain(images))


@pytest.mark.parametrize("moved", [0, 2])
def test_steps_of_the_translator_give_what_all_at_once_gives(moved: int) -> None:
    torch.manual_seed(0)
    model = GRUTranslator(vocabulary=20, width=6, hidden=7, moved=moved).double().eval()
    state, rows = model.begin(SOURCE), []
    for tokens in TARGET.T:
        hidden, state = model.step(state, tokens)
        rows.append(model.read_out(hidden))
    whole = model(SOURCE, TARGET)
    torch.testing.assert_close(torch.stack(rows, 1), whole)
    torch.testing.assert_close(whole[1:, :2], model(SOURCE[1:, :3], TARGET[1:, :2]))


def test_wrong_rivals_are_told() -> None:
    with pytest.raises(InputError, match="kind is not known"):
        scanner_like(vit_settings(), "lstm")
    with pytest.raises(InputError, match="hidden must be"):
        GRUTranslator(hidden=0)
    with pytest.raises(InputError, match="cannot be cut"):
        Scanner("gru", patch=5)
    with pytest.raises(InputError, match="no rival is as small"):
        scanner_like(vit_settings(width=1, layers=1, heads=1, m_h=1, m_ff=1), layers=30)


@pytest.mark.parametrize(("wanted", "size"), [(1, 1), (10, 3), (12, 3), (13, 4), (100, 10)])
def test_the_nearest_size_is_that_of_the_nearest_count(wanted: int, size: int) -> None:
    assert nearest_size(lambda one: one * one, wanted) == size
