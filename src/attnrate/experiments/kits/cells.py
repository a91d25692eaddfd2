"""Tables of the paper whose cells are errors: a model on a target, fitted by both recipes.

Tables 2 and 3 are of this kind. Errors spread over decades, so means over seeds are geometric; the
arithmetic mean, the least and the largest error stand beside them. A contrast is the error on an
altered target divided by the error on the original target with the same seed. Both fits of such a
pair start from the same weights and see the same inputs.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from attnrate.experiments import contract
from attnrate.experiments.claims import Claim, Verdict, claim_of, if_corrected
from attnrate.experiments.kits.fits import Diverged, Fits, curve
from attnrate.figures.figure import Cell as Entry
from attnrate.figures.figure import Curves, Figure, Line, Series, Table
from attnrate.fitting.job import Sized
from attnrate.fitting.trial import Trial
from attnrate.settings import Settings
from attnrate.statistics import Interval, mean
from attnrate.targets import LinearTarget
from attnrate.targets.build import build_target

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
#: An altered target is worse when its error is more than MATTERS times the original's. A single
#: seed has no interval, so the ratio must exceed any spread over seeds: MATTERS_ALONE.
MATTERS, MATTERS_ALONE = 3.0, 100.0
_ROUNDING = 1e-20  # a floor below this is zero up to rounding
#: The correction that `hurts` and `harmless` attach to a statement
CORRECTED = (
    "The errors differ by that ratio, but even on the altered target all of them are at or below "
    "the error that the paper prints without the change."
)


@dataclass(frozen=True)
class Place:
    """Where a number stands in a table: the row of a model and the column of a target."""

    model: str
    target: str


@dataclass(frozen=True)
class Cell(Place):
    """One cell of a table, with the error that the paper prints; None if it prints none."""

    paper: float | None = None


@dataclass(frozen=True)
class CellFit(Place):
    """The label of a fit: its cell, recipe and seed."""

    recipe: str
    seed: int


@dataclass(frozen=True)
class Way:
    """How a model is fitted with a recipe.

    `changes` are settings of the recipe that differ from its defaults, `cost` is the expected
    time of one fit in seconds on one core, `seeds` the number of seeds.
    """

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
        """Plan one fit for every cell, recipe and seed."""
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
    """Compute the least error of any linear RNN with offsets; None if no closed form is known."""
    built = build_target(target)
    if model != "RNN" or not isinstance(built, LinearTarget):
        return None
    floor = built.floor("time-invariant")
    return 0.0 if floor < _ROUNDING else floor


def worse(ratio: Interval) -> bool:
    """Whether the altered target is clearly worse: the interval of the ratio lies above MATTERS.

    A single seed has no interval and needs a ratio above MATTERS_ALONE.
    """
    return ratio.low > MATTERS or (ratio.count == 1 and ratio.value > MATTERS_ALONE)


def as_good(ratio: Interval) -> bool:
    """Whether the altered target is learned as well: the mean ratio is at most MATTERS."""
    return ratio.value <= MATTERS


def hurts(ratio: Interval, altered: Sequence[float], paper_original: float) -> Verdict:
    """Decide "this alteration hurts" by the ratio of the errors.

    If the interval of the ratio cannot decide, a mean ratio of at most MATTERS does, provided
    that on the altered target every seed reaches the error that the paper prints for the
    original one. If the ratio is large although all errors are that small, the statement holds
    when corrected (CORRECTED).
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
    """Decide "this alteration does not hurt", with the same measure as `hurts`.

    If the exact floor of the altered target is zero and all errors are at or below the paper's,
    the target is learned, and any ratio between the errors is due to training. Otherwise the
    mean ratio must be at most MATTERS and, in addition, either its interval must lie below
    MATTERS or every seed must reach the paper's error on the altered target. A fit above that
    error refutes nothing, because the paper has found a smaller one.
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
    """Say in words how the error of the strong recipe compares with the paper's."""
    if cell.paper is None:
        return "not in the paper"
    if floor is not None and floor > cell.paper:
        return "the paper's is below the exact floor"
    if strong.count == 0:
        return "every fit diverged" if isinstance(strong, Diverged) else "not run yet"
    return "at or below the paper's" if strong.value <= cell.paper else "above the paper's"


@dataclass(frozen=True)
class Measured:
    """The finished fits of a table, and what follows from them."""

    of: CellTable
    fits: Fits

    def errors(self, model: str, target: str, recipe: str = "strong") -> list[float]:
        """List the errors of a cell, one per seed, without diverged fits."""
        return self._found(model, target, recipe).errors

    def error(self, model: str, target: str, recipe: str = "strong") -> Interval:
        """Average a cell's error over seeds by the geometric mean."""
        return self._found(model, target, recipe).mean()

    def ratio(self, model: str, altered: str, recipe: str = "strong") -> Interval:
        """Average the ratio of the altered to the original error over seeds, geometrically."""
        above, below = (self._found(model, target, recipe) for target in (altered, ORIGINAL))
        return above.ratio(below, "seed")

    def floor(self, model: str, target: str) -> float | None:
        """The exact floor of a cell; None if no closed form is known."""
        return exact_floor(self.of.targets[target], model)

    def printed(self, model: str, target: str) -> float:
        """The error that the paper prints for a cell; nan if it prints none."""
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

    def rule(self, model: str, altered: str, verdict: Verdict) -> str:
        """Say by which rule `is_hurt` or `is_unhurt` decides where the interval does not; or ""."""
        ratio = self.ratio(model, altered)
        if verdict == "open" or not ratio.low < MATTERS < ratio.high:
            return ""
        said = f"The interval has ratios on both sides of {MATTERS:g}; what decides is that "
        if verdict == "does not hold":
            return (
                f"{said}the mean ratio is at most {MATTERS:g} and that every fit on the {altered} "
                "target reaches the error that the paper prints for the original one, "
                f"{self.printed(model, ORIGINAL):.3g}."
            )
        reached = f"every fit reaches the paper's error, {self.printed(model, altered):.3g}"
        if self.floor(model, altered) == 0:
            return f"{said}the exact floor is zero and {reached}: the target is learned."
        return f"{said}the mean ratio is at most {MATTERS:g} and {reached}."

    def reached_sentence(self) -> str:
        """Say in how many cells the strong recipe reaches the paper's error; name the others."""
        below, wording = 0, []
        printed = [cell for cell in self.of.cells if cell.paper is not None]
        for cell in printed:
            where = f"{cell.model}, {cell.target},"
            strong, floor = self.error(cell.model, cell.target), self.floor(cell.model, cell.target)
            match standing(cell, strong, floor):
                case "at or below the paper's":
                    below += 1
                case "the paper's is below the exact floor":
                    wording.append(
                        f"for {where} no linear RNN can reach the paper's {cell.paper:.3g}: "
                        f"the exact floor is {floor:.4g}"
                        + (f", and the strong recipe reaches {strong}" if strong.count else "")
                    )
                case "not run yet":
                    wording.append(f"{where} has not been run yet")
                case "every fit diverged":
                    wording.append(f"{where} diverged in every fit")
                case _:
                    wording.append(f"{where} stays above: {strong} against {cell.paper:.3g}")
        said = f"The strong recipe is at or below the paper's error in {below} of {len(printed)}"
        return f"{said} cells" + (": " + "; ".join(wording) if wording else "") + "."

    def error_claim(
        self,
        name: str,
        place: str,
        statement: str,
        model: str,
        target: str,
        verdict: Verdict,
        more: str = "",
    ) -> Claim:
        """Make a claim that the error of one cell decides; `more` is added to its evidence."""
        evidence = (
            f"Its error is {_by_recipe(self.error, model, target)}; in the paper "
            f"{self.printed(model, target):.3g}. {more}"
        ).strip()
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
        """Make a claim that a contrast decides; `more` is added to its evidence."""
        paper = self.printed(model, altered) / self.printed(model, ORIGINAL)
        evidence = (
            f"The error on the {altered} target divided by that on the original one is "
            f"{_by_recipe(self.ratio, model, altered)}; in the paper {paper:.3g}. {more}"
        ).strip()
        ratio = self.ratio(model, altered)
        correction = if_corrected(verdict, CORRECTED)
        return claim_of(self.of.name, name, place, statement, verdict, evidence, ratio, correction)

    def conclusion(
        self, paragraphs: tuple[str, ...], note: str, claims: Sequence[Claim]
    ) -> contract.Conclusion:
        """Assemble the conclusion: paragraphs, claims, a figure, the table and its contrasts.

        `note` is the note below the table.
        """
        title = f"{self.of.title} with both recipes"
        caption = (
            f"Each cell of {self.of.title}, fitted with the paper's recipe (Adam) and with the "
            "strong one, beside the paper's own values and the exact floors of linear RNNs. "
            + self.reached_sentence()
        )
        panels = tuple(self._panel(model) for model in MODELS)
        figure = Figure(self.of.name, title, caption, panels)
        tables = (self.table(title, note), self.contrasts())
        return contract.Conclusion(paragraphs, (figure,), tables, tuple(claims))

    def table(self, title: str, note: str) -> Table:
        """Tabulate one row per cell and recipe: means, interval, extremes, paper, floor.

        The ends of an interval over two decades or more are left out.
        """
        rows: list[tuple[Entry, ...]] = []
        for cell, recipe in itertools.product(self.of.cells, RECIPES):
            found = self._found(cell.model, cell.target, recipe)
            centre, floor = found.mean(), self.floor(cell.model, cell.target)
            place = cell.model, cell.target, recipe, centre.count
            if found.diverged:
                rows.append((*place, *[None] * 6, cell.paper, floor, "every fit diverged"))
            elif found:
                stands = standing(cell, centre, floor) if recipe == "strong" else ""
                ends = mean(found.errors).value, min(found.errors), max(found.errors)
                value, low, high = centre.limits
                interval = (low, high) if centre.decades is None else (None, None)
                rows.append((*place, value, *interval, *ends, cell.paper, floor, stands))
        columns = ("model", "target", "recipe", "seeds", "geometric mean", "low", "high", "mean")
        more = ("least", "largest", "the paper", "exact floor", "strong and the paper")
        return Table(title, columns + more, tuple(rows), note)

    def contrasts(self) -> Table:
        """Tabulate, per altered cell, its error over the original's: both recipes and the paper."""
        rows: list[tuple[Entry, ...]] = []
        for cell in self.of.cells:
            found = [self.ratio(cell.model, cell.target, recipe) for recipe in RECIPES]
            tried = [ratio.count > 0 or isinstance(ratio, Diverged) for ratio in found]
            if cell.target == ORIGINAL or not any(tried):
                continue
            paper = None if cell.paper is None else cell.paper / self.printed(cell.model, ORIGINAL)
            shown = [one.shown if has else None for one, has in zip(found, tried, strict=True)]
            rows.append((cell.model, f"{cell.target} / {ORIGINAL}", paper, *shown))
        columns = ("model", "ratio of errors", "the paper", "recipe paper", "recipe strong")
        note = "Geometric means of ratios paired by seed; 95 % intervals for two or more seeds."
        return Table(f"Contrasts of {self.of.title}", columns, tuple(rows), note)

    def _panel(self, model: str) -> Curves:
        """Draw the errors of a model's cells: both recipes, the paper's errors and the floors."""
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

    def _found(self, model: str, target: str, recipe: str) -> Fits:
        return self.fits.where(model=model, target=target, recipe=recipe)


def _by_recipe(of: Callable[[str, str, str], Interval], model: str, target: str) -> str:
    """List in words what was found for a cell with each recipe that was run."""
    found = [(recipe, of(model, target, recipe)) for recipe in RECIPES]
    parts = []
    for recipe, one in found:
        if one.count:
            seeds = f"{one.count} seed{'' if one.count == 1 else 's'}"
            parts.append(f"{one} with the recipe {recipe} ({seeds})")
        elif isinstance(one, Diverged):
            parts.append(f"unknown with the recipe {recipe}, because every fit diverged")
    return ", ".join(parts) or "not measured yet"
