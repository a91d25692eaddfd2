"""Queries and keys out of fused tensors: what each family's own attention makes of its inputs."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.overrides import TorchFunctionMode

from attnrate.errors import InputError
from attnrate.spectra.weights_only import weight_spectra

SIZES = {"vocab_size": 11, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
FF = {"intermediate_size": 8}
NO_TOKENS = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
FALCON = SIZES | NO_TOKENS
NEO = {"vocab_size": 11, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "intermediate_size": 8}
LATENT = SIZES | FF | NO_TOKENS | {
    "num_key_value_heads": 4, "kv_lora_rank": 10, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4,
    "v_head_dim": 5, "n_routed_experts": 4, "num_experts_per_tok": 2, "first_k_dense_replace": 2,
    "moe_intermediate_size": 8,
}  # fmt: skip
#: model_type, settings, layout; two entries of a family differ in what its settings decide
FAMILIES = {
    "gpt_neox": ("gpt_neox", SIZES | FF, "interleaved"),
    "gpt_neox_japanese": ("gpt_neox_japanese", SIZES | NO_TOKENS, "interleaved"),
    "bloom": ("bloom", {"vocab_size": 11, "hidden_size": 32, "n_layer": 2, "n_head": 4},
              "interleaved"),
    "persimmon": ("persimmon", SIZES | FF | NO_TOKENS | {"qk_layernorm": False}, "interleaved"),
    "falcon, one key head": ("falcon", FALCON | {"multi_query": True}, "interleaved"),
    "falcon, head by head": ("falcon", FALCON | {"multi_query": False}, "interleaved"),
    "falcon, groups": ("falcon", FALCON | {"new_decoder_architecture": True, "num_kv_heads": 2},
                       "interleaved"),
    "gpt_bigcode, one key head": ("gpt_bigcode", {
        "vocab_size": 11, "n_embd": 32, "n_layer": 2, "n_head": 4, "multi_query": True},
        "interleaved"),
    "gpt_bigcode, head by head": ("gpt_bigcode", {
        "vocab_size": 11, "n_embd": 32, "n_layer": 2, "n_head": 4, "multi_query": False},
        "interleaved"),
    "deberta": ("deberta", SIZES | FF | {"pos_att_type": [], "relative_attention": False},
                "interleaved"),
    "phi3": ("phi3", SIZES | FF | NO_TOKENS | {"num_key_value_heads": 2}, "stacked"),
    "modernbert": ("modernbert", SIZES | FF | NO_TOKENS, "stacked"),
    "mpt": ("mpt", {"vocab_size": 11, "d_model": 32, "n_layers": 2, "n_heads": 4}, "stacked"),
    "dbrx": ("dbrx", {
        "vocab_size": 11, "d_model": 32, "n_layers": 2, "n_heads": 4,
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 1e9, "rope_theta": 1e4},
        "ffn_config": {"ffn_hidden_size": 8, "moe_num_experts": 2, "moe_top_k": 1}}, "stacked"),
    "gpt2": ("gpt2", {"vocab_size": 11, "n_embd": 32, "n_layer": 2, "n_head": 4}, "stacked"),
    "openai-gpt": ("openai-gpt", {"vocab_size": 11, "n_embd": 32, "n_layer": 2, "n_head": 4},
                   "stacked"),
    "codegen": ("codegen", {
        "vocab_size": 11, "n_embd": 32, "n_layer": 2, "n_head": 8, "rotary_dim": 4}, "codegen"),
    "gptj": ("gptj", {"vocab_size": 11, "n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4},
             "separate"),
    "gpt_neo": ("gpt_neo", NEO | {"attention_types": [[["global", "local"], 1]]}, "separate"),
    "albert": ("albert", SIZES | FF | {"embedding_size": 8}, "separate"),
    "distilbert": ("distilbert", {
        "vocab_size": 11, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 8}, "separate"),
    "deberta-v2": ("deberta-v2", SIZES | FF | {"relative_attention": False}, "separate"),
    "opt": ("opt", SIZES | {"ffn_dim": 8, "word_embed_proj_dim": 32}, "separate"),
    "ctrl": ("ctrl", {"vocab_size": 11, "n_embd": 32, "n_layer": 2, "n_head": 4, "dff": 8},
             "separate"),
    "xlnet": ("xlnet", {"vocab_size": 11, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 8},
              "separate"),
    "qwen3_next": ("qwen3_next", SIZES | FF | {
        "num_key_value_heads": 2, "head_dim": 8, "layer_types": ["full_attention"] * 2,
        "num_experts": 0, "decoder_sparse_step": 9}, "separate"),
    "t5": ("t5", {"vocab_size": 11, "d_model": 32, "d_kv": 5, "num_layers": 2, "num_heads": 4,
                  "d_ff": 8}, "separate"),
    "gte": ("gte", SIZES | FF | NO_TOKENS, "stacked"),
    "deepseek_v2": ("deepseek_v2", LATENT | {"q_lora_rank": None}, "latent"),
    "deepseek_v3": ("deepseek_v3", LATENT | {"q_lora_rank": 7}, "latent"),
    "minicpm3": ("minicpm3", {k: v for k, v in LATENT.items() if "expert" not in k} | {
        "q_lora_rank": 7}, "latent"),
}  # fmt: skip


def built(kind, settings, seed=0):
    """A model with random weights of a decent size, which looks at products that it forms."""
    transformers = pytest.importorskip("transformers")
    config = transformers.CONFIG_MAPPING[kind](**settings)
    config._attn_implementation = "eager"
    model = transformers.AutoModel.from_config(config).eval()
    torch.manual_seed(seed)
    for tensor in model.parameters():
        nn.init.normal_(tensor, std=0.5)
    return model


class Products(TorchFunctionMode):
    """The first product of two made tensors within each attention layer: queries and keys.

    Tokens that come into a layer are replaced by random ones, so that they span all directions.
    """

    FORMS = (torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.baddbmm)
    FORMS += (torch.Tensor.baddbmm, torch.einsum, torch.bmm)

    def __init__(self, model, layers, width):
        super().__init__()
        self.width, self.tokens, self.found, self.open = width, {}, {}, None
        for name in layers:
            model.get_submodule(name).register_forward_pre_hook(
                lambda _, args, kwargs, name=name: self.enter(name, args, kwargs), with_kwargs=True
            )

    def enter(self, name, args, kwargs):
        def is_token(one):
            return isinstance(one, torch.Tensor) and one.dim() == 3 and one.shape[-1] == self.width

        first = next(one for one in (*args, *kwargs.values()) if is_token(one))
        fresh = torch.randn(first.shape, dtype=torch.float64)
        if name not in self.tokens:
            self.tokens[name], self.open = fresh.reshape(-1, self.width), name

        def swapped(one):
            return fresh if is_token(one) and one.shape == first.shape else one

        return tuple(map(swapped, args)), {key: swapped(one) for key, one in kwargs.items()}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in self.FORMS and self.open is not None:
            every = (*args, *(kwargs or {}).values())
            made = [one for one in every if isinstance(one, torch.Tensor) and one.dim() > 2]
            if len(made) >= 2 and not any(isinstance(one, nn.Parameter) for one in made):
                self.found[self.open] = made[-2:]
                self.open = None
        return func(*args, **(kwargs or {}))


def without_scales(model):
    """Leave of each norm of queries, keys and narrow vectors its gain; of QK-norms nothing."""
    for name, part in model.named_modules():
        if name.endswith(("q_a_layernorm", "kv_a_layernorm")):
            part.forward = lambda x, part=part: part.weight * x
        elif name.endswith(("q_norm", "k_norm")):
            part.forward = lambda x: x


def weights_by_running(model, layers, width, heads):
    """W_Q and W_K of each head, solved for from the queries and keys of random tokens."""
    model = model.double()
    without_scales(model)
    inputs = width + 8
    found = []
    # position 0 alone: there every rotation is the identity
    with torch.no_grad(), Products(model, layers, width) as seen:
        ids = torch.zeros(inputs, 1, dtype=torch.long)
        model(ids, **({"decoder_input_ids": ids} if model.config.is_encoder_decoder else {}))
    for name in layers:
        left, right = seen.found[name]
        affine = torch.cat([seen.tokens[name], torch.ones(inputs, 1)], 1)
        made = [one.double().reshape(inputs, -1, left.shape[-1]) for one in (left, right)]
        solved = [torch.linalg.lstsq(affine, one.flatten(1)).solution[:-1] for one in made]
        pair = [one.T.reshape(-1, left.shape[-1], width) for one in solved]
        found.append([one.repeat_interleave(heads // len(one), 0) for one in pair])
    return found


def singular(query, key):
    return torch.linalg.svdvals(query.mT @ key)[:, : query.shape[1]].numpy()


@pytest.mark.parametrize("family", FAMILIES)
def test_spectra_are_those_of_the_model_s_own_queries_and_keys(tmp_path: Path, family: str) -> None:
    kind, settings, layout = FAMILIES[family]
    model = built(kind, settings)
    model.save_pretrained(tmp_path)
    found = weight_spectra(tmp_path)
    assert {layer.layout for layer in found.layers} == {layout}
    names = list(dict.fromkeys(layer.name for layer in found.layers))
    assert len(names) == {"albert": 1, "t5": 6}.get(family, 2)
    heads = 8 if kind == "codegen" else 4
    # transformers 5 keeps GTE's queries and keys apart, and saves them fused as their authors do
    modules = [name.replace("encoder.layer", "layers").replace("attention", "self_attn")
               if kind == "gte" else name for name in names]  # fmt: skip
    own = weights_by_running(model, modules, 32, heads)
    # these divide queries or keys by √m_h before they meet
    scale = 8**0.5 if kind in ("deberta", "deberta-v2", "opt") else 1.0
    parts = {"": slice(None), "without rotation": slice(0, 6), "rotary": slice(6, 10)}
    for layer in found.layers:
        query, key = own[names.index(layer.name)]
        rows = parts[layer.part]
        sigma = scale * singular(query[:, rows], key[:, rows])
        np.testing.assert_allclose(layer.sigma, sigma, rtol=0, atol=1e-6 * sigma.max())
    if layout == "latent":
        assert [layer.part for layer in found.layers] == ["without rotation", "rotary"] * 2
        assert [layer.groups for layer in found.layers] == [4, 1] * 2


def split_timm(made, heads, groups, m_h):
    query, key, _ = made.reshape(len(made), 3, heads, m_h).permute(1, 0, 2, 3).unbind(0)
    return query, key


def split_in_turn(made, heads, groups, m_h):
    """As nanoGPT, the first Qwen, ChatGLM with shared keys, and Baichuan do it."""
    sizes = [heads * m_h, groups * m_h, groups * m_h]
    query, key, _ = made.split(sizes, dim=-1)
    return query.view(-1, heads, m_h), key.view(-1, groups, m_h)


def split_chatglm(made, heads, groups, m_h):
    query, key, _ = made.view(-1, heads, 3 * m_h).chunk(3, dim=-1)
    return query, key


def split_internlm(made, heads, groups, m_h):
    by_group = made.view(-1, groups, heads // groups + 2, m_h)
    return by_group[:, :, : heads // groups].flatten(1, 2), by_group[:, :, -2]


#: Families whose code transformers does not have: tensor, config.json, key heads, m_h, their split
PUBLISHED = {
    "timm": ("blocks.0.attn.qkv", {"num_heads": 4}, 4, 6, split_timm),
    "nanoGPT": ("h.0.attn.c_attn", {"n_head": 4}, 4, 6, split_in_turn),
    "Qwen 1": ("h.0.attn.c_attn", {"model_type": "qwen", "num_attention_heads": 4,
                                   "kv_channels": 5}, 4, 5, split_in_turn),
    "ChatGLM 2": ("encoder.layers.0.self_attention.query_key_value", {
        "model_type": "chatglm", "num_attention_heads": 4, "multi_query_attention": True,
        "multi_query_group_num": 2, "kv_channels": 6}, 2, 6, split_in_turn),
    "ChatGLM": ("encoder.layers.0.self_attention.query_key_value", {
        "model_type": "chatglm", "num_attention_heads": 4}, 4, 6, split_chatglm),
    "InternLM 2": ("model.layers.0.attention.wqkv", {
        "model_type": "internlm2", "num_attention_heads": 4, "num_key_value_heads": 2}, 2, 6,
        split_internlm),
    "InternVL": ("language_model.model.layers.0.attention.wqkv", {
        "model_type": "internvl_chat", "vision_config": {"model_type": "intern_vit_6b",
                                                         "num_attention_heads": 3},
        "llm_config": {"model_type": "internlm2", "num_attention_heads": 4}}, 2, 6,
        split_internlm),
    "Baichuan": ("model.layers.0.self_attn.W_pack", {"num_attention_heads": 4}, 4, 6,
                 split_in_turn),
    "OLMo 1": ("transformer.blocks.0.att_proj", {"n_heads": 4, "n_kv_heads": 2}, 2, 6,
               split_in_turn),
    "DBRX": ("blocks.0.attn.Wqkv", {"n_heads": 4, "attn_config": {"kv_n_heads": 2}}, 2, 6,
             split_in_turn),
}  # fmt: skip


def keep(folder, tensors, config=None):
    save_file(
        {name: one.contiguous() for name, one in tensors.items()}, folder / "model.safetensors"
    )
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))


def by_unit_vectors(weight, split, heads, groups, m_h):
    """The singular values of W_Qᵀ W_K of each head, from what a split makes of unit vectors."""
    query, key = split(torch.eye(weight.shape[1], dtype=torch.float64) @ weight.double().T,
                       heads, groups, m_h)  # fmt: skip
    key = key.repeat_interleave(heads // groups, 1)
    return torch.linalg.svdvals(torch.einsum("dhm,ehm->hde", query, key))[:, :m_h].numpy()


@pytest.mark.parametrize("family", PUBLISHED)
def test_layouts_of_families_with_code_of_their_own(tmp_path: Path, family: str) -> None:
    name, config, groups, m_h, split = PUBLISHED[family]
    torch.manual_seed(0)
    weight = torch.randn((4 + 2 * groups) * m_h, 24)
    # such checkpoints ask to run their code, which is never done; their weights can be read
    keep(tmp_path, {f"{name}.weight": weight}, config | {"auto_map": {"AutoModel": "x.Y"}})
    (layer,) = weight_spectra(tmp_path).layers
    assert layer.groups == groups
    sigma = by_unit_vectors(weight, split, 4, groups, m_h)
    np.testing.assert_allclose(layer.sigma, sigma, rtol=0, atol=1e-12 * sigma.max())


@pytest.mark.parametrize("name", ["query_key_value", "qkv_proj", "wqkv"])
@pytest.mark.parametrize("family", [None, "made_up"])
def test_a_layout_that_cannot_be_known_is_asked_for(tmp_path, name, family):
    torch.manual_seed(0)
    weight = torch.randn(72, 24)
    keep(tmp_path, {f"h.0.{name}.weight": weight}, family and {"model_type": family})
    with pytest.raises(InputError, match=r"Pass layout as 'interleaved'.*'stacked'") as caught:
        weight_spectra(tmp_path, heads=4)
    assert repr(family) in str(caught.value) or family is None
    for layout, split in (("stacked", split_in_turn), ("interleaved", split_internlm)):
        found = weight_spectra(tmp_path, heads=4, layout=layout)
        sigma = by_unit_vectors(weight, split, 4, 4, 6)
        np.testing.assert_allclose(found.layers[0].sigma, sigma, rtol=0, atol=1e-12 * sigma.max())
        assert f"are read as {layout}." in str(found)


def test_with_one_head_of_keys_there_is_nothing_to_ask(tmp_path):
    torch.manual_seed(0)
    weight = torch.randn(36, 24)
    keep(tmp_path, {"h.0.query_key_value.weight": weight})
    found = weight_spectra(tmp_path, heads=4).layers[0].sigma
    for split in (split_in_turn, split_internlm):
        sigma = by_unit_vectors(weight, split, 4, 1, 6)
        np.testing.assert_allclose(found, sigma, rtol=0, atol=1e-12 * sigma.max())


@pytest.mark.parametrize("stacked", [True, False])
def test_weights_of_gpt_2_and_nanogpt_are_told_apart_by_their_shape(tmp_path, stacked):
    torch.manual_seed(0)
    whole = torch.randn(3 * 24, 24)  # as in nanoGPT; GPT-2 has it the other way round
    keep(tmp_path, {"h.0.attn.c_attn.weight": whole if stacked else whole.mT})
    found = weight_spectra(tmp_path, heads=4)
    sigma = by_unit_vectors(whole, split_in_turn, 4, 4, 6)
    np.testing.assert_allclose(found.layers[0].sigma, sigma, rtol=0, atol=1e-12 * sigma.max())


@pytest.mark.parametrize(
    ("shape", "heads"), [((24, 60), 4), ((72, 24), 5), ((70, 24), 4), ((60, 24), 4), ((24, 24), 4)]
)
def test_fused_weights_that_do_not_fit_the_heads_are_refused(tmp_path, shape, heads):
    keep(tmp_path, {"h.0.attn.c_attn.weight": torch.zeros(shape)})
    with pytest.raises(InputError, match=rf"h\.0\.attn do not fit {heads} heads of size"):
        weight_spectra(tmp_path, heads=heads)


def test_cross_attention_that_is_no_transpose_is_refused(tmp_path):
    tensors = {"h.0.q_attn.weight": torch.zeros(24, 24), "h.0.c_attn.weight": torch.zeros(48, 24)}
    keep(tmp_path, tensors)
    with pytest.raises(InputError, match="do not fit 4 heads of size 6"):
        weight_spectra(tmp_path, heads=4)


@pytest.mark.parametrize("layout", ["", "Stacked", "codegen", 1, ["stacked"]])
def test_layouts_that_are_none(tmp_path, layout):
    keep(tmp_path, {"h.0.qkv.weight": torch.zeros(72, 24)})
    with pytest.raises(InputError, match=r"layout is not known.*'stacked', 'interleaved'"):
        weight_spectra(tmp_path, heads=4, layout=layout)


def test_a_layout_where_nothing_is_fused_is_refused(tmp_path):
    keep(tmp_path, {f"h.0.{one}_proj.weight": torch.zeros(24, 24) for one in "qk"})
    with pytest.raises(InputError, match=r"layout is for tensors.*Leave it out"):
        weight_spectra(tmp_path, heads=4, layout="stacked")


def latent(**changes):
    """Tensors of one layer of multi-head latent attention: 2 heads of 3 + 2 dimensions, d = 12."""
    torch.manual_seed(0)
    shapes = {
        "q_proj.weight": (10, 12), "kv_a_proj_with_mqa.weight": (7, 12),
        "kv_a_layernorm.weight": (5,), "kv_b_proj.weight": (14, 5),
    }  # fmt: skip
    tensors = {name: torch.randn(shape) for name, shape in shapes.items()}
    return {f"layers.0.self_attn.{name}": one for name, one in (tensors | changes).items()}


def test_latent_attention_says_its_two_parts(tmp_path):
    keep(tmp_path, latent())
    found = weight_spectra(tmp_path, heads=2)
    assert "1 attention layer, 2 heads of size 3 without rotation and 2 rotary." in str(found)
    assert found.to_frame().name.tolist() == [
        *["layers.0.self_attn (without rotation)"] * 2, *["layers.0.self_attn (rotary)"] * 2
    ]  # fmt: skip
    assert repr(found.layers[1]) == "layers.0.self_attn (rotary): 2 heads of size 2, 1 key head"


def test_latent_attention_without_rotation_has_one_part(tmp_path):
    keep(tmp_path, latent(**{"kv_a_proj_with_mqa.weight": torch.randn(5, 12)}))
    (layer,) = weight_spectra(tmp_path, heads=2).layers
    assert (layer.part, layer.sigma.shape) == ("without rotation", (2, 5))


@pytest.mark.parametrize(
    ("name", "shape", "match"),
    [
        ("kv_a_layernorm.weight", (4,), "do not fit each other"),
        ("kv_a_layernorm.weight", (5, 1), "no array with 1 axes"),
        ("kv_a_proj_with_mqa.weight", (4, 12), "do not fit 2 heads"),
        ("kv_b_proj.weight", (4, 5), "do not fit 2 heads"),
        ("q_proj.weight", (9, 12), "do not fit 2 heads"),
        ("q_proj.weight", (4, 12), "do not fit 2 heads"),
    ],
)
def test_latent_attention_of_sizes_that_cannot_be(tmp_path, name, shape, match):
    keep(tmp_path, latent(**{name: torch.ones(shape)}))
    with pytest.raises(InputError, match=match):
        weight_spectra(tmp_path, heads=2)
