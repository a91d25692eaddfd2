"""Models of images with a stem: as large as the plain ones, trained alike, and runs."""

from dataclasses import replace

import pytest
import torch

from attnrate.experiments.contract import Missing
from attnrate.experiments.kits import stems
from attnrate.experiments.kits.images import largest_jobs
from attnrate.experiments.kits.stems import FEATURES, as_large, stem_jobs
from attnrate.models.stem import StemViT
from attnrate.models.vit import ViT


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_both_models_are_trained_alike_and_are_as_large(preset):
    plain, stem = (jobs(preset)[0].job for jobs in (largest_jobs, stem_jobs))
    first = plain.image
    assert (stem.epochs, stem.batch, stem.recipe) == (first.epochs, first.batch, first.recipe)
    assert (stem.train, stem.test, stem.model) == (plain.train, plain.test, first.model)
    assert [one.job.seed for one in stem_jobs(preset)] == [
        one.job.seed for one in largest_jobs(preset)
    ]
    sizes = as_large(stem.model, FEATURES)
    assert replace(sizes, m_ff=first.model.m_ff) == first.model
    # a unit of m_ff has 2 width + 1 numbers in each layer
    apart = StemViT(sizes, FEATURES).parameter_count() - ViT(first.model).parameter_count()
    assert abs(apart) <= (2 * sizes.width + 1) * sizes.layers / 2


@pytest.mark.usefixtures("own_cache")
def test_a_job_trains_one_model_with_a_stem_and_judges_it(data, seen, monkeypatch):
    monkeypatch.setattr(stems.images, "photographs", lambda train, test: data)
    job = stem_jobs("quick")[0].job
    small = replace(job, train=32, test=16, epochs=1, batch=8, judged=4)
    found = small.run()
    ((_, before, after),) = seen["trained"]
    assert not torch.equal(before["patches.layers.0.weight"], after["patches.layers.0.weight"])
    # judged are the trained weights
    assert torch.equal(seen["judged"][-1][1]["classify.weight"], after["classify.weight"])
    assert len(found.epochs) == 1
    assert found.tests == 16
    assert found.parameters == StemViT(as_large(job.model, FEATURES), FEATURES).parameter_count()


@pytest.mark.usefixtures("own_cache")
def test_images_that_cannot_be_had_are_missing(monkeypatch):
    def refuse(train, test):
        raise stems.real.FetchError("no network", "cifar10")

    monkeypatch.setattr(stems.images, "photographs", refuse)
    with pytest.raises(Missing, match="no network"):
        stem_jobs("quick")[0].job.run()
