"""How often the claims of `pod` are true over random couplings, and the time of slow couplings.

The family is that of tests/theory/coupling_family.py, which runs a small version as a test.
Accuracy and budget are drawn at random, because a claim must hold for every request. The truth is
measured at a million points per coupling. `--count` and `--seed` choose other members, `--json
FILE` keeps the numbers of each.
"""

import argparse
import json
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import coupling_family as family
import numpy as np

import _report
from attnrate.errors import AccuracyWarning
from attnrate.theory.pod import pod

LARGEST_SHARE_WRONG = 0.01
LARGEST_SHARE_CONVERGED_WRONG = 0.001
SLOWEST_SECONDS = 5.0


@dataclass(frozen=True)
class Row:
    """One member of the family: what was requested, claimed and true."""

    seed: int
    kind: str
    d: int
    share: float
    rtol: float
    budget: int
    converged: bool
    residual_claimed: float
    residual_true: float
    residual_doubt: float
    error_claimed: float
    error_true: float
    seconds: float

    @property
    def residual_wrong(self) -> bool:
        """Whether the true residual exceeds the claim by more than its standard errors."""
        return self.residual_true - self.residual_doubt > self.residual_claimed

    @property
    def error_wrong(self) -> bool:
        """Whether the error of a singular value exceeds the claim."""
        return self.error_true > self.error_claimed


def tried(seed: int) -> Row:
    """Decompose the member with this seed, with an accuracy and a budget drawn at random."""
    made = family.member(seed)
    rng = np.random.default_rng(seed)
    rtol, budget = 10.0 ** int(rng.integers(-12, -2)), int(10 ** rng.uniform(4.5, 6.3))
    start = time.process_time()
    result = pod(made.rho, made.domain, rtol=rtol, max_evaluations=budget)
    seconds = time.process_time() - start
    true = family.truth_of(made, result)
    return Row(
        seed=seed,
        kind=made.kind,
        d=made.d,
        share=made.share,
        rtol=rtol,
        budget=budget,
        converged=bool(result.converged),
        residual_claimed=result.residual,
        residual_true=true.residual,
        residual_doubt=true.residual_doubt,
        error_claimed=result.error,
        error_true=true.sigma,
        seconds=seconds,
    )


def relu_net(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(0)
    first, second, last = (rng.normal(size=shape) / 3 for shape in ((2, 32), (32, 32), (32,)))
    bias = rng.normal(size=32)
    x = np.stack(np.broadcast_arrays(u, v), -1)
    return np.maximum(np.maximum(3 * x @ first + bias, 0) @ second, 0) @ last


def far(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.exp(-np.sqrt(np.sum((u - v) ** 2, axis=-1)))


SAMPLES = np.random.default_rng(0).normal(size=(5000, 3))
#: couplings that took 9 to 98 s in 0.1.0: name, rho, domain, largest rank, allowed seconds
SLOW = [
    ("|u - v|^0.3", lambda u, v: np.abs(u - v) ** 0.3, (0, 1), 512, None),
    ("|u² - v|", lambda u, v: np.abs(u**2 - v), (0, 1), 512, None),
    ("floor(5 (u + v²))", lambda u, v: np.floor(5 * (u + v**2)), (0, 1), 512, None),
    ("random ReLU net", relu_net, (0, 1), 512, None),
    ("5,000 samples in R³, 20 values", far, SAMPLES, 20, None),
    ("5,000 samples in R³, 512 values", far, SAMPLES, 512, None),
    ("the same with max_seconds=4", far, SAMPLES, 512, 4.0),
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables and the requirements; return 0 if all are met, else 1."""
    parser = argparse.ArgumentParser(
        prog="certify.py pod", description=str(__doc__).splitlines()[0]
    )
    parser.add_argument("--count", type=int, default=2000, help="couplings")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first member")
    parser.add_argument("--json", metavar="FILE", help="also write the results to this file")
    asked = parser.parse_args(arguments)
    warnings.simplefilter("ignore", AccuracyWarning)
    rows: list[Row] = []
    for seed in range(asked.seed, asked.seed + asked.count):
        rows.append(tried(seed))
        if rows[-1].residual_wrong or rows[-1].error_wrong:
            print(f"wrong: {rows[-1]}", flush=True)
        if len(rows) % 100 == 0:
            print(f"{len(rows)} of {asked.count} couplings", file=sys.stderr, flush=True)
    tried_of, converged_of = Counter(r.kind for r in rows), Counter()
    for row in rows:
        converged_of[row.kind] += row.converged
    print(f"{'kind':14} {'tried':>6} {'converged':>10} {'residual wrong':>15} {'error wrong':>12}")
    for kind in family.KINDS:
        mine = [r for r in rows if r.kind == kind]
        counts = sum(r.residual_wrong for r in mine), sum(r.error_wrong for r in mine)
        print(f"{kind:14} {tried_of[kind]:6} {converged_of[kind]:10} {counts[0]:15} {counts[1]:12}")
    residual = sum(r.residual_wrong for r in rows) / len(rows)
    error = sum(r.error_wrong for r in rows) / len(rows)
    sure = [r for r in rows if r.converged]
    wrong = sum(r.residual_wrong or r.error_wrong for r in sure) / max(1, len(sure))
    requirements = {
        f"residual beyond its bound in {residual:.2%}, at most 1 %": residual
        <= LARGEST_SHARE_WRONG,
        f"error of sigma beyond its bound in {error:.2%}, at most 1 %": error
        <= LARGEST_SHARE_WRONG,
        f"converged and wrong in {wrong:.2%} of {len(sure)}, at most 0.1 %": wrong
        <= LARGEST_SHARE_CONVERGED_WRONG,
    }
    print(f"\n{'slow in 0.1.0':32} {'s':>6} {'processor s':>12} {'rank':>5} {'error':>9}")
    for name, rho, domain, rank, limit in SLOW:
        start, worked = time.perf_counter(), time.process_time()
        result = pod(rho, domain, max_rank=rank, max_seconds=limit)
        took, worked = time.perf_counter() - start, time.process_time() - worked
        print(f"{name:32} {took:6.1f} {worked:12.1f} {result.rank:5} {result.error:9.1e}")
        requirements[f"{name} in {took:.1f} s, at most {SLOWEST_SECONDS:g}"] = (
            took <= SLOWEST_SECONDS
        )
    print()
    met = _report.all_required(requirements)
    machine = _report.machine("numpy", "scipy")
    if asked.json:
        results = {
            "machine": machine,
            "rows": [asdict(row) for row in rows],
            "requirements": requirements,
        }
        Path(asked.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0 if met else 1


if __name__ == "__main__":
    print("run benchmarks/certify.py pod", file=sys.stderr)
    sys.exit(os.EX_USAGE)
