"""Which families are known, what is said of others, and how to add one."""

import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from attnrate.errors import InputError
from attnrate.spectra.adapters import adapter_for, register, unregister
from attnrate.spectra.capture import Call

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


def test_a_family_can_be_added(toy: Any) -> None:
    model = nn.Sequential(ToyAttention(), ToyAttention())
    x = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))
    adapter, sites = adapter_for(model)
    assert adapter is toy
    seen: list[tuple[str, Call]] = []
    with torch.no_grad():
        plain = model(x)
        with adapter.watch(model, sites, see=lambda site, call: seen.append((site.name, call))):
            assert torch.equal(model(x), plain)
        with adapter.watch(model, sites[:1], edit=lambda _, query: 0 * query):
            flat = model(x)
        assert [name for name, _ in seen] == ["0", "1"]
        call = seen[0][1]
        head = x[2] @ model[0].to_q.weight[3:].T + model[0].to_q.bias[3:]
        assert torch.allclose(call.query[2, 1], head, atol=1e-6)
        # Queries of zero weigh all tokens alike.
        mean = model[0].out(model[0].to_v(x).mean(1, keepdim=True)).expand(3, 5, 4)
        assert torch.allclose(flat, model[1](mean), atol=1e-6)


def test_without_its_adapter_the_error_says_what_to_write() -> None:
    with pytest.raises(InputError, match=r"ToyAttention.*Known families: bert, .*register"):
        adapter_for(nn.Sequential(ToyAttention()))


def test_what_is_registered_last_is_asked_first(toy: Any) -> None:
    class Louder(Toy):
        family = "louder"

    louder = Louder()
    register(louder)
    try:
        assert adapter_for(ToyAttention())[0] is louder
    finally:
        unregister(louder)
    assert adapter_for(ToyAttention())[0] is toy


@pytest.mark.parametrize(
    ("adapter", "said"),
    [(Toy, "is a class"), (None, "no family and no sites and no watch"), (object(), "no sites")],
)
def test_what_is_no_adapter_is_refused(adapter: object, said: str) -> None:
    with pytest.raises(InputError, match=said):
        register(adapter)


def test_a_model_without_attention_is_refused() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    with pytest.raises(InputError, match=r"no attention.*'Linear': 2.*register.*'Another family'"):
        adapter_for(model)


@pytest.mark.parametrize("model", ["bert-base-uncased", None, 3, nn.Linear])
def test_what_is_no_model_is_refused(model: object) -> None:
    with pytest.raises(InputError, match=r"must be a torch\.nn\.Module"):
        adapter_for(model)


@pytest.mark.parametrize(
    ("name", "settings", "part"),
    [
        ("DistilBert", {"dim": 24, "n_heads": 3, "hidden_dim": 20}, "DistilBertSelfAttention"),
        ("Gemma2", {"hidden_size": 24, "head_dim": 8, "num_attention_heads": 3}, "Gemma2Attention"),
    ],
)
def test_relatives_that_are_not_alike_are_not_taken_for_known_ones(
    name: str, settings: dict[str, Any], part: str
) -> None:
    import transformers

    config = getattr(transformers, f"{name}Config")(
        **settings, vocab_size=9, num_hidden_layers=1, num_key_value_heads=3, intermediate_size=20
    )
    with pytest.raises(InputError, match=part):
        adapter_for(getattr(transformers, f"{name}Model")(config))


def test_logits_that_are_bent_are_refused(tiny: Callable[[str], Any]) -> None:
    made = tiny("llama")
    made.model.set_attn_implementation("eager")
    adapter, sites = adapter_for(made.model)
    with (
        pytest.raises(InputError, match=r"layers\.0\.self_attn changes its logits.*softcap"),
        adapter.watch(made.model, sites, see=lambda *_: None),
    ):
        made(softcap=30.0)


def test_gpt2_that_computes_out_of_sight_is_refused(tiny: Callable[[str], Any]) -> None:
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(n_embd=12, n_layer=1, n_head=2, vocab_size=9, reorder_and_upcast_attn=True)
    model = GPT2Model(config)
    model.set_attn_implementation("eager")
    adapter, sites = adapter_for(model)
    with pytest.raises(InputError, match=r"h\.0\.attn computes its logits out of sight.*sdpa"):
        adapter.watch(model, sites)
    model.set_attn_implementation("sdpa")
    seen = []
    with torch.no_grad(), adapter.watch(model, sites, see=lambda *call: seen.append(call)):
        model(torch.ones(1, 3, dtype=torch.long))
    assert len(seen) == 1


TEXT, PATCHES = "attention_mask", None


@pytest.mark.parametrize(
    ("name", "sites"),
    [
        (
            "bert-pair",
            [
                ("encoder.encoder.layer.0.attention.self", "self", TEXT, TEXT),
                ("encoder.encoder.layer.1.attention.self", "self", TEXT, TEXT),
                *(
                    (
                        f"decoder.bert.encoder.layer.{layer}.{part}.self",
                        kind,
                        f"decoder_{TEXT}",
                        key,
                    )
                    for layer in (0, 1)
                    for part, kind, key in (
                        ("attention", "self", f"decoder_{TEXT}"),
                        ("crossattention", "cross", TEXT),
                    )
                ),
            ],
        ),
        (
            "gpt2-cross",
            [
                (f"h.{layer}.{part}", kind, TEXT, key)
                for layer in (0, 1)
                for part, kind, key in (
                    ("attn", "self", TEXT),
                    ("crossattention", "cross", f"encoder_{TEXT}"),
                )
            ],
        ),
        (
            "whisper",
            [
                ("encoder.layers.0.self_attn", "self", None, None),
                ("encoder.layers.1.self_attn", "self", None, None),
                *(
                    (f"decoder.layers.{layer}.{part}", kind, f"decoder_{TEXT}", key)
                    for layer in (0, 1)
                    for part, kind, key in (
                        ("self_attn", "self", f"decoder_{TEXT}"),
                        ("encoder_attn", "cross", None),
                    )
                ),
            ],
        ),
    ],
)
def test_names_and_masks_of_pairs(
    name: str, sites: list[tuple[str | None, ...]], tiny: Callable[[str], Any]
) -> None:
    _, found = adapter_for(tiny(name).model)
    assert [(site.name, site.kind, *site.streams) for site in found] == sites


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
    adapter, sites = adapter_for(model)
    assert adapter.family == "vit + gpt2"
    assert [site.name for site in adapter.sites(model)] == [site.name for site in sites]
    assert [(site.heads, site.kind, site.streams) for site in sites] == [
        (2, "self", (None, None)),
        (3, "self", ("decoder_attention_mask", "decoder_attention_mask")),
        (3, "cross", ("decoder_attention_mask", None)),
    ]
    seen: list[str] = []
    with torch.no_grad(), adapter.watch(model, sites, see=lambda site, _: seen.append(site.name)):
        model(
            pixel_values=torch.ones(1, 1, 4, 4),
            decoder_input_ids=torch.ones(1, 3, dtype=torch.long),
        )
    assert seen == [site.name for site in sites]
