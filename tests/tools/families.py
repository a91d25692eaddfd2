"""Small random models of well-known families of transformers, and what is known of their attention.

The facts here are written by hand from the families' papers and code: they are what a profile is
held against.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

Tensor = torch.Tensor
LENGTHS, SOURCE = (11, 7, 4), (9, 5, 3)
WIDTH = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3}
TEXT = WIDTH | {"intermediate_size": 20, "vocab_size": 60, "pad_token_id": 0}
GROUPS = TEXT | {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 8}
PATCHES = WIDTH | {"intermediate_size": 20, "image_size": 16, "patch_size": 4, "num_channels": 3}
GPT = {"n_embd": 24, "n_head": 3, "n_layer": 2, "n_positions": 16, "vocab_size": 60}
MLA = {
    **{"num_key_value_heads": 3, "kv_lora_rank": 12, "q_lora_rank": 16, "qk_nope_head_dim": 6},
    **{"qk_rope_head_dim": 4, "v_head_dim": 7, "first_k_dense_replace": 1, "n_routed_experts": 4},
    **{"n_group": 1, "topk_group": 1},
}
PAIR = {
    **{"d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 3},
    **{"decoder_attention_heads": 4, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20},
    **{"vocab_size": 60, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
    **{"decoder_start_token_id": 2, "max_position_embeddings": 32},
}
SOUND = TEXT | {"conv_dim": [8, 8], "conv_kernel": [4, 3], "conv_stride": [3, 2]}
SOUND |= {"num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4}
SOUND |= {"num_conv_pos_embedding_groups": 2, "vocab_size": 20}


@dataclass(frozen=True)
class Family:
    """A small model of a family, and the attention that it has.

    Attributes:
        name: The name of its configuration and model in transformers, without "Config" and "Model".
        settings: The settings of the configuration.
        kinds: Which inputs it takes: "text", "image", "sound", "pair" (two texts), "both" (text and
            image), or "speech" (sound and text).
        heads: The number of query heads of each layer, and of key heads.
        size: The size of queries and keys.
        layers: The kinds of its attention layers in the order in which they run.
        scale: The factor that comes after the product of queries and keys; 1 where queries or keys
            were divided before. None: 1/√size.
        bias: Whether a position bias is added to the logits.
        softcap: The bound of the soft cap, if there is one.
        sinks: Whether there are logits for attention to no token.
        model: The name of the model's class, if it is not `name` and "Model".
        sizes: Heads, key heads and size of each layer, where layers differ.
        divided: The layers of torch.nn.MultiheadAttention, which divides queries beforehand.
        attention: The implementation that is profiled; the oracle always takes "eager".

    """

    name: str
    settings: Mapping[str, Any]
    kinds: str = "text"
    heads: tuple[int, int] = (3, 3)
    size: int = 8
    layers: tuple[str, ...] = ("self", "self")
    scale: float | None = None
    bias: bool = False
    softcap: float | None = None
    sinks: bool = False
    model: str = ""
    sizes: tuple[tuple[int, int, int], ...] = ()
    divided: tuple[int, ...] = ()
    attention: str = "sdpa"

    def build(self, attention: str = "") -> nn.Module:
        """The model in evaluation mode, with weights that give logits of size one."""
        import transformers

        config = getattr(transformers, f"{self.name}Config")(**self.settings)
        if "eager" in (attention, self.attention):  # otherwise it chooses by itself
            config._attn_implementation = "eager"
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model: nn.Module = getattr(transformers, self.model or f"{self.name}Model")(config)
            for parameter in model.parameters():
                near = 1.0 if parameter.dim() == 1 and bool((parameter == 1).all()) else 0.0
                nn.init.normal_(parameter, near, 0.35)
        return model.eval()

    def batch(self) -> dict[str, Tensor]:
        """Three inputs; texts have different lengths."""
        if self.kinds == "image":
            noise = {"noise": numbers(3, 16)} if self.name == "ViTMAE" else {}
            return {"pixel_values": numbers(3, 3, 16, 16)} | noise
        if self.kinds == "sound":
            return {"input_values": numbers(3, 90)}
        if self.kinds == "speech":
            return {"input_features": 3 * numbers(3, 5, 18)} | words(LENGTHS, "decoder_")
        if self.kinds == "pair":
            return words(SOURCE) | words(LENGTHS, "decoder_")
        if self.kinds == "both":
            return words(LENGTHS) | {"pixel_values": numbers(3, 3, 16, 16)}
        return words(LENGTHS)


def numbers(*shape: int) -> Tensor:
    """Standard normal numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def words(lengths: tuple[int, ...], prefix: str = "") -> dict[str, Tensor]:
    """Token numbers and their mask, padded at the end."""
    made = torch.Generator().manual_seed(2)
    ids = torch.randint(3, 50, (len(lengths), max(lengths)), generator=made)
    kept = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return {f"{prefix}input_ids": ids * kept, f"{prefix}attention_mask": kept}


_PAIR = ("self", "self", "self", "cross", "self", "cross")
_OF_PAIR = {"kinds": "pair", "layers": _PAIR, "sizes": ((3, 3, 8),) * 2 + ((4, 4, 6),) * 4}
_TWO = {
    "text_config": TEXT | {"max_position_embeddings": 16, "eos_token_id": 2, "bos_token_id": 1},
    "vision_config": PATCHES,
}
_BOTH = {"kinds": "both", "layers": ("self",) * 4}
_GQA = {"heads": (6, 2), "size": 10}


def _grouped(name: str, more: Mapping[str, Any] | None = None, **facts: Any) -> Family:
    return Family(name, GROUPS | (more or {}), **(_GQA | facts))


FAMILIES: dict[str, Family] = {
    "bert": Family("Bert", TEXT),
    "roberta": Family("Roberta", TEXT),
    "distilbert": Family(
        "DistilBert",
        {"dim": 24, "n_heads": 3, "n_layers": 2, "hidden_dim": 20, "vocab_size": 60},
    ),
    "electra": Family("Electra", TEXT | {"embedding_size": 12}),
    "albert": Family("Albert", TEXT | {"embedding_size": 12}),
    "mpnet": Family("MPNet", TEXT | {"bos_token_id": 1}, bias=True),
    "deberta": Family(
        "Deberta",
        TEXT | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
        scale=1.0,  # keys are divided before the product
        bias=True,
    ),
    "deberta_v2": Family(
        "DebertaV2",
        TEXT | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
        scale=1.0,  # keys are divided before the product
        bias=True,
    ),
    "xlnet": Family(
        "XLNet",
        {"d_model": 24, "n_head": 3, "n_layer": 2, "d_inner": 20, "vocab_size": 60},
        bias=True,
    ),
    "modernbert": Family("ModernBert", TEXT | {"local_attention": 4}),
    "gpt2": Family("GPT2", GPT),
    "gpt_neo": Family(
        "GPTNeo",
        {"hidden_size": 24, "num_heads": 3, "num_layers": 2, "vocab_size": 60, "window_size": 4}
        | {"attention_types": [[["global", "local"], 1]], "intermediate_size": 20},
        scale=1.0,
    ),
    "gptj": Family("GPTJ", GPT | {"rotary_dim": 4}),
    "gpt_neox": Family("GPTNeoX", TEXT),
    "opt": Family("OPT", TEXT | {"ffn_dim": 20, "word_embed_proj_dim": 24}, scale=1.0),
    "bloom": Family(
        "Bloom", {"hidden_size": 24, "n_head": 3, "n_layer": 2, "vocab_size": 60}, bias=True
    ),
    "mpt": Family("Mpt", {"d_model": 24, "n_heads": 3, "n_layers": 2, "vocab_size": 60}, bias=True),
    "falcon": Family("Falcon", TEXT | {"multi_query": True}, heads=(3, 1)),
    "falcon-alibi": Family(
        "Falcon", TEXT | {"alibi": True, "multi_query": False}, bias=True, attention="eager"
    ),
    "codegen": Family("CodeGen", GPT | {"n_head": 4, "rotary_dim": 4}, heads=(4, 4), size=6),
    "llama": _grouped("Llama"),
    "mistral": _grouped("Mistral", {"sliding_window": 4}),
    "mixtral": _grouped("Mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "qwen2": _grouped("Qwen2"),
    "qwen3": _grouped("Qwen3"),
    "qwen3_moe": _grouped("Qwen3Moe", EXPERTS | {"num_experts": 4}),
    "gemma": _grouped("Gemma"),
    "gemma2": _grouped(
        "Gemma2", {"query_pre_attn_scalar": 12, "sliding_window": 4}, softcap=50.0, scale=12**-0.5
    ),
    "gemma3_text": _grouped("Gemma3Text", {"query_pre_attn_scalar": 12}, scale=12**-0.5),
    "phi": Family("Phi", TEXT | {"partial_rotary_factor": 0.5}),
    "phi3": Family("Phi3", TEXT | {"num_key_value_heads": 1}, heads=(3, 1)),
    "gpt_oss": _grouped("GptOss", {"num_local_experts": 4, "sliding_window": 4}, sinks=True),
    "deepseek_v2": Family("DeepseekV2", TEXT | MLA | EXPERTS, size=10),
    "deepseek_v3": Family("DeepseekV3", TEXT | MLA | EXPERTS, size=10),
    "olmo2": Family("Olmo2", TEXT | {"num_key_value_heads": 1}, heads=(3, 1)),
    "granite": Family(
        "Granite",
        TEXT | {"num_key_value_heads": 1, "attention_multiplier": 0.3},
        heads=(3, 1),
        scale=0.3,
    ),
    "starcoder2": Family("Starcoder2", TEXT | {"num_key_value_heads": 1}, heads=(3, 1)),
    "stablelm": Family("StableLm", TEXT | {"num_key_value_heads": 1}, heads=(3, 1)),
    "cohere": Family(
        "Cohere", TEXT | {"num_key_value_heads": 1, "use_qk_norm": True}, heads=(3, 1)
    ),
    "t5": Family(
        "T5",
        {"d_model": 24, "d_kv": 6, "d_ff": 20, "num_layers": 2, "num_heads": 4, "vocab_size": 60},
        kinds="pair",
        heads=(4, 4),
        size=6,
        scale=1.0,
        layers=_PAIR,
        bias=True,
    ),
    "bart": Family("Bart", PAIR, **_OF_PAIR),
    "pegasus": Family("Pegasus", PAIR, **_OF_PAIR),
    "marian": Family("Marian", PAIR, **_OF_PAIR),
    "mbart": Family("MBart", PAIR, **_OF_PAIR),
    "whisper": Family(
        "Whisper",
        PAIR | {"num_mel_bins": 5, "max_source_positions": 9, "max_target_positions": 16},
        **(_OF_PAIR | {"kinds": "speech", "scale": 1.0}),
    ),
    "wav2vec2": Family("Wav2Vec2", SOUND, kinds="sound"),
    "hubert": Family("Hubert", SOUND, kinds="sound"),
    "vit": Family("ViT", PATCHES, kinds="image"),
    "deit": Family("DeiT", PATCHES, kinds="image"),
    "dinov2": Family("Dinov2", PATCHES, kinds="image"),
    "beit": Family(
        "Beit", PATCHES | {"use_relative_position_bias": True}, kinds="image", bias=True
    ),
    "vitmae": Family("ViTMAE", PATCHES | {"mask_ratio": 0.0}, kinds="image"),
    "swin": Family(
        "Swin",
        {"image_size": 16, "patch_size": 2, "embed_dim": 24, "depths": [2], "num_heads": [3]}
        | {"window_size": 4, "num_channels": 3},
        kinds="image",
        bias=True,
    ),
    "clip": Family("CLIP", _TWO | {"projection_dim": 10}, **_BOTH),
    "siglip": Family(
        "Siglip",
        _TWO,
        kinds="both",
        layers=("self", "self", "cross", "self", "self"),  # one query gathers the image
        divided=(2,),
    ),
    "blip": Family(
        "Blip",
        _TWO | {"projection_dim": 10},
        kinds="both",
        layers=("self", "self", "self", "cross", "self", "cross"),
        model="BlipForConditionalGeneration",
    ),
    "detr": Family(
        "Detr",
        {k: v for k, v in PAIR.items() if k != "vocab_size"}
        | {"num_queries": 5, "use_timm_backbone": False}
        | {
            "backbone_config": {
                "model_type": "resnet",
                "embedding_size": 4,
                "out_features": ["stage2"],
            }
            | {"hidden_sizes": [4, 8], "depths": [1, 1], "layer_type": "basic"}
        },
        **(_OF_PAIR | {"kinds": "image"}),
    ),
}
