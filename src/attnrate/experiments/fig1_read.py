"""Numbers that Fig. 1's results hold: compiled errors, slopes, and ratios of one curve to another.

Errors are compared in logarithms, cell by cell (target, m_h, seed); slopes are fitted only where
m_h < r.
"""

import math
from collections.abc import Iterable, Sequence

from attnrate.experiments.experiment import Result, errors, paired, select
from attnrate.experiments.power_law import PowerLaw, fit_power_law
from attnrate.experiments.spectral import Spectral, slope_of
from attnrate.statistics import Interval, geometric_mean

Results = Sequence[Result]
Targets = Sequence[Spectral]
Row = dict[str, float]


def theory_rows(results: Results, target: Spectral) -> dict[int, Row]:
    """Bounds and compiled errors of a target by head size."""
    for one in select(results, curve="theory", **target.label):
        names = [name for name in one.values if name != "m_h"]
        return {
            m_h: {name: one.values[name][i] for name in names}
            for i, m_h in enumerate(one.values["m_h"])
        }
    return {}


def points(results: Results, target: Spectral, curve: str) -> list[tuple[int, float]]:
    """(m_h, error) of every fit of a curve with m_h < r, or of the compiled ones."""
    if curve in ("compiled", "compiled l1"):
        name = "mse" if curve == "compiled" else "l1"
        rows = theory_rows(results, target)
        return [(m_h, row[name]) for m_h, row in rows.items() if m_h < target.rank]
    found = select(results, curve=curve, **target.label)
    sizes = sorted({one.label["m_h"] for one in found})
    return [(m, e) for m in target.below(sizes) for e in errors(select(found, m_h=m))]


def curve_slope(results: Results, target: Spectral, curve: str) -> Interval:
    """The exponent of a curve below the rank; nothing for fewer than three head sizes."""
    return slope_of(points(results, target, curve), 3)


def law(results: Results, target: Spectral, curve: str) -> PowerLaw | None:
    """The paper's form, a power plus a constant, with the power free; None for few points."""
    found = points(results, target, curve)
    return fit_power_law([m_h for m_h, _ in found], [error for _, error in found], relative=True)


def ratios(results: Results, target: Spectral, above: str, below: str) -> list[float]:
    """error(above) / error(below) for every m_h and seed in which both curves have a fit."""
    one, two = (select(results, curve=curve, **target.label) for curve in (above, below))
    return paired(one, two, "m_h", "seed")


def rank_ratios(results: Results, low: Spectral, high: Spectral) -> list[float]:
    """error(higher rank) / error(lower rank), for every m_h below both ranks and every seed."""
    one, two = (select(results, curve="strong", **target.label) for target in (high, low))
    return paired([fit for fit in one if fit.label["m_h"] < low.rank], two, "m_h", "seed")


def pod_ratios(results: Results, target: Spectral, curve: str) -> list[float]:
    """compiled error / trained error for every fit with m_h < r: above 1, training is better."""
    rows = theory_rows(results, target)
    return [
        rows[m_h]["mse"] / error for m_h, error in points(results, target, curve) if m_h in rows
    ]


def pooled(values: Iterable[Sequence[float]]) -> Interval:
    """The geometric mean over all of the lists together."""
    return geometric_mean([value for some in values for value in some])


def fallen(results: Results, target: Spectral, curve: str) -> float:
    """error(the largest m_h < r) / error(the least m_h); nan for fewer than two head sizes."""
    found = points(results, target, curve)
    sizes = sorted({m_h for m_h, _ in found})
    if len(sizes) < 2:
        return math.nan
    first, last = (
        geometric_mean([e for m, e in found if m == end]) for end in (min(sizes), max(sizes))
    )
    return last.value / first.value


def beyond(results: Results, target: Spectral, curve: str) -> Interval:
    """error(m_h >= r) / error(the largest m_h < r), by the geometric means of a curve."""
    found = select(results, curve=curve, **target.label)
    sizes = sorted({one.label["m_h"] for one in found})
    before = target.below(sizes)
    if not before or len(before) == len(sizes):
        return geometric_mean([])
    last = geometric_mean(errors(select(found, m_h=before[-1]))).value
    after = [e for m in sizes if m >= target.rank for e in errors(select(found, m_h=m))]
    return geometric_mean([error / last for error in after])
