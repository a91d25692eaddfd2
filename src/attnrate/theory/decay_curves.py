"""The curves that log sigma_k is fitted by, laws and their rivals, and how well each of them fits.

A law is a straight line log sigma_k = a - slope · x_k in its own abscissa:

    power             x_k = log(k + shift)
    exponential       x_k = k
    superexponential  x_k = k asinh(k/z) - (k² + z²)^½ + z

The last one is Debye's form of the modified Bessel function, I_k(z) ~ e^{-x_k}, which holds
uniformly in k: it is k²/(2z) while k is small against z and k log k + (log(2/z) - 1) k beyond. The
Chebyshev coefficients of a Gaussian exp(-(u - v)²/2l²) are such I_k(z), and its singular values
and those of exp(uv), which fall as 1/k!, follow it within 1 to 9 % (l = 0.05 to 1 on [0, 1]).

A floor f may lift the end of a law: sigma_k = (law_k^p + f^p)^(1/p), with p = 1 where it is added
and p = 2 where independent noise of that size is.

A rival is a curve that is none of the laws; a law has to hold against all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from scipy import optimize

Vector = Float[np.ndarray, " n"]
Design = Float[np.ndarray, "n p"]

NOISE = 1e-2
"""Relative deviations below this are no evidence against a law: an exact law scores finitely."""

STRONG_EVIDENCE = 6.0
"""A difference in BIC above this is strong evidence (Kass & Raftery 1995)."""

POSITIVE_EVIDENCE = 2.0
"""A difference in BIC below this is "not worth more than a bare mention" (Kass & Raftery)."""

LEAST_VALUES = 8
"""The least number of values that carry evidence for a law."""

LONGEST = 40.0
"""The longest correlation time of noise that is considered, in values."""

JOINS = (1, 2)
"""The powers p that join a floor to a law: addition, or the root of the sum of squares."""


@dataclass(frozen=True)
class Curve:
    """A fitted curve: its residuals, its number of parameters and, for a law, their values.

    Args:
        residual: log sigma_k minus the curve.
        parameters: The number of fitted parameters.
        name: The law; empty for a rival.
        level: a, the height of the line.
        slope: The decay parameter.
        bend: The shift of a power law, or the z of a superexponential.
        floor: The logarithm of the floor f.
        join: The power p of the floor; 0 where there is none.

    """

    residual: Vector
    parameters: int
    name: str = ""
    level: float = 0.0
    slope: float = 0.0
    bend: float = 0.0
    floor: float = -np.inf
    join: int = 0

    @property
    def sse(self) -> float:
        """The sum of squared residuals."""
        return float(self.residual @ self.residual)

    @property
    def rms(self) -> float:
        """The root of the mean squared residual."""
        return float(np.sqrt(self.sse / self.residual.size))

    def at(self, k: Vector) -> Vector:
        """log sigma_k of the law with its floor."""
        bare = self.level - self.slope * abscissa(self.name, k, self.bend)
        if self.join == 0:
            return bare
        return np.asarray(np.logaddexp(self.join * bare, self.join * self.floor) / self.join)

    def derivatives(self, k: Vector) -> Design:
        """The derivatives of log sigma_k by the fitted parameters: level, slope, the others."""
        x = abscissa(self.name, k, self.bend)
        columns = [np.ones_like(x), -x]
        if self.parameters - (self.join > 0) == 3:
            columns.append(-self.slope * _by_bend(self.name, k, self.bend))
        if self.join:
            # How much of a value is the law: 1 where it stands clear of the floor, 0 below it.
            share = np.exp(self.join * (self.level - self.slope * x - self.at(k)))
            columns = [share * column for column in columns] + [1.0 - share]
        return np.stack(columns, axis=1)


def abscissa(name: str, k: Vector, bend: float) -> Vector:
    """The abscissa x_k in which the law is a straight line."""
    if name == "power":
        return np.asarray(np.log(k + bend))
    if name == "superexponential":
        return np.asarray(k * np.arcsinh(k / bend) - np.hypot(k, bend) + bend)
    return k


def _by_bend(name: str, k: Vector, bend: float) -> Vector:
    """The derivative of the abscissa by the shift, or by z."""
    return 1.0 / (k + bend) if name == "power" else 1.0 - np.hypot(k, bend) / bend


def laws(k: Vector, y: Vector, lifted: bool = True) -> dict[str, list[Curve]]:
    """For each law its candidate curves: the plain one, then those with one more parameter.

    If `lifted`, a floor is tried for a power law and an exponential whose residuals rise towards
    both ends, because a floor bends a straight line upwards.
    """
    power, exponential = (_line(name, k, y) for name in ("power", "exponential"))
    # A larger shift would turn the power law into an exponential under another name.
    shifts = np.geomspace(1e-3, 1.0 + k[-1] / 8.0, 40)
    # With a larger z none of the values would show that k log k takes over from k².
    z = np.geomspace(1e-2, 2.0 * k[-1], 40)
    # It is chosen only by strong evidence against the exponential, so a poor fit need not be exact.
    worth = 0.8 * exponential.sse
    found = {
        "power": [power, _bent("power", k, y, shifts, lambda g: g - 1.0)],
        "exponential": [exponential],
        "superexponential": [_bent("superexponential", k, y, z, lambda g: g, worth)],
    }
    for plain in (power, exponential) if lifted else ():
        if plain.rms > 1e-6 and _upwards(plain, k):
            floored = (_floored(plain.name, k, y, join) for join in JOINS)
            found[plain.name] += [curve for curve in floored if curve is not None]
    return found


def chosen(curves: list[Curve], time: float) -> Curve:
    """The plain curve, or a longer one where the evidence for it is strong."""
    plain, *longer = curves
    if not longer:
        return plain
    best = min(longer, key=lambda curve: bic(curve, time))
    return best if bic(best, time) + STRONG_EVIDENCE < bic(plain, time) else plain


def bic(curve: Curve, time: float, noise: float = NOISE) -> float:
    """Bayesian information criterion with n / `time` independent values and a least `noise`."""
    n = _independent(curve, time)
    variance = curve.sse / curve.residual.size + noise**2
    return float(n * np.log(variance) + curve.parameters * np.log(n))


def aic(curve: Curve, time: float, noise: float) -> float:
    """Akaike's information criterion, with the independent values and the noise of `bic`."""
    n = _independent(curve, time)
    return bic(curve, time, noise) + curve.parameters * (2.0 - float(np.log(n)))


def _independent(curve: Curve, time: float) -> float:
    """The number of independent values that a curve was fitted to, at least LEAST_VALUES.

    The number must not depend on the curve's parameters: in n log(variance), the curve with the
    larger n would win by the smallness of the noise alone.
    """
    return max(curve.residual.size / time, float(LEAST_VALUES))


def correlation_time(curve: Curve) -> float:
    """The number of neighbouring residuals that count as one, (1 + c) / (1 - c), 1 to LONGEST.

    c is the correlation of neighbours in noise that is autoregressive along k, as in
    `decay_noise.py`. A curve with p parameters follows the noise, so that its residuals show less:
    c - (p + (p + 2) c) / n on average (Marriott & Pope 1954 for p = 0 and 1). Sums over many lags
    are of no use for few values: they cancel in residuals, whatever the noise is.
    """
    n, p = curve.residual.size, curve.parameters
    if curve.sse <= n * 1e-24:
        return 1.0
    seen = float(curve.residual[1:] @ curve.residual[:-1]) / curve.sse
    c = (n * seen + p) / max(n - p - 2, 1)
    longest = (LONGEST - 1.0) / (LONGEST + 1.0)
    c = min(max(c, 0.0), longest)
    return (1.0 + c) / (1.0 - c)


def lines(x: Float[np.ndarray, "g n"], y: Vector) -> Float[np.ndarray, "g n"]:
    """The residuals of y after a straight line is fitted in each row of x."""
    xc = x - x.mean(axis=1, keepdims=True)
    yc = y - y.mean()
    slope = (xc @ yc) / np.maximum(np.sum(xc**2, axis=1), np.finfo(np.float64).tiny)
    return np.asarray(yc - slope[:, None] * xc, dtype=np.float64)


def _line(name: str, k: Vector, y: Vector, bend: float = 0.0, parameters: int = 2) -> Curve:
    x = abscissa(name, k, bend)
    xc, yc = x - x.mean(), y - y.mean()
    slope = -float(xc @ yc) / float(xc @ xc)
    level = float(y.mean()) + slope * float(x.mean())
    return Curve(yc + slope * xc, parameters, name, level, slope, bend)


def _bent(
    name: str,
    k: Vector,
    y: Vector,
    grid: Float[np.ndarray, " g"],
    bend: Callable[[float], float],
    worth: float = np.inf,
) -> Curve:
    """Fit a law with a third parameter: on a grid, then between the neighbours of the best.

    Only the grid is searched where its best sum of squares exceeds `worth`.
    """
    rows = np.stack([abscissa(name, k, bend(float(g))) for g in grid])
    errors = np.sum(lines(rows, y) ** 2, axis=1)
    best = int(np.argmin(errors))
    if errors[best] > worth:
        return _line(name, k, y, bend(float(grid[best])), 3)
    bounds = (np.log(grid[max(best - 1, 0)]), np.log(grid[min(best + 1, grid.size - 1)]))
    found = optimize.minimize_scalar(
        lambda t: _line(name, k, y, bend(float(np.exp(t)))).sse,
        bounds=bounds,
        method="bounded",
        options={"xatol": 1e-9},
    )
    return _line(name, k, y, bend(float(np.exp(found.x))), 3)


def _upwards(line: Curve, k: Vector) -> bool:
    """Whether values lie above a straight line at its ends and below it in the middle."""
    x = abscissa(line.name, k, line.bend)
    # Residuals are orthogonal to 1 and x, so that only the curved part of the square counts.
    return float(line.residual @ (x - x.mean()) ** 2) > 0.0


def _floored(name: str, k: Vector, y: Vector, join: int) -> Curve | None:
    """Fit a law with a floor; None where no floor above a thousandth of the end value helps.

    The method is that of Levenberg and Marquardt, from the best of four starts.
    """
    x = abscissa(name, k, 0.0)
    lowest = float(y[-1])

    def start(floor: float) -> Curve:
        clear = y > floor + 0.05
        if np.sum(clear) < 4:
            clear = np.arange(y.size) < 4
        bare = y + np.log(-np.expm1(np.minimum(join * (floor - y), -1e-3))) / join
        line = _line(name, k[clear], bare[clear])
        return measured(np.array([line.level, line.slope, floor]))

    def measured(at: Float[np.ndarray, " p"]) -> Curve:
        curve = Curve(y, 3, name, float(at[0]), float(at[1]), 0.0, float(at[2]), join)
        return replace(curve, residual=y - curve.at(k))

    end = float(np.median(y[-max(y.size // 4, 2) :]))
    starts = [start(floor) for floor in (end, lowest - 0.02, lowest - 0.7, lowest - 2.5)]
    best = _descended(min(starts, key=lambda curve: curve.sse), k, measured)
    law = best.level - best.slope * float(x[-1])
    return best if best.slope > 0.0 and best.floor > law + np.log(1e-3) else None


def _descended(
    curve: Curve, k: Vector, measured: Callable[[Float[np.ndarray, " p"]], Curve]
) -> Curve:
    damping = 1e-3
    for _ in range(25):
        design = curve.derivatives(k)
        normal = design.T @ design
        step = np.linalg.solve(
            normal + damping * np.diag(np.diag(normal) + 1e-12), design.T @ curve.residual
        )
        tried = measured(np.array([curve.level, curve.slope, curve.floor]) + step)
        if tried.sse < curve.sse:
            done = curve.sse - tried.sse < 1e-7 * curve.sse
            curve, damping = tried, damping * 0.1
            if done:
                break
        else:
            damping *= 10.0
            if damping > 1e6:
                break
    return curve


def rivals(k: Vector, y: Vector) -> list[Curve]:
    """The best curve of each kind that is no law; first the waves, then the stretched exponential.

    The kinds are a power law with log-periodic waves, e^{-a k^p} with p below and with p above 1,
    (log k)^-p, two slopes in log k or in k, and (c - k)^p, which sorted random numbers of a bounded
    range have (p = 1: uniform ones).
    """
    shifts = np.linspace(0.2, 3.0, 29)
    knots = np.unique(np.geomspace(k[2], k[-3], 24))
    ends = k[-1] + np.geomspace(0.25, max(k.size, 16) / 2.0, 16)
    return [
        _waves(np.log(k), y),
        _closest(lines(k[None, :] ** np.linspace(0.15, 0.85, 15)[:, None], y), 3),
        _closest(lines(k[None, :] ** np.linspace(1.15, 3.5, 48)[:, None], y), 3),
        _closest(lines(np.log(np.log1p(k[None, :] + shifts[:, None] - 1.0)), y), 3),
        _two_slopes(np.log(k), np.log(knots), y),
        _two_slopes(k, knots, y),
        _closest(lines(np.log(ends[:, None] - k[None, :]), y), 3),
    ]


def _closest(residuals: Float[np.ndarray, "g n"], parameters: int) -> Curve:
    """The curve with the least sum of squares, among those whose residuals are the rows."""
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
    return _closest(bent, 4)


def _waves(x: Vector, y: Vector) -> Curve:
    """A line in x = log k and one wave along it, of at least one and a half periods.

    It counts as seven parameters: two for the line, two for the wave, and three for its frequency,
    which is the best of many.
    """
    least = 1.5 / float(x[-1] - x[0])
    turns = 2.0 * np.pi * np.linspace(least, max(2.0, 2.0 * least), 24)[:, None] * x[None, :]
    columns = np.stack(
        [np.ones_like(turns), np.broadcast_to(x, turns.shape), np.cos(turns), np.sin(turns)], axis=1
    )
    normal = columns @ columns.transpose(0, 2, 1)
    weights = np.linalg.solve(normal, (columns @ y)[..., None])
    return _closest(y - np.sum(weights * columns, axis=1), 7)
