"""Which law a spectrum follows: power, exponential, superexponential, finite rank, or none.

It is found in five steps. (1) Values at the numerical floor are set aside. (2) A drop to that floor
that no smooth law explains is a finite rank. (3) On the other values, log sigma_k is fitted by the
laws (`decay_curves.py`), with a shift or a floor where the evidence for one is strong, and by
rivals that are none of them; the Bayesian information criterion chooses, and a rival has to win by
strong evidence. (4) The parameter of a power law or an exponential gets an interval from sorted
noisy spectra like the given one (`decay_noise.py`). (5) A law is not claimed, because the values
are too few to tell, if it needs a shift and a stretched exponential fits about as well, or if its
parameter may be zero.
"""

from dataclasses import dataclass, replace
from typing import Annotated, TypeAlias

import numpy as np
import numpy.typing as npt

from attnrate.errors import InputError
from attnrate.settings import by, checked
from attnrate.theory import decay_curves as curves
from attnrate.theory.decay_curves import LEAST_VALUES, Vector
from attnrate.theory.decay_noise import Estimate, estimate
from attnrate.theory.decay_result import SMOOTH, Decay, Law, envelope, index, real_vector

__all__ = ["LEAST_VALUES", "Decay", "Law", "Level", "envelope", "fit_decay"]

EPS = float(np.finfo(np.float64).eps)

FLOOR_CEILING = 1e-6
"""A plateau above this share of sigma_1 is a property of the spectrum, not of the arithmetic."""

MIXED = 10.0
"""Sorting bends the last values of a spectrum: this number times the noise over the law's step."""

FINE = 1e-3
"""The least noise where curves with equally many parameters are compared."""


@dataclass(frozen=True)
class _Candidate:
    """The best law over a range of k, and what it is judged by.

    Args:
        used: The range of k.
        name: The law.
        law: Its fitted curve.
        scores: The criteria of all laws and of the best rival ("none").
        stretched: The fitted stretched exponential.
        noise: The least size of residuals that any curve leaves.
        time: The correlation time of the residuals.
        possible: The curves that may be the law.

    """

    used: tuple[int, int]
    name: Law
    law: curves.Curve
    scores: dict[str, float]
    stretched: curves.Curve
    noise: float
    time: float
    possible: list[curves.Curve]


def _require_level(name: str, value: object) -> float:
    if not isinstance(value, int | float) or not 0.0 < value < 1.0:
        raise InputError(f"{name} must lie strictly between 0 and 1", value, f"Pass {name}=0.95.")
    return float(value)


def _require_spectrum(name: str, sigma: object) -> Vector:
    """The spectrum as a float64 vector, or an InputError with the index and value at fault."""
    values = real_vector(name, sigma, name + "[{}]", "Pass one spectrum of finite values.")
    if values.min() < 0.0:
        i = int(np.argmax(values < 0.0))
        raise InputError(f"{name}[{i}] is negative", float(values[i]), "Singular values are >= 0.")
    # Values that agree to rounding of the largest one may come in either order.
    rises = np.diff(values) > 8.0 * EPS * values.max()
    if rises.any():
        i = int(np.argmax(rises)) + 1
        before = f"{name}[{i - 1}] = {float(values[i - 1])!r}"
        raise InputError(
            f"{name} must be descending, but {name}[{i}] exceeds {before}",
            float(values[i]),
            f"Pass np.sort({name})[::-1].",
        )
    return np.sort(values)[::-1].copy()


#: The confidence of an interval, between 0 and 1
Level: TypeAlias = Annotated[float, by(_require_level)]


@checked
def fit_decay(sigma: Annotated[npt.ArrayLike, by(_require_spectrum)], level: Level = 0.95) -> Decay:
    """Find the law by which singular values fall: power, exponential, faster, finite rank, or none.

    A power law may have a shift, (k + shift)^-alpha, so that laws that hold only from some k on,
    such as 1/((k - 1/2) π)² or pairs of equal values, keep their exponent. A superexponential is
    what Gaussian couplings have: e^{-order (k asinh(k/z) - (k² + z²)^½)}, in the end
    e^{-order k log k}. A floor well above rounding may lift the end of a power law or of an
    exponential (`noise_floor`). Up to a sixteenth of the first values are left out when a law holds
    only without them, and up to half of the last ones where sorting noisy values has bent them;
    `used` says which were kept.

    Exponents and rates are corrected for the bias that sorting makes. Their interval takes into
    account that the size of the noise, its correlation along k, a shift and a floor are not known;
    it is for the range that was used. `benchmarks/certify.py decay` measures how often intervals at
    95 % hold the truth: 0.97 with independent noise of 2 to 30 %, 0.96 with a floor, and 0.96 where
    noise is correlated along k (0.94 for 30 values).

    Args:
        sigma: A spectrum, descending and not negative.
        level: The confidence of the interval, between 0 and 1.

    Returns:
        The law with its parameter, the interval, and the reason.

    Raises:
        InputError: sigma is no descending vector of finite, non-negative numbers.

    Examples:
        >>> import numpy as np
        >>> k = np.arange(1, 41)
        >>> print(ar.fit_decay(np.exp(-0.5 * k)))
        exponential: rate = 0.5 [0.5, 0.5] at 95%, k = 1..40
          exponential has the smallest BIC of the laws, ...
        >>> ar.fit_decay([3.0, 2.0, 1.0, 0.0]).rank
        3

    """
    values = np.asarray(sigma)
    floor, count = numerical_floor(values)
    blank = Decay(law="none", level=level, clear=count, floor=floor, reason="", sigma=values)
    rank = gap_rank(values)
    if rank is not None:
        scores = _rank_scores(values, rank)
        if scores["finite rank"] <= min(scores.values()):
            after = float(values[rank])
            drop = "to zero" if after == 0 else f"to {after / values[0]:.1e} of the first"
            count_words = "1 value" if rank == 1 else f"{rank} values"
            reason = f"after {count_words} the spectrum drops {drop}, which no smooth law does."
            return replace(
                blank,
                law="finite rank",
                rank=rank,
                used=(1, rank),
                clear=rank,
                scores=scores,
                reason=reason,
            )
    if count < LEAST_VALUES:
        few = f"too few values to tell: {count} above the numerical floor"
        zero = "no law: every value is zero."
        reason = zero if values[0] == 0.0 else f"{few}, {LEAST_VALUES} are needed."
        return replace(blank, reason=reason)
    y = np.log(values[:count])
    if y[0] - y[-1] <= curves.NOISE:
        return replace(blank, used=(1, count), reason="no law: the spectrum does not decay.")
    whole = _candidate(y, (1, count))
    for used in _windows(count):
        if count - used[1] > _bent_by_sorting(whole, count):
            break
        found = whole if used == (1, count) else _candidate(y, used)
        if not _holds(found, y):
            continue
        sized = _estimated(found, count, level)
        doubt = _doubt(found, sized)
        fit = replace(blank, used=used, scores=found.scores, reason=doubt or _why(found))
        return fit if doubt else _claimed(fit, found, sized)
    return replace(blank, used=(1, count), scores=whole.scores, reason=_why_none(whole))


def _candidate(y: Vector, used: tuple[int, int]) -> _Candidate:
    """The best law over the range `used` of k, judged against the other laws and their rivals.

    The number of independent values is judged by the residuals of the closest curve: those of a law
    that does not hold are correlated because it does not hold.
    """
    k = np.arange(used[0], used[1] + 1, dtype=np.float64)
    part = y[used[0] - 1 : used[1]]
    laws, others = curves.laws(k, part), curves.rivals(k, part)
    smooth = [curve for group in laws.values() for curve in group] + others[1:]
    closest = min(smooth, key=lambda curve: curve.sse)
    # Waves are left out here: the best of many takes the correlation out of any residuals.
    time = curves.correlation_time(closest)
    best = {name: curves.chosen(group, time) for name, group in laws.items()}
    scores = {name: curves.bic(curve, time) for name, curve in best.items()}
    name: Law = "power" if scores["power"] <= scores["exponential"] else "exponential"
    # It contains the exponential in its limit z -> 0, hence strong evidence.
    if scores["superexponential"] + curves.STRONG_EVIDENCE < scores[name]:
        name = "superexponential"
    scores["none"] = min(curves.bic(curve, time) for curve in others)
    noise = min(closest.rms, others[0].rms)
    return _Candidate(used, name, best[name], scores, others[1], noise, time, laws[name])


def _holds(found: _Candidate, y: Vector) -> bool:
    """Whether the law decays, holds against its rivals, and continues after the fitted values.

    A rival has to win by strong evidence; against a law with a floor, which bends as two slopes
    do, it has to win at all. The values after the fitted ones may leave the law by what noise can
    do: sorting noisy values bends the end by a few times the noise, a second slope by more. Values
    low enough to feel a numerical floor are excused.
    """
    law, last = found.law, found.used[1]
    evidence = 0.0 if law.join else curves.STRONG_EVIDENCE
    wins = found.scores[found.name] <= found.scores["none"] + evidence
    if not (wins and law.slope > 0.0):
        return False
    k, left_out = np.arange(last + 1, y.size + 1, dtype=np.float64), y[last:]
    allowed = 4.0 * float(np.max(np.abs(law.residual))) + 3.0 * curves.NOISE
    excused = left_out < y[0] + np.log(FLOOR_CEILING)
    return bool(np.all(excused | (np.abs(left_out - law.at(k)) <= allowed)))


def _bent_by_sorting(whole: _Candidate, count: int) -> float:
    """The number of last values that may be left out because sorting noise has bent them.

    It is any number if the law follows the whole fall to a thousandth: the end of a computed
    spectrum is less accurate than that.
    """
    ends = whole.law.at(np.array([1.0, count]))
    if whole.law.rms <= 1e-3 * float(ends[0] - ends[1]):
        return float(count)
    quarter = count // 4
    last = whole.law.at(np.array([count - quarter, count], dtype=np.float64))
    step = float(last[0] - last[1]) / quarter
    # A law on its floor falls by next to nothing, so that noise may have mixed all values.
    return float(count) if step * count <= MIXED * whole.noise else MIXED * whole.noise / step


def _estimated(found: _Candidate, count: int, level: float) -> Estimate:
    """The parameter of the law, averaged over the curves that may be it with Akaike's weights."""
    kept = [curve for curve in found.possible if curve.slope > 0.0]
    scores = np.array([curves.aic(curve, found.time, FINE) for curve in kept])
    weights = np.exp(-0.5 * (scores - scores.min()))
    return estimate(found.law, kept, weights / weights.sum(), count, found.used, level)


def _doubt(found: _Candidate, sized: Estimate) -> str:
    """Why the law is not claimed although no rival beats it; empty if it is claimed."""
    few = "too few values to tell"
    # A positive shift bends a power law downwards, as a stretched exponential bends all along.
    bent = found.law.name == "power" and found.law.bend > 0.0
    law, other = (curves.bic(c, found.time, FINE) for c in (found.law, found.stretched))
    if bent and other < law + curves.POSITIVE_EVIDENCE:
        return f"{few}: a stretched exponential fits as well as a power law with a shift."
    low, high = sized.interval
    if low <= 0.0:
        if found.name == "superexponential":
            return f"{few}: sorted noise alone may look like the best law, {found.name}."
        return (
            f"{few}: sorted noise alone may look like this. The best law is {found.name}, and "
            f"the interval of its parameter, [{low:.3g}, {high:.3g}], contains zero."
        )
    return ""


def _why(found: _Candidate) -> str:
    own, other = found.scores[found.name], found.scores["none"]
    laws = ", ".join(f"{name} {found.scores[name]:.1f}" for name in SMOOTH if name != found.name)
    best = f"{found.name} has the smallest BIC of the laws, {own:.1f} ({laws}). "
    if other >= own:
        return f"{best}No curve of another form does better (the best of them: {other:.1f})."
    return (
        f"{best}A curve of another form has {other:.1f}, which is no strong evidence against the "
        f"law: that takes a difference of more than {curves.STRONG_EVIDENCE:g}."
    )


def _why_none(found: _Candidate) -> str:
    best = min(found.scores[name] for name in SMOOTH)
    other = found.scores["none"]
    if other < best:
        return (
            f"no law: a curve of another form fits better than every law (BIC {other:.1f}, the "
            f"best law {best:.1f}; smaller is better)."
        )
    return "no law: the best one does not decay, or misses the values at the end of the spectrum."


def _claimed(fit: Decay, found: _Candidate, sized: Estimate) -> Decay:
    """`fit` with the law that was found and its parameter."""
    law = found.law
    lifted = float(np.exp(law.floor)) if law.join else None
    fit = replace(fit, law=found.name, noise_floor=lifted, join=law.join)
    if found.name == "superexponential":
        return replace(fit, order=law.slope, turn=law.bend)
    fit = replace(fit, interval=sized.interval)
    if found.name == "exponential":
        return replace(fit, rate=sized.value)
    return replace(fit, alpha=sized.value, shift=law.bend, C1=fit.envelope(sized.value))


def _rank_scores(values: Vector, rank: int) -> dict[str, float]:
    """The BIC of `rank` free values and of each smooth law, over all values down to the drop."""
    shares = values / values[0]
    y = np.log(np.maximum(shares, max(float(shares[rank]), EPS)))
    scores = {"finite rank": curves.bic(curves.Curve(np.zeros_like(y), rank + 1), 1.0)}
    if y.size >= LEAST_VALUES:
        for name, group in curves.laws(index(y), y, lifted=False).items():
            scores[name] = curves.bic(curves.chosen(group, 1.0), 1.0)
    return scores


def _windows(count: int) -> list[tuple[int, int]]:
    """Ranges of k to try, the widest first; they begin at powers of two, up to count / 16."""
    starts = [1 << i for i in range(max(count // 16, 1).bit_length())]
    ends = [count, (3 * count) // 4, count // 2]
    return [(lo, hi) for hi in ends for lo in starts if hi - lo + 1 >= LEAST_VALUES]


def numerical_floor(values: Vector) -> tuple[float | None, int]:
    """The numerical floor, and the number of values that stand clear of it.

    The level of rounding is always a floor. Above it a plateau is one when it lies below
    FLOOR_CEILING and the spectrum, falling before it, goes on at less than a third of that
    steepness. Values within ten times the plateau are contaminated by it and are left out too.
    """
    hard = 16.0 * EPS * values[0]
    count = int(np.sum(values > hard))
    floor = float(values[count]) if count < values.size else None
    y = np.log(np.maximum(values, np.finfo(np.float64).tiny))
    low = int(np.sum(values > FLOOR_CEILING * values[0]))
    run = 0
    for p in range(max(low, 4), count):
        # The bend itself is rounded, so the two slopes are taken a little away from it.
        width, skip = max(3, p // 4), max(1, p // 5)
        back, near = max(0, p - skip - width), p - skip
        ahead = min(values.size - 1, p + width)
        if ahead - p < max(3, width // 2):
            break
        before, after = (y[back] - y[near]) / (near - back), (y[p] - y[ahead]) / (ahead - p)
        run = run + 1 if before > 3.0 * after and y[back] - y[near] > 0.3 else 0
        # A stair of equal values looks flat too, but not for long.
        if run > 1 + p // 10:
            level = float(values[p + 1 - run])
            return level, int(np.sum(values > 10.0 * level))
    return floor, count


def gap_rank(values: Vector) -> int | None:
    """The rank r after which the spectrum falls to the floor in one step; None if it does not.

    The steps before it must not announce that step: it must be a factor of a thousand, and either
    four times any step before (in logarithms) or be followed by a plateau. Values below rounding
    level count as that level.
    """
    if values[0] == 0.0 or values.size < 2:
        return None
    # Relative to the first value, because EPS times a denormal number is zero.
    y = np.log(np.maximum(values / values[0], EPS))
    steps = y[:-1] - y[1:]
    for r in range(1, values.size):
        if values[r] > FLOOR_CEILING * values[0] or steps[r - 1] < np.log(1e3):
            continue
        sudden = r == 1 or steps[r - 1] > 4.0 * steps[: r - 1].max()
        rest = steps[r : r + max(4, r)]
        flat = rest.size >= 2 and rest.max() < 0.2 * steps[r - 1]
        if sudden or flat:
            return r
    return None
