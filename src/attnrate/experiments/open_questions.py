"""What the paper leaves open: heads, layers, residuals, layer norm, at equal parameters.

The theory speaks of one layer with one head, "layer normalization and residual connections are not
taken into account" (Sec. 3), and names heads and depth as future work (Sec. 7). Here Fig. 1's
targets are learned with each of them. Heads share the total head size and the value size; where a
variant would have more parameters than the baseline the width of its networks is reduced. The
baseline's fits are Fig. 1's own.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from attnrate.experiments.experiment import Conclusion, Experiment, Preset, Result, Task
from attnrate.experiments.open_conclude import claims, figures, paragraphs, tables
from attnrate.experiments.open_variants import BASELINE, VARIANTS, Variant
from attnrate.experiments.spectral import LONG, RECIPES, SECONDS, Spectral
from attnrate.fitting.trial import Trial
from attnrate.models import Transformer

#: The width of Fig. 1's networks
WIDTH = 128


@dataclass(frozen=True)
class Settings:
    """What is run: targets with their total head sizes, variants, recipe, seeds."""

    cells: tuple[tuple[Spectral, int], ...]
    variants: tuple[str, ...]
    recipe: Mapping[str, Any]
    seeds: tuple[int, ...]
    seconds: float


QUICK = Settings(
    cells=tuple((Spectral(1.0, LONG), size) for size in (4, 16)),
    variants=(BASELINE, "4 heads", "2 layers, residual", "layer norm", "1/√m_h"),
    recipe=RECIPES["quick"],
    seeds=(0,),
    seconds=SECONDS["quick"],
)
PAPER = Settings(
    # of rank 6 the error depends on the head size; of r = ∞ it is that of the networks from 4 on
    cells=(
        *((Spectral(alpha, 6), size) for alpha in (1.0, 0.55) for size in (4, 8)),
        *((Spectral(1.0, LONG), size) for size in (4, 16)),
    ),
    variants=tuple(VARIANTS),
    recipe=RECIPES["paper"],
    seeds=(0, 1, 2),
    seconds=SECONDS["paper"],
)
SETTINGS: Mapping[Preset, Settings] = {"quick": QUICK, "paper": PAPER}


def tasks(preset: Preset) -> list[Task]:
    """Every variant on every target and total head size."""
    chosen = SETTINGS[preset]
    return [
        Task(
            Trial(target.settings, model_settings(VARIANTS[name], size), chosen.recipe, seed),
            {"variant": name, **target.label, "size": size, "seed": seed},
            chosen.seconds * VARIANTS[name].cost,
        )
        for target, size in chosen.cells
        for name in chosen.variants
        for seed in chosen.seeds
    ]


def model_settings(variant: Variant, size: int) -> dict[str, Any]:
    """A variant's model for a total head size, of the width that gives it the same parameters."""
    settings = variant.model(size)
    width = equal_width(tuple(sorted(settings.items())), size)
    return {"kind": "transformer", **settings} | ({} if width == WIDTH else {"width": width})


@lru_cache
def equal_width(settings: tuple[tuple[str, Any], ...], size: int) -> int:
    """The width with which a model has nearest to as many parameters as the baseline."""
    wanted = parameters(VARIANTS[BASELINE].model(size), WIDTH)
    widths = range(16, WIDTH + 1)
    above = bisect_left(widths, wanted, key=lambda width: parameters(dict(settings), width))
    near = widths[max(0, above - 1) : above + 1]
    return min(near, key=lambda width: abs(parameters(dict(settings), width) - wanted))


def parameters(settings: Mapping[str, Any], width: int) -> int:
    """Trainable numbers of the model; nothing is allocated and no random number drawn."""
    with torch.device("meta"):
        return Transformer(1, 1, **settings, width=width).parameter_count()


def conclude(results: Sequence[Result]) -> Conclusion:
    """The error of every variant beside the baseline's."""
    return Conclusion(paragraphs(results), figures(results), tables(results), claims(results))


WORK: dict[str, Any] = {}
EXPERIMENT = Experiment(
    "open-questions",
    "Heads, layers, residuals, layer norm and scale at equal parameters",
    "Sec. 3, Sec. 7",
    tasks,
    conclude,
)
