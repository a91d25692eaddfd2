"""Training over a data set in epochs: resumable bit for bit, with batches made ahead.

The optimiser is AdamW, or Muon for the matrices inside the layers and AdamW for the rest. The step
size is warmed up and falls along a cosine; gradients are clipped; norms and biases do not decay.
"""

import math
import os
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

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
from attnrate.training.history import Epoch, Training, read_epochs
from attnrate.training.machine import fast_precision, kept_memory
from attnrate.training.muon import Muon

Precision: TypeAlias = Literal["auto", "float32", "bfloat16"]


def _require_from_zero(name: str, value: object, below: float = math.inf) -> float:
    number = require_number(name, value)
    if not 0 <= number < below:
        raise InputError(f"{name} is out of range", value, "Pass 0.05, say.")
    return number


@checked_fields("recipe.")
@dataclass(frozen=True)
class EpochRecipe:
    """How to train over a data set in epochs.

    A run that is resumed keeps its precision, and its threads unless others are given: both change
    the last bits of a sum.

    Args:
        epochs: The number of passes over the data.
        lr: The largest step size. The default suits Muon; AdamW alone wants about 1e-3. It ends at
            a hundredth of this.
        warmup: The share of all steps in which the step size grows from 0, from 0 to 1.
        weight_decay: The weight decay of matrices.
        clip: The largest norm of the gradient; a larger one is scaled down to it.
        optimizer: "muon" for the matrices inside the layers, with AdamW for the rest; "adamw" for
            all.
        precision: "float32", "bfloat16", or "auto" for bfloat16 where this machine multiplies
            matrices at least 1.3 times faster with it.
        threads: The number of torch's threads; all cores by default.
        seed: The seed of the batches and of dropout.

    Examples:
        >>> recipe = ar.EpochRecipe(epochs=10, warmup=0.1)
        >>> recipe.rate(0.1)
        0.005

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
        """The step size at a point of the training.

        Args:
            done: The share of all steps that are done, from 0 to 1.

        Returns:
            The step size of the next step.

        """
        if done < self.warmup:
            return self.lr * done / self.warmup
        fallen = (done - self.warmup) / (1 - self.warmup)
        return self.lr * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * fallen)))


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
    """Train a model for the epochs of a recipe.

    Args:
        model: The model, which is trained itself.
        feed: The data to train on.
        recipe: How to train.
        test: Data to test with after every epoch, if any.
        folder: Where a checkpoint is written after every epoch. A run that finds checkpoints goes
            on from the last one; what a killed run had done of its last epoch is done again, to the
            same bits on the same machine.
        device: Where to train.
        progress: As `Progress` takes it.
        until: The number of epochs, in all, after which this call ends; the recipe's by default.
            The plan of the step size stays that of the recipe.

    Returns:
        The finished training.

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
        before_threads = facts.get("machine", {}).get("threads")
        if before_threads is not None:
            before_threads = as_threads("threads", before_threads)
    wanted = None if recipe.precision == "auto" else recipe.precision
    precision = facts.get("precision") or wanted or fast_precision(_place(model))
    threads = recipe.threads or before_threads or torch.get_num_threads()
    begun = len(history) / recipe.epochs
    shown = Progress("the first batch", begun, wanted=progress, name="train", lasting=True)
    with kept_memory(), torch_threads(threads), torch.random.fork_rng(), shown:
        torch.manual_seed(spread(recipe.seed))
        if before is not None:
            with _fitting(place):
                store.restore(before, model, optimizers)
            _warn_of_changes(facts.get("machine", {}), _machine(model, threads))
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
    """The mean loss and accuracy of a model over a feed, in evaluation mode.

    Afterwards the model is in the mode in which it was before.
    """
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
    """The optimisers of a model: Muon, if asked for, for matrices inside layers; AdamW for others.

    Only matrices decay.
    """
    kinds = {id(p): part for part in model.modules() for p in part.parameters(recurse=False)}
    inner, decaying, others = [], [], []
    for name, parameter in model.named_parameters():
        part = kinds[id(parameter)]
        if not parameter.requires_grad:
            continue
        # two axes do not make a matrix: positions and the rates of a state space have two as well
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
    """Train for one epoch; the progress line also has the accuracy of the last test."""
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
    """The sums over an epoch so far; those of losses stay on the device until they are shown."""

    def __init__(self, number: int, device: torch.device) -> None:
        self._number = number
        self._loss, self._right = torch.zeros((), device=device), torch.zeros((), device=device)
        self._count = self._units = 0
        self._begin = time.perf_counter()

    def add(self, outcome: Outcome) -> None:
        """Add the outcome of a batch."""
        self._loss += outcome.loss.detach() * outcome.count
        self._right += outcome.right
        self._count += outcome.count
        self._units += outcome.units

    def epoch(self, waited: float) -> Epoch:
        """The epoch so far, without a test; `waited` is the number of seconds of waiting."""
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
    """The state of the training as a line for people."""
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
    """The facts about the machine that the last bits of a sum depend on."""
    return {"threads": threads, "device": str(_place(model)), "torch": str(torch.__version__)}


def _warn_of_changes(before: Mapping[str, object], now: Mapping[str, object]) -> None:
    changed = [
        f"{name} {before[name]} then, {value} now"
        for name, value in now.items()
        if name in before and before[name] != value
    ]
    if changed:
        said = "training goes on, but its last bits will differ from those without the break: "
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
    """Raise a StoreError for a checkpoint that is whole but does not fit this run."""
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
