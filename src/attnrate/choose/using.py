"""How an answer is used: what it reads of new data, what its model gives, what it says in lines."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from jaxtyping import Float64

from attnrate.choose.outliers import Bounds
from attnrate.choose.predictor import Predictor
from attnrate.choose.rung_model import RungModel
from attnrate.choose.rungs import WORDS
from attnrate.choose.verdict import MEANING, Verdict
from attnrate.errors import InputError

#: Tokens to predict from: a frame, or numbers of three axes
New: TypeAlias = pd.DataFrame | npt.ArrayLike | torch.Tensor
#: A fitted winner: a class of the ladder, or a contender of the race
Model: TypeAlias = RungModel | Predictor


def require_new(name: str, value: object) -> object:
    """Refuse what cannot hold tokens.

    Args:
        name: The name of the argument.
        value: What was given.

    Returns:
        What was given.

    """
    if value is None or isinstance(value, str):
        raise InputError(f"{name} must be a data frame or an array", value, "As predict(frame).")
    return value


def tokens_of(
    x: New, window: int, inputs: tuple[str, ...]
) -> Float64[np.ndarray, "batch window d"]:
    """Read tokens, of a frame the columns of these names in its last rows.

    Args:
        x: What was given.
        window: The number of tokens of a sample.
        inputs: The name of each coordinate of a token.

    Raises:
        InputError: It has another shape, or values that are missing or no numbers.

    """
    if isinstance(x, pd.DataFrame):
        x = _last_rows(x, window, inputs)
    if isinstance(x, torch.Tensor):
        x = x.detach().cpu().numpy()
    try:
        tokens = np.asarray(x, dtype=float)
    except (TypeError, ValueError) as problem:
        raise InputError(f"x must be numbers ({problem})", type(x).__name__) from None
    if tokens.ndim != 3 or tokens.shape[1:] != (window, len(inputs)):
        way_out = f"The coordinates are {', '.join(inputs)}."
        raise InputError(
            f"x must have the shape (N, {window}, {len(inputs)})", tokens.shape, way_out
        )
    if not len(tokens):
        raise InputError("x has no samples; its shape is", tokens.shape, "Pass at least one.")
    if not np.isfinite(tokens).all():
        raise InputError(
            "x has {value} values that are missing or not finite",
            int((~np.isfinite(tokens)).sum()),
            "Missing values are not filled in.",
        )
    return tokens


def _last_rows(
    frame: pd.DataFrame, window: int, inputs: tuple[str, ...]
) -> Float64[np.ndarray, "one window d"]:
    missing = [name for name in inputs if name not in frame.columns]
    if missing:
        raise InputError("the frame lacks columns that the model reads", missing)
    if len(frame) < window:
        raise InputError(f"the frame must have the {window} rows of a window", len(frame))
    try:
        return np.asarray(frame[[*inputs]].to_numpy(float)[-window:][None])
    except (TypeError, ValueError) as problem:
        way_out = f"The model reads {', '.join(inputs)}."
        said = f"the columns that the model reads must be numbers ({problem})"
        raise InputError(said, [str(each) for each in frame[[*inputs]].dtypes], way_out) from None


def predicted(
    model: Model, bounds: Bounds, tokens: Float64[np.ndarray, "batch window d"]
) -> Float64[np.ndarray, "batch places out"]:
    """Predict, after values far outside of all that were learned from have been drawn in.

    Args:
        model: The fitted winner.
        bounds: How far values may lie outside.
        tokens: The tokens, in units of the data.

    """
    drawn = bounds.of(tokens)
    if isinstance(model, RungModel):
        return model(drawn)
    with torch.no_grad():
        return np.asarray(model(torch.from_numpy(drawn)).numpy())


def lines_of(
    verdict: Verdict, winner: str, m_h: int | None, because: tuple[str, ...]
) -> tuple[str, ...]:
    """Say an answer in lines: the verdict, what is worth taking, the reasons.

    Args:
        verdict: The verdict.
        winner: What is worth taking; "" if that cannot be told.
        m_h: The head size that is enough; None where none was looked for.
        because: The reasons.

    """
    lines = [f"{verdict}: {MEANING[verdict]}"]
    if winner:
        meant = next((words for name, words in WORDS.items() if name == winner), None)
        what = winner if meant is None else f"{winner} ({meant})"
        lines.append(f"take: {what}" + ("" if m_h is None else f", m_h = {m_h}"))
    return (*lines, *(f"- {reason}" for reason in because))
