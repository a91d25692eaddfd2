"""Sec. 5.1's targets as the experiments share them: settings, names, recipes, work on them."""

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
#: The paper's r = ∞. The series diverges on the diagonal u = v for alpha <= 1, so that Eq. 8 has
#: no value there; a long finite sum stands for it.
LONG = 256


def strong(steps: int) -> Settings:
    """The strong recipe for these targets.

    SOAP learns them fastest with a larger step than its own, and with small batches throughout.
    """
    return {"name": "strong", "batch": 32, "lr": 0.02, "steps": steps}


#: Fig. 1's steps and recipe; who uses the same can share its fits
STEPS: Mapping[Preset, int] = {"quick": 480, "paper": 1200}
RECIPES: Mapping[Preset, Settings] = {preset: strong(steps) for preset, steps in STEPS.items()}
#: Expected seconds of one step of Fig. 1's full model, and of a fit by these recipes
STEP = 0.014
SECONDS: Mapping[Preset, float] = {preset: STEP * steps for preset, steps in STEPS.items()}


@dataclass(frozen=True, order=True)
class Spectral:
    """σ_k = k^-alpha for k <= rank, with sines as bases."""

    alpha: float
    rank: int

    @property
    def name(self) -> str:
        """For titles and sentences."""
        return f"α = {self.alpha:g}, {self.rank_name}"

    @property
    def rank_name(self) -> str:
        """The rank for titles and sentences, ∞ for the long sum."""
        return f"r = {self.rank_word}"

    @property
    def rank_word(self) -> str:
        """∞ for the long sum."""
        return "∞" if self.rank == LONG else str(self.rank)

    @property
    def rate(self) -> float:
        """The exponent that the paper prints, 2 alpha - 1."""
        return 2 * self.alpha - 1

    def fit(
        self, curve: str, size: int, model: Settings, recipe: Settings, seed: int, seconds: float
    ) -> Sized[Fit["Tried"]]:
        """A fit of Eq. 5 with these settings that is expected to take these seconds."""
        target = {"kind": "spectral", "alpha": self.alpha, "rank": self.rank}
        trial = Trial(target, {"kind": "transformer", **model}, recipe, seed)
        return Sized(Fit(Tried(curve, self, size, seed), trial), seconds)

    def build(self) -> AttentionTarget:
        """The target itself."""
        return spectral_target(self.alpha, self.rank)


@dataclass(frozen=True)
class Tried:
    """What a fit to a spectral target is found by: the curve that its error is a point of.

    `size` is what the curve is over, such as the head size.
    """

    curve: str
    target: Spectral
    size: int
    seed: int


class SpectralWork(Work):
    """Work on one spectral target."""

    alpha: float
    rank: int

    @property
    def target(self) -> Spectral:
        """The target that the work is on, by which its outcome is found."""
        return Spectral(self.alpha, self.rank)


def outputs(model: Transformer, x: torch.Tensor) -> torch.Tensor:
    """What the model makes of the sequences, computed in parts that fit into the cache."""
    with torch.no_grad():
        return torch.cat([model(part) for part in torch.split(x, 256)])
