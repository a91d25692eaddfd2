"""Training over a data set in epochs: resumable bit for bit, with batches made ahead.

One step is AdamW, or Muon for the matrices inside the layers and AdamW for the rest; the step size
is warmed up and falls along a cosine, gradients are clipped, norms and biases do not decay.
"""

import math
import os
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import torch
from torch import nn

from attnrate.errors import (
    AccuracyWarning,
    InputError,
    StoreError,
    require_choice,
    require_number,
    require_whole,
)
from attnrate.fitting.device import as_device, as_threads, torch_threads
from attnrate.fitting.recipe import LARGEST_RATE
from attnrate.progress import Progress
from attnrate.settings import Count, Positive, by, checked_fields
from attnrate.targets.seeds import spread
from attnrate.training import checkpoint as store
from attnrate.training.feed import Ahead, Batch, Feed, Outcome
from attnrate.training.machine import fast_precision, kept_memory
from attnrate.training.muon import Muon
from attnrate.typed import require_types

T = TypeVar("T")
Precision = Literal["auto", "float32", "bfloat16"]

_DIGITS = 6  # of numbers in results: as many as mean something


def _require_from_zero(name: str, value: object, below: float = math.inf) -> float:
    number = require_number(name, value)
    if not 0 <= number < below:
        raise InputError(f"{name} is out of range", value, "Pass 0.05, say.")
    return number


@checked_fields("recipe.")
@dataclass(frozen=True)
class EpochRecipe:
    """How to train; `warmup` is a share of all steps, the step size ends at lr / 100.

    The default lr is one for Muon; AdamW alone wants about 1e-3. precision="auto" takes bfloat16
    where the machine multiplies matrices at least 1.3 times faster with it. `threads` are those of
    torch, all cores by default. A run that is resumed keeps its precision, and its threads unless
    others are asked for: both change the last bits of a sum.
    """

    epochs: Count = 20
    lr: Annotated[float, by(require_number, 0.0, LARGEST_RATE)] = 5e-3
    warmup: Annotated[float, by(_require_from_zero, 1.0)] = 0.05
    weight_decay: Annotated[float, by(_require_from_zero)] = 0.05
    clip: Positive = 1.0
    optimizer: Literal["muon", "adamw"] = "muon"
    precision: Precision = "auto"
    threads: Annotated[int, by(as_threads)] | None = None
    seed: Annotated[int, by(require_whole, 0, (1 << 62) - 1)] = 0

    def rate(self, done: float) -> float:
        """The step size when the share `done` of the training is behind."""
        if done < self.warmup:
            return self.lr * done / self.warmup
        fallen = (done - self.warmup) / (1 - self.warmup)
        return self.lr * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * fallen)))


@dataclass(frozen=True)
class Epoch:
    """What one epoch came to; test values are NaN without test data.

    `loss` and `accuracy` are means over the batches as they were trained on. `waiting` is the share
    of the seconds in which the model waited for data, `speed` is in the feed's units per second.
    """

    number: int
    loss: float
    accuracy: float
    test_loss: float
    test_accuracy: float
    seconds: float
    waiting: float
    speed: float


def read_epochs(values: Iterable[Mapping[str, Any]]) -> tuple[Epoch, ...]:
    """Epochs from what was read of a file; a TypeError where that has other names or types."""
    epochs = tuple(Epoch(**each) for each in values)
    for epoch in epochs:
        require_types(epoch)
    return epochs


@dataclass(frozen=True)
class EpochSummary:
    """What results keep of an epoch; test values are of a few tests, and None without any."""

    loss: float
    accuracy: float
    test_loss: float | None
    test_accuracy: float | None
    seconds: float


@dataclass(frozen=True)
class Training:
    """A finished run: the model itself, its epochs, and how it was computed."""

    model: nn.Module
    epochs: tuple[Epoch, ...]
    precision: str
    threads: int
    checkpoint: Path | None

    @property
    def seconds(self) -> float:
        """Seconds of training, without those of testing."""
        return math.fsum(epoch.seconds for epoch in self.epochs)

    @property
    def summaries(self) -> tuple[EpochSummary, ...]:
        """What a result keeps of every epoch."""
        kept = [each.name for each in fields(EpochSummary)]
        plain = [without_nan(asdict(epoch)) for epoch in self.epochs]
        return tuple(EpochSummary(**{name: one[name] for name in kept}) for one in plain)


def rounded(value: T) -> T:
    """A dataclass with its floats, nested ones too, rounded to six digits; None for NaN and inf."""
    made: T = _rounded(value)
    return made


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return tuple(map(_rounded, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _rounded(getattr(value, f.name)) for f in fields(value)})
    return value


def without_nan(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values that there are none of as None, which JSON has."""
    return {name: None if value != value else value for name, value in values.items()}


def train_epochs(
    model: nn.Module,
    feed: Feed,
    recipe: EpochRecipe,
    *,
    test: Feed | None = None,
    folder: object = None,
    device: object = "cpu",
    progress: bool | None = None,
    until: object = None,
) -> Training:
    """Train `model` itself for the epochs of the recipe.

    With a `folder`, a checkpoint is written after every epoch, and a run that finds one goes on
    from the last: what a killed run had done of an epoch is done again, to the same bits on the
    same machine. `until` ends this call after that many epochs in all, without changing the plan.
    """
    last = recipe.epochs if until is None else require_whole("until", until, 1, recipe.epochs)
    if folder is not None and not isinstance(folder, str | os.PathLike):
        raise InputError("folder must be a path", folder)
    place = None if folder is None else Path(folder)
    model.to(as_device(device))
    optimizers = make_optimizers(model, recipe)
    settings = _settings(model, feed, recipe)
    before = _before(place, settings)
    facts = {} if before is None else dict(before.facts)
    with _fitting(place):
        history = [*read_epochs(facts.get("history", []))]
        if facts.get("precision") is not None:
            require_choice("precision", facts["precision"], ("float32", "bfloat16"))
        told = facts.get("machine", {}).get("threads")
        told = None if told is None else as_threads("threads", told)
    wanted = None if recipe.precision == "auto" else recipe.precision
    precision = facts.get("precision") or wanted or fast_precision(_place(model))
    threads = recipe.threads or told or torch.get_num_threads()
    begun = len(history) / recipe.epochs
    shown = Progress("the first batch", begun, wanted=progress, name="train", lasting=True)
    with kept_memory(), torch_threads(threads), torch.random.fork_rng(), shown:
        torch.manual_seed(spread(recipe.seed))
        if before is not None:
            with _fitting(place):
                store.restore(before, model, optimizers)
            _tell_changes(facts.get("machine", {}), _machine(model, threads))
        for number in range(len(history), last):
            with _autocast(precision, model):
                tested = history[-1].test_accuracy if history else math.nan
                done = _epoch(model, feed, recipe, optimizers, number, shown, tested)
                judged = (math.nan, math.nan) if test is None else evaluate(model, test)
            history.append(replace(done, test_loss=judged[0], test_accuracy=judged[1]))
            shown.at(_line(history[-1], recipe.epochs, feed.unit), (number + 1) / recipe.epochs)
            shown.mark()
            if place is not None:
                facts = {
                    "settings": settings,
                    "history": [asdict(each) for each in history],
                    "precision": precision,
                    "machine": _machine(model, threads),
                }
                store.write(place, store.snapshot(number + 1, model, optimizers, facts))
    model.eval()
    written = store.saved(place) if place is not None else []
    return Training(model, tuple(history), precision, threads, written[-1] if written else None)


def evaluate(model: nn.Module, feed: Feed) -> tuple[float, float]:
    """Mean loss and accuracy over a feed, in evaluation mode; the model's mode comes back."""
    device, training = _place(model), model.training
    loss, right, count = 0.0, 0, 0
    model.eval()
    with torch.no_grad(), Ahead(feed, 0) as ahead:
        for batch in ahead:
            outcome = feed.outcome(model, _moved(batch, device))
            loss += outcome.loss.item() * outcome.count
            right += int(outcome.right)
            count += outcome.count
    model.train(training)
    return loss / count, right / count


def make_optimizers(model: nn.Module, recipe: EpochRecipe) -> list[torch.optim.Optimizer]:
    """Muon for matrices within layers if asked for; AdamW for all else, decay for matrices only."""
    kinds = {id(p): part for part in model.modules() for p in part.parameters(recurse=False)}
    inner, decaying, others = [], [], []
    for name, parameter in model.named_parameters():
        part = kinds[id(parameter)]
        if not parameter.requires_grad:
            continue
        # two axes do not make a matrix: positions and a state space's rates have them, too
        if parameter.dim() < 2 or not isinstance(part, nn.Linear | nn.Embedding | nn.RNNBase):
            others.append(parameter)
        elif isinstance(part, nn.Linear) and "layers." in name and recipe.optimizer == "muon":
            inner.append(parameter)
        else:
            decaying.append(parameter)
    made: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(
            [
                {"params": decaying, "weight_decay": recipe.weight_decay},
                {"params": others, "weight_decay": 0.0},
            ],
            lr=recipe.lr,
            betas=(0.9, 0.98),
            fused=True,
        )
    ]
    if inner:
        made.append(Muon(inner, recipe.lr, weight_decay=recipe.weight_decay))
    return made


def _epoch(
    model: nn.Module,
    feed: Feed,
    recipe: EpochRecipe,
    optimizers: list[torch.optim.Optimizer],
    number: int,
    shown: Progress,
    tested: float,
) -> Epoch:
    """Train for one epoch, and show it with the accuracy of the last test."""
    model.train()
    device, steps = _place(model), feed.steps(number)
    parameters = [p for p in model.parameters() if p.requires_grad]
    with Ahead(feed, number) as ahead:
        sums = _Sums(number, device)

        def line() -> str:
            so_far = replace(sums.epoch(ahead.waited), test_accuracy=tested)
            return _line(so_far, recipe.epochs, feed.unit)

        for step, batch in enumerate(ahead):
            outcome = feed.outcome(model, _moved(batch, device))
            outcome.loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(parameters, recipe.clip)
            done = (number + (step + 1) / steps) / recipe.epochs
            rate = recipe.rate(done)
            for optimizer in optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = rate
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            sums.add(outcome)
            shown.at(line, done)
    epoch = sums.epoch(ahead.waited)
    if not math.isfinite(epoch.loss):
        raise InputError(
            f"the loss of epoch {number + 1} is not finite",
            epoch.loss,
            "Train with a smaller lr, in another folder.",
        )
    return epoch


class _Sums:
    """Sums over an epoch so far; those of losses stay on the device until somebody looks."""

    def __init__(self, number: int, device: torch.device) -> None:
        self._number = number
        self._loss, self._right = torch.zeros((), device=device), torch.zeros((), device=device)
        self._count = self._units = 0
        self._begin = time.perf_counter()

    def add(self, outcome: Outcome) -> None:
        """Count a batch."""
        self._loss += outcome.loss.detach() * outcome.count
        self._right += outcome.right
        self._count += outcome.count
        self._units += outcome.units

    def epoch(self, waited: float) -> Epoch:
        """What the epoch has come to, without a test; `waited` are its seconds of waiting."""
        seconds = time.perf_counter() - self._begin
        return Epoch(
            self._number,
            float(self._loss) / self._count,
            float(self._right) / self._count,
            math.nan,
            math.nan,
            seconds,
            waited / seconds,
            self._units / seconds,
        )


def _line(epoch: Epoch, epochs: int, unit: str) -> str:
    """Where training stands, for people."""
    tested = math.isfinite(epoch.test_accuracy)
    return " · ".join(
        [
            f"epoch {epoch.number + 1}/{epochs}",
            f"loss {epoch.loss:.3f}",
            f"accuracy {100 * epoch.accuracy:.1f} %",
            *([f"test {100 * epoch.test_accuracy:.1f} %"] if tested else []),
            f"{epoch.speed:,.0f} {unit}/s",
        ]
    )


def _settings(model: nn.Module, feed: Feed, recipe: EpochRecipe) -> dict[str, dict[str, object]]:
    sizes: Any = getattr(model, "settings", None)
    known = {} if sizes is None else asdict(sizes)
    asked = {name: value for name, value in asdict(recipe).items() if name != "threads"}
    return {
        "model": {"class": type(model).__name__, **known},
        "recipe": asked,
        "data": feed.facts(),
    }


def _machine(model: nn.Module, threads: int) -> dict[str, object]:
    """What the last bits of a sum depend on."""
    return {"threads": threads, "device": str(_place(model)), "torch": str(torch.__version__)}


def _tell_changes(before: Mapping[str, object], now: Mapping[str, object]) -> None:
    changed = [
        f"{name} {before[name]} then, {value} now"
        for name, value in now.items()
        if name in before and before[name] != value
    ]
    if changed:
        said = "training goes on, but not to the same bits as without the break: "
        warnings.warn(said + "; ".join(changed), AccuracyWarning, stacklevel=3)


def _before(
    place: Path | None, settings: Mapping[str, Mapping[str, object]]
) -> store.Checkpoint | None:
    found = store.saved(place) if place is not None else []
    if not found:
        return None
    before = store.read(found[-1])
    store.require_same(before, settings, found[-1])
    return before


@contextmanager
def _fitting(place: Path | None) -> Iterator[None]:
    """A StoreError for a checkpoint that is whole and does not hold what this run needs."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as problem:
        said = f"{type(problem).__name__}: {store.first_line(problem)}"
        what = f"the last checkpoint does not fit the run ({said})"
        raise StoreError(what, place, store.DELETE) from problem


def _place(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def _moved(batch: Batch, device: torch.device) -> Batch:
    return batch[0].to(device), batch[1].to(device)


def _autocast(precision: str, model: nn.Module) -> torch.autocast:
    kind = _place(model).type
    return torch.autocast(kind, torch.bfloat16, enabled=precision == "bfloat16")
