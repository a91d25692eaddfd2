"""How often intervals of laws hold the truth, what is refused, and what few values can tell.

A small version of `benchmarks/certify.py decay`. The limits are meant so: the coverage of 95 %
intervals is to lie between 0.92 and 0.98. A test draws few spectra, so it fails when its count has
a probability below 1 % for every coverage within these limits; the seeds are the cells' names.
"""

from collections.abc import Callable

import decay_simulations as simulations
import numpy as np
import pytest
from decay_simulations import Cell

from attnrate.theory.decay import fit_decay
from attnrate.theory.decay_curves import Curve, bic, correlation_time
from attnrate.theory.domain import Samples
from attnrate.theory.pod import pod
from attnrate.words import Gauge

NOISE_30 = [
    Cell("noise", "power", 0.5, 100, 0.3),
    Cell("noise", "power", 1.0, 30, 0.3),
    Cell("noise", "power", 2.0, 30, 0.3, -0.5),
    Cell("noise", "exponential", 0.1, 30, 0.3),
]
NOISE_2 = [
    Cell("noise", "power", 1.0, 30, 0.02),
    Cell("noise", "power", 0.5, 100, 0.02),
    Cell("noise", "power", 1.0, 30, 0.02, 1.0),
    Cell("noise", "exponential", 0.3, 30, 0.02),
]
CORRELATED_30 = [
    Cell("correlated", "power", 0.5, 30, 0.1, correlation=0.8),
    Cell("correlated", "power", 2.0, 30, 0.1, correlation=0.8),
    Cell("correlated", "exponential", 0.1, 30, 0.1, correlation=0.8),
]
CORRELATED = [
    Cell("correlated", "power", 1.0, 100, 0.1, correlation=0.8),
    Cell("correlated", "exponential", 0.3, 100, 0.1, correlation=0.8),
]
FLOORS = [
    Cell("floor", "power", 1.0, 100, 0.02, floor=1e-3, joined="sum"),
    Cell("floor", "power", 1.0, 300, 0.02, floor=1e-3, joined="root of squares"),
    Cell("floor", "exponential", 0.3, 100, 0.02, floor=1e-3, joined="sum"),
    Cell("floor", "exponential", 0.1, 100, 0.02, floor=1e-3, joined="root of squares"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cells", "count", "recognised"),
    [
        (NOISE_30, 15, 0.65),
        (NOISE_2, 8, 0.9),
        (CORRELATED_30, 15, 0.8),
        (CORRELATED, 12, 0.9),
        (FLOORS, 10, 0.95),
    ],
    ids=["30 % noise", "2 % noise", "30 values, correlated", "correlated noise", "a floor"],
)
def test_intervals_hold_the_truth_as_often_as_they_say(
    cells: list[Cell], count: int, recognised: float
) -> None:
    scores = [simulations.score(cell, count) for cell in cells]
    pooled = simulations.pooled(scores)
    assert pooled.compatible, [(score.cell.name, score.coverage) for score in scores]
    assert pooled.recognised >= recognised * pooled.drawn


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), [("log-periodic", 8), ("stretched", 12), ("random", 8)])
def test_what_is_no_law_is_refused(kind: str, count: int) -> None:
    decoys = [decoy for decoy in simulations.decoys(sizes=(30, 100)) if decoy.kind == kind]
    found = [simulations.refusal(decoy, count) for decoy in decoys]
    assert all(one.compatible for one in found), [(one.decoy.name, one.share) for one in found]


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_thirty_residuals_show_how_correlated_noise_is(correlation: float) -> None:
    k = np.arange(1.0, 31.0)
    z = np.random.default_rng(0).standard_normal((k.size, 200))
    for i in range(1, k.size):
        z[i] = correlation * z[i - 1] + np.sqrt(1 - correlation**2) * z[i]
    line = np.stack([np.ones_like(k), k], axis=1)
    residuals = z - line @ np.linalg.lstsq(line, z, rcond=None)[0]
    times = np.array([correlation_time(Curve(column, 2)) for column in residuals.T])
    found = float(np.median((times - 1) / (times + 1)))
    # The bias is to be less than the standard error of one estimate, about 0.11 at 0.8.
    assert found == pytest.approx(correlation, abs=0.1)


def test_small_noise_alone_does_not_favour_a_curve_with_more_parameters() -> None:
    noise = np.random.default_rng(0).standard_normal(30)
    for size in (1e-1, 1e-3):
        few, many = (bic(Curve(size * noise, p), time=7.0, noise=0.0) for p in (2, 7))
        assert many - few == pytest.approx(5 * np.log(8))


def test_eight_random_numbers_are_too_few_to_tell() -> None:
    fits = [fit_decay(np.sort(np.random.default_rng(seed).random(8))[::-1]) for seed in range(20)]
    assert sum(fit.law == "none" for fit in fits) >= 18
    assert any(fit.reason.startswith("too few values to tell") for fit in fits)


def test_fewer_values_than_eight_are_too_few_to_tell() -> None:
    fit = fit_decay([3.0, 2.0, 1.0])
    assert fit.law == "none"
    assert fit.reason.startswith("too few values to tell")


@pytest.mark.parametrize("joined", ["sum", "root of squares"])
def test_a_floor_is_part_of_the_law(joined: simulations.Floor) -> None:
    k = np.arange(1.0, 201.0)
    exact = 1 / k + 1e-2 if joined == "sum" else np.hypot(1 / k, 1e-2)
    fit = fit_decay(exact)
    assert fit.law == "power"
    assert fit.alpha == pytest.approx(1.0, rel=1e-4)
    assert fit.noise_floor == pytest.approx(1e-2, rel=1e-3)
    np.testing.assert_allclose(fit.predict(k), exact, rtol=1e-2)
    assert "noise floor = 0.01" in str(fit)


def gaussian(length: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return lambda u, v: np.exp(-((u - v) ** 2) / (2 * length**2))


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


@pytest.mark.parametrize("length", [0.05, 0.1, 0.2, 0.5, 1.0])
def test_a_gaussian_coupling_is_superexponential(length: float) -> None:
    result = pod(gaussian(length), (0, 1))
    fit = result.decay()
    assert fit.law == "superexponential"
    assert (fit.alpha, fit.rate, fit.rank, fit.C1) == (None,) * 4
    assert fit.order is not None
    assert fit.interval is None
    assert str(fit).startswith(f"superexponential: order = {fit.order:.4g}, k = 1..")
    # It is closer than the best exponential by an order of magnitude.
    k, y = np.arange(1.0, result.rank + 1.0), np.log(result.sigma)
    exponential = y - np.polyval(np.polyfit(k, y, 1), k)
    assert rms(np.log(fit.predict(k)) - y) <= 0.1 * rms(exponential)
    assert fit.plot().axes[0].get_xscale() == "linear"


def test_the_spectrum_of_exp_uv_falls_as_the_factorial_does() -> None:
    assert pod(lambda u, v: np.exp(u * v), (0, 1)).decay().law == "superexponential"


@pytest.mark.slow
def test_noisy_bessel_functions_are_superexponential() -> None:
    cells = [cell for cell in simulations.superexponential_cells() if cell.noise == 0.02]
    scores = [simulations.score(cell, 10) for cell in cells]
    shares = {score.cell.name: score.recognition for score in scores}
    assert min(shares.values()) >= simulations.RECOGNISED, shares


def test_a_lorentzian_coupling_stays_exponential() -> None:
    fit = pod(lambda u, v: 1 / (1 + 25 * (u - v) ** 2), (0, 1)).decay()
    assert fit.law == "exponential"


@pytest.mark.parametrize("gauge", ["none", "softmax"])
def test_as_many_values_as_samples_are_no_finite_rank(gauge: Gauge) -> None:
    points = Samples(np.random.default_rng(0).random(20))
    result = pod(lambda u, v: np.exp(-np.abs(u - v)), points, gauge=gauge)
    assert result.rank == (20 if gauge == "none" else 19)
    assert result.decay().law != "finite rank"


def test_fewer_values_than_samples_are_a_finite_rank() -> None:
    points = Samples(np.random.default_rng(0).random(20))
    fit = pod(lambda u, v: u * v + np.sin(u) * np.cos(v), points).decay()
    assert (fit.law, fit.rank) == ("finite rank", 2)
