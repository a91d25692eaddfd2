"""Cells of a table: a model on a target, fitted by both recipes; ratios of cells, and verdicts.

Tables 2 and 3 of the paper are made of them. Errors lie over decades, so means over seeds are
geometric; the arithmetic mean and the extremes stand beside them. A contrast is the ratio of the
errors on an altered target and on the original, paired by seed: both fits of a pair begin with the
same weights and see the same inputs.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from attnrate.experiments import contract
from attnrate.experiments.claims import Claim, Verdict, claim_of, if_corrected
from attnrate.experiments.kits.fits import curve, errors, paired
from attnrate.figures.figure import Cell as Entry
from attnrate.figures.figure import Curves, Figure, Line, Series, Table
from attnrate.fitting.job import Sized
from attnrate.fitting.trial import Trial
from attnrate.statistics import Interval, geometric_mean, mean
from attnrate.targets import LinearTarget
from attnrate.targets.build import build_target

Settings = Mapping[str, object]
LENGTH = 32
#: App. C: a vanilla RNN with linear activation, and Eq. 5 with a position encoding
MODELS: Mapping[str, Settings] = {
    "RNN": {"kind": "linear_rnn", "hidden": 128},
    "Transformer": {
        "kind": "transformer",
        "n": 32,
        "m_h": 32,
        "m_v": 32,
        "width": 128,
        "depth": 3,
        "position": "learned",
    },
}
RECIPES = ("paper", "strong")
ORIGINAL = "original"
#: An altered target is worse when the ratio of its error to the original's is above MATTERS; with
#: one seed, and so without an interval, it takes a ratio that no spread over seeds explains
MATTERS, MATTERS_ALONE = 3.0, 100.0
_ROUNDING = 1e-20  # a floor below it is zero but for rounding
#: How `hurts` and `harmless` correct a statement
CORRECTED = (
    "The errors differ by that ratio, but all of them, altered too, are at or below the paper's "
    "error without the change."
)


@dataclass(frozen=True)
class Place:
    """Where a number stands in a table: a model on a target."""

    model: str
    target: str


@dataclass(frozen=True)
class Cell(Place):
    """One number of a table, with the paper's error where it has one."""

    paper: float | None = None


@dataclass(frozen=True)
class CellFit(Place):
    """What a fit is found by: its cell, recipe and seed."""

    recipe: str
    seed: int


@dataclass(frozen=True)
class Way:
    """How a model is fitted by a recipe: its changes, seconds on one core, and how many seeds."""

    changes: Mapping[str, float | int]
    cost: float
    seeds: int


#: By preset and recipe
Ways = Mapping[tuple[contract.Preset, str], Way]
#: Both tables fit the linear RNN in these ways
RNN: Ways = {
    ("quick", "strong"): Way({"lr": 0.01, "steps": 600, "batch": 32}, 3.5, 2),
    ("quick", "paper"): Way({"steps": 1000, "batch": 32, "first_batch": 32}, 2.5, 2),
    ("paper", "strong"): Way({"lr": 0.01}, 15.0, 5),
    ("paper", "paper"): Way({"steps": 10_000}, 25.0, 5),
}


@dataclass(frozen=True)
class CellTable:
    """A table of the paper: its cells, its targets by name, and how the Transformer is fitted."""

    name: str
    title: str
    cells: Sequence[Cell]
    targets: Mapping[str, Settings]
    transformer: Ways

    def plan(self, preset: contract.Preset) -> contract.Plan:
        """A fit for every cell, recipe and seed."""
        jobs: list[Sized[contract.Fit[CellFit]]] = []
        for cell in self.cells:
            for recipe in RECIPES:
                way = (RNN if cell.model == "RNN" else self.transformer)[preset, recipe]
                for seed in range(way.seeds):
                    given = {"name": recipe, **way.changes}
                    trial = Trial(self.targets[cell.target], MODELS[cell.model], given, seed)
                    label = CellFit(cell.model, cell.target, recipe, seed)
                    jobs.append(Sized(contract.Fit(label, trial), way.cost))
        return jobs


def exact_floor(target: Settings, model: str) -> float | None:
    """The least error of any linear RNN with offsets, in closed form; None where none is known."""
    built = build_target(target)
    if model != "RNN" or not isinstance(built, LinearTarget):
        return None
    floor = built.floor("time-invariant")
    return 0.0 if floor < _ROUNDING else floor


def worse(ratio: Interval) -> bool:
    """Whether the altered target is worse beyond doubt: the interval lies above MATTERS."""
    return ratio.low > MATTERS or (ratio.count == 1 and ratio.value > MATTERS_ALONE)


def as_good(ratio: Interval) -> bool:
    """Whether the altered target is as good: the mean lies below MATTERS."""
    return ratio.value <= MATTERS


def hurts(ratio: Interval, altered: Sequence[float], paper_original: float) -> Verdict:
    """Verdict on "this alteration hurts": by the ratio of the errors.

    Where its interval cannot decide, a mean ratio below MATTERS does if every seed brings the
    altered target at or below the error which the paper has for the original one. A ratio that
    stays although all errors are that small is one that holds when corrected, by CORRECTED.
    """
    if ratio.count == 0:
        return "open"
    small = max(altered) <= paper_original
    if worse(ratio):
        return "holds when corrected" if small else "holds"
    return "does not hold" if ratio.high < MATTERS or (small and as_good(ratio)) else "open"


def harmless(
    ratio: Interval,
    altered: Sequence[float],
    paper_original: float,
    paper_altered: float,
    floor: float | None = None,
) -> Verdict:
    """Verdict on "this alteration does not hurt", with the measure of `hurts`.

    Where the exact floor of the altered target is zero, errors at or below the paper's say that it
    is learned, and a ratio between them is training's. Elsewhere the mean ratio must be below
    MATTERS and, to be sure of it, either the interval too or every seed at or below the paper's
    error for the altered target. A fit above that error refutes nothing: the paper's is the better
    bound.
    """
    if ratio.count == 0:
        return "open"
    as_the_paper = max(altered) <= paper_altered
    if floor == 0 and as_the_paper:
        return "holds"
    if worse(ratio):
        if max(altered) <= paper_original:
            return "holds when corrected"
        return "does not hold" if as_the_paper else "open"
    return "holds" if as_good(ratio) and (ratio.high < MATTERS or as_the_paper) else "open"


def standing(cell: Cell, strong: Interval, floor: float | None) -> str:
    """How the error by the recipe strong stands to the paper's, in words."""
    if cell.paper is None:
        return "not in the paper"
    if floor is not None and floor > cell.paper:
        return "a floor forbids the paper's"
    if strong.count == 0:
        return "not run yet"
    return "at or below the paper's" if strong.value <= cell.paper else "above the paper's"


@dataclass(frozen=True)
class Measured:
    """Those fits of a table that are finished, and what they say."""

    of: CellTable
    fits: Sequence[contract.Done[contract.Fit[CellFit], contract.FitOutcome]]

    def errors(self, model: str, target: str, recipe: str = "strong") -> list[float]:
        """The errors of a cell, one a seed, without the fits that diverged."""
        return errors(self._found(model, target, recipe))

    def error(self, model: str, target: str, recipe: str = "strong") -> Interval:
        """The geometric mean over seeds of a cell's error."""
        return geometric_mean(self.errors(model, target, recipe))

    def ratio(self, model: str, altered: str, recipe: str = "strong") -> Interval:
        """The error on the altered target over that on the original: geometric mean over seeds."""
        above, below = (self._found(model, target, recipe) for target in (altered, ORIGINAL))
        return geometric_mean(paired(above, below, "seed"))

    def floor(self, model: str, target: str) -> float | None:
        """The exact floor of a cell, None where none is known."""
        return exact_floor(self.of.targets[target], model)

    def printed(self, model: str, target: str) -> float:
        """The paper's error of a cell; nan where it has none."""
        found = [c.paper for c in self.of.cells if (c.model, c.target) == (model, target)]
        return math.nan if not found or found[0] is None else found[0]

    def is_hurt(self, model: str, altered: str) -> Verdict:
        """Verdict on "the alteration hurts this model", by `hurts`."""
        ratio, found = self.ratio(model, altered), self.errors(model, altered)
        return hurts(ratio, found, self.printed(model, ORIGINAL))

    def is_unhurt(self, model: str, altered: str) -> Verdict:
        """Verdict on "the alteration does not hurt this model", by `harmless`."""
        ratio, found = self.ratio(model, altered), self.errors(model, altered)
        paper = self.printed(model, ORIGINAL), self.printed(model, altered)
        return harmless(ratio, found, *paper, self.floor(model, altered))

    def reached_sentence(self) -> str:
        """In how many of the paper's cells `strong` is at or below its error, and which not."""
        below, told = 0, []
        printed = [cell for cell in self.of.cells if cell.paper is not None]
        for cell in printed:
            where = f"{cell.model}, {cell.target},"
            strong, floor = self.error(cell.model, cell.target), self.floor(cell.model, cell.target)
            match standing(cell, strong, floor):
                case "at or below the paper's":
                    below += 1
                case "a floor forbids the paper's":
                    told.append(
                        f"for the {where} no linear RNN can have the paper's {cell.paper:.3g}: "
                        f"the exact floor is {floor:.4g}"
                        + (f", and strong has {strong}" if strong.count else "")
                    )
                case "not run yet":
                    told.append(f"{where} has not been run yet")
                case _:
                    told.append(f"{where} stays above it: {strong} against {cell.paper:.3g}")
        said = f"The strong recipe is at or below the paper's error in {below} of {len(printed)}"
        return f"{said} cells" + (": " + "; ".join(told) if told else "") + "."

    def error_claim(
        self, name: str, place: str, statement: str, model: str, target: str, verdict: Verdict
    ) -> Claim:
        """A claim that the error of one cell decides."""
        evidence = (
            f"Its error is {_by_recipe(self.error, model, target)}; in the paper "
            f"{self.printed(model, target):.3g}."
        )
        error = self.error(model, target)
        return claim_of(self.of.name, name, place, statement, verdict, evidence, error)

    def ratio_claim(
        self,
        name: str,
        place: str,
        statement: str,
        model: str,
        altered: str,
        verdict: Verdict,
        more: str = "",
    ) -> Claim:
        """A claim that a contrast decides; `more` is evidence beside its ratio."""
        paper = self.printed(model, altered) / self.printed(model, ORIGINAL)
        evidence = (
            f"The error {altered} over the error without is "
            f"{_by_recipe(self.ratio, model, altered)}; in the paper {paper:.3g}. {more}"
        ).strip()
        ratio = self.ratio(model, altered)
        correction = if_corrected(verdict, CORRECTED)
        return claim_of(self.of.name, name, place, statement, verdict, evidence, ratio, correction)

    def conclusion(
        self, paragraphs: tuple[str, ...], note: str, claims: Sequence[Claim]
    ) -> contract.Conclusion:
        """The paragraphs and claims with a figure, the table with that note, and the contrasts."""
        title = f"{self.of.title} with both recipes"
        caption = (
            f"Each cell of {self.of.title} by the paper's recipe (Adam) and by the strong one, "
            "with the paper's own values and the exact floors of linear RNNs. "
            + self.reached_sentence()
        )
        panels = tuple(self._panel(model) for model in MODELS)
        figure = Figure(self.of.name, title, caption, panels)
        tables = (self.table(title, note), self.contrasts())
        return contract.Conclusion(paragraphs, (figure,), tables, tuple(claims))

    def table(self, title: str, note: str) -> Table:
        """A row for each cell and recipe: means, interval, spread, the paper's value, the floor."""
        rows: list[tuple[Entry, ...]] = []
        for cell, recipe in itertools.product(self.of.cells, RECIPES):
            if found := self.errors(cell.model, cell.target, recipe):
                centre, floor = geometric_mean(found), self.floor(cell.model, cell.target)
                stands = standing(cell, centre, floor) if recipe == "strong" else ""
                place = cell.model, cell.target, recipe, centre.count
                ends = mean(found).value, min(found), max(found)
                rows.append((*place, *centre.limits, *ends, cell.paper, floor, stands))
        columns = ("model", "target", "recipe", "seeds", "geometric mean", "low", "high", "mean")
        more = ("least", "largest", "the paper", "exact floor", "strong and the paper")
        return Table(title, columns + more, tuple(rows), note)

    def contrasts(self) -> Table:
        """A row for each altered cell: the ratio to the original, by both recipes and printed."""
        rows: list[tuple[Entry, ...]] = []
        for cell in self.of.cells:
            found = [self.ratio(cell.model, cell.target, recipe) for recipe in RECIPES]
            if cell.target == ORIGINAL or all(ratio.count == 0 for ratio in found):
                continue
            paper = None if cell.paper is None else cell.paper / self.printed(cell.model, ORIGINAL)
            told = [str(ratio) if ratio.count else None for ratio in found]
            rows.append((cell.model, f"{cell.target} / {ORIGINAL}", paper, *told))
        columns = ("model", "ratio of errors", "the paper", "recipe paper", "recipe strong")
        note = "Geometric mean of ratios paired by seed, with 95 % interval where there are two."
        return Table(f"Contrasts of {self.of.title}", columns, tuple(rows), note)

    def _panel(self, model: str) -> Curves:
        """The errors of a model's cells by both recipes, the paper's, and the floors."""
        targets = [cell.target for cell in self.of.cells if cell.model == model]
        places = tuple(float(i) for i in range(len(targets)))
        series = []
        for recipe in RECIPES:
            found = [self.error(model, target, recipe) for target in targets]
            if any(one.count for one in found):
                series.append(curve(f"recipe {recipe}", list(zip(places, found, strict=True))))
        paper = tuple(self.printed(model, target) for target in targets)
        floors = [(target, self.floor(model, target)) for target in targets]
        return Curves(
            model,
            "target",
            "mean squared error",
            (*series, Series("the paper", places, paper, style="paper")),
            y_scale="log",
            lines=tuple(Line(f"floor, {target}", y=y) for target, y in floors if y),
            ticks=tuple(targets),
        )

    def _found(
        self, model: str, target: str, recipe: str
    ) -> list[contract.Done[contract.Fit[CellFit], contract.FitOutcome]]:
        return contract.select(self.fits, model=model, target=target, recipe=recipe)


def _by_recipe(of: Callable[[str, str, str], Interval], model: str, target: str) -> str:
    """What was found of a cell by every recipe that was tried, in words."""
    found = [(recipe, of(model, target, recipe)) for recipe in RECIPES]
    told = [
        f"{one} by the recipe {recipe} ({one.count} seed{'' if one.count == 1 else 's'})"
        for recipe, one in found
        if one.count
    ]
    return ", ".join(told) or "not measured yet"
