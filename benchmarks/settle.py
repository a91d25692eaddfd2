"""How often `attnrate reproduce --settle` is wrong, and how many seeds it takes: a simulation.

    python benchmarks/settle.py [--runs N] [--out FILE]

A claim says that a mean is below a limit. Its observations, one a seed, are normal with standard
deviation 1 around -effect; the limit is 0. The first look is at 5 seeds (or 3) with the fixed 95 %
interval. What it leaves open is looked at again, by one of these rules:

- naive: every later look has a 95 % interval too, as if it were the only one
- even: every later look has the same share of another 2.5 %
- late: shares of these 2.5 % in proportion to the seeds that a look adds
- mixture: the t-mixture confidence sequence (Wang & Ramdas 2024, Theorem 4.9) with these 2.5 %,
  looked at after every seed; its prior deviation of the effect is 1
- joint: one level for all later looks, with which all looks together err with 5 % at most
- settle: joint, and it gives up by `looks.futile_from`: this is the rule of `--settle`
- fixed: one look at all seeds with an interval of 90 %, which errs with 5 % too; it has the least
  number of seeds that gives the power of `settle`
"""

import argparse
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial

# behind Python's own folders, for there is a profile.py here
sys.path.append(sys.path.pop(0))

import numpy as np
from scipy import special, stats

import _report
from attnrate.experiments import looks

EFFECTS = (0.0, 0.25, 0.4, 0.6, 0.9, 1.3)
#: The first look's share of wrong verdicts, and that of all later looks together
EACH = looks.ERROR / 2
_POINTS = 20_000  # runs at a time, so that the observations fit into the cache
Array = np.ndarray


@dataclass(frozen=True)
class Looked:
    """What a rule has done in many runs: the verdicts and the seeds that they took."""

    right: Array
    wrong: Array
    seeds: Array


@dataclass(frozen=True)
class Row:
    """A rule at an effect: shares of right and wrong verdicts, and seeds.

    `open_median` and `open_mean` are over the runs that the first look left open.
    """

    rule: str
    first: int
    effect: float
    right: float
    wrong: float
    median: float
    mean: float
    open_median: float
    open_mean: float


def statistics(x: Array, seeds: Sequence[int]) -> tuple[Array, Array]:
    """Student's t of the first n observations of every run, and the square root of n over s."""
    t, scale = [], []
    for n in seeds:
        part = x[:, :n]
        factor = math.sqrt(n) / part.std(1, ddof=1)
        t.append(part.mean(1) * factor)
        scale.append(factor)
    return np.stack(t, 1), np.stack(scale, 1)


def by_levels(x: Array, seeds: Sequence[int], tails: Sequence[float], give_up: bool) -> Looked:
    """Look after so many seeds, each time with an interval that errs by `tails` on either side.

    With `give_up` a run ends open where the next looks seem to be of no use, as in `--settle`.
    """
    t, _ = statistics(x, seeds)
    runs = len(x)
    right, wrong = np.zeros(runs, bool), np.zeros(runs, bool)
    taken = np.full(runs, seeds[-1])
    going = np.ones(runs, bool)
    for k, (n, tail) in enumerate(zip(seeds, tails, strict=True)):
        edge = special.stdtrit(n - 1, 1 - tail)
        below, above = going & (t[:, k] < -edge), going & (t[:, k] > edge)
        right |= below
        wrong |= above
        taken[below | above] = n
        going &= ~(below | above)
        if give_up and k + 1 < len(seeds):
            needed = looks.futile_from(n)
            far = special.stdtrit(needed - 1, 1 - tails[-1]) / math.sqrt(needed)
            lost = going & (np.abs(t[:, k]) / math.sqrt(n) < far)
            taken[lost] = n
            going &= ~lost
    return Looked(right, wrong, taken)


def by_mixture(x: Array, first: int, most: int, tail: float) -> Looked:
    """The t-mixture confidence sequence after a fixed first look, evaluated after every seed."""
    t, _ = statistics(x, [first])
    edge = special.stdtrit(first - 1, 1 - tail)
    right, wrong = t[:, 0] < -edge, t[:, 0] > edge
    going = ~(right | wrong)
    taken = np.where(going, most, first)
    sums, squares = x.cumsum(1), np.square(x).cumsum(1)
    for n in range(first + 1, most + 1):
        s, v = sums[:, n - 1], squares[:, n - 1]
        log = -0.5 * math.log(n + 1) + n / 2 * np.log((n + 1) * v / ((n + 1) * v - s**2))
        out = going & (log >= -math.log(2 * tail))
        right |= out & (s < 0)
        wrong |= out & (s > 0)
        taken[out] = n
        going &= ~out
    return Looked(right, wrong, taken)


def rules(first: int) -> Mapping[str, Callable[[Array], Looked]]:
    """Every rule by its name, as a function of observations."""
    later = looks.looks(first)
    seeds = [first, *(one.seeds for one in later)]
    steps = np.diff(seeds)
    tails = {
        "naive": [EACH] * len(later),
        "even": [EACH / len(later)] * len(later),
        "late": list(EACH * steps / steps.sum()),
        "joint": [(1 - one.level) / 2 for one in later],
    }
    found: dict[str, Callable[[Array], Looked]] = {
        name: partial(by_levels, seeds=seeds, tails=[EACH, *some], give_up=False)
        for name, some in tails.items()
    }
    found["mixture"] = partial(by_mixture, first=first, most=seeds[-1], tail=EACH)
    found["settle"] = partial(by_levels, seeds=seeds, tails=[EACH, *tails["joint"]], give_up=True)
    return found


def fixed_seeds(effect: float, power: float, tail: float) -> int:
    """The least seeds with which one look with this tail is right with this probability."""
    for n in range(2, 100_000):
        edge = special.stdtrit(n - 1, 1 - tail)
        if float(stats.nct.sf(edge, n - 1, effect * math.sqrt(n))) >= power:
            return n
    raise ValueError(f"no number of seeds has the power {power}")


def simulate(first: int, runs: int, seed: int = 0) -> list[Row]:
    """Every rule at every effect, on the same observations."""
    rows = []
    for effect in EFFECTS:
        generator = np.random.default_rng([seed, round(100 * effect)])
        parts: dict[str, list[Looked]] = {}
        every = rules(first)
        for begin in range(0, runs, _POINTS):
            count = min(_POINTS, runs - begin)
            x = generator.standard_normal((count, looks.SEEDS[-1])) - effect
            for name, rule in every.items():
                parts.setdefault(name, []).append(rule(x))
        for name, some in parts.items():
            rows.append(_row(name, first, effect, some))
        if effect:
            power = min(rows[-1].right, 0.999)
            n = fixed_seeds(effect, power, 2 * EACH)
            wrong = float(
                stats.nct.cdf(-special.stdtrit(n - 1, 1 - 2 * EACH), n - 1, effect * n**0.5)
            )
            rows.append(Row("fixed", first, effect, power, wrong, n, n, n, n))
    return rows


def _row(name: str, first: int, effect: float, some: Sequence[Looked]) -> Row:
    right, wrong, seeds = (
        np.concatenate([getattr(one, field) for one in some])
        for field in ("right", "wrong", "seeds")
    )
    # at the limit one of the two verdicts is wrong: by symmetry the mean of both sides
    error = float((wrong.mean() + right.mean()) / 2 if effect == 0 else wrong.mean())
    later = seeds[seeds > first]
    shares = float(np.median(seeds)), float(seeds.mean())
    return Row(
        name,
        first,
        effect,
        0.0 if effect == 0 else float(right.mean()),
        error,
        *shares,
        float(np.median(later)),
        float(later.mean()),
    )


def requirements(rows: Sequence[Row]) -> dict[str, bool]:
    """What `--settle` promises, each met or not."""
    settle = [row for row in rows if row.rule == "settle"]
    fixed = {(row.first, row.effect): row for row in rows if row.rule == "fixed"}
    joint = [row for row in rows if row.rule == "joint"]
    pairs = [(row, fixed[row.first, row.effect]) for row in settle if row.effect]
    return {
        "at the limit at most 5 % of the verdicts are wrong": all(
            row.wrong <= looks.ERROR for row in (*settle, *joint)
        ),
        "with 95 % at every look more than 5 % are": all(
            row.wrong > looks.ERROR for row in rows if row.rule == "naive" and row.effect == 0
        ),
        "in the median fewer seeds than a fixed design with as much power": all(
            row.median < other.median for row, other in pairs
        ),
    }


def main() -> None:
    """Simulate, print the table and the requirements, and write the file."""
    parser = argparse.ArgumentParser(description="How often settling is wrong, and what it takes.")
    parser.add_argument("--runs", type=int, default=100_000, help="simulated claims a line")
    parser.add_argument("--out", type=_report.out_file, help="a JSON file for what was found")
    asked = parser.parse_args()
    begun = time.perf_counter()
    rows = [row for first in (5, 3) for row in simulate(first, asked.runs)]
    print("first  effect  rule     right   wrong  median   mean  (of those left open)")
    for row in sorted(rows, key=lambda row: (-row.first, row.effect)):
        print(
            f"{row.first:5}  {row.effect:6}  {row.rule:7}  {row.right:5.3f}  {row.wrong:6.4f}  "
            f"{row.median:6.0f}  {row.mean:5.1f}  ({row.open_median:.0f}, {row.open_mean:.1f})"
        )
    facts = _report.machine("numpy", "scipy", runs=asked.runs)
    met = requirements(rows)
    _report.all_required(met)
    if asked.out:
        measured = {"rows": [asdict(row) for row in rows]}
        _report.write(asked.out, _report.finding(measured, met, begun, facts))


if __name__ == "__main__":
    main()
