"""Conclusions of the attention experiments: numbers, verdicts, panels and tables."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from attnrate.experiments.claims import Claim, Verdict, claim_of, judge
from attnrate.experiments.contract import Done, select
from attnrate.experiments.kits.maps import (
    Curve,
    Entries,
    Example,
    MapOutcome,
    Measures,
    PointwiseOutcome,
    RowsOutcome,
)
from attnrate.figures.figure import Cell, Curves, Figure, Graph, Matrix, Series, Table
from attnrate.statistics import Interval, mean

#: Required of every fit: at most this mean |Â - A|, and at least this share of right links
MOST_MAE, LEAST_LINK = 0.02, 0.97
#: F̂∘f̂ counts as F∘f when its rms error is at most this share of the standard deviation of F∘f
MOST_RELATIVE_RMS = 0.1
_NORMAL_95 = 1.96

O = TypeVar("O", bound=MapOutcome)  # noqa: E741 - an outcome
P = TypeVar("P", bound=PointwiseOutcome)
R = TypeVar("R", bound=RowsOutcome)


@dataclass(frozen=True)
class Kept:
    """The number of fits that satisfy a limit, out of all fits.

    Fits that differ in the seed alone can be either right or far off, so a mean with an
    interval would say little.
    """

    count: int
    of: int

    def __add__(self, other: "Kept") -> "Kept":
        return Kept(self.count + other.count, self.of + other.of)

    @property
    def verdict(self) -> Verdict:
        """Whether all fits satisfy the limit, or none; "open" otherwise, and without fits."""
        return judge(self.count == self.of, self.count == 0, enough=self.of > 0)


def at_most(values: Sequence[float], limit: float) -> Kept:
    """Count the values that are at most the limit."""
    return Kept(sum(value <= limit for value in values), len(values))


def percent(share: Interval, digits: int = 1) -> str:
    """Format a share in per cent, with its interval if it has one."""
    value, low, high = (f"{100 * each:.{digits}f}" for each in (share.value, share.low, share.high))
    return f"{value} %" if math.isnan(share.low) else f"{value} % [{low}, {high}]"


@dataclass(frozen=True)
class Number(Interval):
    """The mean of a number over fits, with its interval; `values` has one number per fit."""

    values: tuple[float, ...] = ()

    def __str__(self) -> str:
        return super().__str__() if self.count else "–"

    @property
    def seeds(self) -> str:
        """ ", from a to b over n seeds", or nothing for a single seed."""
        if len(self.values) < 2:
            return ""
        least, most = min(self.values), max(self.values)
        return f", from {least:.3g} to {most:.3g} over {len(self.values)} seeds"

    @property
    def percent(self) -> str:
        """The share in per cent, with its interval if it has one; a dash if it is unknown."""
        return percent(self) if self.count else "–"

    def at_most(self, limit: float) -> Kept:
        """Count the fits in which the number is at most the limit."""
        return at_most(self.values, limit)

    def at_least(self, limit: float) -> Kept:
        """Count the fits in which the number is at least the limit."""
        return Kept(sum(value >= limit for value in self.values), len(self.values))


@dataclass(frozen=True)
class Shown(Generic[O]):
    """A fit that is drawn: its seed, its outcome, and the example of that outcome."""

    seed: int
    outcome: O
    example: Example


@dataclass(frozen=True)
class Group(Generic[O]):
    """The finished fits of one case, one per seed; `words` name the case in sentences."""

    words: str
    fits: tuple[Done[Any, O], ...]

    def __len__(self) -> int:
        return len(self.fits)

    @property
    def diverged(self) -> bool:
        """Whether there are fits and all of them diverged."""
        return bool(self.fits) and not self.error.count

    def values(self, read: Callable[[O], float | None]) -> list[float]:
        """Read a value from every fit; a diverged fit has none and is left out."""
        found = [read(one.outcome) for one in self.fits]
        return [value for value in found if value is not None]

    def number(
        self,
        read: Callable[[O], float | None],
        error: Callable[[O], float | None] | None = None,
        most: float = math.inf,
    ) -> Number:
        """Average what `read` returns; the interval is cut to [0, most].

        With one seed the interval is over inputs, if `error` reads their standard error;
        otherwise there is no interval.
        """
        values, errors = self.values(read), [] if error is None else self.values(error)
        found = mean(values)
        if found.count == 1 and errors:
            half = _NORMAL_95 * errors[0]
            found = Interval(found.value, found.value - half, found.value + half, 1)
        found = found.within(0.0, most)
        return Number(found.value, found.low, found.high, found.count, tuple(values))

    def link(self, rows: Callable[[O], Measures]) -> Number:
        """The share of rows with the right argmax, among the rows that `rows` selects."""
        return self.number(lambda one: rows(one).link, lambda one: rows(one).link_se, 1.0)

    @property
    def error(self) -> Number:
        """The mean squared error."""
        return self.number(lambda one: one.error)

    @property
    def shown(self) -> Shown[O] | None:
        """The fit that is drawn: the one with the smallest seed that has an example."""
        found = [
            Shown(one.job.seed, one.outcome, one.outcome.example)
            for one in self.fits
            if one.outcome.example is not None
        ]
        return min(found, key=lambda one: one.seed, default=None)


def rms(found: Group[P]) -> Number:
    """The root mean square of F̂∘f̂ - F∘f on fresh tokens."""
    return found.number(lambda one: one.pointwise.rms)


def mae(found: Group[R]) -> Number:
    """The mean |Â - A| over all rows of fresh inputs."""
    return found.number(lambda one: one.rows.mae)


def link(found: Group[R]) -> Number:
    """The share of rows with the right argmax, over all rows of fresh inputs."""
    return found.link(lambda one: one.rows)


def grouped(found: Sequence[Done[Any, O]], words: Mapping[str, str]) -> dict[str, Group[O]]:
    """Group the fits by case; `words` maps every case to its name in sentences."""
    return {case: Group(text, tuple(select(found, case=case))) for case, text in words.items()}


def evidence(before: str, parts: Sequence[str], after: str, fits: int) -> str:
    """List the parts in a sentence; without any, say whether the fits diverged or are missing.

    `fits` is the number of finished fits.
    """
    if not parts:
        return "every fit diverged." if fits else "no fit is finished."
    return f"{before}{'; '.join(parts)}{after}"


def sentences(by: Mapping[str, Group[O]], sentence: Callable[[Group[O]], str]) -> list[str]:
    """One sentence per case that has fits; of a case whose fits all diverged it says just that."""
    return [
        f"with {found.words} every fit diverged" if found.diverged else sentence(found)
        for found in by.values()
        if found
    ]


def finished(by: Mapping[str, Group[O]]) -> int:
    """The number of finished fits of all cases."""
    return sum(map(len, by.values()))


def nothing(fits: int) -> tuple[str]:
    """The paragraph of an experiment without results, which has `fits` finished fits."""
    if fits:
        return ("Every finished fit of this experiment diverged.",)
    return ("No fit of this experiment is finished.",)


def verdict(whole: Kept, restricted: Kept) -> Verdict:
    """Decide a statement about the whole model, which a restricted model may satisfy instead.

    "holds" if every fit of the whole model satisfies it; "holds when corrected" if every fit of
    the restricted model does; "does not hold" if no fit of either does.
    """
    if whole.verdict == "holds":
        return "holds"
    if not (whole.of and restricted.of):
        return "open"
    if restricted.verdict == "holds":
        return "holds when corrected"
    return "does not hold" if (whole + restricted).count == 0 else "open"


def corrected(whole: Kept, restricted: Kept, how: str) -> tuple[Verdict, str]:
    """The verdict, and its correction: `how`, and how often the statement holds without it."""
    said = verdict(whole, restricted)
    if said != "holds when corrected":
        return said, ""
    return said, f"{how} Without that it holds in {whole.count} of {whole.of} fits."


def weights_claim(
    about: tuple[str, str, str, str],
    by: Mapping[str, Group[O]],
    off: Callable[[Group[O]], Number],
    decide: Callable[[Mapping[str, Kept]], tuple[Verdict, str]],
    around: tuple[str, str],
    more: Callable[[Group[O]], str] = lambda found: "",
) -> Claim:
    """Make the claim that weights are right: `off`, a mean |Â - A|, is at most MOST_MAE.

    `about` has the experiment, name, place and statement of the claim. `decide` gets, for each
    case, the number of fits within the limit. The evidence lists the cases between the two
    texts of `around`, each with what `more` adds. The deciding number is that of the first
    case.
    """
    found = {case: off(group) for case, group in by.items()}
    parts = [
        f"{found[case]} with {group.words}{found[case].seeds}{more(group)}"
        for case, group in by.items()
        if found[case].count
    ]
    said, how = decide({case: each.at_most(MOST_MAE) for case, each in found.items()})
    first = next(iter(found.values()))
    return claim_of(*about, said, evidence(around[0], parts, around[1], finished(by)), first, how)


def pointwise_claim(
    about: tuple[str, str, str, str],
    by: Mapping[str, Group[P]],
    decide: Callable[[Mapping[str, Kept]], tuple[Verdict, str]],
) -> Claim:
    """Make the claim that F̂∘f̂ is F∘f up to MOST_RELATIVE_RMS times its standard deviation.

    `about` has the experiment, name, place and statement of the claim. `decide` gets, for each
    case, the number of fits within the limit. The deciding number is that of the first case.
    """
    met, parts = {}, []
    for case, found in by.items():
        off, spread = rms(found), found.number(lambda one: one.pointwise.spread).value
        met[case] = off.at_most(MOST_RELATIVE_RMS * spread)
        if off.count:
            mean_off = f"{off} with {found.words}{off.seeds}"
            parts.append(f"{mean_off}, where F∘f has the standard deviation {spread:.3g}")
    asked = f" (limit: {MOST_RELATIVE_RMS:.0%} of that standard deviation)."
    words = evidence("rms |F̂∘f̂ - F∘f| on fresh tokens: ", parts, asked, finished(by))
    said, how = decide(met)
    return claim_of(*about, said, words, rms(next(iter(by.values()))), how)


def map_figures(
    name: str,
    by: Mapping[str, Group[P]],
    true: str,
    graph: Callable[[str, Example], Graph],
    axis: str,
    attention: tuple[str, str],
    graphs: tuple[str, str],
    tokens: str = "random tokens",
) -> tuple[Figure, ...]:
    """Draw the attention matrices, and the graphs beside F̂∘f̂, of every case with an example.

    `true` is the title of the true weights; `graph` draws a case from its words and its
    example; `tokens` names the tokens on which F̂∘f̂ is drawn, and `axis` says what F∘f is.
    `attention` and `graphs` have the title and the caption of either figure. In captions {seed}
    stands for the smallest seed shown and {right} for the number of right links.
    """
    shown = {found.words: one for found in by.values() if (one := found.shown) is not None}
    if not shown:
        return ()
    true_weights = next(iter(shown.values())).example.true
    learned = [attention_panel(f"learned, {k}", one.example.learned) for k, one in shown.items()]
    drawn = [graph(words, one.example) for words, one in shown.items()]
    curves = {words: one.outcome.pointwise.curve for words, one in shown.items()}
    filled = {
        "seed": min(one.seed for one in shown.values()),
        "right": ", ".join(f"{sum(g.right)} of {len(g.right)} ({g.title})" for g in drawn),
    }
    return (
        Figure(
            f"{name}-attention",
            attention[0],
            attention[1].format(**filled),
            (*learned, attention_panel(true, true_weights)),
        ),
        Figure(
            f"{name}-graph",
            graphs[0],
            graphs[1].format(**filled),
            (*drawn, pointwise_panel(f"F̂∘f̂ on {tokens}", curves, axis)),
        ),
    )


def attention_panel(title: str, values: Entries) -> Matrix:
    """Draw a matrix of attention weights on a scale from 0 to 1."""
    return Matrix(title, "input position s", "output position t", values, 0.0, 1.0)


def links_panel(
    title: str,
    shown: Example,
    above: Mapping[int, tuple[float, float]],
    below: Mapping[int, tuple[float, float]],
    least: float,
    right: float,
    names: tuple[str, str],
) -> Graph:
    """Draw the links of weight `least` or more from rows `above` to columns `below`.

    `above` and `below` map rows and columns to places in the plane. A link is right where the
    true weight exceeds `right`; `names` are the names of the two kinds of points.
    """
    pairs = [
        ((i, j, shown.learned[t][s]), shown.true[t][s] > right)
        for i, t in enumerate(above)
        for j, s in enumerate(below)
        if shown.learned[t][s] >= least
    ]
    return Graph(
        title,
        tuple(above.values()),
        tuple(below.values()),
        tuple(link for link, _ in pairs),
        tuple(true for _, true in pairs),
        *names,
    )


def pointwise_panel(title: str, curves: Mapping[str, Curve | None], axis: str) -> Curves:
    """Draw F̂∘f̂ over F∘f for each named curve, beside the diagonal."""
    known = {name: curve for name, curve in curves.items() if curve is not None}
    drawn = [Series(name, c.x, c.y, c.low, c.high) for name, c in known.items()]
    ends = [x for curve in known.values() for x in curve.x]
    diagonal = (min(ends), max(ends)) if ends else (0.0, 1.0)
    truth = Series("F∘f itself", diagonal, diagonal, style="theory")
    return Curves(title, f"F∘f: {axis}", "F̂∘f̂ (mean; bars: 90 % of tokens)", (*drawn, truth))


def case_table(
    title: str,
    by: Mapping[str, Group[O]],
    columns: Mapping[str, Callable[[Group[O]], Cell | Number]],
    note: str,
    heading: str = "F̂",
) -> Table:
    """Tabulate one row per case with fits: its words, seeds, error, and further columns."""
    rows: list[tuple[Cell, ...]] = []
    for found in filter(None, by.values()):
        more = [column(found) for column in columns.values()]
        cells = [str(cell) if isinstance(cell, Number) else cell for cell in more]
        error = "diverged" if found.diverged else str(found.error)
        rows.append((found.words, len(found), error, *cells))
    return Table(title, (heading, "seeds", "mean squared error", *columns), tuple(rows), note)
