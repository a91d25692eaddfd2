"""Speed of training on images and on pairs of sentences, beside a plain loop over transformers.

    python benchmarks/training.py [--images 1024] [--rounds 5] [--threads 1] [--out training.json]

One after the other, in turns, each in a process of its own (memory that one keeps would serve the
other): our ViT and ViTForImageClassification of the same sizes (class token, AdamW), both on the
same slice of images with the same augmentation, scaled to an epoch of 50,000. The plain loop is
what one would write: batches made in the loop, torch's defaults. Ours clips gradients besides. Then
the `cpu` preset as it is (mean of the tokens, Muon), and the tokens per second of the `cpu`
Seq2Seq; and what training computes a second beside a matrix product of a layer's size, which is the
limit, in float32 and in bfloat16. Data are made up: speed does not depend on what they show.

Judged by the median over rounds of the ratio of times: with one thread those of the processor, so
that neighbours on the machine matter less, else those of the clock. Exit code 1 if ours is slower.
Making a model and its optimiser is counted on both sides.
"""

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")
if __name__ == "__main__":
    # behind Python's own folders: profile.py here must not hide Python's module
    sys.path.append(sys.path.pop(0))

import argparse
import json
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import _report
from attnrate.models.decoding import Specials
from attnrate.models.seq2seq import Seq2Seq
from attnrate.models.vit import ViT
from attnrate.training.epochs import EpochRecipe, train_epochs
from attnrate.training.feed import Images, Pairs, flipped_and_cropped, normalised

EPOCH = 50_000
BATCH = 128


def made_up(count: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
    return images, random.integers(0, 10, count)


def ours(images: np.ndarray, labels: np.ndarray, threads: int, plain: bool) -> float:
    """Train our model for an epoch; return the share of waiting. `plain`: class token and AdamW."""
    model = ViT("cpu", pool="class") if plain else ViT("cpu")
    recipe = EpochRecipe(
        epochs=1, optimizer="adamw" if plain else "muon", precision="float32", threads=threads
    )
    return train_epochs(model, Images(images, labels, BATCH), recipe).epochs[0].waiting


def theirs(images: np.ndarray, labels: np.ndarray, threads: int) -> None:
    """Train the same architecture of transformers in a plain loop."""
    torch.set_num_threads(threads)
    model = hugging_face()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    random = np.random.default_rng(0)
    order = random.permutation(len(images))
    model.train()
    for start in range(0, len(images) - BATCH + 1, BATCH):
        chosen = order[start : start + BATCH]
        x = normalised(flipped_and_cropped(images[chosen], random))
        y = torch.from_numpy(labels[chosen])
        loss = nn.functional.cross_entropy(model(pixel_values=x).logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def hugging_face() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    sizes = ViT("cpu").settings
    assert sizes.heads * sizes.m_h == sizes.width, "transformers has no other head size"
    assert sizes.step == sizes.patch, "transformers has no overlapping patches"
    config = ViTConfig(
        hidden_size=sizes.width,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        intermediate_size=sizes.m_ff,
        image_size=sizes.image,
        patch_size=sizes.patch,
        num_labels=sizes.classes,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return ViTForImageClassification(config)


def tokens_per_second(threads: int) -> tuple[float, float]:
    """The speed of the Seq2Seq preset on sentences of 4 to 40 tokens, and the share of waiting."""
    random = np.random.default_rng(0)
    rows = [random.integers(3, 8000, n).tolist() for n in random.integers(4, 41, 400)]
    recipe = EpochRecipe(epochs=1, precision="float32", threads=threads)
    done = train_epochs(Seq2Seq("cpu"), Pairs(rows, rows, Specials()), recipe).epochs[0]
    return done.speed, done.waiting


def product_rate(dtype: torch.dtype) -> float:
    """Operations per second of the preset's feed-forward layer on a batch; best of ten."""
    sizes = ViT("cpu").settings
    x = torch.ones(BATCH * sizes.tokens, sizes.width, dtype=dtype)
    weight = torch.ones(sizes.width, sizes.m_ff, dtype=dtype)
    times = []
    for _ in range(10):
        begin = time.perf_counter()
        x @ weight
        times.append(time.perf_counter() - begin)
    return 2 * x.numel() * sizes.m_ff / min(times)


def operations() -> int:
    """Operations of matrix products in one step of the preset, per image, without attention."""
    model, images = ViT("cpu"), torch.ones(BATCH, 3, 32, 32)
    with FlopCounterMode(display=False) as counter:
        model(images).sum().backward()
    return counter.get_total_flops() // BATCH


PARTS: dict[str, Callable[..., object]] = {
    "ours": lambda *given: ours(*given, plain=True),
    "transformers": theirs,
    "preset": lambda *given: ours(*given, plain=False),
}


def timed(name: str, count: int, threads: int) -> None:
    """Print clock and processor seconds of a run, after a short run to warm up."""
    images, labels = made_up(count)
    PARTS[name](images[:BATCH], labels[:BATCH], threads)
    clock, used = time.perf_counter(), time.process_time()
    PARTS[name](images, labels, threads)
    print(json.dumps([time.perf_counter() - clock, time.process_time() - used]))


def apart(name: str, count: int, threads: int) -> tuple[float, float]:
    """Run `timed` in a process of its own."""
    words = [sys.executable, __file__, "--part", name]
    sizes = ["--images", str(count), "--threads", str(threads)]
    done = subprocess.run([*words, *sizes], stdout=subprocess.PIPE, check=True, text=True)
    clock, used = json.loads(done.stdout.splitlines()[-1])
    return clock, used


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--part", choices=[*PARTS], help=argparse.SUPPRESS)
    given = parser.parse_args()
    count = given.images - given.images % BATCH
    if given.part is not None:
        timed(given.part, count, given.threads)
        return 0
    scale = EPOCH / count
    rounds = []
    for number in range(given.rounds):
        found = {name: apart(name, count, given.threads) for name in PARTS}
        rounds.append(found)
        said = (f"{n} {scale * c:.0f} ({scale * p:.0f})" for n, (c, p) in found.items())
        print(
            f"round {number + 1}: seconds per epoch (of the processor): {', '.join(said)}",
            flush=True,
        )
    images, labels = made_up(count)
    waiting = ours(images, labels, given.threads, plain=True)
    speed, text_waiting = tokens_per_second(given.threads)
    print(f"waiting for data: images {100 * waiting:.1f} %, sentences {100 * text_waiting:.1f} %")
    torch.set_num_threads(given.threads)
    limits = {kind: product_rate(getattr(torch, kind)) for kind in ("float32", "bfloat16")}
    training = operations() * count / statistics.median(one["preset"][0] for one in rounds)
    said = ", ".join(f"{kind} {rate / 1e9:.1f}" for kind, rate in limits.items())
    print(f"GFLOP/s: training {training / 1e9:.1f}; matrix products {said}")
    ratios = [
        statistics.median(one["transformers"][kind] / one["ours"][kind] for one in rounds)
        for kind in (0, 1)
    ]
    counts = [ViT("cpu", pool="class").parameter_count()]
    counts.append(sum(p.numel() for p in hugging_face().parameters()))
    result = {
        "seconds_per_epoch": {
            name: scale * statistics.median(one[name][0] for one in rounds) for name in PARTS
        },
        "processor_seconds_per_epoch": {
            name: scale * statistics.median(one[name][1] for one in rounds) for name in PARTS
        },
        "times_as_fast": ratios[0],
        "times_as_fast_by_processor": ratios[1],
        "waiting": waiting,
        "operations_per_second": {"training": training, **limits},
        "parameters": counts[0],
        "tokens_per_second": speed,
        "machine": _report.machine("torch", threads=given.threads),
    }
    print(json.dumps(result, indent=1))
    if given.out is not None:
        given.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    met = ratios[given.threads == 1] >= 1.0 and counts[0] == counts[1]
    _report.require(
        met,
        f"ViT of {counts[0]:,} parameters (theirs {counts[1]:,}): "
        f"{ratios[0]:.2f} times as fast as transformers by the clock, {ratios[1]:.2f} by the "
        f"processor (1.00)",
    )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
