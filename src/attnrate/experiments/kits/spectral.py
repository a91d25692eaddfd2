"""Sec. 5.1's targets as the experiments share them: recipes, names, errors over sizes and seeds."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch

from attnrate.experiments.contract import Preset, Work, select
from attnrate.experiments.kits.fits import Fits, errors
from attnrate.figures.figure import Curves, Series, Style
from attnrate.models import Transformer
from attnrate.statistics import Interval, geometric_mean, slope
from attnrate.targets import AttentionTarget, spectral_target

#: Settings of a recipe or a model
Settings = Mapping[str, float | int | str | bool | None]
#: The paper's r = ∞. The series diverges on the diagonal u = v for alpha <= 1, so that Eq. 8 has
#: no value there; a long finite sum stands for it.
LONG = 256


def strong(steps: int) -> Settings:
    """The strong recipe for these targets.

    SOAP learns them fastest with a larger step than its own, and with small batches throughout.
    """
    return {"name": "strong", "batch": 32, "lr": 0.02, "steps": steps}


#: Fig. 1's steps and recipe; who uses the same can share its fits
STEPS: Mapping[Preset, int] = {"quick": 480, "paper": 1200}
RECIPES: Mapping[Preset, Settings] = {preset: strong(steps) for preset, steps in STEPS.items()}
#: Expected seconds of one step of Fig. 1's full model, and of a fit by these recipes
STEP = 0.014
SECONDS: Mapping[Preset, float] = {preset: STEP * steps for preset, steps in STEPS.items()}
#: The error that all fits are judged by
MSE = "E mean_t |H_t - Ĥ_t|²"


@dataclass(frozen=True, order=True)
class Spectral:
    """σ_k = k^-alpha for k <= rank, with sines as bases."""

    alpha: float
    rank: int

    @property
    def settings(self) -> Settings:
        """The target of a trial."""
        return {"kind": "spectral", "alpha": self.alpha, "rank": self.rank}

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

    def build(self) -> AttentionTarget:
        """The target itself."""
        return spectral_target(self.alpha, self.rank)


@dataclass(frozen=True, kw_only=True)
class SpectralWork(Work):
    """Work on one spectral target."""

    alpha: float
    rank: int

    @property
    def target(self) -> Spectral:
        """The target that the work is on, by which its outcome is found."""
        return Spectral(self.alpha, self.rank)


def outputs(model: Transformer, x: torch.Tensor) -> torch.Tensor:
    """What the model makes of the sequences, computed in parts that fit into the cache."""
    with torch.no_grad():
        return torch.cat([model(part) for part in torch.split(x, 256)])


def rank_word(rank: int) -> str:
    """∞ for the long sum."""
    return "∞" if rank == LONG else str(rank)


def cell(fits: Fits, **wanted: object) -> Interval:
    """The geometric mean of the errors with these labels, over seeds; nan if there are none."""
    return geometric_mean(errors(select(fits, **wanted)))


def known(found: Interval) -> bool:
    """Whether the interval is of any values at all."""
    return found.count > 0 and math.isfinite(found.value)


def known_value(found: Interval) -> float | None:
    """The value for a cell of a table, None if the interval is of no values."""
    return found.value if known(found) else None


def shown(found: Interval) -> str:
    """The interval in words; "not run" if there is nothing in it."""
    return str(found) if known(found) else "not run"


def sizes_of(fits: Fits, axis: str) -> list[int]:
    """The different values of that field of the labels, in order."""
    return sorted({getattr(one.label, axis) for one in fits})


def points(fits: Fits, axis: str) -> list[tuple[int, float]]:
    """(size, error) of every fit that did not diverge, by size; every seed is a point."""
    return [
        (size, error)
        for size in sizes_of(fits, axis)
        for error in errors(select(fits, **{axis: size}))
    ]


def slope_of(found: Sequence[tuple[int, float]], least: int = 2) -> Interval:
    """The exponent of y = c x^slope through the points; nothing for too few different x."""
    if len({x for x, _ in found}) < least:
        return slope([], [])
    return slope([float(x) for x, _ in found], [y for _, y in found])


def error_series(label: str, fits: Fits, axis: str) -> Series:
    """Errors over the sizes that have any, with intervals over seeds."""
    means = {size: cell(fits, **{axis: size}) for size in sizes_of(fits, axis)}
    cells = {size: mean for size, mean in means.items() if known(mean)}
    return Series(
        label,
        tuple(float(size) for size in cells),
        tuple(c.value for c in cells.values()),
        tuple(c.low for c in cells.values()),
        tuple(c.high for c in cells.values()),
    )


def line(label: str, values: Mapping[int, float], style: Style = "measured") -> Series:
    """Values over sizes, without intervals."""
    return Series(label, tuple(map(float, values)), tuple(values.values()), style=style)


def error_panel(title: str, axis: str, series: Iterable[Series]) -> Curves:
    """A panel of errors over sizes, both in logarithms."""
    return Curves(title, axis, f"error {MSE}", tuple(series), "log", "log")


def seeds_word(fits: Fits) -> str:
    """How many seeds the fits have."""
    count = len({one.label.seed for one in fits})
    return "one seed" if count == 1 else f"{count} seeds"


def steps_word(fits: Fits) -> str:
    """How many steps the fits took, after a comma; nothing where none is known."""
    steps = [one.outcome.steps for one in fits if one.outcome.steps]
    if not steps:
        return ""
    few, many = min(steps), max(steps)
    return f", {many:,} steps" if few == many else f", {few:,} to {many:,} steps"
