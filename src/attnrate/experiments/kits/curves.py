"""Curves of the error over the head size: exponents, ratios, and what is left beyond the rank.

Errors are compared in logarithms, cell by cell (target, m_h, seed); slopes are fitted only where
m_h < r.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from attnrate.experiments.contract import select
from attnrate.experiments.kits.compiled import Gauges, Row
from attnrate.experiments.kits.fits import Fits, errors, paired
from attnrate.experiments.kits.logits import Couplings
from attnrate.experiments.kits.power_law import PowerLaw, fit_power_law
from attnrate.experiments.kits.spectral import (
    MSE,
    Spectral,
    cell,
    known,
    known_value,
    points,
    sizes_of,
    slope_of,
)
from attnrate.figures.figure import Cell, Table
from attnrate.statistics import Interval, geometric_mean

#: The curves of trained Transformers, as figures and tables name them
LEGEND = {
    "strong": "trained, strong recipe",
    "long": "trained longer",
    "paper": "trained, paper's recipe (Adam)",
    "coupling": "trained, F = f = id",
}
#: Of the table of errors; the figure has them all
_ROWS = (1, 2, 3, 4, 6, 8, 12, 16)
#: What two fits have in common when they are compared
CELL = ("target", "m_h", "seed")


@dataclass(frozen=True)
class Runs:
    """What is finished: theory by target, and fits whose labels have curve, target, m_h, seed.

    A curve is "compiled", of the theory, or that of fits; "coupling" are those with F = f = id,
    which stand in `couplings` and in `trained`.
    """

    theory: Mapping[Spectral, Mapping[int, Row]]
    gauges: Gauges
    couplings: Couplings
    trained: Fits

    def of(self, target: Spectral, curve: str) -> Fits:
        """The fits of a target that belong to a curve."""
        return select(self.trained, target=target, curve=curve)

    def rows(self, target: Spectral) -> Mapping[int, Row]:
        """Bounds and compiled errors of a target by head size."""
        return self.theory.get(target, {})

    def rows_below(self, target: Spectral) -> dict[int, Row]:
        """Bounds and compiled errors of a target by head size, where m_h < r."""
        return {m_h: row for m_h, row in self.rows(target).items() if m_h < target.rank}

    def compiled_beyond(self, targets: Iterable[Spectral]) -> list[float]:
        """The compiled errors of all cells with m_h >= r."""
        return [r.mse for t in targets for m_h, r in self.rows(t).items() if m_h >= t.rank]

    def points(self, target: Spectral, curve: str) -> list[tuple[int, float]]:
        """(m_h, error) of every fit of a curve with m_h < r, or of the compiled ones."""
        if curve == "compiled":
            return [(m_h, row.mse) for m_h, row in self.rows_below(target).items()]
        found = points(self.of(target, curve), "m_h")
        return [(m_h, error) for m_h, error in found if m_h < target.rank]

    def slope(self, target: Spectral, curve: str) -> Interval:
        """The exponent of a curve below the rank; nothing for fewer than three head sizes."""
        return slope_of(self.points(target, curve), 3)

    def slope_l1(self, target: Spectral) -> Interval:
        """The exponent of the compiled error below the rank, in the norm of the theorem."""
        return slope_of([(m_h, row.l1) for m_h, row in self.rows_below(target).items()], 3)

    def law(self, target: Spectral, curve: str) -> PowerLaw | None:
        """The paper's form, a power plus a constant, with the power free; None for few points."""
        found = self.points(target, curve)
        return fit_power_law([m_h for m_h, _ in found], [e for _, e in found], relative=True)

    def ratios(self, above: str, below: str, **wanted: object) -> list[float]:
        """error(above) / error(below) for every cell in which both curves have a fit."""
        one, two = (select(self.trained, curve=curve, **wanted) for curve in (above, below))
        return paired(one, two, *CELL)

    def gains(self, targets: Iterable[Spectral]) -> list[float]:
        """Compiled error / error with F = f = id of every fit with m_h < r."""
        return [
            self.rows(target)[m_h].mse / error
            for target in targets
            for m_h, error in self.points(target, "coupling")
            if m_h in self.rows(target)
        ]

    def fallen(self, target: Spectral, curve: str) -> float:
        """error(the largest m_h < r) / error(the least m_h); nan for fewer than two head sizes."""
        found = self.points(target, curve)
        sizes = {m_h for m_h, _ in found}
        if len(sizes) < 2:
            return math.nan
        first, last = (
            geometric_mean([e for m, e in found if m == end]) for end in (min(sizes), max(sizes))
        )
        return last.value / first.value

    def beyond(self, target: Spectral, curve: str) -> Interval:
        """error(m_h >= r) / error(the largest m_h < r), by the geometric means of a curve."""
        found = self.of(target, curve)
        sizes = sizes_of(found, "m_h")
        before = target.below(sizes)
        if not before or len(before) == len(sizes):
            return geometric_mean([])
        last = cell(found, m_h=before[-1]).value
        after = [e for m in sizes if m >= target.rank for e in errors(select(found, m_h=m))]
        return geometric_mean([error / last for error in after])


def slope_table(runs: Runs, targets: Iterable[Spectral]) -> Table:
    """The fitted exponents of every curve beside those of the singular values."""
    rows: list[tuple[Cell, ...]] = []
    for target in targets:
        found = [
            (word, runs.slope(target, curve), -target.rate, "mean squared")
            for curve, word in {"compiled": "compiled", **LEGEND}.items()
        ]
        found.append(("compiled", runs.slope_l1(target), -target.rate / 2, "L1"))
        rows += [
            (target.name, word, str(fitted), stated, norm)
            for word, fitted, stated, norm in found
            if known(fitted)
        ]
    return Table(
        "Exponents of the error in m_h, fitted where m_h < r",
        ("target", "curve", "fitted [95 %]", "of the singular values", "norm"),
        tuple(rows),
        "The exponent of the singular values is -(2α-1) for the mean squared error and -(α-1/2) "
        "for L1, where the paper prints -(2α-1). Every fit is a point of the regression; for "
        "finite r no power law is expected, the error falls to zero at r.",
    )


def error_table(runs: Runs, targets: Iterable[Spectral]) -> Table:
    """Bounds and errors of every curve, a row a target and head size."""
    rows: list[tuple[Cell, ...]] = []
    for target in targets:
        for m_h in _ROWS:
            row = runs.rows(target).get(m_h)
            sides = (row.printed, row.rigorous, row.mse) if row else (None, None, None)
            fits = [known_value(cell(runs.of(target, curve), m_h=m_h)) for curve in LEGEND]
            if row or any(value is not None for value in fits):
                rows.append((target.name, m_h, *sides, *fits))
    return Table(
        f"Errors {MSE}",
        ("target", "m_h", "printed bound", "rigorous bound", "compiled", *LEGEND.values()),
        tuple(rows),
        "Geometric means over seeds. For m_h >= r the rigorous bound is that of float64.",
    )
