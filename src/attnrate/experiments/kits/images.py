"""Jobs that train models on the images of CIFAR-10; Fig. 2, Fig. 3 and Table 1 share them.

Each model is small and sees the images only a few times: its size is chosen to fit the total time,
and nothing is claimed about its being the best model for that time. All models of a preset have the
same value size m_v, so that m_h bounds the rank of the logits and changes nothing else.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
from jaxtyping import UInt8
from torch import nn

from attnrate.experiments.contract import Preset, Results, Work
from attnrate.experiments.kits import real
from attnrate.fitting.fit import initial
from attnrate.fitting.job import Sized
from attnrate.models.rivals import Scanner, scanner_like
from attnrate.models.vit import ViT, ViTSettings
from attnrate.spectra.measures import rank_of
from attnrate.spectra.profile import profile
from attnrate.spectra.result import Profile
from attnrate.targets.alter import move_to_end
from attnrate.training import images
from attnrate.training.epochs import EpochRecipe
from attnrate.training.feed import normalised
from attnrate.training.images import JUDGED, ImageErrors, Photographs
from attnrate.words import Gauge

#: One number per layer and head
Heads = tuple[tuple[float, ...], ...]
#: One spectrum per layer and head
HeadSpectra = tuple[tuple[tuple[float, ...], ...], ...]
T = TypeVar("T")

_GROUPS = 8  # groups of test images; their mean spectra show how much depends on the images
_LARGEST = 16  # number of largest singular values that are kept for every head
_BATCH = 250
#: Images per second on one of two busy cores, and seconds that a job needs besides training
_SPEED, _BESIDES = 400.0, 35.0
_QUICK_SECONDS = 7.0
#: Singular values below this share of the largest are rounding errors; they would stretch an axis
#: over empty decades
ROUNDING = 1e-6
#: Epochs of the models of the full preset, and of their fine-tuning
EPOCHS, TUNED = 3, 1


@dataclass(frozen=True, kw_only=True)
class ImageSettings(real.OrderSettings):
    """Settings of a model of images, and of what is done with it; 0 turns a part off.

    A rival has about as many parameters as the ViT of `model`, in `rival_layers` layers.
    `judged` is the number of training images for the training error, `profiled` the number of
    test images for the spectra.
    """

    model: ViTSettings
    epochs: int = EPOCHS
    rival_layers: int = 3
    judged: int = JUDGED
    batch: int = 128
    profiled: int = 0


@dataclass(frozen=True)
class FirstHead:
    """Spectra over images of the first head of a layer, without the gauge, as in the paper.

    `groups` are mean spectra of disjoint sets of images. `values` are quantiles of each
    singular value over images, and `variation` is its standard deviation divided by its mean.
    `rank99` has the 5 %, 50 % and 95 % quantiles of the rank that holds 99 % of the energy.
    """

    groups: tuple[tuple[float, ...], ...]
    values: tuple[tuple[float, ...], ...]
    variation: tuple[float, ...]
    rank99: tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class Spectra:
    """The spectra of a ViT's logits, by layer and head.

    `all` has quantiles over images of the largest singular values, `mean` the mean spectrum,
    `gauged` the mean spectrum under the softmax gauge. Ranks are medians over images of the
    rank that holds 99 % of the energy. `untrained_last` is the mean spectrum of the last
    layer's first head before training.
    """

    first: FirstHead
    last: FirstHead
    all: tuple[HeadSpectra, ...]
    mean: HeadSpectra
    gauged: HeadSpectra
    rank99: Heads
    rank99_gauged: Heads
    untrained_rank99: Heads
    untrained_last: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class ImageRun(real.Run, ImageErrors):
    """The errors of a model after a training, and how the training went."""


@dataclass(frozen=True)
class Untuned:
    """The error of a model on the altered order, with weights trained on the original one."""

    test_error: float


class ImageOutcome(ImageRun, real.ModelOutcome, kw_only=True):
    """The result of an `Image` job: errors, spectra, and errors after fine-tuning."""

    images: int
    spectra: Spectra | None = None
    continued: ImageRun | None = None
    untuned: Untuned | None = None
    tuned: ImageRun | None = None


class Image(Work, work="fig3.image"):
    """A job that trains one model on the first `train` images and tests it on `test` others."""

    image: ImageSettings
    train: int
    test: int

    @property
    def m_h(self) -> int:
        """The head size."""
        return self.image.model.m_h

    def run(self) -> ImageOutcome:
        """Train, judge, profile and fine-tune the model; finished epochs are kept."""
        return real.with_epochs_kept(
            self.key,
            lambda folder: train_vit(
                images.photographs(self.train, self.test), self.image, self.seed, folder
            ),
        )


def train_vit(data: Photographs, asked: ImageSettings, seed: int, folder: Path) -> ImageOutcome:
    """Train, judge, profile and fine-tune a model, with checkpoints in `folder`."""
    order = tuple(move_to_end(asked.model.tokens, asked.moved))

    def make(altered: bool) -> ViT | Scanner:
        sizes = replace(asked.model, order=order) if altered else asked.model

        def made() -> ViT | Scanner:
            if asked.kind == "attention":
                return ViT(sizes)
            return scanner_like(sizes, asked.kind, asked.rival_layers)

        return cast(ViT | Scanner, initial(made, seed))

    def run(model: nn.Module, recipe: EpochRecipe, way: str) -> ImageRun:
        done = images.train_on_images(
            data, model, recipe, folder / way, batch=asked.batch, progress=False
        )
        found = images.judge_images(model, data, asked.judged)
        return ImageRun(**vars(found), seconds=done.seconds, epochs=done.summaries)

    model = make(asked.altered)
    shown = data.test_images[: asked.profiled]
    before = _spectra(model, shown) if asked.profiled else None
    found = run(model, asked.recipe.over(asked.epochs, seed), "first")
    trained = None if before is None else _kept(_spectra(model, shown), before)
    ways = real.fine_tuned(
        model, asked, seed, make, run, lambda one: Untuned(images.error_on_tests(one, data))
    )
    return ImageOutcome(
        **vars(found),
        parameters=model.parameter_count(),
        images=len(data.train_images),
        tests=len(data.test_images),
        spectra=trained,
        **vars(ways),
    )


def _spectra(model: nn.Module, shown: UInt8[np.ndarray, "batch 32 32 3"]) -> Profile:
    """Profile the logits of a model on these images."""
    batches = [normalised(shown[at : at + _BATCH]) for at in range(0, len(shown), _BATCH)]
    return profile(model, batches, gauge="none", cut_inputs=0)


def _kept(found: Profile, before: Profile) -> Spectra:
    """Reduce the profiles of a model after (`found`) and before training to what is stored."""
    heads = [[(layer.number, head) for head in range(layer.heads)] for layer in found.layers]
    last = heads[-1][0]

    def of_all(of: Callable[[tuple[int, int]], T]) -> tuple[tuple[T, ...], ...]:
        return tuple(tuple(map(of, row)) for row in heads)

    def mean(one: Profile, place: tuple[int, int], gauge: Gauge = "none") -> tuple[float, ...]:
        return tuple(one.sigma(*place, gauge=gauge).mean(0).tolist())

    def rank(one: Profile, place: tuple[int, int], gauge: Gauge = "none") -> float:
        return float(np.median(rank_of(one.sigma(*place, gauge=gauge), 0.99)))

    return Spectra(
        first=_first_head(found, 0),
        last=_first_head(found, last[0]),
        all=of_all(lambda place: _quantiles(found.sigma(*place)[:, :_LARGEST], 11)),
        mean=of_all(lambda place: mean(found, place)),
        gauged=of_all(lambda place: mean(found, place, "softmax")),
        rank99=of_all(lambda place: rank(found, place)),
        rank99_gauged=of_all(lambda place: rank(found, place, "softmax")),
        untrained_rank99=of_all(lambda place: rank(before, place)),
        untrained_last=mean(before, last),
    )


def _first_head(found: Profile, layer: int) -> FirstHead:
    sigma = found.sigma(layer, 0).astype(float)
    low, median, high = np.quantile(rank_of(sigma, 0.99), (0.05, 0.5, 0.95)).tolist()
    return FirstHead(
        tuple(tuple(part.mean(0).tolist()) for part in np.array_split(sigma, _GROUPS) if len(part)),
        _quantiles(sigma, 21),
        tuple((sigma.std(0) / np.maximum(sigma.mean(0), 1e-300)).tolist()),
        (low, median, high),
    )


def _quantiles(sigma: np.ndarray, count: int) -> tuple[tuple[float, ...], ...]:
    """`count` quantiles of each singular value over images, from the least to the largest."""
    found = np.quantile(sigma, np.linspace(0.0, 1.0, count), axis=0).T.tolist()
    return tuple(map(tuple, found))


@dataclass(frozen=True)
class ImagePreset:
    """The models of a preset: their common settings, head sizes, seeds and images."""

    settings: ImageSettings
    sizes: tuple[int, ...]
    seeds: int
    train: int
    test: int
    profiled: int


PRESETS: dict[Preset, ImagePreset] = {
    "quick": ImagePreset(
        ImageSettings(
            model=ViTSettings(width=64, layers=2, m_ff=128, m_v=16),
            epochs=2,
            batch=32,
            rival_layers=2,
        ),
        (1, 4, 16),
        seeds=1,
        train=1_500,
        test=1_000,
        profiled=200,
    ),
    "paper": ImagePreset(
        ImageSettings(model=ViTSettings(width=64, layers=4, m_ff=128, m_v=32), batch=64),
        (1, 2, 4, 8, 16, 32, 64),
        seeds=3,
        train=50_000,
        test=10_000,
        profiled=1_000,
    ),
}


def image_job(
    preset: Preset,
    m_h: int,
    seed: int,
    *,
    kind: real.Kind = "attention",
    recipe: real.Steps | None = None,
    altered: bool = False,
    epochs: int | None = None,
    tuned: int = 0,
    profiled: bool = False,
) -> Sized[Image]:
    """Make the job for a model of the preset; `recipe` defaults to that of its kind."""
    run = PRESETS[preset]
    asked = replace(
        run.settings,
        kind=kind,
        model=replace(run.settings.model, m_h=m_h),
        recipe=real.steps_of(kind) if recipe is None else recipe,
        altered=altered,
        epochs=run.settings.epochs if epochs is None else epochs,
        tuned=tuned,
        profiled=run.profiled if profiled else 0,
    )
    judged = 3 if tuned else 1
    seconds = _BESIDES * judged + run.train * (asked.epochs + 2 * tuned) / _SPEED
    job = Image(image=asked, train=run.train, test=run.test, seed=seed)
    return Sized(job, _QUICK_SECONDS if preset == "quick" else seconds)


def largest_jobs(preset: Preset) -> list[Sized[Image]]:
    """Make the jobs with the largest head size, which are also fine-tuned on the altered order."""
    run = PRESETS[preset]
    return [
        image_job(preset, run.sizes[-1], seed, tuned=TUNED, profiled=True)
        for seed in range(run.seeds)
    ]


@dataclass(frozen=True, eq=False)
class Profiled:
    """A finished model with its spectra."""

    m_h: int
    job: Image
    found: ImageOutcome
    spectra: Spectra


def profiled(results: Results) -> list[Profiled]:
    """Select the finished models that have spectra."""
    return [
        Profiled(one.job.m_h, one.job, one.outcome, one.outcome.spectra)
        for one in results.of(Image, ImageOutcome)
        if one.outcome.spectra is not None
    ]
