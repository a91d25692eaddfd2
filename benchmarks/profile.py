"""Profiling beside forming the logits: cost over a forward pass, exactness, growth, memory.

    python benchmarks/profile.py [exact|cost|growth|memory|weights|advice|peers|laws|ray ...]

Real weights (MPNet-base) and real text; both sides run here, one after the other, with the same
number of threads. What the dense way would take for everything is said to be an estimate where it
was measured on a part only.
"""

import sys

if __name__ == "__main__":
    # behind Python's own folders, where this file must not stand for the module of its name
    sys.path.append(sys.path.pop(0))

import argparse
import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

import _report
from attnrate.data.text import sample_text
from attnrate.data.weights import model_weights
from attnrate.fitting.engines import cores
from attnrate.spectra import batches
from attnrate.spectra.advise import advise
from attnrate.spectra.capture import Call, Site
from attnrate.spectra.estimate import Gram, spectra
from attnrate.spectra.inputs.running import read_text
from attnrate.spectra.load import LoadedModel, load_model
from attnrate.spectra.profile import profile
from attnrate.spectra.runners import runner_of
from attnrate.spectra.watching.watcher import Watcher
from attnrate.spectra.weights_only import weight_spectra
from attnrate.theory.decay import fit_decay

INPUTS, LENGTH = 8, 512
REPEATS = 5
#: The profiles that docs/profile.md shows
KEPT = Path(__file__).resolve().parents[1] / "docs" / "profiles"


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def mpnet() -> tuple[LoadedModel, dict[str, torch.Tensor]]:
    loaded = load_model(model_weights("mpnet"))
    return loaded, next(iter(read_text(loaded, sample_text(), LENGTH, INPUTS, INPUTS)))


def seen(loaded: LoadedModel, batch: dict[str, torch.Tensor]) -> list[Call]:
    """One call of every attention layer."""
    calls: list[Call] = []

    def see(_site: Site, call: Call) -> None:
        calls.append(call)

    Watcher(loaded.model).see(batch, see)
    return calls


def logits(call: Call, i: int, head: int) -> torch.Tensor:
    """scale · QKᵀ of an input and a head, formed."""
    shared = call.query.shape[1] // call.key.shape[1]
    return call.scale * call.query[i, head] @ call.key[i, head // shared].mT


def exact() -> None:
    """Every head of the real model against logits in float64 and a full SVD."""
    loaded, batch = mpnet()
    found = profile(loaded.model, batch, cut_inputs=0)
    calls = seen(loaded, batch)
    worst = 0.0
    for number, call in enumerate(calls):
        doubled = Call(call.query.double(), call.key.double(), call.value, call.scale)
        for head in range(call.query.shape[1]):
            formed = logits(doubled, 0, head) / LENGTH
            for gauge in ("none", "softmax"):
                if gauge == "softmax":
                    formed = formed - formed.mean(-1, keepdim=True)
                wanted = torch.linalg.svdvals(formed)[: call.query.shape[-1]]
                ours = torch.from_numpy(found.sigma(number, head, gauge=gauge)[0])
                worst = max(worst, float((ours - wanted).abs().max() / wanted[0]))
    print(f"exact: {len(found.to_frame())} heads, input 0: off by at most {worst:.1e} sigma_1")


def cost() -> None:
    """All heads' spectra per input and pooled, over the plain forward pass."""
    loaded, batch = mpnet()

    def forward() -> None:
        with batches.at_rest(loaded.model):
            batches.run(loaded.model, batch)

    def ours() -> None:
        profile(loaded.model, batch, cut_inputs=0)

    forward()
    pairs = [(seconds(forward), seconds(ours)) for _ in range(REPEATS)]
    # The least of each: what disturbs a run on a shared machine only ever adds to it.
    plain, whole = (min(each) for each in zip(*pairs, strict=True))
    extra = whole - plain
    calls = seen(loaded, batch)

    def dense() -> None:
        for i in range(INPUTS):
            for head in range(calls[0].query.shape[1]):
                torch.linalg.svdvals(logits(calls[0], i, head))

    layer = min(seconds(dense) for _ in range(REPEATS))
    theirs = layer * len(calls)
    print(
        f"cost: forward {plain:.2f} s, with all spectra {whole:.2f} s: {whole / plain:.2f} times\n"
        f"  extra time {extra:.2f} s; eager logits + svdvals, per input only: {theirs:.1f} s "
        f"({len(calls)} times one layer's), {theirs / extra:.0f} times ours, which is pooled too"
    )


def growth() -> None:
    """Extra time and memory for one layer of 12 heads of size 64, T = 128 ... 4096."""
    print(
        "growth: seconds and peak MB (above the start) of 12 heads, one input; dense from 2048 on"
    )
    print("  by one head times 12")
    print("      T     ours   dense   ratio   ours MB   dense MB")
    for T in (128, 256, 512, 1024, 2048, 4096):
        rows = {way: _in_process("one", way, T) for way in ("ours", "dense")}
        print(
            f"  {T:5d} {rows['ours']['seconds']:8.4f} {rows['dense']['seconds']:7.2f} "
            f"{rows['dense']['seconds'] / rows['ours']['seconds']:7.0f} "
            f"{rows['ours']['mb']:9.0f} {rows['dense']['mb']:10.0f}",
            flush=True,
        )


def _in_process(work: str, way: str, size: int, settings: dict[str, str] | None = None) -> Any:
    """What `one` or `held` prints in a process of its own, with more environment variables."""
    command = [sys.executable, __file__, f"--{work}", way, str(size)]
    more = {**os.environ, **(settings or {})}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=more)
    return json.loads(done.stdout)


def one(way: str, T: int) -> None:
    """A measurement in a process of its own, for the sake of its peak memory."""
    drawn = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, 12, T, 64, generator=drawn) for _ in range(2))
    small = torch.randn(1, 12, 64, 64, generator=drawn)
    call = Call(query, key, key, 0.125)

    def ours(q: torch.Tensor, k: torch.Tensor) -> None:
        spectra(Gram.of(q), Gram.of(k), 0.125)

    # One head of twelve where all would take minutes
    heads = 12 if T < 2048 else 1

    def dense() -> None:
        for head in range(heads):
            torch.linalg.svdvals(logits(call, 0, head))

    ours(small, small)  # libraries load on their first use
    torch.linalg.svdvals(small[0, 0])
    before = _peak_from_here()
    took = seconds(lambda: ours(query, key)) if way == "ours" else seconds(dense) * 12 / heads
    print(json.dumps({"seconds": took, "mb": (_peak() - before) / 1024}))


def _peak_from_here() -> int:
    """The memory in use, and from now on the peak counts anew (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1])


def memory() -> None:
    """MPNet with its weights on disk beside MPNet in memory, each in a process of its own.

    While a model runs whose weights are on disk, freed blocks go back to the system at once. The
    last columns are of the model in memory when its allocator does that as well.
    """
    print("memory: peak MB above the process with all packages imported; 8 texts of 512 tokens")
    print(
        "  batch   on disk   in memory   ratio   allocator alike   ratio   seconds (disk, memory)"
    )
    alike = {"MALLOC_MMAP_THRESHOLD_": str(2**20)}
    for batch in (1, 2, 4, 8):
        disk, plain = (_in_process("held", way, batch) for way in ("disk", "memory"))
        other = _in_process("held", "memory", batch, alike)
        assert disk["sum"] == plain["sum"], "the spectra differ"
        print(
            f"  {batch:5d} {disk['mb']:9.0f} {plain['mb']:11.0f} {disk['mb'] / plain['mb']:7.2f} "
            f"{other['mb']:17.0f} {disk['mb'] / other['mb']:7.2f}   "
            f"{disk['seconds']:.0f}, {plain['seconds']:.0f}",
            flush=True,
        )


def held(way: str, batch: int) -> None:
    """One profile of MPNet, for the sake of its peak memory."""
    import accelerate  # noqa: F401  # a part of what is imported, on both sides
    from transformers import AutoModel, MPNetModel  # noqa: F401

    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    profile(layer, torch.randn(4, 20, 16), cut_inputs=2)  # libraries load on their first use
    folder, text = model_weights("mpnet"), sample_text()
    with TemporaryDirectory() as off:
        before = _peak_from_here()
        start = time.perf_counter()
        if way == "disk":
            loaded = load_model(folder, device_map="auto", offload=off)
        else:
            loaded = load_model(folder)
        texts = read_text(loaded, text, LENGTH, batch, INPUTS)
        found = profile(loaded, texts, cut_inputs=2)
        took = time.perf_counter() - start
    total = sum(float(found.pooled(layer.number, 0).sum()) for layer in found.layers)
    print(json.dumps({"seconds": took, "mb": (_peak() - before) / 1024, "sum": total}))


def weights_only() -> None:
    """W_QᵀW_K of all heads of MPNet from the file."""
    folder = model_weights("mpnet")
    before = _peak_from_here()
    took = seconds(lambda: weight_spectra(folder))
    more = (_peak() - before) / 1024
    print(f"weights only: all heads of MPNet in {took:.2f} s, {more:.0f} MB above the start")


def advice() -> None:
    """Head sizes from 32 texts, cut for real on 8 others: what was predicted and what happens."""
    print(
        "advice: model, tolerance, sizes, layers within it, worst head, output; measured/predicted"
    )
    for name in ("minilm", "mpnet"):
        loaded = load_model(model_weights(name))
        texts = list(read_text(loaded, sample_text(), LENGTH, 4, 40))
        found = profile(loaded.model, texts[:8], name=name)
        for tolerance in (0.02, 0.05, 0.1, 0.2):
            given = advise(found, tolerance=tolerance)
            done = given.check(loaded.model, texts[8:])
            before = sum(layer.m_h for layer in given.layers)
            worst = max(each.value for each in done.weights)
            ratios = [
                each.value / layer.predicted
                for each, layer in zip(done.weights, given.layers, strict=True)
                if layer.predicted > 0
            ]
            print(
                f"  {name:7} {tolerance:4.0%} {given.total:4d}/{before} {done.kept:3d}/"
                f"{len(done.weights)} {worst:7.1%} {done.output.value:7.1%}   "
                f"{min(ratios):.2f} to {max(ratios):.2f}",
                flush=True,
            )


def peers() -> None:
    """MiniLM through WeightWatcher and TransformerLens, if they are installed, and through us."""
    loaded = load_model(model_weights("minilm"))
    batch = next(iter(read_text(loaded, sample_text(), LENGTH, INPUTS, INPUTS)))
    heads = len(profile(loaded.model, batch, cut_inputs=0).to_frame())
    took = seconds(lambda: profile(loaded.model, batch, cut_inputs=0).to_frame())
    print(f"peers: attnrate, {heads} heads, per input and pooled, with laws: {took:.1f} s")
    took = seconds(lambda: weight_spectra(model_weights("minilm")).to_frame())
    print(f"  attnrate --weights-only: {took:.1f} s")
    _weightwatcher(loaded)
    _transformer_lens(batch)


def _weightwatcher(loaded: LoadedModel) -> None:
    try:
        import weightwatcher
    except ImportError:
        print("  WeightWatcher is not installed")
        return
    watcher = weightwatcher.WeightWatcher(model=loaded.model)
    start = time.perf_counter()
    details = watcher.analyze()
    took = time.perf_counter() - start
    fitted = details[details.longname.str.contains(r"attention\.self\.(?:query|key)")]
    print(
        f"  WeightWatcher: {took:.1f} s; no heads, no data: W_Q and W_K of a layer as a whole, a "
        f"power law for {int(fitted.alpha.notna().sum())} of {len(fitted)} of them, alpha "
        f"{fitted.alpha.min():.1f} to {fitted.alpha.max():.1f}"
    )


def _transformer_lens(batch: dict[str, torch.Tensor]) -> None:
    try:
        from transformer_lens.model_bridge import TransformerBridge
    except ImportError:
        print("  TransformerLens is not installed")
        return
    model = TransformerBridge.boot_transformers(str(model_weights("minilm")))
    start = time.perf_counter()
    with torch.no_grad():
        _, cache = model.run_with_cache(
            batch["input_ids"], names_filter=lambda name: name.endswith("hook_attn_scores")
        )
    forward = time.perf_counter() - start
    scores = cache["blocks.0.attn.hook_attn_scores"]
    layers = sum(1 for name in cache if name.endswith("hook_attn_scores"))
    layer = seconds(lambda: torch.linalg.svdvals(scores))
    print(
        f"  TransformerLens: logits formed and kept, {forward:.1f} s and "
        f"{layers * scores.numel() * 4 / 2**20:.0f} MB; svdvals of them: {layer * layers:.1f} s "
        f"({layers} times one layer's); nothing pooled"
    )


def laws() -> None:
    """Which laws the pooled spectra of the committed profiles follow, by today's `fit_decay`."""
    for path in sorted(KEPT.glob("*/profile.json")):
        kept = json.loads(path.read_text(encoding="utf-8"))
        fits = [fit_decay(head) for layer in kept["layers"] for head in layer["pooled"]["logits"]]
        few = sum(fit.reason.startswith("too few values to tell") for fit in fits)
        counts = Counter(fit.law for fit in fits).most_common()
        told = ", ".join(f"{law} {count}" for law, count in counts)
        print(f"laws of {path.parent.name}: {told}; of none, {few} have too few values to tell")


def ray() -> None:
    """The same profile in this process, and by one and by two workers of Ray on this machine."""
    loaded = load_model(model_weights("minilm"))
    given = list(read_text(loaded, sample_text(), 256, 4, 64))
    before, there = torch.get_num_threads(), cores()
    torch.set_num_threads(there)
    print(f"ray: MiniLM, {len(given)} batches of 4 x 256 tokens, no cuts, on {there} cores")
    profile(loaded, given[:2], cut_inputs=0)
    here = profile(loaded, given, cut_inputs=0)
    alone = seconds(lambda: profile(loaded, given, cut_inputs=0))
    print(f"  in this process, {there} threads: {alone:.1f} s", flush=True)
    for workers in (1, 2):
        start = time.perf_counter()
        with runner_of("ray", workers).session():
            opened = time.perf_counter() - start
            times, found = [], here
            for _ in range(2):
                start = time.perf_counter()
                found = profile(loaded, given, cut_inputs=0, engine="ray", workers=workers)
                times.append(time.perf_counter() - start)
        off = max(
            float(abs(one.pooled[key] - two.pooled[key]).max() / two.pooled[key].max())
            for one, two in zip(found.layers, here.layers, strict=True)
            for key in two.pooled
        )
        print(
            f"  {workers} worker{'s' * (workers > 1)} of {max(1, there // workers)} threads: Ray "
            f"starts in {opened:.1f} s; first profile, while workers start, {times[0]:.1f} s; "
            f"second {times[1]:.1f} s, {alone / times[1]:.2f} times as fast as in this process; "
            f"off by at most {off:.1e} sigma_1",
            flush=True,
        )
    torch.set_num_threads(before)


PARTS = {
    "exact": exact,
    "cost": cost,
    "growth": growth,
    "memory": memory,
    "weights": weights_only,
    "advice": advice,
    "peers": peers,
    "laws": laws,
    "ray": ray,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--threads", type=int, default=1, help="for both sides")
    for work in ("--one", "--held"):
        parser.add_argument(work, nargs=2, metavar=("WAY", "SIZE"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    if asked.one:
        one(asked.one[0], int(asked.one[1]))
        return
    if asked.held:
        held(asked.held[0], int(asked.held[1]))
        return
    unknown = [part for part in asked.parts if part not in PARTS]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; known: {', '.join(PARTS)}")
    _report.machine("torch", threads=asked.threads)
    for name in asked.parts or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main()
