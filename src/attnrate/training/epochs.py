"""Training over a data set in epochs: resumable bit for bit, with batches made ahead.

One step is AdamW, or Muon for the matrices inside the layers and AdamW for the rest; the step size
is warmed up and falls along a cosine, gradients are clipped, norms and biases do not decay.
"""

import math
import os
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

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
from attnrate.fitting.device import as_device, as_threads
from attnrate.fitting.recipe import LARGEST_RATE
from attnrate.targets.seeds import spread
from attnrate.training import checkpoint as store
from attnrate.training.epoch_progress import Moment, make_epoch_progress
from attnrate.training.feed import Ahead, Batch, Feed
from attnrate.training.memory import kept_memory
from attnrate.training.muon import Muon
from attnrate.typed import require_types

_MODES = {"optimizer": ("muon", "adamw"), "precision": ("auto", "float32", "bfloat16")}
#: A lower precision must be this many times faster before it is taken
_WORTH = 1.3


@dataclass(frozen=True)
class EpochRecipe:
    """How to train; `warmup` is a share of all steps, the step size ends at lr / 100.

    The default lr is one for Muon; AdamW alone wants about 1e-3. precision="auto" takes bfloat16
    where the machine multiplies matrices at least 1.3 times faster with it. `threads` are those of
    torch, all cores by default. A run that is resumed keeps its precision, and its threads unless
    others are asked for: both change the last bits of a sum.
    """

    epochs: int = 20
    lr: float = 5e-3
    warmup: float = 0.05
    weight_decay: float = 0.05
    clip: float = 1.0
    optimizer: Literal["muon", "adamw"] = "muon"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    threads: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for each in fields(self):
            _check(each.name, getattr(self, each.name))

    def rate(self, done: float) -> float:
        """The step size when the share `done` of the training is behind."""
        if done < self.warmup:
            return self.lr * done / self.warmup
        fallen = (done - self.warmup) / (1 - self.warmup)
        return self.lr * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * fallen)))


def _check(name: str, value: object) -> None:
    if name in _MODES:
        require_choice(f"recipe.{name}", value, _MODES[name])
    elif name == "epochs":
        require_whole("recipe.epochs", value, 1)
    elif name == "threads":
        if value is not None:
            as_threads("recipe.threads", value)
    elif name == "seed":
        require_whole("recipe.seed", value, 0, (1 << 62) - 1)
    elif name == "lr":
        require_number("recipe.lr", value, above=0.0, most=LARGEST_RATE)
    elif name == "clip":
        require_number("recipe.clip", value, above=0.0)
    elif require_number(f"recipe.{name}", value) < 0 or (name == "warmup" and not value < 1):  # type: ignore[operator]
        raise InputError(f"recipe.{name} is out of range", value, "Pass 0.05, say.")


def as_epoch_recipe(recipe: object = None) -> EpochRecipe:
    """The recipe, or the default one."""
    recipe = EpochRecipe() if recipe is None else recipe
    if not isinstance(recipe, EpochRecipe):
        raise InputError("recipe must be an EpochRecipe", recipe)
    return recipe


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
        return tuple(
            EpochSummary(
                each.loss,
                each.accuracy,
                None if math.isnan(each.test_loss) else each.test_loss,
                None if math.isnan(each.test_accuracy) else each.test_accuracy,
                each.seconds,
            )
            for each in self.epochs
        )


def train_epochs(
    model: nn.Module,
    feed: Feed,
    recipe: object = None,
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
    recipe = as_epoch_recipe(recipe)
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
        history = [Epoch(**each) for each in facts.get("history", [])]
        for epoch in history:
            require_types(epoch)
        if facts.get("precision") is not None:
            require_choice("precision", facts["precision"], ("float32", "bfloat16"))
        told = facts.get("machine", {}).get("threads")
        told = None if told is None else as_threads("threads", told)
    precision = facts.get("precision") or _precision(recipe, model)
    threads = recipe.threads or told or torch.get_num_threads()
    show = make_epoch_progress(progress, feed.unit, recipe.epochs)
    with kept_memory(), _threads(threads), torch.random.fork_rng(), show:
        torch.manual_seed(spread(recipe.seed))
        if before is not None:
            with _fitting(place):
                store.restore(before, model, optimizers)
            _tell_changes(facts.get("machine", {}), _machine(model, threads))
        for number in range(len(history), last):
            with _autocast(precision, model):
                done = _epoch(model, feed, recipe, optimizers, number, show.tell)
                judged = (math.nan, math.nan) if test is None else evaluate(model, test)
            history.append(replace(done, test_loss=judged[0], test_accuracy=judged[1]))
            show.ended(history[-1].test_accuracy)
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
    tell: Any,
) -> Epoch:
    model.train()
    device, steps = _place(model), feed.steps(number)
    parameters = [p for p in model.parameters() if p.requires_grad]
    loss_sum, right = torch.zeros((), device=device), torch.zeros((), device=device)
    count = units = 0
    begin = time.perf_counter()
    with Ahead(feed, number) as ahead:
        for step, batch in enumerate(ahead):
            outcome = feed.outcome(model, _moved(batch, device))
            outcome.loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(parameters, recipe.clip)
            rate = recipe.rate((number + (step + 1) / steps) / recipe.epochs)
            for optimizer in optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = rate
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            loss_sum += outcome.loss.detach() * outcome.count
            right += outcome.right
            count += outcome.count
            units += outcome.units
            seconds = time.perf_counter() - begin
            tell(Moment(number, (step + 1) / steps, seconds, units, loss_sum, right, count))
    loss = float(loss_sum) / count
    if not math.isfinite(loss):
        raise InputError(
            f"the loss of epoch {number + 1} is not finite",
            loss,
            "Train with a smaller lr, in another folder.",
        )
    seconds = time.perf_counter() - begin
    accuracy = float(right) / count
    waiting = ahead.waited / seconds
    return Epoch(number, loss, accuracy, math.nan, math.nan, seconds, waiting, units / seconds)


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
        said = (str(problem).strip().splitlines() or [""])[0][:200]
        raise StoreError(
            f"the last checkpoint does not fit the run ({type(problem).__name__}: {said})",
            place,
            "Delete it; an older one in the same folder is taken then.",
        ) from problem


def _place(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def _moved(batch: Batch, device: torch.device) -> Batch:
    return batch[0].to(device), batch[1].to(device)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _autocast(precision: str, model: nn.Module) -> torch.autocast:
    kind = _place(model).type
    return torch.autocast(kind, torch.bfloat16, enabled=precision == "bfloat16")


def _precision(recipe: EpochRecipe, model: nn.Module) -> str:
    if recipe.precision != "auto":
        return recipe.precision
    gain = _seconds(torch.float32, _place(model)) / _seconds(torch.bfloat16, _place(model))
    return "bfloat16" if gain >= _WORTH else "float32"


def _seconds(dtype: torch.dtype, device: torch.device) -> float:
    """The best of three products of two matrices, after one that warms up."""
    # on a GPU a small one would take as long in any precision: the time of its start
    size = 256 if device.type == "cpu" else 4096
    x = torch.ones(size, size, dtype=dtype, device=device)
    times = []
    for _ in range(4):
        begin = time.perf_counter()
        (x @ x)[0, 0].item()
        times.append(time.perf_counter() - begin)
    return min(times[1:])
