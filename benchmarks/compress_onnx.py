"""A cut model beside the whole one, both as files of ONNX and run by onnxruntime.

    python benchmarks/compress_onnx.py [minilm16|minilm16-keys|minilm8|mpnet32 ...]

Both are written by the same exporter and run in turn, batch by batch, in one process and on one
thread. Times are those of the processor. Outputs are held against torch's by `save`, on inputs held
out and on others of another number and length.
"""

import sys

if __name__ == "__main__":
    # behind Python's own folders, where this file must not stand for the module of its name
    sys.path.append(sys.path.pop(0))

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

import _report
from attnrate.compress.compress import compress
from attnrate.compress.onnx_graph import graph_inputs, resized, write_graph
from attnrate.data.text import sample_text
from attnrate.data.weights import model_weights
from attnrate.spectra.inputs.running import read_text
from attnrate.spectra.load import load_model

ROUNDS = 25
#: Inputs of a batch, and tokens of each
SHAPES = ((1, 32), (8, 128), (8, 256))


@dataclass(frozen=True)
class Timed:
    """Seconds of the processor for one batch: those of the whole model, and of the cut one."""

    whole: float
    cut: float
    ratio: float


def side_by_side(whole: Path, cut: Path, inputs: dict[str, Any], rounds: int = ROUNDS) -> Timed:
    """Run two files of ONNX in turn on the same inputs; medians over rounds."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    providers = ["CPUExecutionProvider"]
    own = [onnxruntime.InferenceSession(str(file), options, providers) for file in (whole, cut)]
    for session in own:
        session.run(None, inputs)
    taken: list[list[float]] = [[], []]
    for _ in range(rounds):
        for session, times in zip(own, taken, strict=True):
            start = time.process_time()
            session.run(None, inputs)
            times.append(time.process_time() - start)
    ratios = [after / before for before, after in zip(*taken, strict=True)]
    return Timed(*(statistics.median(times) for times in taken), statistics.median(ratios))


def table(name: str, size: int, values: bool, texts: int) -> None:
    """One model, cut to one size."""
    loaded = load_model(model_weights(name))
    given = list(read_text(loaded, sample_text(), 128, 8, texts))
    done = compress(loaded, given, size=size, values=values)
    with TemporaryDirectory() as place:
        whole = Path(place) / "whole"
        whole.mkdir()
        write_graph(loaded.model, done.trial, whole)
        start = time.perf_counter()
        cut = done.save(Path(place) / "cut", format="onnx")
        took = time.perf_counter() - start
        sizes = [(each / "model.onnx").stat().st_size for each in (whole, cut)]
        said = json.loads((cut / "compressed.json").read_text())["opened"]
        named = f"{name}, heads of {done.layers[0].m_h} → {size}" + ", values too" * values
        print(f"\n{named}: {done.parameters_before:,} → {done.parameters:,} parameters")
        print(f"  file {sizes[0] / 1e6:.1f} → {sizes[1] / 1e6:.1f} MB, written in {took:.0f} s")
        print(f"  onnxruntime against torch: {said['difference']:.1e}")
        print("  batch      whole, ms   cut, ms   ratio", flush=True)
        for inputs, tokens in SHAPES:
            batch = resized(graph_inputs(loaded.model, done.trial), inputs, tokens)
            arrays = {key: x.numpy() for key, x in batch.items()}
            timed = side_by_side(whole / "model.onnx", cut / "model.onnx", arrays)
            print(
                f"  {inputs} × {tokens:<4} {1e3 * timed.whole:12.2f} {1e3 * timed.cut:9.2f} "
                f"{timed.ratio:7.3f}",
                flush=True,
            )
            _report.require(timed.ratio <= 1, f"{inputs} × {tokens}: not slower than the whole")
    saved = 4 * (done.parameters_before - done.parameters)
    # what is no weight differs little from file to file
    _report.require(
        abs(sizes[0] - sizes[1] - saved) < 1e-3 * sizes[0],
        f"the file is smaller by {(sizes[0] - sizes[1]) / 1e6:.2f} MB, the weights by "
        f"{saved / 1e6:.2f} MB",
    )
    _report.require(said["difference"] <= 1e-5, "onnxruntime gives torch's outputs up to 1e-5")


PARTS: dict[str, Callable[[], None]] = {
    "minilm16": lambda: table("minilm", 16, True, 64),
    "minilm16-keys": lambda: table("minilm", 16, False, 64),
    "minilm8": lambda: table("minilm", 8, True, 64),
    "mpnet32": lambda: table("mpnet", 32, True, 24),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    unknown = [part for part in asked.parts if part not in PARTS]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; known: {', '.join(PARTS)}")
    for name in asked.parts or PARTS:
        PARTS[name]()
    _report.machine("torch", "transformers", "onnxruntime", threads=1)


if __name__ == "__main__":
    main()
