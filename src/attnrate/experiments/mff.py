"""The second term of Theorem 4.1: the error against m_ff, and how m_ff must grow with m_h.

The paper gives no figure of it, only the term C2(H, m_h) m_h^(β+1) / m_FF^β of Eq. 17 and the
sentence that the bound converges when m_h and m_FF^β / m_h^(β+1) both grow. Here the networks of
the compiled Transformer are piecewise-linear interpolants with m_ff pieces (β = 2, so -4 in mean
squared error), beside the bound's second term; and networks of small width are trained.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from attnrate.experiments.experiment import Conclusion, Experiment, Preset, Result, Task, other_work
from attnrate.experiments.mff_conclude import claims, figures, paragraphs, tables
from attnrate.experiments.spectral import LONG, RECIPES, SECONDS, Spectral
from attnrate.fitting.trial import Trial
from attnrate.targets import spectral_target
from attnrate.theory.bounds import best_split, jackson_bound
from attnrate.theory.compile import compile_target

#: Inputs of a seed that no fit uses
_SEED = 1 << 46
#: Steps of 2^(1/4) from 4 to 1024
UNITS = tuple(sorted({round(2 ** (k / 4)) for k in range(8, 41)}))
TARGETS = (Spectral(1.0, LONG), Spectral(0.55, LONG))
#: Rank and head size agree, so that the networks alone are to blame
TRAINED = (Spectral(1.0, 6), 6)
PARAMETERS = (100, 300, 1000, 3000, 10_000, 30_000)


@dataclass(frozen=True)
class Settings:
    """What is run: head sizes of the compiled, widths and recipe of the trained."""

    sizes: tuple[int, ...]
    sequences: int
    widths: tuple[int, ...]
    recipe: Mapping[str, Any]
    seeds: tuple[int, ...]
    seconds: float


QUICK = Settings(
    sizes=(1, 2, 4, 8, 16),
    sequences=512,
    widths=(8, 32),
    recipe=RECIPES["quick"],
    seeds=(0,),
    seconds=SECONDS["quick"],
)
PAPER = Settings(
    sizes=(1, 2, 3, 4, 6, 8, 11, 16),
    sequences=2048,
    widths=(4, 8, 16, 32, 64, 128),
    recipe=RECIPES["paper"],
    seeds=(0, 1, 2, 3, 4),
    seconds=SECONDS["paper"],
)
SETTINGS: Mapping[Preset, Settings] = {"quick": QUICK, "paper": PAPER}


def tasks(preset: Preset) -> list[Task]:
    """Compiled errors for every m_h and m_ff, the best splits of a budget, and the fits."""
    chosen = SETTINGS[preset]
    target, m_h = TRAINED
    compiled_tasks = [
        other_work(
            "mff.compiled",
            {**t.label, "m_h": size, "m_ff": UNITS, "sequences": chosen.sequences},
            {"curve": "compiled", **t.label, "m_h": size},
            cost=chosen.sequences / 300,
        )
        for t in TARGETS
        for size in chosen.sizes
    ]
    splits = [
        other_work(
            "mff.split",
            {**t.label, "parameters": PARAMETERS},
            {"curve": "split", **t.label},
            cost=1.0,
        )
        for t in TARGETS
    ]
    fits = [
        Task(
            Trial(
                target.settings,
                {"kind": "transformer", "m_h": m_h, "width": width},
                chosen.recipe,
                seed,
            ),
            {"curve": "trained", **target.label, "m_h": m_h, "width": width, "seed": seed},
            chosen.seconds,
        )
        for width in chosen.widths
        for seed in chosen.seeds
    ]
    return [*compiled_tasks, *splits, *fits]


def compiled(trial: Trial) -> dict[str, Any]:
    """Errors of the compiled Transformer for every m_ff, and the bound's second term.

    `total` is the distance from the target, `networks` that from the compiled Transformer of the
    same m_h with exact bases: what m_ff is to blame for.
    """
    given = trial.target
    target, m_h = spectral_target(given["alpha"], given["rank"]), given["m_h"]
    x = target.sample(given["sequences"], _SEED)
    parts = torch.split(x, 256)
    rows: dict[str, list[float]] = {"total": [], "networks": [], "rigorous": [], "printed": []}
    with torch.no_grad():
        truth = target(x)
        whole = torch.cat([compile_target(target, m_h)(part) for part in parts])
        for m_ff in given["m_ff"]:
            model = compile_target(target, m_h, m_ff)
            found = torch.cat([model(part) for part in parts])
            rows["total"].append(float((found - truth).square().mean()))
            rows["networks"].append(float((found - whole).square().mean()))
            rows["rigorous"].append(jackson_bound(target, m_h, m_ff, norm="mse").feedforward_term)
            rows["printed"].append(
                jackson_bound(
                    target, m_h, m_ff, form="printed", alpha=given["alpha"]
                ).feedforward_term
            )
    exact = float((whole - truth).square().mean())
    return {"m_ff": list(given["m_ff"]), "exact": exact, **rows}


def split(trial: Trial) -> dict[str, Any]:
    """How the rigorous bound would spend a number of parameters on m_h and m_ff."""
    given = trial.target
    target = spectral_target(given["alpha"], given["rank"])
    found = [best_split(target, count, "mse") for count in given["parameters"]]
    bounds = [math.sqrt(one.bound.value) for one in found]
    return {
        "parameters": list(given["parameters"]),
        "m_h": [one.m_h for one in found],
        "m_ff": [one.m_ff for one in found],
        "root_bound": bounds,
    }


def conclude(results: Sequence[Result]) -> Conclusion:
    """The slope in m_ff, the m_ff that every m_h needs, and what the bound makes of it."""
    return Conclusion(
        paragraphs(results, TARGETS),
        figures(results, TARGETS),
        tables(results, TARGETS),
        claims(results, TARGETS),
    )


WORK = {"compiled": compiled, "split": split}
EXPERIMENT = Experiment(
    "mff",
    "The error against the size of the feed-forward networks",
    "Theorem 4.1, second term of Eq. 17",
    tasks,
    conclude,
)
