"""The interval of a law's parameter, from simulated spectra with noise like that of the data.

Singular values come sorted. Sorting hides most of the noise in the residuals, bends both ends of
the spectrum and biases the slope, so that Student's interval is several times too narrow. Instead
noisy spectra are drawn from the fitted law, sorted and fitted as the given one was. The size of the
noise and its correlation along k are not known: both are drawn too, and those draws count whose
residuals look like the given ones in size, correlation and drift (approximate Bayesian
computation with a linear adjustment, Beaumont, Zhang & Balding 2002). Whether a shift or a floor
belongs to the law is not known either: the curves that may be it are averaged with weights by
Akaike's criterion (Burnham & Anderson 2002).
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float
from scipy import special

from attnrate.theory.decay_curves import LONGEST, Curve, Vector

SEED = 20230518
"""Seed of the simulated spectra, so that a spectrum always gets the same interval."""

RANGE = (0.4, 60.0)
"""The sizes of the noise that are tried first, over the root mean square of the residuals."""

NEAREST = 0.15
"""The share of the last draws that count: those whose residuals resemble the given ones most."""

BLOCKS = 10
"""The number of stretches of k over which residuals are averaged to measure their drift."""

Draws = Float[np.ndarray, " draws"]
Spectra = Float[np.ndarray, "draws n"]
Looks = Float[np.ndarray, "draws 3"]


@dataclass(frozen=True)
class Estimate:
    """A decay parameter, corrected for the bias of sorting, with its interval."""

    value: float
    interval: tuple[float, float]


def estimate(
    law: Curve,
    curves: list[Curve],
    weights: Float[np.ndarray, " curves"],
    count: int,
    used: tuple[int, int],
    level: float,
) -> Estimate:
    """Estimate the parameter of a law with an interval.

    Args:
        law: The fitted curve.
        curves: All curves that may be the law, `law` among them.
        weights: The weights of these curves; they add up to 1.
        count: The number of sorted values.
        used: The first and the last k that entered the fit.
        level: The confidence of the interval.

    """
    tiny = 1e-12 * abs(law.slope)
    if law.rms <= 1e-10:
        return Estimate(law.slope, (law.slope - tiny, law.slope + tiny))
    k = np.arange(1.0, count + 1.0)
    window = slice(used[0] - 1, used[1])
    likely = _likely(law, k, window)
    means, spreads = [], []
    for curve in curves:
        inverse = np.linalg.pinv(curve.derivatives(k[window]))
        mean, spread = likely.moments(likely.errors @ inverse[1])
        means.append(curve.slope - mean)
        spreads.append(spread)
    mixture = (np.array(means), np.array(spreads), weights)
    ends = [_quantile(*mixture, 0.5 + half) for half in (-level / 2, level / 2)]
    value = means[[curve is law for curve in curves].index(True)]
    return Estimate(value, (min(ends[0], value - tiny), max(ends[1], value + tiny)))


@dataclass(frozen=True)
class _Likely:
    """The errors of simulated spectra, and how much each resembles the given one."""

    errors: Float[np.ndarray, "draws n"]
    weight: Draws
    away: Looks

    def moments(self, values: Draws) -> tuple[float, float]:
        """Mean and spread of `values` over the draws whose residuals resemble the given ones."""
        root = np.sqrt(self.weight)
        design = np.column_stack([np.ones(values.size), self.away])
        fitted = np.linalg.lstsq(design * root[:, None], values * root, rcond=None)[0]
        rest = values - design @ fitted
        # The spread depends on the residuals too: it is extrapolated to the given ones (Blum &
        # François 2010).
        sizes = np.log(rest**2 + 1e-6 * float(self.weight @ rest**2))
        grows = np.linalg.lstsq(design * root[:, None], sizes * root, rcond=None)[0]
        rest = rest * np.exp(-0.5 * np.clip(self.away @ grows[1:], -3.0, 3.0))
        many = 1.0 / float(self.weight @ self.weight)
        variance = float(self.weight @ rest**2) * many / max(many - 4.0, 1.0)
        return float(fitted[0]), float(np.sqrt(variance * (1.0 + 1.0 / many)))


def _likely(law: Curve, k: Vector, window: slice) -> _Likely:
    """Simulate noise in three rounds: to find its size roughly, its bias, and the errors."""
    exact, design = law.at(k), law.derivatives(k)
    inverse = np.linalg.pinv(design[window])
    hat = inverse.T @ design[window].T
    seen = _looks(law.residual[None, :])[0]
    first, second, third = _noise(k.size)

    def drawn(
        z: Float[np.ndarray, "draws all"], size: Draws, bias: Float[np.ndarray, "draws p"]
    ) -> tuple[Spectra, Looks]:
        true = exact - bias @ design.T
        noisy = true + size[:, None] * z
        noisy.sort(axis=1)
        error = noisy[:, ::-1][:, window] - true[:, window]
        return error, _looks(error - error @ hat)

    size = np.geomspace(RANGE[0], RANGE[1], len(first)) * law.rms
    _, looks = drawn(first, size, np.zeros((size.size, design.shape[1])))
    near = np.abs(looks[:, 0] - seen[0])
    close = size[near <= max(0.7, float(np.sort(near)[4]))]
    low, high = np.log(close.min()), np.log(close.max())

    def sizes(count: int) -> tuple[Draws, Float[np.ndarray, "draws 3"]]:
        """Sizes of noise, even in the logarithm, and the powers with which a trend is fitted."""
        u = np.linspace(-1.0, 1.0, count)
        size = np.exp(0.5 * (low + high) + 0.5 * (high - low) * u)
        return size, np.stack([np.ones_like(u), u, u**2], axis=1)

    size, powers = sizes(len(second))
    bias = np.zeros((size.size, design.shape[1]))
    for _ in range(2):
        error, _ = drawn(second, size, bias)
        trend = np.linalg.lstsq(powers, error @ inverse.T, rcond=None)[0]
        bias = powers @ trend
    size, powers = sizes(len(third))
    error, looks = drawn(third, size, powers @ trend)
    rest = looks[:, 0] - powers @ np.linalg.lstsq(powers, looks[:, 0], rcond=None)[0]
    scale = np.array([rest.std() + 1e-9, 1.0 / np.sqrt(error.shape[1]), 1.0 / np.sqrt(2 * BLOCKS)])
    away = (looks - np.clip(seen, looks.min(axis=0), looks.max(axis=0))) / scale
    distance = np.sum(away**2, axis=1)
    weight = np.maximum(1.0 - distance / np.quantile(distance, NEAREST), 0.0)
    return _Likely(error, weight / weight.sum(), away)


def _looks(residuals: Spectra) -> Looks:
    """Three features of residuals: log size, correlation of neighbours, log drift.

    The drift is the size of the means over BLOCKS stretches of k. Sorting takes the noise out of
    neighbours but not out of such means, on which the slope depends.
    """
    n = residuals.shape[1]
    power = np.sum(residuals**2, axis=1) + 1e-300
    neighbours = np.sum(residuals[:, 1:] * residuals[:, :-1], axis=1) / power
    starts = np.linspace(0, n, min(BLOCKS, n // 3) + 1).astype(int)[:-1]
    drift = np.mean(np.add.reduceat(residuals, starts, axis=1) ** 2, axis=1) + 1e-300
    return np.stack([0.5 * np.log(power / n), neighbours, 0.5 * np.log(drift)], axis=1)


@lru_cache(maxsize=16)
def _noise(n: int) -> list[Float[np.ndarray, "_ n"]]:
    """Standard normal noise along k in rows, in three groups; two rows of three are correlated."""
    few = float(np.clip(180_000 / n, 200, 1000)) / 1000
    ends = np.cumsum([int(share * few) for share in (120, 200, 1400)])
    rng = np.random.default_rng(SEED)
    z = rng.standard_normal((int(ends[-1]), n))
    # The correlation time (1 + c) / (1 - c) is uniform in its logarithm: no scale is preferred.
    time = LONGEST ** (rng.random(int(ends[-1])) * (np.arange(int(ends[-1])) % 3 > 0))
    correlation = (time - 1.0) / (time + 1.0)
    for i in range(1, n):
        z[:, i] = correlation * z[:, i - 1] + np.sqrt(1.0 - correlation**2) * z[:, i]
    z.setflags(write=False)
    return np.split(z, ends[:-1])


def _quantile(means: Vector, spreads: Vector, weights: Vector, q: float) -> float:
    """The quantile q of a mixture of normal distributions, by bisection."""
    low = float(np.min(means - 10.0 * spreads))
    high = float(np.max(means + 10.0 * spreads))
    for _ in range(60):
        middle = 0.5 * (low + high)
        if float(weights @ special.ndtr((middle - means) / spreads)) < q:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)
