"""What the ViTs of Fig. 3 say: distances between spectra, the law of the errors, the claims.

The rules of the verdicts were written before any result of the full preset was seen. m_h doubles
from one model to the next, so distances D between successive spectra sum up, and the spectra
converge, just when D falls like a power of m_h: that slope decides, over all head sizes and over
the larger half. The energy beyond m_h falls with m_h in any spectrum, so that its order says
nothing; Theorem 4.1 says that the excess error is proportional to it, which a correlation
can tell from a spectrum that does not decay. The exponent decides by whether
its interval holds the paper's. The paper's "training error" is above 1, so it is a loss: ours is
the cross entropy on training images.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from attnrate.experiments.claims import Claim, Verdict
from attnrate.experiments.experiment import Conclusion, Result
from attnrate.experiments.fig3_drawn import errors_figure, spectra_figure, tables
from attnrate.experiments.fig3_read import (
    MEASURES,
    PAPER_CONSTANT,
    PAPER_EXPONENT,
    by_head_size,
    correlation,
    distances,
    head_sizes,
    predictions,
    seeds_apart,
    untrained_distances,
)
from attnrate.experiments.power_law import PowerLaw, fit_power_law
from attnrate.experiments.real_claims import decided, missing, untestable
from attnrate.theory.statistics import Interval, mean, slope

#: An interval of the exponent so many times as wide as its lower end decides nothing in favour
_WIDEST = 8.0
#: Fewer values than these cannot decide
_LEAST_DISTANCES, _LEAST_ERRORS, _LEAST_SIZES = 6, 8, 6
#: A correlation below this would explain less than half of the variance
_CORRELATED = 0.7
_SMALL = "The models are small and trained for a few epochs; the paper's is a ViT-B/16."
_TOO_FEW = "This run has too few models to decide."
_TOO_WIDE = "The interval is too wide to decide."


def conclusion(results: Sequence[Result]) -> Conclusion:
    """All that can be said from the results at hand."""
    why = missing(results)
    if why is not None:
        claims = untestable(_claims([], None), why)
        return Conclusion((f"The images could not be had: {why}",), (), (), claims)
    done = [one for one in results if "train_loss" in one.values]
    fits = {name: _law(done, name) for name in MEASURES}
    claims = _claims(done, fits["train_loss"])
    if not done:
        return Conclusion(("No model of this experiment is finished.",), (), (), claims)
    figures = (spectra_figure(done), errors_figure(done, fits))
    return Conclusion(_paragraphs(done, claims), figures, tables(done, fits), claims)


def _claims(done: Sequence[Result], law: PowerLaw | None) -> tuple[Claim, ...]:
    return _converge_claim(done), _falls_claim(done), _exponent_claim(law), _tail_claim(done)


def _law(done: Sequence[Result], name: str) -> PowerLaw | None:
    return fit_power_law(
        [one.label["m_h"] for one in done], [float(one.values[name]) for one in done]
    )


def _decided(
    found: Interval, enough: bool, low: float = 0.0, high: float = 0.0, falling: bool = True
) -> Verdict:
    """By an interval: below `high` holds, above `low` does not (the other way if not falling)."""
    if not enough or math.isnan(found.low):
        return "open"
    if falling:
        return "holds" if found.high < high else "does not hold" if found.low > low else "open"
    return "holds" if found.low > low else "does not hold" if found.high < high else "open"


def _closing(verdict: Verdict, enough: bool) -> str:
    return _SMALL if verdict != "open" else _TOO_WIDE if enough else _TOO_FEW


def _slope(x: Sequence[float], y: Sequence[float]) -> Interval:
    """As `slope`; of values at one place there is none."""
    return slope(x, y) if len(set(x)) > 1 else Interval(math.nan, math.nan, math.nan, 0)


def _converge_claim(done: Sequence[Result]) -> Claim:
    points = _points(by_head_size(distances(done)))
    found, larger = _distance_slope(points), _distance_slope(_larger_half(points))
    verdict = _decided(found, len(points) >= _LEAST_DISTANCES)
    if verdict == "holds":
        # distances that stop falling, as between any two models, do not sum up
        verdict = _decided(larger, True)
    evidence = ""
    if found.count:
        evidence = f"the slope of the distance between successive spectra over m_h is {found}"
        evidence += f", over the larger half {larger}. " if larger.count else ". "
    last = [np.mean(by_size[max(by_size)]) for by_size in distances(done).values()]
    if last:
        evidence += f"The last distance is {mean([float(d) for d in last])} of the spectrum. "
        between = seeds_apart(done)
        if between:
            evidence += f"Two seeds of the largest model are {mean(between)} apart. "
        before = _distance_slope(_points(untrained_distances(done)))
        if before.count:
            evidence += f"Before training the slope was {before}. "
    evidence = evidence if points else "no two models are finished. "
    return Claim(
        "fig3-spectra-converge",
        "Sec. 5.2, Fig. 3(a)",
        "As m_h grows, the singular values of ρ̂ converge.",
        "fig3",
        verdict,
        evidence + (_closing(verdict, len(points) >= _LEAST_DISTANCES) if points else ""),
        *(found.limits if points else (None, None, None)),
    )


def _points(by_size: Mapping[int, Sequence[float]]) -> list[tuple[float, float]]:
    return [(float(m_h), value) for m_h, row in by_size.items() for value in row]


def _distance_slope(points: Sequence[tuple[float, float]]) -> Interval:
    return _slope([m for m, _ in points], [max(d, 1e-300) for _, d in points])


def _larger_half(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    sizes = sorted({m for m, _ in points})
    return [(m, d) for m, d in points if m >= sizes[len(sizes) // 2]]


def _falls_claim(done: Sequence[Result]) -> Claim:
    x = [float(one.label["m_h"]) for one in done]
    found = _slope(x, [one.values["train_loss"] for one in done])
    verdict = _decided(found, len(x) >= _LEAST_ERRORS)
    said = f"the slope of log training loss over log m_h is {found}. "
    return Claim(
        "fig3-error-falls",
        "Sec. 5.2, Fig. 3(b)",
        "The training error decreases as m_h increases.",
        "fig3",
        verdict,
        (said if found.count else "too few models are finished. ")
        + _closing(verdict, len(x) >= _LEAST_ERRORS),
        *found.limits,
    )


def _exponent_claim(law: PowerLaw | None) -> Claim:
    verdict: Verdict = "open"
    evidence, limits = _TOO_FEW, Interval(math.nan, math.nan, math.nan, 0)
    if law is not None:
        limits = law.b
        evidence = (
            f"training loss = {law.a:.3g} m_h^-b + {law.c:.3g} with b = {law.b} "
            f"(the paper's constant: {PAPER_CONSTANT}). "
        )
        if law.a <= 0 or law.p_flat > 0.05:
            evidence += "A loss that does not depend on m_h fits about as well, or it rises. "
        if law.b.count >= _LEAST_ERRORS and law.a > 0 and law.p_flat <= 0.05:
            if not law.b.low <= PAPER_EXPONENT <= law.b.high:
                verdict = "does not hold"
            elif law.bounded and law.b.high <= _WIDEST * law.b.low:
                verdict = "holds"
        elif law.b.count >= _LEAST_ERRORS and law.a < 0 and law.p_flat <= 0.05:
            verdict = "does not hold"
        evidence += _closing(verdict, law.b.count >= _LEAST_ERRORS)
    return Claim(
        "fig3-exponent",
        "Sec. 5.2, Fig. 3(b)",
        f"The training error follows m_h^-{PAPER_EXPONENT} + const.",
        "fig3",
        verdict,
        evidence,
        *limits.limits,
    )


def _tail_claim(done: Sequence[Result]) -> Claim:
    rows = predictions(done)
    found = correlation([energy for _, energy, _ in rows], [excess for *_, excess in rows])
    enough = len(rows) >= _LEAST_SIZES
    verdict = _decided(found, enough, _CORRELATED, _CORRELATED, falling=False)
    said = ""
    if not math.isnan(found.value):
        said = (
            f"correlation of the energy that the largest model's spectra have beyond m_h with the "
            f"excess loss of the models of that m_h: {found} over {len(rows)} head sizes. "
        )
    return Claim(
        "fig3-tail-predicts",
        "Sec. 5.2, Theorem 4.1",
        "The decay of the singular values tells the error that a smaller head size leaves.",
        "fig3",
        verdict,
        said + _closing(verdict, enough),
        *found.limits,
    )


def _paragraphs(done: Sequence[Result], claims: Sequence[Claim]) -> tuple[str, ...]:
    sizes = head_sizes(done)
    best = min(done, key=lambda one: one.values["test_error"])
    return (
        f"{len(done)} ViTs with m_h from {sizes[0]} to {sizes[-1]}, everything else alike, values "
        f"of full size in all; each saw {done[0].values['images']} images of CIFAR-10 "
        f"{len(done[0].values['epochs'])} times. {_SMALL} The least test error is "
        f"{best.values['test_error']:.3f} (m_h = {best.label['m_h']}).",
        decided(claims),
    )
