"""A fitted contender in units of the data: it scales, predicts, and goes to a file and back."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, Float32, Float64, Int64
from pydantic import TypeAdapter
from torch import nn

from attnrate.choose.contender import Shape, contender
from attnrate.choose.samples import Samples
from attnrate.errors import InputError, StoreError
from attnrate.files import write_whole

Tensor = torch.Tensor

#: The least standard deviation, beside the size of the numbers themselves, that is divided by
_LEAST = 1e-9


@dataclass(frozen=True)
class Make:
    """How a contender is made again: its name, what it maps, and its sizes.

    Attributes:
        name: The name of the contender.
        shape: What it maps.
        size: Its size, as `Contender.size` gives it.
        m_h: Its head size; None for models without heads.

    """

    name: str
    shape: Shape
    size: int
    m_h: int | None = None

    def model(self) -> nn.Module:
        """Make the module, with the weights of torch's random numbers as they are now."""
        return contender(self.name).make(self.shape, self.size, self.m_h)


@dataclass(frozen=True, eq=False)
class Scales:
    """Means and standard deviations of the coordinates of tokens and of outputs.

    Attributes:
        x_mean: The mean of each coordinate of a token.
        x_scale: Its standard deviation; 1 for a constant.
        y_mean: The mean of each coordinate of an output.
        y_scale: Its standard deviation; 1 for a constant.

    """

    x_mean: Float64[np.ndarray, " d"]
    x_scale: Float64[np.ndarray, " d"]
    y_mean: Float64[np.ndarray, " out"]
    y_scale: Float64[np.ndarray, " out"]

    @classmethod
    def of(cls, samples: Samples, which: Int64[np.ndarray, " some"]) -> "Scales":
        """Measure them on the rows that some samples have, each row once.

        Args:
            samples: The samples.
            which: The numbers of those that are measured.

        """
        first = samples.starts[which]
        inside = _covered(first, samples.length, len(samples.x))
        wanted = inside
        if not samples.whole:
            ahead = first + samples.length - 1 + (1 if samples.horizon else 0)
            wanted = _covered(ahead, max(samples.horizon, 1), len(samples.x))
        x_mean, x_scale = _moments(samples.x[inside])
        y_mean, y_scale = _moments(samples.y[wanted])
        times = samples.out // samples.y.shape[1]
        return cls(x_mean, x_scale, np.tile(y_mean, times), np.tile(y_scale, times))

    def rows(self, x: Float64[np.ndarray, "rows d"]) -> Float32[Tensor, "rows d"]:
        """Give tokens as models see them.

        Args:
            x: The tokens in units of the data.

        """
        return torch.from_numpy((x - self.x_mean) / self.x_scale).float()

    def wanted(
        self, y: Float64[np.ndarray, "some places out"]
    ) -> Float32[Tensor, "some places out"]:
        """Give outputs as models are to give them.

        Args:
            y: The outputs in units of the data.

        """
        return torch.from_numpy((y - self.y_mean) / self.y_scale).float()


class Predictor(nn.Module):
    """A fitted contender in units of the data.

    Args:
        make: How its model is made.
        scales: The means and standard deviations of the part that it was trained on.
        model: The model in scaled units. Default: a new one, as `make` makes it.

    """

    if TYPE_CHECKING:
        # torch says nothing of what a module gives when it is called
        def __call__(self, x: torch.Tensor) -> torch.Tensor: ...  # noqa: D102

    x_mean: Tensor
    x_scale: Tensor
    y_mean: Tensor
    y_scale: Tensor

    def __init__(self, make: Make, scales: Scales, model: nn.Module | None = None) -> None:
        super().__init__()
        self.make = make
        self.model = make.model() if model is None else model
        for name, value in asdict(scales).items():
            self.register_buffer(name, torch.from_numpy(np.array(value)))

    def forward(self, x: Float[Tensor, "batch length d"]) -> Float[Tensor, "batch places out"]:
        """Map tokens to outputs, (batch, length, d) to (batch, places, out), in units of the data.

        Args:
            x: The tokens; (N, 1, out) is what a window gives, (N, length, out) a sequence.

        """
        shape = self.make.shape
        if x.ndim != 3 or tuple(x.shape[1:]) != (shape.length, shape.d):
            raise InputError(
                f"this model takes arrays of the shape (N, {shape.length}, {shape.d})",
                tuple(x.shape),
                "N samples of that many tokens and coordinates.",
            )
        scaled = ((x.double() - self.x_mean) / self.x_scale).float()
        outputs: Tensor = self.model(scaled).double() * self.y_scale + self.y_mean
        return outputs

    def save(self, path: str | Path) -> Path:
        """Write the model to a safetensors file, with how it is made as JSON in its metadata.

        Args:
            path: The name of the file.

        Returns:
            The path of the file.

        """
        from safetensors.torch import save

        tensors = {name: each.detach().contiguous() for name, each in self.state_dict().items()}
        write_whole(Path(path), save(tensors, {"attnrate": json.dumps(asdict(self.make))}))
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> "Predictor":
        """Open a model that `save` has written; no code is run.

        Args:
            path: The name of the file.

        Raises:
            StoreError: If the file is not there or is no such model.

        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="pt") as file:
                facts = (file.metadata() or {})["attnrate"]
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            made = TypeAdapter(Make).validate_json(facts)
            names = ("x_mean", "x_scale", "y_mean", "y_scale")
            opened = cls(made, Scales(*(tensors[name].numpy() for name in names)))
            opened.load_state_dict(tensors)
        except (OSError, KeyError, ValueError, RuntimeError, SafetensorError) as problem:
            raise StoreError(
                f"this is no whole model of attnrate choose ({problem})", path, "Fit it anew."
            ) from problem
        return opened.eval()


def _covered(first: Int64[np.ndarray, " some"], count: int, rows: int) -> np.ndarray:
    """Whether each row is one of `count` rows from one of the first ones on."""
    steps = np.zeros(rows + 1, dtype=np.int64)
    np.add.at(steps, first, 1)
    np.add.at(steps, first + count, -1)
    return np.cumsum(steps)[:-1] > 0


def _moments(
    rows: Float64[np.ndarray, "rows k"],
) -> tuple[Float64[np.ndarray, " k"], Float64[np.ndarray, " k"]]:
    mean, scale = rows.mean(0), rows.std(0)
    # rounding gives a constant a tiny deviation
    constant = scale <= _LEAST * np.abs(mean) + 1e-300
    return mean, np.where(constant, 1.0, scale)
