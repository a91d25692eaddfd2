"""Transformer or not, and how large, for people's own data: ladder, race, heads, verdict."""

import numbers
import os
import sys
import tempfile
import time as clock
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from attnrate.choose.account import of_scales
from attnrate.choose.contender import contenders
from attnrate.choose.data import Data, Name, Names, from_arrays, from_file, from_frame
from attnrate.choose.heads import Heads, heads
from attnrate.choose.jobs import Place
from attnrate.choose.ladder import Ladder, ladder
from attnrate.choose.outliers import Bounds, bounds_of, drawn_in
from attnrate.choose.planning import LEAST, Course, planned_seconds, planned_steps
from attnrate.choose.predictor import Predictor
from attnrate.choose.race import Race, race
from attnrate.choose.result import About, Choice
from attnrate.choose.rung_model import RungModel
from attnrate.choose.samples import Samples
from attnrate.choose.verdict import (
    ATTENTION,
    Conclusion,
    by_ladder,
    by_race,
    cannot_tell,
    promising,
)
from attnrate.choose.winner import fit_winner
from attnrate.errors import InputError, require_whole
from attnrate.fitting.engines import make_engine
from attnrate.fitting.store import Store, require_store
from attnrate.progress import Progress, say
from attnrate.progress import said as in_words
from attnrate.settings import Count, Natural, Positive, Switch, by, checked

#: How far to go: only the ladder, the race too, or the heads too
Stage: TypeAlias = Literal["ladder", "race", "heads"]
#: Data to learn from: a frame, the path of a file, or tokens of three axes
Given: TypeAlias = pd.DataFrame | str | os.PathLike[str] | npt.ArrayLike | torch.Tensor


#: Values beyond this, or all of them below its inverse, have no squares with enough room
_HUGE = 1e100
#: Stretches that are held out in turn
Folds = Annotated[int, by(require_whole, 2)]


def _require_engine_name(name: str, value: object) -> str:
    make_engine(value)
    return str(value)


#: The name of an engine
EngineName = Annotated[str, by(_require_engine_name)]


def _require_own_store(name: str, value: object) -> Path | None:
    if value is None:
        return None
    return require_store(name, os.fspath(value) if isinstance(value, os.PathLike) else value)


#: The file of finished fits; None keeps them only until the answer is there
OwnStore = Annotated[str | os.PathLike[str] | None, by(_require_own_store)]


def _require_given(name: str, value: object) -> object:
    if value is None or isinstance(value, (bytes, Mapping, numbers.Number)):
        way_out = "Make a frame: choose(pandas.DataFrame(...), target='y')."
        raise InputError("data must be a data frame, a file or an array", value, way_out)
    return value


@dataclass(frozen=True)
class Effort:
    """How much work a choice may take.

    Attributes:
        stage: How far to go.
        minutes: The minutes that the race and the heads are planned for.
        seeds: The number of seeds.
        folds: The number of folds.
        seed: The first seed.
        full: Whether a race is run whatever the ladder says.
        engine: Where fits run, as in `sweep`.
        workers: The number of fits at the same time.
        progress: Whether progress is shown.

    """

    stage: Stage
    minutes: float
    seeds: int
    folds: int
    seed: int
    full: bool
    engine: str
    workers: int | None
    progress: bool | None


@checked
def choose(
    data: Annotated[Given, by(_require_given)],
    y: npt.ArrayLike | torch.Tensor | None = None,
    *,
    target: Names = None,
    horizon: Natural = 1,
    window: Count | None = None,
    time: Name = None,
    id: Name = None,
    ignore: Names = (),
    resample: str | None = None,
    stage: Stage = "heads",
    minutes: Positive = 5.0,
    seeds: Count = 3,
    folds: Folds = 3,
    seed: Natural = 0,
    full: Switch = False,
    engine: EngineName = "local",
    store: OwnStore = None,
    workers: Count | None = None,
    progress: bool | None = None,
) -> Choice:
    """Find out whether your data need a Transformer, and how large its heads must be.

    First the ladder, without training: what the best map of each class, from a constant to sums of
    functions of pairs of tokens, leaves of the variance, from both sides. Where a map that is not
    linear may be better, a race of six models with equally many parameters follows, over seeds and
    folds. Where a Transformer is as good as the best, its heads are made smaller as long as the
    error stays.

    Args:
        data: A data frame with one row for each moment; the path of a CSV, Parquet or npz file; or
            tokens of shape (N, T, d), with `y`.
        y: The outputs of shape (N, T, k), for an array of tokens.
        target: The column that is wanted, or several. None takes the one named y or target.
        horizon: How many values of the target are wanted after each window, which then holds the
            target and the covariates. With 0 the target at the last row of a window is wanted,
            which then holds the covariates alone.
        window: The number of rows of a window. None chooses some days or weeks if the step is
            known, else between 16 and 168 rows.
        time: The column of times. None takes an index of times, or the column named ds, timestamp,
            date, time or datetime.
        id: The column that names the series; None takes unique_id or item_id.
        ignore: Columns that are left out.
        resample: A step of time in the words of pandas ("1h"), over which rows are averaged.
        stage: How far to go: "ladder", "race" or "heads".
        minutes: About how many minutes the race and the heads may take on two cores. The number of
            steps follows from it by fixed costs, so that it is the same on each machine.
        seeds: The number of seeds of each fit.
        folds: The number of stretches, or of parts of a panel, that are held out in turn.
        seed: The first seed.
        full: Whether the race is run whatever the ladder says.
        engine: Where the fits of the race run: "local", "ray", or the address of a Ray cluster.
        store: An SQLite file that keeps finished fits, so that the same call goes on after a kill.
            None keeps them only until the answer is there.
        workers: The number of fits at the same time. Default: one per core.
        progress: None shows a live line on a terminal or in a notebook, True writes plain lines
            elsewhere, False shows nothing.

    Returns:
        The verdict with its reasons, the ladder, the race, the heads, and the fitted winner.

    Raises:
        InputError: The data cannot be used as they are, or the request is wrong.

    Examples:
        >>> import numpy as np, pandas as pd
        >>> drawn = np.random.default_rng(0)
        >>> heat = drawn.normal(size=2000)
        >>> frame = pd.DataFrame({"heat": heat, "load": np.convolve(heat, [1.0, 0.5])[:2000]})
        >>> found = ar.choose(frame, target="load", horizon=0, window=16, progress=False)
        >>> found.verdict, found.winner, found.kernel.reach
        ('linear', 'filter', 1)

    """
    begun = clock.perf_counter()
    if store is not None:
        _require_store(Path(store))
    with Progress("reading the data", wanted=progress, after=1.0):
        given = _samples_of(data, y, target, horizon, window, time, id, ignore, resample)
    _require_scale(given.samples)
    bounds = bounds_of(given.samples)
    samples, drawn = drawn_in(given.samples, bounds)
    effort = Effort(stage, minutes, seeds, folds, seed, full, engine, workers, progress)
    about = About(
        given.source,
        samples.count,
        samples.length,
        samples.horizon,
        samples.whole,
        samples.inputs,
        samples.outputs,
        given.step,
        seed,
        minutes,
        (*given.said, *of_scales(given.samples), *drawn),
    )
    if given.faults:
        return _answer(_Parts(cannot_tell(given.faults)), about, begun, bounds)
    if store is not None:
        return _answer(_parts(samples, effort, Path(store)), about, begun, bounds)
    with tempfile.TemporaryDirectory(prefix="attnrate-") as folder:
        parts = _parts(samples, effort, Path(folder) / "choose.sqlite")
    return _answer(parts, about, begun, bounds)


def _require_store(store: Path) -> None:
    """Raise an error now, and not after the ladder, where finished fits cannot be kept."""
    if store.exists():
        with Store(store):
            return
    if not store.absolute().parent.is_dir():
        raise InputError("store is in a folder that is not there", str(store), "Make it first.")
    if not os.access(store.absolute().parent, os.W_OK):
        raise InputError(
            "store is in a folder that cannot be written", str(store), "Name another place."
        )


def _samples_of(
    data: Given,
    y: npt.ArrayLike | torch.Tensor | None,
    target: Names,
    horizon: int,
    window: int | None,
    time: Name,
    id: Name,
    ignore: Names,
    resample: str | None,
) -> Data:
    """The samples of a frame, a file or arrays."""
    if isinstance(data, (str, os.PathLike)):
        _refuse_y(y)
        return from_file(data, target, horizon, window, time, id, ignore, resample)
    if isinstance(data, (pd.DataFrame, pd.Series)):
        _refuse_y(y)
        # a Series is refused there, with the way out
        return from_frame(data, target, horizon, window, time, id, ignore, resample)  # type: ignore[arg-type]
    if y is None:
        way_out = (
            "As choose(x, y) with x of shape (N, T, d) and y of shape (N, T, k). A series goes "
            "into a frame: choose(pandas.DataFrame({'y': series}), target='y')."
        )
        raise InputError("an array of tokens needs the outputs y", None, way_out)
    asked = {"target": target, "window": window, "time": time, "id": id, "resample": resample}
    named = [name for name, value in asked.items() if value is not None]
    named += ["ignore"] if ignore else []
    named += ["horizon"] if horizon != 1 else []
    if named:
        way_out = "Leave them out, or pass a data frame."
        raise InputError(
            "arrays have an output at each token, so they take none of", named, way_out
        )
    return from_arrays(data, y)


def _require_scale(samples: Samples) -> None:
    """Raise an InputError for numbers whose squares a float cannot hold."""
    for names, values in ((samples.inputs, samples.x), (samples.outputs, samples.y)):
        for name, column in zip(names, values.T, strict=True):
            largest = float(np.nanmax(np.abs(column)))
            if largest > _HUGE or 0 < largest < 1 / _HUGE:
                way_out = f"Divide it by {largest:.0e}: another unit changes nothing else."
                word = "large" if largest > 1 else "small"
                what = f"the values of column {name!r} are too {word} to be squared: "
                raise InputError(f"{what}the largest is {{value}}", largest, way_out)


def _refuse_y(y: npt.ArrayLike | torch.Tensor | None) -> None:
    if y is not None:
        way_out = "Name the column: choose(frame, target='y')."
        raise InputError(
            "y is for arrays; a frame or a file has what is wanted in a column", y, way_out
        )


@dataclass(frozen=True, eq=False)
class _Parts:
    """What an answer is made of."""

    conclusion: Conclusion
    ladder: Ladder | None = None
    race: Race | None = None
    heads: Heads | None = None
    winner: str = ""
    m_h: int | None = None
    model: RungModel | Predictor | None = None


def _parts(samples: Samples, effort: Effort, store: Path) -> _Parts:
    """The ladder, then the race and the heads where they are due, and the fitted winner."""
    try:
        found = ladder(samples, effort.seed, progress=effort.progress)
    except InputError as problem:  # too few stretches that do not overlap, or no variance
        return _Parts(cannot_tell((str(problem),)))
    said = by_ladder(found)
    due = said.enough is not None and promising(found, said.enough)
    if effort.stage == "ladder" or not (due or effort.full):
        if effort.stage != "ladder" and said.verdict != "cannot-tell":
            why = "No race was run, because no map that is not linear promises to be better."
            said = Conclusion(said.verdict, (*said.because, why), said.enough)
        return _of_ladder(samples, found, said)
    with_heads = effort.stage == "heads"
    steps = planned_steps(samples, effort.minutes, effort.seeds, effort.folds, heads=with_heads)
    course = Course(steps, effort.seeds, effort.folds, seed=effort.seed)
    place = Place(effort.engine, store, effort.workers, effort.progress)
    said = _with_few_steps(said, steps, effort)
    _announce(samples, course, effort)
    ran = race(samples, course, place, rung=said.enough if said.enough in found.models else None)
    tried = None
    attention = [name for name in ATTENTION if name in ran.tied]
    if with_heads and attention and not ran.solved:
        tried = heads(samples, course, place, attention[0])
    # data that drift have no answer, whoever wins
    said = by_race(said, ran, tried) if said.verdict != "cannot-tell" else said
    if said.verdict == "cannot-tell":
        return _Parts(said, found, ran, tried)
    if ran.solved or said.verdict in ("nothing", "memoryless") or ran.cheapest is None:
        before = _of_ladder(samples, found, said)
        return _Parts(said, found, ran, tried, before.winner, None, before.model)
    winner = ran.cheapest.name
    m_h = tried.advised if tried is not None and tried.name == winner else None
    model = fit_winner(samples, winner, steps, m_h=m_h, seed=effort.seed, progress=effort.progress)
    return _Parts(said, found, ran, tried, winner, m_h, model)


def _with_few_steps(said: Conclusion, steps: int, effort: Effort) -> Conclusion:
    """What the ladder says, with a warning where the minutes allow only the fewest steps."""
    if steps > LEAST:
        return said
    few = (
        f"{effort.minutes:g} minutes allow only the fewest steps a fit, {LEAST}: "
        "a race of more minutes may end otherwise."
    )
    return Conclusion(said.verdict, (*said.because, few), said.enough)


def _announce(samples: Samples, course: Course, effort: Effort) -> None:
    """Say before the first fit what is to come and how long it takes by the plan."""
    terminal = effort.progress is None and sys.stderr.isatty()
    if not (effort.progress or terminal):
        return
    with_heads = effort.stage == "heads"
    seconds = planned_seconds(samples, course, with_heads)
    then = ", and perhaps the heads after it," if with_heads else ""
    say(
        f"a race of {len(contenders())} models with {course.steps:,} steps a fit{then} takes about "
        f"{' '.join(in_words(seconds))} on two cores by the plan"
    )


def _of_ladder(samples: Samples, found: Ladder, said: Conclusion) -> _Parts:
    """An answer without a race: the least squares of the class that is enough."""
    name = said.enough
    if name is None:
        return _Parts(said, found)
    model: RungModel | Predictor
    # a matrix for each position is the linear map of a race
    model = found.models[name] if name in found.models else fit_winner(samples, "linear", 0)
    return _Parts(said, found, winner=name, model=model)


def _answer(parts: _Parts, about: About, begun: float, bounds: Bounds) -> Choice:
    return Choice(
        parts.conclusion.verdict,
        parts.conclusion.because,
        parts.winner,
        parts.m_h,
        parts.ladder,
        parts.race,
        parts.heads,
        parts.model,
        about,
        clock.perf_counter() - begun,
        bounds,
    )
