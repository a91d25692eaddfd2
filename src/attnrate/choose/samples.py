"""What is learned from: windows of a series, or whole sequences, with what is wanted for each."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64


@dataclass(frozen=True, eq=False)
class Samples:
    """Sequences of tokens, each with the outputs that are wanted for it.

    Rows hold the tokens of all series, one after the other; a sample is `length` of them in a row.
    Of a series (`whole` False) a sample is a window, and the output belongs to its last token: the
    next `horizon` values, or with the horizon 0 the value at that token itself. Of a panel (`whole`
    True) a sample is a sequence, and each of its tokens has an output.

    Attributes:
        x: The tokens. Rows with missing values, which are nan, belong to no sample.
        y: What is observed at each token, in units of the data.
        starts: The first row of each sample, in the order of time; of a panel in any order.
        length: The number of tokens of a sample.
        horizon: How many values ahead are wanted; 0 stands for the token's own time.
        whole: Whether samples are whole sequences with an output at each token.
        time: The time of each row as a whole number, common to all series; of a panel the number
            of its sequence.
        inputs: The name of each coordinate of a token.
        outputs: The name of each column of y.

    """

    x: Float64[np.ndarray, "rows d"]
    y: Float64[np.ndarray, "rows k"]
    starts: Int64[np.ndarray, " samples"]
    length: int
    horizon: int
    whole: bool
    time: Int64[np.ndarray, " rows"]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def count(self) -> int:
        """The number of samples."""
        return len(self.starts)

    @property
    def d(self) -> int:
        """The number of coordinates of a token."""
        return int(self.x.shape[1])

    @property
    def places(self) -> int:
        """The number of tokens of a sample that have an output."""
        return self.length if self.whole else 1

    @property
    def out(self) -> int:
        """The number of coordinates of an output."""
        return int(self.y.shape[1]) * max(self.horizon, 1)

    @property
    def reach(self) -> int:
        """The number of rows that a sample and what is wanted for it take together."""
        return self.length + self.horizon

    def tokens(self, which: Int64[np.ndarray, " some"]) -> Float64[np.ndarray, "some length d"]:
        """Give the tokens of some samples.

        Args:
            which: The numbers of the samples.

        """
        return np.asarray(self.x[self.starts[which, None] + np.arange(self.length)])

    def truth(self, which: Int64[np.ndarray, " some"]) -> Float64[np.ndarray, "some places out"]:
        """Give the outputs that are wanted for some samples.

        Args:
            which: The numbers of the samples.

        """
        first = self.starts[which, None]
        if self.whole:
            return np.asarray(self.y[first + np.arange(self.length)])
        last = first + self.length - 1
        ahead = np.arange(1, self.horizon + 1) if self.horizon else np.zeros(1, dtype=int)
        return np.asarray(self.y[last + ahead].reshape(len(which), 1, -1))

    def moments(self) -> tuple[Float64[np.ndarray, " samples"], Float64[np.ndarray, " samples"]]:
        """Give the first and the last time that each sample needs, what is wanted included."""
        last = self.starts + self.length - 1 + (0 if self.whole else self.horizon)
        return self.time[self.starts].astype(float), self.time[last].astype(float)
