"""Inputs from files: nothing is lost or made up on the way, and what cannot be used is named."""

import json
import pickle

import numpy as np
import pytest
import torch
from torch import nn

from attnrate.errors import InputError
from attnrate.spectra.load import LoadedModel, load_model
from attnrate.spectra.read import _text, read_arrays, read_images, read_text

transformers = pytest.importorskip("transformers")
WORDS = [f"w{number}" for number in range(30)]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A BERT with a tokenizer of whole words: w7 is token 5 + 7."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    folder = tmp_path_factory.mktemp("bert")
    config = transformers.BertConfig(
        vocab_size=35, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=8, max_position_embeddings=16,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(folder)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: number for number, word in enumerate(special + WORDS)}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), special, strict=False))
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, **names).save_pretrained(folder)
    return load_model(folder)


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vit")
    config = transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        image_size=8, patch_size=4,
    )  # fmt: skip
    transformers.ViTModel(config).save_pretrained(folder)
    return load_model(folder)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(" ".join(WORDS))
    return path


def words_of(batches):
    """The words that the batches hold, in order, without special tokens."""
    ids = [batch["input_ids"][batch["attention_mask"] > 0] for batch in batches]
    return [WORDS[token - 5] for token in torch.cat(ids).tolist() if token >= 5]


def test_text_is_cut_into_pieces_in_order_and_nothing_is_lost(bert, text):
    batches = read_text(bert, text, length=10, batch=3, short="pad")
    assert words_of(batches) == WORDS
    assert (len(batches), batches.inputs) == (2, 4)
    first, last = batches
    assert first["input_ids"].shape == (3, 10)
    assert first["input_ids"][:, 0].tolist() == [2, 2, 2]
    assert first["attention_mask"].all()
    # 30 words: three pieces of 8 and one of 6
    assert last["attention_mask"].sum() == 8
    assert words_of(batches) == words_of(batches)


def test_the_last_short_piece_is_dropped_unless_it_is_the_only_one(bert, text):
    assert words_of(read_text(bert, text, length=10)) == WORDS[:24]
    text.write_text("w1 w2")
    assert words_of(read_text(bert, text, length=10)) == ["w1", "w2"]


def test_padding_is_hidden_from_the_model(bert, text):
    whole, part = read_text(bert, text, length=16, batch=2, short="pad"), None
    for batch in whole:
        part = batch
    count = int(part["attention_mask"][-1].sum())
    with torch.no_grad():
        padded = bert.model(**part).last_hidden_state[-1, :count]
        alone = bert.model(input_ids=part["input_ids"][-1:, :count]).last_hidden_state[0]
    torch.testing.assert_close(padded, alone)


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_a_limit_spreads_the_pieces_over_the_file(bert, tmp_path, limit):
    path = tmp_path / "long.txt"
    said = WORDS * 200
    path.write_text(" ".join(said))
    found = list(read_text(bert, path, length=10, batch=1, limit=limit))
    assert len(found) == limit
    starts = []
    for piece in found:
        words = words_of([piece])
        assert len(words) == 8
        first = WORDS.index(words[0])
        assert words == (WORDS * 2)[first : first + 8]  # a stretch of the text as it stands
        starts.append(words)
    assert starts[0] == WORDS[:8]


def test_pieces_of_a_short_file_are_spread_too(bert, tmp_path):
    path = tmp_path / "short.txt"
    path.write_text(" ".join(WORDS))
    assert words_of(read_text(bert, path, length=10, limit=2)) == WORDS[:8] + WORDS[16:24]


def test_a_limit_is_reached_even_if_words_are_far_apart(bert, tmp_path):
    path = tmp_path / "sparse.txt"
    path.write_text((" " * 500).join(WORDS))
    found = words_of(read_text(bert, path, length=5, limit=4))
    assert len(found) == 12
    assert found[:3] == WORDS[:3]


def test_characters_of_several_bytes_may_lie_across_a_start(bert, tmp_path):
    path = tmp_path / "wide.txt"
    path.write_text("w1 äöü€🙂 w2 " * 500, encoding="utf-8")
    for limit in range(1, 12):
        assert read_text(bert, path, length=10, limit=limit).inputs == limit


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"length": 17}, "at most 16 tokens"),
        ({"length": 1}, "length"),
        ({"length": "8"}, "length"),
        ({"batch": 0}, "batch"),
        ({"limit": 0}, "limit"),
        ({"short": "keep"}, "short"),
    ],
)
def test_text_options_that_cannot_be(bert, text, options, match):
    with pytest.raises(InputError, match=match):
        read_text(bert, text, **({"length": 10} | options))


def test_text_that_is_none(bert, tmp_path):
    path = tmp_path / "f.txt"
    for missing in (path, tmp_path, None, 3):
        with pytest.raises(InputError, match="no such file"):
            read_text(bert, missing, length=8)
    for data, match in ((b"", "empty"), (b" \n ", "no text"), (b"\xff\xfe\x00", "UTF-8")):
        path.write_bytes(data)
        with pytest.raises(InputError, match=match):
            read_text(bert, path, length=8)


def test_text_for_a_model_of_images_and_the_reverse(bert, vit, text, tmp_path):
    with pytest.raises(InputError, match="pixel_values"):
        read_text(vit, text, length=8)
    an_image(tmp_path / "a.png")
    with pytest.raises(InputError, match="input_ids"):
        read_images(bert, tmp_path)


def test_tokens_that_the_model_does_not_know(bert, text):
    config = transformers.BertConfig(
        vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2
    )
    smaller = LoadedModel(transformers.BertModel(config), "smaller", bert.folder, None)
    with pytest.raises(InputError, match=r"outside the vocabulary.*0 to 8"):
        read_text(smaller, text, length=8)


def an_image(path, size=(8, 8), seed=0):
    from PIL import Image

    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return pixels


def test_an_image_of_the_right_size_is_only_normalised(vit, tmp_path):
    pixels = an_image(tmp_path / "a.png")
    (batch,) = read_images(vit, tmp_path)
    expected = (pixels.transpose(2, 0, 1) / 255 - 0.5) / 0.5
    assert batch["pixel_values"].dtype == torch.float32
    np.testing.assert_allclose(batch["pixel_values"][0].numpy(), expected, atol=1e-6)
    vit.model(**batch)


def test_images_come_in_order_from_all_kinds_of_files(vit, tmp_path):
    (tmp_path / "below").mkdir()
    kinds = ("a.png", "b.jpg", "below/c.webp", "d.PNG")
    for seed, name in enumerate(kinds):
        an_image(tmp_path / name, (20, 12), seed)
    (tmp_path / "notes.txt").write_text("no image")
    batches = read_images(vit, tmp_path, batch=3)
    assert [len(batch["pixel_values"]) for batch in batches] == [3, 1]
    assert read_images(vit, tmp_path, limit=2).inputs == 2


def settings(loaded, tmp_path, said):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(said))
    return LoadedModel(loaded.model, "vit", tmp_path, None)


def test_the_preprocessor_is_followed(vit, tmp_path):
    said = {
        "size": {"shortest_edge": 8},
        "do_center_crop": True,
        "crop_size": {"height": 8, "width": 8},
        "image_mean": [0.1, 0.2, 0.3],
        "image_std": [0.5, 0.6, 0.7],
        "resample": 0,
    }
    images = tmp_path / "images"
    images.mkdir()
    pixels = an_image(images / "wide.png", (12, 8))
    (batch,) = read_images(settings(vit, tmp_path, said), images)
    middle = pixels[:, 2:10].transpose(2, 0, 1) / 255
    mean, std = (np.array(said[key])[:, None, None] for key in ("image_mean", "image_std"))
    np.testing.assert_allclose(batch["pixel_values"][0].numpy(), (middle - mean) / std, atol=1e-6)


def test_a_preprocessor_for_another_size_is_refused(vit, tmp_path):
    an_image(tmp_path / "a.png")
    with pytest.raises(InputError, match=r"another size.*\(8, 8\)"):
        read_images(settings(vit, tmp_path, {"size": 16}), tmp_path)


def test_folders_without_images_and_images_that_cannot_be_read(vit, tmp_path):
    with pytest.raises(InputError, match="no image"):
        read_images(vit, tmp_path)
    for missing in (tmp_path / "x", None):
        with pytest.raises(InputError, match="no such folder"):
            read_images(vit, missing)
    an_image(tmp_path / "good.png")
    data = (tmp_path / "good.png").read_bytes()
    (tmp_path / "half.png").write_bytes(data[: len(data) // 2])
    (tmp_path / "text.jpg").write_text("no image")
    with pytest.raises(InputError, match="2 images") as caught:
        read_images(vit, tmp_path)
    assert caught.value.value == ["half.png", "text.jpg"]


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


def test_a_limit_spreads_over_the_classes_of_a_folder_of_images(vit, tmp_path):
    for number, kind in enumerate("abcd"):
        (tmp_path / kind).mkdir()
        for copy in range(5):
            an_image(tmp_path / kind / f"{copy}.png", seed=10 * number + copy)
    (some,) = read_images(vit, tmp_path, limit=4)
    (firsts,) = read_images(vit, tmp_path / "a", limit=1)
    assert torch.equal(some["pixel_values"][0], firsts["pixel_values"][0])
    for number, kind in enumerate("abcd"):
        (of_kind,) = read_images(vit, tmp_path / kind, limit=1)
        assert torch.equal(some["pixel_values"][number], of_kind["pixel_values"][0])


def test_text_without_spaces_is_not_thrown_away(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("語" * 1000, encoding="utf-8")
    assert len(_text(path, 300, 300)) == 100
    path.write_text("wor ld\nnext " * 100, encoding="utf-8")
    assert _text(path, 1, 30).startswith("ld")


def test_models_that_take_any_size_follow_their_preprocessor(tmp_path):
    config = transformers.Dinov2Config(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, image_size=16, patch_size=4
    )
    (tmp_path / "images").mkdir()
    an_image(tmp_path / "images" / "a.png", (8, 8))
    loaded = LoadedModel(transformers.Dinov2Model(config), "dinov2", tmp_path, None)
    said = {"size": {"shortest_edge": 8}, "do_center_crop": True, "crop_size": 8}
    (batch,) = read_images(settings(loaded, tmp_path, said), tmp_path / "images")
    assert batch["pixel_values"].shape == (1, 3, 8, 8)
    loaded.model(**batch)
