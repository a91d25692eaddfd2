"""What the second term's results say: slopes in m_ff, the m_ff that an m_h needs, claims."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from attnrate.experiments.claims import Claim, Verdict
from attnrate.experiments.experiment import Result, select
from attnrate.experiments.spectral import (
    Spectral,
    cell,
    claim_of,
    error_series,
    error_slope,
    known,
    shown,
    slope_of,
)
from attnrate.figures.figure import Cell, Curves, Figure, Series, Table
from attnrate.statistics import Interval, mean

Results = Sequence[Result]
Targets = Sequence[Spectral]
#: Piecewise-linear interpolation: β = 2, in mean squared error 2β
BETA = 2.0
#: Networks are fine enough for their rate from so many pieces a period of the highest sine
RESOLVED = 8
#: m_ff is enough when the compiled error is within this factor of that with exact bases
ENOUGH = 1.1
#: m_ff at which the bound is followed over m_h
FIXED = 64
#: Exponents that differ by this much are the same: of a slope and -2β, of a growth and none
CLOSE = 0.25


def _rows(results: Results, target: Spectral) -> dict[int, Any]:
    found = select(results, curve="compiled", **target.label)
    return {one.label["m_h"]: one.values for one in sorted(found, key=lambda r: r.label["m_h"])}


def unit_slope(values: Any, m_h: int, name: str = "networks") -> Interval:
    """The exponent in m_ff of the networks' error, where they resolve the highest sine."""
    kept = [
        (m_ff, error)
        for m_ff, error in zip(values["m_ff"], values[name], strict=True)
        if m_ff >= RESOLVED * m_h and error > 0
    ]
    return slope_of(kept, 3)


def needed(values: Any, factor: float = ENOUGH) -> float:
    """The least m_ff from which the error stays within a factor of that with exact bases.

    Between two values of m_ff it is interpolated in logarithms; nan if none is enough.
    """
    excess = [math.log(total / values["exact"] / factor) for total in values["total"]]
    units = [math.log(m_ff) for m_ff in values["m_ff"]]
    if excess[-1] > 0:
        return math.nan
    last = max((i for i, e in enumerate(excess) if e > 0), default=-1)
    if last < 0:
        return float(values["m_ff"][0])
    share = excess[last] / (excess[last] - excess[last + 1])
    return math.exp(units[last] + share * (units[last + 1] - units[last]))


def needed_by_size(results: Results, target: Spectral, factor: float = ENOUGH) -> dict[int, float]:
    """m_h -> the m_ff that it needs, where one was found."""
    found = {m_h: needed(values, factor) for m_h, values in _rows(results, target).items()}
    return {m_h: m_ff for m_h, m_ff in found.items() if math.isfinite(m_ff)}


def growth(results: Results, target: Spectral) -> Interval:
    """The exponent of the needed m_ff in m_h."""
    found = needed_by_size(results, target)
    return slope_of(list(found.items()), 3)


def split_growth(results: Results, target: Spectral) -> Interval:
    """The exponent of m_ff in m_h along the best splits."""
    for one in select(results, curve="split", **target.label):
        return slope_of(
            list(zip(one.values["m_h"], map(float, one.values["m_ff"]), strict=True)), 3
        )
    return slope_of([])


def claims(results: Results, targets: Targets) -> tuple[Claim, ...]:
    """The rate in m_ff, the growth with m_h, and the bound at a fixed m_ff."""
    return (
        _rate(results, targets),
        _must_grow(results, targets),
        _condition(results, targets),
        _bound_grows(results, targets),
    )


def _rate(results: Results, targets: Targets) -> Claim:
    slopes = [
        unit_slope(values, m_h).value for t in targets for m_h, values in _rows(results, t).items()
    ]
    found = mean([s for s in slopes if math.isfinite(s)])
    verdict: Verdict = "open"
    if found.count >= 3:
        verdict = "holds" if abs(found.value + 2 * BETA) <= CLOSE else "does not hold"
    return claim_of(
        "mff",
        "rate",
        "Theorem 4.1, Eq. 13, 17",
        "The second term falls like m_FF^-β.",
        verdict,
        f"Piecewise-linear networks have β = {BETA:g}, in mean squared error the exponent "
        f"{-2 * BETA:g}; of the compiled networks: {shown(found)}, mean over {found.count} "
        f"targets and head sizes (m_ff >= {RESOLVED} m_h).",
        found,
    )


def _must_grow(results: Results, targets: Targets) -> Claim:
    found = {t.name: growth(results, t) for t in targets}
    seen = {name: g for name, g in found.items() if known(g) and not math.isnan(g.low)}
    verdict: Verdict = "open"
    if seen and all(g.low > 0 for g in seen.values()):
        verdict = "holds"
    elif any(g.high <= CLOSE for g in seen.values()):
        verdict = "does not hold"
    told = "; ".join(f"{name}: {g}" for name, g in seen.items())
    first = next(iter(seen.values()), slope_of([]))
    return claim_of(
        "mff",
        "must-grow",
        "Sec. 4.3, after Eq. 18",
        "When m_h grows there are more bases for the networks to approximate, so m_FF must grow.",
        verdict,
        "The m_ff from which the compiled error is within 10 % of that with exact bases grows "
        f"like m_h to the power {told or 'not run'}.",
        first,
    )


def _condition(results: Results, targets: Targets) -> Claim:
    """By the exponent e along which the second term is constant: (β+1)/β, or it takes more."""
    printed = (BETA + 1) / BETA
    found = {t.name: growth(results, t) for t in targets}
    demanded = [e for e in (_demanded(results, t) for t in targets) if known(e)]
    verdict: Verdict = "open"
    correction = ""
    if demanded and all(e.high <= printed + CLOSE for e in demanded):
        verdict = "holds"
    elif any(e.low > printed + CLOSE for e in demanded):
        verdict = "holds when corrected"
        most = max(demanded, key=lambda e: e.value)
        correction = (
            "C2(H, m_h) grows with m_h as well, because sin 2πku has second derivatives of size "
            f"k²: for Eq. 17 to converge m_FF must outgrow m_h^{most.value:.2g}."
        )
        if all(g.high < most.low for g in found.values()):
            correction += " The error itself asks for less."
    told = "; ".join(f"{name}: {shown(g)}" for name, g in found.items())
    asked = "; ".join(str(e) for e in demanded) or "not run"
    return claim_of(
        "mff",
        "condition",
        "Sec. 4.3, after Eq. 18",
        "The bound converges when m_h → ∞ and m_FF^β / m_h^(β+1) → ∞.",
        verdict,
        f"With β = {BETA:g} this asks for m_FF above m_h^{printed:g}. The compiled error needs "
        f"the exponent {told}; the second term of Eq. 17 stays constant along {asked}.",
        max(demanded, key=lambda e: e.value, default=slope_of([])),
        correction=correction,
    )


def _demanded(results: Results, target: Spectral) -> Interval:
    """The exponent e with which the printed second term is constant along m_ff = m_h^e."""
    rows = _rows(results, target)
    at = [(m_h, _at(values, "printed", FIXED)) for m_h, values in rows.items()]
    kept = [(m_h, value) for m_h, value in at if math.isfinite(value)]
    found = slope_of(kept, 3)
    return Interval(found.value / BETA, found.low / BETA, found.high / BETA, found.count)


def _bound_grows(results: Results, targets: Targets) -> Claim:
    grows, error_grows, total = [], 0, 0
    for target in targets:
        rows = _rows(results, target)
        for name in ("printed", "rigorous"):
            values = [_at(row, name, FIXED) for row in rows.values()]
            grows += [b > a for a, b in pairwise(values)]
        errors = [_at(row, "total", FIXED) for row in rows.values()]
        total += max(0, len(errors) - 1)
        error_grows += sum(b > a for a, b in pairwise(errors))
    verdict: Verdict = "open"
    if grows:
        # the error that falls in a step is an example of "not necessarily"
        verdict = "holds" if all(grows) and error_grows < total else "does not hold"
    return claim_of(
        "mff",
        "bound-not-error",
        "Sec. 4.3, after Eq. 18",
        "With m_FF unchanged the second term of the bound increases with m_h; the best error does "
        "not necessarily.",
        verdict,
        f"At m_ff = {FIXED} the second term, printed and rigorous, increases in {sum(grows)} of "
        f"{len(grows)} steps from one m_h to the next, the compiled error in {error_grows} of "
        f"{total}.",
    )


def _at(values: Any, name: str, m_ff: int) -> float:
    pairs = dict(zip(values["m_ff"], values[name], strict=True))
    return float(pairs.get(m_ff, math.nan))


def figures(results: Results, targets: Targets) -> tuple[Figure, ...]:
    """The error over m_ff, the m_ff needed over m_h, and trained networks over their width."""
    panels = [_units_panel(results, t) for t in targets[:1]]
    panels += [_needed_panel(results, targets), _width_panel(results)]
    return (
        Figure(
            "mff",
            "The second term of Theorem 4.1",
            "Left: mean squared distance between compiled Transformers with m_ff pieces a "
            "component and with exact bases, the bound's second term above it. Middle: the m_ff "
            f"from which the error is within {100 * (ENOUGH - 1):.0f} % of that with exact bases. "
            "Right: trained networks of small width, where the rank is no obstacle.",
            tuple(panels),
        ),
    )


def _units_panel(results: Results, target: Spectral) -> Curves:
    series = []
    for m_h, values in _rows(results, target).items():
        if m_h not in (1, 4, 16):
            continue
        x, word = tuple(map(float, values["m_ff"])), f"m_h = {m_h}"
        series.append(Series(f"compiled, {word}", x, tuple(values["networks"]), group=word))
        series.append(
            Series(f"rigorous, {word}", x, tuple(values["rigorous"]), style="theory", group=word)
        )
    return Curves(
        target.name, "pieces m_ff", "squared error of the networks", tuple(series), "log", "log"
    )


def _needed_panel(results: Results, targets: Targets) -> Curves:
    series = []
    for target in targets:
        found = needed_by_size(results, target)
        if found:
            x = tuple(map(float, found))
            series.append(Series(target.name, x, tuple(found.values())))
        for one in select(results, curve="split", **target.label):
            x = tuple(map(float, one.values["m_h"]))
            y = tuple(map(float, one.values["m_ff"]))
            series.append(Series(f"best split of the bound, {target.name}", x, y, style="theory"))
    return Curves("What m_h asks of m_ff", "head size m_h", "m_ff", tuple(series), "log", "log")


def _width_panel(results: Results) -> Curves:
    fits = select(results, curve="trained")
    widths = sorted({one.label["width"] for one in fits})
    series = error_series("trained", results, "width", widths, curve="trained")
    named = f"α = 1, r = m_h = {fits[0].label['m_h']}" if fits else "trained"
    return Curves(named, "width", "error E mean_t |H_t - Ĥ_t|²", (series,), "log", "log")


def tables(results: Results, targets: Targets) -> tuple[Table, ...]:
    """One row a target and head size."""
    rows: list[tuple[Cell, ...]] = []
    for target in targets:
        for m_h, values in _rows(results, target).items():
            rows.append(
                (
                    target.name,
                    m_h,
                    values["exact"],
                    str(unit_slope(values, m_h)),
                    _finite(needed(values)),
                    _finite(needed(values, 2.0)),
                    _finite(_tightness(values, m_h)),
                )
            )
    return (
        Table(
            "Compiled Transformers and their networks",
            (
                "target",
                "m_h",
                "error with exact bases",
                "exponent in m_ff",
                "m_ff for 10 %",
                "m_ff for a factor 2",
                "rigorous second term over error",
            ),
            tuple(rows),
            f"The exponent is fitted where m_ff >= {RESOLVED} m_h; β = {BETA:g} gives "
            f"{-2 * BETA:g}. The last column is a geometric mean over the same m_ff.",
        ),
    )


def _tightness(values: Any, m_h: int) -> float:
    kept = [
        math.log(bound / error)
        for m_ff, bound, error in zip(
            values["m_ff"], values["rigorous"], values["networks"], strict=True
        )
        if m_ff >= RESOLVED * m_h and error > 0
    ]
    return math.exp(mean(kept).value) if kept else math.nan


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def paragraphs(results: Results, targets: Targets) -> tuple[str, ...]:
    """What m_ff does, compiled and trained."""
    grown = "; ".join(f"{t.name}: {shown(growth(results, t))}" for t in targets)
    spent = "; ".join(f"{t.name}: {shown(split_growth(results, t))}" for t in targets)
    text = (
        "The compiled networks interpolate sqrt(σ_k) sin 2πku, f and F with m_ff linear pieces, so "
        "that their error is that of Theorem 4.1's second term alone. The m_ff that keeps the "
        f"error within 10 % of that with exact bases grows like m_h to the power {grown}. "
        f"A budget split by the rigorous bound lets m_ff grow like m_h to the power {spent}."
    )
    fits = select(results, curve="trained")
    widths = sorted({one.label["width"] for one in fits})
    if len(widths) < 2:
        return (text,)
    ends = [cell(results, curve="trained", width=width) for width in (widths[0], widths[-1])]
    fitted = error_slope(results, "width", widths, curve="trained")
    return (
        text,
        f"Trained networks of width {widths[0]} and {widths[-1]} (three hidden layers, strong "
        f"recipe) reach {shown(ends[0])} and {shown(ends[1])} where m_h = r, so that the coupling "
        f"can be exact: the error falls with the exponent {shown(fitted)} in the width, and what "
        "is left at the largest width is also the optimiser's.",
    )
