"""The winner, trained once more on all samples, ready to predict."""

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
) -> Predictor:
    """Train a contender on all samples but those by which its best weights are chosen.

    Args:
        samples: The samples.
        name: The name of the contender.
        steps: The number of steps; a linear map has none.
        parameters: The number of parameters that it comes near to at the head size of the race.
        m_h: The head size. Default: that of the race.
        seed: The seed of weights and batches.
        batch: The number of samples in a step.

    Returns:
        The model in units of the data.

    Raises:
        WorkerError: If it diverged.

    """
    size = contender(name).size(Shape.of(samples), parameters)
    every = np.arange(samples.count)
    fitted = fit_on(samples, every, name, size, seed, steps, batch, m_h)
    if fitted.predictor is None:
        raise WorkerError(f"{name} diverged on all samples; its outputs are not finite")
    return fitted.predictor
