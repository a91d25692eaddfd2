"""An answer as figures: the ladder with the models on its axis, the race, the heads, the kernel."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from attnrate.choose.heads import Heads, HeadSize
from attnrate.choose.kernel import Kernel
from attnrate.choose.race import Race
from attnrate.errors import InputError
from attnrate.figures.draw import draw as draw_figure
from attnrate.figures.drawing import Drawing
from attnrate.figures.figure import Curves, Figure, Line, Number, Rows, Scale, Series
from attnrate.statistics import Interval

if TYPE_CHECKING:
    from attnrate.choose.result import Choice

#: Stands before the name of what is worth taking
_TAKEN = "▸ "
#: Values that differ by more than this factor stand on a logarithmic axis
_FAR_APART = 10.0
#: Smaller shares, of the variance or of the largest singular value, are rounding
_ROUNDING = 1e-6
#: What a band of no width is divided by instead
_TINY = 1e-200
#: Panels of inputs, and curves of outputs in each, that a picture of kernels has at most
_PANELS, _CURVES = 3, 2
_SHARE = "share of the variance left (a ratio)"
_BOTH = (
    "Each row is a class of maps or a model, and what it leaves of the variance: 1 is no better "
    "than a constant, 0 is perfect. A bar goes from what the best map of a class leaves at least "
    "to what it leaves at most, with 95 % confidence, the circle is the error on what was held "
    "out, the square that of least squares on the data themselves."
)
_MODELS = " Triangles are trained models, with 95 % intervals over held-out stretches and seeds."


def draw(choice: "Choice") -> Drawing:
    """Draw what each class and each model leaves, on one axis.

    Args:
        choice: The answer.

    Raises:
        InputError: There is neither a ladder nor a race.

    """
    if choice.ladder is None and choice.race is None:
        raise InputError(
            "there is nothing to draw, because no ladder was made: the verdict is {value}",
            choice.verdict,
            "The reasons are in .because.",
        )
    return draw_figure(ladder_figure(choice))


def figures_of(choice: "Choice") -> tuple[Figure, ...]:
    """Give all figures of an answer, the ladder first; those of what was not done are left out.

    Args:
        choice: The answer.

    """
    found = [] if choice.ladder is None else [ladder_figure(choice)]
    if choice.race is not None and choice.race.best is not None:
        found.append(race_figure(choice.race))
    if choice.heads is not None and choice.heads.advised is not None:
        found.append(heads_figure(choice.heads))
    if choice.kernel is not None:
        found.append(kernel_figure(choice.kernel))
    return tuple(found)


def ladder_figure(choice: "Choice") -> Figure:
    """Give the classes of maps from the poorest to the richest, and the models, on one axis.

    Args:
        choice: The answer.

    """
    rungs = () if choice.ladder is None else choice.ladder.rungs
    racers = () if choice.race is None else choice.race.racers
    words = [str(rung.name) for rung in rungs]
    words += [each.title + ("" if each.share.known else " (diverged)") for each in racers]
    taken = _row_of(choice)
    shown = tuple((_TAKEN if row == taken else "") + word for row, word in enumerate(words))
    below = range(len(rungs), len(words))
    series = [
        _across(
            "class of maps, held out",
            range(len(rungs)),
            [Interval(r.upper.value, r.lower.low, r.upper.high, 0) for r in rungs],
        ),
        Series(
            "class of maps, least squares of these data",
            tuple(range(len(rungs))),
            tuple(rung.lower.value for rung in rungs),
        ),
        _across("trained model, held out", below, [each.share for each in racers]),
    ]
    series = [each for each in series if each.x]
    lines: tuple[Line, ...] = ()
    said = _BOTH + (_MODELS if racers else "")
    if taken is not None:
        left = [*(rung.upper.value for rung in rungs), *(each.share.value for each in racers)]
        lines = (Line("what is worth taking", x=left[taken]),)
        said += f" The mark {_TAKEN}and the vertical line show what is worth taking."
    return Figure(
        "ladder",
        "What is left of the variance",
        said,
        (Rows("", _SHARE, "", shown, tuple(series), _scale(series), lines),),
    )


def _row_of(choice: "Choice") -> int | None:
    """The row of what is worth taking."""
    rungs = [] if choice.ladder is None else [rung.name for rung in choice.ladder.rungs]
    racers = [] if choice.race is None else [each.name for each in choice.race.racers]
    # "linear" is a class and a model; where there was a race, it is the model that won
    if choice.winner in racers:
        return len(rungs) + racers.index(choice.winner)
    names: list[str] = [*rungs]
    return names.index(choice.winner) if choice.winner in names else None


def race_figure(race: Race) -> Figure:
    """Give the error of each model beside that of the best, with paired intervals.

    Args:
        race: A race in which a model has a finite error.

    """
    best = race.best
    assert best is not None
    unit = best.mse.value
    known = [each for each in race.racers if each.mse.known and each.difference.known]
    rows: dict[bool, tuple[list[int], list[Interval]]] = {True: ([], []), False: ([], [])}
    for number, each in enumerate(known):
        numbers, intervals = rows[each.tied]
        numbers.append(number)
        intervals.append(_beside(each.ratio, each.difference, unit))
    series = [
        _across("as good as the best", *rows[True]),
        _across("surely worse", *rows[False]),
    ]
    series = [each for each in series if each.x]
    return Figure(
        "race",
        "The race: errors beside the best",
        "The held-out error of each model divided by that of the best, with the 95 % interval of "
        "their difference, paired by stretch and seed. A model whose interval reaches 1, or whose "
        "error is within 1 % of the best, is as good.",
        (
            Rows(
                "",
                "held-out error beside that of the best (a ratio)",
                "",
                tuple(each.title for each in known),
                tuple(series),
                _scale(series),
                (Line("the best", x=1.0),),
            ),
        ),
    )


def heads_figure(heads: Heads) -> Figure:
    """Give the error against the head size, with the smallest that is enough, and the spectrum.

    Args:
        heads: Head sizes of which one is enough.

    """
    largest = heads.sizes[-1]
    known = [each for each in heads.sizes if math.isfinite(each.ratio)]
    ratios = [_ratio(each, largest) for each in known]
    sizes = tuple(each.m_h for each in known)
    errors = Series("error beside the largest", sizes, *_columns(ratios))
    panels = [
        Curves(
            "error against the head size",
            "head size m_h (rows of W_Q and W_K)",
            f"error beside m_h = {largest.m_h} (a ratio)",
            (errors,),
            x_scale="log",
            lines=(
                Line(f"enough: m_h = {heads.advised}", x=heads.advised),
                Line(f"the error of m_h = {largest.m_h}", y=1.0),
            ),
        )
    ]
    spectra = [_spectrum(number, sigma) for number, sigma in enumerate(heads.spectra)]
    spectra = [each for each in spectra if each.x]
    if spectra:
        panels.append(
            Curves(
                "spectrum of the largest heads",
                "k, the number of the singular value",
                "σ_k / σ_1 of the logits",
                tuple(spectra),
                y_scale="log",
                lines=(Line(f"enough: m_h = {heads.advised}", x=heads.advised),),
            )
        )
    return Figure(
        "heads",
        "How large heads have to be",
        "The error of the Transformer with smaller and smaller heads and values of full size, "
        "with 95 % intervals of the paired difference. Enough is the smallest size that is not "
        "surely worse than the largest and has at most 1.1 times its error. Beside it are the "
        "singular values of the logits that the largest heads have learned; the errors decide.",
        tuple(panels),
    )


def kernel_figure(kernel: Kernel) -> Figure:
    """Give the kernel of the best linear filter with its band, for the inputs that count most.

    Args:
        kernel: The kernel.

    """
    strength = np.abs(kernel.values) / np.maximum(kernel.half, _TINY)
    order = np.argsort(-strength.max((0, 2)), kind="stable")[:_PANELS]
    outputs = np.linspace(0, len(kernel.outputs) - 1, min(len(kernel.outputs), _CURVES)).round()
    lines = [Line("no influence", y=0.0)]
    if kernel.reach >= 0:
        lines.append(Line(f"last lag that is surely not zero: {kernel.reach}", x=kernel.reach))
    lags = tuple(kernel.lags.tolist())
    panels = []
    for one in sorted(order.tolist()):
        series = [
            Series(
                f"to {kernel.outputs[out]}",
                lags,
                tuple(kernel.values[:, one, out].tolist()),
                tuple((kernel.values - kernel.half)[:, one, out].tolist()),
                tuple((kernel.values + kernel.half)[:, one, out].tolist()),
            )
            for out in map(int, np.unique(outputs))
        ]
        name = kernel.inputs[one]
        label = "ρ(s), units of output per input"
        panels.append(
            Curves(f"from {name}", "lag s, in tokens", label, tuple(series), lines=tuple(lines))
        )
    return Figure(
        "kernel",
        "The kernel of the best linear filter",
        "How much a token s steps back adds to the output, y(t) = Σ ρ(s) x(t−s), with 95 % bands."
        + _left_out(kernel, len(panels), len(np.unique(outputs))),
        tuple(panels),
    )


def _left_out(kernel: Kernel, inputs: int, outputs: int) -> str:
    """A sentence that says which inputs and outputs of a kernel are shown, if not all are."""
    shown = []
    if inputs < len(kernel.inputs):
        shown.append(f"the {inputs} of {len(kernel.inputs)} inputs that are surest")
    if outputs < len(kernel.outputs):
        shown.append(f"{outputs} of {len(kernel.outputs)} outputs")
    return f" Shown are {' and '.join(shown)}; kernel.csv has all." if shown else ""


def _spectrum(layer: int, sigma: Sequence[float]) -> Series:
    first = max(sigma, default=0.0)
    kept = [value / first for value in sigma if value > _ROUNDING * first]
    return Series(f"layer {layer}", tuple(range(1, len(kept) + 1)), tuple(kept))


def _ratio(each: HeadSize, largest: HeadSize) -> Interval:
    """The error of a size beside that of the largest, with the interval of their difference."""
    if each is largest:
        return Interval(1.0, math.nan, math.nan, each.difference.count)
    return _beside(each.ratio, each.difference, largest.mse.value)


def _beside(ratio: float, apart: Interval, unit: float) -> Interval:
    """A ratio of errors with its interval, from that of their difference and the error below."""
    if not unit > 0:
        return Interval(ratio, math.nan, math.nan, apart.count)
    return Interval(ratio, 1 + apart.low / unit, 1 + apart.high / unit, apart.count)


def _across(label: str, rows: Sequence[int], values: Sequence[Interval]) -> Series:
    """A series over rows, of intervals; what is not known is not drawn."""
    return Series(label, tuple(rows), *_columns(values))


def _columns(
    values: Sequence[Interval],
) -> tuple[tuple[Number, ...], tuple[Number, ...], tuple[Number, ...]]:
    value, low, high = ([getattr(each, end) for each in values] for end in ("value", "low", "high"))
    return tuple(value), tuple(low), tuple(high)


def _scale(series: Sequence[Series]) -> Scale:
    """A logarithmic axis for values that are far apart, unless one of them is zero or rounding."""
    there = [value for one in series for value in one.y if math.isfinite(value)] or [1.0]
    return "log" if min(there) > _ROUNDING and max(there) > _FAR_APART * min(there) else "linear"
