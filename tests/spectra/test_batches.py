"""Which places of an output are padding, where a model reads one sequence or two."""

import torch

from attnrate.spectra.batches import padding

READ = torch.tensor([[1, 1, 0], [1, 1, 1]])
WRITTEN = torch.tensor([[1, 0, 0], [1, 1, 0]])
IDS = torch.ones(2, 3).long()


def test_an_output_has_the_padding_of_the_tokens_that_were_read():
    found = padding({"input_ids": IDS, "attention_mask": READ}, (2, 3))
    assert torch.equal(found, READ.bool())
    assert padding({"input_ids": IDS, "attention_mask": READ}, (2, 7)) is None
    assert padding(torch.ones(2, 3), (2, 3)) is None


def test_with_a_decoder_it_has_that_of_the_decoder_whatever_the_lengths():
    both = {"input_ids": IDS, "attention_mask": READ, "decoder_input_ids": IDS}
    assert padding(both, (2, 3)) is None
    found = padding(both | {"decoder_attention_mask": WRITTEN}, (2, 3))
    assert torch.equal(found, WRITTEN.bool())
    assert padding(both | {"decoder_attention_mask": WRITTEN[:, :2]}, (2, 3)) is None
