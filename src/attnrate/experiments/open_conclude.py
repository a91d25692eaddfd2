"""What heads, layers, residuals and layer norm do to the error: ratios to the baseline, claims."""

import math
from collections.abc import Sequence

from attnrate.experiments.claims import Claim, Verdict
from attnrate.experiments.experiment import Result, paired, select
from attnrate.experiments.open_variants import BASELINE, VARIANTS
from attnrate.experiments.spectral import (
    Spectral,
    cell,
    claim_of,
    error_series,
    error_slope,
    known,
    shown,
)
from attnrate.figures.figure import Cell, Curves, Figure, Table
from attnrate.statistics import Interval, geometric_mean, mean

Results = Sequence[Result]
#: A variant does the same as the baseline when its ratio's interval lies within this factor
SAME = 2.0
#: So many cells that agree decide where the interval is too wide: by chance one time in 32
CELLS = 6
#: What the claims are about, with the variants that decide each
_GROUPS = {
    "heads": ("2 heads", "4 heads"),
    "depth": ("2 layers", "2 layers, residual"),
    "norm": ("layer norm", "2 layers, residual, layer norm"),
    "scale": ("1/√m_h",),
}
#: What leaving something out takes for granted, as a sentence that a run can decide
_STATEMENTS = {
    "heads": "One head stands for several of the same total size (multi-headed attention is left "
    "to future research).",
    "depth": "One layer stands for several (deeper Transformers are left to future research).",
    "norm": "Layer normalisation, which is not taken into account, changes nothing.",
    "scale": "The factor 1/√m_h, which Eq. 5 does not have, changes nothing.",
}
_PLACES = {"heads": "Sec. 7", "depth": "Sec. 3, Sec. 7", "norm": "Sec. 3", "scale": "Eq. 5"}


def ratio(results: Results, variant: str, **wanted: object) -> Interval:
    """error of the variant / error of the baseline over all cells and seeds that both have."""
    return geometric_mean(ratios(results, variant, **wanted))


def ratios(results: Results, variant: str, **wanted: object) -> list[float]:
    """The ratio of every cell and seed that the variant and the baseline both have."""
    one, base = (select(results, variant=name, **wanted) for name in (variant, BASELINE))
    return paired(one, base, "alpha", "rank", "size", "seed")


def _present(results: Results) -> list[str]:
    return [name for name in VARIANTS if select(results, variant=name)]


def _targets(results: Results) -> list[Spectral]:
    pairs = sorted({(one.label["alpha"], one.label["rank"]) for one in results})
    return [Spectral(alpha, rank) for alpha, rank in pairs]


def _varied(results: Results) -> list[Spectral]:
    """The targets that were learned with more than one head size."""
    return [t for t in _targets(results) if len(_sizes(select(results, **t.label))) > 1]


def _sizes(results: Results) -> list[int]:
    return sorted({one.label["size"] for one in results})


def claims(results: Results) -> tuple[Claim, ...]:
    """What the theory leaves out, and whether leaving it out changes the picture."""
    groups = [_group(results, name) for name in _GROUPS]
    return (*groups, _phenomenon(results))


def _group(results: Results, name: str) -> Claim:
    """Holds if every variant of the group does the same as Eq. 5, and not if one does not."""
    found = {variant: ratios(results, variant) for variant in _GROUPS[name]}
    seen = {variant: geometric_mean(r) for variant, r in found.items() if r}
    told = "; ".join(f"{variant}: {r}" for variant, r in seen.items())
    each = {variant: _verdict(seen[variant], found[variant]) for variant in seen}
    others = [variant for variant, said in each.items() if said == "does not hold"]
    verdict: Verdict = "does not hold" if others else "open"
    if each and set(each.values()) == {"holds"}:
        verdict = "holds"
    correction = "; ".join(
        f"at equal parameters {variant} has {seen[variant].value:.2g} times the error, so that a "
        f"theory without it is too {'pessimistic' if seen[variant].value < 1 else 'optimistic'}"
        for variant in others
    )
    correction = correction and correction[0].upper() + correction[1:] + "."
    decisive = max(
        others or seen, key=lambda variant: abs(math.log(seen[variant].value)), default=""
    )
    furthest = seen.get(decisive, geometric_mean([]))
    return claim_of(
        "open-questions",
        name,
        _PLACES[name],
        _STATEMENTS[name],
        verdict,
        "Error over that of Eq. 5 with the same total head size and parameters: "
        f"{told or 'not run'} (the same is taken as within a factor {SAME:g}).",
        furthest,
        correction,
    )


def _verdict(found: Interval, each: Sequence[float]) -> Verdict:
    """The same within a factor or not: by the interval, or by CELLS cells that all agree."""
    if len(each) < 2:
        return "open"
    if found.low >= 1 / SAME and found.high <= SAME:
        return "holds"
    if found.high < 1 / SAME or found.low > SAME:
        return "does not hold"
    if len(each) < CELLS:
        return "open"
    if max(each) < 1 / SAME or min(each) > SAME:
        return "does not hold"
    return "holds" if min(each) >= 1 / SAME and max(each) <= SAME else "open"


def size_slope(results: Results, variant: str, target: Spectral) -> Interval:
    """The exponent of the error in the total head size."""
    sizes = _sizes(select(results, **target.label))
    return error_slope(results, "size", sizes, variant=variant, **target.label)


def _phenomenon(results: Results) -> Claim:
    """By the mean exponent over the variants named, on targets where that of Eq. 5 falls."""
    named = [name for group in ("heads", "depth", "norm") for name in _GROUPS[group]]
    targets = [t for t in _varied(results) if _falls(size_slope(results, BASELINE, t))]
    slopes = {
        (name, t): size_slope(results, name, t)
        for name in _present(results)
        if name in named
        for t in targets
    }
    seen = {key: s.value for key, s in slopes.items() if known(s)}
    falling = [key for key, value in seen.items() if value < 0]
    exponent = mean(list(seen.values()))
    verdict: Verdict = "open"
    if len(seen) >= 4:
        if exponent.high < 0 and len(falling) == len(seen):
            verdict = "holds"
        elif exponent.low > 0:
            verdict = "does not hold"
    return claim_of(
        "open-questions",
        "phenomenon",
        "Sec. 3",
        "The setting is simplified, but what the rates say (the error falls with the head size) "
        "is also seen in Transformers with heads, layers, residuals and layer norm.",
        verdict,
        f"Where the error of Eq. 5 falls with its head size ({len(targets)} of "
        f"{len(_varied(results))} targets), it falls with the total head size in {len(falling)} of "
        f"{len(seen)} pairs of variant and target; the mean exponent is {shown(exponent)}.",
        exponent,
    )


def _falls(found: Interval) -> bool:
    """Beyond doubt, or, of two fits without an interval, at all."""
    return known(found) and (found.high < 0 or (found.count == 2 and found.value < 0))


def figures(results: Results) -> tuple[Figure, ...]:
    """Errors over the total head size, a panel a target."""
    panels = tuple(
        Curves(
            target.name,
            "total head size, heads · m_h",
            "error E mean_t |H_t - Ĥ_t|²",
            tuple(
                error_series(name, results, "size", _sizes(results), variant=name, **target.label)
                for name in _present(results)
            ),
            "log",
            "log",
        )
        for target in _varied(results)
    )
    return (
        Figure(
            "open-questions",
            "Variants of Eq. 5 at equal parameters",
            "Mean squared errors of Transformers with the same total head size and, within "
            f"{100 * _spread(results):.2g} %, the same number of parameters.",
            panels,
        ),
    )


def _spread(results: Results) -> float:
    """The largest share by which a fit's parameters differ from the baseline's of its size."""
    shares = [0.0]
    for size in _sizes(results):
        counts = {
            name: [
                one.values["parameters"]
                for one in select(results, variant=name, size=size)
                if "parameters" in one.values
            ]
            for name in _present(results)
        }
        base = counts.get(BASELINE) or [0]
        shares += [abs(c / base[0] - 1) for some in counts.values() for c in some if base[0]]
    return max(shares)


def tables(results: Results) -> tuple[Table, ...]:
    """Ratios to the baseline, exponents, and the numbers of parameters."""
    targets = _targets(results)
    varied = _varied(results)
    rows: list[tuple[Cell, ...]] = []
    for name in _present(results):
        counts = [
            one.values["parameters"]
            for one in select(results, variant=name)
            if "parameters" in one.values
        ]
        span = f"{min(counts):,} to {max(counts):,}" if counts else "unknown"
        by_target = [
            "1" if name == BASELINE else shown(ratio(results, name, **t.label)) for t in targets
        ]
        rows.append(
            (name, span, *by_target, *(shown(size_slope(results, name, t)) for t in varied))
        )
    errors_of = Table(
        "Errors by total head size",
        ("variant", *(f"{t.name}, {size}" for t in targets for size in _sizes(results))),
        tuple(
            (
                name,
                *(
                    _value(cell(results, variant=name, size=size, **t.label))
                    for t in targets
                    for size in _sizes(results)
                ),
            )
            for name in _present(results)
        ),
    )
    ratios = Table(
        "Error over that of Eq. 5, and the exponent in the total head size",
        (
            "variant",
            "parameters",
            *(f"ratio, {t.name}" for t in targets),
            *(f"exponent, {t.name}" for t in varied),
        ),
        tuple(rows),
        "Ratios over cells and seeds with 95 % intervals.",
    )
    return ratios, errors_of


def _value(found: Interval) -> float | None:
    return found.value if known(found) else None


def paragraphs(results: Results) -> tuple[str, ...]:
    """Who is better than the baseline, and by how much."""
    found = {name: ratio(results, name) for name in _present(results) if name != BASELINE}
    seen = {name: r for name, r in found.items() if known(r)}
    text = (
        "The paper's theory has one head and one layer, no residual connections, no layer norm and "
        "no factor 1/√m_h, and leaves the others open. Each is tried on Fig. 1's targets, with the "
        "same total head size and, by the width of the networks, as many parameters."
    )
    if not seen:
        return (text,)
    told = "; ".join(f"{name} {r}" for name, r in sorted(seen.items(), key=lambda p: p[1].value))
    return (
        text,
        f"Error over that of Eq. 5, all cells together: {told}. These are trained errors: a "
        "variant that trains more easily wins here even where it cannot represent more.",
    )
