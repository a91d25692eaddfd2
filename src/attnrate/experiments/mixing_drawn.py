"""What is drawn of mixing-rank: the values of D.3, spectra over filters, inverse filters."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attnrate.figures.figure import Curves, Figure, Line, Series, Table
from attnrate.statistics import Interval, mean, slope

#: App. D.3, below Eq. 101: the values as printed, and half a unit of the last digit printed
PAPER_SIGMA = (1.265, 0.5, 0.4)
PAPER_ROUNDING = (5e-4, 0.05, 0.05)
#: Exact: σ² = (7 ± √33)/8 and 1/4, from ρ~ = 1 + cos b - cos 2a cos b + sin 2a sin b
EXACT_SIGMA = (math.sqrt((7 + math.sqrt(33)) / 8), 0.5, math.sqrt((7 - math.sqrt(33)) / 8))
#: Inverse filters count where what they leave is small enough to be linear, and above rounding
_LINEAR = (1e-7, 0.05)
#: A deconvolution has undone the mixing when it leaves less than this share of ρ
UNDONE = 0.01


def stable_rank(sigma: Sequence[float]) -> float:
    """Σ σ² / σ_1²: how many values of the size of the largest the spectrum amounts to."""
    return float(np.sum(np.square(sigma)) / sigma[0] ** 2)


def tail_share(sigma: Sequence[float], rank: int) -> float:
    """(Σ_{k>rank} σ²)^½ as a share of (Σ σ²)^½."""
    return float(np.linalg.norm(sigma[rank:]) / np.linalg.norm(sigma))


def example_table(example: Mapping[str, Any] | None) -> list[Table]:
    """The values of D.3: by pod, exact, and as printed."""
    if example is None:
        return []
    after = [*example["after"], None, None, None][:3]
    rows = tuple(
        (f"σ{k + 1}", before, after[k], EXACT_SIGMA[k], PAPER_SIGMA[k])
        for k, before in enumerate([*example["before"], None][:3])
    )
    return [
        Table(
            "D.3: singular values before and after x~ = (x1, x2 + x1)",
            ("", "before", "after, by pod", "after, exact", "after, the paper"),
            rows,
            "Modulo what softmax cannot see (a function of x1 alone) the rank is "
            f"{len(example['before_gauge'])} before and {len(example['after_gauge'])} after.",
        )
    ]


def spectrum_table(
    spectra: Mapping[str, list[Mapping[str, Any]]], befores: Mapping[str, list[float]]
) -> list[Table]:
    """Ranks, stable ranks and tails before and after mixing."""
    rows = []
    for name, found in spectra.items():
        before = befores[name]
        sizes = [mean([stable_rank(row[kind]) for row in found]) for kind in ("sigma", "windows")]
        tails = mean([tail_share(row["sigma"], len(before)) for row in found])
        rows.append(
            (
                name,
                len(before),
                number_range([len(row["sigma"]) for row in found]),
                number_range([len(row["windows"]) for row in found]),
                stable_rank(before),
                str(sizes[0]),
                str(sizes[1]),
                str(tails),
            )
        )
    if not rows:
        return []
    return [
        Table(
            "Random filters (1, θ): the spectrum before and after mixing",
            (
                "ρ",
                "rank",
                "rank mixed",
                "rank mixed, windows",
                "stable rank",
                "stable rank mixed",
                "stable rank mixed, windows",
                "share of norm beyond the old rank",
            ),
            tuple(rows),
            "Stable rank: Σσ²/σ1². Means over filters with 95 % intervals.",
        )
    ]


def spectrum_figure(
    spectra: Mapping[str, list[Mapping[str, Any]]], befores: Mapping[str, list[float]]
) -> list[Figure]:
    """The spectra of both couplings before and after mixing."""
    panels = []
    for name, found in spectra.items():
        before = befores[name]
        most = max(len(row["sigma"]) for row in found)
        padded = np.array([[*row["sigma"], *[math.nan] * most][:most] for row in found])
        k = tuple(float(i) for i in range(1, most + 1))
        series = [
            Series("before mixing", k[: len(before)], tuple(before), style="theory"),
            Series(
                "mixed: median and range over filters",
                k,
                tuple(np.nanmedian(padded, 0).tolist()),
                tuple(np.nanmin(padded, 0).tolist()),
                tuple(np.nanmax(padded, 0).tolist()),
            ),
        ]
        if name == "Eq. 100":
            series.append(Series("the paper, θ = 1", (1.0, 2.0, 3.0), PAPER_SIGMA, style="paper"))
        panels.append(
            Curves(f"ρ of {name}", "k", "singular value σ of ρ~", tuple(series), y_scale="log")
        )
    if not panels:
        return []
    caption = (
        "The spectrum of ρ(x1, x2 + θ x1) over random θ, beside that of ρ. "
        "Mixing splits each term into a sine and a cosine of x2: values are added, none is zero."
    )
    return [Figure("mixing-rank-spectra", "Spectra under mixing", caption, tuple(panels))]


def deconvolution_figure(
    inverses: Sequence[Mapping[str, Any]], lengths: Sequence[int]
) -> list[Figure]:
    """What inverse filters leave, over their length and over |θ|^L."""
    if not inverses:
        return []
    shown = sorted(inverses, key=lambda row: abs(row["theta"]))
    shown = shown[:: max(1, len(shown) // 6)]
    lines = tuple(
        Series(
            f"|θ| = {abs(row['theta']):.2f}",
            tuple(map(float, lengths)),
            tuple(row["past"]),
            style="measured" if abs(row["theta"]) < 1 else "faint",
        )
        for row in shown
    )
    x, y = _collapsed(inverses, lengths)
    order = np.argsort(x)
    panels = [
        Curves(
            "inverse filter that reads the past",
            "terms of the inverse filter L",
            "what is left, share of ρ",
            lines,
            y_scale="log",
            lines=(Line("undone", y=UNDONE),),
        )
    ]
    if x:
        panels.append(
            Curves(
                "all filters, by the inverse that fits",
                "|θ|^L, or |θ|^-L for |θ| > 1",
                "what is left, share of ρ",
                (
                    Series(
                        "measured",
                        tuple(float(x[i]) for i in order),
                        tuple(float(y[i]) for i in order),
                    ),
                ),
                "log",
                "log",
            )
        )
    caption = (
        "The error of the deconvolved coupling, thin lines for |θ| > 1, where the inverse from the "
        "past does not decay. Right: with the inverse that reads the future for |θ| > 1; the line "
        f"through all filters has the slope {law_of_inverses(inverses, lengths)}, theory says 1."
    )
    return [Figure("mixing-rank-deconvolution", "Undoing a filter", caption, tuple(panels))]


def _collapsed(
    inverses: Sequence[Mapping[str, Any]], lengths: Sequence[int]
) -> tuple[list[float], list[float]]:
    """|θ|^L (or |θ|^-L) and what is left, where the inverse filter is the right one."""
    x, y = [], []
    for row in inverses:
        theta = abs(row["theta"])
        side, base = ("past", theta) if theta < 1 else ("future", 1 / theta)
        for length, left in zip(lengths, row[side], strict=True):
            if _LINEAR[0] < base**length < _LINEAR[1] and left > 0:
                x.append(base**length)
                y.append(left)
    return x, y


def law_of_inverses(inverses: Sequence[Mapping[str, Any]], lengths: Sequence[int]) -> Interval:
    """The power of |θ|^L with which what is left falls."""
    return slope(*_collapsed(inverses, lengths))


def number_range(values: Sequence[int]) -> str:
    """The range of whole numbers, in words."""
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"
