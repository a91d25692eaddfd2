"""How to train: `paper` (PyTorch's defaults, Adam, until the loss stops falling), `strong`, `warm`.

`strong` is SOAP (Adam in the eigenbasis of Shampoo) with warm-up, decay, clipping and batches that
grow: early steps need direction, late ones precision. `warm` starts from the compiled Transformer,
and so takes smaller steps.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Literal

import torch

from attnrate.errors import InputError, require_choice, require_whole
from attnrate.targets.checks import require_number

Optimizer = Literal["adam", "soap"]
_CHOICES = {
    "optimizer": ("adam", "soap"),
    "decay": ("none", "linear"),
    "start": ("model", "compiled"),
}
_NUMBERS = ("clip", "gain")
#: Weights hold 3e38 at most, and optimisers take up to 20 times the step size
LARGEST_RATE = 1e30
#: Whole numbers, the least and the most of each
_WHOLE: dict[str, tuple[int, int | None]] = {
    **dict.fromkeys(("steps", "batch", "first_batch", "check_every", "patience"), (1, None)),
    **dict.fromkeys(("warmup", "retries"), (0, None)),
    "starts": (1, 100),
}


def _check(name: str, value: object) -> None:
    if name in _CHOICES:
        require_choice(f"recipe.{name}", value, _CHOICES[name])
    elif name == "lr":
        require_number("recipe.lr", value, above=0.0, most=LARGEST_RATE)
    elif name in _NUMBERS:
        require_number(f"recipe.{name}", value, above=0.0)
    elif name in _WHOLE:
        require_whole(f"recipe.{name}", value, *_WHOLE[name])


@dataclass(frozen=True)
class Recipe:
    """All settings of a fit.

    The step size is lr, warmed up over `warmup` steps and then, with decay="linear", falling to
    zero at `steps`. Batches have `first_batch` sequences in the first half and `batch` after it.
    The fit ends early when the error on validation inputs, looked at every `check_every` steps, has
    not fallen by the share `gain` within `patience` looks. A run that diverges, or whose step falls
    to zero while it is no better than a constant, is begun again with a third of the step size,
    `retries` times. With start="compiled" a Transformer begins at the
    one that the proof constructs for its head size, not at its own weights. Of `starts` such fits
    from other weights and other data the best is taken; a compiled start differs in data alone.
    """

    name: str
    optimizer: Optimizer = "soap"
    lr: float = 1e-2
    steps: int = 2400
    batch: int = 128
    first_batch: int = 32
    warmup: int = 50
    decay: Literal["none", "linear"] = "linear"
    clip: float = 1.0
    check_every: int = 50
    patience: int = 1000
    gain: float = 0.01
    retries: int = 2
    start: Literal["model", "compiled"] = "model"
    starts: int = 1

    def __post_init__(self) -> None:
        for setting in fields(self):
            _check(setting.name, getattr(self, setting.name))

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


def as_recipe(recipe: object, **changes: object) -> Recipe:
    """A recipe from its name or itself, with some settings changed."""
    if isinstance(recipe, str):
        require_choice("recipe", recipe, tuple(RECIPES))
        recipe = RECIPES[recipe]
    if not isinstance(recipe, Recipe):
        raise InputError(
            "recipe must be a Recipe or a name", recipe, f"Names: {', '.join(RECIPES)}."
        )
    known = {f.name for f in fields(Recipe)}
    for name, value in changes.items():
        if name not in known:
            raise InputError(
                f"recipes have no setting {name!r}", value, f"They have {sorted(known)}."
            )
        _check(name, value)
    return replace(recipe, **changes)  # type: ignore[arg-type]


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
