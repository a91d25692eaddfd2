"""Fits beside a plain PyTorch Adam loop: same model, same data, same threads, in one run.

    python benchmarks/fit.py [flops] [overhead] [rnn] [polish] [seen] [fig1] [table2] [--json FILE]

Without names all parts run (about 45 minutes on one core). Times are of training alone; the plain
loop's error is looked at by the same function. Exit code 1 if a requirement is not met.
"""

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")
if __name__ == "__main__":
    # behind Python's own folders: profile.py here must not hide Python's module
    sys.path.append(sys.path.pop(0))

import argparse
import copy
import functools
import json
import math
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable

import torch

import _report
from attnrate.experiments.kits.spectral import LONG, RECIPES
from attnrate.fitting.fit import fit
from attnrate.fitting.recipe import Recipe, as_recipe, recipe_of
from attnrate.fitting.sweep import sweep
from attnrate.fitting.train import training_batches
from attnrate.fitting.trial import Trial, prepare, run_trial
from attnrate.models import LinearRNN, Transformer
from attnrate.targets import (
    Target,
    error_of,
    linear_target,
    spectral_target,
    swap_ends,
    uniform_kernel,
)
from attnrate.targets.error import error_on

SEEDS = range(5)
JUDGED = 8192  # sequences, as `fit` has it
RESULTS: dict[str, object] = {}
VERDICTS: list[tuple[bool, str]] = []


def require(met: bool, what: str) -> None:
    VERDICTS.append((met, what))
    _report.require(met, what)


def plain_adam(
    target: Target, make: Callable[[], torch.nn.Module], steps: int, seed: int = 0
) -> tuple[float, float]:
    """Train with a plain loop: Adam, lr 1e-3, batch 128. Return seconds of training and error."""
    torch.manual_seed(seed)
    model = make()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(seed)
    seconds = 0.0
    for _ in range(steps):
        begin = time.perf_counter()
        x = target.inputs.draw(128, target.length, generator).float()
        loss = torch.nn.functional.mse_loss(model(x), target(x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seconds += time.perf_counter() - begin
    return seconds, error_of(model, target, dtype=torch.float32).value


def race(name: str, target: Target, make: Callable[[], torch.nn.Module], steps: int) -> None:
    seconds, error = plain_adam(target, make, steps)
    print(f"{name}: plain Adam, {steps:,} steps: {error:.3e} in {seconds:.0f} s", flush=True)
    ours = fit(target, make, "strong", seed=0)
    reached = ours.seconds_to(error)
    print(f"{name}: strong: {ours}; that error after {reached or float('nan'):.1f} s", flush=True)
    ratio = seconds / reached if reached else 0.0
    RESULTS[name] = {
        "adam_error": error,
        "adam_seconds": seconds,
        "strong_error": ours.error,
        "strong_seconds": ours.seconds,
        "seconds_to_adam_error": reached,
        "ratio": ratio,
    }
    require(ratio >= 10, f"{name}: Adam's error after {steps:,} steps {ratio:.1f}x sooner (10x)")


def table2_model() -> Transformer:
    return Transformer(1, 1, n=32, m_h=32, m_v=32, position="learned", length=32)


def table2() -> None:
    target = linear_target("exponential", 32)
    race("table2", target, table2_model, 10_000)
    errors = [fit(target, table2_model, "strong", seed=seed).error for seed in SEEDS]
    RESULTS["table2_seeds"] = errors
    shown = ", ".join(f"{e:.2e}" for e in errors)
    require(max(errors) <= 2.18e-5, f"table2: 2.18e-5 in every one of 5 seeds ({shown})")


def fig1() -> None:
    race("fig1", spectral_target(1.0, 6), lambda: Transformer(1, 1, m_h=6), 8_000)


def rnn() -> None:
    original = linear_target("exponential", 32)
    random = linear_target(uniform_kernel(32, 0), 32)
    permuted = original.permuted(swap_ends(32, 10))
    floor = permuted.floor("time-invariant")
    for name, target, limit in (("original", original, 1.02e-7), ("random kernel", random, 1e-6)):
        errors = [fit(target, lambda: LinearRNN(1, 1), seed=seed).error for seed in SEEDS]
        RESULTS[f"rnn {name}"] = errors
        shown = ", ".join(f"{e:.1e}" for e in errors)
        require(max(errors) <= limit, f"rnn, {name}: {limit:.2e} in every one of 5 seeds ({shown})")
    fits = [fit(permuted, lambda: LinearRNN(1, 1), seed=seed) for seed in SEEDS]
    RESULTS["rnn permuted"] = {"floor": floor, "errors": [f.error for f in fits]}
    shown = ", ".join(f"{f.error:.4e} ± {f.standard_error:.1e}" for f in fits)
    near = all(
        floor - 3 * f.standard_error <= f.error <= 1.03 * floor + 3 * f.standard_error for f in fits
    )
    require(near, f"rnn, permuted: within 3 % of the floor {floor:.4e} ({shown})")


def polish() -> None:
    """Test whether L-BFGS after `strong` helps, compared with equally long further SOAP steps."""
    problems: dict[str, tuple[Target, Callable[[], torch.nn.Module]]] = {
        "fig1": (spectral_target(1.0, 6), lambda: Transformer(1, 1, m_h=6)),
        "table2": (linear_target("exponential", 32), table2_model),
        "rnn": (linear_target("exponential", 32), lambda: LinearRNN(1, 1)),
    }
    for name, (target, make) in problems.items():
        base = fit(target, make, seed=0)
        longer = fit(target, make, seed=0, steps=3000)
        seconds = max(longer.seconds - base.seconds, base.seconds / 4)
        polished = lbfgs(target, base.model, seconds)
        RESULTS[f"polish {name}"] = [base.error, longer.error, polished]
        print(
            f"polish, {name}: strong {base.error:.2e}; 3,000 steps instead of 2,400 "
            f"{longer.error:.2e}; {seconds:.0f} s of L-BFGS (float64) instead {polished:.2e}",
            flush=True,
        )


def lbfgs(target: Target, model: torch.nn.Module, seconds: float) -> float:
    """The error after this many seconds of L-BFGS on 1,024 fixed sequences, in float64."""
    model = copy.deepcopy(model).double().train()
    x = target.sample(1024, 1)
    y = target(x)
    optimizer = torch.optim.LBFGS(
        model.parameters(), max_iter=1, history_size=50, line_search_fn="strong_wolfe"
    )

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = torch.nn.functional.mse_loss(model(x), y)
        value.backward()
        return value

    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        optimizer.step(loss)
    return error_of(model.eval(), target).value


def seen() -> None:
    """The error on inputs that a fit was trained on, once each, divided by that on fresh ones."""
    original = linear_target("exponential", 32)
    permuted = original.permuted(swap_ends(32, 10))
    cells: list[tuple[str, Target, Callable[[], torch.nn.Module], Recipe]] = [
        (
            f"Fig. 1, alpha {alpha}, rank {rank}, m_h {m_h}",
            spectral_target(alpha, rank),
            functools.partial(Transformer, 1, 1, m_h=m_h),
            recipe_of(RECIPES["paper"]),
        )
        for alpha, rank, m_h in ((1.0, 6, 4), (1.0, 6, 6), (1.0, 2, 2), (0.55, LONG, 8))
    ]
    strong = as_recipe("strong")
    cells += [("Table 2, RNN", original, lambda: LinearRNN(1, 1), strong)]
    cells += [("Table 2, RNN, permuted", permuted, lambda: LinearRNN(1, 1), strong)]
    cells += [("Table 2, Transformer", original, table2_model, strong)]
    for name, target, make, recipe in cells:
        for seed in (0, 1):
            done = fit(target, make, recipe, seed=seed)
            batches = training_batches(target, recipe, seed)
            inputs = []
            while sum(map(len, inputs)) < JUDGED:
                inputs.append(next(batches))
            x = torch.cat(inputs)[:JUDGED].double()
            on_seen = error_on(done.model, target, x, dtype=torch.float32)
            ratio = on_seen.value / done.error
            doubt = ratio * math.hypot(
                on_seen.standard_error / on_seen.value, done.standard_error / done.error
            )
            RESULTS[f"seen {name}, seed {seed}"] = {"ratio": ratio, "standard error": doubt}
            print(f"seen, {name}, seed {seed}: {ratio:.3f} ± {doubt:.3f} of the error", flush=True)


def flops() -> None:
    """Floating-point operations per second of training, compared with a matrix product."""
    size = 512
    a, b = torch.rand(size, size), torch.rand(size, size)
    best = min(_time(lambda: a @ b) for _ in range(20))
    peak = 2 * size**3 / best
    model, target = table2_model(), linear_target("exponential", 32)
    x = target.sample(128, 0, torch.float32)
    y = target(x)
    optimizer = torch.optim.Adam(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()

    seconds = min(_time(step) for _ in range(20))
    tokens = 128 * 32
    weights = sum(p.numel() for p in model.parameters() if p.ndim == 2)
    # forward 2, backward 4 operations per weight and token; logits and averages over 32 positions
    operations = 6 * tokens * (weights + 2 * 32 * 32)
    share = operations / seconds / peak
    RESULTS["flops"] = {"training": operations / seconds, "matmul": peak, "share": share}
    print(f"training {operations / seconds / 1e9:.1f} GFLOP/s, matmul {peak / 1e9:.1f} GFLOP/s")
    require(share >= 0.5, f"flops: {share:.0%} of the matrix-multiply rate in training (50 %)")


def _time(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def tiny_trials() -> list[Trial]:
    target = {"kind": "linear", "kernel": "exponential", "length": 8}
    model, recipe = {"kind": "linear_rnn", "hidden": 8}, {"steps": 10}
    return [Trial(target, model, recipe, seed) for seed in range(64)]


def overhead() -> None:
    """Run 64 tiny trials as a sweep and in a bare pool of as many processes; both start them."""
    ratios = []
    for _ in range(5):
        begin = time.perf_counter()
        context = multiprocessing.get_context("spawn")
        with context.Pool(2, initializer=prepare) as pool:
            list(pool.imap_unordered(run_trial, [trial.settings for trial in tiny_trials()]))
        bare = time.perf_counter() - begin
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            sweep(tiny_trials(), store=f"{folder}/s.sqlite", workers=2, progress=False)
            ours = time.perf_counter() - begin
        ratios.append(ours / bare)
        print(f"overhead: bare {bare:.2f} s, sweep {ours:.2f} s", flush=True)
    ratio = statistics.median(ratios)
    RESULTS["overhead"] = ratios
    require(ratio <= 1.15, f"overhead: 64 tiny trials cost {ratio:.2f} of a bare pool (1.15)")


PARTS = {
    "flops": flops,
    "overhead": overhead,
    "rnn": rnn,
    "polish": polish,
    "seen": seen,
    "fig1": fig1,
    "table2": table2,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS])
    parser.add_argument("--json", metavar="FILE")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    for name in asked.parts or PARTS:
        PARTS[name]()
    RESULTS["machine"] = _report.machine("torch", threads=1)
    if asked.json:
        with open(asked.json, "w", encoding="utf-8") as file:
            json.dump(RESULTS, file, indent=1)
    sys.exit(not all(met for met, _ in VERDICTS))


if __name__ == "__main__":
    main()
