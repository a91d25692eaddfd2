"""An answer opened from its folder, as a model that predicts, without running any code in it."""

import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import numpy as np
from jaxtyping import Float64
from pydantic import TypeAdapter, ValidationError

from attnrate.choose.outliers import Bounds
from attnrate.choose.predictor import Predictor
from attnrate.choose.result import About, Choice
from attnrate.choose.rung_model import RungModel
from attnrate.choose.using import Model, New, lines_of, predicted, require_new, tokens_of
from attnrate.choose.verdict import Verdict
from attnrate.errors import InputError, StoreError
from attnrate.fitting.job import Plain
from attnrate.folders import read_mark
from attnrate.settings import by, checked
from attnrate.shown import Shown

#: The command whose mark the folder has
COMMAND = "choose"
#: The file of the answer
ANSWER = "choose.json"
#: The file of the fitted winner; there is none where the data cannot tell
MODEL = "model.safetensors"

#: What the fitted winner is: a class of the ladder, a contender of the race, or nothing
_Kind: TypeAlias = Literal["class", "contender"] | None
_WAY_OUT = "Copy the folder once more, or choose again."


@dataclass(frozen=True, eq=False, repr=False)
class SavedChoice(Shown):
    """An answer of `choose` that was saved: its verdict, what it was asked of, and its model.

    The tables of the ladder, the race, the heads and the kernel are CSV files of the same folder.

    Attributes:
        verdict: "nothing", "memoryless", "linear", "short-memory", "pairwise", "tie" or
            "cannot-tell".
        because: The reasons, as sentences with their numbers.
        winner: The name of the model that is worth taking; "" if the data cannot tell.
        m_h: The head size that is enough for a Transformer; None where none was looked for.
        model: The winner, fitted to all samples; None if the data cannot tell.
        about: What was asked, of which data.
        bounds: The values into which far-off inputs are drawn before the model reads them.

    Examples:
        >>> import numpy as np, pandas as pd
        >>> drawn = np.random.default_rng(0).normal(size=2000)
        >>> frame = pd.DataFrame({"x": drawn[1:], "y": drawn[1:] + drawn[:-1]})
        >>> _ = ar.choose(frame, horizon=0, window=8, stage="ladder").save("answer")
        >>> kept = ar.load_choice("answer")
        >>> kept.verdict, kept.winner, kept.about.window
        ('linear', 'filter', 8)

    """

    verdict: Verdict
    because: tuple[str, ...]
    winner: str
    m_h: int | None
    model: Model | None = field(repr=False)
    about: About
    bounds: Bounds = field(repr=False)

    @checked
    def predict(
        self, x: Annotated[New, by(require_new)]
    ) -> Float64[np.ndarray, "batch places out"]:
        """Predict by the winner, bit for bit as the answer that was saved.

        Args:
            x: Tokens of shape (N, window, d), whose coordinates are those of `about.inputs`; or a
                frame with these columns, whose last `window` rows are taken.

        Returns:
            The outputs: (N, 1, k · horizon) after each window, the k values of the next moment
            first; or (N, T, k) for whole sequences.

        Raises:
            InputError: If there is no winner, or x has another shape or missing values.

        """
        if self.model is None:
            raise InputError("there is no model to predict by: the verdict is", self.verdict)
        tokens = tokens_of(x, self.about.window, self.about.inputs)
        return predicted(self.model, self.bounds, tokens)

    def __str__(self) -> str:
        return "\n".join(lines_of(self.verdict, self.winner, self.m_h, self.because))


@dataclass(frozen=True)
class _Ends:
    """Bounds as JSON has them: null for an end that is not there."""

    low: tuple[float | None, ...]
    high: tuple[float | None, ...]


@dataclass(frozen=True)
class _Kept:
    """What is read of the file of an answer."""

    verdict: Verdict
    because: tuple[str, ...]
    winner: str
    m_h: int | None
    about: About
    model: _Kind
    bounds: _Ends


def kept_of(choice: Choice) -> Plain:
    """Give what a file has of an answer beside `to_plain`: what its model is, and its bounds.

    Args:
        choice: The answer.

    """
    kind: _Kind = None
    if choice.model is not None:
        kind = "class" if isinstance(choice.model, RungModel) else "contender"
    bounds = choice.bounds
    width = len(choice.about.inputs)
    low = np.full(width, -math.inf) if bounds is None else bounds.low
    high = np.full(width, math.inf) if bounds is None else bounds.high
    return {"model": kind, "bounds": {"low": _ends(low), "high": _ends(high)}}


def _ends(values: Float64[np.ndarray, " d"]) -> list[float | None]:
    return [float(each) if np.isfinite(each) else None for each in values]


def _require_folder(name: str, value: object) -> Path:
    if not isinstance(value, str | os.PathLike) or not str(value):
        raise InputError("an answer is opened from a folder", value, "Pass the folder's path.")
    return Path(value)


@checked
def load_choice(folder: Annotated[str | os.PathLike[str], by(_require_folder)]) -> SavedChoice:
    """Open an answer that was saved, to predict by its model.

    Nothing but `choose.json` and `model.safetensors` is read, and no code in them is run.

    Args:
        folder: A folder that `Choice.save` or `attnrate choose --out` has written.

    Returns:
        The verdict with its reasons, what was asked, and the fitted winner.

    Raises:
        InputError: The folder is not there, or no answer was saved in it.
        StoreError: A file in it is missing or damaged.

    Examples:
        >>> import numpy as np
        >>> drawn = np.random.default_rng(0)
        >>> x = drawn.normal(size=(400, 8, 1))
        >>> y = np.cumsum(x, axis=1) + 0.1 * drawn.normal(size=(400, 8, 1))
        >>> found = ar.choose(x, y, progress=False)
        >>> _ = found.save("kept-answer")
        >>> again = ar.load_choice("kept-answer")
        >>> again.verdict, bool((again.predict(x) == found.predict(x)).all())
        ('linear', True)

    """
    place = Path(folder)
    if not place.is_dir():
        what = "this is a file, not a folder" if place.exists() else "there is no such folder"
        raise InputError(what, str(place), "Pass the folder that the page is in.")
    way_out = "Pass a folder that Choice.save or attnrate choose --out has written."
    read_mark(place, COMMAND, way_out)
    kept = _read(place / ANSWER)
    ends = np.array([-math.inf if each is None else each for each in kept.bounds.low])
    other = np.array([math.inf if each is None else each for each in kept.bounds.high])
    model = _model(place / MODEL, kept)
    return SavedChoice(
        kept.verdict,
        kept.because,
        kept.winner,
        kept.m_h,
        model,
        kept.about,
        Bounds(ends, other),
    )


def _read(path: Path) -> _Kept:
    """The answer in a file; a StoreError if it is not there or holds something else."""
    try:
        kept = TypeAdapter(_Kept).validate_json(path.read_bytes())
        width = len(kept.about.inputs)
        if not len(kept.bounds.low) == len(kept.bounds.high) == width:
            raise ValueError(f"it has bounds of other columns than its {width}")
    except (OSError, ValueError) as problem:
        said = str(problem)
        if isinstance(problem, ValidationError):
            first = problem.errors()[0]
            said = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise StoreError(
            f"this is no whole answer of attnrate choose ({said})", path, _WAY_OUT
        ) from problem
    return kept


def _model(path: Path, kept: _Kept) -> Model | None:
    """The fitted winner; a StoreError if it is none of this answer."""
    if kept.model is None:
        return None
    about = kept.about
    sizes = about.window, len(about.inputs)
    if kept.model == "class":
        found = RungModel.load(path)
        model: Model = found
        there = found.length, len(found.known)
        places = found.horizon, found.whole
    else:
        trained = Predictor.load(path)
        model, shape = trained, trained.make.shape
        there = shape.length, shape.d
        places = about.horizon, shape.whole
    if there != sizes or places != (about.horizon, about.whole):
        raise StoreError("this model belongs to another answer", path, _WAY_OUT)
    return model
