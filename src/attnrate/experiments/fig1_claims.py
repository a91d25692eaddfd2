"""What Fig. 1's results say of the paper's sentences.

The rules were set with quick results at hand, and before any result of the full preset was seen.
"""

import math
from itertools import pairwise

from attnrate.experiments.claims import Claim, Verdict
from attnrate.experiments.experiment import select
from attnrate.experiments.fig1_read import (
    Results,
    Targets,
    beyond,
    curve_slope,
    fallen,
    misfit_of_power,
    pod_ratios,
    pooled,
    ratios,
    theory_rows,
    with_constant,
)
from attnrate.experiments.spectral import LONG, Spectral, cell, claim_of, known, shown
from attnrate.theory.statistics import Interval

#: A compiled error at most this is zero in float64
ZERO = 1e-20
#: Errors "fall" when the last one is at most this part of the first
FALLEN = 0.9
#: Trained errors beyond the rank "vanish" when they are at most this part of those before it
VANISHED = 0.1
#: A slope whose interval is wider than this decides nothing
WIDE = 1.5
#: The form with the constant and the free power law both have two free numbers; the form fits when
#: its misfit in logarithms is at most so many times that of the power law
SLACK = 1.1
ROUNDING = 1e-6
#: Training "until the loss does not decrease" is a good estimate within this factor
ESTIMATE = 2.0


def claims(results: Results, targets: Targets) -> tuple[Claim, ...]:
    """One claim a sentence; what the results cannot decide is open."""
    long = [target for target in targets if target.rank == LONG]
    return (
        _falls(results, targets),
        _possible(results, targets),
        _trained_vanishes(results, targets),
        *(_rate(results, target, curve) for target in long for curve in ("compiled", "strong")),
        _rank(results, targets),
        _printed(results, targets),
        _rigorous(results, targets),
        _pod(results, targets),
        _enough_epochs(results, targets),
    )


def _claim(
    name: str,
    place: str,
    statement: str,
    verdict: Verdict,
    evidence: str,
    found: Interval | float | None = None,
    correction: str = "",
) -> Claim:
    return claim_of("fig1", name, place, statement, verdict, evidence, found, correction)


def _falls(results: Results, targets: Targets) -> Claim:
    """By the ratio of the last error below the rank to the first, for compiled and trained."""
    found = {
        (t.name, curve): fallen(results, t, curve)
        for t in targets
        for curve in ("compiled", "strong")
    }
    seen = {key: r for key, r in found.items() if math.isfinite(r)}
    told = "; ".join(f"{name}, {_WORDS[curve]}: {r:.2g}" for (name, curve), r in seen.items())
    worst = max(seen.values(), default=math.nan)
    verdict: Verdict = "open"
    if {curve for _, curve in seen} == {"compiled", "strong"}:
        verdict = "holds" if worst <= FALLEN else "does not hold" if worst >= 1 else "open"
    return _claim(
        "falls",
        "Sec. 5.1, Fig. 1",
        "The error falls as m_h grows.",
        verdict,
        f"Error at the largest m_h < r over that at the least: {told or 'not run'}.",
        found=worst,
    )


def _possible(results: Results, targets: Targets) -> Claim:
    finite = [t for t in targets if t.rank < LONG]
    found = [
        row["mse"] for t in finite for m_h, row in theory_rows(results, t).items() if m_h >= t.rank
    ]
    largest = max(found, default=math.nan)
    verdict: Verdict = "open" if not found else "holds" if largest <= ZERO else "does not hold"
    return _claim(
        "perfect-beyond-rank",
        "Sec. 5.1",
        "If r is finite, perfect approximation is possible as soon as m_h >= r, with m_FF large.",
        verdict,
        f"The compiled Transformer with exact bases has an error of at most {largest:.2g} in "
        f"{len(found)} cells with m_h >= r.",
        found=largest,
    )


def _trained_vanishes(results: Results, targets: Targets) -> Claim:
    finite = [t for t in targets if t.rank < LONG]
    by_curve = {
        curve: {t.name: beyond(results, t, curve) for t in finite}
        for curve in ("strong", "long", "paper")
    }
    found = {
        curve: {name: i for name, i in some.items() if known(i)} for curve, some in by_curve.items()
    }
    told = "; ".join(
        f"{_WORDS[curve]}, {name}: {i}" for curve, some in found.items() for name, i in some.items()
    )
    # longer training decides where there is any: what training has not reached yet is no floor
    strong = [i.value for i in (found["strong"] | found["long"]).values()]
    verdict: Verdict = "open"
    seeds = {one.label["seed"] for one in select(results, curve="strong")}
    if len(strong) >= 3:
        # one fit that stopped early refutes nothing: zero is possible, as the compiled one shows
        refuted: Verdict = "does not hold" if len(seeds) > 1 else "open"
        verdict = "holds" if max(strong) <= VANISHED else refuted
    adam = [i.value for i in found["paper"].values()]
    correction = ""
    if verdict == "holds" and adam and max(adam) > VANISHED:
        correction = (
            f"With the strong recipe; with Adam the largest ratio is {max(adam):.2g}, "
            "which is the optimiser's doing."
        )
    return _claim(
        "vanishes",
        "Fig. 1",
        "The error of the trained Transformer vanishes for m_h >= r.",
        "holds when corrected" if correction else verdict,
        "No trained error is zero; error at m_h >= r over that at the last m_h < r: "
        f"{told or 'not run'} (vanishing is taken as at most {VANISHED:g}).",
        found=max(strong, default=None),
        correction=correction,
    )


def _rate(results: Results, target: Spectral, curve: str) -> Claim:
    """Of the construction in the proof, whose error is exact, or of trained Transformers."""
    claimed = -target.rate
    found = curve_slope(results, target, curve)
    form = with_constant(results, target, curve)
    power = misfit_of_power(results, target, curve)
    verdict: Verdict = "open"
    correction = ""
    seeds = {one.label["seed"] for one in select(results, curve=curve, **target.label)}
    # with one seed a floor of training cannot be told from a rate
    enough = curve == "compiled" or len(seeds) > 1
    if form is not None and enough and known(found) and found.high - found.low <= WIDE:
        fits = math.log(form.misfit) <= max(SLACK * math.log(power), ROUNDING)
        verdict = "holds" if found.low <= claimed <= found.high or fits else "does not hold"
        if verdict == "does not hold":
            correction = _other_rate(found.high < claimed)
    told = ""
    if form is not None:
        told = (
            f". The form c m_h^{claimed:.3g} + constant misses the errors by a factor of "
            f"{form.misfit:.3g}, the free power by {power:.3g}"
        )
    whose = "the construction in the proof" if curve == "compiled" else "trained Transformers"
    return _claim(
        f"{'construction' if curve == 'compiled' else 'trained'}-rate-{target.alpha:g}",
        "Sec. 5.1" if curve == "compiled" else "Fig. 1",
        f"For r = ∞ and σ_k = k^-{target.alpha:g} the error of {whose} decays like "
        f"m_h^-{target.rate:.3g} + constant.",
        verdict,
        f"Exponent of the mean squared error: {shown(found)}, claimed {claimed:.3g}{told}.",
        found=found,
        correction=correction,
    )


def _other_rate(faster: bool) -> str:
    if faster:
        return "It falls faster: the singular values bound the error, but do not set its rate."
    return (
        "It falls more slowly than the singular values promise: the proof overlooks the pair "
        "s = t, whose share of the logits' error falls more slowly."
    )


def _rank(results: Results, targets: Targets) -> Claim:
    """For fixed m_h and alpha the three ranks must come in order."""
    right = total = 0
    broken = []
    for alpha in sorted({t.alpha for t in targets}):
        ranks = sorted(t.rank for t in targets if t.alpha == alpha)
        for low, high in pairwise(ranks):
            for m_h in range(1, 17):
                one, two = (
                    cell(results, curve="strong", alpha=alpha, rank=rank, m_h=m_h)
                    for rank in (low, high)
                )
                # beyond both ranks both are zero but for training
                if not (known(one) and known(two)) or m_h >= high:
                    continue
                total += 1
                right += one.value < two.value
                if one.value >= two.value:
                    broken.append(f"α = {alpha:g}, m_h = {m_h}")
    share = right / total if total else math.nan
    verdict: Verdict = "open"
    if total >= 4:
        verdict = "holds" if share >= 0.9 else "does not hold"
    where = f" Not at {'; '.join(broken)}." if broken else ""
    return _claim(
        "grows-with-rank",
        "Sec. 5.1",
        "For a fixed m_h the error increases with the rank of the target.",
        verdict,
        f"True in {right} of {total} pairs of neighbouring ranks (strong recipe, m_h below the "
        f"larger rank).{where}",
        found=share if total else None,
    )


def _printed(results: Results, targets: Targets) -> Claim:
    rows = [(t, m, row) for t in targets for m, row in theory_rows(results, t).items()]
    below = [row["l1"] / row["printed"] for _, _, row in rows if row["l1"] > 0]
    long = {t: curve_slope(results, t, "compiled l1") for t in targets if t.rank == LONG}
    told = "; ".join(
        f"{t.name}: {shown(s)} (printed {-t.rate:.3g}, by Cauchy-Schwarz {-t.rate / 2:.3g})"
        for t, s in long.items()
    )
    slower = [t for t, s in long.items() if known(s) and s.low > -t.rate]
    verdict: Verdict = "open"
    if below:
        verdict = "holds when corrected" if max(below) <= 1 else "does not hold"
    correction = (
        "The proof inserts the squared tail where the tail belongs (Eq. 46-50): in L1 the exponent "
        "is α - 1/2, and 2α - 1 is that of the mean squared error; and it leaves out the pair "
        "s = t. With C0 = max(.., 1), for the minimum printed."
    )
    if slower:
        correction += (
            " The construction's own L1 error falls more slowly than the printed exponent for "
            + "; ".join(t.name for t in slower)
            + "."
        )
    loose = f"{1 / max(below):.3g}" if below else "unknown"
    return _claim(
        "theorem-printed",
        "Theorem 4.1, Eq. 17",
        "The L1 error is at most τ² C0 C1 m_h^-(2α-1), if the feed-forward networks are exact.",
        verdict,
        f"The printed number over the compiled L1 error is {loose} at the least, in {len(below)} "
        f"cells with m_h < r; its factor τ² C0 is large. Exponents of the compiled L1 error: "
        f"{told or 'not run'}.",
        found=1 / max(below) if below else None,
        correction=correction if verdict == "holds when corrected" else "",
    )


def _rigorous(results: Results, targets: Targets) -> Claim:
    rows = [row for t in targets for row in theory_rows(results, t).values()]
    factors = [row["rigorous"] / row["mse"] for row in rows if row["mse"] > ZERO]
    above = sum(row["rigorous"] >= row["mse"] and row["rigorous_l1"] >= row["l1"] for row in rows)
    idle = sum(row["rigorous"] > row["trivial"] for row in rows if row["mse"] > ZERO)
    tight = pooled([factors])
    verdict: Verdict = "open" if not rows else "holds" if above == len(rows) else "does not hold"
    return _claim(
        "theorem-rigorous",
        "Theorem 4.1, as proved",
        "With the tail itself for its square, and with the pair s = t, the bound of the proof is "
        "an upper bound.",
        verdict,
        f"In {above} of {len(rows)} cells it lies above the compiled error in both norms. In mean "
        f"squared error it is larger by a factor of {shown(tight)}, and in {idle} of "
        f"{len(factors)} cells with m_h < r it is above what any model in the range of f reaches.",
        found=tight,
    )


def _pod(results: Results, targets: Targets) -> Claim:
    gain = pooled(pod_ratios(results, t, "coupling") for t in targets)
    each = "; ".join(
        f"{t.name}: {shown(pooled([pod_ratios(results, t, 'coupling')]))}" for t in targets
    )
    verdict: Verdict = "open"
    if known(gain) and not math.isnan(gain.low):
        verdict = "holds" if gain.low <= 1 <= gain.high or gain.high < 1 else "does not hold"
    return _claim(
        "pod-sets-error",
        "Sec. 4.3, Eq. 11, 18",
        "The approximation of ρ by the attention is a low-rank approximation, so that the error in "
        "m_h is that of the truncated POD.",
        verdict,
        "Error of the truncated POD over that of training with F = f = id, where m_h < r: "
        f"{shown(gain)}; {each}.",
        found=gain,
        correction="The POD is best in L2 for the logits of independent tokens; the output has "
        "only the mean of x(s) under the weights. The table of logits has the parts."
        if verdict == "does not hold"
        else "",
    )


def _enough_epochs(results: Results, targets: Targets) -> Claim:
    """Refuted when most cells are above the factor, confirmed when most are below it."""
    each = [ratio for t in targets for ratio in ratios(results, t, "paper", "strong")]
    found = pooled([each])
    above = sum(ratio > ESTIMATE for ratio in each)
    verdict: Verdict = "open"
    if len(each) >= 3:
        if above >= 0.75 * len(each):
            verdict = "does not hold"
        elif above <= 0.25 * len(each):
            verdict = "holds"
    return _claim(
        "training-estimates",
        "App. C",
        "Training until the loss does not decrease estimates the approximation error.",
        verdict,
        "Error by the paper's recipe (Adam, its steps capped here) over that by the strong recipe, "
        f"same target, m_h and seed: {shown(found)}; more than {ESTIMATE:g} in {above} of "
        f"{len(each)} cells.",
        found=found,
    )


_WORDS = {
    "compiled": "compiled",
    "strong": "trained",
    "long": "trained longer",
    "paper": "trained with Adam",
    "coupling": "trained with F = f = id",
}
