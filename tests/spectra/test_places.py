"""Attention layers of a checkpoint by name: which are found, in what order, with what settings."""

import json

import pytest
import torch
from safetensors.torch import save_file

from attnrate.errors import AccuracyWarning, InputError
from attnrate.spectra.places import find_places, settings_of
from attnrate.spectra.weight_files import WeightFiles
from attnrate.spectra.weights_only import weight_spectra


def files(*names, **settings):
    return WeightFiles("m", frozenset(names), settings, torch.zeros, {})


def pair(layer, ends=("q_proj", "k_proj")):
    return tuple(f"{layer}.{end}.weight" for end in ends)


@pytest.mark.parametrize(
    "ends",
    [
        *(("query_proj", "key_proj"), ("linear_q", "linear_k"), ("to_q", "to_k"), ("Wq", "Wk")),
        *(("wq", "wk"), ("project_q", "project_k"), ("q_lin", "k_lin"), ("query", "key")),
    ],
)
def test_queries_and_keys_by_their_many_names(ends):
    (place,), left = find_places(files(*pair("h.0", ends)))
    assert (place.layer, place.kind, place.tensors) == ("h.0", "separate", pair("h.0", ends))
    assert not left


def test_layers_come_in_the_order_in_which_they_run():
    run = [
        *("encoder.block.2.a", "encoder.block.10.a", "decoder.layers.1.self_attn"),
        *("decoder.layers.1.encoder_attn", "decoder.layers.2.self_attn"),
    ]
    found, _ = find_places(files(*(name for layer in reversed(run) for name in pair(layer))))
    assert [place.layer for place in found] == run


def test_a_state_space_is_no_attention_and_deberta_is():
    mamba = ("layers.0.mixer.in_proj.weight", "layers.0.mixer.A_log")
    found, left = find_places(files(*mamba, *pair("layers.1.self_attn")))
    assert [place.layer for place in found] == ["layers.1.self_attn"]
    assert not left
    (place,), _ = find_places(files("layer.0.self.in_proj.weight", "layer.0.self.q_bias"))
    assert place.kind == "fused"


@pytest.mark.parametrize(
    ("names", "settings", "reason"),
    [
        ((*pair("l.0"), "l.0.A_log"), {}, "a recurrence"),
        ((*pair("l.0"), "l.0.forget_gate.A_log"), {}, "a recurrence"),
        ((*pair("l.0", "qk"), "l.0.igate_preact.weight"), {}, "a recurrence"),
        (("l.0.qkv_proj.weight",), {"model_type": "minimax"}, "lightning attention"),
        (("l.0.channel_attn.qkv.weight",), {}, "over channels"),
        (pair("l.0.global_pointer"), {}, "scores of pairs"),
        (("l.0.q_proj.weight",), {}, "no keys are beside"),
        (("l.0.kv_a_proj_with_mqa.weight",), {}, "latent attention without"),
        (("l.0.q_proj.weight_packed", "l.0.k_proj.weight_packed"), {}, "quantised"),
        (("l.0.q_proj.qweight", "l.0.k_proj.qweight"), {}, "quantised"),
    ],
)
def test_what_is_left_out_is_named_with_the_reason(names, settings, reason):
    found, left = find_places(files(*names, *pair("l.1"), **settings))
    assert [place.layer for place in found] == ["l.1"]
    assert set(left) <= set(names)
    assert all(reason in why for why in left.values())
    assert left
    with pytest.raises(InputError, match=rf"no attention can be read.*{reason}.*Profile the model"):
        find_places(files(*names, **settings))


def test_quantised_checkpoints_name_the_method():
    settings = {"quantization_config": {"quant_method": "compressed-tensors"}}
    with pytest.raises(InputError, match="quantised by compressed-tensors"):
        find_places(files("l.0.q_proj.weight_packed", **settings))


PARTS = {
    "model_type": "both", "num_attention_heads": 9, "head_dim": 7,
    "vision_config": {"model_type": "see", "num_heads": 3},
    "text_config": {"model_type": "read", "num_attention_heads": 4},
    "audio_config": {"model_type": "hear"},
    "perceiver_config": {"model_type": "join", "n_heads": 5},
}  # fmt: skip


@pytest.mark.parametrize(
    ("layer", "heads", "family"),
    [
        ("vision_tower.encoder.layers.0.attn", 3, "see"),
        ("visual.blocks.0.attn", 3, "see"),
        ("model.layers.0.self_attn", 4, "read"),
        ("language_model.model.layers.0.self_attn", 4, "read"),
        ("connector.perceiver_resampler.layers.0.self_attn", 5, "join"),
    ],
)
def test_each_part_of_a_model_has_heads_of_its_own(layer, heads, family):
    said = settings_of(layer, PARTS)
    assert (said.heads(), said.family) == (heads, family)
    assert said.head_size() is None


@pytest.mark.parametrize(
    "layer", ["audio_tower.layers.0.self_attn", "multi_modal_projector.cross_attn",
              "image_to_text_projection.x_attn"],
)  # fmt: skip
def test_a_part_of_which_nothing_is_said_takes_no_other_part_s_heads(layer):
    with pytest.raises(InputError, match="does not say how many heads"):
        settings_of(layer, PARTS).heads()


@pytest.mark.parametrize(
    ("settings", "layer", "heads"),
    [
        ({"encoder_attention_heads": 2, "decoder_attention_heads": 3}, "encoder.layers.0", 2),
        ({"encoder_attention_heads": 2, "decoder_attention_heads": 3}, "decoder.layers.0", 3),
        ({"num_decoder_attention_heads": 3, "num_heads": 2}, "decoder.layers.0", 3),
        ({"num_attention_heads": 2, "pred_num_attention_heads": 3}, "predictor.layer.0", 3),
        ({"num_heads": [3, 6]}, "encoder.layers.1.blocks.0", 6),
        ({"num_attention_heads": 8, "per_layer_config": {"02": {"num_attention_heads": 4}}},
         "layers.2.self_attn", 4),
        ({"num_attention_heads": 8, "per_layer_config": {"02": {"num_attention_heads": 4}}},
         "layers.12.self_attn", 8),
        ({"text_config": {"model_type": "x"}, "num_attention_heads": 2}, "layers.0.attn", 2),
    ],
)  # fmt: skip
def test_heads_by_side_stage_and_layer(settings, layer, heads):
    assert settings_of(layer, settings).heads() == heads


@pytest.mark.parametrize(
    "settings",
    [
        {}, {"num_heads": 0}, {"num_heads": "4"}, {"num_heads": True}, {"num_heads": [1]},
        {"num_heads": {}}, {"num_attention_heads": 1, "num_attention_heads_per_stage": [1, 2]},
        {"num_attention_heads": 12, "head_ratio": 2}, {"text_config": {"model_type": 3}},
        {"per_layer_config": {"9": 5}}, {"per_layer_config": {"9": {"num_heads": -1}}},
    ],
)  # fmt: skip
def test_heads_that_are_not_said_are_asked_for(settings):
    with pytest.raises(InputError, match=r"does not say how many heads.*heads=12"):
        settings_of("encoder.layers.9.attn", settings).heads()


def test_layers_that_do_not_fit_beside_others_that_do_are_left_out_by_name(tmp_path):
    tensors = {name: torch.eye(8) for name in pair("model.layers.0.self_attn")}
    tensors |= {name: torch.ones(6, 8) for name in pair("model.layers.1.self_attn")}
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"num_attention_heads": 4}))
    with pytest.warns(AccuracyWarning, match=r"left out: model\.layers\.1\.self_attn \(its number"):
        found = weight_spectra(tmp_path)
    assert [layer.name for layer in found.layers] == ["model.layers.0.self_attn"]
    assert [name for name, _ in found.left_out] == ["model.layers.1.self_attn"]
    assert "Left out: model.layers.1.self_attn (its number of heads" in str(found)
    with pytest.raises(InputError, match=r"layers\.1\.self_attn do not fit 4 heads"):
        weight_spectra(tmp_path, heads=4)
