"""Seq2Seq: causal in the target, blind to padding, the same by steps as at once."""

import pytest
import torch

from attnrate.errors import InputError
from attnrate.models.decoding import translate
from attnrate.models.positions import sinusoids
from attnrate.models.seq2seq import Seq2Seq, seq2seq_settings

Tensor = torch.Tensor
SMALL = {"vocabulary": 20, "width": 12, "layers": 2, "heads": 3, "m_h": 5, "m_ff": 16}


def made(**changes: object) -> Seq2Seq:
    torch.manual_seed(0)
    model = Seq2Seq("cpu", **(SMALL | changes)).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.4)
    return model


SOURCE = torch.tensor([[5, 6, 7, 8, 9, 2], [10, 11, 2, 0, 0, 0]])
TARGET = torch.tensor([[1, 12, 13, 14], [1, 15, 0, 0]])


def test_padding_changes_nothing() -> None:
    model = made()
    alone = model(SOURCE[1:, :3], TARGET[1:, :2])
    torch.testing.assert_close(model(SOURCE, TARGET)[1:, :2], alone)


def test_the_target_is_read_causally() -> None:
    model, other = made(), TARGET.clone()
    other[0, 3] = 19
    one, two = model(SOURCE, TARGET), model(SOURCE, other)
    assert torch.equal(one[0, :3], two[0, :3])
    assert not torch.allclose(one[0, 3], two[0, 3])


@pytest.mark.parametrize("moved", [0, 2])
def test_steps_with_a_cache_give_what_all_at_once_gives(moved: int) -> None:
    model = made(moved=moved, m_v=3)
    state = model.begin(SOURCE)
    rows = []
    for tokens in TARGET.T:
        hidden, state = model.step(state, tokens)
        rows.append(model.read_out(hidden))
    torch.testing.assert_close(torch.stack(rows, 1)[0], model(SOURCE, TARGET)[0])
    torch.testing.assert_close(torch.stack(rows, 1)[1, :2], model(SOURCE, TARGET)[1, :2])


def test_an_order_of_the_source_comes_before_its_positions() -> None:
    plain, altered = made(), made(moved=2)
    turned = torch.tensor([[7, 8, 9, 2, 5, 6], [2, 10, 11, 0, 0, 0]])
    torch.testing.assert_close(altered(SOURCE, TARGET), plain(turned, TARGET))
    assert not torch.allclose(altered(SOURCE, TARGET), plain(SOURCE, TARGET))


def test_embeddings_are_shared_and_scaled() -> None:
    model = made()
    placed = model._placed(SOURCE[:1])
    expected = model.embed.weight[SOURCE[0]] * 12**0.5 + sinusoids(6, 12)
    torch.testing.assert_close(placed[0], expected, atol=1e-6, rtol=0)
    states = torch.randn(3, 12, dtype=torch.float64)
    torch.testing.assert_close(model.read_out(states), states @ model.embed.weight.T)


def test_the_paper_preset_is_the_base_model() -> None:
    with torch.device("meta"):
        model = Seq2Seq("paper")
    # per layer: attention 4(512² + 512), feed-forward 2·512·2048 + 2048 + 512, norms 2·512 each
    attention, network = 4 * (512**2 + 512), 2 * 512 * 2048 + 2048 + 512
    layers = 6 * (attention + network + 2 * 1024) + 6 * (2 * attention + network + 3 * 1024)
    assert model.parameter_count() == 37_000 * 512 + layers + 2 * 1024
    assert 62e6 < model.parameter_count() < 66e6  # "65 million" in their Table 3


def test_it_translates_as_far_as_it_was_trained() -> None:
    torch.manual_seed(0)
    model = Seq2Seq("cpu", **SMALL, dropout=0.0)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    source = torch.tensor([[5, 6, 7, 2], [8, 9, 2, 0], [7, 5, 2, 0]])
    target = torch.tensor([[1, 7, 6, 5, 2], [1, 9, 8, 2, 0], [1, 5, 7, 2, 0]])
    for _ in range(150):
        logits = model(source, target[:, :-1])
        loss = torch.nn.functional.cross_entropy(
            logits.transpose(1, 2), target[:, 1:], ignore_index=0
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for beams in (1, 4):
        assert translate(model, source, beams) == [[7, 6, 5], [9, 8], [5, 7]]
    assert model.training


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"vocabulary": 2}, "end must be a whole number"),
        ({"pad": 1}, "three token numbers"),
        ({"moved": -1}, "moved must be"),
        ({"heads": 2.5}, "heads must be a whole number"),
    ],
)
def test_wrong_settings_are_told(changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        seq2seq_settings("cpu", **changes)


def test_a_translation_longer_than_the_positions_is_told() -> None:
    model = made(longest=6)
    state = model.begin(SOURCE)
    for _ in range(6):
        _, state = model.step(state, TARGET[:, 0])
    with pytest.raises(InputError, match="more tokens than the model has positions"):
        model.step(state, TARGET[:, 0])
