"""From the plain settings of a trial to its target, model and recipe, and to complete settings."""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from attnrate.errors import require_whole
from attnrate.fitting.job import Sized, canonical
from attnrate.fitting.recipe import Recipe, complete_recipe, recipe_of
from attnrate.fitting.train import LARGEST_SEED
from attnrate.fitting.trial import Trial
from attnrate.fitting.warm import compiled_within
from attnrate.models.build import build_model, complete_model
from attnrate.targets import Target
from attnrate.targets.build import build_target, complete_target
from attnrate.targets.error import outputs


def complete(trials: Iterable[Trial]) -> list[Sized[Trial]]:
    """The trials with all of their settings and their sizes, after building each part once.

    With all settings, a key stands for what is computed and not for the defaults of one version.
    Building finds a wrong setting now instead of in the middle of a sweep. The size of a trial is
    its number of parameters times the number of tokens it trains on: roughly the cost of the fit.
    """
    targets: dict[str, Target] = {}
    sizes: dict[str, int] = {}
    warm: set[str] = set()
    completed: list[Sized[Trial]] = []
    for trial in trials:
        target_settings = complete_target(trial.target)
        model_settings = complete_model(trial.model)
        recipe = recipe_of(trial.recipe)
        of_target = canonical(target_settings)
        if of_target not in targets:
            targets[of_target] = build_target(target_settings)
        target = targets[of_target]
        of_model = canonical([model_settings, target.d, target.out, target.length])
        if of_model not in sizes:
            sizes[of_model] = _tried(model_settings, target)
        of_both = canonical([target_settings, model_settings])
        if recipe.start == "compiled" and of_both not in warm:
            compiled_within(target, _trial_model(model_settings, target))
            warm.add(of_both)
        seed = require_whole("seed", trial.seed, 0, LARGEST_SEED)
        whole = Trial(target_settings, model_settings, complete_recipe(trial.recipe), seed)
        tokens = target.length * recipe.sequences
        completed.append(Sized(whole, sizes[of_model] * tokens))
    return completed


def _tried(settings: Mapping[str, Any], target: Target) -> int:
    """The number of parameters of the model, after it has read two inputs of the target."""
    model = _trial_model(settings, target).eval()
    with torch.no_grad():
        outputs(model, target.sample(2, 0, torch.float32), (2, target.length, target.out))
    return sum(p.numel() for p in model.parameters())


def _trial_model(settings: Mapping[str, Any], target: Target) -> torch.nn.Module:
    """A model for checks; the random state of the caller does not change."""
    with torch.random.fork_rng(devices=[]):
        return build_model(settings, target)


def build(trial: Trial) -> tuple[Target, Callable[[], torch.nn.Module], Recipe]:
    """The target, a function that makes the model (`fit` calls it under a seed), and the recipe."""
    target = build_target(trial.target)
    make_model = functools.partial(build_model, complete_model(trial.model), target)
    return target, make_model, recipe_of(trial.recipe)
