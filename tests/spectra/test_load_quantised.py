"""Quantised checkpoints: unpacked to the numbers that they hold; what a machine lacks is said."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from attnrate.errors import InputError
from attnrate.spectra import quantised
from attnrate.spectra.batches import is_finite
from attnrate.spectra.load import load_model
from attnrate.spectra.profile import profile
from attnrate.spectra.quantised import quantised_by

transformers = pytest.importorskip("transformers")
IDS = {"input_ids": torch.arange(24).reshape(2, 12)}
WEIGHTS = {"type": "int", "strategy": "channel", "symmetric": True, "dynamic": False}


def a_llama():
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.LlamaConfig(
        **sizes, num_key_value_heads=2, intermediate_size=48, vocab_size=40
    )
    return transformers.LlamaModel(config).eval()


def described(folder, settings):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    return folder


def compressed(folder):
    """A Llama whose matrices are whole numbers of 8 bits times a scale per row, and its equal."""
    model = a_llama()
    model.save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    for name in [name for name in tensors if name.endswith("_proj.weight")]:
        scale = tensors[name].abs().amax(1, keepdim=True) / 127
        tensors[name] = (tensors[name] / scale).round().to(torch.int8)
        tensors[f"{name}_scale"] = scale
        model.get_parameter(name).data = tensors[name] * scale
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    form = {"format": "int-quantized"}
    group = form | {"targets": ["Linear"], "weights": WEIGHTS | {"num_bits": 8}}
    how = {"quant_method": "compressed-tensors", "quantization_status": "compressed"} | form
    described(folder, {"quantization_config": how | {"config_groups": {"all": group}}})
    return folder, model


@pytest.mark.parametrize("more", [{}, {"device_map": "auto"}])
def test_compressed_tensors_are_the_numbers_that_they_stand_for(tmp_path, capfd, more):
    pytest.importorskip("compressed_tensors")
    folder, equal = compressed(tmp_path)
    capfd.readouterr()
    loaded = load_model(folder, **more)
    found = profile(loaded, IDS, cut_inputs=1, progress=False)
    assert capfd.readouterr() == ("", "")
    assert loaded.dtype == torch.float32
    query = loaded.model.get_parameter("layers.1.self_attn.q_proj.weight")
    assert torch.equal(query, equal.get_parameter("layers.1.self_attn.q_proj.weight"))
    wanted = profile(equal, IDS, cut_inputs=1, progress=False)
    assert found.to_frame().equals(wanted.to_frame())


def test_a_scale_that_is_not_finite_is_found(tmp_path):
    pytest.importorskip("compressed_tensors")
    folder, _ = compressed(tmp_path)
    tensors = load_file(folder / "model.safetensors")
    tensors["layers.0.self_attn.k_proj.weight_scale"][3] = torch.inf
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"hold nan or inf.*layers\.0\.self_attn\.k_proj"):
        load_model(folder)


@pytest.mark.parametrize(
    ("settings", "method"),
    [
        ({}, None),
        ({"quantization_config": None}, None),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "gptq"),
        ({"quantization_config": {"load_in_8bit": True}}, "bitsandbytes"),
        ({"quantization_config": {"bits": 4}}, "a method without a name"),
    ],
)
def test_the_method_is_read_from_the_settings(settings, method):
    assert quantised_by(settings) == method


@pytest.fixture
def folder(tmp_path):
    a_llama().save_pretrained(tmp_path / "llama")
    return tmp_path / "llama"


@pytest.mark.parametrize(
    ("method", "package"),
    [
        ("compressed-tensors", "compressed-tensors"),
        ("awq", "gptqmodel"),
        ("quanto", "optimum-quanto"),
    ],
)
def test_a_package_that_is_missing_is_named(folder, monkeypatch, method, package):
    def none(module):
        raise ModuleNotFoundError(module)

    described(folder, {"quantization_config": {"quant_method": method}})
    for lacks in (lambda module: False, none):
        monkeypatch.setattr(quantised, "is_installed", lacks)
        match = f"needs {package}, which is not installed.*pip install {package}"
        with pytest.raises(InputError, match=match):
            load_model(folder)


@pytest.mark.parametrize("settings", [{"quant_method": "bitsandbytes"}, {"load_in_4bit": True}])
def test_bitsandbytes_needs_a_gpu(folder, settings):
    described(folder, {"quantization_config": settings})
    with pytest.raises(InputError, match=r"bitsandbytes needs a GPU.*'cpu'.*before it was quant"):
        load_model(folder)


def test_a_quantised_checkpoint_does_not_stay_on_disk(folder, tmp_path):
    described(folder, {"quantization_config": {"quant_method": "compressed-tensors"}})
    with pytest.raises(InputError, match=r"in memory as a whole.*Leave out offload"):
        load_model(folder, device_map="auto", offload=tmp_path / "off")


def test_numbers_of_8_bits_are_looked_at_as_well():
    held = torch.tensor([1.5, -448.0]).to(torch.float8_e4m3fn)
    assert is_finite(held)
    assert not is_finite(torch.tensor([torch.nan]).to(torch.float8_e4m3fn))
    assert is_finite(torch.tensor([-128, 127], dtype=torch.int8))
