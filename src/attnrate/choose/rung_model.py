"""A class of the ladder as a model that predicts, and goes to a file and back."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64
from pydantic import TypeAdapter

from attnrate.choose.features import Features, sorted_values
from attnrate.choose.rungs import Fitted
from attnrate.choose.samples import Samples
from attnrate.choose.sums import Scaled
from attnrate.errors import StoreError
from attnrate.files import write_whole

#: The arrays of a file, beside the known values of each coordinate
_ARRAYS = ("columns", "centre", "scale", "theta", "level")
#: Sequences that are computed at a time
_BATCH = 4096


@dataclass(frozen=True)
class _Shape:
    """What the metadata of a file say: the shape of a sample."""

    length: int
    horizon: int
    whole: bool
    coordinates: int


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
        parts = [self._some(x[first : first + _BATCH]) for first in range(0, len(x), _BATCH)]
        return np.concatenate(parts)

    def save(self, path: str | Path) -> Path:
        """Write the model to a safetensors file, with the shape of a sample in its metadata.

        Args:
            path: The name of the file.

        Returns:
            The path of the file.

        """
        from safetensors.numpy import save

        facts = {
            "length": self.length,
            "horizon": self.horizon,
            "whole": self.whole,
            "coordinates": len(self.known),
        }
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrays |= {f"known.{each}": values for each, values in enumerate(self.known)}
        kept = {name: np.ascontiguousarray(each) for name, each in arrays.items()}
        write_whole(Path(path), save(kept, {"attnrate": json.dumps(facts)}))
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> "RungModel":
        """Open a model that `save` has written; no code is run.

        Args:
            path: The name of the file.

        Raises:
            StoreError: If the file is not there or is no such model.

        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="np") as file:
                facts = (file.metadata() or {})["attnrate"]
                arrays = {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
            shape = TypeAdapter(_Shape).validate_json(facts, strict=True)
            known = tuple(arrays[f"known.{each}"] for each in range(shape.coordinates))
            opened = cls(
                shape.length, shape.horizon, shape.whole, known, *(arrays[name] for name in _ARRAYS)
            )
            opened._check()
        except (OSError, KeyError, ValueError, TypeError, SafetensorError) as problem:
            raise StoreError(
                f"this is no whole model of attnrate choose ({problem})", path, "Fit it anew."
            ) from problem
        return opened

    def _check(self) -> None:
        """Raise a ValueError unless all parts fit together."""
        floats = (self.centre, self.scale, self.theta, self.level, *self.known)
        if any(each.dtype != np.float64 or not np.isfinite(each).all() for each in floats):
            raise ValueError("its numbers are no finite float64")
        count, out = len(self.columns), len(self.level)
        shapes = (self.columns, self.centre, self.scale, self.theta, self.level)
        wanted = [(count,), (count,), (count,), (count, out), (out,)]
        if [each.shape for each in shapes] != wanted or not self.scale.all():
            raise ValueError("its arrays do not fit together")
        if not self.known or any(not each.size or (np.diff(each) < 0).any() for each in self.known):
            raise ValueError("its known values are not in order")
        if self.length < 1 or self.horizon < 0 or not out or out % max(1, self.horizon):
            raise ValueError("its shape is none of a sample")
        made = len(Features(self._samples(np.zeros((0, self.length, len(self.known))))).groups)
        if (
            self.columns.dtype != np.int64
            or not ((self.columns >= 0) & (self.columns < made)).all()
        ):
            raise ValueError("its columns are no features")

    def _some(
        self, x: Float64[np.ndarray, "batch length d"]
    ) -> Float64[np.ndarray, "batch places out"]:
        samples = self._samples(x)
        made = Features(samples, self.known).of(np.arange(len(x)))[:, self.columns]
        found = ((made - self.centre) / self.scale) @ self.theta + self.level
        return np.asarray(found.reshape(len(x), samples.places, -1))

    def _samples(self, x: Float64[np.ndarray, "batch length d"]) -> Samples:
        """Samples of these tokens, of which nothing is wanted."""
        count, length, d = x.shape
        rows = count * length
        return Samples(
            x=x.reshape(rows, d),
            y=np.zeros((rows, len(self.level) // max(1, self.horizon))),
            starts=np.arange(count) * length,
            length=self.length,
            horizon=self.horizon,
            whole=self.whole,
            time=np.repeat(np.arange(count), length),
            inputs=tuple(map(str, range(d))),
            outputs=(),
        )


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
        features.known or sorted_values(samples.x),
        fitted.columns,
        data.centre[fitted.columns],
        data.scale[fitted.columns],
        # the layout may decide the last bit of a product, and a file keeps this one
        np.ascontiguousarray(fitted.kept),
        data.level,
    )
