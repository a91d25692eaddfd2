"""Adapters of one's own, and models that need none."""

import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import attnrate as ar
from attnrate.errors import InputError
from attnrate.spectra.adapters import claims, register, unregister
from attnrate.spectra.capture import Call
from attnrate.spectra.watching.watcher import Watcher

Tensor = torch.Tensor


# The example of docs/profile.md, as it stands.
_EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "adapter.py"))
ToyAttention, Toy = _EXAMPLE["ToyAttention"], _EXAMPLE["Toy"]


@pytest.fixture
def toy() -> Iterator[Any]:
    adapter = Toy()
    register(adapter)
    yield adapter
    unregister(adapter)


def test_an_adapter_of_ones_own_is_used(toy: Any) -> None:
    model = nn.Sequential(ToyAttention(), ToyAttention())
    x = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))
    ((adapter, _),) = claims(model)
    assert adapter is toy
    watcher, seen = Watcher(model), []
    with torch.no_grad():
        plain = model(x)
        with watcher.open(3, lambda site, call: seen.append((site.name, call))):
            assert torch.equal(model(x), plain)
        with watcher.open(3, edit=lambda site, query: 0 * query if site.name == "0" else query):
            flat = model(x)
        assert [name for name, _ in seen] == ["0", "1"]
        call = seen[0][1]
        head = x[2] @ model[0].to_q.weight[3:].T + model[0].to_q.bias[3:]
        assert torch.allclose(call.query[2, 1], head, atol=1e-6)
        # Queries of zero weigh all tokens alike.
        mean = model[0].out(model[0].to_v(x).mean(1, keepdim=True)).expand(3, 5, 4)
        assert torch.allclose(flat, model[1](mean), atol=1e-6)


def test_without_the_adapter_the_same_is_seen(toy: Any) -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(ToyAttention()), torch.randn(6, 9, 4)
    with_it = ar.profile(model, x, cut_inputs=2)
    unregister(toy)
    try:
        without = ar.profile(model, x, cut_inputs=2)
    finally:
        register(toy)
    for head in (0, 1):
        assert np.allclose(with_it.sigma(0, head), without.sigma(0, head), rtol=1e-6)
    ours, theirs = (found.layers[0].cuts[0.99].weights for found in (with_it, without))
    assert np.allclose(ours, theirs, atol=1e-6)


def test_what_is_registered_last_is_asked_first(toy: Any) -> None:
    class Louder(Toy):
        family = "louder"

    louder = Louder()
    register(louder)
    try:
        assert claims(ToyAttention())[0][0] is louder
    finally:
        unregister(louder)
    assert claims(ToyAttention())[0][0] is toy


@pytest.mark.parametrize(
    ("adapter", "said"),
    [(Toy, "is a class"), (None, "no family and no sites and no watch"), (object(), "no sites")],
)
def test_what_is_no_adapter_is_refused(adapter: object, said: str) -> None:
    with pytest.raises(InputError, match=said):
        register(adapter)


@pytest.mark.parametrize("model", ["bert-base-uncased", None, 3, nn.Linear])
def test_what_is_no_model_is_refused(model: object) -> None:
    with pytest.raises(InputError, match=r"must be a torch\.nn\.Module"):
        ar.profile(model, torch.zeros(2, 3, 4))


def watched(model: nn.Module, batch: dict[str, Tensor]) -> Watcher:
    watcher = Watcher(model)
    with torch.no_grad(), watcher.open(len(next(iter(batch.values()))), lambda *_: None):
        model(**batch)
    return watcher


IDS = {"input_ids": torch.arange(24).reshape(3, 8) % 9}
SMALL = {"vocab_size": 9, "num_hidden_layers": 2, "num_key_value_heads": 3}


@pytest.mark.parametrize(
    ("name", "settings", "sites"),
    [
        ("DistilBert", {"dim": 24, "n_heads": 3, "hidden_dim": 20, "n_layers": 2}, (3, 3, 8)),
        (
            "Gemma2",
            {"hidden_size": 24, "head_dim": 8, "num_attention_heads": 3, "intermediate_size": 20},
            (3, 3, 8),
        ),
        (
            "GPTJ",
            {"n_embd": 24, "n_head": 3, "n_layer": 2, "rotary_dim": 4, "n_positions": 16},
            (3, 3, 8),
        ),
        ("Bloom", {"hidden_size": 24, "n_head": 3, "n_layer": 2}, (3, 3, 8)),
        (
            "GPTNeo",
            {
                "hidden_size": 24,
                "num_heads": 3,
                "num_layers": 2,
                "attention_types": [[["global", "local"], 1]],
            },
            (3, 3, 8),
        ),
        ("Mpt", {"d_model": 24, "n_heads": 3, "n_layers": 2}, (3, 3, 8)),
        (
            "OPT",
            {"hidden_size": 24, "num_attention_heads": 3, "ffn_dim": 20, "word_embed_proj_dim": 24},
            (3, 3, 8),
        ),
        (
            "GPTNeoX",
            {"hidden_size": 24, "num_attention_heads": 3, "intermediate_size": 20},
            (3, 3, 8),
        ),
        (
            "DebertaV2",
            {
                "hidden_size": 24,
                "num_attention_heads": 3,
                "intermediate_size": 20,
                "relative_attention": True,
                "pos_att_type": ["p2c", "c2p"],
            },
            (3, 3, 8),
        ),
        (
            "XLNet",
            {"d_model": 24, "n_head": 3, "n_layer": 2, "d_inner": 20},
            (3, 3, 8),
        ),
    ],
)
def test_families_without_an_adapter_are_seen_whole(
    name: str, settings: dict[str, Any], sites: tuple[int, int, int]
) -> None:
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**(SMALL | settings))
    model = getattr(transformers, f"{name}Model")(config).eval()
    with torch.no_grad():
        plain = model(**IDS)[0]
        watcher = Watcher(model)
        with watcher.open(3, lambda *_: None):
            assert torch.equal(model(**IDS)[0], plain)
    assert not watcher.unseen()
    assert [(site.heads, site.groups, site.m_h) for site in watcher.sites] == [sites] * 2
    # what is done to queries reaches the model
    with torch.no_grad(), watcher.open(3, edit=lambda _, query: query.clone()):
        assert torch.allclose(model(**IDS)[0], plain, atol=1e-5)
    with torch.no_grad(), watcher.open(3, edit=lambda _, query: -50 * query):
        assert not torch.allclose(model(**IDS)[0], plain, atol=1e-5)


def test_a_soft_cap_is_read_from_the_call(tiny: Callable[[str], Any]) -> None:
    made = tiny("llama")
    made.model.set_attn_implementation("eager")
    seen: list[Call] = []
    with torch.no_grad(), Watcher(made.model).open(3, lambda _, c: seen.append(c), check=False):
        made(softcap=30.0)
    assert [call.softcap for call in seen] == [30.0, 30.0]


def test_a_pair_of_two_families_is_seen_whole() -> None:
    from transformers import (
        GPT2Config,
        VisionEncoderDecoderConfig,
        VisionEncoderDecoderModel,
        ViTConfig,
    )

    sizes = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2}
    encoder = ViTConfig(**sizes, intermediate_size=8, image_size=4, patch_size=2, num_channels=1)
    decoder = GPT2Config(
        n_embd=12, n_layer=1, n_head=3, vocab_size=9, n_positions=8, add_cross_attention=True
    )
    config = VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    model = VisionEncoderDecoderModel(config).eval()
    watcher = watched(
        model,
        {
            "pixel_values": torch.ones(2, 1, 4, 4),
            "decoder_input_ids": torch.ones(2, 3, dtype=torch.long),
        },
    )
    assert [(site.heads, site.kind) for site in watcher.sites] == [
        (2, "self"),
        (3, "self"),
        (3, "cross"),
    ]
    assert not watcher.unseen()
