"""Real series: the quick answer of `choose` beside a race of ten times the steps with more seeds.

The budget is smaller than that of `choose` by default, so that all of it fits into some hours of
one core: `Budget` says what was made smaller, and every row of the result holds it.
"""

import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import _report
import attnrate as ar
from attnrate.choose.comparing import errors_of, paired
from attnrate.choose.data import from_frame
from attnrate.choose.jobs import Place, Row, by_contender, run_jobs
from attnrate.choose.ladder import Ladder, ladder
from attnrate.choose.on_folds import rung_rows
from attnrate.choose.outliers import bounds_of, drawn_in
from attnrate.choose.planning import Course
from attnrate.choose.race import Race, least_squares_of, race_jobs, race_of
from attnrate.choose.rungs import Class
from attnrate.choose.samples import Samples
from attnrate.choose.verdict import Conclusion, by_ladder, by_race, promising
from attnrate.data.series_table import SERIES

#: Series that are left out: the shortest, and two of which missing hours or values leave little
LEFT_OUT = ("victoria-demand", "traffic-volume", "nyc-weather")
#: A winner has surely less error than every other, and less than this many times
SEPARATED = 0.99
#: What is taken is clearly worse than the best if its error is surely more than this many times
WORSE = 1.10
#: Classes of the ladder that the linear map of a race stands for
LINEAR: tuple[Class, ...] = ("memoryless linear", "filter", "causal", "linear")
#: The first seed of the long race, and of other fits that must not be those of the quick one
FRESH = 100
#: What both races have less of than those of `choose` by default
REDUCED = (
    "The quick answer has 100 steps a fit, the fewest that choose plans; its five minutes allow "
    "about 1,400 for these windows. It has a batch of 32 instead of 64, 2 folds instead of 3, a "
    "window of 24 rows, and the last 8,000 rows of a series. The long race has ten times the "
    "steps, fewer than choose has by default, on the same samples "
    "and folds, with 5 other seeds."
)
_AHEAD = 8  # the second horizon of a series whose own horizon is 1


@dataclass(frozen=True)
class Budget:
    """What the races of a benchmark may cost; the default of `choose` is in brackets.

    Attributes:
        rows: The last rows of a series that are used (all).
        window: The rows of a window (two days or more of hourly rows).
        batch: The number of samples in a step (64).
        folds: The number of folds (3).
        steps: The steps of a fit of the quick answer (as many as five minutes allow).
        seeds: Its seeds (3).
        times: How many times as many steps the long race has.
        long_seeds: The seeds of the long race.

    """

    rows: int = 8000
    window: int = 24
    batch: int = 32
    folds: int = 2
    steps: int = 100
    seeds: int = 3
    times: int = 10
    long_seeds: int = 5

    @property
    def quick(self) -> Course:
        """How much the race of the quick answer trains."""
        return Course(self.steps, self.seeds, self.folds, batch=self.batch)

    @property
    def long(self) -> Course:
        """How much the long race trains, with other seeds."""
        steps = self.times * self.steps
        return Course(steps, self.long_seeds, self.folds, seed=FRESH, batch=self.batch)


#: The budget of --quick
SMALL = Budget(rows=1500, window=8, steps=20, seeds=1, times=3, long_seeds=2)


@dataclass(frozen=True)
class Task:
    """A series, what is wanted of it, and how its frame is got."""

    series: str
    target: str
    horizon: int
    frame: Callable[[], pd.DataFrame]

    @property
    def name(self) -> str:
        return f"{self.series}, {self.horizon} ahead"


def real_tasks() -> list[Task]:
    """Twelve series at the horizon that suits each, then the same series at another one."""
    kept = [one for name, one in SERIES.items() if name not in LEFT_OUT]

    def read(name: str) -> Callable[[], pd.DataFrame]:
        return lambda: pd.read_csv(ar.sample_series(name))

    own = [Task(one.name, one.target, one.horizon, read(one.name)) for one in kept]
    return [*own, *(replace(one, horizon=1 if one.horizon > 1 else _AHEAD) for one in own)]


def drawn_tasks() -> list[Task]:
    """Two drawn series, so that --quick fetches nothing: a linear law, and a product."""

    def frame(curved: bool) -> pd.DataFrame:
        drawn = np.random.default_rng(0)
        x, noise = drawn.normal(size=(2, 1500))
        y = np.roll(x, 1) + (2 * np.roll(x, 1) * np.roll(x, 2) if curved else 0.0) + 0.3 * noise
        return pd.DataFrame({"x": x, "y": y})

    return [Task(f"drawn-{bool(c)}", "y", 1, lambda c=c: frame(bool(c))) for c in (0, 1)]


def samples_of(task: Task, budget: Budget) -> Samples:
    """The samples as `choose` makes them, of the last rows; the first of rows of one time stays."""
    frame = task.frame()
    if "time" in frame:
        frame = frame.drop_duplicates("time")
    made = from_frame(frame.tail(budget.rows), task.target, task.horizon, budget.window)
    if made.faults:
        raise ValueError(f"{task.name}: {made.faults}")
    return drawn_in(made.samples, bounds_of(made.samples))[0]


@dataclass(frozen=True)
class Answer:
    """What `choose` answers by its ladder and, where it is due, by its race.

    Attributes:
        said: The verdict with its reasons.
        raced: Whether a race was due.
        taken: What it takes, a class of the ladder or a contender; "" if it cannot tell.
        tied: What is as good by it.

    """

    said: Conclusion
    raced: bool
    taken: str
    tied: tuple[str, ...]


def answer_of(found: Ladder, ran: Race) -> Answer:
    """Decide as `choose` does; a race that is not due is not looked at."""
    said = by_ladder(found)
    if said.enough is None or not promising(found, said.enough):
        return Answer(said, False, said.enough or "", (said.enough,) if said.enough else ())
    enough, said = said.enough, by_race(said, ran, None)
    if said.verdict == "cannot-tell":
        return Answer(said, True, "", ())
    if ran.solved or said.verdict in ("nothing", "memoryless") or ran.cheapest is None:
        return Answer(said, True, enough, (enough, *ran.tied))
    return Answer(said, True, ran.cheapest.name, ran.tied)


def contender_of(name: str) -> str:
    """The contender that stands for what was taken: the linear map for classes of linear maps."""
    return "linear" if name in LINEAR else name


def separated(ran: Race) -> bool:
    """Whether the best of a race has surely less error than every other, by 1 % and more."""
    return all(
        not each.mse.known or (each.difference.low > 0 and each.ratio * SEPARATED > 1)
        for each in ran.racers[1:]
    )


def beside(rows: list[Row], best: list[Row]) -> tuple[float, float, float]:
    """The error as a multiple of that of the best, with its 95 % interval."""
    apart, least = paired(rows, best), errors_of(best)
    if apart is None or least is None:
        return math.inf, math.inf, math.inf
    found = apart.interval()
    ratio, low, high = (1 + each / least.mean for each in (found.value, found.low, found.high))
    return ratio, low, high


def run_task(task: Task, budget: Budget, store: Path, workers: int = 1) -> dict[str, Any]:
    """Run both races of a task, as far as its store does not have them, and compare."""
    samples = samples_of(task, budget)
    quick, long = (race_jobs(samples, course) for course in (budget.quick, budget.long))
    # in one sweep, whose workers are begun once
    ran = run_jobs(samples, [*quick, *long], Place(store=store, workers=workers, progress=False))
    if ran.failures:
        raise RuntimeError(f"{task.name}: {ran.failures}")
    rows = {row.job: row for row in ran.rows}
    return compared(task, budget, samples, [rows[j] for j in quick], [rows[j] for j in long])


def compared(
    task: Task, budget: Budget, samples: Samples, quick: list[Row], long: list[Row]
) -> dict[str, Any]:
    """What the quick answer takes, beside what the long race says."""
    begun = time.process_time()
    found = ladder(samples, progress=False)
    seconds = time.process_time() - begun
    few = race_of(samples, quick, budget.quick)
    many = race_of(samples, long, replace(budget.long, seed=0))
    enough = by_ladder(found).enough
    if enough in found.models:
        few = replace(few, least_squares=least_squares_of(samples, enough, quick, few, 0, False))
    answer = answer_of(found, few)
    each = by_contender(long)
    assert many.best is not None
    assert few.best is not None
    best = each[many.best.name]
    models = {}
    for racer in many.racers:
        ratio, low, high = beside(each[racer.name], best)
        models[racer.name] = {
            "quick": few.racer(racer.name).share.value,
            "long": racer.share.value,
            **{"ratio": ratio, "low": low, "high": high},
            "seconds": racer.seconds,
            "quick_seconds": few.racer(racer.name).seconds,
            "diverged": racer.diverged,
        }
    taken: dict[str, Any] = {}
    if answer.taken:
        own = each.get(answer.taken) or rung_rows(
            samples, answer.taken, budget.folds, 0, progress=False
        )
        taken = dict(zip(("regret", "low", "high"), beside(own, best), strict=True))
    raced = sum(row.raced.seconds for row in quick)
    return {
        "task": task.name,
        **{"series": task.series, "horizon": task.horizon, "target": task.target},
        **{"samples": samples.count, "d": samples.d, "budget": asdict(budget)},
        "verdict": answer.said.verdict,
        "because": [*answer.said.because],
        **{"raced": answer.raced, "taken": answer.taken, "tied": [*answer.tied]},
        "of_taken": taken,
        **{"best": many.best.name, "separated": separated(many), "models": models},
        "tenth": few.best.name,
        **{"ladder_seconds": seconds, "race_seconds": raced},
        "long_seconds": sum(row.raced.seconds for row in long),
    }


def named(row: dict[str, Any]) -> bool:
    """Whether the best of the long race is what was taken, or as good as that by the answer."""
    return row["best"] in {contender_of(name) for name in (row["taken"], *row["tied"])}


def of_real(rows: Sequence[dict[str, Any]], wanted: int) -> tuple[dict[str, Any], dict[str, bool]]:
    """What the rows say of the answers: winners that separate, and what is clearly worse."""
    won = [row for row in rows if row["separated"]]
    right = sum(named(row) for row in won)
    answered = [row for row in rows if row["taken"]]
    worse = [row["task"] for row in answered if row["of_taken"]["low"] > WORSE]
    silent = sum(not row["taken"] for row in won)
    said = f" ({silent} of them without an answer)" if silent else ""
    required = {
        f"all tasks are done: {len(rows)} of {wanted}": len(rows) == wanted,
        f"something clearly worse is taken in 10 % at most: {len(worse)} of "
        f"{len(answered)} answers": len(worse) <= 0.1 * len(answered),
    }
    # of no winner nothing can be said
    if won:
        text = f"a winner that separates is named, or as good, in 75 %: {right} of {len(won)}{said}"
        required[text] = right >= 0.75 * len(won)
    return {
        "reduced": REDUCED,
        "rows": [*rows],
        "separated": len(won),
        "missed": [row["task"] for row in won if not named(row)],
        "worse": worse,
        "without an answer": [row["task"] for row in rows if not row["taken"]],
    }, required


#: The rules beside which the answer is put
RULES = ("choose", "always linear", "always TCN", "best at a tenth")


def by_rule(row: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """The error of what each rule takes beside the best, and the seconds that the rule needs.

    The seconds are those to the decision; a rule that decides nothing needs those of its training.
    """
    models = row["models"]
    fits = {name: each["ratio"] for name, each in models.items()}
    found = {
        "always linear": (fits["linear"], models["linear"]["seconds"]),
        "always TCN": (fits["tcn"], models["tcn"]["seconds"]),
        "best at a tenth": (fits[row["tenth"]], row["race_seconds"]),
    }
    if row["taken"]:
        spent = row["ladder_seconds"] + (row["race_seconds"] if row["raced"] else 0.0)
        found = {"choose": (row["of_taken"]["regret"], spent), **found}
    return found


def of_regret(rows: Iterable[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, bool]]:
    """The regret of each rule over the tasks that have an answer."""
    answered = [by_rule(row) for row in rows if row["taken"]]
    table = {}
    for rule in RULES:
        errors = np.array([each[rule][0] for each in answered])
        # the mean of logarithms, as a share: one series must not outweigh the others
        table[rule] = {
            "median": float(np.median(errors)),
            "ninetieth": float(np.quantile(errors, 0.9)),
            "mean": float(np.exp(np.log(errors).mean())),
            "worst": float(errors.max()),
            "seconds": float(np.median([each[rule][1] for each in answered])),
            "regrets": errors.tolist(),
        }
    own = table["choose"]
    required = {
        f"median at most 1.02: {own['median']:.3f}": own["median"] <= 1.02,
        f"90th percentile at most 1.10: {own['ninetieth']:.3f}": own["ninetieth"] <= 1.10,
    }
    for rule in RULES[1:]:
        other = table[rule]
        # of equal errors, within a tenth of a per cent, the one at less time is better
        equal = abs(own["mean"] / other["mean"] - 1) <= 1e-3
        met = own["seconds"] < other["seconds"] if equal else own["mean"] < other["mean"]
        text = (
            f"less than {rule}, or equal at less time: mean {own['mean']:.3f} in "
            f"{own['seconds']:.3g} s, {other['mean']:.3f} in {other['seconds']:.3g} s"
        )
        required[text] = met
    rows_of = [{"rule": rule, **each} for rule, each in table.items()]
    return {"rows": rows_of, "tasks": len(answered)}, required


def said_of(row: dict[str, Any]) -> str:
    """A row in one line."""
    errors = ", ".join(f"{name} {each['ratio']:.3f}" for name, each in row["models"].items())
    taken = f"{row['taken']} ({row['of_taken']['regret']:.3f})" if row["taken"] else "nothing"
    return (
        f"{row['task']}: {row['verdict']}, takes {taken}, "
        f"{'raced' if row['raced'] else 'not raced'}; at a tenth {row['tenth']}; long: {errors}"
        f"{', separated' if row['separated'] else ''}"
    )


class Finished:
    """The rows of finished tasks of one budget in a file."""

    def __init__(self, file: Path, budget: Budget) -> None:
        self.file, self.budget = file, asdict(budget)

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        """The rows by their tasks, as they are in the file now."""
        if not self.file.exists():
            return {}
        known = json.loads(self.file.read_text(encoding="utf-8"))["rows"]
        return {row["task"]: row for row in known if row["budget"] == self.budget}

    def add(self, row: dict[str, Any]) -> None:
        """Put in a row, and write the file."""
        rows = {**self.rows, row["task"]: row}
        _report.write(self.file, {"rows": [*rows.values()]})
