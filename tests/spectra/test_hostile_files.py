"""Inputs and models of our own that lie about what they hold."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from attnrate.cli.profiling import _layers
from attnrate.errors import AttnrateError, InputError
from attnrate.spectra.checkpoint import read_json
from attnrate.spectra.inputs.arrays import read_arrays
from attnrate.spectra.weights_only import weight_spectra
from attnrate.training.checkpoint import holds_model, read_model


def test_an_array_larger_than_any_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (1152921504606846976, 4), }\n"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("input", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(InputError, match="array"):
        read_arrays(torch.nn.Linear(1, 1), path)


def test_an_encrypted_file_of_arrays_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, input=np.ones(3))
    data = bytearray(path.read_bytes())
    for start, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        data[data.find(start) + flags] |= 1
    path.write_bytes(data)
    with pytest.raises(InputError):
        read_arrays(torch.nn.Linear(1, 1), path)


@pytest.mark.parametrize(
    "facts",
    [
        5,
        [1],
        {"settings": []},
        {"epochs": 1, "settings": {"model": []}},
        {"epochs": None, "settings": {"model": {"class": "ViT"}}},
        {"epochs": 1, "settings": {"model": {"class": "ViT", "layers": 10**9}}},
        {"epochs": 1, "settings": {"model": {"class": "ViT", "width": 2**31}}},
        {"epochs": 1, "settings": {"model": {"class": []}}},
    ],
)
def test_a_model_of_ours_that_lies_about_itself_is_refused(tmp_path: Path, facts: object) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"model.x": torch.ones(2)}, path, {"attnrate": json.dumps(facts)})
    assert holds_model(tmp_path)
    assert "model.x" in load_file(path)
    with pytest.raises(AttnrateError):
        read_model(tmp_path)


@pytest.mark.parametrize("word", ["²", "--5", "9" * 5000])
def test_a_layer_that_is_no_number_is_a_name(word: str) -> None:
    assert _layers(word) == [word]


@pytest.mark.parametrize("name", ["../../x", "", "self", "input\n"])
def test_arrays_of_names_that_the_model_does_not_know_are_refused(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "a.npz"
    raw = io.BytesIO()
    np.save(raw, np.ones((2, 1), np.float32))
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr(f"{name}.npy", raw.getvalue())
    with pytest.raises(InputError):
        read_arrays(torch.nn.Linear(1, 1), path)


def test_objects_in_a_file_of_arrays_are_not_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str, str]]:
            return open, (str(tmp_path / "owned"), "w")

    path = tmp_path / "a.npz"
    np.savez(path, input=np.array([Trap()], dtype=object))
    with pytest.raises(InputError, match="pickles"):
        read_arrays(torch.nn.Linear(1, 1), path)
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("file", ["", "a\0b", "../model.safetensors", "/etc/passwd", "."])
def test_an_index_never_leads_out_of_its_folder(tmp_path: Path, file: str) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"x": file}}))
    with pytest.raises(InputError, match=r"names files elsewhere|missing"):
        weight_spectra(tmp_path)


@pytest.mark.parametrize("text", ["[" * 50_000, "5", "", "\ufeff{}"])
def test_a_config_that_is_no_table_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"config\.json"):
        read_json(path)


@pytest.mark.parametrize("settings", [[], {"model": []}, 5])
def test_weights_of_ours_with_settings_of_another_kind_are_refused(
    tmp_path: Path, settings: object
) -> None:
    told = {"attnrate": json.dumps({"epochs": 1, "settings": settings})}
    names = ("model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight")
    save_file({name: torch.ones(4, 4) for name in names}, tmp_path / "model.safetensors", told)
    with pytest.raises(InputError, match="heads"):
        weight_spectra(tmp_path)


def test_a_matrix_without_numbers_is_refused(tmp_path: Path) -> None:
    names = ("layers.0.self_attn.q_proj.weight", "layers.0.self_attn.k_proj.weight")
    save_file({name: torch.ones(0, 4) for name in names}, tmp_path / "model.safetensors")
    with pytest.raises(InputError, match="no matrix"):
        weight_spectra(tmp_path, 1)
