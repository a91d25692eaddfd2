"""Verdicts, with their reasons as sentences: first by the ladder alone, then by the race."""

import math
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from attnrate.choose.enough import beaten, enough
from attnrate.choose.heads import Heads
from attnrate.choose.ladder import Ladder
from attnrate.choose.race import Race, Racer
from attnrate.choose.rungs import Class
from attnrate.statistics import Interval

#: What an answer can be
Verdict: TypeAlias = Literal[
    "nothing", "memoryless", "linear", "short-memory", "pairwise", "tie", "cannot-tell"
]
#: What each verdict means, for people
MEANING: dict[Verdict, str] = {
    "nothing": "There is nothing to learn.",
    "memoryless": "The token now is enough.",
    "linear": "A linear map is enough.",
    "short-memory": "A non-linear map without attention is enough.",
    "pairwise": "Pairs of tokens matter: attention is worth its cost.",
    "tie": "No difference between models: take the cheapest.",
    "cannot-tell": "These data cannot tell.",
}
#: The verdict for each class that can be enough
_OF: dict[Class, Verdict] = {
    "nothing": "nothing",
    "memoryless linear": "memoryless",
    "memoryless": "memoryless",
    "filter": "linear",
    "causal": "linear",
    "linear": "linear",
    "additive": "short-memory",
    "pairwise": "pairwise",
}
#: Classes of maps that are neither linear nor without memory
CURVED: tuple[Class, ...] = ("additive", "pairwise")
#: Contenders that have attention
ATTENTION = ("transformer", "patches")
#: A race is run if a class that is not linear may explain this share of what a simpler one leaves,
#: be it sure or not
_PROMISING = 0.02
#: Per cent that are shown as 0
_ROUNDING = 1e-6
#: Drift from which no answer is given: filters fitted far away have surely more than this many
#: times the error of those fitted nearby
_SURE_DRIFT = 1.1
#: and on average at least this many times
_DRIFT = 1.25


@dataclass(frozen=True)
class Conclusion:
    """A verdict with its reasons.

    Attributes:
        verdict: The verdict.
        because: The reasons, as sentences with their numbers.
        enough: The simplest class of maps that no other beats; None where that cannot be told.

    """

    verdict: Verdict
    because: tuple[str, ...]
    enough: Class | None


def cannot_tell(reasons: tuple[str, ...]) -> Conclusion:
    """Conclude that no answer can be given.

    Args:
        reasons: Why not, as sentences.

    """
    return Conclusion("cannot-tell", reasons, None)


def by_ladder(ladder: Ladder) -> Conclusion:
    """Conclude from a ladder alone.

    Args:
        ladder: The ladder.

    """
    drift = ladder.drift
    if drift is not None and drift.low > _SURE_DRIFT and drift.value > _DRIFT:
        return cannot_tell(
            (
                f"A linear filter that was fitted far away in time has {_times(drift)} the error "
                "of one that was fitted nearby: the data change with time, so that no answer from "
                "the past holds for the future. Take a stretch with one law, or add what changes "
                "as a column.",
            )
        )
    name = enough(ladder)
    because = [_left(ladder, name)]
    if name == "nothing":
        best = min(ladder.rungs[1:], key=lambda rung: rung.upper.value)
        because = [
            f"No class of maps leaves surely less than a constant; {best.words} leaves "
            f"{share(best.upper)} of the variance on what was held out."
        ]
    else:
        poorer = [rung.name for rung in ladder.rungs[: _order(ladder, name)]]
        simpler = _best(ladder, [each for each in poorer if beaten(ladder, each, name)])
        # what pairs explain beyond single tokens is said below
        if simpler is not None and (simpler, name) != ("additive", "pairwise"):
            because.append(
                f"It explains {share(ladder.gain(simpler, name))} of the variance more than "
                f"{ladder[simpler].words}."
            )
        richer = [
            rung.name for rung in ladder.rungs if _order(ladder, rung.name) > _order(ladder, name)
        ]
        best_richer = _best(ladder, richer)
        if best_richer is not None:
            because.append(
                f"Nothing richer is surely better: {ladder[best_richer].words} explains "
                f"{share(ladder.gain(name, best_richer))} more."
            )
    if name == "filter" and ladder.kernel.reach >= 0:
        because.append(_reach(ladder))
    because.append(_pairs(ladder, name))
    if drift is not None and drift.low > 1 and drift.value > 1.05:
        because.append(
            f"The data change somewhat with time: filters fitted far away have {_times(drift)} the "
            "error of those fitted nearby."
        )
    return Conclusion(_OF[name], tuple(because), name)


def promising(ladder: Ladder, name: Class) -> bool:
    """Say whether a non-linear map with memory may be better than a class, so that a race is due.

    It is also due where tokens have so many coordinates that no pairs could be tried.

    Args:
        ladder: The ladder.
        name: The simplest class that no other surely beats.

    """
    if not ladder.paired:
        return True
    least = min(ladder[each].upper.value for each in CURVED)
    return name in CURVED or least < (1 - _PROMISING) * ladder[name].upper.value


def by_race(before: Conclusion, race: Race, heads: Heads | None) -> Conclusion:
    """Conclude from a race, and from head sizes where there are any.

    Args:
        before: What the ladder alone says.
        race: The race.
        heads: The head sizes of the Transformer; None if they were not tried.

    """
    best, taken = race.best, race.cheapest
    if best is None or taken is None:
        return cannot_tell((*before.because, "In the race the training of every model diverged."))
    because = [*before.because, _best_of(race, best)]
    verdict: Verdict
    if race.least_squares is not None and race.solved:
        because.append(
            f"No model has reached, in {race.steps:,} steps, what least squares leave on the same "
            f"folds: {share(race.least_squares.share)}. Take these, or give the race more minutes."
        )
        return replace(before, because=tuple(because))
    if taken.name == "linear":
        because.append(
            "No trained model is surely better than the linear map, which takes "
            f"{race.racer('linear').seconds:.2g} s."
        )
        if race.outrun and race.least_squares is not None:
            least = race.least_squares
            because.append(
                f"It is surely better than what the ladder takes for enough: {least.title} leave "
                f"{share(least.share)} on the same folds."
            )
        linear = race.outrun or before.enough in CURVED
        verdict = "linear" if linear else before.verdict
        return replace(before, verdict=verdict, because=tuple(because))
    # a wide interval can hold a linear map that is far from the best; it is not taken then
    tied = [name for name in race.tied if name != "linear"]
    if "linear" in race.tied:
        because.append(
            f"The linear map has {race.racer('linear').ratio:.3g} times the error, which these "
            "data cannot tell from the best for sure."
        )
    with_attention = [name for name in tied if name in ATTENTION]
    if len(tied) > 1:
        others = ", ".join(race.racer(name).title for name in tied if name != best.name)
        because.append(f"As good within the interval, or within 1 %: {others}.")
    if not with_attention:
        verdict = "short-memory"
        because.append(_behind(race))
        if before.enough == "pairwise":
            because.append("Products of tokens matter, and models without attention make them too.")
    elif len(with_attention) == len(tied):
        verdict = "pairwise"
        because.append("No model without attention is as good.")
    else:
        verdict = "tie"
        because.append(
            "Models with attention and without are as good as each other; the cheapest to train "
            f"within 2 % of the best is {taken.title}."
        )
    if heads is not None and heads.advised is not None:
        because.append(_heads(heads, heads.advised))
    return replace(before, verdict=verdict, because=tuple(because))


def _best_of(race: Race, best: Racer) -> str:
    # the linear map has as many as it has
    parameters = sorted(each.parameters for each in race.racers)[len(race.racers) // 2]
    text = (
        f"In the race of {len(race.racers)} models at about {parameters:,} parameters the "
        f"best is {best.title}, which leaves {share(best.share)} of the variance"
    )
    linear = next((each for each in race.racers if each.name == "linear"), None)
    if linear is None or linear is best or not linear.share.known:
        return text + "."
    return text + f"; the linear map leaves {share(linear.share)}."


def _behind(race: Race) -> str:
    rest = [each for each in race.racers if each.name in ATTENTION and each.mse.known]
    if not rest:
        return "No model with attention has a finite error."
    first = min(rest, key=lambda each: each.mse.value)
    return f"Attention is surely worse: {first.title} has {first.ratio:.3g} times the error."


def _heads(heads: Heads, advised: int) -> str:
    largest = heads.sizes[-1].m_h
    if advised == largest:
        return (
            f"No smaller head is shown to be as good as that of m_h = {largest}; more minutes or "
            "more seeds may show it."
        )
    found = next(size for size in heads.sizes if size.m_h == advised)
    return (
        f"Heads of size m_h = {advised} are enough: their error is {found.ratio:.3g} times that of "
        f"m_h = {largest}, and surely at most {found.ratio_high:.3g} times."
    )


def _order(ladder: Ladder, name: Class) -> int:
    return [rung.name for rung in ladder.rungs].index(name)


def _best(ladder: Ladder, names: list[Class]) -> Class | None:
    return min(names, key=lambda name: ladder[name].upper.value, default=None)


def _left(ladder: Ladder, name: Class) -> str:
    rung = ladder[name]
    words = rung.words[0].upper() + rung.words[1:]
    return (
        f"{words} leaves {share(rung.upper)} of the variance on what was held out; the best of its "
        f"kind leaves at least {_per_cent(rung.lower.low)} %."
    )


def _reach(ladder: Ladder) -> str:
    kernel = ladder.kernel
    text = f"Its kernel reaches back {kernel.reach} token{'s' if kernel.reach != 1 else ''}"
    if kernel.complexity is not None and math.isfinite(kernel.complexity.value):
        text += f"; {kernel.complexity.note.rstrip('.')}, C_RNN = {kernel.complexity.value:.3g}"
    return text + "."


def _pairs(ladder: Ladder, name: Class) -> str:
    """Say what pairs of tokens explain, beside the class that is enough."""
    if not ladder.paired:
        return (
            "Pairs of tokens were not tried, because tokens have too many coordinates for all of "
            "their products: only a race can tell whether attention has something to do."
        )
    explained = f"{share(ladder.gain('additive', 'pairwise'))} of the variance beyond functions of "
    said = f"Pairs of tokens explain {explained}single tokens"
    if not beaten(ladder, "additive", "pairwise"):
        return f"{said}: attention has nothing sure to do."
    if name != "pairwise":
        return f"{said}, but not surely more than {ladder[name].words}."
    rank = ladder.coupling.rank
    found = f" About {rank} singular value{'s' * (rank != 1)} of the coupling"
    found += f" stand{'s' * (rank == 1)} out of noise."
    return f"{said}: attention has something to do.{found if rank else ''}"


def share(part: Interval) -> str:
    """Say a share of the variance with its interval, in per cent.

    Args:
        part: The share.

    """
    value, low, high = map(_per_cent, (part.value, part.low, part.high))
    return f"{value} % [{low}, {high}]"


def _per_cent(part: float) -> str:
    """A share in per cent to three digits, without what lies below rounding."""
    shown = 100 * part
    return "0" if abs(shown) < _ROUNDING else f"{shown:.3g}".replace("-", "−")


def _times(factor: Interval) -> str:
    return f"{factor.value:.3g} [{factor.low:.3g}, {factor.high:.3g}] times"
