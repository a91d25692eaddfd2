"""Arrays from an .npz file: nothing is changed, and what a model cannot take is named."""

import pickle

import numpy as np
import pytest
import torch
from torch import nn
from word_models import word_bert

from attnrate.errors import InputError
from attnrate.spectra.inputs.arrays import read_arrays

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return word_bert(tmp_path_factory.mktemp("bert"))


IDS = np.arange(24).reshape(4, 6) % 30


def arrays(bert, tmp_path, **named):
    np.savez(tmp_path / "in.npz", **named)
    return read_arrays(bert.model, tmp_path / "in.npz", batch=3)


def test_arrays_come_as_they_are(bert, tmp_path):
    mask = np.ones((4, 6), dtype=bool)
    batches = arrays(bert, tmp_path, input_ids=IDS.astype(np.int16), attention_mask=mask)
    assert [len(batch["input_ids"]) for batch in batches] == [3, 1]
    found = torch.cat([batch["input_ids"] for batch in batches])
    assert found.dtype == torch.int64
    assert torch.equal(found, torch.from_numpy(IDS))
    for batch in batches:
        bert.model(**batch)
    assert read_arrays(bert.model, tmp_path / "in.npz", limit=1).inputs == 1


def test_arrays_for_any_module(tmp_path):
    np.savez(tmp_path / "in.npz", input=np.ones((2, 3)))
    (batch,) = read_arrays(nn.Linear(3, 1), tmp_path / "in.npz")
    assert batch["input"].dtype == torch.float32


@pytest.mark.parametrize(
    ("named", "match"),
    [
        ({"ids": IDS}, "takes no inputs of these names.*input_ids"),
        ({"attention_mask": IDS}, "main input is missing.*input_ids"),
        ({"input_ids": IDS + 30}, "outside the vocabulary"),
        ({"input_ids": IDS - 1}, "outside the vocabulary"),
        ({"input_ids": IDS.astype(float)}, "whole numbers"),
        ({"input_ids": IDS[0]}, "shape"),
        ({"input_ids": IDS[:0]}, "at least one"),
        ({"input_ids": IDS[:, :0]}, "shape"),
        ({"input_ids": np.tile(IDS, 3)}, "longer than the model's positions.*16"),
        ({"input_ids": IDS, "attention_mask": np.ones((3, 6), int)}, "same number of inputs"),
        ({"input_ids": IDS, "attention_mask": np.arange(4)[:, None] > [0] * 6}, "but padding"),
        ({"inputs_embeds": np.full((2, 3, 8), np.nan)}, "inputs_embeds holds nan"),
        ({"input_ids": np.array([["a"]])}, "no numbers"),
        ({}, "no array"),
    ],
)
def test_arrays_that_cannot_be(bert, tmp_path, named, match):
    with pytest.raises(InputError, match=match):
        arrays(bert, tmp_path, **named)


def test_files_that_hold_no_plain_arrays(bert, tmp_path):
    path = tmp_path / "in.npz"
    np.savez(path, input_ids=np.array([{}], dtype=object))
    with pytest.raises(InputError, match="pickles, which are refused"):
        read_arrays(bert.model, path)
    whole = path.read_bytes()
    for data in (pickle.dumps([1]), b"words", whole[: len(whole) // 2]):
        path.write_bytes(data)
        with pytest.raises(InputError, match="no plain arrays"):
            read_arrays(bert.model, path)
    np.save(tmp_path / "one.npy", IDS)
    with pytest.raises(InputError, match="without a name"):
        read_arrays(bert.model, tmp_path / "one.npy")


def test_a_decoder_needs_its_own_input(tmp_path):
    config = transformers.WhisperConfig(
        vocab_size=20, d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=8, decoder_ffn_dim=8, num_mel_bins=4,
        max_source_positions=6, max_target_positions=5, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    model = transformers.WhisperModel(config).eval()
    sound = np.zeros((2, 4, 12), np.float32)
    path = tmp_path / "in.npz"
    np.savez(path, input_features=sound)
    with pytest.raises(InputError, match="Add decoder_input_ids"):
        read_arrays(model, path)
    np.savez(path, input_features=sound, decoder_input_ids=np.ones((2, 6), int))
    with pytest.raises(InputError, match="5 tokens"):
        read_arrays(model, path)
    np.savez(path, input_features=sound, decoder_input_ids=np.ones((2, 5), int))
    for batch in read_arrays(model, path):
        model(**batch)
