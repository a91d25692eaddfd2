"""Which families are built as BART is, and what is different in Whisper."""

import pytest
import torch
from thin_families import MODELS, forward_of, known, thin_layers

from attnrate.compress.fold import fold
from attnrate.compress.modules.bart import FAMILIES


@pytest.mark.parametrize("family", FAMILIES)
def test_transformers_writes_the_attention_of_these_families_as_that_of_bart(family):
    ours = forward_of(family, f"{FAMILIES[family]}Attention")
    assert ours == forward_of("bart", "BartAttention")
    assert family in MODELS


def test_keys_of_the_encoder_are_in_no_cache():
    model, _, found = known("whisper")
    thin = fold(model, thin_layers(found, 4, 3))
    cached = {name: x.in_cache for name, x in thin.named_modules() if hasattr(x, "in_cache")}
    assert len(cached) == 6
    assert all(own == name.startswith("model.decoder") for name, own in cached.items())


def test_the_queries_of_whisper_are_divided_and_not_its_logits():
    model, _, found = known("whisper")
    for own in found.found.projections.values():
        assert own.query.factor == pytest.approx(8**-0.5, rel=1e-12)
        assert own.key.factor == own.value.factor == 1.0
    thin = fold(model, thin_layers(found, None, None))
    ours, theirs = (each.model.encoder.layers[0].self_attn for each in (thin, model))
    assert (ours.query_factor, ours.scaling) == (theirs.scaling, 1.0)
    torch.testing.assert_close(ours.q_proj.weight, theirs.q_proj.weight, rtol=1e-12, atol=0)
    assert ours.k_proj.bias is None
    assert torch.equal(ours.k_proj.weight, theirs.k_proj.weight)
