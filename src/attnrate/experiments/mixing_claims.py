"""What the runs of mixing-rank say: paragraphs and claims."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attnrate.experiments.claims import Claim, Verdict
from attnrate.experiments.experiment import Conclusion, Result, select
from attnrate.experiments.mixing_drawn import (
    EXACT_SIGMA,
    PAPER_ROUNDING,
    PAPER_SIGMA,
    UNDONE,
    deconvolution_figure,
    example_table,
    law_of_inverses,
    number_range,
    spectrum_figure,
    spectrum_table,
    tail_share,
)
from attnrate.statistics import Interval, mean

#: Computed and exact values agree when they differ by less
_AGREE = 1e-6
#: A number within this share of the paper's is the same up to its numerical estimate
_NEAR = 0.01
#: Filters nearer to |θ| = 1 than this need longer inverses than are tried
_CLEAR = 0.75


def conclusion(results: Sequence[Result]) -> Conclusion:
    """All that can be said from the results at hand."""
    example = next((one.values for one in select(results, part="example")), None)
    spectra = {
        name: _filters(results, part="filters", coupling=name) for name in ("Eq. 100", "Fig. 1")
    }
    spectra = {name: rows for name, rows in spectra.items() if rows}
    befores = {
        name: select(results, part="filters", coupling=name)[0].values["before"] for name in spectra
    }
    inverses = _filters(results, part="deconvolution")
    lengths = next(
        (one.values["lengths"] for one in select(results, part="deconvolution")), list[int]()
    )
    claims = [
        *_example_claims(example),
        *_spectrum_claims(spectra, befores),
        *_deconvolution_claims(inverses, lengths),
    ]
    figures = [*spectrum_figure(spectra, befores), *deconvolution_figure(inverses, lengths)]
    tables = [*example_table(example), *spectrum_table(spectra, befores)]
    return Conclusion(
        _paragraphs(spectra, befores, claims), tuple(figures), tuple(tables), tuple(claims)
    )


def _filters(results: Sequence[Result], **wanted: object) -> list[Mapping[str, Any]]:
    return [row for one in select(results, **wanted) for row in one.values["filters"]]


def _example_claims(example: Mapping[str, Any] | None) -> list[Claim]:
    if example is None:
        return []
    before, after = example["before"], example["after"]
    same = len(after) == 3 and np.allclose(after, EXACT_SIGMA, atol=_AGREE)
    printed = same and all(
        abs(a - p) <= half for a, p, half in zip(after, PAPER_SIGMA, PAPER_ROUNDING, strict=True)
    )
    near = same and all(abs(a / p - 1) <= _NEAR for a, p in zip(after, PAPER_SIGMA, strict=True))
    values: Verdict = "holds" if printed else "holds when corrected" if near else "does not hold"
    rises = len(after) > len(before)
    gauge = (len(example["before_gauge"]), len(example["after_gauge"]))
    return [
        Claim(
            "mixing-rank-example-values",
            "App. D.3, below Eq. 101",
            "The singular values of ρ~ are 1.265, 0.5 and 0.4, estimated numerically.",
            "mixing-rank",
            values,
            f"pod gives {_listed(after)}; the exact values are {_listed(EXACT_SIGMA)}, with "
            f"σ² = (7 ± √33)/8 and 1/4. The largest gap to the paper's is "
            f"{max(abs(a - p) for a, p in zip(EXACT_SIGMA, PAPER_SIGMA, strict=True)):.2g}.",
            after[0] if after else None,
            correction="" if printed else f"Read {_listed(EXACT_SIGMA)}.",
        ),
        Claim(
            "mixing-rank-example-rank",
            "App. D.3, Eq. 100-101",
            "Mixing x~ = (x1, x1 + x2) raises the rank of ρ from 2.",
            "mixing-rank",
            "holds" if rises and gauge[1] > gauge[0] else "does not hold",
            f"rank {len(before)} before, {len(after)} after; modulo the softmax gauge "
            f"{gauge[0]} and {gauge[1]}.",
            float(len(after)),
        ),
    ]


def _spectrum_claims(
    spectra: Mapping[str, list[Mapping[str, Any]]], befores: Mapping[str, list[float]]
) -> list[Claim]:
    if not spectra:
        return []
    told, windows, rises, kept, count = [], [], 0, 0, 0
    for name, rows in spectra.items():
        rank = len(befores[name])
        ranks = [len(row["sigma"]) for row in rows]
        tails = mean([tail_share(row["sigma"], rank) for row in rows])
        told.append(
            f"{name}: rank {rank} becomes {number_range(ranks)}, and {_percent(tails)} of the norm "
            f"lies beyond rank {rank}"
        )
        windows.append(f"{name}: rank {number_range([len(row['windows']) for row in rows])}")
        rises += sum(r > rank for r in ranks)
        kept += sum(len(row["windows"]) <= rank for row in rows)
        count += len(rows)
    return [
        Claim(
            "mixing-rank-random-filters",
            "Sec. 6.2, App. D.3",
            "Temporal mixing can raise the rank of ρ, which the paper shows by one example.",
            "mixing-rank",
            "holds" if rises == count else "holds when corrected" if rises else "does not hold",
            f"{rises} of {count} random filters (1, θ), θ uniform on ±2, raise it ("
            + "; ".join(told)
            + ").",
            rises / count,
            correction=""
            if rises in (0, count)
            else f"Not every filter does: {count - rises} do not.",
        ),
        Claim(
            "mixing-rank-other-representation",
            "App. D.3, last paragraph",
            "Other representations of the mixed target may have another rank pattern; the paper "
            "does not exclude it.",
            "mixing-rank",
            "holds" if kept == count else "open",
            "with windows (x(t-1), x(t)) as tokens, as long as the filter, the rank is not raised "
            f"for {kept} of {count} filters ({'; '.join(windows)}): the new rank comes from x1 "
            "standing in both single tokens.",
            kept / count,
        ),
    ]


def _deconvolution_claims(
    inverses: Sequence[Mapping[str, Any]], lengths: Sequence[int]
) -> list[Claim]:
    if not inverses:
        return []
    past = [row for row in inverses if abs(row["theta"]) <= _CLEAR]
    future = [row for row in inverses if abs(row["theta"]) >= 1 / _CLEAR]
    if not past or not future:
        verdict: Verdict = "open"
        evidence = "too few filters were drawn on one side of |θ| = 1."
        law = Interval(math.nan, math.nan, math.nan, 0)
    else:
        longest = [max(row["past"][-1] for row in past), max(row["future"][-1] for row in future)]
        stays = min(row["past"][-1] for row in future)
        law = law_of_inverses(inverses, lengths)
        works = longest[0] <= UNDONE and longest[1] <= UNDONE
        if not works:
            verdict = "does not hold"
        else:
            verdict = "holds when corrected" if stays > UNDONE else "holds"
        evidence = (
            f"with {lengths[-1]} terms the inverse filter from the past leaves at most "
            f"{longest[0]:.2g} of ρ for {len(past)} filters with |θ| ≤ {_CLEAR:.3g}, but at least "
            f"{stays:.2g} for {len(future)} with |θ| ≥ {1 / _CLEAR:.3g}, where one that reads the "
            f"future leaves at most {longest[1]:.2g}. What is left goes with |θ|^L "
            f"(or |θ|^-L) to the power {law}."
        )
    return [
        Claim(
            "mixing-rank-deconvolution",
            "App. D.3, last paragraph",
            "A suitable deconvolution can undo the mixing and decrease the complexity of the "
            "target.",
            "mixing-rank",
            verdict,
            evidence,
            *law.limits,
            "With the past alone it works for filters of minimum phase, |θ| < 1; for the others "
            "the inverse has to read the future. Where the filter is part of the target, "
            "H~(x) = H(θ∗x), no inverse is needed: θ itself, applied to the inputs, gives H back."
            if verdict == "holds when corrected"
            else "",
        )
    ]


def _paragraphs(
    spectra: Mapping[str, list[Mapping[str, Any]]],
    befores: Mapping[str, list[float]],
    claims: Sequence[Claim],
) -> tuple[str, ...]:
    said = {claim.name: claim for claim in claims}
    first = [
        said[name].evidence[:1].upper() + said[name].evidence[1:]
        for name in ("mixing-rank-example-values", "mixing-rank-example-rank")
        if name in said
    ]
    for name, rows in spectra.items():
        ranks = number_range([len(row["sigma"]) for row in rows])
        first.append(
            f"Over {len(rows)} random filters the rank of {name} goes from "
            f"{len(befores[name])} to {ranks}."
        )
    second = [
        said[name].evidence[:1].upper() + said[name].evidence[1:]
        for name in ("mixing-rank-other-representation", "mixing-rank-deconvolution")
        if name in said
    ]
    return tuple(" ".join(part) for part in (first, second) if part)


def _percent(share: Interval) -> str:
    if math.isnan(share.low):
        return f"{100 * share.value:.0f} %"
    return f"{100 * share.value:.0f} % [{100 * share.low:.0f}, {100 * share.high:.0f}]"


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.6g}" for value in values)
