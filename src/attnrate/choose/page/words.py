"""The sentences of the page of an answer: what to take, what the data are, what the words mean."""

from collections.abc import Sequence

from attnrate.choose.contender import contender, contenders
from attnrate.choose.kernel import Kernel
from attnrate.choose.ladder import Ladder
from attnrate.choose.result import About, Choice
from attnrate.choose.rung_model import RungModel
from attnrate.choose.rungs import WORDS
from attnrate.figures.words import number, with_interval

#: Names of columns that a sentence lists at most
_LISTED = 8
#: Words and what they mean, each with the part of an answer in which it is used
_MEANINGS = (
    (
        "ladder",
        "Share of the variance left",
        "The squared error of a map on data that it has not seen, divided by the variance of what "
        "is wanted. 1 is no better than a constant, 0 is perfect.",
    ),
    (
        "ladder",
        "Class of maps, ladder",
        "Kinds of maps, each richer than most before it, whose best member is found by least "
        "squares, without training. The least squares of the data at hand leave less than the best "
        "map of a class, because they follow the noise too; on data that were held out they leave "
        "more. The truth about the class lies between.",
    ),
    (
        "ladder",
        "Held out",
        "Stretches of the time, or sequences, that take no part in a fit and on which it is then "
        "judged, each in turn.",
    ),
    (
        "ladder",
        "Interval",
        "Numbers in square brackets hold the true value with 95 % confidence. Windows that overlap "
        "count as one observation.",
    ),
    (
        "ladder",
        "Surely",
        "By more than three standard errors in the ladder, beyond the 95 % interval of a paired "
        "difference in the race.",
    ),
    (
        "ladder",
        "Memoryless, linear filter, additive, pairwise",
        "Of the token now alone; a weighted sum of the tokens up to now, with the same weights at "
        "all times; a sum of any functions of single tokens; a sum in which products of two tokens "
        "take part too. Attention is made for the last, a linear recurrent network for the second.",
    ),
    (
        "race",
        "Race",
        "Models with about equally many parameters learn the same data by the same recipe. Those "
        "that are not surely worse than the best are as good, and the cheapest of them is taken.",
    ),
    (
        "heads",
        "Head size m_h",
        "How many numbers a head of attention compares tokens by. Larger heads cost memory and "
        "time; a size is enough if its error is not surely larger than that of the largest, and "
        "surely at most 1.1 times as large.",
    ),
    (
        "kernel",
        "Kernel ρ",
        "The weights of the best linear filter: ρ(s) is what a token s steps back adds to the "
        "output. C_RNN is how hard that kernel is for a recurrent network: its memory times its "
        "size.",
    ),
    (
        "ladder",
        "Drift",
        "How much worse a filter is that was fitted far away in time than one fitted nearby. 1 "
        "says that the data have one law at all times.",
    ),
)


def meanings(choice: Choice) -> list[tuple[str, str]]:
    """Explain the words of the parts that an answer has.

    Args:
        choice: The answer.

    Returns:
        Each word with what it means.

    """
    parts = {
        "ladder": choice.ladder,
        "race": choice.race,
        "heads": choice.heads,
        "kernel": choice.kernel,
    }
    return [(word, said) for part, word, said in _MEANINGS if parts[part] is not None]


def take(choice: Choice) -> str:
    """Say in a sentence what is worth taking.

    Args:
        choice: The answer.

    """
    if not choice.winner:
        return "No model is worth taking from these data as they are; the reasons are below."
    words = {str(name): said for name, said in WORDS.items()}
    if isinstance(choice.model, RungModel) or choice.race is None:
        what = words.get(choice.winner, choice.winner)
    else:
        known = choice.winner in contenders()
        what = contender(choice.winner).title if known else choice.winner
    heads = "" if choice.m_h is None else f", with heads of size m_h = {choice.m_h}"
    return f"Take: {what}{heads}."


def facts(about: About, seconds: str) -> list[tuple[str, str]]:
    """Say what was asked of which data, as (name, value).

    Args:
        about: What was asked.
        seconds: How long it took, in words.

    """
    horizon = "each token" if about.whole else f"{about.horizon} ahead" if about.horizon else "now"
    found = [
        ("data", about.source),
        ("wanted", _listed(about.outputs)),
        ("at", horizon),
        ("from", _listed(about.inputs)),
        ("tokens of a sample" if about.whole else "window", f"{about.window:,}"),
        ("samples", f"{about.samples:,}"),
        ("step", about.step),
        ("seed", str(about.seed)),
        ("minutes planned", number(about.minutes)),
        ("took", seconds),
    ]
    return [(name, value) for name, value in found if value]


def drift_words(ladder: Ladder) -> str:
    """Say how much the data change with time.

    Args:
        ladder: The ladder.

    """
    drift = ladder.drift
    if drift is None:
        return "Sequences of a panel have no order in time, so drift is not looked for."
    said = with_interval(drift.value, drift.low, drift.high)
    text = f"A filter that was fitted far away in time has {said} times the error of one nearby"
    if drift.low > 1:
        return f"{text}: the data change with time."
    return f"{text}: no sure change with time is seen."


def kernel_words(kernel: Kernel) -> str:
    """Say how far the kernel reaches, and how hard it is for a recurrent network.

    Args:
        kernel: The kernel.

    """
    if kernel.reach < 0:
        return "At no lag is the kernel surely different from zero."
    tokens = "1 token" if kernel.reach == 1 else f"{kernel.reach} tokens"
    text = f"The kernel is surely different from zero up to {tokens} back"
    if kernel.reach == 0:
        text = "The kernel is surely different from zero at the token now alone"
    if kernel.complexity is None:
        return f"{text}."
    return f"{text}; C_RNN = {number(kernel.complexity.value)} ({kernel.complexity.note})"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")
