"""How many tokens a layer sees at least, counted by hand."""

import torch
from torch import nn

from attnrate.compress.tokens import tokens_of
from attnrate.models.seq2seq import Seq2Seq

PLAIN = nn.Linear(1, 1)
IDS = torch.ones(3, 5).long()
SHORT = torch.ones(3, 2).long()
KEPT = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0], [1, 1, 1, 1, 1]])


def test_padding_does_not_count():
    assert tokens_of(PLAIN, [{"input_ids": IDS}], 9) == 15
    assert tokens_of(PLAIN, [{"input_ids": IDS, "attention_mask": KEPT}] * 2, 9) == 2 * 11


def test_the_shorter_of_two_sequences_counts_over_all_inputs():
    both = {"input_ids": IDS, "attention_mask": KEPT, "decoder_input_ids": SHORT}
    assert tokens_of(PLAIN, [both, both], 9) == 12
    assert tokens_of(PLAIN, [{"input_ids": SHORT, "decoder_input_ids": IDS}], 9) == 6
    masked = both | {"decoder_attention_mask": torch.tensor([[1, 0]] * 3)}
    assert tokens_of(PLAIN, [masked], 9) == 3


def test_speech_has_the_tokens_of_what_is_said():
    heard = {"input_features": torch.zeros(3, 8, 100), "decoder_input_ids": SHORT}
    assert tokens_of(PLAIN, [heard], 9) == 6


def test_a_translator_knows_padding_by_its_number():
    model = Seq2Seq(vocabulary=9, width=4, layers=1, heads=1, pad=8)
    source, target = (8 - 7 * KEPT, 8 - 7 * KEPT[:, :4])
    assert tokens_of(model, [{"source": source, "target": target}] * 2, 9) == 2 * 10


def test_inputs_that_do_not_say_it_have_the_length_that_was_seen():
    assert tokens_of(PLAIN, [torch.zeros(4, 7), torch.zeros(2, 7)], 9) == 54
    assert tokens_of(PLAIN, [{"pixel_values": torch.zeros(4, 3, 8, 8)}], 9) == 36
