"""An answer as JSON values: what `--json` prints, and what choose.json holds."""

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from attnrate.choose.verdict import MEANING
from attnrate.fitting.job import Plain
from attnrate.statistics import Interval

if TYPE_CHECKING:
    import pandas as pd

    from attnrate.choose.heads import Heads
    from attnrate.choose.kernel import Kernel
    from attnrate.choose.ladder import Ladder
    from attnrate.choose.race import Race
    from attnrate.choose.result import About, Choice


def plain_of(choice: "Choice") -> Plain:
    """Give an answer as JSON values, with null for each number that is not finite.

    Args:
        choice: The answer.

    """
    return {
        "verdict": choice.verdict,
        "meaning": MEANING[choice.verdict],
        "because": [*choice.because],
        "winner": choice.winner,
        "m_h": choice.m_h,
        "about": _about(choice.about),
        "ladder": None if choice.ladder is None else _ladder(choice.ladder),
        "race": None if choice.race is None else _race(choice.race),
        "heads": None if choice.heads is None else _heads(choice.heads),
        "kernel": None if choice.kernel is None else _kernel(choice.kernel),
        "seconds": choice.seconds,
    }


def _about(about: "About") -> Plain:
    values = asdict(about).items()
    return {name: [*value] if isinstance(value, tuple) else value for name, value in values}


def _ladder(ladder: "Ladder") -> Plain:
    return {
        "variance": _number(ladder.variance),
        "classes": _rows(ladder.to_frame()),
        "drift": None if ladder.drift is None else _interval(ladder.drift),
        "coupling": {
            "sigma": _numbers(ladder.coupling.sigma),
            "noise": _number(ladder.coupling.noise),
            "rank": ladder.coupling.rank,
        },
    }


def _race(race: "Race") -> Plain:
    least = race.least_squares
    return {
        "steps": race.steps,
        "seeds": race.seeds,
        "folds": race.folds,
        "variance": _number(race.variance),
        "contenders": _rows(race.to_frame()),
        "failures": [*race.failures],
        "least_squares": None if least is None else _number(least.share.value),
    }


def _heads(heads: "Heads") -> Plain:
    return {
        "name": heads.name,
        "advised": heads.advised,
        "sizes": _rows(heads.to_frame()),
        "spectra": [_numbers(layer) for layer in heads.spectra],
        "failures": [*heads.failures],
    }


def _kernel(kernel: "Kernel") -> Plain:
    found = kernel.complexity
    return {
        "reach": kernel.reach,
        "C_RNN": None if found is None else _number(found.value),
        "note": None if found is None else found.note,
        "lags": kernel.lags.tolist(),
        "inputs": [*kernel.inputs],
        "outputs": [*kernel.outputs],
        "values": _nested(kernel.values),
        "half": _nested(kernel.half),
    }


def _rows(frame: "pd.DataFrame") -> list[Any]:
    """The rows of a table."""
    columns = [[_value(each) for each in frame[name].tolist()] for name in frame.columns]
    names = [*map(str, frame.columns)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _nested(values: np.ndarray) -> list[Any]:
    """An array as lists of lists."""
    if values.ndim == 1:
        return [_number(value) for value in values]
    return [_nested(each) for each in values]


def _value(value: str | float | int | bool) -> str | float | int | bool | None:
    """A cell, which is None where it is a number that is not finite."""
    return _number(value) if isinstance(value, float) else value


def _numbers(values: tuple[float, ...]) -> list[Any]:
    return [_number(value) for value in values]


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _interval(part: Interval) -> Plain:
    ends = part.value, part.low, part.high
    value, low, high = (each if math.isfinite(each) else None for each in ends)
    return {"value": value, "low": low, "high": high, "count": part.count}
