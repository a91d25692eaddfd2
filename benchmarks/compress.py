"""Cut heads beside the cuts of others: what becomes of the output of real models.

    python benchmarks/compress.py [minilm8|minilm16|mpnet16|mpnet32 ...] [--out FILE [--again]]

Queries and keys of all layers are cut at once. Every way is given the same calibration texts and is
judged on the same held-out texts, which lie between those of calibration in the file. The rivals
are formulas of our own writing, without training. FILE gets everything measured as JSON, after each
part; the parts that are in it already are not run again, unless --again is given.
"""

import sys

if __name__ == "__main__":
    # behind Python's own folders, where this file must not stand for the module of its name
    sys.path.append(sys.path.pop(0))

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import torch

import _report
from attnrate.compress.calibration import Calibration, calibrate
from attnrate.compress.choice import choose
from attnrate.compress.content import Factors
from attnrate.compress.distil import distil
from attnrate.compress.run import repair_layers
from attnrate.data.text import sample_text
from attnrate.data.weights import model_weights
from attnrate.spectra import batches
from attnrate.spectra.batches import Batch
from attnrate.spectra.cut import run_cut
from attnrate.spectra.inputs.running import read_text
from attnrate.spectra.load import load_model

Tensor = torch.Tensor
LENGTH, BATCH = 256, 8
#: Calibration texts, held-out texts, steps of each layer, steps of all layers together
SETTINGS = {"minilm": (128, 40, 200, 90), "mpnet": (48, 16, 400, 0)}
BAR, AIM = 0.75, 0.55
NEIGHBOURS = 10


@dataclass(frozen=True)
class Setup:
    """A model with its calibration, what it gives for the held-out texts, and times.

    Attributes:
        known: What is known from the calibration texts.
        held_out: The other texts.
        whole: The model's output for them.
        forward: Seconds of the processor for one forward pass of the calibration texts.
        moments: Seconds for that pass with the moments.

    """

    known: Calibration
    held_out: list[Batch]
    whole: list[Tensor]
    forward: float
    moments: float


@dataclass(frozen=True)
class Judged:
    """What became of the output: relative change, cosine and neighbours of the embeddings."""

    change: float
    cosine: float
    neighbours: float

    def __str__(self) -> str:
        return f"{self.change:8.3f} {self.cosine:8.4f} {self.neighbours:10.1%}"


@cache
def setup(name: str) -> Setup:
    calibration, others, *_ = SETTINGS[name]
    loaded = load_model(model_weights(name))
    texts = list(read_text(loaded, sample_text(), LENGTH, BATCH, calibration + others))
    rows = {key: torch.cat([batch[key] for batch in texts]) for key in texts[0]}
    every = (calibration + others) / others
    away = {int((i + 0.5) * every) for i in range(others)}
    own = [i for i in range(calibration + others) if i not in away]
    given, held_out = _batched(rows, own), _batched(rows, sorted(away))
    with batches.at_rest(loaded.model):
        batches.run(loaded.model, given[0])
        start = time.process_time()
        for batch in given:
            batches.run(loaded.model, batch)
        forward = time.process_time() - start
        whole = [batches.run(loaded.model, batch)[0] for batch in held_out]
    start = time.process_time()
    known = calibrate(loaded.model, given)
    return Setup(known, held_out, whole, forward, time.process_time() - start)


def _batched(rows: Mapping[str, Tensor], numbers: list[int]) -> list[Batch]:
    parts = [numbers[i : i + BATCH] for i in range(0, len(numbers), BATCH)]
    return [{key: value[part] for key, value in rows.items()} for part in parts]


def judge(at: Setup, cuts: Mapping[str, Tensor]) -> Judged:
    """Cut all layers by P of each head and compare the outputs."""
    made = [run_cut(at.known.watcher, batch, dict(cuts)) for batch in at.held_out]
    new, old = torch.cat([each[0] for each in made]), torch.cat(at.whole)  # type: ignore[index]
    one, two = (torch.nn.functional.normalize(x.mean(1), dim=-1) for x in (old, new))
    return Judged(
        float((new - old).norm() / old.norm()),
        float((one * two).sum(-1).mean()),
        _shared(_nearest(one), _nearest(two)),
    )


def _nearest(embeddings: Tensor) -> list[set[int]]:
    alike = embeddings @ embeddings.mT
    alike.fill_diagonal_(-2)
    return [{*row.tolist()} for row in alike.topk(NEIGHBOURS).indices]


def _shared(one: list[set[int]], two: list[set[int]]) -> float:
    return sum(len(a & b) for a, b in zip(one, two, strict=True)) / (NEIGHBOURS * len(one))


def best(query: Tensor, metric: Tensor, size: int) -> Tensor:
    """P of rank r that minimises tr((P - I)ᵀ Q (P - I) M)."""
    value, vector = torch.linalg.eigh(query + 1e-12 * torch.eye(query.shape[-1]) * query.norm())
    A = vector * value.sqrt()[:, None, :]
    U = torch.linalg.eigh(A.mT @ metric @ A).eigenvectors[..., -size:]
    made: Tensor = torch.linalg.inv(A).mT @ U @ U.mT @ A.mT
    return made


def onto(gram: Tensor, size: int) -> Tensor:
    """The orthogonal projection onto the leading directions of second moments."""
    U = torch.linalg.eigh(gram).eigenvectors[..., -size:]
    return U @ U.mT


def rivals(at: Setup, size: int) -> dict[str, dict[str, Tensor]]:
    """The cuts without training of others, by their formulas; none of these models shares keys."""
    found: dict[str, dict[str, Tensor]] = {}
    for name, own in at.known.moments.items():
        parts = at.known.found.projections[name]
        W_Q, W_K = parts.query.weight, parts.key.weight
        for way, P in {
            "SVD of W_QᵀW_K (weights only)": best(W_Q @ W_Q.mT, W_K @ W_K.mT, size),
            "SVD of W_K (weights only)": onto(W_K @ W_K.mT, size),
            "PCA of the keys": onto(own.logits, size),
            "PCA of stacked [K; Q]": onto(own.logits + own.query, size),
            "KQ-SVD": best(own.query, own.logits, size),
        }.items():
            found.setdefault(way, {})[name] = P
    return found


def projections(factors: Mapping[str, Factors]) -> dict[str, Tensor]:
    return {name: each.projection() for name, each in factors.items()}


def table(model: str, size: int) -> dict[str, Any]:
    """One model cut to one size by every way: the rows, and all else that goes into the file."""
    begun = time.perf_counter()
    at = setup(model)
    whole = next(iter(at.known.moments.values())).query.shape[-1]
    texts, others = len(at.known.given) * BATCH, len(at.held_out) * BATCH
    print(f"\n{model}: {whole} → {size}; {texts} texts of {LENGTH} tokens, {others} held out")
    print("  way                              change   cosine neighbours", flush=True)
    rows: list[dict[str, object]] = []

    def row(by: str, way: str, cuts: Mapping[str, Tensor]) -> float:
        judged = judge(at, cuts)
        print(f"  {way:30} {judged}", flush=True)
        asked = {"model": model, "whole": whole, "size": size, "by": by, "way": way}
        rows.append(asked | asdict(judged))
        return judged.change

    least = min(row("rival", way, cuts) for way, cuts in rivals(at, size).items())
    start = time.process_time()
    choice = choose(at.known, dict.fromkeys(at.known.moments, size))
    chose = time.process_time() - start
    without = row("ours", "ours, cut", projections(choice.factors))
    tried = ", ".join(f"{rule} {change:.3f}" for rule, change in choice.changes.items())
    print(f"    chosen on calibration texts: {choice.rule} ({tried})")
    alone, steps = SETTINGS[model][2:]
    repaired = repair_layers(at.known, choice.factors, alone)
    factors = {name: each.factors for name, each in repaired.items()}
    after = row("ours", "ours, layers repaired", projections(factors))
    cpu = 0.0
    if steps:
        start = time.process_time()
        done = distil(
            at.known.watcher.model,
            at.known.given,
            at.known.found.projections,
            at.known.moments,
            factors,
            steps,
        )
        cpu = (time.process_time() - start) / len(factors)
        after = row("ours", "ours, then all together", projections(done.factors))
    each = sum(one.seconds for one in repaired.values()) / len(repaired)
    print(f"    a layer by itself {each:.1f} s, all together {cpu:.1f} s a layer ({steps} steps)")
    passes = (at.moments + chose) / at.forward
    requirements = {
        f"cut without repair {without:.3f}, best rival {least:.3f}: not worse": without <= least,
        f"with repair {after / least:.2f} of the best rival's change: at most {BAR} (aim {AIM})": (
            after <= BAR * least
        ),
        f"repair takes {each + cpu:.1f} s a layer: at most 20": each + cpu <= 20,
        f"the cut takes {passes:.2f} forward passes of its calibration: at most 3": passes <= 3,
    }
    _report.all_required(requirements)
    measured = {
        "rows": rows,
        "texts": {"calibration": texts, "held_out": others, "tokens": LENGTH},
        "chosen": {"rule": choice.rule, "changes": dict(choice.changes)},
        "steps": {"layer": alone, "together": steps},
        "layer_seconds": {"layer": each, "together": cpu},
        "passes": passes,
    }
    facts = _report.facts_of("torch", "transformers", threads=torch.get_num_threads())
    return _report.finding(measured, requirements, begun, facts)


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "minilm8": lambda: table("minilm", 8),
    "minilm16": lambda: table("minilm", 16),
    "mpnet16": lambda: table("mpnet", 16),
    "mpnet32": lambda: table("mpnet", 32),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--out", type=_report.out_file, help="write what was measured into this file"
    )
    parser.add_argument("--again", action="store_true", help="also parts that are in the file")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    unknown = [part for part in asked.parts if part not in PARTS]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; known: {', '.join(PARTS)}")
    try:
        kept = _report.Parts(asked.out)
    except ValueError as problem:
        parser.error(f"--out: {problem}")
    for name in asked.parts or PARTS:
        if name in kept.found and not asked.again:
            print(f"{name}: in {asked.out} already; --again measures it anew", flush=True)
        else:
            kept.add(name, PARTS[name]())
    _report.machine("torch", "transformers", threads=asked.threads)


if __name__ == "__main__":
    main()
