"""What the attention experiments share in their conclusions: numbers, panels, verdicts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnrate.experiments.claims import Verdict
from attnrate.experiments.experiment import Result
from attnrate.figures.figure import Curves, Matrix, Series
from attnrate.statistics import Interval, mean

#: "Must reach": attention weights within this mean absolute error, links right in this share
MOST_MAE, LEAST_LINK = 0.02, 0.97
#: F̂∘f̂ counts as F∘f when it is within this share of the spread of F∘f
MOST_RELATIVE_RMS = 0.1
_NORMAL_95 = 1.96
_SHARES = ("link", "near_link", "near")


def number(results: Sequence[Result], *path: str) -> Interval:
    """The mean over seeds of a value found along `path`, with its interval.

    Of one seed, the interval is that over its inputs where the standard error is kept beside the
    value under the name with "_se"; otherwise there is none. Diverged fits are left out. All these
    values are errors or shares, so an interval ends where these do.
    """
    found = mean(values_of(results, *path))
    if found.count == 1:
        for error in values_of(results, *path[:-1], f"{path[-1]}_se"):
            half = _NORMAL_95 * error
            found = Interval(found.value, found.value - half, found.value + half, 1)
    return found.within(0.0, 1.0 if path and path[-1] in _SHARES else math.inf)


def values_of(results: Sequence[Result], *path: str) -> list[float]:
    """The value along `path` of every seed that has one."""
    found = [_at(one.values, path) for one in results]
    return [float(value) for value in found if value is not None]


def seeds_text(results: Sequence[Result], *path: str, digits: int = 3) -> str:
    """ "from a to b over n seeds", or nothing for a single seed."""
    found = values_of(results, *path)
    if len(found) < 2:
        return ""
    return f", from {min(found):.{digits}g} to {max(found):.{digits}g} over {len(found)} seeds"


@dataclass(frozen=True)
class Kept:
    """How many fits keep to a limit, of how many. Fits of one kind can differ by their seed alone,
    some right and some far off, so that a mean with an interval would say little."""

    count: int
    of: int

    def __add__(self, other: "Kept") -> "Kept":
        return Kept(self.count + other.count, self.of + other.of)

    @property
    def verdict(self) -> Verdict:
        """Whether all of them do, or none; "open" for anything between, or for no fit."""
        if not self.of or 0 < self.count < self.of:
            return "open"
        return "holds" if self.count else "does not hold"


def at_most(values: Sequence[float], limit: float) -> Kept:
    """How many of the values are at most the limit."""
    return Kept(sum(value <= limit for value in values), len(values))


def at_least(values: Sequence[float], limit: float) -> Kept:
    """How many of the values are at least the limit."""
    return Kept(sum(value >= limit for value in values), len(values))


def verdict(whole: Kept, restricted: Kept) -> Verdict:
    """Of a statement about the whole model that a restricted one may satisfy instead.

    "holds" if every fit of the whole model does it, "holds when corrected" if only every fit of the
    restricted one does, "does not hold" if none of either does.
    """
    if whole.verdict == "holds":
        return "holds"
    if not (whole.of and restricted.of):
        return "open"
    if restricted.verdict == "holds":
        return "holds when corrected"
    return "does not hold" if (whole + restricted).count == 0 else "open"


def corrected(whole: Kept, restricted: Kept, how: str) -> tuple[Verdict, str]:
    """The verdict, and how the statement is corrected if it is: with what, and how often it holds
    without."""
    said = verdict(whole, restricted)
    if said != "holds when corrected":
        return said, ""
    return said, f"{how} Without that it holds in {whole.count} of {whole.of} fits."


def recovered(
    by: Mapping[str, Sequence[Result]], words: Mapping[str, str]
) -> tuple[dict[str, Kept], str]:
    """Of each kind of fit in how many F̂∘f̂ is F∘f, by MOST_RELATIVE_RMS; and a sentence."""
    met = {}
    parts = []
    for name, results in by.items():
        rms = number(results, "pointwise", "rms")
        spread = number(results, "pointwise", "spread").value
        each = values_of(results, "pointwise", "rms")
        met[name] = at_most(each, MOST_RELATIVE_RMS * spread)
        if rms.count:
            told = seeds_text(results, "pointwise", "rms")
            parts.append(f"{rms} with {words[name]}{told}, where F∘f has the spread {spread:.3g}")
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
    """A share in per cent, with its interval where it has one; a dash where there is none."""
    if not found.count:
        return "–"
    if math.isnan(found.low):
        return f"{100 * found.value:.1f} %"
    return f"{100 * found.value:.1f} % [{100 * found.low:.1f}, {100 * found.high:.1f}]"


def _at(values: Mapping[str, Any], path: Sequence[str]) -> Any:
    found: Any = values
    for name in path:
        if not isinstance(found, Mapping) or name not in found:
            return None
        found = found[name]
    return found
