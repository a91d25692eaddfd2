"""Training one model on real data as a task: train, judge, look at its spectra, fine-tune.

Table 1's altered order is fine-tuned from the weights of the same task, so that no task needs
another. Epochs are kept as checkpoints under the cache until the task ends: a killed one goes on at
its last epoch. Data that cannot be had end in a result with the reason, not in a failure.
"""

import itertools
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from jaxtyping import Int, UInt8
from torch import nn

from attnrate.data.registry import FetchError, cache_folder
from attnrate.errors import InputError
from attnrate.experiments.claims import Claim
from attnrate.experiments.experiment import MISSING
from attnrate.fitting.epochs import EpochRecipe, Training, evaluate, train_epochs
from attnrate.fitting.feed import Batch, Feed, Images, Outcome, normalised
from attnrate.fitting.fit import initial
from attnrate.fitting.trial import Trial
from attnrate.models.rivals import Scanner, scanner_like
from attnrate.models.seq2seq import Seq2SeqSettings
from attnrate.models.vit import ViT, ViTSettings, vit_settings
from attnrate.spectra.measures import rank_of
from attnrate.spectra.profile import profile
from attnrate.spectra.result import Profile
from attnrate.targets.alter import move_to_end

#: Table 1: the first so many tokens are moved to the end
MOVED = 10
#: What a step is like; the rivals' matrices are not those that Muon is for
RECIPES: dict[str, dict[str, Any]] = {
    "attention": {"optimizer": "muon", "lr": 5e-3},
    "rival": {"optimizer": "adamw", "lr": 2e-3},
}
#: Fine-tuning begins at a smaller step, or it would forget what it starts from
TUNING_RATE = 0.3
_WATCHED = 1000  # test images after every epoch
_JUDGED = 10_000  # training images that the training error is of
_GROUPS = 8  # of test images, whose mean spectra tell how much depends on the images
_LARGEST = 16  # singular values of which every head's are kept
_BATCH = 250
_DIGITS = 6


@dataclass(frozen=True, eq=False)
class Photographs:
    """Images and labels to train on and to be judged by."""

    train_images: UInt8[np.ndarray, "train 32 32 3"]
    train_labels: Int[np.ndarray, " train"]
    test_images: UInt8[np.ndarray, "test 32 32 3"]
    test_labels: Int[np.ndarray, " test"]


@dataclass(frozen=True, eq=False)
class Parts:
    """A feed whose epochs are parts of another's: checkpoints come `parts` times as often."""

    whole: Feed
    parts: int

    @property
    def unit(self) -> str:
        """What the speed is counted in."""
        return self.whole.unit

    def facts(self) -> dict[str, object]:
        """Those of the whole, and how many parts."""
        return {**self.whole.facts(), "parts": self.parts}

    def steps(self, epoch: int) -> int:
        """Batches of this part."""
        return len(range(epoch % self.parts, self.whole.steps(epoch // self.parts), self.parts))

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Every so manieth batch of the whole."""
        every = self.whole.batches(epoch // self.parts)
        return itertools.islice(every, epoch % self.parts, None, self.parts)

    def outcome(self, model: nn.Module, batch: Batch) -> Outcome:
        """That of the whole."""
        return self.whole.outcome(model, batch)


def with_data(trial: Trial, work: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """The work with a folder for its checkpoints; {"missing": reason} without data.

    The folder goes when the work is done. One that is killed leaves it to the next attempt.
    """
    folder = cache_folder() / "training" / trial.key[:20]
    try:
        values = work(folder)
    except FetchError as problem:
        return {MISSING: str(problem)}
    shutil.rmtree(folder, ignore_errors=True)
    kept: dict[str, Any] = rounded(values)
    return kept


def rounded(value: Any) -> Any:
    """Plain values with so many digits as mean something; NaN is None."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if np.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(entry) for entry in value]
    return value


def photographs(train: int, test: int) -> Photographs:
    """The first images of both splits of CIFAR-10."""
    from attnrate.data.cifar10 import cifar10

    data = cifar10()
    return Photographs(
        np.array(data.train_images[:train]),
        np.array(data.train_labels[:train]),
        np.array(data.test_images[:test]),
        np.array(data.test_labels[:test]),
    )


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
    """What a step is like for this kind of model, fine-tuning included."""
    like = RECIPES["attention" if kind == "attention" else "rival"]
    return {**like, "tuning_rate": TUNING_RATE}


def train_on(
    data: Photographs, asked: Mapping[str, Any], seed: int, folder: Path
) -> dict[str, Any]:
    """Train, judge, profile and fine-tune; plain values."""
    sizes = vit_settings(**asked["model"])
    order = tuple(move_to_end(sizes.tokens, MOVED))
    model = _model(asked, replace(sizes, order=order) if asked["altered"] else sizes, seed)
    before = _spectra(model, data, asked["profiled"]) if asked["profiled"] else None
    done = trained_on(
        data, model, asked["batch"], recipe(asked, asked["epochs"], seed), folder / "first"
    )
    values = {
        **judged(done, data),
        "parameters": model.parameter_count(),
        "images": len(data.train_images),
        "tests": len(data.test_images),
    }
    if before is not None:
        found = _spectra(done.model, data, asked["profiled"])
        values["spectra"] = _spectra_plain(found)
        values["spectra"]["untrained_rank99"] = _ranks(before)
    if asked["tuned"]:
        gentle = recipe(asked, asked["tuned"], seed, tuning=True)
        for way, order_of in (("continued", None), ("tuned", order)):
            other = _model(asked, replace(sizes, order=order_of), seed)
            other.load_state_dict(done.model.state_dict())
            if way == "tuned":
                values["untuned"] = {"test_error": 1 - evaluate(other, _tests(data))[1]}
            tuned = trained_on(data, other, asked["batch"], gentle, folder / way)
            values[way] = judged(tuned, data)
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


def trained_on(
    data: Photographs,
    model: nn.Module,
    batch: int,
    recipe: EpochRecipe,
    folder: Path,
    progress: bool | None = False,
    device: object = "cpu",
) -> Training:
    """Train on the images, with a look at some tests after every epoch."""
    shown = Images(data.train_images, data.train_labels, batch, seed=recipe.seed)
    watched = _judging(data.test_images[:_WATCHED], data.test_labels[:_WATCHED])
    feed = cast(Feed, shown)
    return train_epochs(
        model, feed, recipe, test=watched, folder=folder, progress=progress, device=device
    )


def _judging(images: np.ndarray, labels: np.ndarray) -> Feed:
    # a frozen field is no variable to mypy, which the protocol asks for
    return cast(Feed, Images(images, labels, _BATCH, augment=False))


def _tests(data: Photographs) -> Feed:
    return _judging(data.test_images, data.test_labels)


def judged(done: Training, data: Photographs) -> dict[str, Any]:
    """Errors are shares of wrong answers, those of training on images as they are."""
    seen = _judging(data.train_images[:_JUDGED], data.train_labels[:_JUDGED])
    train_loss, train_right = evaluate(done.model, seen)
    test_loss, test_right = evaluate(done.model, _tests(data))
    return {
        "train_error": 1 - train_right,
        "test_error": 1 - test_right,
        "train_loss": train_loss,
        "test_loss": test_loss,
        "seconds": done.seconds,
        "epochs": history(done),
    }


def history(done: Training) -> list[dict[str, Any]]:
    """Every epoch in plain values; test values are of a few tests only."""
    kept = ("loss", "accuracy", "test_loss", "test_accuracy", "seconds")
    return [{name: asdict(epoch)[name] for name in kept} for epoch in done.epochs]


def _spectra(model: nn.Module, data: Photographs, count: int) -> Profile:
    images = data.test_images[:count]
    batches = [normalised(images[at : at + _BATCH]) for at in range(0, len(images), _BATCH)]
    return profile(model, batches, gauge="none", cut_inputs=0)


def _spectra_plain(found: Profile) -> dict[str, Any]:
    """The first head of the first and of the last layer in full, all heads summed up.

    "groups" are mean spectra of disjoint sets of images, "values" quantiles over images of each
    singular value; both as the paper has them, without the gauge; "all" has such quantiles of the
    largest ones of every head. "mean" has every head's mean
    spectrum, layers by heads by m_h; "gauged" the same without what softmax cannot see.
    """
    last = found.layers[-1].number
    heads = [[(layer.number, head) for head in range(layer.heads)] for layer in found.layers]

    def means(gauge: str) -> list[Any]:
        return [
            [found.sigma(*place, gauge=gauge).mean(0).tolist() for place in row] for row in heads
        ]

    return {
        "first": _head_plain(found, 0),
        "last": _head_plain(found, last),
        "all": [
            [_quantiles(found.sigma(*place)[:, :_LARGEST], 11) for place in row] for row in heads
        ],
        "mean": means("none"),
        "gauged": means("softmax"),
        "rank99": _ranks(found),
        "rank99_gauged": _ranks(found, "softmax"),
    }


def _head_plain(found: Profile, layer: int) -> dict[str, Any]:
    sigma = found.sigma(layer, 0).astype(float)
    ranks = rank_of(sigma, 0.99)
    return {
        "groups": [part.mean(0).tolist() for part in np.array_split(sigma, _GROUPS) if len(part)],
        "values": _quantiles(sigma, 21),
        "variation": (sigma.std(0) / np.maximum(sigma.mean(0), 1e-300)).tolist(),
        "rank99": [float(np.quantile(ranks, share)) for share in (0.05, 0.5, 0.95)],
    }


def _quantiles(sigma: np.ndarray, count: int) -> list[list[float]]:
    """Of every singular value over images, so many from the least to the largest."""
    found: list[list[float]] = np.quantile(sigma, np.linspace(0.0, 1.0, count), axis=0).T.tolist()
    return found


def _ranks(found: Profile, gauge: str = "none") -> list[list[float]]:
    """Per layer and head the median over images of the rank that holds 99 % of the energy."""
    return [
        [
            float(np.median(rank_of(found.sigma(layer.number, head, gauge=gauge), 0.99)))
            for head in range(layer.heads)
        ]
        for layer in found.layers
    ]


def missing(results: Sequence[Any]) -> str | None:
    """Why data could not be had, when that is all that the results say."""
    reasons = _reasons(results)
    return reasons[0] if reasons and len(reasons) == len(results) else None


def gaps(results: Sequence[Any]) -> str:
    """A sentence about those tasks among others whose data could not be had, or nothing."""
    reasons = _reasons(results)
    if not reasons:
        return ""
    return f" {len(reasons)} of {len(results)} models are missing: {reasons[0]}"


def _reasons(results: Sequence[Any]) -> list[str]:
    return [str(one.values[MISSING]) for one in results if MISSING in one.values]


def decided(claims: Sequence[Claim]) -> str:
    """The verdicts that a run came to, in one paragraph; the others are in the table above it."""
    told = [f"{c.statement} {c.verdict.capitalize()}: {c.evidence}" for c in claims]
    kept = [text for text, c in zip(told, claims, strict=True) if c.verdict != "open"]
    return " ".join(kept) or "This run is too small to decide any of the claims."
