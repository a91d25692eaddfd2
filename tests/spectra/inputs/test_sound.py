"""Recordings from a folder: the sound that was recorded, and what a decoder reads of it."""

import sys

import numpy as np
import pytest
import torch
from scipy.io import wavfile
from word_models import VOCABULARY, save_tokenizer, word_bert

import attnrate as ar
from attnrate.errors import InputError
from attnrate.spectra.inputs.sound import _Extractor, read_sound
from attnrate.spectra.load import load_model

transformers = pytest.importorskip("transformers")
RATE = 16000


def tone(rate, seconds=0.5, pitch=440.0):
    return 0.5 * np.sin(2 * np.pi * pitch * np.arange(round(seconds * rate)) / rate)


@pytest.fixture(scope="module")
def whisper(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whisper")
    config = transformers.WhisperConfig(
        vocab_size=VOCABULARY, d_model=8, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=8, decoder_ffn_dim=8,
        num_mel_bins=8, max_source_positions=50, max_target_positions=12, pad_token_id=0,
        bos_token_id=1, eos_token_id=4, decoder_start_token_id=1,
    )  # fmt: skip
    torch.manual_seed(1)
    model = transformers.WhisperModel(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.5)
    model.save_pretrained(folder)
    transformers.WhisperFeatureExtractor(feature_size=8, chunk_length=1).save_pretrained(folder)
    save_tokenizer(folder)
    return load_model(folder)


@pytest.fixture(scope="module")
def wav2vec(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wav2vec")
    config = transformers.Wav2Vec2Config(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        conv_dim=(4, 4), conv_stride=(5, 4), conv_kernel=(10, 8), num_feat_extract_layers=2,
        num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2,
    )  # fmt: skip
    transformers.Wav2Vec2Model(config).save_pretrained(folder)
    transformers.Wav2Vec2FeatureExtractor().save_pretrained(folder)
    return load_model(folder)


class Raw:
    """A feature extractor that leaves the sound as it is."""

    sampling_rate = RATE

    def __call__(self, raw_speech, padding=False, **options):
        return {"input_values": torch.from_numpy(np.stack(raw_speech))}


@pytest.mark.parametrize(
    ("kind", "steps", "zero"),
    [
        (np.uint8, 2**7, 128),
        (np.int16, 2**15, 0),
        (np.int32, 2**31, 0),
        (np.float32, 0, 0),
        (np.float64, 0, 0),
    ],
)
def test_every_kind_of_samples_is_the_same_sound(tmp_path, kind, steps, zero):
    samples = np.round(tone(RATE) * steps + zero) if steps else tone(RATE)
    wavfile.write(tmp_path / "a.wav", RATE, samples.astype(kind))
    found = _Extractor(Raw(), "input_values", 30.0).wave(tmp_path / "a.wav")
    assert found.dtype == np.float32
    # half a step of the samples, and the rounding of float32
    half = 0.5 / steps if steps else 0.0
    np.testing.assert_allclose(found, tone(RATE), atol=half + 1e-7, rtol=0)


@pytest.mark.parametrize("rate", [8000, 22050, 44100, 48000])
def test_sound_of_another_rate_is_resampled(tmp_path, rate):
    wavfile.write(tmp_path / "a.wav", rate, tone(rate).astype(np.float32))
    found = _Extractor(Raw(), "input_values", 30.0).wave(tmp_path / "a.wav")
    assert len(found) == RATE // 2
    middle = slice(500, -500)  # at its ends a resampled sound fades
    np.testing.assert_allclose(found[middle], tone(RATE)[middle], atol=2e-3)


def test_channels_are_averaged_and_long_recordings_are_cut_off(tmp_path):
    both = np.stack([tone(RATE), 3 * tone(RATE)], 1).astype(np.float32)
    wavfile.write(tmp_path / "a.wav", RATE, both)
    found = _Extractor(Raw(), "input_values", 0.25).wave(tmp_path / "a.wav")
    assert len(found) == RATE // 4
    np.testing.assert_allclose(found, 2 * tone(RATE)[: RATE // 4], atol=1e-6)


def test_whisper_hears_what_its_own_feature_extractor_makes(whisper, tmp_path):
    for name, seconds in (("b", 0.5), ("a", 0.25)):
        wavfile.write(tmp_path / f"{name}.wav", RATE, tone(RATE, seconds).astype(np.float32))
    (tmp_path / "notes.md").write_text("no sound")
    (batch,) = read_sound(whisper, tmp_path)
    own = transformers.WhisperFeatureExtractor.from_pretrained(whisper.folder)
    expected = own(
        [tone(RATE, 0.25).astype(np.float32), tone(RATE).astype(np.float32)],
        sampling_rate=RATE,
        return_tensors="pt",
    )
    assert torch.equal(batch["input_features"], expected["input_features"])
    assert batch["input_features"].shape == (2, 8, 100)


def test_whisper_writes_the_likeliest_tokens_where_nobody_says_what_was_said(whisper, tmp_path):
    for seed in range(3):
        noise = np.random.default_rng(seed).normal(size=RATE // 2) / 4
        wavfile.write(tmp_path / f"{seed}.wav", RATE, noise.astype(np.float32))
    (batch,) = read_sound(whisper, tmp_path)
    ids, mask = batch["decoder_input_ids"], batch["decoder_attention_mask"]
    assert ids[:, 0].tolist() == [1, 1, 1]
    # the whole model of transformers, whose output layer is the decoder's embedding
    whole = transformers.WhisperForConditionalGeneration(whisper.model.config).eval()
    whole.model.load_state_dict(whisper.model.state_dict())
    with torch.no_grad():
        likeliest = whole(**batch).logits.argmax(-1)
    for row, written in enumerate(ids):
        count = int(mask[row].sum())
        assert count > 1
        assert written[1:count].tolist() == likeliest[row, : count - 1].tolist()
        # a text ends with the token for it, or where the decoder's positions do
        assert (written[1:count] == 4).sum() == (count < 12)


def test_what_is_said_beside_a_recording_is_what_the_decoder_reads(whisper, tmp_path):
    for name in ("a", "b"):
        wavfile.write(tmp_path / f"{name}.wav", RATE, tone(RATE).astype(np.float32))
        (tmp_path / f"{name}.txt").write_text("w1 w2\n" if name == "a" else "w3 " * 50)
    (batch,) = read_sound(whisper, tmp_path)
    assert batch["decoder_input_ids"].tolist() == [[1, 6, 7, *[0] * 9], [1, *[8] * 11]]
    assert batch["decoder_attention_mask"].sum(1).tolist() == [3, 12]
    (tmp_path / "b.txt").unlink()
    (batch,) = read_sound(whisper, tmp_path)
    assert batch["decoder_input_ids"][0, :3].tolist() == [1, 6, 7]
    (tmp_path / "a.txt").write_text(" ")
    with pytest.raises(InputError, match="text of a recording is empty"):
        read_sound(whisper, tmp_path)


def test_a_profile_sees_encoder_decoder_and_what_is_between(whisper, tmp_path):
    for seed in range(4):
        noise = np.random.default_rng(seed).normal(size=RATE // 2) / 4
        wavfile.write(tmp_path / f"{seed}.wav", RATE, noise.astype(np.float32))
    found = ar.profile(whisper, read_sound(whisper, tmp_path), cut_inputs=0)
    assert [layer.kind for layer in found.layers] == ["self", "self", "cross"]
    assert all(
        sigma > 1e-6 for layer in found.layers for sigma in found.pooled(layer.number, 0)[:1]
    )


def test_recordings_of_several_lengths_are_not_filled_up(wav2vec, tmp_path):
    for name, seconds in (("a", 0.5), ("b", 0.5), ("c", 0.25)):
        wavfile.write(tmp_path / f"{name}.wav", RATE, tone(RATE, seconds).astype(np.float32))
    found = [batch["input_values"] for batch in read_sound(wav2vec, tmp_path)]
    assert [tuple(one.shape) for one in found] == [(1, 8000), (1, 8000), (1, 4000)]
    for batch in read_sound(wav2vec, tmp_path):
        assert [*batch] == ["input_values"]
        wav2vec.model(**batch)
    cut = read_sound(wav2vec, tmp_path, seconds=0.25, batch=2)
    assert [len(batch["input_values"]) for batch in cut] == [2, 1]
    assert read_sound(wav2vec, tmp_path, limit=2).inputs == 2


@pytest.mark.parametrize("ending", ["flac", "ogg"])
def test_packed_recordings_need_soundfile(wav2vec, tmp_path, ending, monkeypatch):
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(tmp_path / f"a.{ending}", tone(RATE), RATE)
    (batch,) = read_sound(wav2vec, tmp_path)
    expected = tone(RATE) / np.sqrt(tone(RATE).var())
    assert np.abs(batch["input_values"][0].numpy() - expected).mean() < 0.05
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(InputError, match=r"soundfile, which is not installed.*pip install"):
        read_sound(wav2vec, tmp_path)


def test_folders_without_sound_and_recordings_that_cannot_be_read(wav2vec, tmp_path):
    with pytest.raises(InputError, match="no such folder of sound"):
        read_sound(wav2vec, tmp_path / "x")
    with pytest.raises(InputError, match="no recording"):
        read_sound(wav2vec, tmp_path)
    wavfile.write(tmp_path / "good.wav", RATE, tone(RATE).astype(np.float32))
    whole = (tmp_path / "good.wav").read_bytes()
    (tmp_path / "half.wav").write_bytes(whole[:20])
    (tmp_path / "text.wav").write_text("no sound")
    wavfile.write(tmp_path / "none.wav", RATE, np.zeros(0, dtype=np.int16))
    wavfile.write(tmp_path / "nan.wav", RATE, np.full(9, np.nan, dtype=np.float32))
    with pytest.raises(InputError, match="cannot be read, or hold no sound") as caught:
        read_sound(wav2vec, tmp_path)
    assert caught.value.value == ["half.wav", "nan.wav", "none.wav", "text.wav"]


def test_models_that_take_no_sound_or_do_not_say_how(wav2vec, tmp_path):
    wavfile.write(tmp_path / "a.wav", RATE, tone(RATE).astype(np.float32))
    with pytest.raises(InputError, match="takes no sound; its main input is 'input_ids'"):
        read_sound(word_bert(tmp_path / "bert"), tmp_path)
    bare = tmp_path / "bare"
    wav2vec.model.save_pretrained(bare)
    with pytest.raises(InputError, match=r"no feature extractor.*preprocessor_config\.json"):
        read_sound(load_model(bare), tmp_path)
    (bare / "preprocessor_config.json").write_text("{")
    with pytest.raises(InputError, match="no feature extractor that can be used"):
        read_sound(load_model(bare), tmp_path)


def test_a_decoder_that_cannot_write_needs_what_was_said(whisper, tmp_path, monkeypatch):
    wavfile.write(tmp_path / "a.wav", RATE, tone(RATE).astype(np.float32))
    monkeypatch.setattr(whisper.model.config, "tie_word_embeddings", False)
    with pytest.raises(InputError, match=r"no output layer.*got 'a\.wav'.*NAME\.txt"):
        read_sound(whisper, tmp_path)
    (tmp_path / "a.txt").write_text("w1")
    assert read_sound(whisper, tmp_path).inputs == 1
