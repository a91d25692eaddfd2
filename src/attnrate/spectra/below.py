"""The one door from this room to what is built on it: it is opened when it is used, not before.

A profile ends in an advice, and people want to act on it at once; a folder of a compressed model is
opened by `load_model` as any other. Both live in `compress`, which needs all of this room.
"""

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

from torch import nn

if TYPE_CHECKING:
    from attnrate.compress.result import Compressed as Compressed
    from attnrate.spectra.advise import Advice
    from attnrate.spectra.batches import Inputs
    from attnrate.spectra.load import ModelLike


class CutOptions(TypedDict):
    """What `compress` is asked for besides sizes; it says what each means."""

    multiple_of: int | None
    values: bool
    repair: int
    together: int
    shared: Literal["head", "layer", "model"]
    metric: Callable[[nn.Module], float] | None
    timing: float
    seed: int
    resume: str | PathLike[str] | None
    progress: bool | None


def compressed_as(
    advice: "Advice", model: "ModelLike", inputs: "Inputs", options: CutOptions
) -> "Compressed":
    """A model cut to the sizes of an advice."""
    from attnrate.compress.compress import compress

    return compress(model, inputs, sizes=advice, **options)


def holds_compressed(folder: Path) -> bool:
    """Whether a folder holds a compressed model in attnrate's own format."""
    from attnrate.compress.opened import SETTINGS

    return (folder / SETTINGS).is_file()


def open_compressed(folder: Path) -> nn.Module:
    """The model of such a folder, in evaluation mode."""
    from attnrate.compress.opened import open_folder

    return open_folder(folder)
