"""One size for all layers beside sizes from measured curves, at equal bytes.

    python benchmarks/compress_sizes.py [--repair STEPS] [--quick]

Queries and keys of all layers of MiniLM are cut at once to a mean of 16 and of 8 dimensions of 32.
Calibration texts and held-out texts are those of benchmarks/compress.py. Sizes are chosen by two
curves: how much the model's output changes when a layer alone is cut, and how much the layer's own
output does. How well each curve foresees the change of all layers at once is shown for random
sizes.
"""

import sys

if __name__ == "__main__":
    # behind Python's own folders, where this file must not stand for the module of its name
    sys.path.append(sys.path.pop(0))

import argparse
import random
from collections.abc import Mapping, Sequence
from functools import partial

import torch
from scipy.stats import spearmanr
from torch import nn

import _report
import compress
from attnrate.compress.allocate import Options, front
from attnrate.compress.calibration import some
from attnrate.compress.choice import choose, closed_forms
from attnrate.compress.curves import SizeCurves
from attnrate.compress.cutters import ContentCutter, changes
from attnrate.compress.planned import planned, require_target
from attnrate.compress.run import repair_layers
from attnrate.compress.sizes import Target, Wanted, Whole
from attnrate.progress import Progress
from compress import SETTINGS, Setup, judge, projections, setup

MEANS = (16, 8)
RANDOM = 12  # allocations to compare curves by
QUICK = 24, 8, 128  # calibration texts, held-out texts and their length

Curve = dict[tuple[str, int], float]


def m_h_of(at: Setup) -> int:
    return int(next(iter(at.known.moments.values())).query.shape[-1])


def layers_of(at: Setup) -> dict[str, Whole]:
    return {
        name: Whole(own.query.shape[-1], own.mixed.shape[-1], False, 4 * len(own.logits))
        for name, own in at.known.moments.items()
    }


def own_curve(at: Setup, sizes: Sequence[int]) -> Curve:
    """How much each layer's own output changes, by the best closed form."""
    return {
        (name, size): min(closed_forms(at.known, name, size).errors.values())
        for name in at.known.moments
        for size in sizes
    }


def by_curve(curve: Curve, names: Sequence[str], mean: int) -> dict[str, int]:
    """The sizes with the least sum of squares of a curve."""
    options = []
    for name in names:
        own = {size: change for (part, size), change in curve.items() if part == name}
        options.append(Options(tuple(own), tuple(own), tuple(own.values())))
    made = front(options)
    return dict(zip(names, made.sizes(made.within(mean * len(names))), strict=True))


def foreseen(
    at: Setup, cutter: ContentCutter, curves: Mapping[str, Curve], multiple_of: int
) -> None:
    """How well curves foresee the change of all layers at once, for random sizes."""
    drawn = random.Random(0)
    sizes = [*range(multiple_of, m_h_of(at), multiple_of)]
    plans = [{name: drawn.choice(sizes) for name in at.known.moments} for _ in range(RANDOM)]

    def all_of(plan: Mapping[str, int]) -> dict[str, nn.Module]:
        parts = [cutter.alone(name, size) for name, size in plan.items()]
        return {path: part for own in parts for path, part in own.items()}

    cuts = {n: partial(all_of, plan) for n, plan in enumerate(plans)}
    with Progress("random sizes") as shown:
        found = changes(cutter.model, some(at.known.given, 8), cuts, shown, "random sizes")
    for what, curve in curves.items():
        sums = [sum(curve[pair] ** 2 for pair in plan.items()) ** 0.5 for plan in plans]
        rank = float(spearmanr(sums, [*found.values()]).statistic)
        ratios = sorted(found[n] / one for n, one in enumerate(sums))
        print(
            f"  {what:24} rank correlation {rank:.3f}; change of all layers over the root of the "
            f"sum of squares {ratios[0]:.2f} to {ratios[-1]:.2f}",
            flush=True,
        )


def measured(at: Setup, cutter: ContentCutter, name: str, multiple_of: int) -> SizeCurves:
    """What `compress(model, texts, average=16, multiple_of=4)` measures."""
    wanted = Wanted(target=Target(average=float(MEANS[0])), multiple_of=multiple_of)
    grid = require_target(wanted, layers_of(at), False, False)
    with Progress("sizes") as shown:
        plan = planned(name, at.known.given, cutter, grid, wanted, shown)
    assert plan.curves is not None
    return plan.curves


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--model", default="minilm", choices=SETTINGS)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter texts")
    parser.add_argument("--multiple-of", type=int, default=4, help="the step of sizes")
    parser.add_argument("--repair", type=int, default=0, help="steps of repair for each layer")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.quick:
        SETTINGS[asked.model] = *QUICK[:2], 0, 0
        compress.LENGTH = QUICK[2]
    at = setup(asked.model)
    names = [*at.known.moments]
    cutter = ContentCutter(at.known.watcher.model, at.known, False)
    found = measured(at, cutter, asked.model, asked.multiple_of)
    print(found, flush=True)
    own = {(x.part, x.size): x.change for x in found.points if x.part in names}
    curves = {
        "the output of the model": own,
        "the layer's own output": own_curve(at, sorted({size for _, size in own})),
    }
    print(f"\n{asked.model}, {RANDOM} random choices of sizes, foreseen by curves of")
    foreseen(at, cutter, curves, asked.multiple_of)
    met: dict[str, bool] = {}
    for mean in (each for each in MEANS if each > asked.multiple_of):
        ways = {"one size": dict.fromkeys(names, mean)}
        ways |= {f"by {what}": by_curve(curve, names, mean) for what, curve in curves.items()}
        print(f"\n{asked.model}: {m_h_of(at)} -> a mean of {mean}, held-out texts")
        print("  way                             change   cosine neighbours  sizes", flush=True)
        judged = {}
        for way, sizes in ways.items():
            factors = choose(at.known, sizes).factors
            if asked.repair:
                repaired = repair_layers(at.known, factors, asked.repair)
                factors = {name: each.factors for name, each in repaired.items()}
            judged[way] = judge(at, projections(factors))
            print(f"  {way:28} {judged[way]}  {', '.join(map(str, sizes.values()))}", flush=True)
        ratio = judged["by the output of the model"].change / judged["one size"].change
        met[f"mean {mean}: {ratio:.2f} of the change of one size, at most 0.95"] = ratio <= 0.95
    _report.all_required(met)
    _report.machine("torch", "transformers", threads=1, **vars(asked))


if __name__ == "__main__":
    main()
