"""What tests of jobs on real data share: a cache of their own, and a look at what is trained."""

import numpy as np
import pytest
import torch

from attnrate.training import images, sentences


@pytest.fixture
def own_cache(monkeypatch, tmp_path):
    """An empty cache, and one thread, as a worker has."""
    monkeypatch.setenv("ATTNRATE_CACHE", str(tmp_path))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield tmp_path
    torch.set_num_threads(before)


@pytest.fixture
def seen(monkeypatch):
    """What was trained, with the weights before and after, and what was judged, with weights."""
    found = {"trained": [], "judged": []}
    train, judge = images.train_epochs, images.evaluate

    def weights_of(model):
        return {name: value.clone() for name, value in model.state_dict().items()}

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


@pytest.fixture
def data() -> images.Photographs:
    """Images of two kinds that differ in brightness."""
    random = np.random.default_rng(0)
    labels = np.arange(48) % 2
    made = random.integers(0, 100, (48, 32, 32, 3)) + 150 * labels[:, None, None, None]
    made = made.astype(np.uint8)
    return images.Photographs(made[:32], labels[:32], made[32:], labels[32:])
