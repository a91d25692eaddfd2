"""The training loop: from given weights until the steps are done or the error is flat."""

import copy
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import nn

from attnrate.errors import InputError
from attnrate.fitting.recipe import Recipe, make_optimizer
from attnrate.targets import Target
from attnrate.targets.seeds import generator

#: Sequences for watching a fit
_WATCHED = 512
#: Seeds of inputs are spread so that training, watching and judging never share any
_TRAINING, _WATCHING, JUDGING = 1 << 40, 1 << 41, 1 << 42
#: Leaves room for all of these, and for the seeds of further starts
LARGEST_SEED = (1 << 62) - 1
#: An error so many times that of the first look has diverged
_EXPLODED = 1e4
#: A run is stuck when, in so many last looks at least and half of all, its error has not fallen by
#: this share, and is no smaller than this part of what the best constant has
_LOOKS, _MOVED, _NOTHING = 20, 0.05, 0.95


@dataclass(frozen=True)
class Look:
    """The error on the watched inputs at one moment of a fit, and which start it belongs to.

    `seconds` are of training in this start, with those of its attempts that diverged.
    """

    step: int
    seconds: float
    error: float
    start: int = 0


class Plateau:
    """When an error has stopped falling: not by the share `gain` in all within `patience` looks.

    The fall is counted from the last mark, not from look to look, so that a slow one counts.
    """

    def __init__(self, gain: float, patience: int) -> None:
        self._gain, self._patience = gain, patience
        self._mark, self._since = math.inf, 0

    def sees(self, error: float) -> bool:
        """Whether, with this look, the error is on a plateau."""
        if error < self._mark * (1 - self._gain):
            self._mark, self._since = error, 0
            return False
        self._since += 1
        return self._since >= self._patience


@dataclass
class Run:
    """A training run; filled in as it goes. `lowest` is the watched error of the weights kept."""

    model: nn.Module
    lowest: float
    curve: list[Look] = field(default_factory=list)
    seconds: float = 0.0
    steps: int = 0
    stopped: str = "steps"

    @property
    def diverged(self) -> bool:
        """Whether the error became infinite, or much larger than it was at the first look."""
        return self.stopped == "diverged"

    @property
    def height(self) -> float:
        """What runs are compared by; one that diverged never wins."""
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
    """Train `model` itself, with `scale` times the recipe's step sizes; on the CPU at the end.

    The weights that had the least error when looked at, or the first ones, are kept. Looks count
    their seconds from `spent`. The time of looking is not counted.
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
    # with a step that does not fall, the last step is only where somebody stopped
    if run.stopped == "steps" and recipe.decay != "none" and _stuck(run.curve, watched.spread):
        run.stopped = "stuck"
    model.load_state_dict(kept)
    model.cpu().eval()
    return run


def training_batches(target: Target, recipe: Recipe, seed: int) -> Iterator[torch.Tensor]:
    """What a fit with this seed is trained on, a batch a step."""
    drawn = generator(_TRAINING + seed)
    for step in range(recipe.steps):
        yield target.inputs.draw(recipe.batch_at(step), target.length, drawn).float()


def _stuck(curve: list[Look], spread: float) -> bool:
    """Whether nothing was learned and nothing would be: the error was flat for the second half."""
    errors = [look.error for look in curve]
    first, last = errors[: len(errors) // 2], errors[len(errors) // 2 :]
    if len(first) < _LOOKS:
        return False
    return min(last) > max(_NOTHING * spread, (1 - _MOVED) * min(first))


class _Watched:
    """Inputs that are not trained on, and what the target makes of them."""

    def __init__(self, target: Target, seed: int, place: torch.device) -> None:
        x = target.sample(_WATCHED, _WATCHING + seed, torch.float32)
        self.truth = target(x.double()).float().to(place)
        self.x = x.to(place)
        #: The error of the best constant
        self.spread = _error(self.truth, self.truth.mean((0, 1)))

    def error(self, model: nn.Module) -> float:
        """The mean squared error of the model, which is in training again afterwards."""
        with torch.no_grad():
            found = model.eval()(self.x)
        model.train()
        if found.shape != self.truth.shape:
            raise InputError(
                f"the model must give the shape of the target's values, {tuple(self.truth.shape)}",
                tuple(found.shape),
                f"Make it for out = {self.truth.shape[-1]} coordinates.",
            )
        return _error(found, self.truth)


def _error(found: torch.Tensor, truth: torch.Tensor) -> float:
    """E mean_t |H_t - Ĥ_t|², as final errors are: a sum over coordinates."""
    return float((found - truth).square().sum(-1).mean())


class _Clock:
    """Seconds between two laps, with all that a GPU was told to do in them."""

    def __init__(self, place: torch.device) -> None:
        self._place = place
        self._last = time.perf_counter()

    def lap(self) -> float:
        """The seconds since the last lap."""
        if self._place.type == "cuda":
            torch.cuda.synchronize(self._place)
        before, self._last = self._last, time.perf_counter()
        return self._last - before
