"""What `choose` gives: the verdict, its reasons, what led to it, and a model that predicts."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import pandas as pd
from jaxtyping import Float64

from attnrate.choose.heads import Heads
from attnrate.choose.kernel import Kernel
from attnrate.choose.ladder import Ladder
from attnrate.choose.outliers import Bounds
from attnrate.choose.plain import plain_of
from attnrate.choose.race import Race
from attnrate.choose.using import Model, New, lines_of, predicted, require_new, tokens_of
from attnrate.choose.verdict import Verdict
from attnrate.errors import InputError
from attnrate.fitting.job import Plain
from attnrate.settings import by, checked
from attnrate.shown import Shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attnrate.figures.drawing import Drawing


@dataclass(frozen=True)
class About:
    """What was asked, of which data.

    Attributes:
        source: Where the data come from.
        samples: The number of samples.
        window: The number of tokens of a sample.
        horizon: How many values ahead are wanted; 0 stands for the token's own time.
        whole: Whether samples are whole sequences with an output at each token.
        inputs: The name of each coordinate of a token.
        outputs: The name of each column that is wanted.
        step: The sampling step in words; "" if there are no times.
        seed: The seed.
        minutes: The minutes that were planned for the race and the heads.
        said: What was counted, left out and assumed, as sentences.

    Examples:
        >>> import numpy as np, pandas as pd
        >>> frame = pd.DataFrame({"y": np.random.default_rng(0).normal(size=500)})
        >>> about = ar.choose(frame, window=8, stage="ladder").about
        >>> about.source, about.samples, about.window, about.horizon, about.inputs
        ('a data frame', 492, 8, 1, ('y',))

    """

    source: str
    samples: int
    window: int
    horizon: int
    whole: bool
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    step: str
    seed: int
    minutes: float
    said: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Choice(Shown):
    """The answer of `choose`: whether these data need attention, and how large.

    Attributes:
        verdict: "nothing", "memoryless", "linear", "short-memory", "pairwise", "tie" or
            "cannot-tell".
        because: The reasons, as sentences with their numbers.
        winner: The name of the model that is worth taking: a class of the ladder or a contender of
            the race; "" if these data cannot tell.
        m_h: The head size that is enough for a Transformer; None where none was looked for.
        ladder: What the best map of each class leaves; None if there was no ladder.
        race: The race; None if none was run.
        heads: Errors against head sizes; None if they were not looked at.
        model: The winner, fitted to all samples; None if these data cannot tell.
        about: What was asked, of which data.
        seconds: How long it took.
        bounds: The values into which far-off inputs are drawn before the model reads them; None if
            no model reads them.

    Examples:
        >>> import numpy as np
        >>> drawn = np.random.default_rng(0)
        >>> x = drawn.normal(size=(400, 8, 1))
        >>> y = np.cumsum(x, axis=1) + 0.1 * drawn.normal(size=(400, 8, 1))
        >>> found = ar.choose(x, y, progress=False)
        >>> found.verdict, found.winner
        ('linear', 'filter')
        >>> found.predict(x[:5]).shape
        (5, 8, 1)

    """

    verdict: Verdict
    because: tuple[str, ...]
    winner: str
    m_h: int | None
    ladder: Ladder | None
    race: Race | None
    heads: Heads | None
    model: Model | None = field(repr=False)
    about: About
    seconds: float
    bounds: Bounds | None = field(repr=False)

    @property
    def kernel(self) -> Kernel | None:
        """The kernel of the best linear filter; None if there was no ladder."""
        return None if self.ladder is None else self.ladder.kernel

    @checked
    def predict(
        self, x: Annotated[New, by(require_new)]
    ) -> Float64[np.ndarray, "batch places out"]:
        """Predict by the winner.

        Args:
            x: Tokens of shape (N, window, d), whose coordinates are those of `about.inputs`; or a
                frame with these columns, whose last `window` rows are taken.

        Returns:
            The outputs: (N, 1, k · horizon) after each window, the k values of the next moment
            first; or (N, T, k) for whole sequences.

        Raises:
            InputError: If there is no winner, or x has another shape or missing values.

        """
        if self.model is None or self.bounds is None:
            raise InputError("there is no model to predict by: the verdict is", self.verdict)
        tokens = tokens_of(x, self.about.window, self.about.inputs)
        return predicted(self.model, self.bounds, tokens)

    def to_frame(self) -> pd.DataFrame:
        """Return a table of what each class, and each model of the race, leaves of the variance."""
        parts = []
        if self.ladder is not None:
            rungs = self.ladder.to_frame()
            parts.append(
                pd.DataFrame(
                    {
                        "kind": "class",
                        "name": rungs["class"],
                        "lower": rungs["lower_low"],
                        "left": rungs["upper"],
                        "upper": rungs["upper_high"],
                    }
                )
            )
        if self.race is not None:
            racers = self.race.to_frame()
            parts.append(
                pd.DataFrame(
                    {
                        "kind": "model",
                        "name": racers["contender"],
                        "lower": racers["share_low"],
                        "left": racers["share"],
                        "upper": racers["share_high"],
                    }
                )
            )
        empty = pd.DataFrame(columns=["kind", "name", "lower", "left", "upper"])
        return pd.concat(parts, ignore_index=True) if parts else empty

    def to_plain(self) -> Plain:
        """Return the answer as JSON values, with null for each number that is not finite."""
        return plain_of(self)

    def plot(self) -> "Drawing":
        """Draw what each class and each model leaves of the variance, on one axis.

        Returns:
            A matplotlib figure that notebooks show.

        """
        from attnrate.choose.drawn import draw

        return draw(self)

    @checked
    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write a page with its figures, tables as CSV, the answer as JSON, and the model.

        `load_choice` opens the folder again. Either all files are written or none.

        Args:
            folder: A new folder, or one that such a page was written into before.

        Returns:
            The path of the page.

        Raises:
            InputError: The folder holds something else, or cannot be written.
            StoreError: The disk is full.

        """
        from attnrate.choose.page.write import write

        return write(self, Path(folder))

    def _table(self) -> pd.DataFrame:
        return self.to_frame()

    def _figure(self) -> "Figure | None":
        return None if self.ladder is None and self.race is None else self.plot()

    def __str__(self) -> str:
        return "\n".join(lines_of(self.verdict, self.winner, self.m_h, self.because))
