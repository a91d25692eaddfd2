"""Head sizes: the error at the advised size with fresh seeds, beside that of the largest."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from _choose_real import FRESH, SMALL, Budget, Task, beside, samples_of
from _choose_truths import Set, outside, within
from attnrate.choose.comparing import errors_of
from attnrate.choose.contender import contender
from attnrate.choose.heads import heads
from attnrate.choose.jobs import Place, run_jobs
from attnrate.choose.planning import Course
from attnrate.choose.race import race_jobs
from attnrate.choose.samples import Samples
from attnrate.choose.verdict import ATTENTION

#: The advised size has at most this many times the error of the largest
CLOSE = 1.1
#: Fits of drawn sets: attention, and mixed channels, which need more steps than a real series
DRAWN = Budget(steps=600)
FEW = replace(SMALL, steps=10)
#: The first seed of the drawn sets: 0 to 4 are those by which the rule was made
_FIRST, _SETS = 5, 6
#: What the fits have less of than those of `choose` by default
REDUCED = (
    "The fits of drawn sets have 600 steps, those of real series 100, all of them a batch of 32 "
    "and 2 folds with 3 seeds; the five minutes of choose allow more than 1,000 steps, a batch of "
    "64 and 3 folds. The 5 fresh seeds have as many steps."
)


@dataclass(frozen=True)
class Tried:
    """Samples whose heads are tried.

    Attributes:
        name: What they are called.
        kind: Whether they are "drawn" or "real".
        samples: The samples.
        contender: The contender whose heads are tried.
        budget: The budget of the fits.
        store: The store of the fits.

    """

    name: str
    kind: str
    samples: Samples
    contender: str
    budget: Budget
    store: Path


def drawn_sets(quick: bool, stores: Path) -> Iterator[Tried]:
    """Outputs of attention over 16 tokens, with ranks from 1 to 5, plain and mixed."""
    for seed in range(_FIRST, _FIRST + (1 if quick else _SETS)):
        for kind in ("attention", "mixed"):
            one = Set(kind, seed, count=200 if quick else 2000, noise=(0.1, 0.5)[seed % 2])
            samples = (within if kind == "attention" else outside)(one)
            budget = FEW if quick else DRAWN
            name = f"{kind}, seed {seed}, noise {one.noise}"
            store = stores / f"{kind}-{seed}.sqlite"
            yield Tried(name, "drawn", samples, "transformer", budget, store)


def real_sets(tasks: list[Task], rows: list[dict[str, Any]], stores: Path) -> Iterator[Tried]:
    """The real series where the quick answer has a Transformer among those as good as the best."""
    for task, row in zip(tasks, rows, strict=False):
        names = [name for name in ATTENTION if row["raced"] and name in row["tied"]]
        if names:
            budget = Budget(**row["budget"])
            store = stores / f"{task.series}.sqlite"
            yield Tried(task.name, "real", samples_of(task, budget), names[0], budget, store)


def try_heads(one: Tried, workers: int) -> dict[str, Any]:
    """Ask for advice, then fit the advised and the largest size with fresh seeds."""
    budget, samples, name = one.budget, one.samples, one.contender
    course = Course(budget.steps, budget.seeds, budget.folds, batch=budget.batch)
    place = Place(store=one.store, workers=workers, progress=False)
    found = heads(samples, course, place, name)
    largest, advised = contender(name).m_h, found.advised
    row: dict[str, Any] = {
        **{"set": one.name, "kind": one.kind, "contender": name, "budget": asdict(budget)},
        **{"advised": advised, "largest": largest},
        "ratios": {str(size.m_h): [size.ratio, size.ratio_high] for size in found.sizes},
    }
    if advised is None:
        return row
    asked = race_jobs(samples, replace(course, seeds=budget.long_seeds, seed=FRESH), [name])
    jobs = [replace(job, m_h=m_h) for m_h in sorted({advised, largest or 1}) for job in asked]
    ran = run_jobs(samples, jobs, place)
    if ran.failures:
        raise RuntimeError(f"{one.name}: {ran.failures}")
    each = {m_h: [row for row in ran.rows if row.job.m_h == m_h] for m_h in (advised, largest)}
    ratio, low, high = beside(each[advised], each[largest])
    whole = errors_of(each[largest])
    truth = samples.truth(np.arange(samples.count))
    variance = float(np.square(truth - truth.mean((0, 1))).sum(-1).mean())
    share = None if whole is None else whole.mean / variance
    return {**row, "ratio": ratio, "low": low, "high": high, "share": share}


def of_heads(rows: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, bool]]:
    """How often the advised size is close to the largest; one without advice counts as not."""
    close = sum(row.get("ratio", float("inf")) <= CLOSE for row in rows)
    smaller = sum(row["advised"] is not None and row["advised"] < row["largest"] for row in rows)
    return {"reduced": REDUCED, "rows": rows, "smaller": smaller}, {
        f"at most 1.1 times the error of the largest in 90 %: {close} of {len(rows)}, of which "
        f"{smaller} advised less than the largest": close >= 0.9 * len(rows)
    }
