"""Training one model on real data as a task: train, judge, look at its spectra, fine-tune.

Table 1's altered order is fine-tuned from the weights of the same task, so that no task needs
another. Epochs are kept under the cache until the result is stored: a killed task goes on at its
last epoch. Data that cannot be had end in a result with the reason, not in a failure.
"""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from torch import nn

from attnrate.data.registry import FetchError
from attnrate.errors import InputError
from attnrate.experiments.experiment import MISSING
from attnrate.experiments.real_spectra import spectra_of, spectra_plain, untrained_plain
from attnrate.files import alone
from attnrate.fitting.fit import initial
from attnrate.fitting.trial import Trial
from attnrate.models.rivals import Scanner, scanner_like
from attnrate.models.seq2seq import Seq2SeqSettings
from attnrate.models.vit import ViT, ViTSettings, vit_settings
from attnrate.targets.alter import MOVED, move_to_end
from attnrate.terminal import say
from attnrate.training.checkpoint import ConfigurationError
from attnrate.training.epochs import EpochRecipe, Training
from attnrate.training.epochs_kept import training_folder
from attnrate.training.images import (
    JUDGED,
    ImageErrors,
    Photographs,
    error_on_tests,
    judged,
    photographs,
    trained_on,
)

#: What a step is like; the rivals' matrices are not those that Muon is for
RECIPES: dict[str, dict[str, Any]] = {
    "attention": {"optimizer": "muon", "lr": 5e-3},
    "rival": {"optimizer": "adamw", "lr": 2e-3},
}
#: The settings of a recipe that say what a step is like
_STEP = ("optimizer", "lr", "warmup", "weight_decay", "clip")
#: Fine-tuning begins at a smaller step, or it would forget what it starts from
TUNING_RATE = 0.3
_DIGITS = 6


def with_data(trial: Trial, work: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """The work with a folder for its checkpoints; {"missing": reason} without data.

    The folder stays until the result is stored, so that no kill loses more than an epoch. Epochs
    that another version has trained with other settings are of no use, and are deleted.
    """
    folder = training_folder(trial.key)
    with alone(folder.with_suffix(".lock"), wait=True):
        try:
            kept: dict[str, Any] = rounded(_with_own_epochs(work, folder))
        except FetchError as problem:
            return {MISSING: str(problem)}
    return kept


def _with_own_epochs(work: Callable[[Path], dict[str, Any]], folder: Path) -> dict[str, Any]:
    try:
        return work(folder)
    except ConfigurationError as problem:
        say(f"epochs of an earlier version are deleted and trained again: {problem}")
        shutil.rmtree(folder)
        return work(folder)


def rounded(value: Any) -> Any:
    """Plain values with so many digits as mean something; NaN is None."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if np.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(entry) for entry in value]
    return value


def image_work(trial: Trial) -> dict[str, Any]:
    """One model of CIFAR-10's images, as `settings` of the trial say (see `image_settings`)."""
    asked = trial.target

    def work(folder: Path) -> dict[str, Any]:
        return train_on(
            photographs(asked["train"], asked["test"]), asked["image"], trial.seed, folder
        )

    return with_data(trial, work)


def image_settings(kind: str = "attention", **changes: Any) -> dict[str, Any]:
    """What a task is told; `profiled` and `tuned` are 0 for what is not wanted.

    `kind` is "attention", "gru" or "state-space", the last two with about as many parameters as the
    ViT of `model`. `altered`: trained on Table 1's order from the beginning. `tuned`: so many
    epochs of fine-tuning on that order, and as many more on the original one, so that what is
    compared was trained for as long; what the model does without any is told as well.
    """
    first = {
        "kind": kind,
        "model": {},
        "recipe": recipe_of(kind),
        "rival_layers": 3,
        "altered": False,
        "moved": MOVED,
        "judged": JUDGED,
        "epochs": 3,
        "batch": 128,
        "tuned": 0,
        "profiled": 0,
    }
    return completed("images", first, changes, vit_settings)


def completed(
    what: str,
    first: Mapping[str, Any],
    changes: Mapping[str, Any],
    sizes: Callable[..., ViTSettings | Seq2SeqSettings],
) -> dict[str, Any]:
    """The settings of a task in full, so that another preset or recipe is another task."""
    unknown = changes.keys() - first.keys()
    if unknown:
        raise InputError(f"a task on {what} has no such setting", sorted(unknown))
    return {**first, **changes, "model": asdict(sizes(**changes.get("model", {})))}


def recipe_of(kind: str) -> dict[str, Any]:
    """What a step is like for this kind of model in full, fine-tuning included."""
    like = EpochRecipe(**RECIPES["attention" if kind == "attention" else "rival"])
    return {**{name: getattr(like, name) for name in _STEP}, "tuning_rate": TUNING_RATE}


def train_on(
    data: Photographs, asked: Mapping[str, Any], seed: int, folder: Path
) -> dict[str, Any]:
    """Train, judge, profile and fine-tune; plain values."""
    sizes = vit_settings(**asked["model"])
    order = tuple(move_to_end(sizes.tokens, asked["moved"]))

    def make(altered: bool) -> ViT | Scanner:
        return _model(asked, replace(sizes, order=order) if altered else sizes, seed)

    model = make(asked["altered"])
    shown = data.test_images[: asked["profiled"]]
    before = untrained_plain(spectra_of(model, shown)) if asked["profiled"] else None
    done = trained_on(
        data, model, asked["batch"], recipe(asked, asked["epochs"], seed), folder / "first"
    )
    values = {
        **with_epochs(judged(done.model, data, asked["judged"]), done),
        "parameters": model.parameter_count(),
        "images": len(data.train_images),
        "tests": len(data.test_images),
    }
    if before is not None:
        values["spectra"] = {**spectra_plain(spectra_of(done.model, shown)), **before}
    if asked["tuned"]:

        def tune(model: nn.Module, gentle: EpochRecipe, way: str) -> dict[str, Any]:
            tuned = trained_on(data, model, asked["batch"], gentle, folder / way)
            return with_epochs(judged(tuned.model, data, asked["judged"]), tuned)

        def as_it_is(model: nn.Module) -> dict[str, Any]:
            return {"test_error": error_on_tests(model, data)}

        values |= fine_tuned(asked, seed, done.model, make, as_it_is, tune)
    return values


def fine_tuned(
    asked: Mapping[str, Any],
    seed: int,
    trained: nn.Module,
    make: Callable[[bool], nn.Module],
    as_it_is: Callable[[Any], dict[str, Any]],
    tune: Callable[[Any, EpochRecipe, str], dict[str, Any]],
) -> dict[str, Any]:
    """What comes of the trained weights in both orders: trained on in the original one
    ("continued") and in the altered one ("tuned"), and there as they are ("untuned").

    `make` makes a model of the altered order or of the original.
    """
    gentle = recipe(asked, asked["tuned"], seed, tuning=True)
    values = {}
    for way, altered in (("continued", False), ("tuned", True)):
        model = make(altered)
        model.load_state_dict(trained.state_dict())
        if altered:
            values["untuned"] = as_it_is(model)
        values[way] = tune(model, gentle, way)
    return values


def _model(asked: Mapping[str, Any], sizes: ViTSettings, seed: int) -> ViT | Scanner:
    def made() -> ViT | Scanner:
        if asked["kind"] == "attention":
            return ViT(sizes)
        return scanner_like(sizes, asked["kind"], asked["rival_layers"])

    return cast(ViT | Scanner, initial(made, seed))


def recipe(asked: Mapping[str, Any], epochs: int, seed: int, tuning: bool = False) -> EpochRecipe:
    """The recipe of a task, in one precision on every machine, so that results compare."""
    like = dict(asked["recipe"])
    gentler = like.pop("tuning_rate")
    like["lr"] *= gentler if tuning else 1.0
    return EpochRecipe(epochs=epochs, precision="float32", seed=seed, **like)


def with_epochs(scores: ImageErrors, done: Training) -> dict[str, Any]:
    """Scores in plain values, with the time and the epochs."""
    return {**vars(scores), "seconds": done.seconds, "epochs": history(done)}


def history(done: Training) -> list[dict[str, Any]]:
    """Every epoch in plain values; test values are of a few tests only."""
    return [asdict(each) for each in done.summaries]
