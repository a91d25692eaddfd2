"""Fig. 1 drawn and told: figures, tables and paragraphs, all computed from the results."""

import math

from attnrate.experiments.experiment import select
from attnrate.experiments.fig1_read import (
    Results,
    Row,
    Targets,
    beyond,
    curve_slope,
    pod_ratios,
    pooled,
    ratios,
    theory_rows,
)
from attnrate.experiments.spectral import (
    LONG,
    Spectral,
    cell,
    error_series,
    known,
    rank_word,
    seeds_word,
    shown,
)
from attnrate.figures.figure import Cell, Curves, Figure, Series, Style, Table
from attnrate.statistics import Interval, geometric_mean

SIZES = tuple(range(1, 17))
_CURVES = {
    "strong": "trained, strong recipe",
    "long": "trained longer",
    "paper": "trained, paper's recipe (Adam)",
    "coupling": "trained, F = f = id",
}
_MSE = "E mean_t |H_t - Ĥ_t|²"
#: Of the table of errors; the figure has them all
_ROWS = (1, 2, 3, 4, 6, 8, 12, 16)


def figures(results: Results, targets: Targets) -> tuple[Figure, ...]:
    """The paper's figure, and the four curves for every target."""
    alphas = sorted({t.alpha for t in targets})
    paper = Figure(
        "fig1",
        "Error against head size",
        "As the paper's Fig. 1: mean squared error of the trained Transformer (strong recipe) for "
        "three ranks, with intervals over seeds, and the slope -(2α-1) that the paper draws, "
        "from the first error of r = ∞. " + _slopes_told(results, targets),
        tuple(_as_printed(results, targets, alpha) for alpha in alphas),
    )
    four = Figure(
        "fig1-curves",
        "Bounds, compiled and trained Transformers",
        "Mean squared errors. The printed bound is Eq. 17, which the paper states in L1 and "
        "compares with these; the rigorous one is the bound as proved. Compiled errors for "
        "m_h >= r are zero in float64 and rigorous bounds there are those of the arithmetic; "
        "neither is drawn.",
        tuple(_four_curves(results, target) for target in targets),
    )
    return paper, four


def _as_printed(results: Results, targets: Targets, alpha: float) -> Curves:
    series = [
        error_series(f"r = {rank_word(t.rank)}", results, "m_h", SIZES, curve="strong", **t.label)
        for t in targets
        if t.alpha == alpha
    ]
    long = Spectral(alpha, LONG)
    first = cell(results, curve="strong", m_h=1, **long.label)
    if known(first):
        series.append(
            Series(
                f"paper: slope -{long.rate:.3g}",
                (1.0, 16.0),
                (first.value, first.value * 16**-long.rate),
                style="paper",
            )
        )
    return _panel(f"α = {alpha:g}", series)


def _four_curves(results: Results, target: Spectral) -> Curves:
    rows = theory_rows(results, target)
    below = {m_h: row for m_h, row in rows.items() if m_h < target.rank}
    series = [
        _theory_series("printed bound", rows, "printed", "theory"),
        _theory_series("rigorous bound", below, "rigorous", "theory"),
        _theory_series("compiled", below, "mse", "measured"),
    ]
    series += [
        error_series(word, results, "m_h", SIZES, curve=curve, **target.label)
        for curve, word in _CURVES.items()
    ]
    return _panel(target.name, series)


def _theory_series(word: str, rows: dict[int, Row], name: str, style: Style) -> Series:
    values = tuple(row[name] for row in rows.values())
    return Series(word, tuple(map(float, rows)), values, style=style)


def _panel(title: str, series: list[Series]) -> Curves:
    kept = tuple(one for one in series if one.x)
    return Curves(title, "head size m_h", f"error {_MSE}", kept, "log", "log")


def tables(results: Results, targets: Targets) -> tuple[Table, ...]:
    """Slopes, errors, and what training does to the logits."""
    return _slope_table(results, targets), _error_table(results, targets), _why(results, targets)


def _slope_table(results: Results, targets: Targets) -> Table:
    words = {"compiled": "compiled", **_CURVES}
    rows: list[tuple[Cell, ...]] = []
    for target in targets:
        if target.rank <= 2:
            continue
        for curve, word in words.items():
            found = curve_slope(results, target, curve)
            if known(found):
                rows.append((target.name, word, str(found), -target.rate, "mean squared"))
        in_l1 = curve_slope(results, target, "compiled l1")
        if known(in_l1):
            rows.append((target.name, "compiled", str(in_l1), -target.rate / 2, "L1"))
    return Table(
        "Exponents of the error in m_h, fitted where m_h < r",
        ("target", "curve", "fitted [95 %]", "of the singular values", "norm"),
        tuple(rows),
        "The exponent of the singular values is -(2α-1) for the mean squared error and -(α-1/2) "
        "for L1, where the paper prints -(2α-1). Every fit is a point of the regression; for "
        "finite r no power law is expected, the error falls to zero at r.",
    )


def _error_table(results: Results, targets: Targets) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for target in targets:
        theory = theory_rows(results, target)
        for m_h in _ROWS:
            fits = [cell(results, curve=curve, m_h=m_h, **target.label) for curve in _CURVES]
            row = theory.get(m_h)
            if row is None and not any(known(one) for one in fits):
                continue
            sides = [row[k] if row else None for k in ("printed", "rigorous", "mse")]
            rows.append(
                (target.name, m_h, *sides, *(one.value if known(one) else None for one in fits))
            )
    return Table(
        f"Errors {_MSE}",
        ("target", "m_h", "printed bound", "rigorous bound", "compiled", *_CURVES.values()),
        tuple(rows),
        "Geometric means over seeds. For m_h >= r the rigorous bound is that of float64.",
    )


def _why(results: Results, targets: Targets) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for target in targets:
        fits = [
            one
            for one in select(results, curve="coupling", **target.label)
            if one.values.get("pod_error")
        ]
        for m_h in target.below(sorted({one.label["m_h"] for one in fits})):
            here = select(fits, m_h=m_h)
            rows.append(
                (
                    target.name,
                    m_h,
                    *(str(_over(here, *pair)) for pair in _PAIRS.values()),
                )
            )
    return Table(
        "Training with F = f = id over the truncated POD of the same m_h",
        ("target", "m_h", *_PAIRS),
        tuple(rows),
        "Ratios of squared errors, below 1 where training is better. The logits are compared "
        "modulo the gauge: over independent tokens, which the POD makes as small as can be, and "
        "over the pair s = t, of which it knows nothing.",
    )


_PAIRS = {
    "output error": ("error", "pod_error"),
    "logits, s ≠ t": ("trained_pairs", "pod_pairs"),
    "logits, s = t": ("trained_diagonal", "pod_diagonal"),
    "attention weights": ("trained_weights", "pod_weights"),
}


def _over(results: Results, above: str, below: str) -> Interval:
    kept = [one.values for one in results if one.values.get(above) and one.values.get(below)]
    return geometric_mean([v[above] / v[below] for v in kept])


def paragraphs(results: Results, targets: Targets) -> tuple[str, ...]:
    """What was run and what came out, in numbers."""
    return tuple(
        text
        for text in (
            _setting(results),
            _rates_told(results, targets),
            _gain_told(results, targets),
            _optimiser_told(results, targets),
        )
        if text
    )


def _setting(results: Results) -> str:
    trained, adam = (select(results, curve=curve) for curve in ("strong", "paper"))
    held = len(select(results, curve="coupling"))
    return (
        "Targets of sec. 5.1 with σ_k = k^-α for k <= r, F = f = id and 16 tokens uniform on "
        f"[0, 1]. r = ∞ is a sum of {LONG} terms: for α <= 1 the series diverges on the diagonal "
        f"u = v, where Eq. 8 would have no value. {len(trained)} fits of the full model by the "
        f"strong recipe ({seeds_word(trained)}{_steps_told(trained)}), {held} with F "
        f"and f held at the identity, {len(adam)} by the paper's Adam with its steps "
        f"capped{_steps_told(adam)}. All errors are mean squared errors on fresh inputs."
    )


def _steps_told(fits: Results) -> str:
    steps = [one.values["steps"] for one in fits if "steps" in one.values]
    if not steps:
        return ""
    few, many = min(steps), max(steps)
    return f", {many:,} steps" if few == many else f", {few:,} to {many:,} steps"


def _rates_told(results: Results, targets: Targets) -> str:
    told = _slopes_told(results, targets)
    finite = [t for t in targets if t.rank < LONG]
    zero = [
        row["mse"] for t in finite for m_h, row in theory_rows(results, t).items() if m_h >= t.rank
    ]
    fallen = pooled(
        [
            [beyond(results, t, "strong").value]
            for t in finite
            if known(beyond(results, t, "strong"))
        ]
    )
    if zero:
        told += f" For m_h >= r the compiled error is {max(zero):.2g}"
        if known(fallen):
            told += (
                f"; the trained one is {fallen.value:.2g} times that at the last m_h < r: it "
                "falls, but no training reaches zero"
            )
        told += "."
    return told


def _slopes_told(results: Results, targets: Targets) -> str:
    told = [
        f"for {t.name} trained {shown(curve_slope(results, t, 'strong'))}, "
        f"compiled {shown(curve_slope(results, t, 'compiled'))}, claimed {-t.rate:.3g}"
        for t in targets
        if t.rank == LONG
    ]
    return f"Exponents of the error in m_h: {'; '.join(told)}."


def _gain_told(results: Results, targets: Targets) -> str:
    gain = pooled(pod_ratios(results, t, "coupling") for t in targets)
    if not known(gain):
        return ""
    fits = [
        one
        for one in select(results, curve="coupling")
        if one.values.get("pod_error") and one.label["m_h"] < one.label["rank"]
    ]
    said = {name: _over(fits, *pair) for name, pair in _PAIRS.items()}
    text = (
        "With F = f = id and m_h < r the error of the truncated POD is "
        f"{gain} times that of training. The gauge has no part in it: the sines have no mean, so "
        "that projecting constants out leaves the POD of these couplings as it is. "
    )
    if known(said["output error"]):
        text += _logits_told(said)
    return text + _gauge_told(results)


def _logits_told(said: dict[str, Interval]) -> str:
    logits, weights = said["logits, s ≠ t"], said["attention weights"]
    if logits.value <= 1:
        return (
            "Its logits are closer to ρ over independent tokens too, modulo the gauge (squared "
            f"error {logits} times the POD's). "
        )
    text = (
        "Nor is it that ρ is learned better: modulo the gauge the squared error of the trained "
        f"logits is {logits} times the POD's over independent tokens, and "
        f"{said['logits, s = t']} times on the pair s = t. "
    )
    if weights.value <= 2 * said["output error"].value:
        return text + (
            f"But the attention weights are closer ({weights} times the POD's squared error): "
            "training spends its rank where softmax cares. "
        )
    return text + (
        f"The squared error of the attention weights is {weights} times the POD's, that of the "
        f"output {said['output error']} times: the weights' errors cancel in the mean of x(s), "
        "which is all that the output has of them. "
    )


def _gauge_told(results: Results) -> str:
    found = [one.values for one in select(results, curve="gauge")]
    if not found:
        return ""
    lost = geometric_mean([v["shifted_without"] / v["plain_without"] for v in found])
    kept = max(abs(v["shifted_with"] / v["plain_without"] - 1) for v in found)
    return (
        "What the gauge is worth shows when the same map is written with ρ + 3 cos 2πu: compiled "
        f"without the gauge its error is {lost.value:.3g} times as large at r = 6, m_h = 3, with "
        f"it the error is the same to {max(kept, 1e-16):.1g}."
    )


def _optimiser_told(results: Results, targets: Targets) -> str:
    text = ""
    adam = pooled(ratios(results, t, "paper", "strong") for t in targets)
    if known(adam):
        text = f"Adam ends {adam} times higher than the strong recipe ({adam.count} cells). "
    longer = {
        t.name: pooled([ratios(results, t, "strong", "long")])
        for t in targets
        if not math.isnan(pooled([ratios(results, t, "strong", "long")]).value)
    }
    if longer:
        told = "; ".join(f"{name}: {ratio}" for name, ratio in longer.items())
        text += (
            "The strong recipe has larger steps and smaller batches here than its own; its error "
            f"over that of the recipe as it stands and longer training: {told}."
        )
    return text.strip()
