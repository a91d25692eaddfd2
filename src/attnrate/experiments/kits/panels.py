"""What the attention experiments share in their conclusions: numbers, verdicts, panels, tables."""

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

#: "Must reach": attention weights within this mean absolute error, links right in this share
MOST_MAE, LEAST_LINK = 0.02, 0.97
#: F̂∘f̂ counts as F∘f when it is within this share of the spread of F∘f
MOST_RELATIVE_RMS = 0.1
#: The paragraphs of an experiment of which no fit is finished
NOTHING = ("No fit of this experiment is finished.",)
_NORMAL_95 = 1.96

O = TypeVar("O", bound=MapOutcome)  # noqa: E741 - an outcome
P = TypeVar("P", bound=PointwiseOutcome)
R = TypeVar("R", bound=RowsOutcome)


@dataclass(frozen=True)
class Kept:
    """How many fits keep to a limit, of how many.

    Fits of one kind can differ by their seed alone, some right and some far off, so that a mean
    with an interval would say little.
    """

    count: int
    of: int

    def __add__(self, other: "Kept") -> "Kept":
        return Kept(self.count + other.count, self.of + other.of)

    @property
    def verdict(self) -> Verdict:
        """Whether all of them do, or none; "open" for anything between, or for no fit."""
        return judge(self.count == self.of, self.count == 0, enough=self.of > 0)


def at_most(values: Sequence[float], limit: float) -> Kept:
    """How many of the values are at most the limit."""
    return Kept(sum(value <= limit for value in values), len(values))


def percent(share: Interval, digits: int = 1) -> str:
    """A share in per cent, with its interval where it has one."""
    value, low, high = (f"{100 * each:.{digits}f}" for each in (share.value, share.low, share.high))
    return f"{value} %" if math.isnan(share.low) else f"{value} % [{low}, {high}]"


@dataclass(frozen=True)
class Number(Interval):
    """The mean of a number over fits, with its interval; `values` are those of the fits."""

    values: tuple[float, ...] = ()

    @property
    def seeds(self) -> str:
        """ ", from a to b over n seeds", or nothing for a single seed."""
        if len(self.values) < 2:
            return ""
        least, most = min(self.values), max(self.values)
        return f", from {least:.3g} to {most:.3g} over {len(self.values)} seeds"

    @property
    def percent(self) -> str:
        """A share in per cent, with its interval where it has one; a dash where there is none."""
        return percent(self) if self.count else "–"

    def at_most(self, limit: float) -> Kept:
        """In how many fits it is at most the limit."""
        return at_most(self.values, limit)

    def at_least(self, limit: float) -> Kept:
        """In how many fits it is at least the limit."""
        return Kept(sum(value >= limit for value in self.values), len(self.values))


@dataclass(frozen=True)
class Shown(Generic[O]):
    """A fit that is drawn: its seed, its outcome, and the example of that outcome."""

    seed: int
    outcome: O
    example: Example


@dataclass(frozen=True)
class Group(Generic[O]):
    """The finished fits of one case, one a seed; `words` name the case in sentences."""

    words: str
    fits: tuple[Done[Any, O], ...]

    def __len__(self) -> int:
        return len(self.fits)

    def values(self, read: Callable[[O], float | None]) -> list[float]:
        """The value of every fit that has one; diverged fits have none."""
        found = [read(one.outcome) for one in self.fits]
        return [value for value in found if value is not None]

    def number(
        self,
        read: Callable[[O], float | None],
        error: Callable[[O], float | None] | None = None,
        most: float = math.inf,
    ) -> Number:
        """The mean of what `read` finds, an error or a share, with an interval from 0 to `most`.

        Of one seed that is the interval over inputs, where `error` reads the standard error over
        them; otherwise there is none.
        """
        values, errors = self.values(read), [] if error is None else self.values(error)
        found = mean(values)
        if found.count == 1 and errors:
            half = _NORMAL_95 * errors[0]
            found = Interval(found.value, found.value - half, found.value + half, 1)
        found = found.within(0.0, most)
        return Number(found.value, found.low, found.high, found.count, tuple(values))

    def link(self, rows: Callable[[O], Measures]) -> Number:
        """The share of right links in the rows that `rows` gives."""
        return self.number(lambda one: rows(one).link, lambda one: rows(one).link_se, 1.0)

    @property
    def error(self) -> Number:
        """The mean squared error."""
        return self.number(lambda one: one.error)

    @property
    def shown(self) -> Shown[O] | None:
        """What is drawn of the case: the smallest seed that has an example."""
        found = [
            Shown(one.job.seed, one.outcome, one.outcome.example)
            for one in self.fits
            if one.outcome.example is not None
        ]
        return min(found, key=lambda one: one.seed, default=None)


def rms(found: Group[P]) -> Number:
    """The rms of F̂∘f̂ - F∘f on fresh tokens."""
    return found.number(lambda one: one.pointwise.rms)


def mae(found: Group[R]) -> Number:
    """The mean |Â - A| over all rows of fresh inputs."""
    return found.number(lambda one: one.rows.mae)


def link(found: Group[R]) -> Number:
    """The share of right links in all rows of fresh inputs."""
    return found.link(lambda one: one.rows)


def grouped(found: Sequence[Done[Any, O]], words: Mapping[str, str]) -> dict[str, Group[O]]:
    """The fits by their case; `words` has every case and how sentences name it."""
    return {case: Group(text, tuple(select(found, case=case))) for case, text in words.items()}


def evidence(before: str, parts: Sequence[str], after: str) -> str:
    """A sentence that lists the parts; where there are none it says that no fit is finished."""
    return f"{before}{'; '.join(parts)}{after}" if parts else "no fit is finished."


def verdict(whole: Kept, restricted: Kept) -> Verdict:
    """The verdict on a statement about the whole model that a restricted one may satisfy instead.

    "holds" if every fit of the whole model does it, "holds when corrected" if only every fit of the
    restricted one does, "does not hold" if none of either does.
    """
    if whole.verdict == "holds":
        return "holds"
    if not (whole.of and restricted.of):
        return "open"
    if restricted.verdict == "holds":
        return "holds when corrected"
    return "does not hold" if (whole + restricted).count == 0 else "open"


def corrected(whole: Kept, restricted: Kept, how: str) -> tuple[Verdict, str]:
    """The verdict, and the correction if there is one: `how`, and how often it holds without."""
    said = verdict(whole, restricted)
    if said != "holds when corrected":
        return said, ""
    return said, f"{how} Without that it holds in {whole.count} of {whole.of} fits."


def weights_claim(
    about: tuple[str, str, str, str],
    by: Mapping[str, Group[O]],
    off: Callable[[Group[O]], Number],
    decide: Callable[[Mapping[str, Kept]], tuple[Verdict, str]],
    told: tuple[str, str],
    more: Callable[[Group[O]], str] = lambda found: "",
) -> Claim:
    """A claim that weights are right: that `off`, a mean |Â - A|, is at most MOST_MAE.

    `about` is its experiment, name, place and statement. `decide` is given the fits of each case
    that keep to the limit. The evidence lists the cases between the two texts of `told`, each with
    what `more` adds; the number that decides is that of the first case.
    """
    found = {case: off(group) for case, group in by.items()}
    parts = [
        f"{found[case]} with {group.words}{found[case].seeds}{more(group)}"
        for case, group in by.items()
        if found[case].count
    ]
    said, how = decide({case: each.at_most(MOST_MAE) for case, each in found.items()})
    first = next(iter(found.values()))
    return claim_of(*about, said, evidence(told[0], parts, told[1]), first, how)


def pointwise_claim(
    about: tuple[str, str, str, str],
    by: Mapping[str, Group[P]],
    decide: Callable[[Mapping[str, Kept]], tuple[Verdict, str]],
) -> Claim:
    """A claim that F̂∘f̂ is F∘f, within MOST_RELATIVE_RMS of the spread of the latter.

    `about` is its experiment, name, place and statement. `decide` is given the fits of each case
    that keep to the limit; the number that decides is that of the first case.
    """
    met, parts = {}, []
    for case, found in by.items():
        off, spread = rms(found), found.number(lambda one: one.pointwise.spread).value
        met[case] = off.at_most(MOST_RELATIVE_RMS * spread)
        if off.count:
            mean_off = f"{off} with {found.words}{off.seeds}"
            parts.append(f"{mean_off}, where F∘f has the spread {spread:.3g}")
    asked = f" (asked: {MOST_RELATIVE_RMS:.0%} of the spread)."
    told = evidence("rms |F̂∘f̂ - F∘f| on fresh tokens: ", parts, asked)
    said, how = decide(met)
    return claim_of(*about, said, told, rms(next(iter(by.values()))), how)


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
    """Attention, and graphs beside F̂∘f̂, of every case that has an input to show; none if none has.

    `true` is the title of the true weights; `graph` draws a case by its words and its example;
    `tokens` are those on which F̂∘f̂ is drawn, and `axis` says what F∘f is. Of either figure there
    are the title and the caption, in which {seed} stands for the least seed shown and {right} for
    how many links are right.
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
    """A matrix of attention weights, on the scale from 0 to 1."""
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
    """Links of weight `least` and more from rows `above` to columns `below`, at these places.

    A link is right where the true weight is above `right`; `names` are those of the two kinds.
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
    """F̂∘f̂ over F∘f for each named curve, beside the diagonal."""
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
    """A row a case that has fits: its words under `heading`, seeds, error, and further columns."""
    rows: list[tuple[Cell, ...]] = []
    for found in filter(None, by.values()):
        more = [column(found) for column in columns.values()]
        told = [str(cell) if isinstance(cell, Number) else cell for cell in more]
        rows.append((found.words, len(found), str(found.error), *told))
    return Table(title, (heading, "seeds", "mean squared error", *columns), tuple(rows), note)
