"""The winner, trained once more on all samples, ready to predict."""

import math

import numpy as np

from attnrate.choose.contender import Shape, contender
from attnrate.choose.planning import BATCH, PARAMETERS
from attnrate.choose.predictor import Predictor
from attnrate.choose.samples import Samples
from attnrate.choose.training import fit_on
from attnrate.errors import WorkerError


def fit_winner(
    samples: Samples,
    name: str,
    steps: int,
    parameters: int = PARAMETERS,
    m_h: int | None = None,
    seed: int = 0,
    batch: int = BATCH,
    starts: int = 3,
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

    Returns:
        The model in units of the data.

    Raises:
        WorkerError: If it diverged.

    """
    kind, every = contender(name), np.arange(samples.count)
    size = kind.size(Shape.of(samples), parameters)
    fits = [
        fit_on(samples, every, name, size, start, steps, batch, m_h, seed)
        for start in range(seed, seed + (1 if kind.solved else starts))
    ]
    best = min(fits, key=lambda one: math.inf if one.watched is None else one.watched)
    if best.predictor is None:
        raise WorkerError(f"{name} diverged on all samples; its outputs are not finite")
    return best.predictor
