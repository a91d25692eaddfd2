"""The ladder: what the best map of each class would leave of the data, from both sides."""

import math
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64
from scipy import stats

from attnrate.choose.features import Features
from attnrate.choose.folds import units
from attnrate.choose.positions import ByPosition, by_position
from attnrate.choose.rungs import CLASSES, WORDS, Class, Fitted, fit_classes, near_and_far
from attnrate.choose.samples import Samples
from attnrate.choose.sums import Blocked, Scaled, scaled, sums
from attnrate.errors import InputError
from attnrate.progress import Progress
from attnrate.statistics import Interval

#: Blocks that are held out in turn
BLOCKS = 6
#: Independent stretches of data that a ladder needs
LEAST_UNITS = 12


@dataclass(frozen=True)
class Rung:
    """What the best map of one class leaves of the variance: lower ≤ floor ≤ upper.

    The least squares of the data at hand are on average below the floor, because they follow the
    noise too; errors on what was held out are on average above it.

    Attributes:
        name: The class.
        words: What the class is.
        features: The number of coefficients of each output.
        lower: The error of the least squares of all samples on these samples, as a share of the
            variance.
        upper: The error of least squares with a ridge on samples that were held out.

    """

    name: Class
    words: str
    features: int
    lower: Interval
    upper: Interval


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
class Ladder:
    """The floors of classes of maps, from the poorest to the richest, with what they say.

    Attributes:
        rungs: The classes, each with its bracket.
        variance: The variance of what is wanted, summed over the coordinates of an output: the
            errors are shares of it.
        errors: The squared errors from which all of this follows.
        drift: The ratio of the errors of filters that were fitted far in time to those that were
            fitted nearby; 1 where the data have one law at all times. None for panels.

    """

    rungs: tuple[Rung, ...]
    variance: float
    errors: Errors = field(repr=False)
    drift: Interval | None

    def __getitem__(self, name: Class) -> Rung:
        """The rung of one class."""
        for rung in self.rungs:
            if rung.name == name:
                return rung
        raise KeyError(name)

    def to_frame(self) -> pd.DataFrame:
        """Return a table with a row for each class."""
        return pd.DataFrame(
            {
                "class": [rung.name for rung in self.rungs],
                "features": [rung.features for rung in self.rungs],
                "lower": [rung.lower.value for rung in self.rungs],
                "lower_low": [rung.lower.low for rung in self.rungs],
                "upper": [rung.upper.value for rung in self.rungs],
                "upper_high": [rung.upper.high for rung in self.rungs],
            }
        )

    def gain(self, poorer: Class, richer: Class) -> Interval:
        """Return the share of the variance that a richer class explains beyond a poorer one.

        Args:
            poorer: The class with the larger error.
            richer: The class with the smaller error.

        Returns:
            The difference of their held-out errors, with an interval over independent units.

        """
        return ratio(
            self.errors.held[poorer] - self.errors.held[richer], self.errors.points, self.variance
        )


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
    half = float(stats.t.ppf(0.975, max(1, count - 1)) * off.std(ddof=1) / math.sqrt(count))
    return Interval(value / unit, (value - half) / unit, (value + half) / unit, count)


def ladder(samples: Samples, seed: int = 0, *, progress: bool | None = None) -> Ladder:
    """Compute what the best map of each class would leave of the variance.

    Args:
        samples: The samples.
        seed: Where the random numbers start that divide a panel.
        progress: None shows a live line on a terminal, True writes plain lines too, False nothing.

    Returns:
        The ladder.

    Raises:
        InputError: If there are too few samples.

    """
    where = units(samples)
    _require_enough(samples, int(where.max()) + 1)
    features = Features(samples)
    with Progress("ladder", 0.0, wanted=progress, after=1.0) as shown:
        data = scaled(samples, features.of)
        made = sums(data, BLOCKS, seed, lambda share: shown.at("ladder · sums", 0.5 * share))
        for block in range(BLOCKS):
            if made.beside(block, (block + 1) % BLOCKS) is None:
                raise _too_few(samples, int(where.max()) + 1)
        fitted = fit_classes(features, made)
        shown.at("ladder · errors", 0.6)
        apart = None if samples.whole else near_and_far(features, made)
        errors, drift = _errors(samples, data, made, fitted, apart, where)
        if samples.whole:
            errors = _with_positions(errors, by_position(samples, BLOCKS, seed), where)
    points = errors.points
    # the error of the best constant inside is the variance
    variance = float(errors.inside["nothing"].sum() / points.sum())
    if not variance > 0:
        raise InputError("what is wanted is constant: its variance is {value}", variance)
    rungs = tuple(
        Rung(
            name,
            WORDS[name],
            len(fitted[name].columns) if name in fitted else samples.length * samples.d + 1,
            ratio(errors.inside[name], points, variance).within(0.0, math.inf),
            ratio(errors.held[name], points, variance).within(0.0, math.inf),
        )
        for name in CLASSES
        if name in errors.held
    )
    return Ladder(rungs, variance, errors, drift)


def _require_enough(samples: Samples, count: int) -> None:
    if count < LEAST_UNITS:
        raise _too_few(samples, count)


def _too_few(samples: Samples, count: int) -> InputError:
    what = "sequences" if samples.whole else f"stretches of {samples.reach} rows"
    return InputError(
        f"a ladder needs {LEAST_UNITS} independent {what} and more; there are {{value}}",
        count,
        "" if samples.whole else "Take a shorter window or a shorter horizon.",
    )


def _errors(
    samples: Samples,
    data: Scaled,
    made: Blocked,
    fitted: dict[Class, Fitted],
    apart: tuple[list[Float64[np.ndarray, "some out"]], list[Float64[np.ndarray, "some out"]]]
    | None,
    where: Int64[np.ndarray, " samples"],
) -> tuple[Errors, Interval | None]:
    """The squared errors of all classes by unit, and of filters from near against those from far."""
    count = int(where.max()) + 1
    names = [*fitted]
    width, out = data.width, samples.out
    kinds = 2 * len(names) + (0 if apart is None else 2)
    found = np.zeros((kinds, count))
    points = np.zeros(count, dtype=np.int64)
    for block in range(made.count):
        # one product of a batch with the coefficients of all classes side by side
        theta = np.zeros((width, kinds, out))
        for number, name in enumerate(names):
            theta[fitted[name].columns, 2 * number] = fitted[name].apart[block]
            theta[fitted[name].columns, 2 * number + 1] = fitted[name].whole
        if apart is not None:
            theta[fitted["filter"].columns, -2] = apart[0][block]
            theta[fitted["filter"].columns, -1] = apart[1][block]
        flat = theta.reshape(width, -1)
        for some, x, y in data.batches(np.flatnonzero(made.numbers == block)):
            off = (x @ flat).reshape(len(y), kinds, out) - y[:, None]
            square = (off**2).sum(-1)
            unit = np.repeat(where[some], samples.places)
            for kind in range(kinds):
                found[kind] += np.bincount(unit, square[:, kind], count)
            points += np.bincount(unit, minlength=count)
    errors = Errors(
        {name: found[2 * number] for number, name in enumerate(names)},
        {name: found[2 * number + 1] for number, name in enumerate(names)},
        points,
    )
    if apart is None:
        return errors, None
    near, far = found[-2], found[-1]
    apart_by = ratio(far - near, points, float(near.sum() / points.sum()))
    return errors, Interval(1 + apart_by.value, 1 + apart_by.low, 1 + apart_by.high, apart_by.count)


def _with_positions(
    errors: Errors, more: dict[str, ByPosition], where: Int64[np.ndarray, " samples"]
) -> Errors:
    """The errors with those of maps by position."""
    count = len(errors.points)
    return Errors(
        errors.held | {name: np.bincount(where, one.held, count) for name, one in more.items()},
        errors.inside | {name: np.bincount(where, one.inside, count) for name, one in more.items()},
        errors.points,
    )
