"""Which families are built as BERT is, and that transformers still builds them so."""

import pytest
import torch
from thin_families import forward_of, known, output, thin_layers

from attnrate.compress.fold import fold
from attnrate.compress.modules.bert import FAMILIES


@pytest.mark.parametrize("last", ["SelfAttention", "CrossAttention"])
@pytest.mark.parametrize("family", FAMILIES)
def test_transformers_writes_the_attention_of_these_families_as_that_of_bert(family, last):
    assert forward_of(family, FAMILIES[family] + last) == forward_of("bert", f"Bert{last}")


def test_keys_are_in_a_cache_where_the_model_writes():
    for name, cached in (("bert", {False}), ("bert-cross", {True}), ("roberta-writer", {True})):
        model, _, found = known(name)
        thin = fold(model, thin_layers(found, 4, 3))
        assert {x.in_cache for x in thin.modules() if hasattr(x, "in_cache")} == cached


def test_cross_attention_reads_the_other_sequence_and_its_mask():
    model, batch, found = known("bert-cross")
    thin = fold(model, thin_layers(found, 4, 3))
    before = output(thin, batch)
    hidden = batch["encoder_attention_mask"] == 0
    states = batch["encoder_hidden_states"].masked_fill(hidden[..., None], 9.0)
    assert torch.equal(output(thin, batch | {"encoder_hidden_states": states}), before)
    shown = output(thin, batch | {"encoder_hidden_states": batch["encoder_hidden_states"] + 1})
    assert float((shown - before).abs().max()) > 1e-2
