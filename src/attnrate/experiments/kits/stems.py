"""Jobs of `hybrids` on CIFAR-10: ViTs with a convolutional stem, as large as the plain ones."""

from dataclasses import replace
from pathlib import Path
from typing import cast

from attnrate.experiments.contract import Preset, Work
from attnrate.experiments.kits import real
from attnrate.experiments.kits.images import PRESETS, ImageRun
from attnrate.fitting.fit import initial
from attnrate.fitting.job import Sized
from attnrate.models.base import nearest_size
from attnrate.models.stem import StemViT
from attnrate.models.vit import ViT, ViTSettings
from attnrate.training import images
from attnrate.training.images import JUDGED, Photographs

#: Features of the stem's first convolution; the second has twice as many
FEATURES = 16
#: Images per second and seconds of judging, those of the ViT: a step takes as long with a stem
_SPEED, _BESIDES = 400.0, 35.0


def as_large(model: ViTSettings, features: int) -> ViTSettings:
    """The settings with the m_ff at which a ViT with a stem is as large as the plain one."""

    def count(m_ff: int) -> int:
        return StemViT(replace(model, m_ff=m_ff), features).parameter_count()

    return replace(model, m_ff=nearest_size(count, ViT(model).parameter_count()))


class StemOutcome(ImageRun, real.ModelOutcome, kw_only=True):
    """The errors of a ViT with a stem, and how its training went."""


class Stem(Work, work="hybrids.stem"):
    """A job that trains a ViT with a stem as `kits.images.Image` trains the plain one.

    `model` has the sizes of the plain ViT; the stem's m_ff is chosen to match its parameters.
    """

    model: ViTSettings
    features: int
    recipe: real.Steps
    epochs: int
    batch: int
    train: int
    test: int
    judged: int = JUDGED

    def run(self) -> StemOutcome:
        """Train and judge the model; finished epochs are kept."""
        return real.with_epochs_kept(
            self.key,
            lambda folder: self._trained(images.photographs(self.train, self.test), folder),
        )

    def _trained(self, data: Photographs, folder: Path) -> StemOutcome:
        sizes = as_large(self.model, self.features)
        model = cast(StemViT, initial(lambda: StemViT(sizes, self.features), self.seed))
        recipe = self.recipe.over(self.epochs, self.seed)
        done = images.train_on_images(
            data, model, recipe, folder / "first", batch=self.batch, progress=False
        )
        return StemOutcome(
            **vars(images.judge_images(model, data, self.judged)),
            seconds=done.seconds,
            epochs=done.summaries,
            parameters=model.parameter_count(),
            tests=len(data.test_images),
        )


def stem_jobs(preset: Preset) -> list[Sized[Stem]]:
    """Make the jobs beside `images.largest_jobs`, with the settings of its first training."""
    run = PRESETS[preset]
    asked = run.settings
    seconds = _BESIDES + run.train * asked.epochs / _SPEED
    return [
        Sized(
            Stem(
                model=replace(asked.model, m_h=run.sizes[-1]),
                features=FEATURES,
                recipe=real.steps_of(asked.kind),
                epochs=asked.epochs,
                batch=asked.batch,
                train=run.train,
                test=run.test,
                judged=asked.judged,
                seed=seed,
            ),
            seconds,
        )
        for seed in range(run.seeds)
    ]
