"""A class of the ladder as a model that predicts: its coefficients and what its features need."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from attnrate.choose.features import Features
from attnrate.choose.rungs import Fitted
from attnrate.choose.samples import Samples
from attnrate.choose.sums import Scaled

#: Coordinates of tokens that are computed at a time
_BATCH = 200_000


@dataclass(frozen=True, eq=False)
class RungModel:
    """The least squares of one class: y = level + θᵀ (features - centre) / scale.

    Attributes:
        length: The number of tokens of a sample.
        horizon: How many values ahead are wanted; 0 stands for the token's own time.
        whole: Whether each token of a sample has an output.
        known: Sorted values of each coordinate, among which ranks are taken.
        columns: The columns of the class among all features.
        centre: What is subtracted from each column.
        scale: What each column is divided by.
        theta: The coefficients of the scaled columns.
        level: What is added to each coordinate of an output.

    """

    length: int
    horizon: int
    whole: bool
    known: tuple[Float64[np.ndarray, " values"], ...]
    columns: Int64[np.ndarray, " some"]
    centre: Float64[np.ndarray, " some"]
    scale: Float64[np.ndarray, " some"]
    theta: Float64[np.ndarray, "some out"]
    level: Float64[np.ndarray, " out"]

    def __call__(
        self, x: Float64[np.ndarray, "batch length d"]
    ) -> Float64[np.ndarray, "batch places out"]:
        """Predict the outputs of samples.

        Args:
            x: The tokens of the samples.

        """
        if len(x) == 0:
            return np.zeros((0, self.length if self.whole else 1, len(self.level)))
        size = max(1, _BATCH // x[0].size)
        parts = [self._some(x[first : first + size]) for first in range(0, len(x), size)]
        return np.concatenate(parts)

    def _some(
        self, x: Float64[np.ndarray, "batch length d"]
    ) -> Float64[np.ndarray, "batch places out"]:
        count, length, d = x.shape
        rows = count * length
        samples = Samples(
            x=x.reshape(rows, d),
            y=np.zeros((rows, len(self.level) // max(1, self.horizon))),
            starts=np.arange(count) * length,
            length=length,
            horizon=self.horizon,
            whole=self.whole,
            time=np.repeat(np.arange(count), length),
            inputs=tuple(map(str, range(d))),
            outputs=(),
        )
        made = Features(samples, self.known).of(np.arange(count))[:, self.columns]
        found = ((made - self.centre) / self.scale) @ self.theta + self.level
        return np.asarray(found.reshape(count, samples.places, len(self.level)))


def rung_model(features: Features, data: Scaled, fitted: Fitted) -> RungModel:
    """Take the model of a class out of the ladder.

    Args:
        features: The features of the ladder.
        data: Their scaled columns.
        fitted: The coefficients of the class.

    """
    samples = features.samples
    return RungModel(
        samples.length,
        samples.horizon,
        samples.whole,
        features.values,
        fitted.columns,
        data.centre[fitted.columns],
        data.scale[fitted.columns],
        fitted.kept,
        data.level,
    )
