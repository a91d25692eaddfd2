"""Sec. 5.1's targets as the experiments share them: settings, names, errors over seeds, claims."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnrate.experiments.claims import Claim, Verdict
from attnrate.experiments.experiment import Preset, Result, errors, select
from attnrate.figures.figure import Series, Style
from attnrate.statistics import Interval, geometric_mean, slope

#: The paper's r = ∞. The series diverges on the diagonal u = v for alpha <= 1, so that Eq. 8 has
#: no value there; a long finite sum stands for it.
LONG = 256
#: The strong recipe for these targets: SOAP learns them fastest with a larger step than its own,
#: and with small batches throughout
_STRONG = {"name": "strong", "batch": 32, "lr": 0.02}
#: What Fig. 1 is trained by; who uses the same can share its fits
RECIPES: Mapping[Preset, Mapping[str, Any]] = {
    "quick": {**_STRONG, "steps": 480},
    "paper": {**_STRONG, "steps": 1200},
}
#: Expected seconds of one step of Fig. 1's full model, and of a fit by these recipes
STEP = 0.014
SECONDS: Mapping[Preset, float] = {preset: STEP * r["steps"] for preset, r in RECIPES.items()}


@dataclass(frozen=True)
class Spectral:
    """σ_k = k^-alpha for k <= rank, with sines as bases."""

    alpha: float
    rank: int

    @property
    def settings(self) -> dict[str, Any]:
        """The target of a trial."""
        return {"kind": "spectral", "alpha": self.alpha, "rank": self.rank}

    @property
    def label(self) -> dict[str, Any]:
        """By what a result of this target is found again."""
        return {"alpha": self.alpha, "rank": self.rank}

    @property
    def name(self) -> str:
        """For titles and sentences."""
        return f"α = {self.alpha:g}, r = {rank_word(self.rank)}"

    @property
    def rate(self) -> float:
        """The exponent that the paper prints, 2 alpha - 1."""
        return 2 * self.alpha - 1

    def below(self, sizes: Iterable[int]) -> list[int]:
        """Those head sizes that do not hold the whole rank."""
        return [m_h for m_h in sizes if m_h < self.rank]


def rank_word(rank: int) -> str:
    """∞ for the long sum."""
    return "∞" if rank == LONG else str(rank)


def cell(results: Sequence[Result], **wanted: object) -> Interval:
    """The geometric mean of the errors with these labels, over seeds; nan if there are none."""
    return geometric_mean(errors(select(results, **wanted)))


def known(found: Interval) -> bool:
    """Whether the interval is of any values at all."""
    return found.count > 0 and math.isfinite(found.value)


def error_series(
    label: str,
    results: Sequence[Result],
    axis: str,
    sizes: Iterable[int],
    style: Style = "measured",
    group: str | None = None,
    **wanted: object,
) -> Series:
    """Errors over the sizes for which there are results, with intervals over seeds."""
    cells = [(size, cell(results, **{axis: size}, **wanted)) for size in sizes]
    return interval_series(label, {m: c for m, c in cells if known(c)}, style, group)


def interval_series(
    label: str, cells: Mapping[int, Interval], style: Style = "measured", group: str | None = None
) -> Series:
    """Values with intervals over sizes."""
    return Series(
        label,
        tuple(float(size) for size in cells),
        tuple(c.value for c in cells.values()),
        tuple(c.low for c in cells.values()),
        tuple(c.high for c in cells.values()),
        style,
        group,
    )


def error_slope(
    results: Sequence[Result], axis: str, sizes: Iterable[int], **wanted: object
) -> Interval:
    """The exponent of error ~ size^slope over all fits with these labels, every seed a point."""
    points = [
        (size, error)
        for size in sizes
        for error in errors(select(results, **{axis: size}, **wanted))
    ]
    return slope_of(points)


def slope_of(points: Sequence[tuple[int, float]], least: int = 2) -> Interval:
    """The exponent of y = c x^slope through the points; nothing for too few different x."""
    if len({x for x, _ in points}) < least:
        return slope([], [])
    return slope([float(x) for x, _ in points], [y for _, y in points])


def shown(found: Interval) -> str:
    """The interval in words; "not run" if there is nothing in it."""
    return str(found) if known(found) else "not run"


def seeds_word(results: Sequence[Result]) -> str:
    """How many seeds the results have."""
    count = len({one.label["seed"] for one in results if "seed" in one.label})
    return "one seed" if count == 1 else f"{count} seeds"


def claim_of(
    experiment: str,
    name: str,
    place: str,
    statement: str,
    verdict: Verdict,
    evidence: str,
    found: Interval | float | None = None,
    correction: str = "",
) -> Claim:
    """A claim of an experiment that a number decides, with its interval where it has one."""
    if not isinstance(found, Interval):
        found = Interval(math.nan if found is None else found, math.nan, math.nan, 1)
    full = f"{experiment}-{name}"
    return Claim(full, place, statement, experiment, verdict, evidence, *found.limits, correction)
