"""Thin keys and values in the caches of transformers: what is written is the same without one."""

import pytest
import torch
from thin_families import known, text, thin_layers
from transformers import DynamicCache, EncoderDecoderCache

from attnrate.compress.fold import fold
from attnrate.compress.modules.caching import by_heads, remembered

WRITERS = (
    *("gpt2", "gpt2-cross", "bert-cross", "roberta-writer", "biogpt", "bart", "blenderbot"),
    *("m2m_100", "marian", "pegasus", "whisper", "t5", "mt5"),
)


@pytest.mark.parametrize("name", WRITERS)
def test_a_thin_model_writes_the_same_with_a_cache_and_without(name):
    model, batch, found = known(name)
    thin = fold(model, thin_layers(found, 4, 3))
    assert torch.equal(text(thin, batch), text(thin, batch, use_cache=False))


@pytest.mark.parametrize("name", ["gpt2", "bart", "whisper", "t5"])
def test_a_cache_of_fixed_size_and_several_beams_serve_as_well(name):
    model, batch, found = known(name)
    thin = fold(model, thin_layers(found, 4, 3))
    fixed = text(thin, batch, cache_implementation="static")
    assert torch.equal(text(thin, batch), fixed)
    beams = text(thin, batch, num_beams=3)
    assert torch.equal(beams, text(thin, batch, num_beams=3, use_cache=False))


@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_the_cache_holds_what_is_thin(name):
    model, batch, found = known(name)
    thin = fold(model, thin_layers(found, 4, 3))
    with torch.no_grad():
        cache = thin(**batch, use_cache=True).past_key_values
    own = cache.self_attention_cache if name == "t5" else cache
    for layer in own.layers:
        assert (layer.keys.shape[-1], layer.values.shape[-1]) == (4, 3)


def made(seed: int, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    drawn = torch.Generator().manual_seed(seed)
    return torch.randn(2, 3, tokens, 4, generator=drawn), torch.randn(2, 3, tokens, 2)


def test_tokens_that_are_written_are_added_and_those_that_are_read_are_made_once():
    cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    first, second, read = made(0, 3), made(1, 1), made(2, 5)
    remembered(cache, 0, False, lambda: first)
    keys, values = remembered(cache, 0, False, lambda: second)
    assert torch.equal(keys, torch.cat([first[0], second[0]], 2))
    assert torch.equal(values, torch.cat([first[1], second[1]], 2))
    assert remembered(cache, 0, True, lambda: read)[0].shape[2] == 5
    again = remembered(cache, 0, True, lambda: pytest.fail("they are there already"))
    assert torch.equal(again[0], read[0])
    assert torch.equal(again[1], read[1])


def test_a_cache_of_one_kind_gets_no_tokens_of_the_encoder():
    cache = DynamicCache()
    remembered(cache, 0, False, lambda: made(0, 3))
    assert remembered(cache, 0, True, lambda: made(2, 5))[0].shape[2] == 5
    assert cache.get_seq_length() == 3
    assert remembered(None, 0, True, lambda: made(2, 5))[0].shape[2] == 5


def test_heads_are_taken_apart_as_the_features_lie():
    x = torch.arange(2 * 5 * 12.0).view(2, 5, 12)
    assert torch.equal(by_heads(x, 4)[1, 2, 3], x[1, 3, 8:])
