"""Checkpoints in GGUF: the spectra are those of the same weights in safetensors."""

import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from attnrate.errors import AccuracyWarning, InputError
from attnrate.spectra.weights_only import weight_spectra

gguf = pytest.importorskip("gguf")
Q8, F32 = gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.F32


def written(path, tensors, family="llama", kind=F32, **metadata):
    """Write a GGUF file; `metadata` are head counts and the like, by name."""
    writer = gguf.GGUFWriter(path, family)
    for name, value in metadata.items():
        getattr(writer, f"add_{name}")(value)
    for name, tensor in tensors.items():
        data = tensor.float().numpy()
        if kind != F32:
            data = gguf.quantize(data, kind)
        writer.add_tensor(name, np.ascontiguousarray(data), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def turned(weight, heads):
    """The rows of each head as llama.cpp keeps them: first and second half in turn."""
    rows = []
    for head in weight.chunk(heads):
        first, second = head.chunk(2)
        rows += [one for both in zip(first, second, strict=True) for one in both]
    return torch.stack(rows)


def a_llama(folder):
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=9, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, intermediate_size=8,
    )  # fmt: skip
    model = transformers.LlamaModel(config)
    torch.manual_seed(0)
    for tensor in model.parameters():
        torch.nn.init.normal_(tensor, std=0.5)
    model.save_pretrained(folder)
    return load_file(folder / "model.safetensors")


def test_rows_in_llama_cpp_s_order_leave_the_spectra_as_they_are(tmp_path):
    stored = a_llama(tmp_path)
    tensors = {"token_embd.weight": torch.zeros(9, 32)}
    for number in range(2):
        for part, heads in (("q", 4), ("k", 2)):
            weight = stored[f"layers.{number}.self_attn.{part}_proj.weight"]
            tensors[f"blk.{number}.attn_{part}.weight"] = turned(weight, heads)
    assert not torch.equal(tensors["blk.0.attn_q.weight"], weight)
    path = written(tmp_path / "tiny.gguf", tensors, head_count=4, head_count_kv=2, key_length=16)
    found, expected = weight_spectra(path), weight_spectra(tmp_path)
    assert found.model == "tiny"
    assert [layer.name for layer in found.layers] == ["blk.0.attn", "blk.1.attn"]
    for ours, theirs in zip(found.layers, expected.layers, strict=True):
        assert ours.groups == theirs.groups == 2
        np.testing.assert_allclose(ours.sigma, theirs.sigma, rtol=0, atol=1e-12 * ours.sigma.max())


def test_fused_weights_are_stacked_and_quantised_ones_are_read_as_they_are_used(tmp_path):
    torch.manual_seed(0)
    weight = torch.randn(96, 32)
    path = written(
        tmp_path / "m.gguf", {"blk.0.attn_qkv.weight": weight}, "gptneox", Q8, head_count=4
    )
    used = gguf.dequantize(gguf.quantize(weight.numpy(), Q8), Q8).astype(np.float64)
    query, key, _ = used.reshape(3, 4, 8, 32)
    sigma = np.linalg.svd(query.swapaxes(1, 2) @ key, compute_uv=False)[:, :8]
    (layer,) = weight_spectra(tmp_path).layers  # the folder's only file
    np.testing.assert_allclose(layer.sigma, sigma, rtol=0, atol=1e-12 * sigma.max())
    plain = np.linalg.svd(
        np.swapaxes(weight.numpy()[:32].reshape(4, 8, 32), 1, 2)
        @ weight.numpy()[32:64].reshape(4, 8, 32), compute_uv=False
    )[:, :8]  # fmt: skip
    assert 1e-4 < abs(layer.sigma - plain).max() / plain.max() < 1e-2
    assert weight_spectra(path).layers[0].layout == "stacked"


def test_layers_with_heads_of_their_own_and_both_sides_of_a_translator(tmp_path):
    names = ("enc.blk.0.attn", "enc.blk.1.attn", "dec.blk.0.attn", "dec.blk.0.cross_attn")
    tensors = {f"{name}_{part}.weight": torch.eye(32) for name in names for part in "qk"}
    found = weight_spectra(written(tmp_path / "m.gguf", tensors, "t5", head_count=[4, 2]))
    assert [layer.name for layer in found.layers] == [*names]
    assert [len(layer.sigma) for layer in found.layers] == [4, 2, 4, 4]


def test_what_cannot_be_read_of_gguf_is_named(tmp_path):
    plain = {f"blk.1.attn_{part}.weight": torch.eye(32) for part in "qk"}
    others = {
        "blk.0.attn_qkv.weight": torch.eye(32), "blk.0.ssm_a": torch.zeros(32, 1),
        "blk.2.attn_kv_a_mqa.weight": torch.eye(32),
    }  # fmt: skip
    path = written(tmp_path / "m.gguf", plain | others, "qwen3next", head_count=4)
    with pytest.warns(AccuracyWarning, match=r"recurrence.*latent attention is read from safet"):
        assert len(weight_spectra(path).layers) == 1


def test_a_gguf_file_without_heads_asks_for_them(tmp_path):
    tensors = {f"blk.0.attn_{part}.weight": torch.eye(32) for part in "qk"}
    path = written(tmp_path / "m.gguf", tensors)
    with pytest.raises(InputError, match=r"how many heads.*heads=12"):
        weight_spectra(path)
    assert weight_spectra(path, heads=2).sigma(0, 1).shape == (16,)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"no model at all" * 9])
def test_a_broken_gguf_file_is_refused(tmp_path, content):
    (tmp_path / "m.gguf").write_bytes(content)
    with pytest.raises(InputError, match=r"the GGUF file cannot be read.*m\.gguf.*once more"):
        weight_spectra(tmp_path)


def test_a_gguf_file_that_ends_early_is_refused(tmp_path):
    tensors = {f"blk.0.attn_{part}.weight": torch.eye(32) for part in "qk"}
    path = written(tmp_path / "m.gguf", tensors, head_count=2)
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(InputError, match="the GGUF file cannot be read"):
        weight_spectra(path)


def test_quantised_tensors_say_how_they_are_quantised(tmp_path):
    names = ("layers.0.q_proj.weight", "layers.0.k_proj.weight")
    save_file({name: torch.zeros(8, 1, dtype=torch.uint8) for name in names},
              tmp_path / "model.safetensors")  # fmt: skip
    (tmp_path / "config.json").write_text(
        '{"num_heads": 2, "quantization_config": {"quant_method": "bitsandbytes"}}'
    )
    with pytest.raises(InputError, match=r"q_proj.*quantised by bitsandbytes\. Quantised weights"):
        weight_spectra(tmp_path)


def test_neither_transformers_nor_gguf_is_needed_for_safetensors(tmp_path, monkeypatch):
    names = ("layers.0.q_proj.weight", "layers.0.k_proj.weight")
    save_file({name: torch.eye(8) for name in names}, tmp_path / "model.safetensors")
    for package in ("transformers", "gguf", "huggingface_hub"):
        monkeypatch.setitem(sys.modules, package, None)
    assert len(weight_spectra(tmp_path, 2).layers) == 1


def test_a_gguf_file_without_the_package_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr("attnrate.spectra.weight_files.is_installed", lambda name: False)
    with pytest.raises(InputError, match=r"needs gguf, which is not installed.*pip install"):
        weight_spectra(tmp_path)


def test_a_name_that_is_no_folder_is_looked_for_on_the_hub(tmp_path, monkeypatch):
    names = ("layers.0.q_proj.weight", "layers.0.k_proj.weight")
    save_file({name: torch.eye(8) for name in names}, tmp_path / "model.safetensors")
    monkeypatch.setattr("attnrate.spectra.weight_files.from_hub", lambda name: tmp_path)
    assert weight_spectra("someone/model", heads=2).model == "someone/model"
