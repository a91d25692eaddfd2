"""Thin attention in tiny models built as Llama is, its repair, and its files as stock Llama."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from rotary_tiny import BATCH, SIZES, filled, numbers, tiny_llama, tokens
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from attnrate.compress import export_llama as exporting
from attnrate.compress.export_llama import (
    LlamaFiles,
    export_llama,
    factors_of,
    stock_llama,
)
from attnrate.compress.modules.llama import replace, replaced, require_same, thinned
from attnrate.compress.modules.rotary_layers import attention_layers
from attnrate.compress.rotary import PairCut, RotaryMaps, cut_pairs
from attnrate.compress.rotary_moments import Felt, gather
from attnrate.compress.rotary_repair import Repaired, examples, repair
from attnrate.compress.rotary_values import ValueCut, cut_values
from attnrate.compress.written import ExportError
from attnrate.errors import InputError
from attnrate.spectra.watching.watcher import Watcher

Tensor = torch.Tensor
IDS = BATCH["input_ids"]
PADDED = torch.ones_like(IDS)
PADDED[1, 10:] = 0
# for writing on; a first token that sees nothing is not a number in float64 with "eager"
PADDED_FIRST = PADDED.flip(1)
KIN: dict[str, tuple[Any, Any]] = {
    "llama": (lambda: LlamaConfig(**SIZES, attention_bias=True), AutoModelForCausalLM.from_config),
    "mistral": (lambda: MistralConfig(**SIZES, sliding_window=5), MistralForCausalLM),
    "qwen2": (lambda: Qwen2Config(**SIZES), Qwen2ForCausalLM),
}


def moments(model: Any) -> dict[str, Felt]:
    return gather(Watcher(model), [BATCH])


def cuts(found: dict[str, Felt], size: int, shared: str = "head") -> dict[str, PairCut]:
    gammas, groups = ({n: getattr(x, a) for n, x in found.items()} for a in ("weights", "groups"))
    return cut_pairs(gammas, groups, size, shared)  # type: ignore[arg-type]


def value_cuts(model: Any, found: dict[str, Felt], size: int) -> dict[str, ValueCut]:
    return {
        name: cut_values(x.attended, model.get_submodule(name).o_proj.weight, x.groups, size)
        for name, x in found.items()
    }


def thin(model: Any, pairs: Any = None, values: Any = None) -> dict[str, Any]:
    return {
        name: thinned(part, pairs and pairs[name], values and values[name])
        for name, part in attention_layers(model).items()
    }


def logits(model: Any, **more: Any) -> Tensor:
    with torch.no_grad():
        made: Tensor = model(input_ids=IDS, **more).logits
    return made


@pytest.mark.parametrize("kind", KIN)
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_full_size_changes_nothing(kind: str, attention: str) -> None:
    config, build = KIN[kind]
    model = filled(build(config()))
    model.set_attn_implementation(attention)
    whole = logits(model, attention_mask=PADDED)
    found = moments(model)
    layers = thin(model, cuts(found, 12), value_cuts(model, found, 12))
    with replaced(model, layers):
        # "eager" computes its softmax in float32
        assert torch.allclose(logits(model, attention_mask=PADDED), whole, atol=1e-4)
    require_same(model, BATCH)
    again = logits(model, attention_mask=PADDED)
    assert torch.equal(again, whole)
    assert torch.isfinite(again).all()


@pytest.mark.parametrize("kind", KIN)
def test_a_cut_is_the_whole_layer_with_zeros_for_what_was_dropped(kind: str) -> None:
    config, build = KIN[kind]
    model = filled(build(config()))
    half, made = 6, cuts(moments(model), 8)
    with replaced(model, thin(model, made)):
        wanted = logits(model, attention_mask=PADDED)
    with torch.no_grad():
        for name, cut in made.items():
            layer: Any = model.get_submodule(name)
            c = torch.zeros(4, half, dtype=torch.complex128)
            for h in range(4):
                c[h, cut.pairs[h // 2]] = cut.factors[h]
            for x in layer.q_proj.parameters():
                rows = x.reshape(4, 2, half, -1)
                turned = c[..., None] * torch.complex(rows[:, 0], rows[:, 1])
                x.copy_(torch.stack([turned.real, turned.imag], 1).reshape(x.shape))
    assert torch.allclose(logits(model, attention_mask=PADDED), wanted)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_a_thin_model_writes_the_same_text_with_its_cache_as_without(attention: str) -> None:
    model = tiny_llama(torch.float32)
    model.set_attn_implementation(attention)
    found = moments(model)
    replace(model, thin(model, cuts(found, 8), value_cuts(model, found, 6)))
    options = {"max_new_tokens": 8, "do_sample": False, "attention_mask": PADDED_FIRST}
    with_cache, without = (
        model.generate(IDS, use_cache=cache, **options) for cache in (True, False)
    )
    assert torch.equal(with_cache, without)
    assert with_cache.shape == (3, IDS.shape[1] + 8)
    cache = model(input_ids=IDS, use_cache=True).past_key_values
    assert [(x.keys.shape[-1], x.values.shape[-1]) for x in cache.layers] == [(8, 6)] * 2


def test_a_thin_model_has_the_parameters_of_its_sizes_and_the_first_is_untouched() -> None:
    model = tiny_llama()
    before = {name: x.clone() for name, x in model.state_dict().items()}
    count = sum(x.numel() for x in model.parameters())
    found = moments(model)
    values = value_cuts(model, found, 6)
    with replaced(model, thin(model, cuts(found, 8), values)):
        saved = count - sum(x.numel() for x in model.parameters())
        # 4 of 12 rows of queries and keys, 6 of 12 of values and outputs; the output bias is new
        assert saved == 2 * 24 * (4 * 6 + 6 * 6 - 1)
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())


def test_models_that_normalise_queries_and_keys_are_refused_with_the_reason() -> None:
    model = Qwen3ForCausalLM(Qwen3Config(**SIZES))
    with pytest.raises(InputError, match=r"Qwen3Attention.*q_norm, k_norm.*cache could be made"):
        attention_layers(model)


def test_models_whose_attention_only_looks_like_llamas_are_refused() -> None:
    model = tiny_llama()
    layer: Any = model.model.layers[0].self_attn
    layer.o_proj.register_forward_hook(lambda _m, _x, made: made.tanh())
    whole = logits(model)
    with pytest.raises(InputError, match="rebuilt as that of Llama"):
        require_same(model, BATCH)
    assert torch.equal(logits(model), whole)


def test_a_model_without_attention_of_that_kind_is_refused() -> None:
    with pytest.raises(InputError, match="no attention layer"):
        attention_layers(torch.nn.Linear(2, 2))


def repaired(seed: int = 1, padded: bool = False, **more: Any) -> tuple[Any, PairCut, Repaired]:
    model = tiny_llama()
    name = "model.layers.1.self_attn"
    ids = tokens(40, 20, seed=3)
    mask = torch.ones_like(ids)
    if padded:
        mask[:20, 15:] = 0
    inputs = [{"input_ids": ids[i : i + 20], "attention_mask": mask[i : i + 20]} for i in (0, 20)]
    found = gather(Watcher(model), inputs)
    cut = cuts(found, 6)[name]
    given = examples(Watcher(model), inputs, [name])[name]
    generator = torch.Generator().manual_seed(seed)
    layer = model.get_submodule(name)
    options = {"steps": 40} | more
    return layer, cut, repair(layer, cut, given, generator, **options)


@pytest.mark.parametrize("padded", [False, True])
def test_repair_helps_on_inputs_that_it_has_not_seen(padded: bool) -> None:
    _, _, done = repaired(padded=padded)
    assert done.best > 0
    assert done.after < 0.9 * done.before


def test_repair_is_the_same_again_with_the_same_generator() -> None:
    (_, _, one), (_, _, two), (_, _, other) = repaired(1), repaired(1), repaired(2)
    assert torch.equal(one.maps.queries, two.maps.queries)
    assert torch.equal(one.maps.keys, two.maps.keys)
    assert not torch.equal(one.maps.keys, other.maps.keys)


def test_repair_that_only_does_harm_gives_the_cut_back() -> None:
    _, cut, done = repaired(rate=1e3, steps=8)
    assert (done.best, done.after) == (0, done.before)
    assert torch.equal(done.maps.queries, cut.maps(12).queries)


def test_no_steps_measure_the_cut_and_a_whole_layer_has_nothing_to_repair() -> None:
    _, _, done = repaired(steps=0)
    assert done.best == 0
    assert done.after == done.before > 0
    model, name = tiny_llama(), "model.layers.0.self_attn"
    given = examples(Watcher(model), [BATCH], [name])[name]
    whole = cuts(moments(model), 12)[name]
    again = repair(model.get_submodule(name), whole, given, torch.Generator(), steps=0)
    assert again.before < 1e-5


def test_what_repair_measures_is_what_the_thin_layer_changes() -> None:
    model, name = tiny_llama(), "model.layers.0.self_attn"
    given = examples(Watcher(model), [BATCH], [name])[name]
    cut = cuts(moments(model), 6)[name]
    layer: Any = model.get_submodule(name)
    done = repair(layer, cut, given, torch.Generator().manual_seed(1), steps=12, rate=3e-2)
    made: list[Tensor] = []
    # the first layer gets the same inputs in both models; the last input is the one set aside
    for maps in (None, cut, done.maps):
        own = layer if maps is None else thinned(layer, maps)
        with replaced(model, {name: own}):
            hook = own.register_forward_hook(lambda _m, _x, y: made.append(y[0][-1].detach()))
            logits(model)
            hook.remove()
    wrong = [float((x - made[0]).norm() / made[0].norm()) for x in made[1:]]
    assert wrong == pytest.approx([done.before, done.after], rel=1e-3)


def test_repair_needs_an_input_to_tell_when_to_stop() -> None:
    model, name = tiny_llama(), "model.layers.0.self_attn"
    given = examples(Watcher(model), [{"input_ids": IDS[:1]}], [name])[name]
    cut = cuts(moments(model), 6)[name]
    with pytest.raises(InputError, match="at least two"):
        repair(model.get_submodule(name), cut, given, torch.Generator())


def cut_for_llama(bias: bool = True, size: int = 8, **more: Any) -> Any:
    model = tiny_llama(torch.float32, **more)
    found = moments(model)
    values = value_cuts(model, found, size)
    if not bias:
        none = {name: torch.zeros_like(cut.left) for name, cut in values.items()}
        values = {n: dataclasses.replace(cut, left=none[n]) for n, cut in values.items()}
    replace(model, thin(model, cuts(found, size, "model"), values))
    return model


@pytest.mark.parametrize("bias", [True, False])
def test_stock_llama_computes_the_logits_of_the_cut_model(bias: bool) -> None:
    model = cut_for_llama(bias)
    stock = stock_llama(model)
    wanted, made = (logits(x, attention_mask=PADDED) for x in (model, stock))
    assert float((made - wanted).norm() / wanted.norm()) < 1e-5
    assert stock.config.attention_bias is bias  # type: ignore[union-attr]
    assert type(stock.model.layers[0].self_attn).__name__ == "LlamaAttention"  # type: ignore


def test_files_of_stock_llama_open_in_a_fresh_process_with_a_smaller_cache(tmp_path: Path) -> None:
    model = cut_for_llama()
    made = export_llama(model, tmp_path / "cut", IDS)
    assert made.difference < 1e-5
    # 2 layers, 2 key heads, keys and values of 8 instead of 12, 4 bytes
    assert made.cache == 2 * 2 * (8 + 8) * 4
    config = json.loads((tmp_path / "cut" / "config.json").read_text())
    assert (config["model_type"], config["head_dim"]) == ("llama", 8)
    assert not any(path.name.startswith("cut.") for path in tmp_path.iterdir())
    with pytest.raises(InputError, match="must be new"):
        export_llama(model, tmp_path / "cut", IDS)


def test_files_that_do_not_hold_the_model_are_kept_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def differs(_model: Any, folder: Path, _ids: Tensor) -> LlamaFiles:
        return LlamaFiles(folder, 0.01, 1, 1.0)

    monkeypatch.setattr(exporting, "opened_again", differs)
    for count in (1, 2):
        with pytest.raises(ExportError, match=r"other outputs, by 1\.0e-02"):
            export_llama(cut_for_llama(), tmp_path / "cut", IDS)
        names = sorted(path.name for path in tmp_path.iterdir())
        assert len(names) == count
        assert all(name.startswith("cut.differs") for name in names)


def test_what_stock_llama_cannot_hold_is_refused_with_the_way_out() -> None:
    model = tiny_llama()
    with pytest.raises(InputError, match="all attention layers"):
        stock_llama(model)
    found = moments(model)
    with (
        replaced(model, thin(model, cuts(found, 8, "model"))),
        pytest.raises(InputError, match=r"one size for keys and values"),
    ):
        stock_llama(model)
    for place, cut in enumerate((own := cuts(found, 4)).values()):
        own_pairs = torch.tensor([[0, 1], [2 + place, 5]])
        own[f"model.layers.{place}.self_attn"] = PairCut(own_pairs, cut.factors, cut.felt)
    with (
        replaced(model, thin(model, own, value_cuts(model, found, 4))),
        pytest.raises(InputError, match='shared="model"'),
    ):
        stock_llama(model)


@pytest.mark.parametrize("base", [1e4, 1e5, 5e5])
def test_the_factors_give_back_any_table_of_frequencies_to_float32(base: float) -> None:
    whole = 1.0 / base ** (torch.arange(0, 64, 2).float() / 64)
    kept = whole[torch.randperm(32, generator=torch.Generator().manual_seed(1))[:24].sort().values]
    powers = base ** (torch.arange(0, 48, 2, dtype=torch.int64).float() / 48)
    made = 1.0 / (torch.tensor(factors_of(kept, base)) * powers)
    assert float(((made - kept) / kept).abs().max()) <= 2 * torch.finfo(torch.float32).eps


def test_repaired_maps_are_folded_into_the_weights_as_any_others() -> None:
    model = tiny_llama()
    layer: Any = attention_layers(model)["model.layers.0.self_attn"]
    maps = RotaryMaps(torch.tensor([[0, 3], [2, 5]]), numbers(4, 12, 4), numbers(2, 12, 4, seed=2))
    thin_layer, x = thinned(layer, maps), numbers(5, 24)
    q = (layer.q_proj(x).unflatten(-1, (4, 12)).transpose(0, 1) @ maps.queries).transpose(0, 1)
    assert torch.allclose(thin_layer.q_proj(x), q.flatten(1))
    assert torch.equal(thin_layer.pairs, maps.pairs)


def test_a_width_that_heads_do_not_divide_has_no_place_in_stock_llama() -> None:
    model = filled(Qwen2ForCausalLM(Qwen2Config(**SIZES | {"hidden_size": 26})), torch.float32)
    found = moments(model)
    values = value_cuts(model, found, 8)
    with (
        replaced(model, thin(model, cuts(found, 8, "model"), values)),
        pytest.raises(InputError, match=r"a multiple of its 4 heads; the width: got 26"),
    ):
        stock_llama(model)
