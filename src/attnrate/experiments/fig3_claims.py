"""What the ViTs of Fig. 3 say: distances between spectra, the law of the errors, the claims.

The rules of the verdicts were written before any result of the full preset was seen. m_h doubles
from one model to the next, so distances D between successive spectra sum up, and the spectra
converge, just when D falls like a power of m_h: the slope over seeds must be negative, over all
head sizes and over the larger half. Weights that nobody has trained have such a slope, too, so the
last two spectra must also be near each other. The energy beyond m_h falls with m_h in any spectrum,
so that its order says nothing; Theorem 4.1 says that the excess error is proportional to it, and
that is tried on head sizes that did not make the factor. The exponent decides by whether its
interval holds the paper's. The paper's "training error" is above 1, so it is a loss: ours is the
cross entropy on training images.
"""

import math
from collections.abc import Sequence

import numpy as np

from attnrate.experiments.claims import Claim, Verdict
from attnrate.experiments.experiment import Conclusion, Result
from attnrate.experiments.fig3_drawn import errors_figure, spectra_figure, tables
from attnrate.experiments.fig3_read import (
    MEASURES,
    PAPER_CONSTANT,
    PAPER_EXPONENT,
    distances,
    foretold,
    head_sizes,
    predictions,
    seeds_apart,
    slopes,
    untrained,
)
from attnrate.experiments.kits.power_law import PowerLaw, fit_power_law
from attnrate.experiments.real_claims import decided, missing, untestable
from attnrate.statistics import Interval, mean, slope

#: An interval of the exponent so many times as wide as its lower end decides nothing in favour
_WIDEST = 8.0
#: Fewer values than these cannot decide
_LEAST_DISTANCES, _LEAST_ERRORS, _LEAST_SIZES = 6, 8, 6
#: Less would explain less than half of the variance
_EXPLAINED = 0.5
#: Spectra so far apart, as a share of the largest one, are near; or as far as two seeds are
_NEAR = 0.2
_SMALL = "The models are small, and trained by Muon for a few epochs; the paper's is a ViT-B/16."
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
    found = distances(done)
    whole, larger = slopes(found), slopes(found, larger_half=True)
    last = mean([float(np.mean(by_size[max(by_size)])) for by_size in found.values()])
    between = seeds_apart(done)
    near = max(_NEAR, mean(between).value) if between else _NEAR
    enough = min(map(len, found.values()), default=0) >= _LEAST_DISTANCES
    verdicts = {
        _decided(whole, enough),
        _decided(larger, enough),
        _decided(last, enough, near, near),
    }
    verdict: Verdict = "open"
    if "does not hold" in verdicts:
        verdict = "does not hold"
    elif verdicts == {"holds"}:
        verdict = "holds"
    evidence = "no two models are finished. "
    if whole.count:
        more = f", over the larger half {larger}" if larger.count else ""
        evidence = (
            f"the slope of the distance between successive spectra over m_h is {whole}{more} "
            "(asked: below 0). "
        )
    if last.count:
        evidence = evidence if whole.count else ""
        evidence += (
            f"The last distance is {last} of the spectrum (asked: at most {near:.2g}; {_NEAR}, or "
            "as far as two seeds are apart). "
        )
        if between:
            ends = f"{min(between):.3g} to {max(between):.3g}"
            evidence += f"Two seeds of the largest model are {ends} apart. "
        before = distances(done, untrained)
        rest = mean([by_size[max(by_size)][0] for by_size in before.values()])
        early = f"the slope was {slopes(before)}, " if whole.count else ""
        evidence += f"Before training {early}the last distance was {rest}. "
    return Claim(
        "fig3-spectra-converge",
        "Sec. 5.2, Fig. 3(a)",
        "As m_h grows, the singular values of ρ̂ converge.",
        "fig3",
        verdict,
        evidence + (_closing(verdict, enough) if last.count else ""),
        *whole.limits,
    )


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
    evidence = _TOO_FEW
    limits: tuple[float | None, float | None, float | None] = (None, None, None)
    if law is not None:
        limits = law.limits
        enough = law.b.count >= _LEAST_ERRORS
        evidence = (
            f"training loss = {law.a:.3g} m_h^-b + {law.c:.3g} with b = {law} "
            f"(the paper's constant: {PAPER_CONSTANT}). "
        )
        if not law.seen:
            evidence += "A loss that does not depend on m_h fits about as well, or it rises. "
        if enough and law.seen:
            if not law.b.low <= PAPER_EXPONENT <= law.b.high:
                verdict = "does not hold"
            elif law.bounded and law.b.high <= _WIDEST * law.b.low:
                verdict = "holds"
        elif enough and law.a < 0 and law.p_flat <= 0.05:
            verdict = "does not hold"
        evidence += _closing(verdict, enough)
    return Claim(
        "fig3-exponent",
        "Sec. 5.2, Fig. 3(b)",
        f"The training error follows m_h^-{PAPER_EXPONENT} + const.",
        "fig3",
        verdict,
        evidence,
        *limits,
    )


def _tail_claim(done: Sequence[Result]) -> Claim:
    by_seed = [[*pairs.values()] for pairs in predictions(done).values()]
    enough = min(map(len, by_seed), default=0) >= _LEAST_SIZES
    found = mean([told for told in map(foretold, by_seed) if not math.isnan(told)])
    verdict = _decided(found, enough, _EXPLAINED, _EXPLAINED, falling=False)
    said = ""
    if found.count:
        said = (
            "share of the variance of the excess loss that is foretold by the energy of the "
            f"largest model's spectra beyond m_h times a factor of other head sizes: {found} "
            f"(asked: at least {_EXPLAINED}). "
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
