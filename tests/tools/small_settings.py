"""Settings of any model type of transformers made small, by the names of the settings."""

import re
from typing import Any

HIDDEN, HEADS, HEAD, LAYERS, VOCABULARY, IMAGE, POSITIONS = 64, 4, 16, 2, 99, 64, 64
Settings = dict[str, Any]

#: What settings become whose whole name matches; a number stays if it is smaller already
_SMALL: tuple[tuple[str, int], ...] = (
    (r"d_head", HEAD),
    (r"(num_)?(key_value|kv)_heads|n_kv_heads?|num_(key_value|kv)_heads|multi_query_group_num", 2),
    (r".*(num_)?(attention_heads?|_heads?|n_heads?|nhead)|num_head|heads|num_attn_heads", HEADS),
    (r"(qk_nope_|v_|attention_|global_|swa_|linear_.*_)?head_(dim|size)|kv_channels|d_kv", HEAD),
    (r"qk_rope_head_dim", HEAD),
    (r"rotary_dim", 8),
    (r"qk_head_dim|attention_key_size", HEAD),
    (r"coordinate_size", 8),
    (r"shape_size", 16),
    (r"n_words", VOCABULARY),
    (r"emb_dim|upsample_groups", HIDDEN),
    (r"(q|kv|o)_lora_rank|.*lora.*(rank|dim).*", 16),
    (r"(.*_)?window_size", 2),
    (r"sliding_window|attention_window", 4),
    (r"n_group|topk_group|n_groups?", 1),
    (r".*(num|n)_.*(residual|conv|deconv).*layers?.*", 1),
    (
        r"num_(hidden_)?layers|n_layers?|(encoder|decoder)_layers|depth|.*num_.*layers|.*_layers",
        LAYERS,
    ),
    (r"(.*_)?vocab_size(_.*)?|n_vocab", VOCABULARY),
    (
        r"(moe_|shared_expert_|expert_|dense_)?(intermediate|ffn|ff|inner|mlp)_(size|dim|hidden_size)",
        48,
    ),
    (
        r".*(ffn_dim|ffn_hidden_size|intermediate_size|d_ff|mlp_dim|feedforward.*|d_inner|n_inner)",
        48,
    ),
    (r"num_(local_|routed_)?experts|n_routed_experts|moe_num_experts|num_moe_experts", 4),
    (r"(num_experts_per_tok|moe_topk|moe_k|top_k_experts|num_selected_experts|top_k)", 2),
    (r"image_size|img_size|input_size|crop_size", IMAGE),
    (
        r"max_position_embeddings|n_positions|max_seq_len.*|max_.*positions|n_ctx|seq_length",
        POSITIONS,
    ),
    (r"num_frames|frames_per_clip|num_image_frames", 4),
    (r"num_queries|num_object_queries|num_query_tokens|num_latents|query_length", 9),
    (
        r"(qk|v|vision|text|encoder|decoder|audio|query|output|projection|out|proj).*(hidden_size|dim)",
        HIDDEN,
    ),
    (
        r"hidden_size|hidden_dim|d_model|n_embd|dim|embed_dim|d_latents|width|.*embedding_size",
        HIDDEN,
    ),
    (r".*(_hidden_size|_hidden_dim|_embed_dim|_projection_dim|_dim_out|_embd|embed_size)", HIDDEN),
    (r".*(hidden_size|embed_dim|embedding_dim|hidden_dim|proj_dim|projection_size)", HIDDEN),
)
_KEPT = re.compile(
    r"num_channels|in_chans?|.*patch.*|.*kernel.*|.*stride.*|.*_bins?|.*bias.*|num_feat_extract_layers"
)
#: In place of a backbone of timm, which is another package
_BACKBONE: Settings = {
    "model_type": "resnet",
    "embedding_size": 16,
    "hidden_sizes": [16, 16, 32, 32],
    "depths": [1, 1, 1, 1],
    "out_features": ["stage2", "stage3", "stage4"],
}
_SIZES = re.compile(r".*(hidden_sizes|embed_dims?|out_features_dims|encoder_hidden_dims|dims)$")
_TOKEN = re.compile(r".*token_(id|index)$|.*(pad|bos|eos|sep|cls|mask|start)_.*id$|.*_token$")
_KINDS = re.compile(r".*layer.*types?|layers_block_type|attention_types")


def shrunk(settings: Settings) -> Settings:
    """Small settings with the structure of the large ones; nested settings are made small too.

    Args:
        settings: What `to_dict` of a configuration of transformers gives.

    Returns:
        Two layers (or one of each kind), a few heads of size 16, a small vocabulary, small images.

    """
    made = {
        name: shrunk(value) if _is_nested(name, value) else value
        for name, value in settings.items()
    }
    counts = {settings.get(name) for name in ("num_hidden_layers", "n_layer", "num_layers")} - {
        None
    }
    for name, value in made.items():
        made[name] = _small(name, value, counts)
    backbone = made.get("backbone_config")
    if isinstance(backbone, dict) and backbone.get("model_type") == "timm_backbone":
        made |= {"backbone_config": _BACKBONE, "use_timm_backbone": False}
    _with_defaults(made)
    _with_stages(settings, made)
    _with_all_kinds(settings, made)
    _with_small_tokens(made)
    _with_sections(made)
    return made


def _is_nested(name: str, value: object) -> bool:
    return isinstance(value, dict) and ("config" in name or "model_type" in value)


def _small(name: str, value: Any, counts: set[Any]) -> Any:
    if isinstance(value, list) and value and all(type(x) is int for x in value):
        return _small_list(name, value, counts)
    if isinstance(value, list) and len(value) in counts and len(value) > LAYERS:
        return value[:LAYERS]
    if type(value) is not int or _KEPT.fullmatch(name):
        return value
    if name == "window_size" and value >= 64:
        return value  # of pixels
    for pattern, size in _SMALL:
        if re.fullmatch(pattern, name):
            return min(value, size)
    return value


def _small_list(name: str, value: list[int], counts: set[Any]) -> list[int]:
    if name in ("depths", "layers", "num_blocks", "num_conv_blocks", "blocks_per_stage"):
        return [min(depth, 2) for depth in value]
    if "heads" in name:
        return [min(heads, 2) for heads in value]
    if "image_size" in name or name == "img_size":
        return [min(size, IMAGE) for size in value]
    if _SIZES.fullmatch(name):
        return [min(size, 16 * (place + 1)) for place, size in enumerate(value)]
    return value[:LAYERS] if len(value) in counts and len(value) > LAYERS else value


def _with_defaults(made: Settings) -> None:
    """Fill in what some types cannot do without, and let what belongs together fit."""
    if made.get("kv_lora_rank"):
        made["num_key_value_heads"] = made.get("num_attention_heads", HEADS)
    if "head_dim" in made and made["head_dim"] is None and made.get("num_attention_heads") == HEADS:
        made["head_dim"] = HEAD
    if "prediction_length" in made and made["prediction_length"] is None:
        made |= {"prediction_length": 8, "context_length": 16}
    if isinstance(made.get("encoder_in_channels"), list):
        made["encoder_in_channels"] = [32, 48, 64][-len(made["encoder_in_channels"]) :]
    layers = made.get("num_hidden_layers")
    if isinstance(made.get("per_layer_config"), dict) and isinstance(layers, int):
        own = made["per_layer_config"]
        made["per_layer_config"] = {key: own[key] for key in own if int(key) < layers}


def _with_stages(settings: Settings, made: Settings) -> None:
    """Let a backbone whose layers are taken out have as many layers as are taken."""
    taken = made.get("out_features")
    layers = settings.get("num_hidden_layers")
    if not isinstance(taken, list) or not isinstance(layers, int) or "stage_names" not in made:
        return
    made |= {"num_hidden_layers": max(LAYERS, len(taken)), "out_indices": None}
    made["out_features"] = [f"stage{number + 1}" for number in range(len(taken))]
    if len(taken) == 1:
        made["out_features"] = [f"stage{LAYERS}"]
    del made["stage_names"]


def _with_all_kinds(settings: Settings, made: Settings) -> None:
    """Let lists of what each layer is have one layer of each kind, and at least two layers."""
    for name, value in settings.items():
        if not isinstance(value, list) or not _KINDS.fullmatch(name) or not value:
            continue
        if not all(isinstance(kind, str) for kind in value):
            continue
        kinds = list(dict.fromkeys(value))
        kinds = (kinds * LAYERS)[: max(LAYERS, len(kinds))]
        made[name] = kinds
        for count in ("num_hidden_layers", "n_layer", "num_layers"):
            if isinstance(made.get(count), int):
                made[count] = len(kinds)
        for other, each in settings.items():
            if other != name and isinstance(each, list) and len(each) == len(value):
                made[other] = each[: len(kinds)] if not _KINDS.fullmatch(other) else made[other]
    if "attn_layer_period" in made:
        made |= {"attn_layer_period": 2, "attn_layer_offset": 1}
    if "full_attention_interval" in made:
        made["full_attention_interval"] = 2


def _with_small_tokens(made: Settings) -> None:
    """Let special tokens be different numbers of the small vocabulary."""
    size = made.get("vocab_size")
    nested = [each for each in made.values() if isinstance(each, dict) and "vocab_size" in each]
    top = min(
        [VOCABULARY, *(x for x in (size, *(n["vocab_size"] for n in nested)) if type(x) is int)]
    )
    number = top - 2
    for name, value in made.items():
        if _TOKEN.fullmatch(name) and type(value) is int and value >= top - 12:
            made[name] = number
            number -= 1
        elif _TOKEN.fullmatch(name) and isinstance(value, list) and value and max(value) >= top:
            made[name] = [number]
            number -= 1


def _with_sections(made: Settings) -> None:
    """Let the sections of a rotary embedding of several axes make up half of the head."""
    for name in ("rope_parameters", "rope_scaling"):
        rope = made.get(name)
        kinds = [rope, *rope.values()] if isinstance(rope, dict) else []
        for each in kinds:
            if isinstance(each, dict) and isinstance(each.get("mrope_section"), list):
                each["mrope_section"] = _SECTIONS[: len(each["mrope_section"])]
    if not re.search("vl|omni|glm.*v|ocr|glm_image|qwen3_5", str(made.get("model_type"))):
        return
    if "rope_parameters" in made and not made["rope_parameters"]:
        made["rope_parameters"] = {"rope_type": "default", "rope_theta": 1e4}
    rope = made.get("rope_parameters")
    if isinstance(rope, dict) and "rope_type" in rope:
        rope.setdefault("mrope_section", _SECTIONS)


_SECTIONS = [4, 2, 2]
