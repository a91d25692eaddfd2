"""How much a race trains, and how many steps fit into some minutes by a fixed model of costs."""

from dataclasses import dataclass

from attnrate.choose.contender import Shape, contender, contenders
from attnrate.choose.jobs import training_seconds
from attnrate.choose.samples import Samples

#: Contenders have about this many parameters
PARAMETERS = 6000
BATCH = 64
#: The steps of a fit, at least and at most
LEAST, MOST = 100, 3000
#: Cores of the machine that minutes are counted for
_CORES = 2
#: The share of the time that goes into watching and judging, by measurement (2026-11-19)
_BESIDE = 0.25


@dataclass(frozen=True)
class Course:
    """How much each contender of a race is trained.

    Attributes:
        steps: The number of steps of a fit; a linear map, which is solved, has none.
        seeds: The number of seeds; a linear map has one.
        folds: The number of stretches, or of parts of a panel, that are held out in turn.
        parameters: The number of parameters that each contender comes near to.
        seed: The first seed; it also divides a panel into folds.
        batch: The number of samples in a step.

    """

    steps: int
    seeds: int = 3
    folds: int = 3
    parameters: int = PARAMETERS
    seed: int = 0
    batch: int = BATCH


def head_sizes(largest: int) -> list[int]:
    """Give the head sizes that are tried: powers of two below the largest, and the largest.

    Args:
        largest: The largest head size.

    """
    return [*(2**power for power in range(largest.bit_length()) if 2**power < largest), largest]


def planned_steps(
    samples: Samples,
    minutes: float,
    seeds: int = 3,
    folds: int = 3,
    parameters: int = PARAMETERS,
    heads: bool = True,
) -> int:
    """Plan the steps of a fit so that the race, and the heads, take some minutes on two cores.

    Args:
        samples: The samples.
        minutes: The minutes that it may take on the nominal machine.
        seeds: The number of seeds.
        folds: The number of folds.
        parameters: The number of parameters of a contender.
        heads: Whether the sizes of heads are to be tried as well.

    Returns:
        The number of steps, from 100 to 3,000. The same call gives the same number everywhere.

    """
    whole = _seconds_at_most(samples, seeds, folds, parameters, heads)
    return max(LEAST, min(MOST, int(MOST * 60 * minutes / whole)))


def planned_seconds(samples: Samples, course: Course, heads: bool = True) -> float:
    """Say how long the race, and the heads, take on two cores by the fixed model of costs.

    Args:
        samples: The samples.
        course: How much each contender is trained.
        heads: Whether the sizes of heads are tried as well.

    Returns:
        The seconds on the nominal machine, without the start of the workers.

    """
    most = _seconds_at_most(samples, course.seeds, course.folds, course.parameters, heads)
    return course.steps / MOST * most


def _seconds_at_most(
    samples: Samples, seeds: int, folds: int, parameters: int, heads: bool
) -> float:
    """The nominal seconds of all fits with the most steps."""
    shape = Shape.of(samples)
    each = 0.0
    for kind in contenders().values():
        if not kind.solved:
            count = kind.parameters(shape, kind.size(shape, parameters))
            each += training_seconds(kind.name, shape, count, MOST, BATCH)
    if heads:
        kind = contender("transformer")
        size = kind.size(shape, parameters)
        for m_h in head_sizes(kind.m_h or 1)[:-1]:
            count = kind.parameters(shape, size, m_h)
            each += training_seconds(kind.name, shape, count, MOST, BATCH)
    return each * seeds * folds * (1 + _BESIDE) / _CORES
