"""What the attention experiments share in their conclusions: numbers, panels, verdicts."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from attnrate.experiments.claims import Verdict
from attnrate.experiments.experiment import Result
from attnrate.experiments.plots import Curves, Matrix, Series
from attnrate.theory.statistics import Interval, mean

#: "Must reach": attention weights within this mean absolute error, links right in this share
MOST_MAE, LEAST_LINK = 0.02, 0.97
#: F̂∘f̂ counts as F∘f when it is within this share of the spread of F∘f
MOST_RELATIVE_RMS = 0.1
_NORMAL_95 = 1.96


def number(results: Sequence[Result], *path: str) -> Interval:
    """The mean over seeds of a value found along `path`, with its interval.

    Of one seed, the interval is that over its inputs where the standard error is kept beside the
    value under the name with "_se"; otherwise there is none. Diverged fits are left out.
    """
    kept = [one.values for one in results if _at(one.values, path) is not None]
    found = mean([float(_at(values, path)) for values in kept])
    if len(kept) == 1:
        error = _at(kept[0], (*path[:-1], f"{path[-1]}_se"))
        if error is not None:
            half = _NORMAL_95 * error
            return Interval(found.value, found.value - half, found.value + half, 1)
    return found


def seeds_text(results: Sequence[Result], *path: str, digits: int = 3) -> str:
    """ "from a to b over n seeds", or nothing for a single seed."""
    values = [_at(one.values, path) for one in results]
    kept = [float(value) for value in values if value is not None]
    if len(kept) < 2:
        return ""
    return f", from {min(kept):.{digits}g} to {max(kept):.{digits}g} over {len(kept)} seeds"


def at_most(found: Interval, limit: float) -> bool | None:
    """Whether the mean is at most the limit; None where there is none."""
    return None if math.isnan(found.value) else found.value <= limit


def at_least(found: Interval, limit: float) -> bool | None:
    """Whether the mean is at least the limit; None where there is none."""
    return None if math.isnan(found.value) else found.value >= limit


def verdict(whole: bool | None, restricted: bool | None) -> Verdict:
    """Of a statement about the whole model that a restricted one may satisfy instead.

    "holds" if the whole model does it, "holds when corrected" if only the restricted one does,
    "open" if it was not run.
    """
    if whole:
        return "holds"
    if whole is None or restricted is None:
        return "open"
    return "holds when corrected" if restricted else "does not hold"


def recovered(
    by: Mapping[str, Sequence[Result]], words: Mapping[str, str]
) -> tuple[dict[str, bool | None], str]:
    """Of each fit whether its F̂∘f̂ is F∘f, by MOST_RELATIVE_RMS; and a sentence with the numbers."""
    met: dict[str, bool | None] = {}
    parts = []
    for name, results in by.items():
        rms = number(results, "pointwise", "rms")
        spread = number(results, "pointwise", "spread").value
        met[name] = at_most(rms, MOST_RELATIVE_RMS * spread)
        if rms.count:
            parts.append(f"{rms} with {words[name]}, where F∘f has the spread {spread:.3g}")
    if not parts:
        return met, "no fit is finished."
    return met, (
        f"rms |F̂∘f̂ - F∘f| on fresh tokens: {'; '.join(parts)} (asked: {MOST_RELATIVE_RMS:.0%} of "
        "the spread)."
    )


def first(results: Sequence[Result]) -> Result | None:
    """The result of the smallest seed that has an example to show."""
    shown = [one for one in results if "example" in one.values]
    return min(shown, key=lambda one: one.label["seed"], default=None)


def attention_panel(title: str, values: Sequence[Sequence[float]]) -> Matrix:
    """A matrix of attention weights, on the scale from 0 to 1."""
    return Matrix(
        title,
        "input position s",
        "output position t",
        tuple(tuple(float(entry) for entry in row) for row in values),
        0.0,
        1.0,
    )


def pointwise_panel(title: str, curves: Mapping[str, Mapping[str, Any]], axis: str) -> Curves:
    """F̂∘f̂ over F∘f for each named curve of `attention_maps.pointwise`, beside the diagonal."""
    drawn = [
        Series(name, tuple(c["x"]), tuple(c["y"]), tuple(c["low"]), tuple(c["high"]))
        for name, c in curves.items()
    ]
    ends = [x for curve in curves.values() for x in curve["x"]]
    diagonal = (min(ends), max(ends)) if ends else (0.0, 1.0)
    truth = Series("F∘f itself", diagonal, diagonal, style="theory")
    return Curves(title, f"F∘f: {axis}", "F̂∘f̂ (mean; bars: 90 % of tokens)", (*drawn, truth))


def percent(found: Interval) -> str:
    """A share in per cent, with its interval where it has one."""
    if math.isnan(found.low):
        return f"{100 * found.value:.1f} %"
    low, high = max(found.low, 0.0), min(found.high, 1.0)
    return f"{100 * found.value:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


def _at(values: Mapping[str, Any], path: Sequence[str]) -> Any:
    found: Any = values
    for name in path:
        if not isinstance(found, Mapping) or name not in found:
            return None
        found = found[name]
    return found
