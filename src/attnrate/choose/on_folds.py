"""The least squares of a class of the ladder on the folds of a race, beside its models."""

import time
from dataclasses import replace
from typing import Literal

import torch

from attnrate.choose.folds import Fold
from attnrate.choose.jobs import RaceJob, Row, folded
from attnrate.choose.judging import Forecast, judged
from attnrate.choose.ladder import ladder
from attnrate.choose.rung_model import RungModel
from attnrate.choose.rungs import Class
from attnrate.choose.samples import Samples
from attnrate.choose.training import Raced
from attnrate.errors import InputError
from attnrate.progress import Progress


def rung_rows(
    samples: Samples, name: Class, folds: int, division: int, progress: bool | None = None
) -> list[Row]:
    """Fit a class on the training part of each fold and judge it on what the fold holds out.

    Args:
        samples: The samples.
        name: A class that is the same at all times.
        folds: The number of folds.
        division: The seed by which a panel is divided into folds.
        progress: None shows a live line on a terminal, True writes plain lines too, False nothing.

    Returns:
        A row for each fold, as a race has them of a model; none if a fold has too few samples.

    """
    rows = []
    with Progress("least squares on the folds of the race", wanted=progress, after=1.0):
        for number, fold in enumerate(folded(samples, folds, division)):
            begun = time.process_time()
            try:
                model = ladder(learned_from(samples, fold), progress=False).models[name]
            except InputError:  # an early fold of a rolling origin may be too short for a ladder
                return []
            seconds = time.process_time() - begun
            found = judged(samples, fold.held, _on_tensors(model))
            job = RaceJob("", name, None, 0, 0, 0, number, folds, division, division)
            # of the matrix of the normal equations
            memory = 8 * len(model.columns) ** 2
            done: Literal["done", "diverged"] = "diverged" if found is None else "done"
            rows.append(Row(job, Raced(done, model.theta.size, seconds, 0, 0.0, memory, found)))
    return rows


def learned_from(samples: Samples, fold: Fold) -> Samples:
    """Give the samples of a fold's training part, without the rows that come after them.

    Args:
        samples: The samples.
        fold: The fold.

    """
    end = int(samples.starts[fold.train].max()) + samples.reach
    return replace(
        samples,
        x=samples.x[:end],
        y=samples.y[:end],
        time=samples.time[:end],
        starts=samples.starts[fold.train],
    )


def _on_tensors(model: RungModel) -> Forecast:
    """The model as a function of tensors, as models of a race are."""
    return lambda x: torch.from_numpy(model(x.numpy()))
