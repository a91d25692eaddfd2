"""Spectra of weights alone: those of the dense matrix W_Qᵀ W_K, for every family's names."""

import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from attnrate.errors import InputError
from attnrate.models import Transformer
from attnrate.models.vit import ViT
from attnrate.spectra.weights_only import head_spectra, weight_spectra
from attnrate.training.checkpoint import keep_model, snapshot


def dense(query, key, heads):
    """The oracle: the d x d matrix of each head in float64, and all of its singular values."""
    m_h = query.shape[0] // heads
    groups = key.shape[0] // m_h
    found = []
    for head in range(heads):
        group = head * groups // heads
        W_Q = query[head * m_h : (head + 1) * m_h].detach().double().numpy()
        W_K = key[group * m_h : (group + 1) * m_h].detach().double().numpy()
        found.append(np.linalg.svd(W_Q.T @ W_K, compute_uv=False)[:m_h])
    return np.array(found)


def check(found, expected):
    """The layers' spectra, in order, to rounding in float64."""
    assert len(found.layers) == len(expected)
    for layer, (query, key, heads) in zip(found.layers, expected, strict=True):
        sigma = dense(query, key, heads)
        np.testing.assert_allclose(layer.sigma, sigma, rtol=1e-9, atol=1e-12 * sigma.max())


def saved(folder, model, seed=0):
    """Give a model random weights of a decent size and save it."""
    torch.manual_seed(seed)
    for tensor in model.parameters():
        nn.init.normal_(tensor, std=0.5)
    model.save_pretrained(folder)
    return model


def test_bert(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=9, hidden_size=30, num_hidden_layers=11, num_attention_heads=5,
        intermediate_size=8,
    )  # fmt: skip
    model = saved(tmp_path, transformers.BertModel(config))
    found = weight_spectra(tmp_path)
    own = [layer.attention.self for layer in model.encoder.layer]
    check(found, [(part.query.weight, part.key.weight, 5) for part in own])
    # layer 10 comes after layer 9, not after layer 1
    assert [layer.name.split(".")[2] for layer in found.layers] == [str(n) for n in range(11)]


def test_mpnet(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.MPNetConfig(
        vocab_size=9, hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=8,
    )  # fmt: skip
    model = saved(tmp_path, transformers.MPNetModel(config))
    own = [layer.attention.attn for layer in model.encoder.layer]
    check(weight_spectra(tmp_path), [(part.q.weight, part.k.weight, 3) for part in own])


@pytest.mark.parametrize("names", ["attention.attention.query", "attention.q_proj"])
def test_vit_under_its_old_and_new_names(tmp_path, names):
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=8,
        image_size=8, patch_size=4,
    )  # fmt: skip
    saved(tmp_path, transformers.ViTModel(config))
    tensors = load_file(tmp_path / "model.safetensors")
    old = {
        "attention.q_proj": "attention.attention.query",
        "attention.k_proj": "attention.attention.key",
    }
    renamed = {}
    for name, tensor in tensors.items():
        for new, former in old.items():
            wanted = former if "query" in names else new
            name = name.replace(former, new).replace(new, wanted)
        renamed[name] = tensor
    save_file(renamed, tmp_path / "model.safetensors")
    queries = sorted(name for name in renamed if names in name and name.endswith("weight"))
    keys = [name.replace("query", "key").replace("q_proj", "k_proj") for name in queries]
    assert len(queries) == 2
    pairs = zip(queries, keys, strict=True)
    check(weight_spectra(tmp_path), [(renamed[q], renamed[k], 3) for q, k in pairs])


def test_gpt2_with_cross_attention(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=9, n_embd=24, n_layer=2, n_head=3, n_positions=8, add_cross_attention=True,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    model = saved(tmp_path, transformers.GPT2Model(config))
    expected = []
    for block in model.h:
        query, key, _ = block.attn.c_attn.weight.T.chunk(3)
        expected.append((query, key, 3))
        key, _ = block.crossattention.c_attn.weight.T.chunk(2)
        expected.append((block.crossattention.q_attn.weight.T, key, 3))
    check(weight_spectra(tmp_path), expected)


@pytest.mark.parametrize("family", ["Llama", "Qwen2", "Qwen3"])
def test_grouped_queries_with_a_head_size_of_their_own(tmp_path, family):
    transformers = pytest.importorskip("transformers")
    config = getattr(transformers, f"{family}Config")(
        vocab_size=9, hidden_size=24, num_hidden_layers=2, num_attention_heads=6,
        num_key_value_heads=2, intermediate_size=8, head_dim=8,
    )  # fmt: skip
    config.head_dim = 8
    model = saved(tmp_path, getattr(transformers, f"{family}Model")(config))
    found = weight_spectra(tmp_path)
    own = [layer.self_attn for layer in model.layers]
    check(found, [(part.q_proj.weight, part.k_proj.weight, 6) for part in own])
    assert {layer.groups for layer in found.layers} == {2}


def test_whisper_encoder_decoder_and_cross(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.WhisperConfig(
        vocab_size=20, d_model=24, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2,
        decoder_attention_heads=3, encoder_ffn_dim=8, decoder_ffn_dim=8, num_mel_bins=4,
        max_source_positions=6, max_target_positions=5, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    model = saved(tmp_path, transformers.WhisperModel(config))
    parts = [(layer.self_attn, 2) for layer in model.encoder.layers]
    for layer in model.decoder.layers:
        parts += [(layer.self_attn, 3), (layer.encoder_attn, 3)]
    check(
        weight_spectra(tmp_path),
        [(part.q_proj.weight, part.k_proj.weight, heads) for part, heads in parts],
    )


@pytest.mark.parametrize("kdim", [None, 10])
def test_torch_multihead_attention(tmp_path, kdim):
    torch.manual_seed(0)
    model = nn.ModuleDict({"a": nn.MultiheadAttention(12, 3, kdim=kdim, vdim=kdim)})
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    part = model["a"]
    query, key = (
        (part.q_proj_weight, part.k_proj_weight) if kdim else part.in_proj_weight.chunk(3)[:2]
    )
    check(weight_spectra(tmp_path, heads=3), [(query, key, 3)])
    with pytest.raises(InputError, match=r"how many heads.*heads="):
        weight_spectra(tmp_path)


def test_this_package_inner_layers_first(tmp_path):
    model = Transformer(1, 1, n=8, m_h=2, m_v=3, width=4, heads=2, layers=3)
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    parts = [part for part in model.modules() if hasattr(part, "W_Q") and part is not model]
    expected = [(part.W_Q.weight, part.W_K.weight, 2) for part in (*parts, model)]
    assert len(expected) == 3
    check(weight_spectra(tmp_path, heads=2), expected)


def test_heads_wider_than_the_model_have_zeros():
    torch.manual_seed(0)
    query, key = torch.randn(2, 8, 5).double(), torch.randn(1, 8, 3).double()
    sigma = head_spectra(query, key)
    assert sigma.shape == (2, 8)
    assert (sigma[:, 3:] == 0).all()
    np.testing.assert_allclose(
        sigma[:, :3], np.linalg.svd(query.mT @ key, compute_uv=False), rtol=1e-12
    )


def a_checkpoint(folder, heads=2, m_h=16, seed=0, **changes):
    """Random weights under Llama's names whose spectrum is exactly k^-1, and its config."""
    torch.manual_seed(seed)
    law = torch.arange(1, m_h + 1).double() ** -1.0
    factors = [torch.linalg.qr(torch.randn(heads, 40, m_h).double()).Q.mT for _ in "qk"]
    query, key = law[:, None] * factors[0], factors[1]
    tensors = {
        "layers.0.self_attn.q_proj.weight": query.reshape(-1, 40).contiguous(),
        "layers.0.self_attn.k_proj.weight": key.reshape(-1, 40).contiguous(),
    }
    save_file(tensors | changes, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"num_attention_heads": heads}))


def test_a_known_law_is_found_and_summed_up(tmp_path):
    a_checkpoint(tmp_path)
    found = weight_spectra(tmp_path)
    law = np.arange(1, 17) ** -1.0
    np.testing.assert_allclose(found.sigma(0, 1), law, rtol=1e-10)
    frame = found.to_frame()
    assert frame.law.tolist() == ["power", "power"]
    np.testing.assert_allclose(frame.law_parameter, 1.0, rtol=1e-6)
    np.testing.assert_allclose(frame.stable_rank, (law**2).sum())
    energy = np.cumsum(law**2) / (law**2).sum()
    assert frame.rank99.tolist() == [int(np.searchsorted(energy, 0.99)) + 1] * 2
    assert "1 attention layer, 2 heads of size 16" in str(found)


@pytest.mark.parametrize(("layer", "head"), [(1, 0), (0, 2), (-1, 0), ("0", 0)])
def test_layers_and_heads_that_are_not_there(tmp_path, layer, head):
    a_checkpoint(tmp_path)
    with pytest.raises(InputError, match=r"layer|head"):
        weight_spectra(tmp_path).sigma(layer, head)


def test_unknown_families_name_the_tensors(tmp_path):
    save_file({"conv.weight": torch.zeros(2, 2)}, tmp_path / "model.safetensors")
    with pytest.raises(InputError, match=r"conv\.weight.*q_proj"):
        weight_spectra(tmp_path, heads=1)


@pytest.mark.parametrize(
    ("weight", "match"),
    [
        (torch.full((32, 40), torch.nan), "nan or inf.*k_proj"),
        (torch.zeros(32, 40, dtype=torch.int8), "Quantised"),
        (torch.zeros(32), "no matrix"),
        (torch.zeros(30, 40), "do not fit 2 heads of size 16"),
    ],
)
def test_weights_that_cannot_be(tmp_path, weight, match):
    a_checkpoint(tmp_path, **{"layers.0.self_attn.k_proj.weight": weight})
    with pytest.raises(InputError, match=match):
        weight_spectra(tmp_path)


def test_a_head_size_that_the_settings_contradict_is_refused(tmp_path):
    a_checkpoint(tmp_path)
    (tmp_path / "config.json").write_text('{"num_attention_heads": 2, "head_dim": 8}')
    with pytest.raises(InputError, match="do not fit 2 heads of size 8"):
        weight_spectra(tmp_path)


@pytest.mark.parametrize("heads", [0, 3, "2", 2.0])
def test_head_counts_that_cannot_be(tmp_path, heads):
    a_checkpoint(tmp_path)
    with pytest.raises(InputError, match="heads"):
        weight_spectra(tmp_path, heads=heads)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        weight_spectra(tmp_path / "nothing")
    with pytest.raises(InputError, match="no safetensors"):
        weight_spectra(tmp_path)


@pytest.mark.slow
def test_memory_is_that_of_one_layer(tmp_path):
    """24 layers of 16 MB of queries and keys beside 96 MB that are never read."""
    layers, d = 24, 1448
    places = {}
    weight = torch.randn(d, d)
    for number in range(layers):
        names = [f"layers.{number}.self_attn.{part}_proj.weight" for part in "qk"]
        file = f"model-{number}.safetensors"
        save_file({names[0]: weight, names[1]: weight + 0}, tmp_path / file)
        places |= dict.fromkeys(names, file)
    save_file({"embed": torch.zeros(24_000_000)}, tmp_path / "model-embed.safetensors")
    places["embed"] = "model-embed.safetensors"
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    whole = sum(path.stat().st_size for path in tmp_path.iterdir()) / 1e6
    assert whole > 480
    code = f"""
    import resource, torch
    import attnrate.spectra.weights_only as here
    torch.linalg.svdvals(torch.linalg.qr(torch.randn(9, 9).double()).R)
    peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    import safetensors
    before = peak()
    assert len(here.weight_spectra({str(tmp_path)!r}, heads=8).layers) == {layers}
    print(peak() - before)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    # one layer: 16 MB as stored, 32 MB in float64, and the factors
    assert float(done.stdout) < 160


def test_numbers_of_eight_bits_are_refused_without_their_scales(tmp_path):
    small = torch.zeros(32, 40).to(torch.float8_e4m3fn)
    a_checkpoint(tmp_path, **{"layers.0.self_attn.q_proj.weight": small})
    with pytest.raises(InputError, match=r"16 bits or more.*Quantised"):
        weight_spectra(tmp_path)


def test_a_model_that_train_has_kept_tells_its_heads(tmp_path):
    model = ViT("cpu", width=16, layers=1, heads=2, m_h=3, m_ff=8)
    facts = {"settings": {"model": {"class": "ViT", "heads": 2}}}
    whole = snapshot(1, model, [], facts)
    keep_model(tmp_path, whole)
    assert weight_spectra(tmp_path).sigma(0, 1).shape == (3,)
