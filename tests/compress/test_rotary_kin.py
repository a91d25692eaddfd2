"""Rotary models that are almost, but not quite, built as Llama is; and what a cut leaves alone."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from rotary_tiny import SIZES, filled, numbers, tiny_llama, tokens
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import (
    EuroBertConfig,
    EuroBertModel,
    GPT2Config,
    GPT2LMHeadModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

import attnrate as ar
from attnrate.compress.export_llama import require_llama
from attnrate.compress.modules.llama import ThinLlamaAttention, with_layers
from attnrate.compress.modules.rotary_layers import attention_layers
from attnrate.compress.rotary import RotaryMaps
from attnrate.compress.rotary_repair import _Coordinates, _Layer
from attnrate.errors import InputError

Tensor = torch.Tensor
IDS = tokens(20, 14)
INPUTS = {"input_ids": IDS}


def cut(model: Any, size: int = 8, inputs: Any = INPUTS, **more: Any) -> ar.Compressed:
    return ar.compress(model, inputs, size=size, timing=0, **more)


def of(name: str, **more: Any) -> Any:
    """A tiny model of a family of transformers, with a language head."""
    config = getattr(transformers, f"{name}Config")(**SIZES | more)
    return filled(getattr(transformers, f"{name}ForCausalLM")(config), torch.float32)


def first(model: Any, ids: Tensor = IDS) -> Tensor:
    with torch.no_grad():
        made: Tensor = model(input_ids=ids)[0]
    return made


def euro_bert() -> Any:
    return filled(EuroBertModel(EuroBertConfig(**SIZES)), torch.float32)


def test_the_original_and_the_cut_model_have_attention_functions_of_their_own() -> None:
    model = tiny_llama(torch.float32)
    done = cut(model, repair=2).model
    made = first(done)
    model.set_attn_implementation("eager")
    assert torch.equal(first(done), made)
    done.set_attn_implementation("eager")  # type: ignore[operator]
    model.set_attn_implementation("sdpa")
    layers = [part for part in done.modules() if isinstance(part, ThinLlamaAttention)]
    assert [layer.config._attn_implementation for layer in layers] == ["eager"] * 2
    assert torch.allclose(first(done), made, atol=1e-5)


def test_a_copy_that_shares_weights_has_a_configuration_of_its_own() -> None:
    model = tiny_llama(torch.float32)
    thin = {n: x for n, x in cut(model).model.named_modules() if isinstance(x, ThinLlamaAttention)}
    other: Any = with_layers(model, thin)
    assert all(layer.config is other.config for layer in thin.values())
    assert other.config is not model.config


@pytest.mark.parametrize("build", [lambda: tiny_llama(torch.float32), lambda: of("Qwen3")])
def test_a_cut_model_gives_its_attention_weights(build: Any) -> None:
    done: Any = cut(build()).model
    for model in (done, copy.deepcopy(done)):
        model.set_attn_implementation("eager")
        with torch.no_grad():
            found = model(input_ids=IDS, output_attentions=True).attentions
        assert [x.shape for x in found] == [(20, 4, 14, 14)] * 2


@pytest.mark.parametrize("padded", [False, True])
def test_an_encoder_stays_bidirectional_and_keeps_no_cache(padded: bool, tmp_path: Path) -> None:
    model = euro_bert()
    mask = torch.ones_like(IDS)
    mask[::2, 9:] = 1 - padded
    done = cut(model, 12, {**INPUTS, "attention_mask": mask})
    assert done.change < 1e-5
    assert not done.has_cache
    assert not any(layer.in_cache for layer in done.layers)
    assert torch.allclose(first(done.model), first(model), atol=1e-4)
    again = ar.load_model(done.save(tmp_path / "thin")).model
    assert torch.allclose(first(again), first(model), atol=1e-4)


def test_folders_written_before_encoders_were_cut_open_as_decoders(tmp_path: Path) -> None:
    done = cut(tiny_llama(torch.float32))
    folder = done.save(tmp_path / "thin")
    said = json.loads((folder / "compressed.json").read_text())
    for layer in said["layers"].values():
        del layer["causal"], layer["softcap"]
    (folder / "compressed.json").write_text(json.dumps(said))
    assert torch.equal(first(ar.load_model(folder).model), first(done.model))


def test_a_layer_that_is_rebuilt_wrongly_does_not_hide_behind_padding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = ThinLlamaAttention.__init__

    def causal(self: Any, module: Any, shape: Any) -> None:
        own(self, module, shape)
        self.is_causal = True

    monkeypatch.setattr(ThinLlamaAttention, "__init__", causal)
    mask = torch.ones_like(IDS)
    mask[:, 9:] = 0
    with pytest.raises(InputError, match="rebuilt as that of Llama"):
        cut(euro_bert(), 12, {**INPUTS, "attention_mask": mask})


GROWS = {"rope_type": "default", "rope_theta": 1e4, "llama_4_scaling_beta": 0.1}
GROWS["original_max_position_embeddings"] = 64
PART = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}


@pytest.mark.parametrize(
    ("name", "more", "why"),
    [
        ("Olmo", {"clip_qkv": 8.0}, r"bounds whole queries, keys and values \(clip_qkv\)"),
        ("Ministral3", {"rope_parameters": GROWS}, r"grows with the position \(llama_4_scaling"),
        (
            "GptOss",
            {"num_local_experts": 2, "num_experts_per_tok": 1},
            r"may attend to nothing \(sinks\)",
        ),
        ("SmolLM3", {"no_rope_layers": [1, 0]}, r"does not turn its queries and keys \(use_rope\)"),
        ("StableLm", {"rope_parameters": PART, "hidden_size": 48}, r"turns 50% of the dimensions"),
    ],
)
def test_what_llama_does_not_do_is_refused_by_its_name(name: str, more: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        cut(of(name, **more))


def test_attention_to_other_tokens_is_refused() -> None:
    own = transformers.T5GemmaModuleConfig(**SIZES)
    model = transformers.T5GemmaModel(transformers.T5GemmaConfig(encoder=own, decoder=own))
    with pytest.raises(InputError, match=r"T5GemmaCrossAttention.*not given the rotation"):
        attention_layers(model)


@pytest.mark.parametrize("name", ["Gemma2", "VaultGemma"])
def test_a_bound_on_logits_stays(name: str) -> None:
    more = {"layer_types": ["full_attention"] * 2, "query_pre_attn_scalar": 12}
    model = of(name, attn_logit_softcapping=0.5, **more)
    model.set_attn_implementation("eager")
    whole = first(model)
    model.config.attn_logit_softcapping = None
    done = cut(model, 12)
    assert torch.allclose(first(done.model), whole, atol=1e-4)
    thin = next(x for x in done.model.modules() if isinstance(x, ThinLlamaAttention))
    assert thin.shape.softcap == 0.5
    with pytest.raises(InputError, match="does not bound logits"):
        require_llama(done.model)


def test_the_dropout_behind_the_output_stays() -> None:
    done: Any = cut(of("Starcoder2", residual_dropout=0.9), 12).model.train()
    added = done.model.layers[0].self_attn(
        numbers(1, 5, 24).float(), tuple(torch.ones(1, 5, 12) for _ in range(2))
    )[0]
    assert float((added == 0).float().mean()) > 0.5


def test_labels_beside_the_ids_change_no_verdict() -> None:
    assert cut(tiny_llama(torch.float32), 12, {**INPUTS, "labels": IDS}).change < 1e-5
    model: Any = tiny_llama(torch.float32)
    model.model.layers[0].self_attn.o_proj.register_forward_hook(lambda _m, _x, y: 1.001 * y)
    with pytest.raises(InputError, match="rebuilt as that of Llama"):
        cut(model, 12, {**INPUTS, "labels": IDS})


def test_a_layer_that_runs_twice_is_not_cut() -> None:
    model: Any = tiny_llama(torch.float32, num_hidden_layers=3)
    model.model.layers[1] = model.model.layers[0]
    done = cut(model)
    assert [layer.name for layer in done.layers] == ["model.layers.2.self_attn"]
    assert [left.partition(": ")[2] for left in done.left] == [
        "its weights serve several layers"
    ] * 2
    made: Any = done.model
    assert made.model.layers[0].self_attn is not model.model.layers[0].self_attn
    model.model.layers[2] = model.model.layers[0]
    with pytest.raises(InputError, match="its weights serve several layers"):
        cut(model)


def test_weights_that_two_layers_share_are_not_cut() -> None:
    model: Any = tiny_llama(torch.float32, num_hidden_layers=3)
    model.model.layers[1].self_attn.k_proj = model.model.layers[0].self_attn.k_proj
    assert [layer.name for layer in cut(model).layers] == ["model.layers.2.self_attn"]


def test_repair_takes_maps_to_where_its_layer_is() -> None:
    # no GPU is needed: fake tensors have places and sizes, and no numbers
    with FakeTensorMode():
        cut_on_cpu = (
            torch.zeros(2, 2, dtype=torch.long),
            torch.empty(4, 12, 4),
            torch.empty(2, 12, 4),
        )
        maps = RotaryMaps(*cut_on_cpu)
        layer: Any = _Layer.__new__(_Layer)
        layer.groups, layer.shared, layer.m = 2, 2, 12
        layer.own = [tuple(torch.empty(n, 9, 12, device="cuda") for n in (4, 2))]
        found = _Coordinates(layer, maps, [0])
        there = found.maps(*found.start)
        assert {x.device.type for x in (there.pairs, there.queries, there.keys)} == {"cuda"}
        back = found.folded(*found.start)
        assert {x.device.type for x in (back.pairs, back.queries, back.keys)} == {"cpu"}


@pytest.mark.parametrize(
    "build",
    [
        lambda: tiny_llama(torch.float32, attention_dropout=0.5),
        lambda: of("Qwen3", attention_dropout=0.5),
    ],
)
def test_a_model_in_training_with_dropout_is_cut_as_one_at_rest(build: Any) -> None:
    model = build().train()
    assert cut(model, 12).change < 1e-5
    assert all(part.training for part in model.modules())


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (lambda: of("Mistral", sliding_window=8), "no sliding window"),
        (lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES)), "no norms of queries and keys"),
        (lambda: of("Gemma"), "in stock Llama give other logits"),
        (lambda: of("Granite", residual_multiplier=0.5), "in stock Llama give other logits"),
        (lambda: of("Mixtral", num_local_experts=2), "no place for tensors"),
        (lambda: tiny_llama().model, "language head"),
        (
            lambda: GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=24, n_head=4)),
            "rotary decoders with a language head",
        ),
    ],
)
def test_what_stock_llama_does_not_do_is_said_before_any_work(build: Any, why: str) -> None:
    with pytest.raises(InputError, match=why) as found:
        require_llama(build())
    assert "shared" not in str(found.value)


def test_llama_and_its_kin_have_a_place_in_stock_llama() -> None:
    for model in (tiny_llama(), of("Mistral", sliding_window=None), of("Qwen2")):
        require_llama(model)


def test_a_cut_model_is_not_cut_again() -> None:
    done = cut(tiny_llama(torch.float32))
    with pytest.raises(InputError, match="its heads were cut before"):
        cut(done.model, 4)


def test_packed_weights_are_refused() -> None:
    class Packed(torch.nn.Linear):
        """What stands for the Linear4bit of bitsandbytes."""

    model: Any = tiny_llama(torch.float32)
    model.model.layers[1].self_attn.k_proj = Packed(24, 24, bias=False)
    with pytest.raises(InputError, match=r"projections are Packed and no plain"):
        attention_layers(model)


def test_frozen_weights_stay_frozen() -> None:
    model = tiny_llama(torch.float32).requires_grad_(False)
    model.model.layers[0].self_attn.k_proj.requires_grad_(True)
    done = cut(model, repair=2, values=True).model
    free = [name for name, x in done.named_parameters() if x.requires_grad]
    assert free == ["model.layers.0.self_attn.k_proj.weight"]
