"""Seq2Seq in altered orders: as reordered tokens give it, and what a relabelled table undoes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.models.multihead import Padding
from attnrate.models.placed import Over, PlacedSeq2Seq, PlacedSettings, altered_places
from attnrate.models.seq2seq import Seq2Seq, Seq2SeqSettings
from attnrate.targets.alter import inverse, move_to_end

LONGEST = 8
SMALL = {"vocabulary": 20, "width": 12, "layers": 2, "heads": 3, "m_h": 5, "m_ff": 16}
SOURCE = torch.tensor([[5, 6, 7, 8, 9, 2], [10, 11, 12, 13, 2, 0], [14, 15, 2, 0, 0, 0]])
TARGET = torch.tensor([[1, 12, 13, 14], [1, 15, 4, 0], [1, 9, 0, 0]])


def made(**changes: object) -> PlacedSeq2Seq:
    torch.manual_seed(0)
    model = PlacedSeq2Seq(PlacedSettings(**SMALL, longest=LONGEST, **changes)).double().eval()
    for name, parameter in model.named_parameters():
        if name != "table":
            torch.nn.init.normal_(parameter, 0.0, 0.4)
    return model


def test_in_the_original_order_and_in_that_of_sentences_it_is_a_seq2seq() -> None:
    for moved in (0, 3):
        settings = Seq2SeqSettings(**SMALL, longest=LONGEST, moved=moved)
        plain, placed = Seq2Seq(settings).double().eval(), made(moved=moved)
        plain.load_state_dict(placed.state_dict())
        torch.testing.assert_close(placed(SOURCE, TARGET), plain(SOURCE, TARGET))


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_one_permutation_is_that_of_sources_that_are_padded_to_the_same_length(positions) -> None:
    model = made(positions=positions, moved=3, over="padded")
    whole = torch.nn.functional.pad(SOURCE, (0, LONGEST - SOURCE.shape[1]))
    turned = whole[:, move_to_end(LONGEST, 3)]
    kept = turned != 0
    table = model.positions if model.table is None else model.table
    x = model.embedded(turned) + table
    for layer in model.encoder_layers:
        x = layer(x, Padding(kept, kept))
    y = model._placed(TARGET)
    for layer in model.decoder_layers:
        y = layer(y, model.encoder_norm(x), Padding(), Padding(None, kept))
    slow = model.read_out(model.decoder_norm(y))
    torch.testing.assert_close(model(SOURCE, TARGET), slow)
    assert not torch.allclose(made(positions=positions)(SOURCE, TARGET), slow)


@given(moved=st.integers(1, LONGEST))
def test_a_relabelled_table_undoes_one_permutation_exactly(moved: int) -> None:
    plain = made(positions="learned")
    altered = made(positions="learned", moved=moved, over="padded")
    altered.table.data = plain.table.data[move_to_end(LONGEST, moved)]
    assert torch.equal(altered(SOURCE, TARGET), plain(SOURCE, TARGET))


def test_on_one_length_a_relabelled_table_undoes_the_order_of_sentences_but_not_on_two() -> None:
    plain = made(positions="learned")
    altered = made(positions="learned", moved=3, over="sentence")
    altered.table.data[:6] = plain.table.data[move_to_end(6, 3)]
    one, several = (SOURCE[:1], TARGET[:1]), (SOURCE, TARGET)
    assert torch.equal(altered(*one), plain(*one))
    assert not torch.allclose(altered(*several)[1], plain(*several)[1])


def test_sinusoids_have_no_table_to_relabel_and_the_outputs_change() -> None:
    assert made().table is None
    for over in ("sentence", "padded"):
        altered = made(moved=3, over=over)(SOURCE, TARGET)
        assert not torch.allclose(altered, made()(SOURCE, TARGET))


def test_steps_with_a_cache_give_what_all_at_once_gives() -> None:
    model = made(positions="learned", moved=3, over="padded")
    state, rows = model.begin(SOURCE), []
    for tokens in TARGET.T:
        hidden, state = model.step(state, tokens)
        rows.append(model.read_out(hidden))
    torch.testing.assert_close(torch.stack(rows, 1)[0], model(SOURCE, TARGET)[0])


@given(
    last=st.lists(st.integers(0, LONGEST - 1), min_size=1, max_size=4),
    moved=st.integers(0, LONGEST),
    over=st.sampled_from(["sentence", "padded"]),
)
def test_tokens_have_places_of_their_own(last: list[int], moved: int, over: Over) -> None:
    places = altered_places(torch.tensor(last), LONGEST, moved, over, LONGEST)
    for end, row in zip(last, places.tolist(), strict=True):
        tokens = row[: end + 1]
        if over == "padded":
            order = move_to_end(LONGEST, moved) if moved else list(range(LONGEST))
            assert tokens == inverse(order)[: end + 1]
        elif end + 1 > moved > 0:
            assert tokens == inverse(move_to_end(end + 1, moved))
        else:
            assert tokens == list(range(end + 1))


@pytest.mark.parametrize("changes", [{"positions": "rotary"}, {"over": "all"}])
def test_wrong_settings_are_told(changes: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(changes))):
        made(**changes)
