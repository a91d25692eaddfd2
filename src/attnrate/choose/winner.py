"""The winner, trained once more on all samples, ready to predict."""

import math

import numpy as np

from attnrate.choose.contender import Shape, contender
from attnrate.choose.planning import BATCH, PARAMETERS
from attnrate.choose.predictor import Predictor
from attnrate.choose.samples import Samples
from attnrate.choose.training import fit_on
from attnrate.errors import WorkerError
from attnrate.progress import Progress


def fit_winner(
    samples: Samples,
    name: str,
    steps: int,
    parameters: int = PARAMETERS,
    m_h: int | None = None,
    seed: int = 0,
    batch: int = BATCH,
    starts: int = 3,
    *,
    progress: bool | None = False,
) -> Predictor:
    """Train a contender on all samples but those by which its best weights are chosen.

    Args:
        samples: The samples.
        name: The name of the contender.
        steps: The number of steps; a linear map has none.
        parameters: The number of parameters that it comes near to at the head size of the race.
        m_h: The head size. Default: that of the race.
        seed: The first seed of weights and batches; it also says which part of a panel is watched.
        batch: The number of samples in a step.
        starts: The number of fits from different weights, the one with the least watched
            error being kept; a linear map needs one.
        progress: None shows a live line on a terminal, True writes plain lines too, False nothing.

    Returns:
        The model in units of the data.

    Raises:
        WorkerError: If it diverged.

    """
    kind, every = contender(name), np.arange(samples.count)
    size = kind.size(Shape.of(samples), parameters)
    count, fits = 1 if kind.solved else starts, []
    with Progress("the winner on all data", 0.0, wanted=progress, after=1.0) as shown:
        for start in range(count):
            fits.append(fit_on(samples, every, name, size, seed + start, steps, batch, m_h, seed))
            shown.at("the winner on all data", (start + 1) / count)
    best = min(fits, key=lambda one: math.inf if one.watched is None else one.watched)
    if best.predictor is None:
        raise WorkerError(f"{name} diverged on all samples; its outputs are not finite")
    return best.predictor
