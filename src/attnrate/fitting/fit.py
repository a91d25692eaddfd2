"""Fit one model to one target: train it by a recipe, then measure its error on fresh inputs."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, Unpack, cast

import torch
from torch import nn
from typing_extensions import TypeVar

from attnrate.errors import InputError
from attnrate.fitting.device import torch_threads
from attnrate.fitting.given import (
    Device,
    GivenTarget,
    Model,
    Seed,
    Threads,
    initial,
    require_model,
)
from attnrate.fitting.recipe import Recipe, RecipeChanges, RecipeLike, as_recipe
from attnrate.fitting.train import JUDGING, Look, Run, train
from attnrate.fitting.warm import compiled_within
from attnrate.progress import QUIET, Progress
from attnrate.settings import by, checked
from attnrate.shown import Shown
from attnrate.targets import ErrorEstimate, Target, error_of
from attnrate.words import Wanted

if TYPE_CHECKING:
    import pandas as pd

    from attnrate.figures.drawing import Drawing

__all__ = ["Fit", "fit", "initial", "judged"]

#: Sequences for the final error
_JUDGED = 8192

#: The class of the model, which a fit keeps for type checkers
M = TypeVar("M", bound=nn.Module, default=nn.Module)
M_co = TypeVar("M_co", bound=nn.Module, default=nn.Module, covariant=True)


@dataclass(frozen=True, repr=False)
class Fit(Shown, Generic[M_co]):
    """A trained model with its error and the course of its training.

    Attributes:
        error: The mean squared error E mean_t |H_t - Ĥ_t|² on 8,192 fresh sequences; nan if every
            attempt diverged.
        standard_error: The standard error of `error`, from the scatter over these sequences.
        seconds: Seconds of training, without measurements, over all starts and attempts.
        steps: Optimiser steps over all starts and attempts.
        stopped: Why the training of the best start ended: "steps" (all were made), "plateau" (the
            error stopped falling), "stuck" (no better than a constant, with smaller steps too) or
            "diverged".
        seed: The seed from which weights, training data and test data follow.
        recipe: The recipe, with all changes.
        learning_rate: The largest step size of the best start; smaller than `recipe.lr` if the
            run was begun again with smaller steps.
        starts: The least watched error of every start; nan where it diverged.
        curve: The measurements of the watched error in the best start.
        model: The trained model of the best start, in float32 on the CPU. Type checkers know its
            class: a fit of a `LinearRNN` is a `Fit[LinearRNN]`, and `Fit` alone is one of any
            torch module.

    Examples:
        >>> target = ar.linear_target("exponential", 8)
        >>> found = ar.fit(target, lambda: ar.LinearRNN(1, 1, hidden=8), steps=100)
        >>> found
        mse ... ± ... by strong, seed 0: 100 steps, ... s, stopped: steps
        >>> found.to_frame().columns.to_list()
        ['step', 'seconds', 'error']

    """

    error: float
    standard_error: float
    seconds: float
    steps: int
    stopped: Literal["steps", "plateau", "stuck", "diverged"]
    seed: int
    recipe: Recipe
    learning_rate: float
    starts: tuple[float, ...]
    curve: tuple[Look, ...]
    model: M_co

    @property
    def diverged(self) -> bool:
        """Whether every attempt diverged. Such a fit must not enter an average."""
        return self.stopped == "diverged"

    def seconds_to(self, error: float) -> float | None:
        """Return the seconds of training after which the watched error first reached a value.

        Args:
            error: The watched error to reach.

        Returns:
            Seconds within the best start; None if the error was never that small.

        """
        return next((look.seconds for look in self.curve if look.error <= error), None)

    @property
    def outcome(self) -> dict[str, Any]:
        """Error, time and steps in plain values; the error of a diverged fit is None."""
        return {
            "error": self.error if math.isfinite(self.error) else None,
            "standard_error": self.standard_error if math.isfinite(self.standard_error) else None,
            "seconds": self.seconds,
            "steps": self.steps,
            "stopped": self.stopped,
        }

    @property
    def summary(self) -> dict[str, Any]:
        """All numbers in plain values; None for what is not a number."""
        return {
            **self.outcome,
            "learning_rate": self.learning_rate,
            "starts": [None if math.isnan(error) else error for error in self.starts],
            "curve": [[look.step, look.seconds, look.error] for look in self.curve],
        }

    def to_frame(self) -> "pd.DataFrame":
        """Return the curve as a table: step, seconds of training, watched error."""
        import pandas as pd

        rows = [(look.step, look.seconds, look.error) for look in self.curve]
        return pd.DataFrame(rows, columns=["step", "seconds", "error"])

    def plot(self) -> "Drawing":
        """Draw the watched error over the steps, and the final error on fresh inputs."""
        from attnrate.figures.draw import draw
        from attnrate.figures.figure import Curves, Figure, Line, Series

        steps = tuple(look.step for look in self.curve)
        errors = tuple(look.error for look in self.curve)
        lines = () if self.diverged else (Line("error on fresh inputs", y=self.error),)
        panel = Curves(
            "",
            "optimiser step",
            "mean squared error",
            (Series("error on watched inputs", steps, errors),),
            y_scale="log" if any(error > 0 for error in errors) else "linear",
            lines=lines,
        )
        title = f"{type(self.model).__name__}, recipe {self.recipe.name}, seed {self.seed}"
        return draw(Figure("fit", title, str(self), (panel,)))

    def _figure(self) -> "Drawing | None":
        return self.plot() if self.curve else None

    def __str__(self) -> str:
        best = f"best of {len(self.starts)} starts, " if len(self.starts) > 1 else ""
        course = f"{self.steps:,} steps, {self.seconds:.1f} s"
        if self.diverged:
            return (
                f"diverged: every attempt by {self.recipe.name}, seed {self.seed}, the last with "
                f"lr {self.learning_rate:.1e} ({course}); there is no error"
            )
        return (
            f"mse {self.error:.3e} ± {self.standard_error:.1e} by {self.recipe.name}, {best}seed "
            f"{self.seed}: {course}, stopped: {self.stopped}"
        )


@checked
def fit(
    target: GivenTarget,
    model: Annotated[M | Callable[[], M], by(require_model)],
    recipe: RecipeLike = "strong",
    seed: Seed = 0,
    threads: Threads = 1,
    device: Device = "cpu",
    watch: Callable[[Look], object] | None = None,
    progress: Wanted = None,
    **changes: Unpack[RecipeChanges],
) -> Fit[M]:
    """Train a model on a target and measure its error on fresh inputs.

    The model is trained by minimising the mean squared error on inputs that are drawn anew for each
    step. The weights with the least error on 512 watched sequences are kept, and judged on 8,192
    others. Training, watching and judging never share inputs, and all of them follow from the seed.
    A run that diverges, or that learns nothing, begins again with smaller steps (see `Recipe`).

    Args:
        target: What to approximate: an `AttentionTarget`, a `LinearTarget`, or any `Target`.
        model: A torch module, of which a copy is trained; or a function without arguments that
            makes one, which is called under the seed, so that the weights follow from it too.
        recipe: How to train: "strong" (the default), "paper", "warm", or a `Recipe`.
        seed: The seed, from 0. With `starts=k` the i-th start, counted from 0, is the fit with the
            seed `seed + (i << 32)`.
        threads: Number of threads of torch.
        device: The torch device to train on, as "cuda". The result is on the CPU.
        watch: A function that is called with every `Look` at the watched error.
        progress: None shows a live line on a terminal or in a notebook once the fit has taken a
            second; True prints lines elsewhere too, False shows nothing.
        **changes: Settings of the recipe to change, as steps=500; `Recipe` lists them.

    Returns:
        The trained model with its error.

    Raises:
        InputError: If an argument or a setting of the recipe is wrong.

    Examples:
        >>> target = ar.linear_target("exponential", 8)
        >>> found = ar.fit(target, lambda: ar.LinearRNN(1, 1, hidden=8), steps=200)
        >>> found.error < 1e-3
        True
        >>> found.stopped
        'steps'

    """
    chosen = as_recipe(recipe, **changes)
    place = torch.device(device)
    if chosen.starts > 1 and isinstance(model, nn.Module):
        raise InputError(
            "starts from other weights need a function that makes the model",
            type(model).__name__,
            "Pass a function without arguments, as lambda: LinearRNN(1, 1); or starts=1.",
        )
    errors, seconds, steps = [], 0.0, 0
    best: _Start | None = None
    begun = f"training by {chosen.name}, {chosen.steps * chosen.starts:,} steps"
    with torch_threads(threads), Progress(begun, wanted=progress, after=QUIET) as shown:

        def look_at(look: Look) -> None:
            done = look.start * chosen.steps + look.step
            whole = chosen.starts * chosen.steps
            text = f"training, step {done:,} of {whole:,} · error {look.error:.2e}"
            shown.at(text, done / whole)
            if watch is not None:
                watch(look)

        for index in range(chosen.starts):
            start = _started(target, model, chosen, seed, index, place, look_at)
            errors.append(math.nan if start.run.diverged else start.run.lowest)
            seconds, steps = seconds + start.run.seconds, steps + start.steps
            if best is None or start.run.height < best.run.height:
                best = start
        assert best is not None
        error = judged(best.run.model, target, best.seed, progress=progress)
    lost = best.run.diverged
    return Fit(
        error=math.nan if lost else error.value,
        standard_error=math.nan if lost else error.standard_error,
        seconds=seconds,
        steps=steps,
        stopped=best.run.stopped,
        seed=seed,
        recipe=chosen,
        learning_rate=chosen.lr * best.scale,
        starts=tuple(errors),
        curve=tuple(best.run.curve),
        model=cast(M, best.run.model),
    )


def judged(
    model: nn.Module,
    target: Target,
    seed: int,
    dtype: torch.dtype = torch.float32,
    progress: bool | None = False,
) -> ErrorEstimate:
    """The error of a model on the fresh inputs by which fits with this seed are judged."""
    return error_of(model, target, _JUDGED, JUDGING + seed, dtype=dtype, progress=progress)


@dataclass(frozen=True)
class _Start:
    """One start of a fit: its seed, the step size of its best attempt, the steps of all of them."""

    seed: int
    scale: float
    steps: int
    run: Run


def _started(
    target: Target,
    model: Model,
    recipe: Recipe,
    seed: int,
    index: int,
    place: torch.device,
    watch: Callable[[Look], object],
) -> _Start:
    """Train from the weights and data of one start, with smaller steps while it fails."""

    def tell(look: Look) -> None:
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
        # if all attempts diverged, the last one counts
        if best is None or run.height <= best[1].height:
            best = scale, run
        if run.stopped not in ("diverged", "stuck"):
            break
    assert best is not None
    scale, run = best
    run.seconds = seconds
    run.curve = [replace(look, start=index) for look in run.curve]
    return _Start(seed, scale, steps, run)
