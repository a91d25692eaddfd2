"""`train` on made-up images: what its folder holds, going on, reading back, wrong requests."""

import copy
import json
import pickle
from dataclasses import asdict

import numpy as np
import pytest
import torch

from attnrate.data.registry import FetchError
from attnrate.errors import InputError, StoreError
from attnrate.models.vit import ViT
from attnrate.training import images as images_room
from attnrate.training import sentences as sentences_room
from attnrate.training import train as train_room
from attnrate.training.images import Photographs
from attnrate.training.sentences import Sentences
from attnrate.training.train import train, trained

COUNT = 128


@pytest.fixture(autouse=True)
def _made_up(monkeypatch):
    random = np.random.default_rng(0)
    labels = np.arange(2 * COUNT) % 10
    images = random.integers(0, 50, (2 * COUNT, 32, 32, 3)) + 20 * labels[:, None, None, None]
    images = images.astype(np.uint8)
    data = Photographs(images[:COUNT], labels[:COUNT], images[COUNT:], labels[COUNT:])
    monkeypatch.setattr(images_room, "photographs", lambda train, test: data)


def run(folder, **changes):
    return train("cifar10", folder, **{"limit": COUNT, "epochs": 2, "threads": 1, **changes})


def numbers(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_the_folder_holds_the_model_and_its_result(tmp_path):
    done = run(tmp_path / "run")
    assert len(done.epochs) == 2
    assert done.seconds == sum(epoch.seconds for epoch in done.epochs)
    assert 0 <= done.scores.test_error <= 1
    assert sorted(path.name for path in done.folder.iterdir()) == [
        "attnrate.json",
        "model.safetensors",
        "result.json",
    ]
    told = json.loads((done.folder / "result.json").read_text())
    assert told["parameters"] == done.model.parameter_count()
    assert told["scores"] == asdict(done.scores)
    again = trained(done.folder)
    assert torch.equal(numbers(again.model), numbers(done.model))
    assert not again.model.training
    assert again.epochs == done.epochs
    assert again.scores == done.scores


def test_a_finished_run_is_read_and_not_trained_again(tmp_path, monkeypatch):
    done = run(tmp_path / "run")
    monkeypatch.setattr(train_room, "_on_images", None)
    assert torch.equal(numbers(run(tmp_path / "run").model), numbers(done.model))


def test_an_interrupted_run_goes_on_to_the_same_weights(tmp_path, monkeypatch):
    whole = run(tmp_path / "whole", epochs=3)
    before = images_room.train_epochs
    with monkeypatch.context() as patch:
        patch.setattr(images_room, "train_epochs", lambda *a, **k: before(*a, until=1, **k))
        patch.setattr(
            images_room, "judge_images", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "cut", epochs=3)
    with pytest.raises(InputError, match="no finished model"):
        trained(tmp_path / "cut")
    done = run(tmp_path / "cut", epochs=3)
    assert torch.equal(numbers(done.model), numbers(whole.model))
    assert [epoch.loss for epoch in done.epochs] == [epoch.loss for epoch in whole.epochs]


def test_head_size_and_order_are_as_asked_and_values_keep_their_size(tmp_path):
    done = run(tmp_path / "run", m_h=3, altered=True, epochs=1)
    assert isinstance(done.model, ViT)
    sizes, usual = done.model.settings, ViT("cpu").settings
    assert (sizes.m_h, sizes.m_v) == (3, usual.m_h)
    assert sizes.order[:3] == (10, 11, 12)
    assert sizes.order[-10:] == tuple(range(10))
    assert trained(tmp_path / "run").model.settings == sizes


def test_images_are_enlarged_for_a_model_of_larger_ones():
    from attnrate.training.feed import Images

    data = images_room.photographs(COUNT, COUNT)
    feed = Images(data.train_images, data.train_labels, batch=4, augment=False)
    model = ViT("cpu", image=64, patch=8, layers=1)
    assert feed.outcome(model, next(feed.batches(0))).count == 4


@pytest.mark.parametrize(
    ("task", "changes", "said"),
    [
        ("cifar", {}, "task is not known: got 'cifar'"),
        ("cifar10", {"preset": "gpu"}, "preset is not known: got 'gpu'"),
        ("cifar10", {"m_h": 0}, "m_h"),
        ("cifar10", {"epochs": 0}, "epochs"),
        ("cifar10", {"limit": 5}, "limit"),
        ("cifar10", {"seed": -1}, "seed"),
        ("cifar10", {"threads": 0}, "threads"),
        ("cifar10", {"threads": 10**9}, "threads"),
        ("cifar10", {"lr": 1e300}, "lr"),
        ("cifar10", {"device": "abacus"}, "device is not known"),
        ("cifar10", {"device": "cuda:77"}, "CUDA"),
    ],
)
def test_wrong_requests_leave_no_folder(tmp_path, task, changes, said):
    with pytest.raises(InputError, match=said):
        train(task, tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


def test_a_folder_of_another_run_is_not_touched(tmp_path):
    run(tmp_path / "run", epochs=1)
    with pytest.raises(InputError, match="another m_h"):
        run(tmp_path / "run", epochs=1, m_h=4)
    with pytest.raises(InputError, match="another epochs: 1 there"):
        run(tmp_path / "run", epochs=5)
    with pytest.raises(InputError, match="holds a model for 'cifar10'"):
        train("translation", tmp_path / "run")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="was not made by attnrate train"):
        run(tmp_path / "mine")


def test_a_folder_in_which_nothing_was_trained_takes_other_settings(tmp_path, monkeypatch):
    def no_data(train, test):
        raise FetchError("no network", "CIFAR-10")

    with monkeypatch.context() as patch:
        patch.setattr(images_room, "photographs", no_data)
        with pytest.raises(FetchError):
            run(tmp_path / "run", epochs=5)
    assert len(run(tmp_path / "run", epochs=1).epochs) == 1
    assert json.loads((tmp_path / "run" / "attnrate.json").read_text())["asked"]["epochs"] == 1


def test_of_two_processes_that_begin_at_once_none_gets_the_others_model(tmp_path, monkeypatch):
    def overtaken(place, command, told):
        write(place, command, told)
        monkeypatch.setattr(train_room, "write_mark", write)
        run(place, epochs=1, m_h=4)

    write = train_room.write_mark
    monkeypatch.setattr(train_room, "write_mark", overtaken)
    with pytest.raises(InputError, match="another m_h: 4 there"):
        run(tmp_path / "run", epochs=1)
    assert trained(tmp_path / "run").model.settings.m_h == 4


def test_a_folder_in_which_another_process_trains_is_left_to_it(tmp_path, monkeypatch):
    def meanwhile(*args, **kwargs):
        with pytest.raises(StoreError, match="another process"):
            run(tmp_path / "run", epochs=1)
        return real(*args, **kwargs)

    real = images_room.train_on_images
    monkeypatch.setattr(images_room, "train_on_images", meanwhile)
    assert run(tmp_path / "run", epochs=1).epochs
    assert ".lock" not in {path.name for path in (tmp_path / "run").iterdir()}


@pytest.mark.parametrize("asked", [None, 5, [], "a"])
def test_a_mark_that_does_not_say_what_was_asked_for_is_no_mark_of_this_run(tmp_path, asked):
    done = run(tmp_path / "run", epochs=1)
    mark = json.loads((done.folder / "attnrate.json").read_text())
    (done.folder / "attnrate.json").write_text(json.dumps({**mark, "asked": asked}))
    with pytest.raises(InputError, match="another"):
        run(done.folder, epochs=1)


def test_results_that_cannot_be_read_are_said(tmp_path):
    done = run(tmp_path / "run", epochs=1)
    (done.folder / "model.safetensors").write_bytes(b"spoiled")
    with pytest.raises(StoreError, match=r"no whole checkpoint.*train the model again"):
        trained(done.folder)
    for text in ("{}", "[]", "[" * 50_000, "no json"):
        (done.folder / "result.json").write_text(text)
        with pytest.raises(StoreError, match="cannot be read"):
            trained(done.folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"epochs": []},
        {"epochs": 5},
        {"epochs": {"a": 1}},
        {"epochs": [{"seconds": "long"}]},
        {"scores": {}},
        {"scores": {"tests": 5, "test_error": "small"}},
        {"scores": {"tests": None, "test_error": 0.5}},
        {"scores": [1]},
    ],
)
def test_results_with_something_else_in_them_are_said(tmp_path, changes):
    done = run(tmp_path / "run", epochs=1)
    told = json.loads((done.folder / "result.json").read_text())
    if isinstance(changes.get("epochs"), list) and changes["epochs"]:
        changes = {"epochs": [told["epochs"][0] | changes["epochs"][0]]}
    (done.folder / "result.json").write_text(json.dumps(told | changes))
    with pytest.raises(StoreError, match="cannot be read"):
        trained(done.folder)


def test_a_mark_without_a_task_is_said(tmp_path):
    done = run(tmp_path / "run", epochs=1)
    mark = json.loads((done.folder / "attnrate.json").read_text())
    for task in (None, [], "chess"):
        (done.folder / "attnrate.json").write_text(json.dumps({**mark, "task": task}))
        with pytest.raises(StoreError, match="cannot be read"):
            trained(done.folder)


def test_a_trained_model_is_profiled_on_a_folder_of_images(tmp_path):
    from PIL import Image

    from attnrate.spectra.inputs.images import read_images
    from attnrate.spectra.load import load_model
    from attnrate.spectra.profile import profile
    from attnrate.training.feed import normalised

    done = run(tmp_path / "run", m_h=3, epochs=1)
    images = images_room.photographs(COUNT, COUNT).test_images[:6]
    (tmp_path / "photos").mkdir()
    for number, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / "photos" / f"{number}.png")
    loaded = load_model(tmp_path / "run")
    read = read_images(loaded, tmp_path / "photos", batch=4)
    np.testing.assert_allclose(
        torch.cat([batch["images"] for batch in read]), normalised(images), atol=1e-6
    )
    found = profile(loaded.model, read, cut_inputs=0)
    wanted = profile(done.model, [normalised(images)], cut_inputs=0)
    assert len(found.layers) == done.model.settings.layers
    np.testing.assert_allclose(found.sigma(1, 0), wanted.sigma(1, 0), rtol=1e-4)


class Words:
    size = 12

    def __init__(self, file):
        self.file = file

    def decode(self, ids):
        return " ".join("abcdefghijkl"[i] for i in ids)


def test_a_translator_is_trained_and_kept_with_its_vocabulary(tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    rows = [random.integers(3, 12, n).tolist() for n in random.integers(4, 16, 300)]
    words = Words(tmp_path / "words")
    words.file.write_text("{}")
    texts = tuple((words.decode(row), words.decode(row)) for row in rows[:9])
    pairs = tuple((row, row) for row in rows)
    data = Sentences(pairs, pairs[:9], texts, words, False)
    asked = []
    monkeypatch.setattr(sentences_room, "sentences", lambda *given: asked.append(given) or data)
    done = train("translation", tmp_path / "run", limit=150, epochs=1, threads=1)
    assert asked == [("all", 8000, 60, 150)]
    assert done.model.settings.vocabulary == 12
    assert done.scores.signature.startswith("nrefs:1")
    assert len(done.scores.samples) == 8
    assert (done.folder / "vocabulary.json").read_text() == "{}"
    again = trained(done.folder)
    assert again.scores == done.scores
    assert torch.equal(numbers(again.model), numbers(done.model))
    assert np.isnan(again.epochs[0].test_loss)


def test_a_trained_model_is_shown_without_its_weights_and_can_be_copied(tmp_path):
    done = run(tmp_path / "run", m_h=4, epochs=2)
    assert repr(done).startswith("cifar10: ViT with ")
    assert f"test accuracy {100 * (1 - done.scores.test_error):.1f} % on 128 images" in repr(done)
    assert "tensor" not in repr(done)
    assert done.to_frame().number.tolist() == [0, 1]
    assert 'alt="Trained"' in done._repr_html_()
    for again in (copy.deepcopy(done), pickle.loads(pickle.dumps(done))):  # noqa: S301
        assert again.scores == done.scores
        assert torch.equal(numbers(again.model), numbers(done.model))
