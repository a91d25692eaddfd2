"""Inputs and models of our own that lie about what they hold."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from attnrate.cli.profiling import _layers
from attnrate.errors import AttnrateError, InputError
from attnrate.spectra.read import read_arrays
from attnrate.training.kept import holds_model, read_model


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
