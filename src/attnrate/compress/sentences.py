"""What was measured of a cut as text: sentences, and a table of the ways to a smaller cache."""

from collections.abc import Sequence

from attnrate.compress.measured import Measurements
from attnrate.compress.quality import Quality
from attnrate.compress.rivals import Rival
from attnrate.compress.timing import Timing
from attnrate.figures.words import fixed
from attnrate.spectra.measures import counted, percent

_NAMES = {
    "perplexity": "Perplexity",
    "embedding_change": "Change of the embeddings",
    "embedding_cosine": "Mean cosine with the original embedding",
    "neighbours": "Nearest neighbours that stay",
    "metric": "The metric",
    "accuracy": "Accuracy",
    "bleu": "BLEU",
}
_SHARES = ("embedding_change", "neighbours", "accuracy")


def lines(measured: Measurements, repaired: bool) -> list[str]:
    """Lines that say all that was measured.

    Args:
        measured: What was measured.
        repaired: Whether there was a repair after the cut.

    """
    return [
        *(_quality(each, repaired) for each in measured.quality),
        *(_time(each) for each in measured.times),
        *_table(measured.rivals),
        *measured.notes,
    ]


def _quality(one: Quality, repaired: bool) -> str:
    before, cut, after = (
        percent(x) if one.measure in _SHARES else fixed(x, ".4g")
        for x in (one.before, one.cut, one.after)
    )
    compared = one.measure.startswith("embedding") or one.measure == "neighbours"
    begun = "" if compared else f"{before} before, "
    by = "by" if compared else "after"
    now = f"{cut} {by} the cut, {after} after repair" if repaired else f"{cut} after the cut"
    on = "" if one.tests is None else f" on {one.tests:,} test inputs"
    return f"{_NAMES[one.measure]}{on}: {begun}{now}."


def _time(one: Timing) -> str:
    what = (
        f"A batch of {counted(one.inputs, 'input')}"
        if one.work == "batch"
        else f"A token after {one.tokens} others"
    )
    return (
        f"{what} takes {seconds(one.after)} instead of {seconds(one.before)}; turn by turn "
        f"{one.ratio:.2f} times as long ({one.low:.2f} to {one.high:.2f} in the middle half of "
        f"{one.rounds} turns)."
    )


def seconds(value: float) -> str:
    """A time in milliseconds or seconds, to three digits."""
    return f"{value:.3g} s" if value >= 1 else f"{1000 * value:.3g} ms"


def _table(rivals: Sequence[Rival]) -> list[str]:
    """The ways to a smaller cache, one a line; nothing where there are none."""
    if not rivals:
        return []
    columns = [
        ["Ways to a smaller cache", *(each.way for each in rivals)],
        ["bytes per token", *(f"{each.bytes:,.0f}" for each in rivals)],
    ]
    if any(each.bytes != each.bytes_16 for each in rivals):
        columns.append(["in 16 bits", *(f"{each.bytes_16:,.0f}" for each in rivals)])
    columns.append(["output changes by", *(percent(each.change) for each in rivals)])
    if rivals[0].perplexity is not None:
        shown = ("" if x.perplexity is None else fixed(x.perplexity, ".4g") for x in rivals)
        columns.append(["perplexity", *shown])
    widths = [max(map(len, column)) for column in columns]
    first, *others = zip(columns, widths, strict=True)
    return [
        "  ".join([first[0][row].ljust(first[1]), *(c[row].rjust(w) for c, w in others)])
        for row in range(len(rivals) + 1)
    ]
