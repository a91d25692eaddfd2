"""What the epochs of a training came to: as records, a table, a figure, and in files."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from torch import nn

from attnrate.figures.figure import Curves, Figure, Series
from attnrate.shown import Shown
from attnrate.typed import require_types

if TYPE_CHECKING:
    import pandas as pd

    from attnrate.figures.drawing import Drawing

T = TypeVar("T")
_DIGITS = 6  # of numbers in results; further digits mean nothing


@dataclass(frozen=True)
class Epoch:
    """What one epoch of training came to.

    Attributes:
        number: The number of the epoch, from 0.
        loss: The mean loss over the batches, each at the time when it was trained on.
        accuracy: The mean share of right answers over the batches, likewise.
        test_loss: The loss on test data after the epoch; NaN without test data.
        test_accuracy: The share of right answers on test data; NaN without test data.
        seconds: The seconds that the epoch took, those of testing left out.
        waiting: The share of these seconds in which the model waited for data.
        speed: The images or tokens that were trained on per second.

    Examples:
        >>> import numpy as np, torch
        >>> images, labels = np.zeros((8, 32, 32, 3), np.uint8), np.arange(8)
        >>> data = ar.Photographs(images, labels, images, labels)
        >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 10))
        >>> done = ar.train_on_images(data, model, ar.EpochRecipe(epochs=2), batch=4)
        >>> [epoch.number for epoch in done.epochs]
        [0, 1]

    """

    number: int
    loss: float
    accuracy: float
    test_loss: float
    test_accuracy: float
    seconds: float
    waiting: float
    speed: float


def read_epochs(values: Iterable[Mapping[str, Any]]) -> tuple[Epoch, ...]:
    """The epochs in a file's values; a TypeError where these have other names or types."""
    epochs = tuple(Epoch(**each) for each in values)
    for epoch in epochs:
        require_types(epoch)
    return epochs


@dataclass(frozen=True)
class EpochSummary:
    """What the results of an experiment keep of an epoch; test values may be None."""

    loss: float
    accuracy: float
    test_loss: float | None
    test_accuracy: float | None
    seconds: float


@dataclass(frozen=True, repr=False)
class Training(Shown):
    """A finished training: the model, its epochs, and how it was computed.

    Attributes:
        model: The trained model itself.
        epochs: What each epoch came to.
        precision: "float32" or "bfloat16".
        threads: The number of torch's threads.
        checkpoint: The file of the last checkpoint; None without a folder.

    Examples:
        >>> import numpy as np, torch
        >>> images, labels = np.zeros((8, 32, 32, 3), np.uint8), np.arange(8)
        >>> data = ar.Photographs(images, labels, images, labels)
        >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 10))
        >>> ar.train_on_images(data, model, ar.EpochRecipe(epochs=2, threads=1), batch=4)
        Sequential: 2 epochs in ... min, loss ..., accuracy ..., test accuracy ...

    """

    model: nn.Module
    epochs: tuple[Epoch, ...]
    precision: str
    threads: int
    checkpoint: Path | None

    @property
    def seconds(self) -> float:
        """The seconds of training, those of testing left out."""
        return math.fsum(epoch.seconds for epoch in self.epochs)

    def __str__(self) -> str:
        count, last = len(self.epochs), self.epochs[-1]
        kind = type(self.model).__name__
        tested = math.isfinite(last.test_accuracy)
        parts = [
            f"{count} epoch{'s' * (count > 1)} in {self.seconds / 60:.1f} min",
            f"loss {last.loss:.3f}",
            f"accuracy {100 * last.accuracy:.1f} %",
            *([f"test accuracy {100 * last.test_accuracy:.1f} %"] if tested else []),
        ]
        return f"{kind}: {', '.join(parts)}"

    def to_frame(self) -> "pd.DataFrame":
        """The epochs as a table.

        Returns:
            A pandas DataFrame with one row per epoch and the fields of `Epoch` as columns.

        """
        return epochs_frame(self.epochs)

    def plot(self) -> "Drawing":
        """Draw the loss and the accuracy of each epoch, in training and on tests.

        Returns:
            A matplotlib figure that notebooks show.

        """
        from attnrate.figures.draw import draw

        return draw(epochs_figure(type(self.model).__name__, self.epochs))

    def _table(self) -> "pd.DataFrame":
        return self.to_frame()

    def _figure(self) -> "Drawing":
        return self.plot()

    @property
    def summaries(self) -> tuple[EpochSummary, ...]:
        """What the results of an experiment keep of each epoch."""
        kept = [each.name for each in fields(EpochSummary)]
        plain = [without_nan(asdict(epoch)) for epoch in self.epochs]
        return tuple(EpochSummary(**{name: one[name] for name in kept}) for one in plain)


def rounded(value: T) -> T:
    """A dataclass with all its floats rounded to six digits, nested ones too; None for NaN, inf."""
    made: T = _rounded(value)
    return made


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return tuple(map(_rounded, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _rounded(getattr(value, f.name)) for f in fields(value)})
    return value


def without_nan(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, with None in place of NaN, which JSON does not have."""
    return {name: None if value != value else value for name, value in values.items()}


def epochs_frame(epochs: Sequence[Epoch]) -> "pd.DataFrame":
    """The epochs as a table with one row each."""
    import pandas as pd

    return pd.DataFrame([asdict(epoch) for epoch in epochs])


def epochs_figure(title: str, epochs: Sequence[Epoch]) -> Figure:
    """The loss and the accuracy over epochs, in training and, where there are any, on tests."""
    number = tuple(epoch.number + 1 for epoch in epochs)

    def panel(name: str, label: str) -> Curves:
        own = Series("training", number, tuple(getattr(epoch, name) for epoch in epochs))
        values = tuple(getattr(epoch, f"test_{name}") for epoch in epochs)
        tested = any(map(math.isfinite, values))
        series = (own, Series("test", number, values)) if tested else (own,)
        return Curves("", "epoch", label, series)

    panels = panel("loss", "cross entropy"), panel("accuracy", "share of right answers")
    return Figure("epochs", title, "", panels)
