"""What a monitor adds to the time of a training: every 100th step, side by side with no monitor.

    python benchmarks/monitor.py [gpt|vit|hand ...] [--steps 400]

Two copies of a model are trained on the same batches, one of them with a monitor that writes a CSV
file. They take their steps in turns, so that what disturbs the machine disturbs both, and after
half of the steps the monitor changes to the other copy. At the end their weights must be equal, bit
for bit. What the monitor takes is the time by which watched steps are longer than those of the
other copy; that of all steps is printed too, but scatters by more than the monitor takes.
"""

import sys

if __name__ == "__main__":
    # behind Python's own folders, where profile.py of this folder must not stand for the module
    sys.path.append(sys.path.pop(0))

import argparse
import copy
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

import _report
from attnrate.models.vit import ViT
from attnrate.spectra.monitor.monitor import Monitor

ROOT = Path(__file__).resolve().parents[1]
EVERY, MOST = 100, 0.03
Batch = tuple[torch.Tensor, torch.Tensor]


def text(batch: int, length: int) -> Iterator[Batch]:
    """Bytes of this project's own pages, and the bytes that follow them."""
    pages = b"\n".join(path.read_bytes() for path in sorted((ROOT / "docs").glob("*.md")))
    data = torch.frombuffer(bytearray(pages), dtype=torch.uint8).long()
    draw = torch.Generator().manual_seed(0)
    while True:
        starts = torch.randint(len(data) - length - 1, (batch,), generator=draw)
        rows = torch.stack([data[start : start + length + 1] for start in starts.tolist()])
        yield rows[:, :-1], rows[:, 1:]


def images(batch: int) -> Iterator[Batch]:
    """Random images of the size of CIFAR-10's."""
    draw = torch.Generator().manual_seed(0)
    while True:
        x = torch.randn(batch, 3, 32, 32, generator=draw)
        yield x, torch.randint(10, (batch,), generator=draw)


class Logits(nn.Module):
    """A model of transformers whose output is a tensor."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.model(x).logits
        return found


class Block(nn.Module):
    """A layer of a decoder with its attention written out, as in many a tutorial."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.n_head = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = (*x.shape[:2], self.n_head, -1)
        q, k, v = (
            part.view(size).transpose(1, 2) for part in self.qkv(self.before(x)).chunk(3, -1)
        )
        logits = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        hidden = torch.ones(logits.shape[-2:], dtype=torch.bool).triu(1)
        weights = functional.dropout(logits.masked_fill(hidden, -torch.inf).softmax(-1), 0.1)
        x = x + self.out((weights @ v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.after(x))


def hand(width: int = 128, heads: int = 4, layers: int = 4, length: int = 128) -> nn.Module:
    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(256, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
            self.head = nn.Linear(width, 256)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.head(
                self.blocks(self.words(x) + self.places.weight[: x.shape[1]])
            )
            return found

    return Decoder()


def gpt() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"n_embd": 128, "n_layer": 4, "n_head": 4, "n_positions": 128, "vocab_size": 256}
    config = GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    return Logits(GPT2LMHeadModel(config))


PARTS: dict[str, tuple[str, Callable[[], nn.Module], Callable[[], Iterator[Batch]]]] = {
    "gpt": ("GPT-2 of transformers, 4 x 4 heads of 32, 4 texts of 128", gpt, lambda: text(4, 128)),
    "vit": ("our ViT (preset cpu), 32 images of 32 x 32", lambda: ViT("cpu"), lambda: images(32)),
    "hand": ("a decoder by hand, 4 x 4 heads of 32, 4 texts of 128", hand, lambda: text(4, 128)),
}


class Training:
    """One of the two copies; both draw their random numbers from states of their own."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model.train()
        self.optimiser = torch.optim.AdamW(model.parameters(), lr=3e-4)
        self.random = torch.get_rng_state()

    def step(self, batch: Batch, monitor: Monitor | None) -> dict[str, float]:
        """Take a step; the seconds that it took, by the clock and of the processor."""
        torch.set_rng_state(self.random)
        clock, processor = time.perf_counter(), time.process_time()
        self.optimiser.zero_grad()
        made = self.model(batch[0])
        functional.cross_entropy(made.flatten(0, -2), batch[1].flatten()).backward()
        self.optimiser.step()
        if monitor is not None:
            monitor.step()
        took = {"clock": time.perf_counter() - clock, "processor": time.process_time() - processor}
        self.random = torch.get_rng_state()
        return took


def measure(name: str, steps: int, folder: Path) -> dict[str, bool]:
    """Train both copies; the second half of the steps has the monitor at the other one."""
    what, make, batches = PARTS[name]
    torch.manual_seed(0)
    first = make()
    copies = Training(first), Training(copy.deepcopy(first))
    feed = batches()
    pairs: list[tuple[int, dict[str, float], dict[str, float]]] = []
    for turn in (0, 1):
        watched, plain = copies[turn], copies[1 - turn]
        with Monitor(watched.model, every=EVERY, log=folder / f"{name}{turn}.csv") as monitor:
            for number in range(1, steps // 2 + 1):
                batch = next(feed)
                # each of the two goes first as often as the other
                early = plain.step(batch, None) if number % 2 else None
                ours = watched.step(batch, monitor)
                pairs.append((number, ours, early or plain.step(batch, None)))
    rows = sum(len(path.read_text().splitlines()) - 1 for path in folder.glob(f"{name}*.csv"))
    print(f"{name}: {what}; {len(pairs)} steps of each, {rows} rows written", flush=True)
    shares = {}
    for kind in ("clock", "processor"):
        whole = sum(plain[kind] for _, _, plain in pairs)
        more = [(number, ours[kind] - plain[kind]) for number, ours, plain in pairs]
        due = [extra for number, extra in more if is_due(number)]
        others = [ours[kind] / plain[kind] for number, ours, plain in pairs if not is_due(number)]
        shares[kind] = sum(due) / whole
        total = sum(extra for _, extra in more) / whole
        print(
            f"  {kind}: {whole:.1f} s without, {total:+.2%} with; "
            f"the {len(due)} watched steps take {1000 * statistics.median(due):.0f} ms more than "
            f"{1000 * whole / len(pairs):.0f} ms each, {shares[kind]:.2%} of the training; all "
            f"others {statistics.median(others) - 1:+.2%} (median)"
        )
    state = [list(one.model.state_dict().values()) for one in copies]
    return {
        f"{name}: at most {MOST:.0%} of the training time": max(shares.values()) <= MOST,
        f"{name}: the weights are equal, bit for bit": all(map(torch.equal, *state)),
    }


def is_due(number: int) -> bool:
    """Whether a pass of that step is watched."""
    return number == 1 or number % EVERY in (0, EVERY - 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=[*PARTS], help=", ".join(PARTS))
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    met = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in given.parts:
            met |= measure(name, given.steps, Path(folder))
    good = _report.all_required(met)
    _report.machine("torch", "transformers", threads=given.threads)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
