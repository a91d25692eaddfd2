"""Fig. 3: made-up models whose law and spectra are known, verdicts at their borders, the jobs."""

from dataclasses import replace

import numpy as np
import pytest
from trained_models import concluded as concluded_from
from trained_models import image_outcome, spectra

from attnrate.experiments import load
from attnrate.experiments.contract import Done, Results
from attnrate.experiments.kits.images import FirstHead, Profiled, image_job, profiled
from attnrate.experiments.paper.fig3 import (
    EXPERIMENT,
    distances,
    explained,
    predictions,
    seeds_apart,
    slopes,
    untrained,
)
from attnrate.models.vit import vit_settings
from attnrate.statistics import mean

SIZES = (1, 2, 4, 8, 16, 32, 64)
SEEDS = (0, 1, 2)


def made(m_h, seed=0, loss=None, sigma=None, noise=0.0, gauged=None):
    """A finished model; by default its loss is 1 m_h^-0.27 + 1.05, and σ_k = 1/k."""
    random = np.random.default_rng([m_h, seed, 1])
    loss = m_h**-0.27 + 1.05 if loss is None else loss
    loss = float(loss + noise * random.standard_normal())
    sigma = 1 / np.arange(1.0, m_h + 1) if sigma is None else np.asarray(sigma)
    head = FirstHead(
        groups=(tuple(sigma.tolist()),) * 8,
        values=tuple((v * 0.9, v, v * 1.1) for v in sigma.tolist()),
        variation=(0.1,) * m_h,
        rank99=(1.0, 2.0, 3.0),
    )
    changes = {} if gauged is None else {"gauged": ((tuple(gauged[:m_h]),),)}
    found = replace(
        image_outcome(0.5),
        train_loss=loss,
        test_loss=loss + 0.1,
        train_error=loss / 4,
        test_error=loss / 4 + 0.05,
        spectra=spectra(head, 3, **changes),
    )
    return Done(image_job("paper", m_h, seed, profiled=True).job, found)


def models(*done) -> list[Profiled]:
    return profiled(Results(done))


def sweep(**changes):
    return [made(m_h, seed, **changes) for seed in SEEDS for m_h in SIZES]


def concluded(done, *missing, name="fig3"):
    return concluded_from(name, [*done], *missing)


def verdicts(results):
    return {claim.name: claim.verdict for claim in concluded(results).claims}


def test_what_the_paper_says_is_found_where_it_is_so():
    # the excess of m_h^-0.27 over that of 64 is what this spectrum has beyond m_h
    energy = np.arange(1.0, 65) ** -0.27
    sigma = np.sqrt(np.append(energy[:-1] - energy[1:], 1e-4)).tolist()
    assert verdicts(sweep(gauged=sigma, noise=0.003)) == {
        "fig3-spectra-converge": "holds",
        "fig3-error-falls": "holds",
        "fig3-exponent": "holds",
        "fig3-tail-predicts": "holds",
    }


def test_another_exponent_does_not_hold():
    steep = [made(m, s, loss=m**-1.5 + 1, noise=0.003) for s in SEEDS for m in SIZES]
    claim = next(c for c in concluded(steep).claims if c.name == "fig3-exponent")
    assert claim.verdict == "does not hold"
    assert claim.low < 1.5 < claim.high


def test_an_exponent_that_the_data_do_not_bound_is_open():
    assert verdicts(sweep(noise=0.3))["fig3-exponent"] == "open"
    flat = [made(m, s, loss=2.0, noise=0.01) for s in SEEDS for m in SIZES]
    found = verdicts(flat)
    assert found["fig3-exponent"] == "open"
    assert found["fig3-error-falls"] == "open"


def test_errors_that_rise_do_not_hold():
    rising = [made(m, s, loss=1.0 + 0.1 * np.log(m), noise=0.001) for s in SEEDS for m in SIZES]
    found = verdicts(rising)
    assert found["fig3-error-falls"] == "does not hold"
    assert found["fig3-tail-predicts"] == "does not hold"
    assert found["fig3-exponent"] == "does not hold"


def test_another_decay_than_that_of_the_errors_foretells_nothing():
    # an energy that falls like 1/m² and a loss that falls like m^-0.27: not together
    steep = (np.arange(1.0, 65) ** -1.5).tolist()
    assert verdicts(sweep(gauged=steep, noise=0.003))["fig3-tail-predicts"] == "does not hold"


def test_spectra_that_nobody_has_trained_do_not_converge():
    # logits of random weights: the larger head has the smaller variance, and all directions
    def spectrum(m_h, seed):
        random = np.random.default_rng([m_h, seed])
        scale = (6 / (64 + 2 * m_h)) ** 0.5
        q, k = random.uniform(-scale, scale, (2, 64, m_h))
        return np.linalg.svd(q @ k.T / m_h**0.5, compute_uv=False)[:m_h]

    raw = [made(m, s, sigma=spectrum(m, s)) for s in SEEDS for m in SIZES]
    claim = next(c for c in concluded(raw).claims if c.name == "fig3-spectra-converge")
    assert claim.high < 0  # though the distances do fall
    assert claim.verdict == "does not hold"


@pytest.mark.parametrize("decay", [0.0, 0.05])
def test_a_spectrum_that_does_not_decay_predicts_nothing(decay):
    # the loss falls, and the energy beyond m_h too, as it does in any spectrum
    flat = [made(m, s, sigma=np.arange(1.0, m + 1) ** -decay) for s in SEEDS for m in SIZES]
    found = verdicts(flat)
    assert found["fig3-error-falls"] == "holds"
    assert found["fig3-tail-predicts"] != "holds"


def test_spectra_that_stop_coming_closer_do_not_converge():
    # each model's spectrum is the one before, moved by so much
    moves = np.array([1.0, 0.8, 0.5, 0.3, 0.3, 0.3, 0.3])
    sums = dict(zip(SIZES, np.cumsum(moves), strict=True))
    stuck = [made(m, s, sigma=[sums[m] + 0.01 * s] + [0.0] * (m - 1)) for s in SEEDS for m in SIZES]
    assert verdicts(stuck)["fig3-spectra-converge"] != "holds"


def test_spectra_that_keep_growing_do_not_converge():
    growing = [made(m, s, sigma=[float(m)] * m) for s in SEEDS for m in SIZES]
    assert verdicts(growing)["fig3-spectra-converge"] == "does not hold"


def test_distances_are_those_of_spectra_that_go_on_with_zeros():
    found = distances(models(made(1, sigma=[3.0]), made(2, sigma=[3.0, 4.0])))
    assert found == {0: {2: pytest.approx([4 / 5] * 8)}}
    pair = models(made(2, 0, sigma=[3.0, 4.0]), made(2, 1, sigma=[3.0, 4.0]))
    assert seeds_apart(pair) == [0.0]


def test_the_tail_beyond_a_head_size_is_a_share_of_the_largest_models_spectrum():
    seeds = [(0, 1.5, [3.0, 4.0]), (1, 1.7, [4.0, 3.0])]
    smaller = [made(1, seed, loss=loss) for seed, loss, _ in seeds]
    larger = [made(2, seed, loss=1.0, sigma=sigma) for seed, _, sigma in seeds]
    found = predictions(models(*smaller, *larger))
    assert found == {
        0: {1: pytest.approx((16 / 25, 0.5))},
        1: {1: pytest.approx((9 / 25, 0.7))},
    }


def test_what_is_explained_is_explained_by_the_others():
    energy = [0.5, 0.25, 0.125, 0.0625]
    assert explained([(e, 3 * e) for e in energy]) == pytest.approx(1.0)
    assert explained([(e, -3 * e) for e in energy]) == pytest.approx(1.0)
    # by hand: of 1, 2, 1 with 1, 4, 2 the factors of the other two are 10/5, 3/2, 9/5
    pairs = [(1.0, 1.0), (2.0, 4.0)]
    assert np.isnan(explained(pairs))
    three = [*pairs, (1.0, 2.0)]
    wrong = (1 - 10 / 5) ** 2 + (4 - 2 * 3 / 2) ** 2 + (2 - 9 / 5) ** 2
    guessed = (1 - 3) ** 2 + (4 - 1.5) ** 2 + (2 - 2.5) ** 2
    assert explained(three) == pytest.approx(1 - wrong / guessed)
    assert np.isnan(explained([(1.0, 1.0)] * 3))
    assert explained([(0.0, 1.0), (0.0, 2.0), (0.0, 4.0)]) < 0


def test_before_training_spectra_have_distances_too():
    # ones, as many as the head size: sqrt(2) are added from 2 to 4, and the largest is 2 long
    found = distances(models(*(made(m, s) for s in (0, 1) for m in (1, 2, 4))), untrained)
    assert found == {s: {2: pytest.approx([0.5]), 4: pytest.approx([2**0.5 / 2])} for s in (0, 1)}
    assert distances(models(made(4)), untrained) == {}


def test_a_slope_is_one_a_seed():
    found = {0: {2: [0.5], 4: [0.25], 8: [0.125]}, 1: {2: [0.5, 0.3], 4: [0.1], 8: [0.025]}}
    wanted = mean([-1.0, -2.0])
    assert slopes(found).limits == pytest.approx(wanted.limits)
    assert slopes({0: {2: [1.0], 4: [1.0], 8: [0.5]}}, larger_half=True).value == pytest.approx(
        -1.0
    )
    assert slopes({0: {2: [1.0]}}).count == 0


def test_an_open_verdict_says_whether_models_or_precision_are_lacking():
    def evidence(results):
        return {c.name: c.evidence for c in concluded(results).claims if c.verdict == "open"}

    assert all("too few" in said for said in evidence(sweep()[:3]).values())
    noisy = evidence(sweep(noise=0.3))
    assert {"fig3-exponent", "fig3-tail-predicts"} <= noisy.keys()
    assert all("too wide" in said for said in noisy.values())


def test_any_part_of_the_models_can_be_concluded():
    whole = sweep()
    for part in ([], whole[:1], whole[:2], whole[3:9], whole[6:8], [made(1), made(4), made(16)]):
        assert {c.verdict for c in concluded(part).claims} == {"open"}
    largest = [made(64, seed) for seed in range(3)]
    assert {c.verdict for c in concluded(largest).claims} == {"open"}
    pairs = [made(m_h, seed) for m_h in (32, 64) for seed in range(3)]
    assert "holds" not in verdicts(pairs).values()


@pytest.mark.parametrize("name", ["fig2", "fig3"])
def test_no_data_are_told_and_nothing_fails(name):
    said = concluded([], "npm is not here", name=name)
    assert said.paragraphs == ("The images could not be had: npm is not here",)
    assert {claim.verdict for claim in said.claims} == {"not testable here"}
    assert all("npm is not here" in claim.correction for claim in said.claims)
    # the models that are there count, when others lack their data
    (largest,) = [one.job for one in load(name).plan("quick") if one.job.m_h == 16]
    there = [Done(largest, made(16).outcome)]
    assert concluded(there, "npm is not here", name=name).figures


def test_the_jobs_are_the_grid_and_models_can_be_built():
    for preset, sizes, seeds in (("quick", (1, 4, 16), 1), ("paper", SIZES, 3)):
        jobs = [one.job for one in EXPERIMENT.plan(preset)]
        assert len({job.key for job in jobs}) == len(jobs)
        grid = {(job.m_h, job.seed) for job in jobs}
        assert {(m, s) for m in sizes for s in range(seeds)} <= grid
        for job in jobs:
            assert vit_settings(job.image.model).m_h == job.m_h
            assert job.image.profiled > 0
