"""Thin attention of DistilBERT."""

import torch
from thin_families import known, output, thin_layers

from attnrate.compress.fold import fold


def test_padding_is_hidden_from_thin_heads():
    model, batch, found = known("distilbert")
    thin = fold(model, thin_layers(found, 4, 3))
    layer = thin.transformer.layer[0].attention
    assert (layer.q_lin.out_features, layer.v_lin.out_features) == (12, 9)
    assert not layer.in_cache
    before = output(thin, batch)
    other = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, 7)
    torch.testing.assert_close(output(thin, batch | {"input_ids": other}), before)
    open_to_all = torch.ones_like(batch["attention_mask"])
    with torch.no_grad():
        shown = thin(input_ids=other, attention_mask=open_to_all)[0]
    kept = batch["attention_mask"].bool()
    assert float((shown[kept] - before).abs().max()) > 1e-2
