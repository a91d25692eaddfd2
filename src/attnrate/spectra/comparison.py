"""What a comparison of two profiles says: each head before and after, a table, words, a map."""

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import numpy as np
from jaxtyping import Float

from attnrate.errors import InputError, require_whole
from attnrate.figures.words import change_words
from attnrate.settings import Natural, by, checked
from attnrate.shown import Shown
from attnrate.spectra.drawn import changes_figure
from attnrate.spectra.matching import Unmatched
from attnrate.spectra.measures import counted
from attnrate.spectra.result import Profile, require_layer
from attnrate.statistics import Interval

if TYPE_CHECKING:
    import pandas as pd

    from attnrate.figures.drawing import Drawing

Array = np.ndarray
Change: TypeAlias = Literal["gained", "lost", "same", "open"]
VERDICTS: tuple[Change, ...] = ("gained", "lost", "same", "open")
MEASURES = ("rank99", "rank999", "stable_rank", "tail")
"""What is compared of each head."""
RATE = 0.05
"""The largest share of wrong ones among the heads that are called gained or lost, on average."""
#: The columns of a comparison's table that a notebook shows
_FIRST_COLUMNS = (
    *("layer", "head", "rank99_before", "rank99_after"),
    *("rank99_change", "rank99_change_low", "rank99_change_high", "verdict"),
)


@dataclass(frozen=True)
class Measured:
    """One number of a head, such as its rank, before and after.

    Attributes:
        before: The number before, of all inputs together.
        after: The number after, of all inputs together.
        inputs_before: The number of each input before.
        inputs_after: The number of each input after.
        change: The mean over inputs after, less that before, with its 95 % interval.

    Examples:
        >>> import torch
        >>> before = ar.profile(ar.Transformer(2, 1, n=8, m_h=4), torch.rand(6, 16, 2))
        >>> rank = ar.compare(before, before).heads[0].rank99
        >>> rank.before == rank.after, rank.inputs_after.shape, rank.change.value
        (True, (6,), 0.0)

    """

    before: float
    after: float
    inputs_before: Float[Array, " before"]
    inputs_after: Float[Array, " after"]
    change: Interval


@dataclass(frozen=True)
class HeadChange:
    """One head of two models.

    Attributes:
        layer: The number of the layer after.
        name: The path of the layer after.
        name_before: The path of the layer before.
        head: The number of the query head.
        m_h_before: The head size before.
        m_h: The head size after.
        rank99: The least rank with 99 % of the energy of the logits.
        rank999: The least rank with 99.9 % of the energy.
        stable_rank: The stable rank Σ σ_k² / σ_1².
        tail: The root mean square of the logits beyond the rank that held 99 % of the energy of all
            inputs before: what a head of that size would leave out.
        chance: The p-value of the claim that `rank99` of an input changes by at most half a
            dimension on average.
        adjusted: The p-value adjusted for the number of heads, by Benjamini and Hochberg.
        verdict: "gained" or "lost" rank if `adjusted` is at most 0.05; else "same" if the interval
            of the change of `rank99` lies within one dimension of 0; else "open".

    Examples:
        >>> import torch
        >>> before = ar.profile(ar.Transformer(2, 1, n=8, m_h=4, heads=2), torch.rand(6, 16, 2))
        >>> [(one.layer, one.head, one.verdict) for one in ar.compare(before, before).heads]
        [(0, 0, 'same'), (0, 1, 'same')]

    """

    layer: int
    name: str
    name_before: str
    head: int
    m_h_before: int
    m_h: int
    rank99: Measured
    rank999: Measured
    stable_rank: Measured
    tail: Measured
    chance: float
    adjusted: float
    verdict: Change


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """Which heads of a model gained or lost rank against another; `compare` makes it.

    Attributes:
        before: The profile of the first model.
        after: The profile of the second model.
        heads: The heads that both have, in the order of the second model.
        unmatched: The layers that are not compared, with the reason.
        paired: Whether both profiles have as many inputs with as many tokens each. The intervals
            are then those of the differences input by input; else of two samples of inputs.

    Examples:
        >>> import torch
        >>> model = ar.Transformer(4, 1, n=8, m_h=4, heads=2)
        >>> for part in (model.W_Q, model.W_K):
        ...     _ = torch.nn.init.orthogonal_(part.weight)
        >>> inputs = torch.randn(8, 32, 4)
        >>> before = ar.profile(model, inputs, name="whole")
        >>> _ = model.W_Q.weight.data[:3].zero_()  # three of four dimensions of head 0
        >>> found = ar.compare(before, ar.profile(model, inputs, name="smaller"))
        >>> [(one.verdict, one.rank99.after) for one in found.heads if one.head == 0]
        [('lost', 1.0)]
        >>> print(str(found).splitlines()[0])
        smaller against whole: of 2 heads 0 gained rank and 1 lost rank; 1 is the same to within
        one dimension and 0 are open.

    """

    before: Profile
    after: Profile
    heads: tuple[HeadChange, ...]
    unmatched: tuple[Unmatched, ...]
    paired: bool

    @property
    def counts(self) -> dict[Change, int]:
        """The number of heads with each verdict."""
        found = Counter(one.verdict for one in self.heads)
        return {verdict: found[verdict] for verdict in VERDICTS}

    @checked
    def head(self, layer: Annotated[int | str, by(require_layer)], head: Natural) -> HeadChange:
        """One head before and after.

        Args:
            layer: The number or the name of a layer after.
            head: The number of a query head.

        Returns:
            Its ranks, stable ranks and tails with their changes, and the verdict.

        Raises:
            InputError: There is no such layer or head, or the layer is not compared.

        """
        known = self.after.layer(layer)
        require_whole("head", head, 0, known.heads - 1)
        for one in self.heads:
            if (one.layer, one.head) == (known.number, head):
                return one
        why = next(str(one) for one in self.unmatched if one.name == known.name)
        raise InputError("this layer is not compared", why, "See unmatched.")

    def to_frame(self) -> "pd.DataFrame":
        """The comparison as a table with one row per head.

        Returns:
            A pandas DataFrame. For each of rank99, rank999, stable_rank and tail it has the values
            of all inputs together (`…_before`, `…_after`), the means over inputs
            (`…_input_before`, `…_input_after`), and the change of the latter with its interval
            (`…_change`, `…_change_low`, `…_change_high`).

        """
        import pandas as pd

        return pd.DataFrame([_row(one) for one in self.heads])

    def plot(self) -> "Drawing":
        """Draw the change of each head's rank as a map of layers × heads.

        Returns:
            A matplotlib figure that notebooks show.

        """
        from attnrate.figures.draw import draw

        return draw(changes_figure(self))

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write a page about the comparison, with its figures and numbers as files beside it.

        Either all files are written or none: index.html, figures/, heads.csv and comparison.json.

        Args:
            folder: A folder that is new or empty, or that an earlier call has written.

        Returns:
            The path of the page.

        Raises:
            InputError: The folder has something else in it or cannot be written, or the extra
                `report` is not installed.

        """
        from attnrate.spectra.page.comparison import write_comparison

        return write_comparison(self, folder)

    def most(self, verdict: Literal["gained", "lost"]) -> HeadChange | None:
        """The head whose rank changed most, up or down.

        Args:
            verdict: "gained" or "lost".

        Returns:
            The head with the largest mean change of `rank99` over inputs among those with this
            verdict; None if there is none.

        """
        found = [one for one in self.heads if one.verdict == verdict]
        return max(found, key=lambda one: abs(one.rank99.change.value), default=None)

    def __str__(self) -> str:
        return "\n".join(_sentences(self))

    def _table(self) -> "pd.DataFrame":
        frame = self.to_frame()[[*_FIRST_COLUMNS]]
        return frame.sort_values("rank99_change", key=lambda change: -change.abs(), kind="stable")

    def _figure(self) -> "Drawing":
        return self.plot()


def _row(one: HeadChange) -> dict[str, Any]:
    row: dict[str, Any] = {
        "layer": one.layer,
        "name": one.name,
        "name_before": one.name_before,
        "head": one.head,
        "m_h_before": one.m_h_before,
        "m_h": one.m_h,
        "verdict": one.verdict,
        "chance": one.chance,
        "adjusted": one.adjusted,
    }
    for name in MEASURES:
        measured: Measured = getattr(one, name)
        row |= {
            f"{name}_before": measured.before,
            f"{name}_after": measured.after,
            f"{name}_input_before": float(measured.inputs_before.mean()),
            f"{name}_input_after": float(measured.inputs_after.mean()),
            f"{name}_change": measured.change.value,
            f"{name}_change_low": measured.change.low,
            f"{name}_change_high": measured.change.high,
        }
    return row


def _sentences(found: Comparison) -> list[str]:
    """The comparison in three sentences, and one more if some layers were not compared."""
    counts = found.counts
    lines = [
        f"{found.after.model} against {found.before.model}: of {counted(len(found.heads), 'head')} "
        f"{counts['gained']} gained rank and {counts['lost']} lost rank; {_are(counts['same'])} "
        f"the same to within one dimension and {_are(counts['open'])} open.",
        _largest(found),
        f"{_inputs(found)}; each interval holds for one head by itself, while of the heads that "
        f"are called gained or lost at most {100 * RATE:g} % are wrong on average.",
    ]
    if found.unmatched:
        lines.append(_not_compared(found.unmatched))
    return lines


def _are(count: int) -> str:
    return f"{count} {'is' if count == 1 else 'are'}"


def _largest(found: Comparison) -> str:
    """The heads that changed most, in words."""
    said = [
        f"{_words(one)} {verdict} most"
        for one, verdict in ((found.most("gained"), "gained"), (found.most("lost"), "lost"))
        if one is not None
    ]
    if said:
        text = "; ".join(said)
        return text[0].upper() + text[1:] + "."
    most = max(found.heads, key=lambda one: abs(one.rank99.change.value))
    if most.rank99.change.value == 0:
        return "No head needs more or fewer dimensions for 99 % of its energy than before."
    return f"The largest change is that of {_words(most)}."


def _words(one: HeadChange) -> str:
    rank = one.rank99
    return (
        f"head {one.head} of layer {one.layer} (99 % of its energy in "
        f"{counted(rank.before, 'dimension')} before and {rank.after:g} after; per input "
        f"{change_words(rank.change)})"
    )


def _inputs(found: Comparison) -> str:
    one, two = len(found.before.tokens), len(found.after.tokens)
    if found.paired:
        return f"Changes are means over the same {counted(one, 'input')} of both"
    return f"Changes are between two samples, of {one} inputs before and {two} after"


def _not_compared(unmatched: tuple[Unmatched, ...]) -> str:
    sides = Counter(one.model for one in unmatched)
    counts = " and ".join(f"{counted(n, 'layer')} {side}" for side, n in sides.items())
    return f"Not compared: {counts}, such as {unmatched[0]}."
