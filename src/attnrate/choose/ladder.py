"""The ladder: what the best map of each class would leave of the data, from both sides."""

import math
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from jaxtyping import Int64

from attnrate.choose.drift import near_and_far
from attnrate.choose.features import MOST, Features
from attnrate.choose.folds import units
from attnrate.choose.kernel import Kernel, kernel_of
from attnrate.choose.positions import ByPosition, by_position
from attnrate.choose.rung_errors import Coupling, Errors, judge, ratio
from attnrate.choose.rung_model import RungModel, rung_model
from attnrate.choose.rungs import CLASSES, WORDS, Class, fit_classes
from attnrate.choose.samples import Samples
from attnrate.choose.sums import Blocked, Scaled, scaled, sums
from attnrate.errors import InputError
from attnrate.progress import Progress
from attnrate.statistics import Interval

#: Blocks that are held out in turn
BLOCKS = 6
#: Independent stretches of data that a ladder needs
LEAST_UNITS = 12
#: A variance below this share of the mean square around the mean is rounding,
_ROUNDING = 1e-12
#: and so is a standard deviation below this share of the mean
_EXACT = 1e-14


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
class Ladder:
    """The floors of classes of maps, from the poorest to the richest, with what they say.

    Attributes:
        rungs: The classes, each with its bracket.
        variance: The variance of what is wanted, summed over the coordinates of an output: the
            errors are shares of it.
        errors: The squared errors from which all of this follows.
        drift: The ratio of the errors of filters that were fitted far in time to those that were
            fitted nearby; 1 where the data have one law at all times. Of plain filters and those
            that follow the level, it is that of the kind which shows less. None for panels.
        coupling: What functions of single tokens leave of products of tokens.
        kernel: The kernel of the best linear filter.
        models: The least squares of the classes that are the same at all times, for use.

    """

    rungs: tuple[Rung, ...]
    variance: float
    errors: Errors = field(repr=False)
    drift: Interval | None
    coupling: Coupling
    kernel: Kernel = field(repr=False)
    models: dict[Class, RungModel] = field(repr=False)

    def __getitem__(self, name: Class) -> Rung:
        """The rung of one class."""
        for rung in self.rungs:
            if rung.name == name:
                return rung
        raise KeyError(name)

    @property
    def paired(self) -> bool:
        """Whether the class of pairs has any; tokens of very many coordinates leave no room."""
        return self["pairwise"].features > self["additive"].features

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


def ladder(samples: Samples, seed: int = 0, *, progress: bool | None = None) -> Ladder:
    """Compute what the best map of each class would leave of the variance.

    Args:
        samples: The samples.
        seed: Where the random numbers start that divide a panel.
        progress: None shows a live line on a terminal, True writes plain lines too, False nothing.

    Returns:
        The ladder.

    Raises:
        InputError: If there are too few samples or too many coordinates of a token, or what is
            wanted is constant.

    """
    if samples.d > MOST["linear"]:
        raise InputError(
            f"a ladder takes tokens of {MOST['linear']:,} coordinates at most; there are {{value}}",
            samples.d,
            "Leave some columns out.",
        )
    where = units(samples)
    _require_enough(samples, int(where.max()) + 1)
    features = Features(samples)
    with Progress("ladder", 0.0, wanted=progress, after=1.0) as shown:
        data = scaled(samples, features.of)
        made = sums(data, BLOCKS, seed, lambda share: shown.at("ladder · sums", 0.5 * share))
        for block in range(BLOCKS):
            if made.beside(block, (block + 1) % BLOCKS) is None:
                raise _too_few(samples, int(where.max()) + 1)
        _require_change(features, data, made)
        fitted = fit_classes(features, made)
        shown.at("ladder · errors", 0.6)
        apart = None if samples.whole else near_and_far(features, data, made)
        judged = judge(features, data, made, fitted, apart, where, seed)
        errors = judged.errors
        if samples.whole:
            errors = _with_positions(errors, by_position(samples, BLOCKS, seed), where)
        shown.at("ladder · kernel", 0.9)
        kernel = kernel_of(features, data, made, where)
    points = errors.points
    # the error of the best constant inside is the variance
    variance = float(errors.inside["nothing"].sum() / points.sum())
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
    models = {name: rung_model(features, data, one) for name, one in fitted.items()}
    return Ladder(rungs, variance, errors, judged.drift, judged.coupling, kernel, models)


def _require_enough(samples: Samples, count: int) -> None:
    if count < LEAST_UNITS:
        raise _too_few(samples, count)


def _require_change(features: Features, data: Scaled, made: Blocked) -> None:
    """Refuse outputs of which a constant, at each position of a panel, leaves only rounding."""
    constants = made.whole().of(features.columns("one"))
    left = constants.error(constants.solve(np.zeros(len(constants.gram))))
    size = constants.square / constants.points
    if left <= max(_ROUNDING * size, (_EXACT * float(np.abs(data.level).max())) ** 2):
        each = " at each position" if features.samples.whole else ""
        way_out = "Leave out what never changes, or add samples in which it does."
        raise InputError(
            f"what is wanted is constant{each}: its variance is {{value}}", left, way_out
        )


def _too_few(samples: Samples, count: int) -> InputError:
    what = "sequences" if samples.whole else f"stretches of {samples.reach} rows"
    return InputError(
        f"a ladder needs {LEAST_UNITS} independent {what} and more; there are {{value}}",
        count,
        "" if samples.whole else "Take a shorter window or a shorter horizon.",
    )


def _with_positions(
    errors: Errors, more: dict[Class, ByPosition], where: Int64[np.ndarray, " samples"]
) -> Errors:
    """The errors with those of maps by position."""
    count = len(errors.points)
    return Errors(
        errors.held | {name: np.bincount(where, one.held, count) for name, one in more.items()},
        errors.inside | {name: np.bincount(where, one.inside, count) for name, one in more.items()},
        errors.points,
    )
