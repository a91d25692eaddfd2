"""How often intervals of `fit_decay` contain the truth, and how often it refuses what is no law.

The cells and decoys are those of tests/theory/decay_simulations.py, which runs a small version as a
test; here each is drawn `--count` times. A cell passes when its count is compatible with a coverage
between 0.92 and 0.98 (one-sided binomial tests at 1 %), and each kind of cells when its pooled
coverage lies within these limits. Superexponential spectra with 2 % noise must be recognised in 90
% of the draws; their order has no interval. `--seed` draws other spectra, `--json FILE` keeps the
numbers.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import decay_simulations as simulations
import numpy as np

import _report
from attnrate.theory.decay import fit_decay

SLOWEST_MS = 30.0
"""A profile fits hundreds of heads, so that one fit of 100 values must not take longer."""


def coverage(
    kind: str, cells: Sequence[simulations.Cell], count: int, seed: int
) -> list[simulations.Score]:
    """Draw the cells of one kind and print their coverage."""
    print(f"\n{kind:44} recognised  coverage")
    scores = []
    for cell in cells:
        score = simulations.score(cell, count, seed)
        scores.append(score)
        mark = "" if score.compatible else "  outside"
        share = score.recognition
        print(f"{cell.name:44} {share:10.3f} {score.coverage:9.3f}{mark}", flush=True)
    return scores


def recognition(
    cells: Sequence[simulations.Cell], count: int, seed: int
) -> list[simulations.Score]:
    """Draw the superexponential cells and print how many are recognised."""
    print(f"\n{'faster than any exponential':44} recognised")
    scores = []
    for cell in cells:
        score = simulations.score(cell, count, seed)
        scores.append(score)
        print(f"{cell.name:44} {score.recognition:10.3f}", flush=True)
    return scores


def refusals(count: int, seed: int) -> list[simulations.Refusal]:
    """Draw the decoys and print how many are refused."""
    print(f"\n{'what is no law':44} {'refused':>10}   too few")
    found = []
    for decoy in simulations.decoys():
        refusal = simulations.refusal(decoy, count, seed)
        found.append(refusal)
        print(f"{decoy.name:44} {refusal.share:10.3f} {refusal.too_few / count:9.3f}", flush=True)
    return found


def milliseconds(turns: int = 20) -> float:
    """The processor time of one fit of 100 values: the median over noisy laws."""
    rng = np.random.default_rng(0)
    k = np.arange(1.0, 101.0)
    laws = (k**-1.0, k**-1.0 + 1e-3, np.exp(-0.1 * k))
    took = []
    for _ in range(turns):
        for law in laws:
            sigma = np.sort(law * np.exp(0.1 * rng.standard_normal(k.size)))[::-1]
            start = time.process_time()
            fit_decay(sigma)
            took.append(time.process_time() - start)
    return 1e3 * float(np.median(took))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables and the requirements; return 0 if all are met, else 1."""
    parser = argparse.ArgumentParser(
        prog="certify.py decay", description=str(__doc__).splitlines()[0]
    )
    parser.add_argument("--count", type=int, default=200, help="number of spectra per cell")
    parser.add_argument("--seed", type=int, default=0, help="seed of the spectra (the tests use 0)")
    parser.add_argument("--json", metavar="FILE", help="also write the results to this file")
    asked = parser.parse_args(arguments)
    low, high = simulations.LIMITS
    groups = {
        "independent noise": simulations.noise_cells(),
        "noise correlated along k": simulations.correlated_cells(),
        "a floor": simulations.floor_cells(),
    }
    requirements: dict[str, bool] = {}
    scores: list[simulations.Score] = []
    for kind, cells in groups.items():
        found = coverage(kind, cells, asked.count, asked.seed)
        scores += found
        pooled = sum(s.held for s in found) / sum(s.recognised for s in found)
        requirements[f"{kind}: pooled coverage {pooled:.3f} within {low} to {high}"] = (
            low <= pooled <= high
        )
        outside = [s.cell.name for s in found if not s.compatible]
        names = f" ({'; '.join(outside)})" if outside else ""
        requirements[f"{kind}: {len(outside)} of {len(found)} cells outside{names}"] = not outside
    fast = recognition(simulations.superexponential_cells(), asked.count, asked.seed)
    scores += fast
    seldom = min((s for s in fast if s.cell.noise == 0.02), key=lambda s: s.recognition)
    requirements[
        f"superexponential spectra with 2 % noise recognised in at least "
        f"{simulations.RECOGNISED:.0%} (least: {seldom.cell.name}, {seldom.recognition:.1%})"
    ] = seldom.recognition >= simulations.RECOGNISED
    refused = refusals(asked.count, asked.seed)
    least = min(refused, key=lambda refusal: refusal.share)
    requirements[
        f"what is no law refused in at least {simulations.REFUSED:.0%} "
        f"(least: {least.decoy.name}, {least.share:.1%})"
    ] = least.share >= simulations.REFUSED
    took = milliseconds()
    requirements[f"a fit of 100 values in {took:.1f} ms, at most {SLOWEST_MS:g}"] = (
        took <= SLOWEST_MS
    )
    print()
    met = _report.all_required(requirements)
    machine = _report.machine("numpy", "scipy")
    if asked.json:
        results = {
            "machine": machine,
            "count": asked.count,
            "seed": asked.seed,
            "cells": [
                {"name": s.cell.name, "recognised": s.recognised, "held": s.held} for s in scores
            ],
            "decoys": [
                {"name": r.decoy.name, "refused": r.refused, "too_few": r.too_few} for r in refused
            ],
            "requirements": requirements,
        }
        Path(asked.json).write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0 if met else 1


if __name__ == "__main__":
    print("run benchmarks/certify.py decay", file=sys.stderr)
    sys.exit(os.EX_USAGE)
