"""The POD compared with the dense route: a Gauss-Legendre grid doubled until its SVD converges.

Both run here, one after the other, with the same number of threads; nothing is cached from another
run. `--quick` leaves out the largest dense grids, `--json FILE` keeps the numbers.
"""

import argparse
import os
import sys

if __name__ == "__main__":
    # behind Python's own folders: profile.py here must not hide Python's module
    sys.path.append(sys.path.pop(0))

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument(
    "--threads", type=int, default=1, help="number of threads of the linear algebra, for both sides"
)
parser.add_argument("--quick", action="store_true", help="dense grids of at most 1024 unknowns")
parser.add_argument("--json", metavar="FILE", help="also write the results to this file")
ARGUMENTS = parser.parse_args()
# set before numpy is imported, when the linear algebra reads it
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = str(ARGUMENTS.threads)

import json  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from dataclasses import asdict, dataclass  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402
from scipy.linalg import svd  # noqa: E402

import _report  # noqa: E402
from attnrate.theory.pod import pod  # noqa: E402

RTOL = 1e-12
PI = np.pi
MOST_UNKNOWNS = 1024 if ARGUMENTS.quick else 4096
Rho = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Case:
    """A coupling on the unit cube, with its singular values where a formula is known."""

    name: str
    rho: Rho
    d: int = 1
    truth: np.ndarray | None = None
    gauge: str | None = None
    compared: int | None = None


@dataclass(frozen=True)
class Row:
    """The time and the accuracy of one case."""

    name: str
    ours_ms: float
    dense_ms: float
    ratio: float
    ours_evaluations: int
    dense_evaluations: int
    rank: int
    error: float
    error_against: str
    dense_grid: int
    dense_change: float
    dense_reached: bool


def gaussian(length: float) -> Rho:
    return lambda u, v: np.exp(-((u - v) ** 2) / (2 * length**2))


def gaussian_plane(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.exp(-((u - v) ** 2).sum(-1) / (2 * 0.2**2))


def sines(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    total = np.zeros(np.broadcast_shapes(u.shape, v.shape))
    for i in range(1, 41):
        total += (2 * i**-1.5 * np.sin(2 * PI * i * u)) * np.sin(2 * PI * i * v)
    return total


def d3(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return 1 + 2 * np.sin(2 * PI * u) * np.sin(2 * PI * (u + v))


def gauged(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.exp(u) + np.sin(2 * PI * u) * np.cos(2 * PI * v) + u**2 * (v - 0.5)


def product(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    gap = (u[..., 0] - v[..., 0]) ** 2
    return np.exp(-gap) / (2 + u[..., 1] * v[..., 1])


CASES = [
    Case("D.3", d3, truth=np.sqrt([(7 + 33**0.5) / 8, 0.25, (7 - 33**0.5) / 8])),
    Case("40 sines", sines, truth=np.arange(1, 41) ** -1.5),
    Case("min(u, v)", np.minimum, truth=((np.arange(1, 513) - 0.5) * PI) ** -2.0, compared=50),
    Case("Gaussian 0.1", gaussian(0.1)),
    Case("Gaussian 0.02", gaussian(0.02)),
    Case("Gaussian 0.2, d=2", gaussian_plane, d=2),
    Case("c(u) + rank 2", gauged, gauge="softmax"),
    Case("product, d=2", product, d=2),
]


def dense_grid(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    t, w = np.polynomial.legendre.leggauss(n)
    nodes, weights = (t + 1) / 2, w / 2
    if d == 1:
        return nodes, weights
    mesh = np.stack([m.ravel() for m in np.meshgrid(nodes, nodes, indexing="ij")], axis=-1)
    return mesh, np.multiply.outer(weights, weights).ravel()


@dataclass(frozen=True)
class Dense:
    """The last grid of the dense route."""

    sigma: np.ndarray
    unknowns: int
    evaluations: int
    change: float
    reached: bool


def dense_route(case: Case) -> Dense:
    """Double the grid until the values above RTOL·sigma_1 agree to RTOL·sigma_1."""
    n = 32 if case.d == 1 else 8
    before, evaluations, change = np.zeros(0), 0, np.inf
    while True:
        nodes, weights = dense_grid(n, case.d)
        values = case.rho(nodes[:, None], nodes[None])
        if case.gauge:
            values = values - (values @ weights)[:, None]
        root = np.sqrt(weights)
        sigma = svd(root[:, None] * values * root)[1]
        evaluations += values.size
        if before.size:
            kept = sigma[sigma > RTOL * sigma[0]]
            padded = np.zeros(len(sigma))
            padded[: len(before)] = before
            change = float(np.max(np.abs(kept - padded[: len(kept)])) / sigma[0])
            if change <= RTOL:
                return Dense(kept, len(nodes), evaluations, change, True)
        if (2 * n) ** case.d > MOST_UNKNOWNS:
            return Dense(sigma, len(nodes), evaluations, change, False)
        before, n = sigma, 2 * n


def timed(work: Callable[[], object]) -> tuple[float, object]:
    start = time.perf_counter()
    result = work()
    return 1e3 * (time.perf_counter() - start), result


def measure(case: Case) -> Row:
    """Time a case: the best of several alternating runs, or one run each if it is slow."""
    domain = (0, 1) if case.d == 1 else [(0, 1)] * case.d

    def ours() -> object:
        return pod(case.rho, domain, rtol=RTOL, gauge=case.gauge)

    pod(case.rho, domain, rtol=1e-2)  # the first call pays for imports and Legendre tables
    ours_ms, mine = timed(ours)
    dense_ms, theirs = timed(lambda: dense_route(case))
    for _ in range(min(9, int(2000 / (ours_ms + dense_ms)))):
        ours_ms = min(ours_ms, timed(ours)[0])
        dense_ms = min(dense_ms, timed(lambda: dense_route(case))[0])
    for _ in range(3):
        ours_ms = min(ours_ms, timed(ours)[0])
    truth = theirs.sigma if case.truth is None else case.truth
    count = min(case.compared or mine.rank, mine.rank, len(truth))
    gap = np.abs(mine.sigma[:count] - truth[:count])
    return Row(
        name=case.name,
        ours_ms=ours_ms,
        dense_ms=dense_ms,
        ratio=dense_ms / ours_ms,
        ours_evaluations=mine.evaluations,
        dense_evaluations=theirs.evaluations,
        rank=mine.rank,
        error=float(np.max(gap) / truth[0]),
        error_against="dense" if case.truth is None else "formula",
        dense_grid=theirs.unknowns,
        dense_change=theirs.change,
        dense_reached=theirs.reached,
    )


@dataclass(frozen=True)
class Growth:
    """Time and evaluations for one width of the Gaussian."""

    name: str
    grid: int
    rank: int
    ms: float
    evaluations: int

    @property
    def per_grid_and_rank(self) -> float:
        return self.evaluations / (self.grid * self.rank)

    @property
    def per_grid_squared(self) -> float:
        return self.evaluations / self.grid**2


def ripple(w: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """A coupling of rank 2 for every w; only the grid has to grow with w."""
    return lambda u, v: np.sin(w * u) * np.exp(v) + u * np.cos(w * v)


def grow(name: str, rho: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Growth:
    """Decompose a coupling and count; `grid` is the number of nodes of the singular functions."""
    runs = [timed(lambda: pod(rho, (0, 1), rtol=RTOL)) for _ in range(5)]
    result = runs[0][1]
    grid = max(len(result._u.values), len(result._v.values))
    return Growth(name, grid, result.rank, min(ms for ms, _ in runs), result.evaluations)


def print_rows(rows: list[Row]) -> None:
    print(
        f"{'coupling':18} {'ours ms':>9} {'dense ms':>10} {'ratio':>8} {'rho ours':>10} "
        f"{'rho dense':>11} {'rank':>5} {'max error':>10}   dense grid"
    )
    for row in rows:
        state = "" if row.dense_reached else f", NOT REACHED: still changes {row.dense_change:.0e}"
        print(
            f"{row.name:18} {row.ours_ms:9.2f} {row.dense_ms:10.2f} {row.ratio:7.1f}x "
            f"{row.ours_evaluations:10,} {row.dense_evaluations:11,} {row.rank:5} "
            f"{row.error:10.1e}   {row.dense_grid}{state}"
        )
    print("max error: of sigma / sigma_1, against the formula where there is one, else the dense")
    print("grid (the first 50 values for min, which has infinitely many).")


def main() -> int:
    rows = [measure(case) for case in CASES]
    print(f"POD to rtol = {RTOL:g} beside the dense route, {ARGUMENTS.threads} thread(s) each\n")
    print_rows(rows)
    narrow = [grow(f"Gaussian {length}", gaussian(length)) for length in (0.08, 0.04, 0.02)]
    fine = [grow(f"rank 2, w = {w}", ripple(w)) for w in (200, 800, 3200)]
    print("\ngrowth: ever narrower Gaussians, whose rank grows, and ever finer ripples of rank 2")
    print(
        f"{'coupling':16} {'grid':>6} {'rank':>5} {'ms':>8} {'rho':>9} {'/(grid·rank)':>13} /grid²"
    )
    for g in narrow + fine:
        print(
            f"{g.name:16} {g.grid:6} {g.rank:5} {g.ms:8.2f} {g.evaluations:9,} "
            f"{g.per_grid_and_rank:13.1f} {g.per_grid_squared:6.2f}"
        )
    by_name = {row.name: row for row in rows}
    slowest = min(rows, key=lambda row: row.ratio)
    requirements = {
        "Gaussian 0.2, d=2: at least 20x": by_name["Gaussian 0.2, d=2"].ratio >= 20,
        "Gaussian 0.02: at least 5x": by_name["Gaussian 0.02"].ratio >= 5,
        f"never slower than twice dense (least: {slowest.name}, {slowest.ratio:.2f}x)": (
            slowest.ratio >= 0.5
        ),
        "D.3 under 50 ms": by_name["D.3"].ours_ms < 50,
        "rho at about grid x rank points (at most 12 grid x rank)": all(
            g.per_grid_and_rank <= 12 for g in narrow
        ),
        "never grid² (the finest ripples: at most a tenth)": fine[-1].per_grid_squared <= 0.1,
    }
    print()
    if ARGUMENTS.quick:
        del requirements["Gaussian 0.2, d=2: at least 20x"]
    met = _report.all_required(requirements)
    if ARGUMENTS.quick:
        print("--quick: a dense route that was cut short took less time than it would need, so the")
        print("d=2 Gaussian is not judged here.")
    machine = _report.machine("numpy", "scipy", threads=ARGUMENTS.threads)
    if ARGUMENTS.json:
        results = {
            "machine": machine,
            "rtol": RTOL,
            "quick": ARGUMENTS.quick,
            "cases": [asdict(row) for row in rows],
            "growth": [asdict(g) for g in narrow + fine],
            "requirements": requirements,
        }
        Path(ARGUMENTS.json).write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
