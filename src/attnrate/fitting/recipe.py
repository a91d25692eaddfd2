"""How to train: `paper` (PyTorch's defaults, Adam, until the loss stops falling), `strong`, `warm`.

`strong` is SOAP (Adam in the eigenbasis of Shampoo) with warm-up, decay, clipping and batches that
grow: early steps need direction, late ones precision. `warm` starts from the compiled Transformer,
and so takes smaller steps.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Annotated, Literal, TypeGuard

import torch

from attnrate.errors import InputError, hint, require_number, require_whole
from attnrate.fitting.job import Plain, plain
from attnrate.settings import Count, Natural, Positive, Table, by, changed, checked, checked_fields

#: Weights hold 3e38 at most, and optimisers take up to 20 times the step size
LARGEST_RATE = 1e30


@checked_fields("recipe.")
@dataclass(frozen=True)
class Recipe:
    """All settings of a fit.

    The step size is lr, warmed up over `warmup` steps and then, with decay="linear", falling to
    zero at `steps`. Batches have `first_batch` sequences in the first half and `batch` after it.
    The fit ends early when the error on validation inputs, looked at every `check_every` steps, has
    not fallen by the share `gain` within `patience` looks. A run that diverges, or whose step falls
    to zero while it is no better than a constant, is begun again with a third of the step size,
    `retries` times. With start="compiled" a Transformer begins at the one that the proof constructs
    for its head size, not at its own weights. Of `starts` such fits from other weights and other
    data the best is taken; a compiled start differs in data alone.
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

    def rate(self, step: int, scale: float) -> float:
        """The step size at `step`, counted from 0."""
        warm = min(1.0, (step + 1) / (self.warmup + 1))
        falling = 1.0 if self.decay == "none" else 1.0 - step / self.steps
        return self.lr * scale * warm * falling

    def batch_at(self, step: int) -> int:
        """How many sequences the batch at `step` has."""
        return self.first_batch if step < self.steps // 2 else self.batch

    @property
    def sequences(self) -> int:
        """How many sequences a fit trains on, over all of its steps and starts."""
        first = self.steps // 2
        return self.starts * (first * self.first_batch + (self.steps - first) * self.batch)


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


#: A recipe, or the name of one
RecipeLike = Annotated[Recipe | str, by(_require_recipe)]


@checked
def as_recipe(recipe: RecipeLike, **changes: object) -> Recipe:
    """A recipe from its name or itself, with some settings changed; InputError for a wrong one."""
    chosen = RECIPES[recipe] if isinstance(recipe, str) else recipe
    return changed(chosen, changes, "recipe")


def recipe_of(settings: Table) -> Recipe:
    """The recipe called `name` ("strong" if there is no name), with its other settings changed."""
    name = settings.get("name", STRONG.name)
    if not _is_name(name):
        raise InputError("recipe.name is not known", name, hint(str(name), RECIPES))
    return changed(RECIPES[name], settings, "recipe")


def complete_recipe(settings: Table) -> Plain:
    """The recipe's settings with all defaults spelled out, in plain values."""
    full: Plain = plain("recipe", asdict(recipe_of(settings)))
    return full


def make_optimizer(
    recipe: Recipe, parameters: Iterable[torch.nn.Parameter]
) -> torch.optim.Optimizer:
    """The optimiser of a recipe; its step size is set before every step."""
    if recipe.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=recipe.lr)
    from pytorch_optimizer import SOAP

    return SOAP(
        parameters, lr=recipe.lr, betas=(0.95, 0.95), weight_decay=0.0, precondition_frequency=10
    )
