"""One model on one target: train by a recipe, measure the error on fresh inputs."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from attnrate.errors import InputError, require_whole
from attnrate.fitting.device import as_device, as_threads, torch_threads
from attnrate.fitting.recipe import Recipe, RecipeLike, as_recipe
from attnrate.fitting.train import JUDGING, LARGEST_SEED, Look, Run, train
from attnrate.fitting.warm import compiled_within
from attnrate.targets import ErrorEstimate, Target, error_of
from attnrate.targets.seeds import spread

#: Sequences for the final error
_JUDGED = 8192


@dataclass(frozen=True)
class Fit:
    """A trained model and how it came about.

    `error` is the mean squared error on fresh inputs, `stopped` why training ended: "steps",
    "plateau", "stuck" (no better than a constant, with smaller steps too) or "diverged". `starts`
    has the least watched error of every start, nan where it diverged. `seconds` (training without
    looking) and `steps` are sums over all starts and all attempts, also those that failed;
    everything else is of the best start, the one returned.
    """

    error: float
    standard_error: float
    seconds: float
    steps: int
    stopped: str
    seed: int
    recipe: Recipe
    learning_rate: float
    starts: tuple[float, ...]
    curve: tuple[Look, ...] = field(repr=False)
    model: nn.Module = field(repr=False)

    @property
    def diverged(self) -> bool:
        """Whether every attempt diverged; such a fit must not enter an average."""
        return self.stopped == "diverged"

    def seconds_to(self, error: float) -> float | None:
        """The time in the best start until its watched error was first <= `error`, or None."""
        return next((look.seconds for look in self.curve if look.error <= error), None)

    @property
    def outcome(self) -> dict[str, Any]:
        """How it went, in plain values: a diverged fit has the error None."""
        return {
            "error": self.error if math.isfinite(self.error) else None,
            "standard_error": self.standard_error if math.isfinite(self.standard_error) else None,
            "seconds": self.seconds,
            "steps": self.steps,
            "stopped": self.stopped,
        }

    @property
    def summary(self) -> dict[str, Any]:
        """All numbers in plain values, None for what is not a number."""
        return {
            **self.outcome,
            "learning_rate": self.learning_rate,
            "starts": [None if math.isnan(error) else error for error in self.starts],
            "curve": [[look.step, look.seconds, look.error] for look in self.curve],
        }

    def __str__(self) -> str:
        best = f"best of {len(self.starts)} starts, " if len(self.starts) > 1 else ""
        return (
            f"mse {self.error:.3e} ± {self.standard_error:.1e} by {self.recipe.name}, {best}seed "
            f"{self.seed}: {self.steps:,} steps, {self.seconds:.1f} s, stopped: {self.stopped}"
        )


def fit(
    target: Target,
    model: nn.Module | Callable[[], nn.Module],
    recipe: RecipeLike = "strong",
    seed: object = 0,
    threads: object = 1,
    device: object = "cpu",
    watch: Callable[[Look], object] | None = None,
    **changes: object,
) -> Fit:
    """Train `model` on `target`; the model passed in is left as it is, a copy is trained.

    `model` may be a function that makes one: it is called under `seed`, so that weights and data
    both follow from the seed. Settings of the recipe can be changed by name (steps=500). With
    starts=k the best of k such fits is returned, by the error that was watched; the i-th of them,
    counted from 0, is the fit with the seed `seed + (i << 32)`.

    It trains on `device`; the result is on the CPU, in float32 as trained. `watch` is told of every
    look at the error.
    """
    chosen = as_recipe(recipe, **changes)
    number = require_whole("seed", seed, 0, LARGEST_SEED)
    workers = as_threads("threads", threads)
    place = as_device(device)
    if chosen.starts > 1 and isinstance(model, nn.Module):
        raise InputError(
            "starts from other weights need a function that makes the model",
            type(model).__name__,
            "Pass a function without arguments, as lambda: LinearRNN(1, 1); or starts=1.",
        )
    errors, seconds, steps = [], 0.0, 0
    best: _Start | None = None
    with torch_threads(workers):
        for index in range(chosen.starts):
            start = _started(target, model, chosen, number, index, place, watch)
            errors.append(math.nan if start.run.diverged else start.run.lowest)
            seconds, steps = seconds + start.run.seconds, steps + start.steps
            if best is None or start.run.height < best.run.height:
                best = start
        assert best is not None
        error = judged(best.run.model, target, best.seed)
    lost = best.run.diverged
    return Fit(
        error=math.nan if lost else error.value,
        standard_error=math.nan if lost else error.standard_error,
        seconds=seconds,
        steps=steps,
        stopped=best.run.stopped,
        seed=number,
        recipe=chosen,
        learning_rate=chosen.lr * best.scale,
        starts=tuple(errors),
        curve=tuple(best.run.curve),
        model=best.run.model,
    )


def judged(
    model: nn.Module, target: Target, seed: int, dtype: torch.dtype = torch.float32
) -> ErrorEstimate:
    """The error on the fresh inputs by which fits with this seed are judged."""
    return error_of(model, target, _JUDGED, JUDGING + seed, dtype=dtype)


def initial(model: nn.Module | Callable[[], nn.Module], seed: int) -> nn.Module:
    """A copy of a model, or what a function makes with the random numbers of `seed`."""
    if isinstance(model, nn.Module):
        return copy.deepcopy(model)
    if not callable(model):
        raise InputError("model must be a torch module, or a function that makes one", model)
    with torch.random.fork_rng(devices=[]):
        # not torch.manual_seed, which would also change the caller's random numbers on a GPU
        torch.default_generator.manual_seed(spread(seed))
        made = model()
    if not isinstance(made, nn.Module):
        raise InputError("model must be a torch module, or a function that makes one", made)
    return copy.deepcopy(made)


@dataclass(frozen=True)
class _Start:
    """A start after its last attempt: its seed and step size, and the steps of all attempts."""

    seed: int
    scale: float
    steps: int
    run: Run


def _started(
    target: Target,
    model: nn.Module | Callable[[], nn.Module],
    recipe: Recipe,
    seed: int,
    index: int,
    place: torch.device,
    watch: Callable[[Look], object] | None,
) -> _Start:
    """Train from the weights and data of one start, with smaller steps while it fails."""

    def tell(look: Look) -> None:
        if watch is not None:
            watch(replace(look, start=index))

    seed += index << 32
    first = initial(model, seed)
    if recipe.start == "compiled":
        first = compiled_within(target, first)
    first = first.float()
    if not any(p.requires_grad for p in first.parameters()):
        raise InputError("the model has nothing to train", type(first).__name__)
    seconds, steps = 0.0, 0
    best: tuple[float, Run] | None = None
    for attempt in range(recipe.retries + 1):
        scale = 3.0**-attempt
        run = train(target, copy.deepcopy(first), recipe, seed, place, scale, tell, seconds)
        seconds, steps = run.seconds, steps + run.steps
        # of attempts that all diverged the last is told
        if best is None or run.height <= best[1].height:
            best = scale, run
        if run.stopped not in ("diverged", "stuck"):
            break
    assert best is not None
    scale, run = best
    run.seconds = seconds
    run.curve = [replace(look, start=index) for look in run.curve]
    return _Start(seed, scale, steps, run)
