"""Models of `train` as the command cuts them, on made-up data: their inputs and their scores."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import attnrate as ar
from attnrate.cli.compressing import compress
from attnrate.compress import saved
from attnrate.compress.trained import Run, run_of
from attnrate.data.registry import FetchError
from attnrate.models.seq2seq import Seq2Seq
from attnrate.models.vit import ViT
from attnrate.targets.alter import move_to_end
from attnrate.training import images as images_room
from attnrate.training import sentences as sentences_room
from attnrate.training.images import Photographs
from attnrate.training.sentences import Sentences
from attnrate.training.train import train

COUNT = 128
Said = pytest.CaptureFixture[str]


class Words:
    """Words of a letter each."""

    size = 12

    def __init__(self, file: Path) -> None:
        self.file = file
        file.write_text("abcdefghijkl")

    def decode(self, ids: list[int]) -> str:
        return " ".join("abcdefghijkl"[number] for number in ids)


def photographs(train: int = 200, test: int = COUNT) -> Photographs:
    """Images whose brightness is their class, fewer than were asked for."""
    random = np.random.default_rng(0)
    labels = np.arange(min(train, 200) + test) % 10
    drawn = random.integers(0, 50, (len(labels), 32, 32, 3)) + 20 * labels[:, None, None, None]
    made = drawn.astype(np.uint8)
    return Photographs(made[test:], labels[test:], made[:test], labels[:test])


@pytest.fixture(autouse=True)
def _made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images_room, "photographs", photographs)
    # files are opened in a fresh process by tests/compress/test_saved.py
    monkeypatch.setattr(saved, "difference", lambda *_: 0.0)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ViT that has learned the altered order."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(images_room, "photographs", photographs)
        folder = tmp_path_factory.mktemp("runs") / "vit"
        asked: dict[str, Any] = {"m_h": 8, "lr": 0.002, "epochs": 4, "threads": 1}
        train("cifar10", folder, limit=COUNT, altered=True, progress=False, **asked)
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "vit"))


def run(folder: Path) -> Run:
    found = run_of(folder)
    assert found is not None
    return found


def test_the_score_before_is_that_of_the_training_on_the_altered_order(folder: Path) -> None:
    known, loaded = ar.trained(folder), ar.load_model(folder)
    data = run(folder).data(loaded.model, 20, 8)
    done = ar.compress(loaded, data.inputs, size=4, repair=2, timing=0, metric=data.score)
    (score,) = done.measured.quality
    assert (score.measure, score.tests) == ("accuracy", COUNT)
    assert score.before == pytest.approx(1 - known.scores.test_error, abs=1e-5)
    # the order is the model's own
    assert isinstance(done.model, ViT)
    assert done.model.settings.order == tuple(move_to_end(64))
    with_own = ar.judge_images(done.model, photographs()).test_error
    assert score.after == pytest.approx(1 - with_own)
    assert f"\nAccuracy on 128 test inputs: {100 * score.before:.1f} % before, " in str(done)


def test_inputs_are_spread_evenly_over_the_training_images(folder: Path) -> None:
    model = ar.trained(folder).model
    batches = [*run(folder).data(model, 50, 16).inputs]
    assert [len(batch["images"]) for batch in batches] == [16, 16, 16, 2]
    wanted = ar.normalised(photographs().train_images[::4])
    assert torch.equal(torch.cat([batch["images"] for batch in batches]), wanted)
    assert run(folder).data(model, 1000, 16).inputs.inputs == 200
    larger = ViT("cpu", image=64, patch=8, layers=1)
    assert next(iter(run(folder).data(larger, 3, 2).inputs))["images"].shape == (2, 3, 64, 64)


def test_a_translator_is_judged_by_bleu_and_cut_by_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(0)
    rows = [random.integers(3, 6, n).tolist() for n in random.integers(4, 13, 300)]
    words = Words(tmp_path / "words")
    texts = tuple((words.decode(row), words.decode(row)) for row in rows[:20])
    pairs = tuple((row, row) for row in rows)
    data = Sentences(pairs, pairs[:20], texts, words, False)
    asked = []

    def sentences(packages: str, tokens: int, longest: int = 60, tests: int = 0) -> Sentences:
        asked.append((packages, longest, tests))
        return data

    monkeypatch.setattr(sentences_room, "sentences", sentences)
    folder = tmp_path / "run"
    known = train("translation", folder, m_h=8, limit=200, epochs=4, threads=1, progress=False)
    loaded = ar.load_model(folder)
    found = run(folder).data(loaded.model, 30, 8)
    assert asked == [("all", 60, 200), ("all", 60, 20)]
    batches = [*found.inputs]
    assert sum(len(batch["source"]) for batch in batches) == 30
    for batch in batches:
        for source, target in zip(batch["source"], batch["target"], strict=True):
            english = source[source != 0].tolist()
            assert english[-1] == 2
            assert [1, *english[:-1]] == target[target != 0].tolist()
    done = ar.compress(loaded, found.inputs, size=4, timing=0, metric=found.score)
    (score,) = done.measured.quality
    assert (score.measure, score.tests) == ("bleu", 20)
    assert score.before == pytest.approx(known.scores.bleu, abs=1e-3)
    assert score.before > 0
    assert isinstance(done.model, Seq2Seq)
    assert score.after == ar.score_translations(done.model, data).bleu
    # the words are of use with the smaller model, too
    kept = done.save(tmp_path / "thin") / "vocabulary.json"
    assert kept.read_text() == "abcdefghijkl"
    (folder / "vocabulary.json").write_text("others")
    with pytest.raises(ar.InputError, match=r"has other words than .*Another version of Debian"):
        run(folder).data(loaded.model)


def spoil(folder: Path, text: str | None) -> None:
    path = folder / "result.json"
    path.unlink() if text is None else path.write_text(text)


BROKEN = [
    (None, r"has no result\.json.*Run the same attnrate train again"),
    ("{", r"result\.json does not say how the model is judged"),
    ('{"task": "speech", "scores": {"tests": 9}}', "the task 'speech' is not known"),
    ('{"task": "cifar10", "scores": {"tests": true}}', "it says that there were True tests"),
    ('{"task": "cifar10", "scores": []}', "does not say how the model is judged"),
]


@pytest.mark.parametrize(("text", "said"), BROKEN)
def test_a_result_that_is_missing_or_broken_is_said(
    folder: Path, text: str | None, said: str
) -> None:
    spoil(folder, text)
    with pytest.raises(ar.InputError, match=said):
        run_of(folder)


def test_a_result_of_another_task_is_said(folder: Path) -> None:
    spoil(folder, '{"task": "translation", "scores": {"tests": 9}}')
    with pytest.raises(ar.InputError, match=r"of a Seq2Seq for translation, and .* is a 'ViT'"):
        run(folder).data(ar.load_model(folder).model)


def test_a_run_that_is_not_finished_is_one_and_other_folders_are_none(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "result.json").unlink()
    with pytest.raises(ar.InputError, match="Run the same attnrate train again"):
        run_of(folder)
    (tmp_path / "empty").mkdir()
    assert run_of(tmp_path / "empty") is None
    assert run_of(tmp_path / "absent") is None


def command(said: Said, folder: Path, out: Path, **words: Any) -> tuple[dict[str, Any], str]:
    """What the command answers in JSON, and what it writes on stderr."""
    compress(str(folder), out, **{"size": 4, "timing": 0.0, "as_json": True, **words})
    answer, beside = said.readouterr()
    return json.loads(answer), beside


def test_the_command_needs_no_inputs_for_a_folder_of_train(
    folder: Path, tmp_path: Path, capsys: Said
) -> None:
    found, err = command(capsys, folder, tmp_path / "thin", limit=30)
    assert err == ""
    assert [row["measure"] for row in found["quality"]] == ["accuracy"]
    assert found["report"][0]["accuracy_before"] == found["quality"][0]["before"]
    assert "on 6 inputs held out" in found["summary"]
    assert isinstance(ar.load_model(tmp_path / "thin").model, ViT)


def test_with_inputs_the_score_is_measured_all_the_same_where_it_can_be(
    folder: Path,
    tmp_path: Path,
    capsys: Said,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arrays = tmp_path / "images.npz"
    np.savez(arrays, images=ar.normalised(photographs().train_images[:10]).numpy())
    found, err = command(capsys, folder, tmp_path / "one", inputs=arrays)
    assert [row["measure"] for row in found["quality"]] == ["accuracy"]
    assert err == ""

    def no_network(test: int) -> Photographs:
        raise FetchError("no network", "CIFAR-10")

    monkeypatch.setattr(images_room, "photographs", no_network)
    found, err = command(capsys, folder, tmp_path / "two", inputs=arrays)
    assert found["quality"] == []
    assert err.startswith("attnrate: there will be no accuracy and no BLEU: no network")
