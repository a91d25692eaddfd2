"""Jobs of `hybrids`: targets whose inputs are mixed or reordered, models, fits and exact answers.

Two kinds of mixing are kept apart. In a *mixed target* H~(x) = H(θ∗x), the paper's, the filter is
part of the target, and applying θ to the inputs gives H. Where *tokens come mixed*, z = θ∗x and
H~(z) = H(x), the filter has to be undone. Every seed has filters of its own.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import torch
from torch import nn

from attnrate import settings
from attnrate.experiments.contract import FittedOutcome, Outcome, Work
from attnrate.fitting.fit import fit
from attnrate.fitting.recipe import recipe_of
from attnrate.models.base import SequenceModel, nearest_size
from attnrate.models.build import build_model
from attnrate.models.hybrid import Hybrid
from attnrate.targets import AttentionTarget, Target, error_of, spectral_target, swap_ends
from attnrate.targets.unmix import unmixed
from attnrate.theory import unmixing
from attnrate.theory.blurred import blurred, missed_share
from attnrate.theory.compile import compile_target

#: Fig. 1's target with α = 1 and r = 6, the head sizes, and the number of tokens that change places
ALPHA, RANK, LENGTH = 1.0, 6, 16
HEADS = (1, 3, RANK)
MOVED, TAPS = 5, 5
#: Range of the moduli of roots; the unstable filter has a pair at their reciprocals
_MODULI = (0.4, 0.6)
_SEQUENCES, _SCALE_SEED = 4096, 1 << 44

Case = Literal["original", "mixed", "permuted", "mixed, permuted", "stable", "unstable"]
Name = Literal["plain", "convolution", "linear RNN", "GRU", "true filter"]
_FEATURES = 4
MODELS: Mapping[Name, settings.Settings] = {
    "plain": {"kind": "transformer"},
    "convolution": {"kind": "hybrid", "features": _FEATURES, "taps": TAPS},
    "linear RNN": {"kind": "hybrid", "layer": "linear_rnn", "features": _FEATURES},
    "GRU": {"kind": "hybrid", "layer": "gru", "features": _FEATURES},
    # its filter is given and never trained
    "true filter": {"kind": "hybrid", "taps": TAPS},
}


def uniform_filter(seed: int) -> tuple[float, ...]:
    """Table 2's law of filters: five numbers uniform on [0, 1], divided by their sum."""
    theta = np.random.default_rng(seed).uniform(size=TAPS)
    return tuple((theta / theta.sum()).tolist())


def rooted_filter(seed: int, stable: bool) -> tuple[float, ...]:
    """A filter with two pairs of random roots, one pair outside if it is unstable.

    Moduli are uniform on _MODULI and angles on (0, π); the pair outside has reciprocal moduli. The
    stable and the unstable filter of a seed have the same power spectrum up to a factor, so that no
    correlation of their tokens tells them apart. Moduli sum to 1.
    """
    drawn = np.random.default_rng(seed)
    moduli, angles = drawn.uniform(*_MODULI, 2), drawn.uniform(0, math.pi, 2)
    if not stable:
        moduli[0] = 1 / moduli[0]
    theta = np.ones(1)
    for modulus, angle in zip(moduli, angles, strict=True):
        theta = np.convolve(theta, [1, -2 * modulus * math.cos(angle), modulus**2])
    return tuple((theta / np.abs(theta).sum()).tolist())


def blended(theta: tuple[float, ...], strength: float) -> tuple[float, ...]:
    """(1 - λ) δ + λ θ: from no mixing to θ."""
    return (1 - strength + strength * theta[0], *(strength * one for one in theta[1:]))


def base() -> AttentionTarget:
    """Fig. 1's target."""
    return spectral_target(ALPHA, RANK, LENGTH)


def target_of(case: Case, seed: int, strength: float = 1.0) -> Target:
    """The target of a case, with the filters of a seed."""
    if case in ("stable", "unstable"):
        return unmixed(base(), rooted_filter(seed, case == "stable"))
    target: Target = base()
    if case in ("permuted", "mixed, permuted"):
        target = target.permuted(swap_ends(LENGTH, MOVED))
    if case in ("mixed", "mixed, permuted"):
        target = target.mixed(blended(uniform_filter(seed), strength))
    return target


def variance(target: Target) -> float:
    """The mean over t of the variance of the output at t: the error of the best constants."""
    return float(target(target.sample(_SEQUENCES, _SCALE_SEED)).var(0).mean())


@cache
def model_settings(name: Name, m_h: int, width: int) -> settings.Settings:
    """The settings of a model with about as many parameters as the plain one of this width."""
    common: settings.Settings = {"m_h": m_h, "depth": 2, "position": "learned", "length": LENGTH}
    target = base()  # made here, because sizes are counted where tensors have no values

    def made(size: int) -> settings.Settings:
        return {**MODELS[name], **common, "width": size}

    def count(given: settings.Settings) -> int:
        model = build_model(given, target)
        assert isinstance(model, SequenceModel)
        return model.parameter_count()

    with torch.device("meta"):  # no random number is drawn: those are the weights'
        wanted = count({**MODELS["plain"], **common, "width": width})
    return made(width if name == "plain" else nearest_size(lambda size: count(made(size)), wanted))


def model_of(name: Name, m_h: int, width: int, theta: tuple[float, ...]) -> nn.Module:
    """A model with random weights; θ is for the one whose filter is given."""
    model = build_model(model_settings(name, m_h, width), base())
    if name == "true filter":
        assert isinstance(model, Hybrid)
        model.hold_filter(torch.tensor(theta))
    return model


class TrainedOutcome(FittedOutcome):
    """The error of a trained model over the variance of the target, and how the fit went."""

    parameters: int = 0


class Trained(Work, work="hybrids.trained"):
    """A job that trains a model on a target; `strength` is λ of the mixing of a mixed target."""

    case: Case
    model: Name
    m_h: int
    width: int
    recipe: Mapping[str, float | int]
    strength: float = 1.0

    def run(self) -> TrainedOutcome:
        """Train the model, and judge it on fresh inputs."""
        target = target_of(self.case, self.seed, self.strength)
        theta = blended(uniform_filter(self.seed), self.strength)
        found = fit(
            target,
            lambda: model_of(self.model, self.m_h, self.width, theta),
            recipe=recipe_of(self.recipe),
            seed=self.seed,
            threads=1,
            progress=False,
        )
        whole = variance(target)
        diverged = found.diverged
        return TrainedOutcome(
            error=None if diverged else found.error / whole,
            standard_error=None if diverged else found.standard_error / whole,
            seconds=found.seconds,
            steps=found.steps,
            stopped=found.stopped,
            parameters=sum(one.numel() for one in found.model.parameters() if one.requires_grad),
        )


@dataclass(frozen=True)
class Undone:
    """What undoes the filter of tokens that come mixed.

    `modulus` is the largest modulus of its roots. `recurrence` is the error of the linear RNN that
    is its inverse, before the compiled Transformer, over the variance. `left` is the share of a
    token's variance that the best convolution leaves, for each number of taps, `never` that of any.
    """

    modulus: float
    recurrence: float
    left: tuple[float, ...]
    never: float


class ExactOutcome(Outcome):
    """Answers for the filters of a seed that need no training.

    `oracle` has the error of the true filter before the compiled Transformer on the mixed target,
    over the variance, for each head size. `rank` is the rank of the mixed coupling of neighbouring
    tokens, and `missed` the share of the mixed coupling that heads of the target's rank miss on
    single tokens, for each strength of mixing.
    """

    oracle: tuple[float, ...]
    stable: Undone
    unstable: Undone
    rank: int
    missed: tuple[float, ...]


class Exact(Work, work="hybrids.exact", trains=False):
    """A job: the filters of a seed, undone without training."""

    taps: tuple[int, ...]
    strengths: tuple[float, ...]

    def run(self) -> ExactOutcome:
        """Write filters and inverses into layers, and compute what they leave."""
        theta = uniform_filter(self.seed)
        target = target_of("mixed", self.seed)
        layer, whole = unmixing.filter_layer(theta), variance(target)
        oracle = tuple(
            error_of(nn.Sequential(layer, compile_target(base(), m_h)), target).value / whole
            for m_h in HEADS
        )
        sigma = [k**-ALPHA for k in range(1, RANK + 1)]
        return ExactOutcome(
            oracle,
            self._undone(stable=True),
            self._undone(stable=False),
            blurred(sigma, theta, 1).rank,
            tuple(
                missed_share(sigma, blended(theta, strength), RANK, LENGTH)
                for strength in self.strengths
            ),
        )

    def _undone(self, stable: bool) -> Undone:
        theta = rooted_filter(self.seed, stable)
        target = target_of("stable" if stable else "unstable", self.seed)
        model = nn.Sequential(unmixing.inverse_rnn(theta), compile_target(base(), RANK))
        return Undone(
            float(np.abs(unmixing.roots(theta)).max()),
            error_of(model, target).value / variance(target),
            tuple(unmixing.left_by_taps(theta, count) for count in self.taps),
            unmixing.unrecoverable(theta),
        )
