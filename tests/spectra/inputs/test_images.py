"""Images from a folder: resized and normalised as the model's own files say."""

import json

import numpy as np
import pytest
import torch
from word_models import word_bert

from attnrate.errors import InputError
from attnrate.spectra.inputs.images import read_images
from attnrate.spectra.inputs.running import read_text
from attnrate.spectra.load import LoadedModel, load_model

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vit")
    config = transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        image_size=8, patch_size=4,
    )  # fmt: skip
    transformers.ViTModel(config).save_pretrained(folder)
    return load_model(folder)


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


def test_text_for_a_model_of_images_and_the_reverse(vit, tmp_path):
    bert = word_bert(tmp_path / "bert")
    (tmp_path / "text.txt").write_text("w1")
    with pytest.raises(InputError, match="pixel_values"):
        read_text(vit, tmp_path / "text.txt", length=8)
    an_image(tmp_path / "a.png")
    with pytest.raises(InputError, match="input_ids"):
        read_images(bert, tmp_path)
