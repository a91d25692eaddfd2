"""Position encodings compared: their models at equal size, and the jobs of the experiment.

`Symmetries`, `Compiled` and `Floors` are exact and train nothing; `Trained` is a fit whose logits
are decomposed. `Runs` sorts the finished jobs. Names, targets and orders stand first.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Literal

import numpy as np
import torch
from torch import nn

from attnrate.experiments import contract
from attnrate.experiments.kits import cells, fits
from attnrate.experiments.kits.spectral import Settings
from attnrate.fitting.fit import fit, initial
from attnrate.fitting.recipe import recipe_of
from attnrate.models import nearest_size
from attnrate.models.build import build_model
from attnrate.settings import Settings as AnySettings
from attnrate.spectra.measures import rank_of
from attnrate.statistics import Interval, geometric_mean, mean
from attnrate.targets import LinearTarget, Target
from attnrate.targets.alter import move_to_end, swap_ends
from attnrate.targets.build import build_target
from attnrate.theory.check import ROUNDING
from attnrate.theory.positioned import (
    Absolute,
    Encoded,
    compile_linear,
    relabelled,
    reordered,
)
from attnrate.theory.symmetry import Symmetry, reordered_floor, symmetric_floor, symmetries

Tensor = torch.Tensor
Encoding = Literal["none", "learned", "sinusoidal", "shift", "rotary", "alibi"]
Task = Literal["table2", "table3", "spectral"]
Order = Literal["original", "swapped", "moved"]

ENCODINGS: tuple[Encoding, ...] = ("none", "learned", "sinusoidal", "shift", "rotary", "alibi")
ABSOLUTE: tuple[Absolute, ...] = ("learned", "sinusoidal", "shift")
LINEAR: tuple[Task, ...] = ("table2", "table3")
TARGETS: Mapping[Task, AnySettings] = {
    "table2": {"kind": "linear", "kernel": "exponential", "length": cells.LENGTH},
    "table3": {"kind": "linear", "kernel": {"uniform": 0}, "length": cells.LENGTH},
    "spectral": {"kind": "spectral", "alpha": 1.0, "rank": 3, "length": 16},
}
MOVED = 10
ORDERS: Mapping[Order, AnySettings] = {
    "original": {},
    "swapped": {"permute": {"swap_ends": MOVED}},
    "moved": {"permute": {"move_to_end": MOVED}},
}
#: The group of each encoding, by the sizes that a test of all permutations must find
GROUPS: Mapping[Encoding, Symmetry] = {
    "none": "all",
    "learned": "none",
    "sinusoidal": "none",
    "shift": "none",
    "rotary": "none",
    "alibi": "reversal",
}
#: Sequences of this length are short enough to try all permutations, 24
TRIED = 4
#: n = m_v = τ + 1 and m_h = τ, as the compiled Transformers need for τ = 32
SIZES: Mapping[str, int] = {"n": 33, "m_h": 32, "m_v": 33, "depth": 3}
#: The width with learned positions; the other encodings get as many parameters
WIDTH = 64
#: Seed of the inputs of everything exact, and of the sequences whose logits are decomposed
_SEED = 1 << 47
RANKED, ENERGY = 256, 0.99
#: A fit may lie below an exact floor by sampling error, down to this share of it
_BELOW_FLOOR = 0.97
#: A fit has learned a target if its error is at most this share of the floor without positions
LEARNED = 0.1


def target_of(task: Task, order: Order) -> Target:
    """Build a target in one of the orders of its inputs."""
    return build_target({**TARGETS[task], **ORDERS[order]})


def order_of(order: Order, length: int) -> list[int]:
    """The permutation p of the inputs."""
    if order == "original":
        return list(range(length))
    return (swap_ends if order == "swapped" else move_to_end)(length, MOVED)


def model_of(encoding: Encoding, width: int = WIDTH) -> AnySettings:
    """The settings of the model with one encoding."""
    if encoding in ("rotary", "alibi"):
        return {"kind": "relative", "relative": encoding, **SIZES, "width": width}
    return {"kind": "transformer", "position": encoding, **SIZES, "width": width}


@cache
def width_of(encoding: Encoding, task: Task) -> int:
    """The width with which an encoding has as many parameters as learned positions have."""
    target = target_of(task, "original")

    def count(made: Encoding, width: int) -> int:
        model = build_model(model_of(made, width), target)
        assert isinstance(model, Encoded)
        return model.parameter_count()

    with torch.device("meta"):
        wanted = count("learned", WIDTH)
    return nearest_size(partial(count, encoding), wanted)


class SymmetriesOutcome(contract.Outcome):
    """All permutations of TRIED positions that a random model of each encoding commutes with.

    `relabelled` are the largest differences between a model whose positions are relabelled, on
    permuted inputs, and the permuted outputs of the original, relative to the largest output:
    learned positions and the shift for the orders of Tables 1 and 2, rotary ones for the reversal.
    """

    encodings: tuple[Encoding, ...]
    found: tuple[tuple[tuple[int, ...], ...], ...]
    relabelled: tuple[float, ...]


class Symmetries(contract.Work, work="positions.symmetries", trains=False):
    """A job: try all permutations on random models, and relabel learned positions and the shift."""

    models: int

    def run(self) -> SymmetriesOutcome:
        """Draw models, and keep the permutations that all models of an encoding commute with."""
        found = [
            sorted(set.intersection(*(self._symmetries(one, i) for i in range(self.models))))
            for one in ENCODINGS
        ]
        reversal = tuple(reversed(range(cells.LENGTH)))
        gaps = [
            *(
                max(self._gap(one, order_of(order, cells.LENGTH)) for order in ("swapped", "moved"))
                for one in ("learned", "shift")
            ),
            self._gap("rotary", reversal),
        ]
        return SymmetriesOutcome(ENCODINGS, tuple(tuple(each) for each in found), tuple(gaps))

    def _symmetries(self, encoding: Encoding, number: int) -> set[tuple[int, ...]]:
        model = random_model(encoding, TRIED, self.seed + number)
        return set(symmetries(model, TRIED, ROUNDING, _SEED + self.seed))

    def _gap(self, encoding: Encoding, order: Sequence[int]) -> float:
        """How far the twin of a random model is from it, for one order of inputs and outputs."""
        model, p = random_model(encoding, cells.LENGTH, self.seed), list(order)
        x = target_of("table2", "original").sample(64, _SEED + self.seed)
        with torch.no_grad():
            y, twin = model(x), relabelled(model, p)
            return float((twin(x[:, p]) - y[:, p]).abs().max() / y.abs().max())


def random_model(encoding: Encoding, length: int, seed: int) -> Encoded:
    """A model with random weights in float64, for sequences of one length.

    Weights of logits are large, so that the attention is far from uniform, and ALiBi has a slope
    that shows.
    """
    target = build_target({**TARGETS["table2"], "length": length})
    model = initial(lambda: build_model(model_of(encoding, 16), target), seed).double()
    assert isinstance(model, Encoded)
    with torch.no_grad():
        model.W_Q.weight.mul_(8.0)
        if encoding == "alibi":
            model.get_parameter("slope").fill_(0.5)
    return model


class CompiledOutcome(contract.Outcome):
    """Errors of Transformers that are written for the original order, and made into one for p.

    `before` and `after` are mean squared errors relative to the variance of the target, on the
    original target and on the permuted one, one for each encoding. `drifts` are the largest
    relative changes of a singular value of the logits.
    """

    encodings: tuple[Absolute, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]
    drifts: tuple[float, ...]


class Compiled(contract.Work, work="positions.compiled", trains=False):
    """A job: a linear target written into Eq. 5 with each absolute encoding, in both orders."""

    task: Task
    order: Order
    sequences: int

    def run(self) -> CompiledOutcome:
        """Compile, permute keys and values, and measure."""
        target = target_of(self.task, "original")
        permuted = target_of(self.task, self.order)
        assert isinstance(target, LinearTarget)
        p = order_of(self.order, target.length)
        x = target.sample(self.sequences, _SEED + self.seed)
        rows = []
        for encoding in ABSOLUTE:
            model = compile_linear(target, encoding)
            again = reordered(model, p)
            sigma, other = spectrum(model, x[:8]), spectrum(again, x[:8, p])
            drift = float(np.max(np.abs(sigma - other)) / sigma.max())
            rows.append((_share(model, target, x), _share(again, permuted, x[:, p]), drift))
        return CompiledOutcome(ABSOLUTE, *zip(*rows, strict=True))


def _share(model: nn.Module, target: Target, x: Tensor) -> float:
    """The mean squared error of a model over the variance of the target."""
    y = target(x)
    with torch.no_grad():
        return float((model(x) - y).square().mean() / y.var())


def spectrum(model: nn.Module, x: Tensor) -> np.ndarray:
    """The singular values of the logits of each sequence, without what softmax cannot see."""
    assert isinstance(model, Encoded)
    with torch.no_grad():
        logits = model.logits(x)
        values: np.ndarray = torch.linalg.svdvals(logits - logits.mean(-1, keepdim=True)).numpy()
    return values


class FloorsOutcome(contract.Outcome):
    """The floors of all models that commute with every permutation, and with the reversal."""

    every: float
    reversal: float


class Floors(contract.Work, work="positions.floors", trains=False):
    """A job: the floors of one target; `sequences` estimate the spread of the outputs of Fig. 1's.

    Linear targets have a closed form.
    """

    task: Task
    order: Order
    sequences: int

    def run(self) -> FloorsOutcome:
        """Compute the floors of both symmetries."""
        target = target_of(self.task, self.order)
        if isinstance(target, LinearTarget):
            return FloorsOutcome(*(symmetric_floor(target, one) for one in ("all", "reversal")))
        y = target(target.sample(self.sequences, _SEED + self.seed))
        spread, p = float(y.var(1).mean()), order_of(self.order, target.length)
        return FloorsOutcome(*(reordered_floor(p, spread, one) for one in ("all", "reversal")))


class TrainedOutcome(contract.FittedOutcome):
    """How a fit went, with the number of parameters and the rank of the logits.

    The rank is the median, over sequences, of the number of singular values of the logits that hold
    ENERGY of their energy, modulo the gauge of softmax. Of a diverged fit it is not known.
    """

    parameters: int = 0
    rank: float | None = None


class Trained(contract.Work, work="positions.trained"):
    """A job: a model with one encoding, fitted to one target in one order."""

    encoding: Encoding
    task: Task
    order: Order
    width: int
    recipe: Settings

    def run(self) -> TrainedOutcome:
        """Fit the model and decompose its logits on fresh sequences."""
        target = target_of(self.task, self.order)
        found = fit(
            target,
            lambda: build_model(model_of(self.encoding, self.width), target),
            recipe=recipe_of(self.recipe),
            seed=self.seed,
            threads=1,
        )
        count = sum(each.numel() for each in found.model.parameters())
        known = contract.from_plain(TrainedOutcome, {**found.outcome, "parameters": count})
        if found.diverged:
            return known
        sigma = spectrum(found.model, target.sample(RANKED, _SEED, torch.float32))
        rank = float(np.median(rank_of(sigma, ENERGY)))
        return contract.from_plain(TrainedOutcome, {**contract.to_plain(known), "rank": rank})


@dataclass(frozen=True)
class Runs:
    """The finished jobs, sorted by kind."""

    symmetric: Sequence[contract.Done[Symmetries, SymmetriesOutcome]]
    compiled: Sequence[contract.Done[Compiled, CompiledOutcome]]
    floors: Sequence[contract.Done[Floors, FloorsOutcome]]
    trained: fits.Fits

    @classmethod
    def read(cls, results: contract.Results) -> "Runs":
        """Sort the finished jobs."""
        return cls(
            results.of(Symmetries, SymmetriesOutcome),
            results.of(Compiled, CompiledOutcome),
            results.of(Floors, FloorsOutcome),
            fits.Fits(results.of(Trained, TrainedOutcome)),
        )

    def floor(self, encoding: Encoding, task: Task, order: Order) -> float:
        """The floor of an encoding on a target; nan if it is not computed yet."""
        if GROUPS[encoding] == "none":
            return 0.0
        for one in contract.select(self.floors, task=task, order=order):
            return one.outcome.every if GROUPS[encoding] == "all" else one.outcome.reversal
        return math.nan

    def fits_of(self, encoding: Encoding, task: Task, *orders: Order) -> fits.Fits:
        """The fits of an encoding to a target, in some orders or in all."""
        found = self.trained.where(encoding=encoding, task=task)
        return fits.Fits(one for one in found if not orders or one.label.order in orders)

    def error(self, encoding: Encoding, task: Task, order: Order) -> Interval:
        """The mean error over seeds."""
        return self.fits_of(encoding, task, order).mean()

    def pairs(self, encoding: Encoding, *tasks: Task) -> list[float]:
        """The error in each other order over that in the original one, of the same seed."""
        return [
            ratio
            for task in tasks
            for ratio in self.fits_of(encoding, task, "swapped", "moved").over(
                self.fits_of(encoding, task, "original"), "seed"
            )
        ]

    def ratio(self, encoding: Encoding, *tasks: Task) -> Interval:
        """The mean of `pairs` over tasks, orders and seeds."""
        return geometric_mean(self.pairs(encoding, *tasks))

    def learned(self, encoding: Encoding, task: Task) -> bool:
        """Whether training has learned the original target, in the mean over seeds.

        Fig. 1's target has no order, so that its floor without positions is that of another order.
        """
        floor = self.floor("none", task, "moved" if task == "spectral" else "original")
        return self.error(encoding, task, "original").value <= LEARNED * floor

    def below_floor(self, encoding: Encoding) -> bool:
        """Whether a fit lies below its exact floor, which would mean an error in this program."""
        return any(
            error < _BELOW_FLOOR * self.floor(encoding, task, order)
            for task in TARGETS
            for order in ORDERS
            for error in self.fits_of(encoding, task, order).errors
        )

    def ranks(self, encoding: Encoding, *orders: Order) -> Interval:
        """The rank of the logits on linear targets, a mean over fits."""
        return mean(
            [
                one.outcome.rank
                for task in LINEAR
                for one in self.fits_of(encoding, task, *orders)
                if one.outcome.rank is not None
            ]
        )
