"""Does `choose` answer right, and at what cost: known truths, exact floors, real series, peers.

    python benchmarks/choose.py [PART ...] [--out FILE] [--quick] [--stores DIR] [--peers PYTHON]

Parts, each with the bars that were written down before it ran first:

truths    six kinds of truth within the ladder's classes, 2,000 sequences of 16, noise 0.1, 0.5 and
          1 times the signal, tokens independent or with correlation 0.9: right in 95 %, a class
          richer than the truth in 1 % at most
outside   truths outside every class: right, or "cannot tell", in 80 %
coverage  brackets of 200 sets against the exact floors of `LinearTarget`: 95 % intervals hold the
          floor in 93 %
null      outputs shuffled over the sequences, or over time: "nothing to learn" in 95 %
drift     a relation that changes halfway, or slowly: refused in 80 %; and none: refused in 5 %
cost      the ladder of 100,000 rows: 10 s with one column, 60 s with eight; 2 GB
real      12 real series at two horizons, the quick answer beside a race of ten times the steps
          with five seeds: a winner that separates there is named, or as good as what is taken, in
          75 %; something clearly worse is taken in 10 % at most
regret    of what the quick answer takes, the error beside the best of the long race: median 1.02,
          90th percentile 1.10; less than always linear, always TCN and the best at a tenth of the
          steps, or equal at less time
heads     the error at the advised head size, with fresh seeds, is at most 1.1 times that of the
          largest in 90 %: drawn sets, and real series where the quick answer ties a Transformer
whole     all of it, with the default minutes: 20,000 rows in 5 min, 100,000 in 15 min; 2 GB
peers     AutoGluon-TS, Darts and NeuralForecast on one split of four of these series: the time to
          an answer and its error; each is skipped where the Python of --peers does not have it

The fits of `real` and `heads` are kept in a folder, by default beside the file, so that a run that
was stopped goes on; `regret`, the real series of `heads`, and `peers` need those of `real`.
"""

import sys

if __name__ == "__main__":
    # behind Python's own folders, where this file must not stand for the module of its name
    sys.path.append(sys.path.pop(0))

import argparse
import os
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import _report
import attnrate as ar
from _choose_heads import drawn_sets, of_heads, real_sets, try_heads
from _choose_peers import SERIES as PEER_SERIES
from _choose_peers import beside_peers, of_peers
from _choose_real import (
    SMALL,
    Budget,
    Finished,
    Task,
    drawn_tasks,
    of_real,
    of_regret,
    real_tasks,
    run_task,
    said_of,
)
from _choose_truths import OUTSIDE, WITHIN, Set, outside, panel, series, uniform, within
from _choose_whole import BARS, measure, of_whole
from attnrate.choose.ladder import ladder
from attnrate.choose.samples import Samples
from attnrate.choose.verdict import by_ladder

#: Sets of each kind, at each noise and each memory
SETS = 20
NOISES = (0.1, 0.5, 1.0)
MEMORIES = (0.0, 0.9)


#: What a part has found: tables and figures, and its requirements with whether they are met
Found = tuple[dict[str, Any], dict[str, bool]]


def verdict(samples: Samples) -> str:
    """The verdict of the ladder alone."""
    return by_ladder(ladder(samples, progress=False)).verdict


def within_sets(count: int) -> Iterator[Set]:
    for kind in WITHIN:
        for noise in NOISES:
            for memory in MEMORIES:
                for seed in range(count):
                    yield Set(kind, seed, noise=noise, memory=memory)


def truths(count: int) -> Found:
    found: dict[tuple[str, float, float], Counter[str]] = {}
    for one in within_sets(count):
        key = one.kind, one.noise, one.memory
        found.setdefault(key, Counter())[verdict(within(one))] += 1
        if one.seed == count - 1:
            print(f"  {one.kind:12s} noise {one.noise} memory {one.memory}: {dict(found[key])}")
    total = sum(sum(each.values()) for each in found.values())
    right = sum(each[name] for key, each in found.items() for name in WITHIN[key[0]][0])
    richer = sum(each[name] for key, each in found.items() for name in WITHIN[key[0]][1])
    rows = [
        {"kind": kind, "noise": noise, "memory": memory, "verdicts": dict(each)}
        for (kind, noise, memory), each in found.items()
    ]
    return {"rows": rows, "sets": total, "right": right, "richer": richer}, {
        f"right in 95 %: {right} of {total}": right >= 0.95 * total,
        f"richer than the truth in 1 % at most: {richer} of {total}": richer <= 0.01 * total,
    }


def outside_truths(count: int) -> Found:
    rows, right, total = [], 0, 0
    for kind, answers in OUTSIDE.items():
        each: Counter[str] = Counter()
        for noise in NOISES:
            for seed in range(count):
                each[verdict(outside(Set(kind, seed, noise=noise)))] += 1
        print(f"  {kind:12s} {dict(each)}")
        rows.append({"kind": kind, "verdicts": dict(each)})
        right += sum(each[name] for name in (*answers, "cannot-tell"))
        total += sum(each.values())
    return {"rows": rows, "sets": total, "right": right}, {
        f"right, or cannot tell, in 80 %: {right} of {total}": right >= 0.8 * total
    }


def coverage(count: int) -> Found:
    """Floors of permuted linear functionals, whose noise is added to them."""
    held = {"filter": 0, "causal": 0}
    total, width = 0, []
    for seed in range(10 * count):
        drawn = np.random.default_rng(1000 + seed)
        length = int(drawn.integers(4, 17))
        rho = np.exp(-np.arange(length) / drawn.uniform(1, 6)) * drawn.choice([-1, 1], length)
        target = ar.linear_target(rho, length).permuted(drawn.permutation(length))
        x = target.sample(int(drawn.choice([200, 500, 2000])), seed=seed).double()
        y = target(x).numpy()
        noise = float(drawn.choice([0.1, 0.5, 1.0])) * float(y.std())
        made = ladder(
            panel(x.numpy(), y + noise * drawn.normal(size=y.shape)), seed, progress=False
        )
        total += 1
        for name, kind in (("filter", "time-invariant"), ("causal", "causal")):
            floor = target.floor(kind) + noise**2  # type: ignore[arg-type]
            rung = made[name]  # type: ignore[index]
            low, high = made.variance * rung.lower.low, made.variance * rung.upper.high
            held[name] += low <= floor <= high
            width.append((high - low) / floor)
    rows = [{"class": name, "held": number, "of": total} for name, number in held.items()]
    print(f"  width of a bracket, median: {np.median(width):.3f} of the floor")
    return {"rows": rows, "width": float(np.median(width))}, {
        f"{name}: the floor is held in 93 %: {number} of {total}": number >= 0.93 * total
        for name, number in held.items()
    }


def null(count: int) -> Found:
    found: Counter[str] = Counter()
    for seed in range(5 * count):
        one = Set("attention", seed, noise=0.1, memory=0.9 * (seed % 2))
        samples = within(one)
        drawn = np.random.default_rng(seed)
        y = samples.y.reshape(samples.count, samples.length, 1)
        x = samples.x.reshape(samples.count, samples.length, 1)
        found[verdict(panel(x, drawn.permutation(y)))] += 1
        # one long series that is not like the other
        x = uniform(drawn, (2, 20_000), 0.9)
        found[verdict(series(x[:1].T, x[1:].T, 24, 0))] += 1
    total, right = sum(found.values()), found["nothing"]
    print(f"  {dict(found)}")
    return {"verdicts": dict(found)}, {
        f"nothing to learn in 95 %: {right} of {total}": right >= 0.95 * total
    }


def changing(seed: int, kind: str) -> Samples:
    """A series of 10,000 whose law changes: halfway, slowly, or not at all."""
    drawn = np.random.default_rng(seed)
    n = 10_000
    x = uniform(drawn, (1, n), 0.8)[0] - 0.5
    one, two = (np.exp(-np.arange(6) / drawn.uniform(1, 4)) * drawn.normal() for _ in range(2))
    share = {"halfway": np.arange(n) >= n / 2, "slowly": np.arange(n) / n, "none": np.zeros(n)}[
        kind
    ]
    y = (1 - share) * np.convolve(x, one)[:n] + share * np.convolve(x, two)[:n]
    y = y + 0.3 * y.std() * drawn.normal(size=n)
    return series(x[:, None], y[:, None], 24, 0)


def drift(count: int) -> Found:
    found = {
        kind: Counter(verdict(changing(seed, kind)) for seed in range(5 * count))
        for kind in ("halfway", "slowly", "none")
    }
    print(f"  { {kind: dict(each) for kind, each in found.items()} }")
    refused = sum(found[kind]["cannot-tell"] for kind in ("halfway", "slowly"))
    total, wrong = 10 * count, found["none"]["cannot-tell"]
    return {"rows": [{"kind": kind, "verdicts": dict(each)} for kind, each in found.items()]}, {
        f"drift is refused in 80 %: {refused} of {total}": refused >= 0.8 * total,
        f"no drift is refused in 5 % at most: {wrong} of {5 * count}": wrong <= 0.05 * 5 * count,
    }


def cost(count: int) -> Found:
    rows = []
    rows_of_data = 5_000 * count
    for d, window, bar in ((1, 168, 10.0), (8, 48, 60.0), (8, 168, 60.0)):
        drawn = np.random.default_rng(0)
        x = drawn.normal(size=(rows_of_data, d))
        y = x[:, :1] + np.roll(x[:, -1:], 1, 0) + drawn.normal(size=(rows_of_data, 1))
        begun, spent = time.perf_counter(), time.process_time()
        ladder(series(x, y, window, 0), progress=False)
        seconds, spent = time.perf_counter() - begun, time.process_time() - spent
        print(
            f"  {rows_of_data} rows × {d}, window {window}: {seconds:.1f} s, "
            f"{spent:.1f} s of the processor"
        )
        row = {"rows": rows_of_data, "d": d, "window": window, "seconds": seconds, "bar": bar}
        # on a machine that has other work the seconds are more than these
        rows.append({**row, "processor_seconds": spent})
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {"rows": rows, "gigabytes": peak}, {
        **{
            f"{row['rows']} × {row['d']}, window {row['window']}: {row['bar']:.0f} s: "
            f"{row['seconds']:.1f} s": row["seconds"] <= row["bar"]
            for row in rows
        },
        f"2 GB: {peak:.2f} GB": peak <= 2,
    }


@dataclass(frozen=True)
class Asked:
    """What a run was asked for.

    Attributes:
        quick: Whether everything is made small.
        sets: Drawn sets of each kind.
        stores: The folder of the stores of fits.
        peers: A Python that has the peers; None if there is none.
        workers: The fits of `real` and `heads` at the same time.
        measured: The rows of peers that an earlier run has measured and kept in the file.
        judge: Whether `real` and `regret` take the finished tasks alone and run none.
        keep: Writes what a part has found so far.

    """

    quick: bool
    sets: int
    stores: Path
    peers: Path | None
    workers: int
    measured: list[dict[str, Any]]
    judge: bool
    keep: Callable[[str, Found], None]


def real_rows(asked: Asked) -> tuple[list[dict[str, Any]], int]:
    """The rows of all tasks, each kept as soon as it is there, and how many are wanted."""
    tasks = drawn_tasks() if asked.quick else real_tasks()
    budget = SMALL if asked.quick else Budget()
    done = Finished(asked.stores / "real.json", budget)
    for task in tasks:
        if task.name in done.rows or asked.judge:
            continue
        row = run_task(task, budget, asked.stores / f"{task.series}.sqlite", asked.workers)
        done.add(row)
        print(f"  {said_of(row)}", flush=True)
        rows = in_order(tasks, done)
        asked.keep("real", of_real(rows, len(tasks)))
        asked.keep("regret", of_regret(rows))
    return in_order(tasks, done), len(tasks)


def in_order(tasks: list[Task], done: Finished) -> list[dict[str, Any]]:
    """The rows that are there, in the order of the tasks."""
    known = done.rows
    return [known[task.name] for task in tasks if task.name in known]


def real(asked: Asked) -> Found:
    return of_real(*real_rows(asked))


def regret(asked: Asked) -> Found:
    return of_regret(real_rows(asked)[0])


def heads(asked: Asked) -> Found:
    tasks = drawn_tasks() if asked.quick else real_tasks()
    known = finished(asked)
    done = [task for task in tasks if task.name in known]
    rows = []
    for one in (
        *drawn_sets(asked.quick, asked.stores),
        *real_sets(done, [known[task.name] for task in done], asked.stores),
    ):
        rows.append(try_heads(one, asked.workers))
        print(f"  {one.name}: {rows[-1]}", flush=True)
        asked.keep("heads", of_heads(rows))
    return of_heads(rows)


def whole(asked: Asked) -> Found:
    rows: list[dict[str, Any]] = []
    for number, _ in BARS[:1] if asked.quick else BARS:
        rows.append(measure(2000, 1e-3) if asked.quick else measure(number))
        print(f"  {rows[-1]}", flush=True)
        asked.keep("whole", of_whole(rows))
    return of_whole(rows)


def peers(asked: Asked) -> Found:
    known = finished(asked)
    own = {task.series: task for task in reversed(real_tasks())}  # at their own horizons
    tasks = drawn_tasks()[1:] if asked.quick else [own[name] for name in PEER_SERIES]
    rows: list[dict[str, Any]] = []
    for task in tasks:
        if task.name in known:
            best, budget = known[task.name]["best"], Budget(**known[task.name]["budget"])
            done = {row["tool"]: row for row in asked.measured if row["task"] == task.name}
            for row in beside_peers(task, budget, best, asked.peers, asked.quick, done):
                rows.append(row)
                asked.keep("peers", of_peers(rows))
    return of_peers(rows)


def measured_in(kept: _report.Parts) -> list[dict[str, Any]]:
    """The rows of peers in the file that have an error; others are tried again."""
    return [row for row in kept.found.get("peers", {}).get("rows", []) if "mse" in row]


def finished(asked: Asked) -> dict[str, dict[str, Any]]:
    """The rows of `real` that are there."""
    return Finished(asked.stores / "real.json", SMALL if asked.quick else Budget()).rows


#: The parts that are drawn sets, and how many of these there are
DRAWN: dict[str, Callable[[int], Found]] = {
    "truths": truths,
    "outside": outside_truths,
    "coverage": coverage,
    "null": null,
    "drift": drift,
    "cost": cost,
}
#: The parts that run races
RACED: dict[str, Callable[[Asked], Found]] = {
    "real": real,
    "regret": regret,
    "heads": heads,
    "whole": whole,
    "peers": peers,
}


def found_by(name: str, asked: Asked) -> Found:
    """What a part finds."""
    return DRAWN[name](asked.sets) if name in DRAWN else RACED[name](asked)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*DRAWN, *RACED, []], help="default: all")
    parser.add_argument("--out", type=_report.out_file)
    parser.add_argument("--quick", action="store_true", help="a tenth of the sets, small races")
    parser.add_argument("--sets", type=int, help=f"drawn sets of each kind; default: {SETS}")
    parser.add_argument("--stores", type=Path, help="default: beside the file, or nowhere")
    parser.add_argument("--peers", type=Path, metavar="PYTHON", help="a Python that has the peers")
    parser.add_argument("--workers", type=int, default=1, help="fits at the same time; default: 1")
    parser.add_argument("--judge", action="store_true", help="finished tasks of real, no others")
    given = parser.parse_args()
    sets = given.sets or (2 if given.quick else SETS)
    kept, fine = _report.Parts(given.out), True
    with tempfile.TemporaryDirectory() as nowhere:
        stores = given.stores or (given.out.with_suffix("") if given.out else Path(nowhere))
        stores.mkdir(exist_ok=True)
        for name in given.parts or [*DRAWN, *RACED]:
            print(f"{name}:", flush=True)
            begun = time.perf_counter()

            def keep(part: str, found: Found, begun: float = begun) -> None:
                load = round(os.getloadavg()[0], 1)
                facts = _report.facts_of("numpy", "scipy", "torch", threads=1, load=load)
                kept.add(part, _report.finding(*found, begun, facts))

            asked = Asked(
                *(given.quick, sets, stores, given.peers, given.workers),
                *(measured_in(kept), given.judge, keep),
            )
            found = found_by(name, asked)
            keep(name, found)
            fine &= _report.all_required(found[1])
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
