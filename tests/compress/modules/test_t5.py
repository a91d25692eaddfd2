"""Thin attention of T5: its positions, which one layer makes for all, and its outputs' new bias."""

import pytest
import torch
from thin_families import known, output, thin_layers

from attnrate.compress.fold import fold


@pytest.fixture
def thin():
    model, _, found = known("t5")
    return fold(model, thin_layers(found, 4, 3))


def test_the_first_layer_of_each_stack_keeps_its_table_of_positions(thin):
    model = known("t5")[0]
    tables = {name for name, _ in thin.named_parameters() if "relative" in name}
    assert tables == {name for name, _ in model.named_parameters() if "relative" in name}
    assert len(tables) == 2
    for name in tables:
        assert torch.equal(thin.get_parameter(name), model.get_parameter(name))
        assert thin.get_parameter(name) is not model.get_parameter(name)


@pytest.mark.parametrize("kind", ["eager", "sdpa"])
def test_all_layers_of_a_stack_use_the_positions_that_the_first_has_made(thin, kind):
    thin.set_attn_implementation(kind)
    batch, passed = known("t5")[1], []

    def keep(part, args, given, output):
        passed.append((given["position_bias"], output[1], part.has_relative_attention_bias))

    for block in thin.encoder.block:
        block.layer[0].SelfAttention.register_forward_hook(keep, with_kwargs=True)
    before = output(thin, batch)
    (none, first, own), (taken, second, other) = passed
    assert none is None
    assert own
    assert not other
    assert taken is first
    assert second is first
    assert first.shape == (1, 3, 11, 11)
    with torch.no_grad():  # each logit is moved by the same number, but for the own token
        thin.encoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight[0] += 2
    assert float((output(thin, batch) - before).abs().max()) > 1e-3


def test_the_outputs_gain_a_bias_for_the_mean_of_the_values_and_no_other_part_does(thin):
    attention = thin.decoder.block[0].layer[1].EncDecAttention
    assert attention.o.bias is not None
    assert attention.q.bias is attention.k.bias is attention.v.bias is None
    model, _, found = known("t5")
    whole = fold(model, thin_layers(found, 4, None)).decoder.block[0].layer[1].EncDecAttention
    assert whole.o.bias is None


def test_training_with_checkpoints_gives_gradients_to_the_thin_parts(thin):
    batch = known("t5")[1]
    thin.train()
    thin.activation_checkpointing_enable()
    thin(**batch, use_cache=False).logits.square().sum().backward()
    attention = thin.encoder.block[1].layer[0].SelfAttention
    assert float(attention.q.weight.grad.abs().max()) > 0
