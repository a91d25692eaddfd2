"""Does `choose` answer right, and at what cost: known truths, exact floors, null, drift, cost.

    python benchmarks/choose.py [PART ...] [--out FILE] [--quick]

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
"""

import sys

if __name__ == "__main__":
    # behind Python's own folders, where this file must not stand for the module of its name
    sys.path.append(sys.path.pop(0))

import argparse
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

import _report
import attnrate as ar
from _choose_truths import OUTSIDE, WITHIN, Set, outside, panel, series, uniform, within
from attnrate.choose.ladder import ladder
from attnrate.choose.samples import Samples
from attnrate.choose.verdict import by_ladder

#: Sets of each kind, at each noise and each memory
SETS = 20
NOISES = (0.1, 0.5, 1.0)
MEMORIES = (0.0, 0.9)


def verdict(samples: Samples) -> str:
    """The verdict of the ladder alone."""
    return by_ladder(ladder(samples, progress=False)).verdict


def within_sets(count: int) -> Iterator[Set]:
    for kind in WITHIN:
        for noise in NOISES:
            for memory in MEMORIES:
                for seed in range(count):
                    yield Set(kind, seed, noise=noise, memory=memory)


def truths(count: int) -> tuple[dict[str, Any], dict[str, bool]]:
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


def outside_truths(count: int) -> tuple[dict[str, Any], dict[str, bool]]:
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


def coverage(count: int) -> tuple[dict[str, Any], dict[str, bool]]:
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


def null(count: int) -> tuple[dict[str, Any], dict[str, bool]]:
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


def drift(count: int) -> tuple[dict[str, Any], dict[str, bool]]:
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


def cost(count: int) -> tuple[dict[str, Any], dict[str, bool]]:
    rows = []
    rows_of_data = 5_000 * count
    for d, window, bar in ((1, 168, 10.0), (8, 48, 60.0), (8, 168, 60.0)):
        drawn = np.random.default_rng(0)
        x = drawn.normal(size=(rows_of_data, d))
        y = x[:, :1] + np.roll(x[:, -1:], 1, 0) + drawn.normal(size=(rows_of_data, 1))
        begun = time.perf_counter()
        ladder(series(x, y, window, 0), progress=False)
        seconds = time.perf_counter() - begun
        print(f"  {rows_of_data} rows × {d}, window {window}: {seconds:.1f} s")
        rows.append(
            {"rows": rows_of_data, "d": d, "window": window, "seconds": seconds, "bar": bar}
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {"rows": rows, "gigabytes": peak}, {
        **{
            f"{row['rows']} × {row['d']}, window {row['window']}: {row['bar']:.0f} s: "
            f"{row['seconds']:.1f} s": row["seconds"] <= row["bar"]
            for row in rows
        },
        f"2 GB: {peak:.2f} GB": peak <= 2,
    }


PARTS: dict[str, Callable[[int], tuple[dict[str, Any], dict[str, bool]]]] = {
    "truths": truths,
    "outside": outside_truths,
    "coverage": coverage,
    "null": null,
    "drift": drift,
    "cost": cost,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    parser.add_argument("--out", type=_report.out_file)
    parser.add_argument("--quick", action="store_true", help="a tenth of the sets")
    given = parser.parse_args()
    kept = _report.Parts(given.out)
    fine = True
    for name in given.parts or PARTS:
        print(f"{name}:", flush=True)
        begun = time.perf_counter()
        measured, requirements = PARTS[name](2 if given.quick else SETS)
        facts = _report.facts_of("numpy", "scipy", "torch", threads=torch.get_num_threads())
        kept.add(name, _report.finding(measured, requirements, begun, facts))
        fine &= _report.all_required(requirements)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
