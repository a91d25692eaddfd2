"""Small samples, a series and a panel made by random numbers, and finished fits."""

import numpy as np

from attnrate.choose.jobs import RaceJob, Row
from attnrate.choose.judging import Judged
from attnrate.choose.samples import Samples
from attnrate.choose.training import Raced


def series(rows: int = 300, window: int = 8, horizon: int = 1, seed: int = 0) -> Samples:
    """Windows of a stable series x(t) = 0.5 x(t-1) - 0.3 x(t-3) + noise."""
    noise = np.random.default_rng(seed).normal(size=rows)
    x = np.zeros(rows)
    for t in range(rows):
        x[t] = 0.5 * x[t - 1] - 0.3 * x[t - 3] + noise[t] if t >= 3 else noise[t]
    starts = np.arange(rows - window - horizon + 1)
    column = 5.0 + 2.0 * x[:, None]
    time = np.arange(rows)
    return Samples(column, column, starts, window, horizon, False, time, ("x",), ("y",))


def panel(count: int = 60, length: int = 6, d: int = 2, seed: int = 0) -> Samples:
    """Sequences of normal tokens; y is a linear map of the whole sequence, with noise."""
    drawn = np.random.default_rng(seed)
    x = drawn.normal(size=(count, length, d))
    y = x.reshape(count, -1) @ drawn.normal(size=(length * d, length))
    y = y.reshape(count, length, 1) + 0.1 * drawn.normal(size=(count, length, 1))
    names = tuple(f"x{number}" for number in range(d))
    starts, time = length * np.arange(count), np.repeat(np.arange(count), length)
    rows = x.reshape(-1, d), y.reshape(-1, 1)
    return Samples(*rows, starts, length, 0, True, time, names, ("y",))


def row(name: str, fold: int, seed: int, errors: list[float] | None, m_h: int = 1) -> Row:
    """A finished fit with these errors of units 10 fold, 10 fold + 1, …, each of one sample."""
    job = RaceJob("", name, m_h, 600, 10, 8, fold, 2, 0, seed)
    judged = None
    if errors is not None:
        units = tuple(range(10 * fold, 10 * fold + len(errors)))
        judged = Judged(float(np.mean(errors)), units, tuple(errors), (1,) * len(errors), 0.0)
    status = "diverged" if errors is None else "done"
    return Row(job, Raced(status, 100, 1.0, 10, 0.1, 1000, judged))
