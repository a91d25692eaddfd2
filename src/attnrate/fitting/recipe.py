"""Recipes: the settings of a fit. `paper`, `strong` and `warm` are the ones that have a name.

`paper` is Adam with PyTorch's defaults until the error stops falling. `strong` is SOAP (Adam in the
eigenbasis of Shampoo) with warm-up, decay, clipping and growing batches: early steps need a
direction, late steps need precision. `warm` starts from the compiled Transformer and takes smaller
steps.
"""

from dataclasses import asdict, dataclass
from typing import Annotated, Literal, TypeGuard, Unpack

from pydantic import ConfigDict, SkipValidation, with_config
from typing_extensions import TypedDict

from attnrate.errors import InputError, hint, require_number, require_whole
from attnrate.fitting.job import Plain, plain
from attnrate.settings import (
    Count,
    Natural,
    Positive,
    Table,
    by,
    changed,
    checked,
    checked_fields,
    names_within,
)
from attnrate.shown import Shown

#: float32 holds 3e38 at most, and optimisers take up to 20 times the step size
LARGEST_RATE = 1e30


@checked_fields()
@dataclass(frozen=True, repr=False)
class Recipe(Shown):
    """The settings of a fit: optimiser, step size, batches, when to stop, how often to begin again.

    `ar.fit(target, model, "strong", steps=800)` takes a recipe by its name and changes some of its
    settings; a `Recipe` of your own can stand in place of the name. The defaults below are those of
    the recipe `strong`.

    Attributes:
        name: The name of the recipe, for results and tables.
        optimizer: "soap" (Adam in the eigenbasis of Shampoo) or "adam".
        lr: The largest step size of the optimiser.
        steps: The number of optimiser steps of one start.
        batch: Sequences per step in the second half of the steps.
        first_batch: Sequences per step in the first half of the steps.
        warmup: Steps over which the step size grows from 0 to `lr`.
        decay: How the step size changes after the warm-up: "linear" falls to 0 at the last step,
            "none" stays at `lr`.
        clip: The largest norm of a gradient; longer gradients are scaled down to it.
        check_every: Steps between two measurements of the error on the 512 watched sequences. The
            weights with the least watched error are kept.
        patience: The fit ends early, on a plateau, after this many measurements in a row without
            enough improvement (see `gain`).
        gain: The share by which the watched error has to fall within `patience` measurements for
            the fit to go on.
        retries: How often a run that diverged, or that is still no better than a constant, begins
            again, each time with a third of the step size.
        start: "model" begins with the weights of the model, "compiled" with the Transformer that
            the proof constructs for its head size; that needs a Transformer of the form of Eq. 5.
        starts: Number of fits from different weights and data; the best one is returned. Compiled
            starts differ in their data only.

    Examples:
        >>> recipe = ar.Recipe("mine", lr=3e-3, steps=400, starts=2)
        >>> recipe
        recipe mine: soap, lr 0.003 (50 steps of warm-up, linear decay), 400 steps of 32, then 128
        sequences, 2 starts
        >>> recipe.sequences
        64000

    """

    name: str
    optimizer: Literal["adam", "soap"] = "soap"
    lr: Annotated[float, by(require_number, 0.0, LARGEST_RATE)] = 1e-2
    steps: Count = 2400
    batch: Count = 128
    first_batch: Count = 32
    warmup: Natural = 50
    decay: Literal["none", "linear"] = "linear"
    clip: Positive = 1.0
    check_every: Count = 50
    patience: Count = 1000
    gain: Positive = 0.01
    retries: Natural = 2
    start: Literal["model", "compiled"] = "model"
    starts: Annotated[int, by(require_whole, 1, 100)] = 1

    def rate(self, step: int, scale: float = 1.0) -> float:
        """Return the step size at one step.

        Args:
            step: The step, counted from 0.
            scale: A factor for `lr`; runs that are begun again have smaller ones.

        """
        warm = min(1.0, (step + 1) / (self.warmup + 1))
        falling = 1.0 if self.decay == "none" else 1.0 - step / self.steps
        return self.lr * scale * warm * falling

    def batch_at(self, step: int) -> int:
        """Return the number of sequences in the batch of one step.

        Args:
            step: The step, counted from 0.

        """
        return self.first_batch if step < self.steps // 2 else self.batch

    @property
    def sequences(self) -> int:
        """The number of sequences that a fit trains on, over all steps and starts."""
        first = self.steps // 2
        return self.starts * (first * self.first_batch + (self.steps - first) * self.batch)

    def __str__(self) -> str:
        warm = f"{self.warmup} steps of warm-up, " if self.warmup else ""
        decay = "linear decay" if self.decay == "linear" else "constant"
        same = self.first_batch == self.batch
        batches = f"{self.batch}" if same else f"{self.first_batch}, then {self.batch}"
        more = f", {self.starts} starts" if self.starts > 1 else ""
        more += ", from the compiled Transformer" if self.start == "compiled" else ""
        return (
            f"recipe {self.name}: {self.optimizer}, lr {self.lr:g} ({warm}{decay}), "
            f"{self.steps:,} steps of {batches} sequences{more}"
        )


@with_config(ConfigDict(extra="allow"))
class RecipeChanges(TypedDict, total=False):
    """Settings of a recipe by name: what `fit` and `bracket` take after their own arguments.

    Every setting is optional; those that are left out stay as the recipe has them. `Recipe` says
    what each of them means and which values it takes.

    Examples:
        >>> quick: ar.RecipeChanges = {"steps": 40, "check_every": 20}
        >>> target = ar.linear_target("exponential", 8)
        >>> ar.fit(target, lambda: ar.LinearRNN(1, 1, hidden=4), **quick).steps
        40

    """

    # `Recipe` checks the values, and names them as settings of the recipe
    name: SkipValidation[str]
    optimizer: SkipValidation[Literal["adam", "soap"]]
    lr: SkipValidation[float]
    steps: SkipValidation[int]
    batch: SkipValidation[int]
    first_batch: SkipValidation[int]
    warmup: SkipValidation[int]
    decay: SkipValidation[Literal["none", "linear"]]
    clip: SkipValidation[float]
    check_every: SkipValidation[int]
    patience: SkipValidation[int]
    gain: SkipValidation[float]
    retries: SkipValidation[int]
    start: SkipValidation[Literal["model", "compiled"]]
    starts: SkipValidation[int]


#: Sec. 5.1: "Adam, until the loss stops falling"
PAPER = Recipe(
    "paper",
    optimizer="adam",
    lr=1e-3,
    steps=20_000,
    first_batch=128,
    warmup=0,
    decay="none",
    clip=1e9,
    check_every=250,
    patience=12,
)
STRONG = Recipe("strong")
WARM = Recipe("warm", lr=1e-3, start="compiled")
RECIPES = {recipe.name: recipe for recipe in (PAPER, STRONG, WARM)}


def _is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value in RECIPES


def _require_recipe(name: str, recipe: object) -> object:
    if not isinstance(recipe, Recipe) and not _is_name(recipe):
        raise InputError(f"{name} must be a Recipe or a name", recipe, hint(str(recipe), RECIPES))
    return recipe


RecipeLike = Annotated[Recipe | Literal["paper", "strong", "warm"], by(_require_recipe)]
"""A recipe, or the name of one."""


@checked
def as_recipe(recipe: RecipeLike = "strong", **changes: Unpack[RecipeChanges]) -> Recipe:
    """Take a recipe by its name and change some of its settings.

    Args:
        recipe: "paper", "strong" or "warm", or a `Recipe`.
        **changes: Settings that differ from the recipe's, by name.

    Returns:
        The recipe with these settings.

    Raises:
        InputError: If the recipe or a setting is not known, or a value is wrong.

    Examples:
        >>> ar.as_recipe("paper", lr=3e-4).lr
        0.0003

    """
    chosen = RECIPES[recipe] if isinstance(recipe, str) else recipe
    return changed(chosen, {**changes}, "recipe")


def recipe_of(settings: Table) -> Recipe:
    """The recipe of a table of settings: the one called `name` ("strong" by default), changed."""
    name = settings.get("name", STRONG.name)
    if not _is_name(name):
        raise InputError("recipe.name is not known", name, hint(str(name), RECIPES))
    with names_within("recipe."):
        return changed(RECIPES[name], settings, "recipe")


def complete_recipe(settings: Table) -> Plain:
    """The recipe's settings with all defaults spelled out, in plain values."""
    full: Plain = plain("recipe", asdict(recipe_of(settings)))
    return full
