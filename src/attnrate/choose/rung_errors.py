"""The squared errors of all classes, by independent units; and what the residuals still hold."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from attnrate.choose.drift import NearAndFar
from attnrate.choose.features import Features
from attnrate.choose.rungs import Class, Fitted
from attnrate.choose.sums import Blocked, Scaled
from attnrate.statistics import Interval, t_quantile

#: Draws of signs for the law of the largest singular value of noise
_DRAWS = 200
#: Bundles of units at most, for these signs
_GROUPS = 400


@dataclass(frozen=True, eq=False)
class Errors:
    """Squared errors summed over independent units, by class.

    Attributes:
        held: The sum over each unit of the errors of samples that were held out.
        inside: The sum over each unit of the errors of the least squares of all samples.
        points: The number of points of each unit.

    """

    held: dict[Class, Float64[np.ndarray, " units"]]
    inside: dict[Class, Float64[np.ndarray, " units"]]
    points: Int64[np.ndarray, " units"]


@dataclass(frozen=True, eq=False)
class Coupling:
    """How much of a product of the token now and all tokens is left by functions of single tokens.

    With the residual r of the additive class, B = E[r φ(x_t) ψ(x)ᵀ] is the mean of its products
    with functions φ of the token now and means ψ of functions of all tokens: zero without coupling.
    Signs of r drawn for each unit make singular values of noise. This shows surely whether there is
    coupling; the rank is rough, because softmax is not linear.

    Attributes:
        sigma: The singular values of B, in units of the outputs' standard deviations.
        noise: The largest singular value that noise has in 19 of 20 draws.

    """

    sigma: tuple[float, ...]
    noise: float

    @property
    def rank(self) -> int:
        """The number of singular values above noise."""
        return sum(each > self.noise for each in self.sigma)


def ratio(
    sums: Float64[np.ndarray, " units"], points: Int64[np.ndarray, " units"], unit: float
) -> Interval:
    """Return the mean of something over points, with an interval over independent units.

    Args:
        sums: The sum of it over the points of each unit.
        points: The number of points of each unit.
        unit: What the result is divided by.

    """
    count = len(points)
    value = float(sums.sum() / points.sum())
    off = (sums - value * points) / points.mean()
    half = t_quantile(max(1, count - 1)) * float(off.std(ddof=1)) / math.sqrt(count)
    return Interval(value / unit, (value - half) / unit, (value + half) / unit, count)


@dataclass(frozen=True, eq=False)
class RungErrors:
    """What one pass over the samples with all coefficients gives.

    Attributes:
        errors: The squared errors of all classes.
        drift: The ratio of the errors of filters fitted far away to those fitted nearby, of the
            kind of filters that shows less; None if there are no such filters.
        coupling: What is left of products.

    """

    errors: Errors
    drift: Interval | None
    coupling: Coupling


def judge(
    features: Features,
    data: Scaled,
    made: Blocked,
    fitted: dict[Class, Fitted],
    apart: tuple[NearAndFar, ...] | None,
    where: Int64[np.ndarray, " samples"],
    seed: int,
) -> RungErrors:
    """Sum up the squared errors of all classes, and the products of residuals, by unit.

    Args:
        features: The features.
        data: Their scaled columns, by batches.
        made: Their sums, which say what was held out with what.
        fitted: The coefficients of the classes.
        apart: The coefficients of each kind of filters from near and far; None for panels.
        where: The unit of each sample.
        seed: Where the random signs start.

    """
    samples = data.samples
    count = int(where.max()) + 1
    names = [*fitted]
    both = apart or ()
    kinds = 2 * len(names) + 2 * len(both)
    found = np.zeros((kinds, count))
    points = np.zeros(count, dtype=np.int64)
    pooled = features.columns("pooled")
    # signs that bundles of units have in common are as random
    group = where if count <= _GROUPS else where * _GROUPS // count
    left = np.zeros((int(group.max()) + 1, len(pooled), samples.out))
    for block in range(made.count):
        # one product of a batch with the coefficients of all classes side by side
        theta = np.zeros((data.width, kinds, samples.out))
        for number, name in enumerate(names):
            theta[fitted[name].columns, 2 * number] = fitted[name].apart[block]
            theta[fitted[name].columns, 2 * number + 1] = fitted[name].whole
        for number, one in enumerate(both, len(names)):
            theta[fitted["filter"].columns, 2 * number] = one.near[block]
            theta[fitted["filter"].columns, 2 * number + 1] = one.far[block]
        flat = theta.reshape(data.width, -1)
        for some, x, y in data.batches(np.flatnonzero(made.numbers == block)):
            off = (x @ flat).reshape(len(y), kinds, samples.out) - y[:, None]
            square = (off**2).sum(-1)
            unit = np.repeat(where[some], samples.places)
            for kind in range(kinds):
                found[kind] += np.bincount(unit, square[:, kind], count)
            points += np.bincount(unit, minlength=count)
            residual = off[:, 2 * names.index("additive")]
            _add_products(left, x[:, pooled], residual, np.repeat(group[some], samples.places))
    errors = Errors(
        {name: found[2 * number] for number, name in enumerate(names)},
        {name: found[2 * number + 1] for number, name in enumerate(names)},
        points,
    )
    ratios = [
        _times(found[2 * number], found[2 * number + 1], points)
        for number in range(len(names), len(names) + len(both))
    ]
    drift = min(ratios, key=lambda one: one.low, default=None)
    return RungErrors(errors, drift, _coupling(left, features.queries, points, errors, seed))


def _times(
    near: Float64[np.ndarray, " units"],
    far: Float64[np.ndarray, " units"],
    points: Int64[np.ndarray, " units"],
) -> Interval:
    """The ratio of far errors to near ones; 1 where the near ones are only rounding."""
    unit = float(near.sum() / points.sum())
    if not unit > 0:
        return Interval(1.0, 1.0, 1.0, len(points))
    more = ratio(far - near, points, unit)
    return Interval(1 + more.value, 1 + more.low, 1 + more.high, more.count)


def _add_products(
    left: Float64[np.ndarray, "bundles columns out"],
    x: Float64[np.ndarray, "points columns"],
    residual: Float64[np.ndarray, "points out"],
    unit: Int64[np.ndarray, " points"],
) -> None:
    """Add the products of columns and residuals to the sums of their bundles of units."""
    order = np.argsort(unit, kind="stable")
    ends = np.flatnonzero(np.diff(unit[order], append=-1)) + 1
    for first, end in zip([0, *ends[:-1]], ends, strict=True):
        rows = order[first:end]
        left[unit[rows[0]]] += x[rows].T @ residual[rows]


def _coupling(
    left: Float64[np.ndarray, "bundles columns out"],
    queries: int,
    points: Int64[np.ndarray, " units"],
    errors: Errors,
    seed: int,
) -> Coupling:
    """The singular values of the mean product, beside those of products with random signs."""
    count, columns, _ = left.shape
    if columns == 0:
        return Coupling((), 0.0)
    scale = points.sum() * math.sqrt(float(errors.inside["nothing"].sum() / points.sum())) + 1e-300
    drawn = np.random.default_rng(seed)

    def values(signs: Float64[np.ndarray, " bundles"]) -> Float64[np.ndarray, " size"]:
        mean = np.tensordot(signs, left, 1).reshape(queries, -1) / scale
        return np.linalg.svd(mean, compute_uv=False)

    sigma = values(np.ones(count))
    largest = [values(drawn.choice([-1.0, 1.0], count))[0] for _ in range(_DRAWS)]
    return Coupling(tuple(map(float, sigma)), float(np.quantile(largest, 0.95)))
