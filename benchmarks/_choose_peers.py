"""`choose` beside AutoGluon-TS, Darts and NeuralForecast on one split of real series.

All learn from the first three quarters of the rows and forecast from the same moments of the last
quarter. `choose` takes its own window, which Darts and NeuralForecast are given, too; AutoGluon has
its own. The regret is the error beside that of the best contender of the long race, fitted to the
same three quarters with the short window of that race.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import attnrate as ar
from _choose_peer_run import Watch
from _choose_real import FRESH, Budget, Task, samples_of
from attnrate.choose.contender import Shape, contender
from attnrate.choose.data import from_frame
from attnrate.choose.folds import Fold
from attnrate.choose.jobs import folded
from attnrate.choose.on_folds import learned_from
from attnrate.choose.planning import PARAMETERS
from attnrate.choose.samples import Samples
from attnrate.choose.training import fit_on

#: Series without missing values, at their own horizons, with the words of pandas for their steps
SERIES = {"river-flow": "D", "power-price": "h", "electricity": "h", "sea-temperature": "30min"}
#: Python packages, each asked for by its name
PEERS = ("autogluon.timeseries", "darts", "neuralforecast")
#: The seconds that AutoGluon may take, and the minutes of `choose`
LIMIT, MINUTES = 180.0, 1.0
#: The seconds of AutoGluon in --quick
SHORT = 10.0
_ORIGINS, _SEEDS = 200, 3
_RUN = Path(__file__).with_name("_choose_peer_run.py")


def installed(python: Path | None, name: str) -> str:
    """Why a peer cannot be run by a Python; "" if it can."""
    if python is None:
        return f"{name} is skipped: name a Python that has it by --peers PYTHON"
    asked = subprocess.run([python, "-c", f"import {name}"], capture_output=True, text=True)
    if asked.returncode:
        last = (asked.stderr.strip().splitlines() or ["no reason given"])[-1]
        return f"{name} is skipped: {python.name} cannot import it ({last})"
    return ""


@dataclass(frozen=True, eq=False)
class Asking:
    """What a tool is asked for.

    Attributes:
        samples: The samples.
        asked: Those of them that are forecast.
        window: The rows of the past that a tool learns from which takes a window.
        limit: The seconds that a peer may take.

    """

    samples: Samples
    asked: np.ndarray
    window: int
    limit: float

    @property
    def origins(self) -> np.ndarray:
        """The last known row of each forecast."""
        return np.asarray(self.samples.starts[self.asked] + self.samples.length - 1)


def origins_of(fold: Fold) -> np.ndarray:
    """The held-out samples to forecast from, evenly."""
    where = np.linspace(0, len(fold.held) - 1, min(_ORIGINS, len(fold.held))).round()
    return np.asarray(fold.held[np.unique(where.astype(int))])


def error_of(samples: Samples, asked: np.ndarray, forecasts: np.ndarray) -> float:
    """The mean squared error, over the steps ahead too."""
    return float(np.square(forecasts - samples.truth(asked)[:, 0]).mean())


def least_error(
    samples: Samples, fold: Fold, asked: np.ndarray, name: str, budget: Budget
) -> float:
    """The error of the best contender of the long race, the mean over fresh seeds."""
    size = contender(name).size(Shape.of(samples), PARAMETERS)
    steps, errors = budget.times * budget.steps, []
    for seed in range(FRESH, FRESH + (1 if contender(name).solved else _SEEDS)):
        fitted = fit_on(samples, fold.train, name, size, seed, steps, budget.batch)
        if fitted.predictor is not None:
            with torch.no_grad():
                found = fitted.predictor(torch.from_numpy(samples.tokens(asked)))
            errors.append(error_of(samples, asked, found.numpy()[:, 0]))
    return float(np.mean(errors))


def ours(
    task: Task, frame: pd.DataFrame, train: int, at: Asking, effort: dict[str, Any]
) -> dict[str, Any]:
    """`choose` on the rows that are learned from, on one core, with the window that it takes."""
    fitting, samples = Watch(), at.samples
    found = ar.choose(
        frame.iloc[:train],
        target=task.target,
        horizon=task.horizon,
        workers=1,
        progress=False,
        **effort,
    )
    fitted, asking = fitting.read(""), Watch()
    row: dict[str, Any] = {
        "way": "choose, " + ", ".join(f"{name}={value}" for name, value in effort.items()),
        "tool": "attnrate",
        "version": ar.__version__,
        "verdict": found.verdict,
        "chosen": found.winner,
        "window": found.about.window,
        **fitted,
    }
    if found.model is None:
        return {**row, "failed": found.because[0]}
    values, length = frame[[*found.about.inputs]].to_numpy(float), found.about.window
    tokens = np.stack([values[last + 1 - length : last + 1] for last in at.origins])
    forecasts = found.predict(tokens)[:, 0]
    return {**row, **asking.read("predict_"), "mse": error_of(samples, at.asked, forecasts)}


def peer(
    python: Path, name: str, task: Task, frame: pd.DataFrame, train: int, at: Asking
) -> dict[str, Any]:
    """One of the peers, in a process of its own Python with one thread."""
    samples = at.samples
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder, "data.npz"), Path(folder, "out.json")
        np.savez(
            source,
            values=frame[[*samples.inputs]].to_numpy(float),
            names=np.array(samples.inputs),
            start="2015-01-01",
            freq=SERIES.get(task.series, "h"),
            train=train,
            origins=at.origins,
            window=at.window,
            horizon=samples.horizon,
        )
        words = [str(python), str(_RUN), name, str(source), str(out), str(at.limit)]
        alone = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": ""}
        ran = subprocess.run(words, capture_output=True, text=True, env=alone, cwd=folder)
        if ran.returncode:
            last = (ran.stderr.strip().splitlines() or ["no reason given"])[-1]
            return {"tool": name, "failed": last}
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    mse = error_of(samples, at.asked, np.array(found.pop("forecasts")))
    return {"tool": name, **found, "mse": mse}


def beside_peers(
    task: Task,
    budget: Budget,
    best: str,
    python: Path | None,
    small: bool,
    known: dict[str, dict[str, Any]],
) -> Iterator[dict[str, Any]]:
    """One row for each tool on a task, as soon as it is there; `known` are of earlier runs."""
    samples = samples_of(task, budget)
    fold = folded(samples, budget.folds, 0)[-1]
    asked = origins_of(fold)
    train = len(learned_from(samples, fold).x)
    frame = task.frame()
    frame = (frame.drop_duplicates("time") if "time" in frame else frame).tail(budget.rows)
    least = least_error(samples, fold, asked, best, budget)
    window = from_frame(frame.iloc[:train], task.target, task.horizon).samples.length
    at = Asking(samples, asked, window, SHORT if small else LIMIT)
    effort = {"minutes": 1e-3, "seeds": 1, "folds": 2} if small else {"minutes": MINUTES}
    for name in ("attnrate", *PEERS):
        if name in known:
            yield known[name]
            continue
        if name == "attnrate":
            row = ours(task, frame, train, at, effort)
        elif why := installed(python, name):
            row = {"tool": name, "failed": why}
        else:
            assert python is not None
            row = peer(python, name, task, frame, train, at)
        row |= {"task": task.name, "best": best, "forecasts": len(asked)}
        if "mse" in row:
            row["regret"] = row["mse"] / least
        print(f"  {task.name}, {name}: {said_of(row)}", flush=True)
        yield row


def said_of(row: dict[str, Any]) -> str:
    """A row in one line."""
    if "mse" not in row:
        return str(row["failed"])
    return f"{row['chosen']}, regret {row['regret']:.3f} in {row['processor_seconds']:.1f} s"


def of_peers(rows: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, bool]]:
    """The rows; the only requirement is that `choose` and a peer have been measured."""
    tools = {row["tool"] for row in rows if "mse" in row}
    others = sorted(tools - {"attnrate"})
    text = f"choose is put beside a peer: {', '.join(others) or 'none'}"
    return {"rows": rows}, {text: "attnrate" in tools and bool(others)}
