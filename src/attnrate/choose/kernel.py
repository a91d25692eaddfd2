"""The kernel of the best linear filter: its values with bands, how far it reaches, and C_RNN."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float64, Int64

from attnrate.choose.features import Features
from attnrate.choose.sums import NONE, Blocked, Scaled
from attnrate.statistics import t_quantile
from attnrate.theory.recurrent import RNNComplexity, rnn_complexity

#: Groups of units at most, for the covariance of the coefficients
_GROUPS = 200
#: Values of a kernel from which a law of decay is read
_DECAYING = 8
#: Units, counted by their share of a column's variance, without which no value is sure
_SPREAD = 5.0


@dataclass(frozen=True, eq=False)
class Kernel:
    """The linear filter that explains most: y(t) = Σ_s ρ(s) x(t-s), without a ridge.

    Bands hold at any dependence of errors within a unit, such as that of overlapping windows.

    Attributes:
        lags: The lags s.
        inputs: The names of the coordinates of a token.
        outputs: The names of the coordinates of an output.
        values: ρ at [lag, input, output], in units of the output over units of the input.
        half: Half the width of the 95 % band of each value.
        reach: The last lag at which any value is surely not zero, all of them tested at once with
            5 % of wrong findings; -1 if there is none.
        complexity: C_RNN of the kernel up to `reach`, in units of the data; None with several
            inputs or outputs, or where the kernel is too short to show a decay.

    Examples:
        >>> import numpy as np, pandas as pd
        >>> drawn = np.random.default_rng(0)
        >>> x = drawn.normal(size=2000)
        >>> y = np.convolve(x, [1.0, 0.5])[:2000] + 0.1 * drawn.normal(size=2000)
        >>> frame = pd.DataFrame({"x": x, "y": y})
        >>> kernel = ar.choose(frame, horizon=0, window=8, stage="ladder").kernel
        >>> kernel.reach, kernel.values[:2, 0, 0].round(1).tolist()
        (1, [1.0, 0.5])

    """

    lags: Int64[np.ndarray, " lags"]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    values: Float64[np.ndarray, "lags inputs outputs"]
    half: Float64[np.ndarray, "lags inputs outputs"]
    reach: int
    complexity: RNNComplexity | None

    def to_frame(self) -> pd.DataFrame:
        """Return a table with a row for each lag, input and output."""
        shape = self.values.shape
        lag, one, two = (each.reshape(-1) for each in np.indices(shape))
        values, half = self.values.reshape(-1), self.half.reshape(-1)
        return pd.DataFrame(
            {
                "lag": self.lags[lag],
                "input": np.array(self.inputs, dtype=object)[one],
                "output": np.array(self.outputs, dtype=object)[two],
                "value": values,
                "low": values - half,
                "high": values + half,
            }
        )


def kernel_of(
    features: Features,
    data: Scaled,
    made: Blocked,
    where: Int64[np.ndarray, " samples"],
) -> Kernel:
    """Compute the kernel and its bands from the sums of a ladder.

    With residuals r and columns x the covariance of the coefficients is A⁻¹ (Σ_u s_u s_uᵀ) A⁻¹,
    where A = XᵀX and s_u is the sum of x r over one unit: errors may depend on each other within a
    unit in any way.

    Args:
        features: The features.
        data: Their scaled columns, by batches.
        made: Their sums.
        where: The unit of each sample.

    """
    samples = features.samples
    columns = features.columns("one", "now", "past")
    whole = made.whole().of(columns)
    theta = whole.solve(np.zeros(len(columns)))
    group = where if where.max() < _GROUPS else where * _GROUPS // (int(where.max()) + 1)
    count = int(group.max()) + 1
    scores = np.zeros((count, len(columns), samples.out))
    energy = np.zeros((count, len(columns)))
    for some, x, y in data.batches(np.arange(samples.count)):
        mine = x[:, columns]
        off = y - mine @ theta
        unit = np.repeat(group[some], samples.places)
        for each in np.unique(unit):
            rows = unit == each
            scores[each] += mine[rows].T @ off[rows]
            energy[each] += (mine[rows] ** 2).sum(0)
    matrix = whole.gram + NONE * whole.points * np.eye(len(columns))
    error = np.empty_like(theta)
    for out in range(samples.out):
        solved = np.linalg.solve(matrix, scores[:, :, out].T)
        error[:, out] = np.sqrt((solved**2).sum(1) * count / max(1, count - 1))
    kept = np.array(features.groups)[columns] != "one"
    scale = data.scale[columns][kept, None]
    shape = (len(features.lags), samples.d, samples.out)
    values, error = ((each[kept] / scale).reshape(shape) for each in (theta, error))
    freedom = max(1, count - 1)
    # what is left of a value by the ridge against rounding is no finding, however sure
    off = NONE * whole.points * np.linalg.solve(matrix, theta)
    off = np.abs(off[kept] / scale).reshape(shape)
    sure = np.abs(values) - 2 * off > t_quantile(freedom, 1 - 0.025 / values.size) * error
    # a column that lives in very few units fits their errors, so that no band holds
    spread = energy.sum(0) ** 2 / np.maximum((energy**2).sum(0), 1e-300)
    sure &= (spread[kept] > _SPREAD).reshape(shape[:2])[:, :, None]
    found = np.flatnonzero(sure.any((1, 2)))
    reach = int(features.lags[found[-1]]) if len(found) else -1
    complexity = None
    if reach + 1 >= _DECAYING and samples.d == samples.out == 1:
        complexity = rnn_complexity(values[: reach + 1, 0, 0])
    return Kernel(
        features.lags,
        samples.inputs,
        output_names(samples.outputs, samples.horizon),
        values,
        t_quantile(freedom) * error,
        reach,
        complexity,
    )


def output_names(names: tuple[str, ...], horizon: int) -> tuple[str, ...]:
    """The names of the coordinates of an output: each column, at each step ahead.

    Args:
        names: The names of the columns that are wanted.
        horizon: How many steps ahead are wanted; 0 stands for the token's own time.

    """
    if horizon == 0:
        return names
    return tuple(f"{name}(t+{step})" for step in range(1, horizon + 1) for name in names)
