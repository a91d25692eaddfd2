"""Curves through log sigma_k, the laws and their rivals, and how well each fits."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import optimize, special

Vector = Float[np.ndarray, " n"]

NOISE = 1e-2
"""Relative deviations below this are no evidence against a law: an exact law scores finitely."""


STRONG_EVIDENCE = 6.0
"""What a difference in BIC must exceed ("strong" on the scale of Kass & Raftery 1995)."""


@dataclass(frozen=True)
class Curve:
    """A fitted curve: its residuals, its number of parameters, and for a law its decay parameter.

    `jacobian` holds the derivatives of the fitted values by the parameters; column 1 is `slope`'s.
    """

    residual: Vector
    parameters: int
    slope: float = 0.0
    shift: float = 0.0
    jacobian: Float[np.ndarray, "n p"] | None = None

    @property
    def sse(self) -> float:
        """Sum of squared residuals."""
        return float(self.residual @ self.residual)


def laws(k: Vector, y: Vector) -> dict[str, Curve]:
    """The power law, with a shift where the evidence for one is strong, and the exponential."""
    plain, shifted = _law(np.log(k), y), _shifted_power(k, y)
    time = correlation_time(shifted.residual)
    wanted = bic(shifted, time) + STRONG_EVIDENCE < bic(plain, time)
    return {"power": shifted if wanted else plain, "exponential": _law(k, y)}


def rivals(k: Vector, y: Vector) -> list[Curve]:
    """Curves that are none of the laws: e^{-a k^p}, (log k)^-p, and two slopes in log k or in k."""
    powers = np.concatenate([np.linspace(0.2, 0.85, 14), np.linspace(1.15, 3.5, 48)])
    stretched = _best_line(k[None, :] ** powers[:, None], y, 3)
    shifts = np.linspace(0.2, 3.0, 29)
    logarithmic = _best_line(np.log(np.log1p(k[None, :] + shifts[:, None] - 1.0)), y, 3)
    knots = np.unique(np.geomspace(k[2], k[-3], 24))
    return [
        stretched,
        logarithmic,
        _two_slopes(np.log(k), np.log(knots), y),
        _two_slopes(k, knots, y),
    ]


def bic(curve: Curve, time: float) -> float:
    """Bayesian information criterion with n / `time` independent values and a noise floor."""
    n = max(curve.residual.size / time, curve.parameters + 1.0)
    variance = curve.sse / curve.residual.size + NOISE**2
    return float(n * np.log(variance) + curve.parameters * np.log(n))


def correlation_time(residual: Vector) -> float:
    """How many neighbouring residuals count as one (integrated autocorrelation, at least 1).

    Summed up to the first lag that exceeds five times the sum so far (Sokal's window), since the
    far lags are noise.
    """
    n = residual.size
    centred = residual - residual.mean()
    variance = float(centred @ centred)
    if variance <= n * 1e-24:
        return 1.0
    time = 1.0
    for lag in range(1, n // 2):
        time += 2.0 * float(centred[:-lag] @ centred[lag:]) / variance
        if lag >= 5.0 * time:
            break
    return min(max(time, 1.0), n / 4.0)


def noise_interval(
    curve: Curve, y: Vector, used: tuple[int, int], level: float
) -> tuple[float, float]:
    """The interval of a law's parameter, from spectra like this one with noise like its own.

    `y` is the law itself (log sigma) at k = 1 .. 2 count, of which count were given and `used` were
    fitted. Singular values come sorted, which hides most of the noise in the residuals and bends
    the end of the spectrum; Student's interval is several times too narrow for that. So noisy
    spectra are drawn from the law and sorted; the noise is the one whose residuals are as large as
    those seen; and the estimates' bias and spread are read off. Whether the noisy values were cut
    before sorting or after cannot be seen, hence both, and the hull of the two intervals.
    """
    count = y.size // 2
    seen = np.sqrt(curve.sse / curve.residual.size)
    ends = [curve.slope - 1e-12 * abs(curve.slope), curve.slope + 1e-12 * abs(curve.slope)]
    if seen > 1e-10 and curve.jacobian is not None:
        # A handful of large residuals, or neighbours that agree, tell little about the noise.
        many = 2.0 * curve.sse**2 / float(np.sum(curve.residual**4))
        freedom = max(many / correlation_time(curve.residual), 2.0)
        for length in (count, 2 * count):
            errors = _matching_errors(curve.jacobian, y[:length], used, float(seen))
            bias, spread = errors.mean(), errors.std(ddof=1) * np.sqrt(1.0 + 1.0 / errors.size)
            half = special.stdtrit(freedom, 0.5 + level / 2.0) * spread
            ends += [curve.slope - bias - half, curve.slope - bias + half]
    return float(min(ends)), float(max(ends))


def _matching_errors(
    jacobian: Float[np.ndarray, "n p"],
    y: Float[np.ndarray, " m"],
    used: tuple[int, int],
    seen: float,
) -> Float[np.ndarray, " draws"]:
    """Errors of the slope under the noise whose sorted residuals have root mean square `seen`."""
    draws = int(np.clip(200_000 // y.size, 24, 200))
    # Seeded here: the same spectrum gives the same interval, every time.
    z = np.random.default_rng(20230518).standard_normal((draws, y.size))
    inverse = np.linalg.pinv(jacobian)

    def simulate(noise: float) -> tuple[float, Float[np.ndarray, " draws"]]:
        drawn = -np.sort(-(y + noise * z), axis=1)[:, used[0] - 1 : used[1]]
        error = drawn - y[used[0] - 1 : used[1]]
        fitted = error @ inverse.T
        rest = error - fitted @ jacobian.T
        return float(np.sqrt(np.mean(rest**2))), fitted[:, 1]

    low, high = np.log(0.5 * seen), np.log(50.0 * seen)
    for _ in range(9):
        middle = 0.5 * (low + high)
        if simulate(float(np.exp(middle)))[0] < seen:
            low = middle
        else:
            high = middle
    return simulate(float(np.exp(0.5 * (low + high))))[1]


def _law(x: Vector, y: Vector) -> Curve:
    xc, yc = x - x.mean(), y - y.mean()
    spread = float(xc @ xc)
    slope = float(xc @ yc) / spread
    jacobian = np.stack([np.ones_like(x), -x], axis=1)
    return Curve(yc - slope * xc, 2, -slope, 0.0, jacobian)


def _shifted_power(k: Vector, y: Vector) -> Curve:
    """(k + shift)^-alpha by least squares; the shift stays below an eighth of the last k.

    A larger shift would turn the power law into an exponential under another name.
    """
    low, high = 1e-3, 1.0 + k[-1] / 8.0

    def at(offset: float) -> Curve:
        return _law(np.log(k - 1.0 + offset), y)

    grid = np.geomspace(low, high, 40)
    best = int(np.argmin(np.sum(_lines(np.log(k - 1.0 + grid[:, None]), y) ** 2, axis=1)))
    bounds = (np.log(grid[max(best - 1, 0)]), np.log(grid[min(best + 1, grid.size - 1)]))
    found = optimize.minimize_scalar(
        lambda t: at(float(np.exp(t))).sse, bounds=bounds, method="bounded", options={"xatol": 1e-9}
    )
    offset = float(np.exp(found.x))
    fit = at(offset)
    x = k - 1.0 + offset
    jacobian = np.stack([np.ones_like(x), -np.log(x), -fit.slope / x], axis=1)
    return Curve(fit.residual, 3, fit.slope, offset - 1.0, jacobian)


def _lines(x: Float[np.ndarray, "g n"], y: Vector) -> Float[np.ndarray, "g n"]:
    """Residuals of y after a straight line in each row of x."""
    xc = x - x.mean(axis=1, keepdims=True)
    yc = y - y.mean()
    slope = (xc @ yc) / np.maximum(np.sum(xc**2, axis=1), np.finfo(np.float64).tiny)
    return np.asarray(yc - slope[:, None] * xc, dtype=np.float64)


def _best_line(x: Float[np.ndarray, "g n"], y: Vector, parameters: int) -> Curve:
    residuals = _lines(x, y)
    return Curve(residuals[int(np.argmin(np.sum(residuals**2, axis=1)))], parameters)


def _two_slopes(x: Vector, knots: Float[np.ndarray, " g"], y: Vector) -> Curve:
    """A line that bends once, at the best of the knots."""
    xc, yc = x - x.mean(), y - y.mean()
    rest = yc - xc * float(xc @ yc) / float(xc @ xc)
    hinges = np.maximum(x[None, :] - knots[:, None], 0.0)
    hinges = hinges - hinges.mean(axis=1, keepdims=True)
    hinges = hinges - (hinges @ xc)[:, None] * xc / float(xc @ xc)
    size = np.maximum(np.sum(hinges**2, axis=1), np.finfo(np.float64).tiny)
    bent = rest - ((hinges @ rest) / size)[:, None] * hinges
    return Curve(bent[int(np.argmin(np.sum(bent**2, axis=1)))], 4)
