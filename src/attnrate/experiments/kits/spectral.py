"""The targets of Sec. 5.1 for all experiments that use them: settings, names, recipes, jobs."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from attnrate.experiments.contract import Fit, Preset, Work
from attnrate.fitting.job import Sized
from attnrate.fitting.trial import Trial
from attnrate.models import Transformer
from attnrate.targets import AttentionTarget, spectral_target

#: Settings of a recipe or a model
Settings = Mapping[str, float | int | str | bool | None]
#: The rank that stands for the paper's r = ∞. For alpha <= 1 the infinite series diverges on the
#: diagonal u = v, so that Eq. 8 has no value there.
LONG = 256


def strong(steps: int) -> Settings:
    """The strong recipe for these targets.

    SOAP learns them fastest with a larger step size than the recipe's default and small
    batches.
    """
    return {"name": "strong", "batch": 32, "lr": 0.02, "steps": steps}


#: Fig. 1's steps and recipe; experiments with the same settings share its fits
STEPS: Mapping[Preset, int] = {"quick": 480, "paper": 1200}
RECIPES: Mapping[Preset, Settings] = {preset: strong(steps) for preset, steps in STEPS.items()}
#: Expected seconds of one step of Fig. 1's full model, and of a fit with these recipes
STEP = 0.014
SECONDS: Mapping[Preset, float] = {preset: STEP * steps for preset, steps in STEPS.items()}


@dataclass(frozen=True, order=True)
class Spectral:
    """The target with σ_k = k^-alpha for k <= rank and sines as bases."""

    alpha: float
    rank: int

    @property
    def name(self) -> str:
        """The name in titles and sentences."""
        return f"α = {self.alpha:g}, {self.rank_name}"

    @property
    def rank_name(self) -> str:
        """The rank in titles and sentences, "r = ∞" for the long sum."""
        return f"r = {self.rank_word}"

    @property
    def rank_word(self) -> str:
        """The rank as a word, "∞" for the long sum."""
        return "∞" if self.rank == LONG else str(self.rank)

    @property
    def rate(self) -> float:
        """The exponent 2 alpha - 1 that the paper prints."""
        return 2 * self.alpha - 1

    def fit(
        self, curve: str, size: int, model: Settings, recipe: Settings, seed: int, seconds: float
    ) -> Sized[Fit["Tried"]]:
        """Make the job of fitting Eq. 5 with these settings; `seconds` is its expected duration."""
        target = {"kind": "spectral", "alpha": self.alpha, "rank": self.rank}
        trial = Trial(target, {"kind": "transformer", **model}, recipe, seed)
        return Sized(Fit(Tried(curve, self, size, seed), trial), seconds)

    def build(self) -> AttentionTarget:
        """Build the target."""
        return spectral_target(self.alpha, self.rank)


@dataclass(frozen=True)
class Tried:
    """The label of a fit to a spectral target: the curve and the point of the curve.

    `size` is the abscissa of the curve, such as the head size.
    """

    curve: str
    target: Spectral
    size: int
    seed: int


class SpectralWork(Work):
    """A job on one spectral target."""

    alpha: float
    rank: int

    @property
    def target(self) -> Spectral:
        """The target of the job, by which its outcome is found."""
        return Spectral(self.alpha, self.rank)


def outputs(model: Transformer, x: torch.Tensor) -> torch.Tensor:
    """Evaluate the model on the sequences, in parts that fit into the processor's cache."""
    with torch.no_grad():
        return torch.cat([model(part) for part in torch.split(x, 256)])
