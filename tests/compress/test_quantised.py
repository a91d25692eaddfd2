"""A cache with keys in 8 or 4 bits: what it gives back, what it takes, and how it is used."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rotary_tiny import numbers, tiny_llama, tokens

from attnrate.compress.modules.llama import thinned, with_layers
from attnrate.compress.modules.rotary_layers import attention_layers
from attnrate.compress.quantised import (
    GROUP,
    Bits,
    Coded,
    QuantisedLayer,
    bytes_of,
    group_of,
    new_cache,
)
from attnrate.compress.rotary import cut_pairs
from attnrate.compress.rotary_moments import gather
from attnrate.spectra.watching.watcher import Watcher

Tensor = torch.Tensor


def slowly(keys: Tensor, bits: int, group: int) -> tuple[Tensor, Tensor]:
    """Keys after they were quantised number by number, and the step of each."""
    made, steps = keys.clone(), torch.zeros_like(keys)
    inputs, heads, length, m = keys.shape
    for b in range(inputs):
        for h in range(heads):
            for c in range(m):
                for start in range(0, length - group + 1, group):
                    own = [float(x) for x in keys[b, h, start : start + group, c]]
                    step = (max(own) - min(own)) / (2**bits - 1)
                    for t, x in enumerate(own):
                        code = round((x - min(own)) / step) if step else 0
                        made[b, h, start + t, c] = min(own) + step * code
                        steps[b, h, start + t, c] = step
    return made, steps


@pytest.mark.parametrize("bits", [4, 8])
def test_keys_come_back_as_by_a_slow_computation(bits: Bits) -> None:
    keys = numbers(2, 2, 16, 3).float() * torch.tensor([1.0, 30.0, 0.01])
    slow, steps = slowly(keys, bits, 8)
    found = Coded.of(keys, bits, 8).keys(torch.float32)
    # scale and zero have 11 bits each, and a key in the middle between two codes may go either way
    rounding = 2.0**-10 * (keys.abs().amax() + steps * 2**bits)
    assert ((found - keys).abs() <= 0.5 * steps + rounding).all()
    near = (found - slow).abs() <= rounding
    assert near.float().mean() > 0.95
    assert ((found - slow).abs() <= steps + rounding).all()


@given(
    st.sampled_from([4, 8]),
    st.floats(-3e4, 3e4),
    st.floats(1e-3, 1e4),
    st.integers(0, 5),
)
def test_no_key_is_off_by_more_than_half_a_step(
    bits: Bits, centre: float, spread: float, seed: int
) -> None:
    keys = (centre + spread * numbers(1, 1, 64, 2, seed=seed)).clamp(-6e4, 6e4).float()
    coded = Coded.of(keys, bits, GROUP)
    step = coded.scale.double().expand(1, 1, 2, GROUP, 2).flatten(2, 3)
    wrong = (coded.keys(torch.float64) - keys.double()).abs()
    # half a step, and the rounding of float32 in which codes are made
    assert (wrong <= 0.5 * step + 2.0**-22 * keys.abs().max()).all()


def test_keys_on_the_codes_come_back_bit_for_bit_and_two_share_a_byte() -> None:
    codes = torch.arange(16.0).repeat(2)[torch.randperm(32)].reshape(1, 1, 32, 1)
    coded = Coded.of(-3.0 + 0.5 * codes, 4, 32)
    assert torch.equal(coded.keys(torch.float32), -3.0 + 0.5 * codes)
    first, second = int(codes[0, 0, 0, 0]), int(codes[0, 0, 1, 0])
    assert int(coded.codes[0, 0, 0, 0, 0]) == first + 16 * second
    constant = torch.full((1, 1, 32, 1), 0.25)
    assert torch.equal(Coded.of(constant, 4, 32).keys(torch.float32), constant)


@pytest.mark.parametrize(("bits", "codes"), [(8, 1.0), (4, 0.5)])
def test_bytes_are_those_of_codes_scales_zeros_and_whole_numbers(bits: Bits, codes: float) -> None:
    inputs, heads, m, m_v, length = 2, 3, 5, 4, 70
    cache = new_cache(bits)
    cache.update(numbers(inputs, heads, length, m), numbers(inputs, heads, length, m_v), 0)
    channels = inputs * heads * m
    # two groups of 32 tokens with codes, 2 bytes of scale and 2 of zero; 6 tokens in float64
    keys = channels * (64 * codes + 2 * (2 + 2) + 6 * 8)
    assert bytes_of(cache) == keys + inputs * heads * m_v * length * 8
    short = channels * (64 * codes + 2 * (2 + 2) + 6 * 2)
    assert bytes_of(cache, 2) == short + inputs * heads * m_v * length * 2
    whole = new_cache(None)
    whole.update(numbers(inputs, heads, length, m), numbers(inputs, heads, length, m_v), 0)
    assert bytes_of(whole) == inputs * heads * length * (m + m_v) * 8


def test_tokens_that_come_one_by_one_are_quantised_in_the_same_groups() -> None:
    keys, values = numbers(1, 2, 20, 3), numbers(1, 2, 20, 4)
    at_once, slow = QuantisedLayer(4, 8), QuantisedLayer(4, 8)
    found = at_once.update(keys, values)
    for t in range(20):
        made = slow.update(keys[:, :, t : t + 1], values[:, :, t : t + 1])
        assert slow.get_seq_length() == t + 1
    assert torch.equal(found[0], made[0])
    assert torch.equal(found[1], values)
    # the last four fill no group
    assert torch.equal(found[0][:, :, 16:], keys[:, :, 16:])
    assert not torch.equal(found[0][:, :, :16], keys[:, :, :16])


def test_inputs_can_change_places_and_tokens_cannot_be_taken_back() -> None:
    layer = QuantisedLayer(8, 8)
    keys, _ = layer.update(numbers(3, 2, 10, 3), numbers(3, 2, 10, 3))
    layer.reorder_cache(torch.tensor([2, 0, 1]))
    none = torch.zeros(3, 2, 0, 3, dtype=torch.float64)
    assert torch.equal(layer.update(none, none)[0], keys[[2, 0, 1]])
    layer.batch_select_indices(torch.tensor([1]))
    layer.batch_repeat_interleave(2)
    again = layer.update(none[:2], none[:2])[0]
    assert torch.equal(again, keys[[0, 0]])
    with pytest.raises(NotImplementedError, match="cannot be taken back"):
        layer.crop(-1)
    layer.reset()
    assert layer.get_seq_length() == 0
    assert layer.tensors() == []


def thin(model: Any) -> Any:
    """The model with heads of 8 instead of 12."""
    found = gather(Watcher(model), [{"input_ids": tokens(3, 20)}])
    moments = {name: each.weights for name, each in found.items()}
    cuts = cut_pairs(moments, {name: each.groups for name, each in found.items()}, 8, "head")
    whole = attention_layers(model)
    return with_layers(model, {name: thinned(whole[name], cuts[name]) for name in cuts})


@pytest.mark.parametrize("shape", ["grouped", "thin"])
def test_a_model_reads_and_writes_through_it(shape: str) -> None:
    model = tiny_llama()
    model = thin(model) if shape == "thin" else model
    ids = tokens(1, 30)

    def logits(bits: Bits | None, length: int = 30) -> Tensor:
        with torch.no_grad():
            cache = new_cache(bits, 8)
            made: Tensor = model(ids[:, :length], past_key_values=cache, use_cache=True).logits
        return made

    with torch.no_grad():
        plain = model(ids, use_cache=False).logits
    assert torch.allclose(logits(None), plain, atol=1e-10)
    # fewer tokens than a group are all whole
    assert torch.allclose(logits(8, 7), plain[:, :7], atol=1e-10)
    wrong = [float((logits(bits) - plain).norm() / plain.norm()) for bits in (8, 4)]
    assert 0 < 5 * wrong[0] < wrong[1] < 1
    made = model.generate(ids, past_key_values=new_cache(8, 8), max_new_tokens=9, do_sample=False)
    assert made.shape == (1, 39)


def test_short_inputs_have_short_groups() -> None:
    assert [group_of(length) for length in (20, 63, 64, 500)] == [8, 8, 32, 32]


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("size", [64, 24, 5])
def test_values_share_a_scale_over_channels_of_one_token(bits: Bits, size: int) -> None:
    values = numbers(2, 2, 7, size).float() * torch.logspace(0, 3, 7)[:, None]
    found = Coded.of_values(values, bits).values(torch.float32, size)
    by_group = values.unflatten(-1, (-1, 32 if size == 64 else size))
    reach = by_group.amax(-1, keepdim=True) - by_group.amin(-1, keepdim=True)
    step = (reach / (2**bits - 1)).expand_as(by_group).flatten(-2)
    rounding = 2.0**-9 * values.abs().amax(-1, keepdim=True)
    assert ((found - values).abs() <= 0.5 * step + rounding).all()


@pytest.mark.parametrize("bits", [4, 8])
def test_a_cache_of_both_holds_values_in_few_bits_token_by_token(bits: Bits) -> None:
    at_once, slow = QuantisedLayer(bits, 8, True), QuantisedLayer(bits, 8, True)
    key, value = numbers(2, 2, 20, 12).float(), numbers(2, 2, 20, 6, seed=1).float()
    made = at_once.update(key, value)
    for t in range(20):
        last = slow.update(key[:, :, t : t + 1], value[:, :, t : t + 1])
    assert torch.equal(last[1], made[1])
    assert at_once.get_seq_length() == slow.get_seq_length() == 20
    # keys: 16 tokens in groups of 8, 4 whole; values: 20 tokens with one scale and zero each
    heads, share = 2 * 2, bits / 8
    keys = heads * (12 * (16 * share + 2 * 4) + 4 * 12 * 4)
    assert sum(x.nbytes for x in at_once.tensors()) == keys + heads * 20 * (6 * share + 4)
    slow.reorder_cache(torch.tensor([1, 1]))
    assert torch.equal(slow.coded_values.codes[0], at_once.coded_values.codes[1])
