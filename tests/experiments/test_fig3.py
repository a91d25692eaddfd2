"""Fig. 3: made-up models whose law and spectra are known, verdicts at their borders, the tasks."""

import json

import numpy as np
import pytest

from attnrate.experiments import load
from attnrate.experiments.experiment import Result
from attnrate.experiments.fig3_read import (
    correlation,
    distances,
    predictions,
    seeds_apart,
    untrained_distances,
)
from attnrate.experiments.record import Record, record_from_plain, record_to_plain
from attnrate.models.vit import vit_settings

SIZES = (1, 2, 4, 8, 16, 32, 64)


def made(m_h, seed=0, loss=None, sigma=None, noise=0.0):
    """A result as image_work gives it; by default 1 m_h^-0.27 + 1.05 and σ_k = 1/k."""
    random = np.random.default_rng([m_h, seed, 1])
    loss = m_h**-0.27 + 1.05 if loss is None else loss
    loss += noise * random.standard_normal()
    sigma = 1 / np.arange(1.0, m_h + 1) if sigma is None else np.asarray(sigma)
    head = {
        "groups": [sigma.tolist()] * 8,
        "values": [[v * 0.9, v, v * 1.1] for v in sigma],
        "variation": [0.1] * m_h,
        "rank99": [1.0, 2.0, 3.0],
    }
    heads = [[sigma.tolist()] * 2] * 3
    ranks = [[2.0, 2.0]] * 3
    values = {
        "train_loss": loss,
        "test_loss": loss + 0.1,
        "train_error": loss / 4,
        "test_error": loss / 4 + 0.05,
        "images": 100,
        "epochs": [{}],
        "spectra": {
            "first": head,
            "last": head,
            "all": [[head["values"]] * 2] * 3,
            "mean": heads,
            "gauged": heads,
            "rank99": ranks,
            "rank99_gauged": ranks,
            "untrained_rank99": ranks,
            "untrained_last": [1.0] * m_h,
        },
    }
    return Result({"m_h": m_h, "seed": seed}, values)


def sweep(**changes):
    return [made(m_h, seed, **changes) for seed in (0, 1) for m_h in SIZES]


def concluded(results, name="fig3"):
    said = load(name).conclude(results)
    record = Record(name, "", "", "paper", 1, 1, 0.0, {}, said)
    plain = json.loads(json.dumps(record_to_plain(record), allow_nan=False))
    assert record_to_plain(record_from_plain(plain)) == plain
    words = " ".join(
        [*said.paragraphs, *(c.evidence for c in said.claims), *(f.caption for f in said.figures)]
    )
    assert "nan" not in words
    return said


def verdicts(results):
    return {claim.name: claim.verdict for claim in concluded(results).claims}


def test_what_the_paper_says_is_found_where_it_is_so():
    assert verdicts(sweep(noise=0.003)) == {
        "fig3-spectra-converge": "holds",
        "fig3-error-falls": "holds",
        "fig3-exponent": "holds",
        "fig3-tail-predicts": "holds",
    }


def test_another_exponent_does_not_hold():
    steep = [made(m, s, loss=m**-1.5 + 1, noise=0.003) for s in (0, 1) for m in SIZES]
    claim = next(c for c in concluded(steep).claims if c.name == "fig3-exponent")
    assert claim.verdict == "does not hold"
    assert claim.low < 1.5 < claim.high


def test_an_exponent_that_the_data_do_not_bound_is_open():
    assert verdicts(sweep(noise=0.3))["fig3-exponent"] == "open"
    flat = [made(m, s, loss=2.0, noise=0.01) for s in (0, 1) for m in SIZES]
    found = verdicts(flat)
    assert found["fig3-exponent"] == "open"
    assert found["fig3-error-falls"] == "open"


def test_errors_that_rise_do_not_hold():
    rising = [made(m, s, loss=1.0 + 0.1 * np.log(m), noise=0.001) for s in (0, 1) for m in SIZES]
    found = verdicts(rising)
    assert found["fig3-error-falls"] == "does not hold"
    assert found["fig3-tail-predicts"] == "does not hold"
    assert found["fig3-exponent"] == "does not hold"


@pytest.mark.parametrize("decay", [0.0, 0.05])
def test_a_spectrum_that_does_not_decay_predicts_nothing(decay):
    # the loss falls, and the energy beyond m_h too, as it does in any spectrum
    flat = [made(m, s, sigma=np.arange(1.0, m + 1) ** -decay) for s in (0, 1) for m in SIZES]
    found = verdicts(flat)
    assert found["fig3-error-falls"] == "holds"
    assert found["fig3-tail-predicts"] != "holds"


def test_spectra_that_stop_coming_closer_do_not_converge():
    # each model's spectrum is the one before, moved by so much
    moves = np.array([1.0, 0.8, 0.5, 0.3, 0.3, 0.3, 0.3])
    sums = dict(zip(SIZES, np.cumsum(moves), strict=True))
    stuck = [
        made(m, s, sigma=[sums[m] + 0.01 * s] + [0.0] * (m - 1)) for s in (0, 1) for m in SIZES
    ]
    assert verdicts(stuck)["fig3-spectra-converge"] != "holds"


def test_spectra_that_keep_growing_do_not_converge():
    growing = [made(m, s, sigma=[float(m)] * m) for s in (0, 1) for m in SIZES]
    assert verdicts(growing)["fig3-spectra-converge"] == "does not hold"


def test_distances_are_those_of_spectra_that_go_on_with_zeros():
    found = distances([made(1, sigma=[3.0]), made(2, sigma=[3.0, 4.0])])
    assert found == {0: {2: pytest.approx([4 / 5] * 8)}}
    pair = [made(2, 0, sigma=[3.0, 4.0]), made(2, 1, sigma=[3.0, 4.0])]
    assert seeds_apart(pair) == [0.0]


def test_the_tail_beyond_a_head_size_is_a_share_of_the_largest_models_spectrum():
    rows = predictions([made(1, loss=1.5), made(2, loss=1.0, sigma=[3.0, 4.0])])
    assert rows == [(1, pytest.approx(16 / 25), pytest.approx(0.5))]


def test_seeds_are_no_points_of_their_own_for_a_prediction():
    seeds = [(0, 1.5, [3.0, 4.0]), (1, 1.7, [4.0, 3.0])]
    rows = predictions(
        [made(1, seed, loss=loss) for seed, loss, _ in seeds]
        + [made(2, seed, loss=1.0, sigma=sigma) for seed, _, sigma in seeds]
    )
    assert rows == [(1, pytest.approx((16 + 9) / 50), pytest.approx(0.6))]


def test_before_training_spectra_have_distances_too():
    # ones, as many as the head size: sqrt(2) are added from 2 to 4, and the largest is 2 long
    found = untrained_distances([made(m, s) for s in (0, 1) for m in (1, 2, 4)])
    assert found == {2: pytest.approx([0.5] * 2), 4: pytest.approx([2**0.5 / 2] * 2)}
    assert untrained_distances([made(4)]) == {}


def test_an_open_verdict_says_whether_models_or_precision_are_lacking():
    def evidence(results):
        return {c.name: c.evidence for c in concluded(results).claims if c.verdict == "open"}

    assert all("too few" in said for said in evidence(sweep()[:3]).values())
    noisy = evidence(sweep(noise=0.3))
    assert {"fig3-exponent", "fig3-tail-predicts"} <= noisy.keys()
    assert all("too wide" in said for said in noisy.values())


def test_correlation_has_fishers_interval():
    x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert correlation(x, [3 * v + 1 for v in x]).value == pytest.approx(1.0)
    assert correlation(x, [-v for v in x]).value == pytest.approx(-1.0)
    assert np.isnan(correlation(x, [1.0] * 6).low)
    found = correlation(x, [1.0, 3.0, 2.0, 5.0, 4.0, 6.0])
    assert np.arctanh([found.low, found.high]) == pytest.approx(
        np.arctanh(found.value) + np.array([-1.96, 1.96]) / np.sqrt(3)
    )


def test_any_part_of_the_models_can_be_concluded():
    whole = sweep()
    for part in ([], whole[:1], whole[:2], whole[3:9], whole[6:8], [made(1), made(4), made(16)]):
        assert {c.verdict for c in concluded(part).claims} == {"open"}
    largest = [made(64, seed) for seed in range(3)]
    assert {c.verdict for c in concluded(largest).claims} == {"open"}
    pairs = [made(m_h, seed) for m_h in (32, 64) for seed in range(3)]
    assert "holds" not in verdicts(pairs).values()


def test_no_data_are_told_and_nothing_fails():
    gone = [Result({"m_h": 1, "seed": 0}, {"missing": "npm is not here"})]
    for name in ("fig2", "fig3"):
        said = concluded(gone, name)
        assert {claim.verdict for claim in said.claims} == {"not testable here"}
        assert all("npm is not here" in claim.correction for claim in said.claims)
        # the models that are there count, when others lack their data
        assert concluded([*gone, made(64)], name).figures


def test_the_tasks_are_the_grid_and_models_can_be_built():
    for preset, sizes, seeds in (("quick", (1, 4, 16), 1), ("paper", SIZES, 3)):
        tasks = load("fig3").tasks(preset)
        assert len({task.trial.key for task in tasks}) == len(tasks)
        grid = {(task.label["m_h"], task.label["seed"]) for task in tasks}
        assert {(m, s) for m in sizes for s in range(seeds)} <= grid
        for task in tasks:
            asked = task.trial.target["image"]
            assert vit_settings(**asked["model"]).m_h == task.label["m_h"]
            assert asked["profiled"] > 0
            assert task.trial.seed == task.label["seed"]
