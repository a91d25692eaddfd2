"""The jobs of `cost`: models that are counted, timed and fitted, and what is read of them.

`Counted` and `Seconds` are about models with as many parameters as the Transformer of Table 2;
`Trained` fits small models of several sizes, beside `Floor` and `Written`, which train nothing.
`Runs` reads all of them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise

import torch

from attnrate.experiments import contract
from attnrate.experiments.kits import costs, fits
from attnrate.experiments.kits.past import FloorOutcome, causal_floor, past_attention, variance
from attnrate.experiments.kits.spectral import Settings
from attnrate.fitting.fit import fit
from attnrate.fitting.recipe import recipe_of
from attnrate.models import LinearRNN, SequenceModel
from attnrate.models.base import nearest_size
from attnrate.models.build import build_model
from attnrate.statistics import Interval, geometric_mean, slope
from attnrate.targets import LinearTarget, Target, linear_target, spectral_target
from attnrate.targets.alter import swap_ends

PIVOT, STACK = "Transformer", "2 layers, 2 heads"
#: The Transformer of Table 2; sinusoids have no parameters, so that it is the same at every length
TRANSFORMER: Settings = {
    "kind": "transformer",
    "n": 32,
    "m_h": 32,
    "m_v": 32,
    "width": 128,
    "depth": 3,
    "position": "sinusoidal",
}
#: The other models, each with the setting that adjusts its number of parameters. The convolution
#: sees 8,191 tokens back.
OTHERS: Mapping[str, tuple[Settings, str]] = {
    STACK: (
        {
            "kind": "transformer",
            "n": 64,
            "m_h": 32,
            "m_v": 32,
            "depth": 1,
            "heads": 2,
            "layers": 2,
            "position": "sinusoidal",
            "residual": True,
            "layer_norm": True,
            "scale": True,
        },
        "width",
    ),
    "RNN": ({"kind": "linear_rnn", "activation": "tanh"}, "hidden"),
    "linear RNN": ({"kind": "linear_rnn"}, "hidden"),
    "GRU": ({"kind": "gru"}, "hidden"),
    "state space": ({"kind": "state_space", "state": 64}, "channels"),
    "convolution": ({"kind": "convolution", "layers": 12}, "channels"),
}
NAMES = (PIVOT, *OTHERS)
RIVALS = tuple(name for name in OTHERS if name != STACK)
#: The lengths of the paper's synthetic experiments, and those between which exponents are judged
PAPER_LENGTHS, LAST = (16, 32), (1024, 4096)
ORIGINAL, PERMUTED = "Table 2", "Table 2, permuted"
GRAPH, PAST = "Eq. 8", "Eq. 8, past only"
TASKS = (ORIGINAL, PERMUTED, GRAPH, PAST)
#: Errors over the variance of the target
LEVELS = (1e-2, 1e-3, 1e-4)
#: The models of the fits, each with the setting that is its size, and the sizes
SIZES: Mapping[str, tuple[Settings, str, tuple[int, ...]]] = {
    PIVOT: (
        {"kind": "transformer", "depth": 2},
        "width",
        (16, 32, 64),
    ),
    "linear RNN": ({"kind": "linear_rnn"}, "hidden", (1, 4, 16, 64)),
    "GRU": ({"kind": "gru"}, "hidden", (2, 8, 24, 64)),
    "state space": ({"kind": "state_space", "state": 16}, "channels", (1, 4, 16, 64)),
    "convolution": ({"kind": "convolution"}, "channels", (2, 4, 8, 16)),
}
#: A single seed says that an error is below a level, or above it, if it is so by this factor
_ALONE = 10.0
_SEED = 1 << 47


@cache
def models() -> dict[str, Settings]:
    """The settings of the counted models, with the size that gives the Transformer's parameters."""
    made = {PIVOT: TRANSFORMER}
    wanted = _built(TRANSFORMER, LAST[0]).parameter_count()
    for name, (given, knob) in OTHERS.items():
        size = nearest_size(partial(_parameters, given, knob), wanted)
        made[name] = {**given, knob: size}
    return made


def _parameters(given: Settings, knob: str, size: int) -> int:
    return _built({**given, knob: size}, LAST[0]).parameter_count()


def _built(given: Settings, length: int) -> SequenceModel:
    """The model for scalar tokens, which any target of this length has."""
    model = build_model(given, _carrier(length))
    assert isinstance(model, SequenceModel)
    return model


@cache
def _carrier(length: int) -> Target:
    """A target of this length; it is not made anew where parameters are counted without memory."""
    return spectral_target(1.0, 1, length)


class Counted(contract.Work, work="cost.counted", trains=False):
    """A job: what a model costs for one sequence, counted."""

    name: str
    model: Settings
    length: int

    def run(self) -> costs.Cost:
        """Run a forward pass and a training step, and count."""
        return costs.cost_of(_built(self.model, self.length), self.length)


class SecondsOutcome(contract.Outcome):
    """Seconds of every model, in the order of the job's, in every round."""

    inference: tuple[tuple[float, ...], ...]
    training: tuple[tuple[float, ...], ...]


class Seconds(contract.Work, work="cost.seconds", trains=False):
    """A job: the seconds of a forward pass and of a training step, all models in turn."""

    models: Mapping[str, Settings]
    length: int
    rounds: int

    def run(self) -> SecondsOutcome:
        """Time the models on one sequence."""
        x = torch.zeros(1, self.length, 1)
        built = [_built(given, self.length) for given in self.models.values()]
        inference = [partial(costs.infer, model, x) for model in built]
        training = [partial(costs.train_once, model, x) for model in built]
        found = costs.in_rounds([*inference, *training], self.rounds)
        return SecondsOutcome(tuple(found[: len(built)]), tuple(found[len(built) :]))


def target_of(task: str) -> Target:
    """The target of that name."""
    linear = linear_target("exponential", 32)
    attention = spectral_target(1.0, 2, 16)
    made: dict[str, Target] = {
        ORIGINAL: linear,
        PERMUTED: linear.permuted(swap_ends(linear.length, 10)),
        GRAPH: attention,
        PAST: past_attention(attention),
    }
    return made[task]


def spread(target: Target) -> float:
    """The mean over t of the variance of the output at t, exact where the target is linear."""
    if isinstance(target, LinearTarget):
        return float((target.matrix**2).sum(1).mean() / 12)  # tokens are uniform on [0, 1]
    return variance(target)


class Floor(contract.Work, work="cost.floor", trains=False):
    """A job: the least error of any model that sees only the past, without training."""

    task: str

    def run(self) -> FloorOutcome:
        """Compute the floor: in closed form for a linear target, else by drawing futures anew."""
        target = target_of(self.task)
        if isinstance(target, LinearTarget):
            return FloorOutcome(target.floor("causal") / spread(target))
        value, error = causal_floor(target, self.seed)
        return FloorOutcome(value / spread(target), error / spread(target))


class WrittenOutcome(contract.Outcome):
    """The error over the variance, and the operations of a forward pass, of a written model."""

    error: float
    operations: int


class Written(contract.Work, work="cost.written", trains=False):
    """A job: the linear RNN of one unit that is Table 2's target, written down without training."""

    sequences: int

    def run(self) -> WrittenOutcome:
        """Set W = e^-1 and U = c = 1, and measure."""
        target, model = target_of(ORIGINAL), LinearRNN(1, 1, hidden=1)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
            model.W.fill_(math.exp(-1))
            model.U.fill_(1.0)
            model.c.fill_(1.0)
            x = target.sample(self.sequences, _SEED + self.seed)
            error = float((model(x) - target(x)).square().mean())
        cost = costs.cost_of(model, target.length)
        return WrittenOutcome(error / spread(target), cost.inference)


class TrainedOutcome(contract.FittedOutcome):
    """How a fit went; the error is over the variance, operations are those of a forward pass."""

    parameters: int | None = None
    operations: int | None = None


class Trained(contract.Work, work="cost.trained"):
    """A job: a model of one size, fitted to a target."""

    task: str
    name: str
    size: int
    recipe: Mapping[str, float | int]

    @property
    def model(self) -> Settings:
        """The settings of the model; the features of a Transformer grow with its networks."""
        given, knob, _ = SIZES[self.name]
        whole = {**given, knob: self.size}
        if self.name != PIVOT:
            return whole
        # as in Table 2 and in Fig. 1: a target of Eq. 8 does not look at positions
        position = "learned" if self.task in (ORIGINAL, PERMUTED) else "none"
        features = dict.fromkeys(("n", "m_h", "m_v"), self.size // 2)
        return {**whole, **features, "position": position, "causal": self.task == PAST}

    def run(self) -> TrainedOutcome:
        """Train with the strong recipe, and count a forward pass of one sequence."""
        target = target_of(self.task)
        done = fit(
            target,
            lambda: build_model(self.model, target),
            recipe=recipe_of(self.recipe),
            seed=self.seed,
            threads=1,
        )
        model = build_model(self.model, target)
        assert isinstance(model, SequenceModel)
        cost = costs.cost_of(model, target.length)
        found = contract.from_plain(TrainedOutcome, done.outcome)
        error = None if found.error is None else found.error / spread(target)
        return replace(found, error=error, parameters=cost.parameters, operations=cost.inference)


def entrants(task: str) -> tuple[str, ...]:
    """The models that are fitted to a target: where the floor excludes the others, one."""
    return (PIVOT,) if task in (PERMUTED, GRAPH) else tuple(SIZES)


@dataclass(frozen=True)
class Price:
    """The least operations with which a model reaches an error, among the sizes that were fitted.

    `high` is what surely suffices, and `low` the least that may, by intervals over seeds; each is
    infinite where there is no such size. `value` goes by the mean over seeds.
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if not math.isfinite(self.value):
            return "not reached"
        high = f"{self.high:,.0f}" if math.isfinite(self.high) else "?"
        return f"{self.value:,.0f} [{self.low:,.0f} to {high}]"


@dataclass(frozen=True)
class Runs:
    """The finished jobs by kind."""

    counted: Mapping[tuple[str, int], costs.Cost]
    timed: Sequence[contract.Done[Seconds, SecondsOutcome]]
    floors: Mapping[str, FloorOutcome]
    written: WrittenOutcome | None
    trained: fits.Fits

    @property
    def lengths(self) -> list[int]:
        """The lengths at which all models were counted, in increasing order."""
        every = {length for _, length in self.counted}
        return sorted(n for n in every if all((name, n) in self.counted for name in NAMES))

    def counts(self, name: str, what: str) -> list[tuple[int, float]]:
        """A model's cost of one kind, a field of `Cost`, over the length."""
        return [(n, float(getattr(self.counted[name, n], what))) for n in self.lengths]

    def exponent(self, name: str, what: str) -> float:
        """The exponent of a cost between the last two lengths of LAST; nan if not counted."""
        found = dict(self.counts(name, what))
        if not found.keys() >= {*LAST}:
            return math.nan
        first, last = LAST
        return math.log(found[last] / found[first]) / math.log(last / first)

    def overall(self, name: str, what: str) -> Interval:
        """The exponent of a cost over all lengths, with the interval of a regression."""
        found = self.counts(name, what)
        return slope([float(length) for length, _ in found], [cost for _, cost in found])

    def share(self, length: int, name: str = PIVOT) -> float:
        """The share of operations that attention has in a forward pass; nan if not counted.

        A Transformer takes a τ² + b τ operations, so that twice the length takes 2 a τ² more than
        twice the operations.
        """
        found = dict(self.counts(name, "inference"))
        if not found.keys() >= {length, 2 * length}:
            return math.nan
        return (found[2 * length] - 2 * found[length]) / 2 / found[length]

    def half(self, name: str) -> float:
        """The length at which attention has half of the operations of a forward pass; nan if open.

        In a τ² + b τ this is b/a. The first two lengths, of which one is twice the other, give it.
        """
        for length in self.lengths:
            share = self.share(length, name)
            if math.isfinite(share):
                return length * (1 / share - 1) if share > 0 else math.inf
        return math.nan

    def ratios(self, length: int, what: str) -> dict[str, float]:
        """The Transformer's cost over that of each rival that was counted at this length."""
        return {
            name: getattr(self.counted[PIVOT, length], what)
            / getattr(self.counted[name, length], what)
            for name in RIVALS
            if {(PIVOT, length), (name, length)} <= self.counted.keys()
        }

    def passes(self, name: str) -> int:
        """The first token after which a causal Transformer keeps more than a rival at the end."""
        last = LAST[-1]
        each = self.counted[PIVOT, last].state // last
        return self.counted[name, last].state // each + 1

    def crossing(self, name: str, what: str, times: float) -> float | None:
        """The length from which the Transformer costs so many times as much; None for never.

        The ratio is interpolated between neighbouring lengths, both in logarithms.
        """
        mine, other = dict(self.counts(PIVOT, what)), dict(self.counts(name, what))
        ratios = [(math.log(n), math.log(mine[n] / other[n] / times)) for n in self.lengths]
        if not ratios or ratios[-1][1] < 0:
            return None
        for (a, left), (b, right) in reversed([*pairwise(ratios)]):
            if left < 0 <= right:
                return math.exp(a - left * (b - a) / (right - left))
        return float(self.lengths[0])

    def fitted(self, task: str, name: str) -> fits.Fits:
        """The fits of a model to a target."""
        return self.trained.where(task=task, name=name)

    def operations(self, task: str, name: str, size: int) -> float:
        """The operations of a forward pass of a fitted model."""
        found = self.fitted(task, name).where(size=size)
        return float(next(one.outcome.operations for one in found))

    def price(self, task: str, name: str, level: float) -> Price:
        """The price of an error that is at most this share of the variance."""
        value = low = high = math.inf
        found = self.fitted(task, name)
        for size in found.sizes:
            error, cost = found.mean(size=size), self.operations(task, name, size)
            if not error.known:
                continue
            ends = error.low, error.high
            if error.count == 1:
                ends = error.value / _ALONE, error.value * _ALONE
            value = min(value, cost) if error.value <= level else value
            low = min(low, cost) if ends[0] <= level else low
            high = min(high, cost) if ends[1] <= level else high
        return Price(value, low, high)

    def ranked(self, task: str, level: float) -> list[tuple[str, Price]]:
        """The models that reach an error on a target, the cheapest first."""
        found = [(name, self.price(task, name, level)) for name in SIZES]
        reached = [(name, one) for name, one in found if math.isfinite(one.value)]
        return sorted(reached, key=lambda named: named[1].value)

    def fastest(self, task: str, level: float) -> tuple[str, Interval] | None:
        """The model that reaches an error with the least mean seconds of training, and these."""
        found: list[tuple[str, Interval]] = []
        for name in SIZES:
            one = self.fitted(task, name)
            for size in one.sizes:
                if one.mean(size=size).value <= level:
                    spent = geometric_mean([fit.outcome.seconds for fit in one.where(size=size)])
                    found.append((f"{name} of size {size}", spent))
        return min(found, key=lambda named: named[1].value, default=None)

    def seconds(self, name: str, what: str) -> list[tuple[int, tuple[float, ...]]]:
        """The seconds of a model in every round, over the length."""
        return [
            (one.job.length, getattr(one.outcome, what)[[*one.job.models].index(name)])
            for one in sorted(self.timed, key=lambda one: one.job.length)
        ]
