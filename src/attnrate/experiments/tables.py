"""What Tables 2 and 3 share: cells of a model and a target, fitted by both recipes, and ratios.

Errors lie over decades, so means over seeds are geometric; the arithmetic mean and the extremes
stand beside them. A contrast is the ratio of two cells, paired by seed: both fits of a pair begin
with the same weights and see the same inputs.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnrate.experiments.claims import Verdict
from attnrate.experiments.experiment import Result, Task, errors_by_seed, paired, select
from attnrate.figures.figure import Cell as Entry
from attnrate.figures.figure import Curves, Figure, Line, Series, Table
from attnrate.fitting.build import build_target
from attnrate.fitting.trial import Trial
from attnrate.statistics import Interval, geometric_mean, mean
from attnrate.targets import LinearTarget

LENGTH = 32
#: App. C: a vanilla RNN with linear activation, and Eq. 5 with a position encoding
MODELS: Mapping[str, Mapping[str, Any]] = {
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
#: An altered target is worse when its error is so many times the original's; with one seed, and
#: so without an interval, it takes a ratio that no spread over seeds explains
MATTERS, MATTERS_ALONE = 3.0, 100.0
_ROUNDING = 1e-20  # a floor below it is zero but for rounding
#: How `hurts` and `harmless` correct a statement
CORRECTED = (
    "The errors differ by that ratio, but all of them, altered too, are at or below the paper's "
    "error without the change."
)


@dataclass(frozen=True)
class Cell:
    """One number of a table: a model on a target, and the paper's error where it has one."""

    model: str
    target: str
    paper: float | None = None


@dataclass(frozen=True)
class Way:
    """How a model is fitted by a recipe: its changes, seconds on one core, and how many seeds."""

    changes: Mapping[str, Any]
    cost: float
    seeds: int


Ways = Mapping[tuple[str, str], Way]
#: The linear RNN is fitted in the same ways for both tables
RNN_QUICK: Ways = {
    ("RNN", "strong"): Way({"lr": 0.01, "steps": 600, "batch": 32}, 3.5, 2),
    ("RNN", "paper"): Way({"steps": 1000, "batch": 32, "first_batch": 32}, 2.5, 2),
}
RNN_PAPER: Ways = {
    ("RNN", "strong"): Way({"lr": 0.01}, 15.0, 5),
    ("RNN", "paper"): Way({"steps": 10_000}, 25.0, 5),
}


def fit_tasks(
    cells: Sequence[Cell], targets: Mapping[str, Mapping[str, Any]], ways: Ways
) -> list[Task]:
    """A fit for every cell, recipe and seed."""
    return [
        Task(
            Trial(
                targets[cell.target],
                MODELS[cell.model],
                {"name": recipe, **ways[cell.model, recipe].changes},
                seed,
            ),
            {"model": cell.model, "target": cell.target, "recipe": recipe, "seed": seed},
            ways[cell.model, recipe].cost,
        )
        for cell in cells
        for recipe in RECIPES
        for seed in range(ways[cell.model, recipe].seeds)
    ]


def by_seed(results: Sequence[Result], model: str, target: str, recipe: str) -> dict[int, float]:
    """The errors of a cell by seed, without the fits that diverged."""
    return errors_by_seed(select(results, model=model, target=target, recipe=recipe))


def error_of_cell(results: Sequence[Result], cell: Cell, recipe: str) -> Interval:
    """The geometric mean over seeds."""
    return geometric_mean(list(by_seed(results, cell.model, cell.target, recipe).values()))


def contrast(
    results: Sequence[Result], model: str, altered: str, original: str, recipe: str
) -> Interval:
    """The error on the altered target over that on the original: geometric mean over seeds."""
    above, below = (
        select(results, model=model, target=target, recipe=recipe) for target in (altered, original)
    )
    return geometric_mean(paired(above, below, "seed"))


def exact_floor(target: Mapping[str, Any], model: str) -> float | None:
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
    """Verdict on "this alteration does not hurt", by the same measure as `hurts`.

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
    """How `strong` stands to the paper's error, in words."""
    if cell.paper is None:
        return "not in the paper"
    if floor is not None and floor > cell.paper:
        return "a floor forbids the paper's"
    if strong.count == 0:
        return "not run yet"
    return "at or below the paper's" if strong.value <= cell.paper else "above the paper's"


def cells_table(
    title: str,
    results: Sequence[Result],
    cells: Sequence[Cell],
    targets: Mapping[str, Mapping[str, Any]],
    note: str,
) -> Table:
    """A row for each cell and recipe: means, interval, spread, the paper's value, the floor."""
    rows: list[tuple[Entry, ...]] = []
    for cell in cells:
        floor = exact_floor(targets[cell.target], cell.model)
        for recipe in RECIPES:
            errors = list(by_seed(results, cell.model, cell.target, recipe).values())
            if not errors:
                continue
            found = geometric_mean(errors)
            rows.append(
                (
                    cell.model,
                    cell.target,
                    recipe,
                    found.count,
                    found.value,
                    found.low,
                    found.high,
                    mean(errors).value,
                    min(errors),
                    max(errors),
                    cell.paper,
                    floor,
                    standing(cell, found, floor) if recipe == "strong" else "",
                )
            )
    columns = ("model", "target", "recipe", "seeds", "geometric mean", "low", "high", "mean")
    more = ("least", "largest", "the paper", "exact floor", "strong and the paper")
    return Table(title, columns + more, _shown(rows), note)


def contrasts_table(
    title: str,
    results: Sequence[Result],
    cells: Sequence[Cell],
    pairs: Sequence[tuple[str, str, str]],
) -> Table:
    """A row for each (model, altered, original): the ratio by both recipes and in the paper."""
    printed = {(cell.model, cell.target): cell.paper for cell in cells}
    rows: list[tuple[Entry, ...]] = []
    for model, altered, original in pairs:
        found = [contrast(results, model, altered, original, recipe) for recipe in RECIPES]
        if all(ratio.count == 0 for ratio in found):
            continue
        above, below = printed.get((model, altered)), printed.get((model, original))
        paper = above / below if above is not None and below is not None else None
        told = [str(ratio) if ratio.count else None for ratio in found]
        rows.append((model, f"{altered} / {original}", paper, *told))
    columns = ("model", "ratio of errors", "the paper", "recipe paper", "recipe strong")
    note = "Geometric mean of ratios paired by seed, with 95 % interval where there are two."
    return Table(title, columns, tuple(rows), note)


def cells_figure(
    name: str,
    title: str,
    caption: str,
    results: Sequence[Result],
    cells: Sequence[Cell],
    targets: Mapping[str, Mapping[str, Any]],
) -> Figure:
    """The errors of the cells of each model by both recipes, the paper's, and the floors."""
    panels = []
    for model in MODELS:
        mine = [cell for cell in cells if cell.model == model]
        places = tuple(float(i) for i in range(len(mine)))
        series = []
        for recipe in RECIPES:
            found = [error_of_cell(results, cell, recipe) for cell in mine]
            if any(one.count for one in found):
                series.append(
                    Series(
                        f"recipe {recipe}",
                        places,
                        tuple(one.value for one in found),
                        tuple(one.low for one in found),
                        tuple(one.high for one in found),
                    )
                )
        paper = tuple(math.nan if cell.paper is None else cell.paper for cell in mine)
        series.append(Series("the paper", places, paper, style="paper"))
        floors = {cell.target: exact_floor(targets[cell.target], model) for cell in mine}
        panels.append(
            Curves(
                model,
                "target",
                "mean squared error",
                tuple(series),
                y_scale="log",
                lines=tuple(Line(f"floor, {name}", y=y) for name, y in floors.items() if y),
                ticks=tuple(cell.target for cell in mine),
            )
        )
    return Figure(name, title, caption, tuple(panels))


def seeds(count: int) -> str:
    """A number of seeds in words."""
    return f"{count} seed" + ("s" if count != 1 else "")


def printed(cells: Sequence[Cell], model: str, target: str) -> float:
    """The paper's error of a cell."""
    return next(c.paper or math.nan for c in cells if (c.model, c.target) == (model, target))


def ratio_sentence(
    results: Sequence[Result], cells: Sequence[Cell], model: str, altered: str
) -> str:
    """The error on an altered target over that on the original, by both recipes and printed."""
    told = []
    for recipe in RECIPES:
        found = contrast(results, model, altered, "original", recipe)
        if found.count:
            told.append(f"{found} by the recipe {recipe} ({seeds(found.count)})")
    said = ", ".join(told) if told else "not measured yet"
    paper = printed(cells, model, altered) / printed(cells, model, "original")
    return f"The error {altered} over the error without is {said}; in the paper {paper:.3g}."


def reached_sentence(
    results: Sequence[Result], cells: Sequence[Cell], targets: Mapping[str, Mapping[str, Any]]
) -> str:
    """In how many of the paper's cells `strong` is at or below the paper's error, and which not."""
    below, told = 0, []
    printed = [cell for cell in cells if cell.paper is not None]
    for cell in printed:
        floor = exact_floor(targets[cell.target], cell.model)
        strong = error_of_cell(results, cell, "strong")
        state = standing(cell, strong, floor)
        if state == "at or below the paper's":
            below += 1
        elif state == "a floor forbids the paper's":
            told.append(
                f"for the {cell.model}, {cell.target}, no linear RNN can have the paper's "
                f"{cell.paper:.3g}: the exact floor is {floor:.4g}"
                + (f", and strong has {strong}" if strong.count else "")
            )
        elif state == "not run yet":
            told.append(f"{cell.model}, {cell.target}, has not been run yet")
        else:
            told.append(
                f"{cell.model}, {cell.target}, stays above it: {strong} against {cell.paper:.3g}"
            )
    said = f"The strong recipe is at or below the paper's error in {below} of {len(printed)} cells"
    return said + (": " + "; ".join(told) if told else "") + "."


def _shown(rows: Sequence[tuple[Entry, ...]]) -> tuple[tuple[Entry, ...], ...]:
    """Cells without a number, such as an interval of one seed, are left empty."""
    return tuple(
        tuple(None if isinstance(e, float) and math.isnan(e) else e for e in row) for row in rows
    )
