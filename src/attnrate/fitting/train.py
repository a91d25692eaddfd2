"""The training loop: from given weights until the steps are done or the error is flat."""

import copy
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import nn

from attnrate.fitting.optimizers import make_optimizer
from attnrate.fitting.recipe import Recipe
from attnrate.targets import Target
from attnrate.targets.error import outputs
from attnrate.targets.seeds import generator

#: Number of sequences on which a fit is watched
_WATCHED = 512
#: Offsets of seeds, so that training, watching and judging never share inputs
_TRAINING, _WATCHING, JUDGING = 1 << 40, 1 << 41, 1 << 42
#: The largest seed of a fit; it leaves room for these offsets and for further starts
LARGEST_SEED = (1 << 62) - 1
#: A run has diverged when its error is this many times that of the first look
_EXPLODED = 1e4
#: A run is stuck when its error has not fallen by the share _MOVED in the second half of its looks,
#: at least _LOOKS of them, and is not below _NOTHING times the error of the best constant
_LOOKS, _MOVED, _NOTHING = 20, 0.05, 0.95


@dataclass(frozen=True)
class Look:
    """One measurement of the error on the watched inputs during a fit.

    Attributes:
        step: The number of optimiser steps so far.
        seconds: Seconds of training in this start, those of its diverged attempts included.
        error: The mean squared error on the watched inputs.
        start: The start of the fit, counted from 0.

    Examples:
        >>> seen = []
        >>> target = ar.linear_target("exponential", 4)
        >>> model = ar.LinearRNN(1, 1, hidden=2)
        >>> _ = ar.fit(target, model, steps=20, check_every=10, watch=seen.append)
        >>> [look.step for look in seen]
        [10, 20]

    """

    step: int
    seconds: float
    error: float
    start: int = 0


class Plateau:
    """Detects that an error has stopped falling: by less than `gain` within `patience` looks.

    The fall is counted from the last mark, not from look to look, so that a slow fall counts.
    """

    def __init__(self, gain: float, patience: int) -> None:
        self._gain, self._patience = gain, patience
        self._mark, self._since = math.inf, 0

    def sees(self, error: float) -> bool:
        """Take the error of the next look; return whether it is on a plateau."""
        if error < self._mark * (1 - self._gain):
            self._mark, self._since = error, 0
            return False
        self._since += 1
        return self._since >= self._patience


@dataclass
class Run:
    """A training run, filled in as it goes. `lowest` is the watched error of the kept weights."""

    model: nn.Module
    lowest: float
    curve: list[Look] = field(default_factory=list)
    seconds: float = 0.0
    steps: int = 0
    stopped: Literal["steps", "plateau", "stuck", "diverged"] = "steps"

    @property
    def diverged(self) -> bool:
        """Whether the error became infinite, or much larger than at the first look."""
        return self.stopped == "diverged"

    @property
    def height(self) -> float:
        """The watched error by which runs are compared; infinite for one that diverged."""
        return math.inf if self.diverged else self.lowest


def train(
    target: Target,
    model: nn.Module,
    recipe: Recipe,
    seed: int,
    place: torch.device,
    scale: float,
    watch: Callable[[Look], object],
    spent: float = 0.0,
) -> Run:
    """Train `model` in place, with `scale` times the recipe's step sizes.

    At the end the model is on the CPU, with the weights that had the least watched error (perhaps
    the first ones). Seconds are counted from `spent`, without the time of measuring errors.
    """
    model = model.to(place).train()
    optimizer = make_optimizer(recipe, [p for p in model.parameters() if p.requires_grad])
    watched = _Watched(target, seed, place)
    run = Run(model, watched.error(model), seconds=spent)
    kept = copy.deepcopy(model.state_dict())
    plateau = Plateau(recipe.gain, recipe.patience)
    clock = _Clock(place)
    for step, x in enumerate(training_batches(target, recipe, seed)):
        loss = nn.functional.mse_loss(model(x.to(place)), target(x).to(place))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate(step, scale)
        run.steps = step + 1
        try:
            optimizer.step()
        # SOAP decomposes what it has of the gradients, and fails when they are not finite
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
            run.seconds += clock.lap()
            run.stopped = "diverged"
            break
        if run.steps % recipe.check_every and run.steps < recipe.steps:
            continue
        run.seconds += clock.lap()
        look = Look(run.steps, run.seconds, watched.error(model))
        first = run.curve[0] if run.curve else look
        if not math.isfinite(look.error) or look.error > _EXPLODED * first.error:
            run.stopped = "diverged"
            break
        run.curve.append(look)
        watch(look)
        if not look.error >= run.lowest:
            run.lowest, kept = look.error, copy.deepcopy(model.state_dict())
        if plateau.sees(look.error):
            run.stopped = "plateau"
            break
        clock.lap()
    # a constant step size could go on learning after the last step
    if run.stopped == "steps" and recipe.decay != "none" and _stuck(run.curve, watched.spread):
        run.stopped = "stuck"
    model.load_state_dict(kept)
    model.cpu().eval()
    return run


def training_batches(target: Target, recipe: Recipe, seed: int) -> Iterator[torch.Tensor]:
    """The inputs that a fit with this seed is trained on, one batch per step."""
    drawn = generator(_TRAINING + seed)
    for step in range(recipe.steps):
        yield target.inputs.draw(recipe.batch_at(step), target.length, drawn).float()


def _stuck(curve: list[Look], spread: float) -> bool:
    """Whether nothing was learned: the error is that of a constant, and flat in the second half."""
    errors = [look.error for look in curve]
    first, last = errors[: len(errors) // 2], errors[len(errors) // 2 :]
    if len(first) < _LOOKS:
        return False
    return min(last) > max(_NOTHING * spread, (1 - _MOVED) * min(first))


class _Watched:
    """The watched inputs, which are not trained on, and the values of the target there."""

    def __init__(self, target: Target, seed: int, place: torch.device) -> None:
        x = target.sample(_WATCHED, _WATCHING + seed, torch.float32)
        self.truth = target(x.double()).float().to(place)
        self.x = x.to(place)
        #: The error of the best constant
        self.spread = _error(self.truth, self.truth.mean((0, 1)))

    def error(self, model: nn.Module) -> float:
        """The mean squared error of the model, which is set to training mode afterwards."""
        with torch.no_grad():
            found = outputs(model.eval(), self.x, self.truth.shape)
        model.train()
        return _error(found, self.truth)


def _error(found: torch.Tensor, truth: torch.Tensor) -> float:
    """E mean_t |H_t - Ĥ_t|², a sum over the coordinates of an output, as in final errors."""
    return float((found - truth).square().sum(-1).mean())


class _Clock:
    """Seconds between two laps, including the work that a GPU has queued."""

    def __init__(self, place: torch.device) -> None:
        self._place = place
        self._last = time.perf_counter()

    def lap(self) -> float:
        """The seconds since the last lap."""
        if self._place.type == "cuda":
            torch.cuda.synchronize(self._place)
        before, self._last = self._last, time.perf_counter()
        return self._last - before
