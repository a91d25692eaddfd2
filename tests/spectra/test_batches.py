"""Which places of an output are padding, where a model reads one sequence or two."""

import torch
from torch import nn

from attnrate.models.seq2seq import Seq2Seq
from attnrate.spectra.batches import padding

READ = torch.tensor([[1, 1, 0], [1, 1, 1]])
WRITTEN = torch.tensor([[1, 0, 0], [1, 1, 0]])
IDS = torch.ones(2, 3).long()
PLAIN = nn.Linear(1, 1)


def test_an_output_has_the_padding_of_the_tokens_that_were_read():
    found = padding(PLAIN, {"input_ids": IDS, "attention_mask": READ}, (2, 3))
    assert torch.equal(found, READ.bool())
    assert padding(PLAIN, {"input_ids": IDS, "attention_mask": READ}, (2, 7)) is None
    assert padding(PLAIN, torch.ones(2, 3), (2, 3)) is None


def test_with_a_decoder_it_has_that_of_the_decoder_whatever_the_lengths():
    both = {"input_ids": IDS, "attention_mask": READ, "decoder_input_ids": IDS}
    assert padding(PLAIN, both, (2, 3)) is None
    found = padding(PLAIN, both | {"decoder_attention_mask": WRITTEN}, (2, 3))
    assert torch.equal(found, WRITTEN.bool())
    assert padding(PLAIN, both | {"decoder_attention_mask": WRITTEN[:, :2]}, (2, 3)) is None


def test_a_translator_has_that_of_its_targets_by_the_number_of_padding():
    model = Seq2Seq(vocabulary=9, width=4, layers=1, heads=1, pad=8)
    both = {"source": IDS, "target": 8 - 7 * WRITTEN}
    assert torch.equal(padding(model, both, (2, 3)), WRITTEN.bool())
    assert padding(model, both, (2, 4)) is None
