"""Thin attention of GPT-2: parts of their own for queries, keys and values, and float32 logits."""

import torch
from thin_families import given, known, made, output, thin_layers
from torch import nn

from attnrate.compress.calibration import calibrate
from attnrate.compress.fold import fold


def test_the_one_part_of_three_becomes_three_parts_of_linear():
    model, _, found = known("gpt2")
    thin = fold(model, thin_layers(found, 4, 3)).transformer.h[1].attn
    shapes = [getattr(thin, f"{name}_proj").weight.shape for name in "qkv"]
    assert shapes == [(12, 24), (12, 24), (9, 24)]
    assert type(thin.c_proj) is nn.Linear
    assert thin.c_proj.weight.shape == (24, 9)
    assert not hasattr(thin, "c_attn")
    assert thin.in_cache


def test_logits_in_float32_stay_in_float32():
    model = made("gpt2-float32").bfloat16()
    model.set_attn_implementation("eager")
    batch = given("gpt2-float32")
    found = calibrate(made("gpt2-float32").float(), [batch])
    whole = fold(model.float(), thin_layers(found, 8, 8)).bfloat16()
    seen = []

    def keep(_, args, kwargs, output):
        seen.append(output[1].dtype)

    whole.transformer.h[0].attn.register_forward_hook(keep, with_kwargs=True)
    whole.set_attn_implementation("eager")
    ours, theirs = output(whole, batch), output(model.bfloat16(), batch)
    assert seen == [torch.bfloat16]
    assert torch.equal(ours, theirs)


def test_cross_attention_reads_the_other_sequence_and_its_mask():
    model, batch, found = known("gpt2-cross")
    thin = fold(model, thin_layers(found, 4, 3))
    assert {own.site.kind for own in found.found.projections.values()} == {"self", "cross"}
    before = output(thin, batch)
    hidden = batch["encoder_attention_mask"] == 0
    states = batch["encoder_hidden_states"].masked_fill(hidden[..., None], 9.0)
    assert torch.equal(output(thin, batch | {"encoder_hidden_states": states}), before)
    shown = output(thin, batch | {"encoder_hidden_states": batch["encoder_hidden_states"] + 1})
    assert float((shown - before).abs().max()) > 1e-2
