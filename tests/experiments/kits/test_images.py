"""Training on made-up images as a job: values, resuming, both orders."""

import numpy as np
import pytest
from trained_models import kept, same, without_times

from attnrate.errors import InputError
from attnrate.experiments.contract import to_plain
from attnrate.experiments.kits.images import ImageSettings, train_vit
from attnrate.experiments.kits.real import steps_of
from attnrate.models.vit import ViTSettings
from attnrate.targets.alter import MOVED
from attnrate.training import images

pytestmark = pytest.mark.usefixtures("own_cache")
TINY = {"patch": 8, "width": 8, "layers": 2, "heads": 2, "m_h": 3, "m_v": 4, "m_ff": 8}


def asked(kind="attention", width=8, **changes):
    model = ViTSettings(**{**TINY, "width": width})
    given = {"epochs": 3, "batch": 8, **changes}
    return ImageSettings(kind=kind, model=model, recipe=steps_of(kind), **given)


def test_a_vit_is_trained_judged_profiled_and_fine_tuned(data, tmp_path):
    found = kept(train_vit(data, asked(profiled=16, tuned=1), 0, tmp_path))
    assert len(found.epochs) == 3
    assert found.train_loss < np.log(10)
    assert np.shape(found.spectra.mean) == (2, 2, 3)
    assert np.shape(found.spectra.rank99_gauged) == (2, 2)
    last = np.array(found.spectra.last.groups)
    assert last.shape == (8, 3)
    assert (np.diff(last, axis=1) <= 0).all()
    assert last.mean(0) == pytest.approx(found.spectra.mean[1][0], rel=1e-4)
    assert np.shape(found.spectra.first.values) == (3, 21)
    assert 0 <= found.untuned.test_error <= 1
    assert len(found.tuned.epochs) == len(found.continued.epochs) == 1


@pytest.mark.parametrize("kind", ["gru", "state-space"])
def test_rivals_are_trained_the_same_way(data, tmp_path, kind):
    found = train_vit(data, asked(kind, width=16, epochs=1, tuned=1), 0, tmp_path)
    assert 0 <= found.tuned.test_error <= 1
    assert found.spectra is None


def test_a_job_that_was_stopped_goes_on_and_comes_to_the_same(data, tmp_path, monkeypatch):
    settings = asked(epochs=2, tuned=2)
    whole = train_vit(data, settings, 1, tmp_path / "whole")
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
        train_vit(data, settings, 1, tmp_path / "parts")
    assert (tmp_path / "parts" / "tuned" / "epoch-00001.safetensors").exists()
    monkeypatch.setattr(images, "train_epochs", real)
    again = train_vit(data, settings, 1, tmp_path / "parts")
    assert without_times(to_plain(again)) == without_times(to_plain(whole))


@pytest.mark.parametrize("kind", ["attention", "gru"])
def test_the_altered_order_is_there_wherever_it_is_asked_for(data, tmp_path, seen, kind):
    patches = 16
    order = (*range(MOVED, patches), *range(MOVED))
    train_vit(data, asked(kind, width=16, epochs=1, tuned=1), 0, tmp_path / "a")
    first, continued, tuned = seen["trained"]
    assert [settings.order for settings, *_ in seen["trained"]] == [None, None, order]
    # both go on from what the first has learned
    assert same(continued[1], first[2])
    assert same(tuned[1], first[2])
    assert not same(tuned[1], tuned[2])
    # the altered order is judged with those very weights, too
    untuned = [weights for settings, weights in seen["judged"] if settings.order == order]
    assert same(untuned[0], first[2])
    train_vit(data, asked(kind, width=16, epochs=1, altered=True), 0, tmp_path / "b")
    assert seen["trained"][-1][0].order == order


def test_the_original_order_goes_on_as_long_as_the_altered_is_tuned(data, tmp_path):
    found = train_vit(data, asked(epochs=2, tuned=2), 0, tmp_path)
    assert found.continued.epochs[-1].loss < found.epochs[-1].loss


def test_a_path_is_taken_for_the_checkpoints(data, tmp_path):
    train_vit(data, asked(epochs=1), 0, tmp_path)
    assert (tmp_path / "first" / "epoch-00001.safetensors").is_file()


def test_settings_that_are_none_are_refused():
    with pytest.raises(TypeError, match="epoch"):
        asked(epoch=3)
    with pytest.raises(InputError, match="heads"):
        ViTSettings(heads=0)
