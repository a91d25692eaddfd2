"""Answers of `choose` made quickly: of a series by the ladder alone, and of a panel with a race."""

from dataclasses import replace

import numpy as np
import pandas as pd
from made_samples import panel, row

from attnrate.choose.choose import choose
from attnrate.choose.heads import heads_of
from attnrate.choose.ladder import ladder
from attnrate.choose.outliers import bounds_of
from attnrate.choose.planning import Course
from attnrate.choose.race import race_of
from attnrate.choose.result import About, Choice
from attnrate.choose.winner import fit_winner

#: A name of a column that a page must not obey
HOSTILE = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1> $x$ {{ 7*7 }} &amp;"
#: Head sizes with their errors
SIZES = {1: 1.4, 2: 1.02, 4: 1.0, 8: 1.01, 16: 1.0}


def frame(rows: int = 700, seed: int = 0) -> pd.DataFrame:
    """A series of which one column follows another, whose name is markup, through a filter."""
    drawn = np.random.default_rng(seed)
    x = drawn.normal(size=rows)
    y = np.convolve(x, 0.6 ** np.arange(12))[:rows] + 0.3 * drawn.normal(size=rows)
    return pd.DataFrame({HOSTILE: x, "load": y, "nearly": np.round(0.001 * x)})


def linear_choice() -> Choice:
    """An answer by the ladder alone, whose model is a class."""
    return choose(frame(), target="load", horizon=0, window=8, progress=False)


def refused_choice() -> Choice:
    """An answer that cannot tell, without a ladder and a model."""
    return choose(frame().assign(load=3.0), target="load", horizon=0, window=8, progress=False)


def raced_choice() -> Choice:
    """An answer with a race, one of whose models diverged, and heads; a Transformer predicts."""
    samples = panel(count=80)
    found = ladder(samples, progress=False)
    rows = [
        row(
            name,
            fold,
            seed,
            None if error is None else [error, 1.1 * error, 0.9 * error * (1 + seed / 99)],
        )
        for name, error in {"transformer": 1.0, "gru": 1.005, "tcn": 3.0, "linear": None}.items()
        for fold in (0, 1)
        for seed in (0, 1)
    ]
    race = race_of(samples, rows, Course(10, 2, 2))
    sized = [
        row("transformer", fold, seed, [error, 1.1 * error, 0.9 * error * (1 + seed / 99)], m_h)
        for m_h, error in SIZES.items()
        for fold in (0, 1)
        for seed in (0, 1)
    ]
    heads = replace(heads_of(sized, "transformer"), spectra=((2.0, 1.0, 0.1, 0.0), (1.0, 0.5)))
    about = About(
        "arrays", 80, 6, 0, True, (HOSTILE, "x1"), ("y",), "", 0, 5.0, ("one thing was said",)
    )
    return Choice(
        "tie",
        ("A reason with [1, 2].", HOSTILE),
        "transformer",
        2,
        found,
        race,
        heads,
        fit_winner(samples, "transformer", 1, 2500, m_h=2, batch=8, starts=1),
        about,
        12.0,
        bounds_of(samples),
    )


def new_tokens(choice: Choice, count: int = 5) -> np.ndarray:
    """Tokens that the model of an answer takes, some of them far outside of all others."""
    shape = count, choice.about.window, len(choice.about.inputs)
    return 3.0 * np.random.default_rng(1).normal(size=shape) ** 3
