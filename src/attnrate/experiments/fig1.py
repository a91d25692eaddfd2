"""Fig. 1: the error against the head size m_h for couplings with a known spectrum.

The paper trains Eq. 5 (width 128, depth 3, n = m_v = 32) on targets with F = f = id and
ρ = Σ_{k <= r} k^-α 2 sin 2πku sin 2πkv, and finds errors that fall like m_h^-(2α-1) and vanish for
m_h >= r. Here four curves stand beside each other: the bound of Theorem 4.1 as printed and as
proved, the Transformer that the proof compiles, and trained ones, by the paper's recipe and by the
strong one, in the full model and with F and f held at the identity. r = ∞ is the sum of 256 terms,
because the series diverges on the diagonal for α <= 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attnrate.experiments.experiment import Conclusion, Experiment, Preset, Result, Task, other_work
from attnrate.experiments.fig1_claims import claims
from attnrate.experiments.fig1_drawn import figures, paragraphs, tables
from attnrate.experiments.fig1_work import coupling, gauge, theory
from attnrate.experiments.spectral import LONG, RECIPES, STEP, Spectral
from attnrate.fitting.trial import Trial

TARGETS = tuple(Spectral(alpha, rank) for alpha in (0.55, 1.0) for rank in (2, 6, LONG))
ALL = tuple(range(1, 17))
#: Head size at which the gauge is shown, for targets of rank 6
GAUGED = 3


@dataclass(frozen=True)
class Settings:
    """What is run: head sizes, steps and recipes of every curve, and the seeds of all.

    `full` has (target, head sizes, steps) of the full model, `coupling_sizes` the head sizes by
    rank with F = f = id, `adam_cells` what is also fitted by the paper's recipe. `long_cells` are
    fits of the full model by the strong recipe as it stands, with which the one used here is
    compared.
    """

    full: tuple[tuple[Spectral, tuple[int, ...], int], ...]
    recipe: Mapping[str, Any]
    seeds: tuple[int, ...]
    coupling_sizes: Mapping[int, tuple[int, ...]]
    coupling_recipe: Mapping[str, Any]
    adam_cells: tuple[tuple[Spectral, int], ...]
    adam_recipe: Mapping[str, Any]
    sequences: int
    long_cells: tuple[tuple[Spectral, int], ...] = ()
    #: expected seconds of a fit by coupling_recipe, adam_recipe, and of a long one
    seconds: tuple[float, float, float] = (1.0, 1.0, 1.0)


QUICK = Settings(
    full=(
        *((Spectral(alpha, 2), (1, 2), 400) for alpha in (0.55, 1.0)),
        (Spectral(0.55, 6), (1, 2, 4), 480),
        # the error beyond the rank takes its time to vanish
        (Spectral(1.0, 6), (2, 4, 6), 800),
        *((Spectral(alpha, LONG), (1, 2, 4, 16), 480) for alpha in (0.55, 1.0)),
    ),
    recipe=RECIPES["quick"],
    seeds=(0,),
    coupling_sizes={2: (1,), 6: (2, 4), LONG: (1, 2, 4, 8)},
    coupling_recipe={**RECIPES["quick"], "steps": 400},
    adam_cells=((Spectral(1.0, 6), 4), (Spectral(1.0, 6), 6), (Spectral(1.0, LONG), 4)),
    adam_recipe={"name": "paper", "steps": 600, "first_batch": 32, "batch": 32},
    sequences=1024,
    seconds=(4.0, 5.5, 55.0),
)
PAPER = Settings(
    full=tuple((target, ALL, RECIPES["paper"]["steps"]) for target in TARGETS),
    recipe=RECIPES["paper"],
    seeds=(0, 1, 2, 3, 4),
    coupling_sizes=dict.fromkeys((2, 6, LONG), ALL),
    coupling_recipe={**RECIPES["paper"], "steps": 600},
    adam_cells=tuple((target, m_h) for target in TARGETS for m_h in (1, 2, 4, 8, 16)),
    adam_recipe={"name": "paper", "steps": 4000, "first_batch": 32, "batch": 32},
    sequences=4096,
    long_cells=(
        # of rank 2 the error is gone after a thousand steps, of rank 6 it is not
        *((Spectral(alpha, 6), m_h) for alpha in (0.55, 1.0) for m_h in (4, 5, 6, 8)),
        *((Spectral(alpha, LONG), 8) for alpha in (0.55, 1.0)),
    ),
    seconds=(6.0, 37.0, 60.0),
)
SETTINGS: Mapping[Preset, Settings] = {"quick": QUICK, "paper": PAPER}


def tasks(preset: Preset) -> list[Task]:
    """Bounds and compiled errors of every target, then the fits."""
    chosen = SETTINGS[preset]
    return [*_theory_tasks(chosen), *_full_tasks(chosen), *_coupling_tasks(chosen)]


def _theory_tasks(chosen: Settings) -> list[Task]:
    found = [
        other_work(
            "fig1.theory",
            {**target.label, "m_h": ALL, "sequences": chosen.sequences},
            {"curve": "theory", **target.label},
            cost=chosen.sequences / (400 if target.rank == LONG else 4000),
        )
        for target in TARGETS
    ]
    return found + [
        other_work(
            "fig1.gauge",
            {**target.label, "m_h": GAUGED, "sequences": chosen.sequences},
            {"curve": "gauge", **target.label},
            cost=0.5,
        )
        for target in TARGETS
        if target.rank == 6
    ]


def _full_tasks(chosen: Settings) -> list[Task]:
    _, adam, long = chosen.seconds
    groups = [
        ("strong", target, m_h, {**chosen.recipe, "steps": steps}, STEP * steps)
        for target, sizes, steps in chosen.full
        for m_h in sizes
    ]
    groups += [
        ("paper", target, m_h, dict(chosen.adam_recipe), adam) for target, m_h in chosen.adam_cells
    ]
    groups += [("long", target, m_h, {"name": "strong"}, long) for target, m_h in chosen.long_cells]
    return [
        Task(
            Trial(target.settings, {"kind": "transformer", "m_h": m_h}, recipe, seed),
            {"curve": curve, **target.label, "m_h": m_h, "seed": seed},
            seconds,
        )
        for curve, target, m_h, recipe, seconds in groups
        for seed in chosen.seeds
    ]


def _coupling_tasks(chosen: Settings) -> list[Task]:
    return [
        other_work(
            "fig1.coupling",
            {**target.label, "m_h": m_h, "recipe": chosen.coupling_recipe},
            {"curve": "coupling", **target.label, "m_h": m_h, "seed": seed},
            seed,
            chosen.seconds[0],
        )
        for target in TARGETS
        for m_h in chosen.coupling_sizes[target.rank]
        for seed in chosen.seeds
    ]


def conclude(results: Sequence[Result]) -> Conclusion:
    """The four curves, their slopes, and what they say of Theorem 4.1 and Fig. 1."""
    return Conclusion(
        paragraphs(results, TARGETS),
        figures(results, TARGETS),
        tables(results, TARGETS),
        claims(results, TARGETS),
    )


WORK = {"theory": theory, "gauge": gauge, "coupling": coupling}
EXPERIMENT = Experiment(
    "fig1",
    "The error against the head size for known spectra",
    "Sec. 5.1, Fig. 1, Theorem 4.1",
    tasks,
    conclude,
)
