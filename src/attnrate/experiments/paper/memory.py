"""How far back does each architecture reach? Delays, their smooth relatives, reversal, real time.

The delay is y(t) = x(t-s) over τ = 33 tokens of mean 0 and variance 1, with s from 1 to τ-1. Its
smooth relative has a discrete Gamma kernel of mean lag s. Reversed in time, the same outputs are
asked for while the tokens come last first. On irregular steps, y(t) = Σ e^{-λ(T(t) - T(s))} x(s),
where T are the times of a Poisson process and tokens carry the elapsed time or the time itself.

All models have about as many parameters as the Transformer, except for one linear RNN that has 8
states. What they can do at best is known without training: floors in closed form, and models that
are written down (`theory/memory.py`). Errors are shares of the variance of the outputs.

The rules were written after single fits of delays with 600 to 1,500 steps, which had shown that the
Transformer, the GRU and the state space model do not learn s = 16 in this time; before any fit on
irregular steps or on smooth relatives. No rule was changed after these.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
import torch

from attnrate import settings
from attnrate.experiments import contract
from attnrate.experiments.claims import (
    Claim,
    Verdict,
    at_least,
    at_most,
    claim_of,
    judge,
    judge_each,
)
from attnrate.experiments.kits import fits
from attnrate.experiments.kits.equal import PIVOT, parameters_of, settings_of
from attnrate.figures.figure import Cell, Curves, Figure, Line, Table
from attnrate.fitting.job import Sized
from attnrate.fitting.trial import Trial
from attnrate.models.base import SequenceModel
from attnrate.statistics import Interval, geometric_mean
from attnrate.targets import LinearTarget
from attnrate.targets.build import build_target
from attnrate.targets.delay import LAW, delay_target, gamma_kernel
from attnrate.targets.irregular import IrregularTarget, irregular_target
from attnrate.theory.memory import delay_rnn, delay_transformer, gamma_rnn, states_floor
from attnrate.theory.recurrent import HORIZON, rnn_complexity

LENGTH, HALF = 33, 16
LAGS = (1, 2, 4, 8, HALF, LENGTH - 1)
#: The states of the small RNN, and those that carry the smooth relative
STATES = 8
#: The lag that is reversed in time
REVERSED = 8
#: Seed of the inputs on which exact models are measured; no fit uses it
_SEED, _SEQUENCES = 1 << 46, 256
#: An exact model misses at most this share of the variance
EXACT = 1e-12
#: A lag is reached if at most this share of the variance is lost
REACHED = 0.01
#: Errors within this factor count as equal
SAME = 3.0
#: The RNN of few states, and models of equal size
SMALL, LINEAR, GRU = f"linear RNN, {STATES} states", "linear RNN", "GRU"
NAMES = (PIVOT, LINEAR, GRU, "convolution", "state space")


def delayed(lag: int) -> str:
    """The name of the task "delay by this lag"."""
    return f"delay by {lag}"


def smooth(lag: int) -> str:
    """The name of the task "smooth relative of this lag"."""
    return f"smooth, lag {lag}"


BACKWARD, AHEAD = f"delay by {REVERSED}, reversed", f"{REVERSED} ahead"
ELAPSED, TIME = "irregular, elapsed time", "irregular, time"
#: The settings of the target of every task
TASKS: Mapping[str, settings.Settings] = {
    **{delayed(lag): {"kind": "delay", "lag": lag, "length": LENGTH} for lag in LAGS},
    **{
        smooth(lag): {"kind": "delay", "lag": lag, "states": STATES, "length": LENGTH}
        for lag in (4, HALF)
    },
    BACKWARD: {
        "kind": "delay",
        "lag": REVERSED,
        "length": LENGTH,
        "permute": [*reversed(range(LENGTH))],
    },
    AHEAD: {"kind": "delay", "lag": REVERSED, "length": LENGTH, "ahead": True},
    ELAPSED: {"kind": "irregular", "length": LENGTH, "carries": "elapsed"},
    TIME: {"kind": "irregular", "length": LENGTH, "carries": "time"},
}


class ExactOutcome(contract.Outcome):
    """What is known of one lag without training; errors and floors are shares of the variance.

    `register`, `head` and `cascade` are errors of models that are written down: the RNN of s+1
    states, the Transformer with m_h = 2, and the RNN of STATES states on the smooth relative.
    `below` and `few` are floors of linear RNNs with s and with STATES states. `causal` and
    `invariant` are floors of causal models and of linear RNNs on the reversed delay.
    """

    c_rnn: float
    c_rnn_smooth: float
    register: float
    head: float
    cascade: float
    below: float
    few: float
    causal: float
    invariant: float


class Exact(contract.Work, work="memory.exact", trains=False):
    """A job: floors and exact models of one lag."""

    lag: int

    def run(self) -> ExactOutcome:
        """Build the models, measure them on drawn inputs, and compute the floors."""
        target = delay_target(self.lag, length=LENGTH)
        relative = delay_target(self.lag, states=STATES, length=LENGTH)
        kernel, whole = np.eye(LENGTH)[self.lag], variance_of(target)
        scale = float(gamma_kernel(self.lag, STATES, LENGTH)[0])
        backward = target.permuted([*reversed(range(LENGTH))])
        return ExactOutcome(
            # padded, so that the last lag is seen to be the last
            c_rnn=rnn_complexity(np.pad(kernel, (0, LENGTH))).value,
            c_rnn_smooth=rnn_complexity(gamma_kernel(self.lag, STATES, HORIZON)).value,
            register=_missed(delay_rnn(self.lag), target),
            head=_missed(delay_transformer(self.lag, LENGTH, LAW.high[0]), target),
            cascade=_missed(gamma_rnn(self.lag, STATES, scale), relative),
            below=states_floor(kernel, self.lag) / whole,
            few=states_floor(kernel, STATES) / whole,
            causal=backward.floor("causal") / whole,
            invariant=backward.floor("time-invariant") / whole,
        )


def _missed(model: SequenceModel, target: LinearTarget) -> float:
    x = target.sample(_SEQUENCES, _SEED)
    with torch.no_grad():
        return float((model(x) - target(x)).square().mean()) / variance_of(target)


def variance_of(target: LinearTarget | IrregularTarget) -> float:
    """E mean_t y(t)² for tokens of mean 0 and variance 1: the error of the best constants."""
    if isinstance(target, IrregularTarget):
        return target.variance()
    return float(np.square(target.matrix).sum()) / target.length


@dataclass(frozen=True)
class Fitted:
    """The label of a fit: its task, its model, and its seed."""

    task: str
    model: str
    seed: int


@dataclass(frozen=True)
class Chosen:
    """The fits of a preset: the models of each task, and how they are trained."""

    grid: Mapping[str, tuple[str, ...]]
    recipe: Mapping[str, float | int]
    seeds: int


_WITH_SMALL = (*NAMES, SMALL)
_RECURRENT = (LINEAR, GRU, SMALL)
CHOSEN: Mapping[contract.Preset, Chosen] = {
    "quick": Chosen(
        {
            delayed(1): (PIVOT, LINEAR, GRU),
            delayed(REVERSED): (PIVOT, LINEAR, SMALL),
            delayed(HALF): (LINEAR, GRU, SMALL),
            smooth(HALF): (SMALL,),
            BACKWARD: (PIVOT, LINEAR),
            ELAPSED: (GRU,),
        },
        {"lr": 0.01, "steps": 300, "batch": 32},
        2,
    ),
    "paper": Chosen(
        {
            **{delayed(lag): _WITH_SMALL for lag in LAGS},
            **{smooth(lag): _WITH_SMALL for lag in (4, HALF)},
            BACKWARD: NAMES,
            AHEAD: (PIVOT,),
            ELAPSED: NAMES,
            TIME: NAMES,
        },
        {"lr": 0.01, "steps": 2000, "batch": 64},
        5,
    ),
}
#: Seconds of 1,000 steps on one core
SECONDS: Mapping[str, float] = dict(zip(_WITH_SMALL, (5.5, 1.8, 8.5, 7.0, 13.5, 1.9), strict=True))


def _seconds(task: str, name: str) -> float:
    """A fit that ends as a constant is begun again twice, as that of the longest lag."""
    return SECONDS[name] * (3 if task == delayed(LAGS[-1]) and name in _RECURRENT else 1)


def plan(preset: contract.Preset) -> contract.Plan:
    """Plan what is known of every lag, and a fit for every task, model and seed."""
    chosen = CHOSEN[preset]
    known: contract.Plan = [Sized(Exact(lag=lag), 0.1) for lag in LAGS]
    trained: contract.Plan = [
        Sized(
            contract.Fit(
                Fitted(task, name, seed),
                Trial(TASKS[task], model_settings(name), chosen.recipe, seed),
            ),
            _seconds(task, name) * chosen.recipe["steps"] / 1000,
        )
        for task, names in chosen.grid.items()
        for name in names
        for seed in range(chosen.seeds)
    ]
    return [*known, *trained]


def model_settings(name: str) -> settings.Settings:
    """The settings of a model; all but the small one match the Transformer's parameters."""
    return {"kind": "linear_rnn", "hidden": STATES} if name == SMALL else settings_of(name, LENGTH)


@cache
def _variance(task: str) -> float:
    target = build_target(TASKS[task])
    assert isinstance(target, LinearTarget | IrregularTarget)
    return variance_of(target)


@dataclass(frozen=True)
class Measured:
    """What is known of each lag, and the fits; errors are shares of the variance."""

    exact: Mapping[int, ExactOutcome]
    fitted: fits.Fits

    def of(self, task: str, model: str) -> fits.Fits:
        """The fits of a model to a task, one per seed."""
        return self.fitted.where(task=task, model=model)

    def error(self, task: str, model: str) -> Interval:
        """The share of the variance that a model misses on a task."""
        return self.of(task, model).mean()

    def ratio(self, above: tuple[str, str], below: tuple[str, str]) -> Interval:
        """The error of one (task, model) over that of another, paired by seed."""
        return self.of(*above).ratio(self.of(*below), "seed")

    @property
    def tasks(self) -> list[str]:
        """The tasks that have a fit."""
        return [task for task in TASKS if self.fitted.where(task=task)]

    def over(self, task: Callable[[int], str], model: str) -> list[tuple[float, Interval]]:
        """The errors of a model over the lags of a kind of task."""
        every = [(float(lag), self.error(task(lag), model)) for lag in LAGS]
        return [(lag, one) for lag, one in every if one.count]

    def reach(self, model: str) -> str:
        """The largest lag that is reached, as are all that were tried below, in words."""
        reached = "no lag"
        for lag, error in self.over(delayed, model):
            if error.value > REACHED:
                break
            reached = f"s = {lag:g}"
        return reached


def measured(results: contract.Results) -> Measured:
    """Sort the finished jobs, and divide errors by the variance of their task."""
    shares = [
        one
        if one.outcome.error is None
        else replace(
            one,
            outcome=replace(one.outcome, error=one.outcome.error / _variance(one.job.label.task)),
        )
        for one in results.fits(Fitted)
    ]
    exact = {one.job.lag: one.outcome for one in results.of(Exact, ExactOutcome)}
    return Measured(exact, fits.Fits(shares))


def conclude(results: contract.Results) -> contract.Conclusion:
    """Compare floors, exact models and fits over lags, in reversed order, and on random times."""
    found = measured(results)
    return contract.Conclusion(paragraphs(found), figures(found), tables(found), claims(found))


_claim = partial(claim_of, "memory")


def claims(found: Measured) -> tuple[Claim, ...]:
    """Decide what lags cost, who reaches them, what reversal takes, and who uses the times."""
    return (
        _states(found),
        _head(found),
        _blurred(found),
        _trained_head(found),
        _reach(found),
        _gates(found),
        _backward(found),
        _turned(found),
        _recurrence(found),
        _told(found),
    )


def _states(found: Measured) -> Claim:
    """Decide by exact errors and floors, up to half of the sequence, where floors are above 0."""
    near = {lag: one for lag, one in found.exact.items() if 2 * lag < LENGTH}
    worst = max((one.register for one in near.values()), default=float("nan"))
    least = min((one.below for one in near.values()), default=float("nan"))
    sizes = "; ".join(f"s = {lag}: {one.c_rnn:.3g}" for lag, one in near.items())
    return _claim(
        "states",
        "Our question; Eq. 78",
        "Up to half of the sequence, a linear RNN needs exactly s+1 states for a delay by s, "
        "although C_RNN is e^s.",
        judge(worst <= EXACT and least > 0, worst > EXACT or least <= 0, enough=HALF in near),
        f"With s+1 states, written down, the largest error is {worst:.2g} of the variance. With s "
        f"states at least {least:.3g} is lost, by the singular values of Hankel matrices. C_RNN is "
        f"{sizes or 'not computed yet'}.",
        least,
    )


def _head(found: Measured) -> Claim:
    worst = max((one.head for one in found.exact.values()), default=float("nan"))
    return _claim(
        "head",
        "Our question; Eq. 5",
        "One attention head with m_h = 2 carries a delay by any lag.",
        judge(worst <= EXACT, worst > EXACT, enough=set(LAGS) <= found.exact.keys()),
        f"A Transformer of Eq. 5 with learned positions and m_h = 2, written down for each of "
        f"{len(found.exact)} lags from 1 to τ-1, misses at most {worst:.2g} of the variance. Its "
        "logits are -(t' - t + s)² up to softmax's gauge.",
        worst,
    )


def _blurred(found: Measured) -> Claim:
    known, error = found.exact.get(HALF), found.error(smooth(HALF), SMALL)
    verdict: Verdict = "open"
    evidence = "not computed yet."
    if known is not None:
        exact = known.few > REACHED and known.cascade <= EXACT
        verdict = at_most(error, REACHED) if exact else "does not hold"
        evidence = (
            f"On the delay it loses at least {known.few:.3g} of the variance (C_RNN "
            f"{known.c_rnn:.2g}). On the relative (C_RNN {known.c_rnn_smooth:.2g}) an RNN that is "
            f"written down loses {known.cascade:.1g}, and training reaches {error.shown}."
        )
    return _claim(
        "blurred",
        "Our question; Sec. 6",
        f"A linear RNN of {STATES} states cannot carry a delay by {HALF}, but it learns the smooth "
        "relative of the same lag.",
        verdict,
        evidence,
        error,
    )


def _trained_head(found: Measured) -> Claim:
    ratio = found.ratio((delayed(HALF), PIVOT), (delayed(1), PIVOT))
    return _claim(
        "transformer-reach",
        "Our question; Prop. 6.2",
        f"A trained Transformer looks back by {HALF} as well as by 1.",
        at_most(ratio, SAME),
        f"Its error at s = {HALF} over that at s = 1: {ratio.shown} (within a factor {SAME:g} "
        "counts as equal). Eq. 5 itself has no such limit: see the head that is written down.",
        ratio,
    )


def _reach(found: Measured) -> Claim:
    names = (LINEAR, "convolution")
    every = [(one, name, lag) for name in names for lag, one in found.over(delayed, name)]
    worst, name, lag = max(every, key=lambda one: one[0].value, default=(geometric_mean([]), "", 0))
    return _claim(
        "reach",
        "Our question",
        "With as many parameters as the Transformer, the linear RNN and the convolution learn "
        "every lag up to the whole sequence.",
        judge_each(
            [one for one, _, _ in every],
            lambda one: one.high <= REACHED,
            lambda one: one.low > REACHED,
            least=len(names) * len(LAGS),
        ),
        f"The limit is {REACHED:g} of the variance for each lag; the largest error is "
        + (f"{worst}, by the {name} at s = {lag:g}." if every else "not measured yet."),
        worst,
    )


def _gates(found: Measured) -> Claim:
    ratio = found.ratio((delayed(HALF), GRU), (delayed(HALF), LINEAR))
    return _claim(
        "gates",
        "Our question",
        f"Gates do not help to look back: at s = {HALF} a GRU has a larger error than a linear RNN "
        "with as many parameters.",
        judge(ratio.low > 1, ratio.high < 1),
        f"The error of the GRU over that of the linear RNN: {ratio.shown}.",
        ratio,
    )


def _backward(found: Measured) -> Claim:
    """Decide by floors; a fit below one would mean that this program has an error."""
    known = found.exact.get(REVERSED)
    verdict: Verdict = "open"
    said = "not computed yet."
    if known is not None:
        # an error over 8,192 sequences may be below the floor by sampling
        broken = [
            name
            for name in NAMES[1:]
            if any(error < 0.97 * known.causal for error in found.of(BACKWARD, name).errors)
        ]
        verdict = judge(known.causal >= 0.4 and known.invariant >= 0.8, True, enough=not broken)
        said = (
            f"No causal model can lose less than {known.causal:.3g} of the variance, and no linear "
            f"RNN less than {known.invariant:.3g}, in closed form"
            + (f"; the {broken[0]} is below: this program has an error." if broken else ".")
        )
    return _claim(
        "reversed",
        "Sec. 6.1, Prop. 6.1",
        f"Reversed in time, the delay by {REVERSED} takes nearly half of the variance from every "
        "causal model and nearly all from every linear RNN, whatever their sizes.",
        verdict,
        said,
        None if known is None else known.causal,
    )


def _turned(found: Measured) -> Claim:
    ratio = found.ratio((BACKWARD, PIVOT), (delayed(REVERSED), PIVOT))
    ahead = found.error(AHEAD, PIVOT)
    return _claim(
        "reversed-transformer",
        "Sec. 6.1, Prop. 6.2",
        "A Transformer learns a delay in reversed order as well as in the original one.",
        at_most(ratio, SAME),
        f"Its error on the reversed delay by {REVERSED} over that on the original: {ratio.shown} "
        f"(limit {SAME:g})"
        + (f"; looking ahead by {REVERSED}, its error is {ahead}." if ahead.count else "."),
        ratio,
    )


def _floor() -> float:
    """The share of the variance that is lost without the times."""
    return (target := irregular_target(length=LENGTH)).untimed_floor() / target.variance()


def _recurrence(found: Measured) -> Claim:
    error, floor = found.error(ELAPSED, GRU), _floor()
    linear = found.error(ELAPSED, LINEAR)
    return _claim(
        "irregular-gru",
        "Our question",
        "On irregular steps, a GRU that is told the elapsed times loses less than a tenth of what "
        "every model loses without them.",
        at_most(error, floor / 10),
        f"Its error is {error.shown} of the variance. Without the times, or by a map that is "
        f"affine in them, at least {floor:.3g} is lost, in closed form"
        + (f"; the linear RNN loses {linear}." if linear.count else "."),
        error,
    )


def _told(found: Measured) -> Claim:
    ratio = found.ratio((ELAPSED, PIVOT), (TIME, PIVOT))
    return _claim(
        "irregular-transformer",
        "Our question; Eq. 8",
        "On irregular steps, a trained Transformer must be told the time itself; elapsed times "
        "leave it with at least three times the error.",
        at_least(ratio, SAME),
        f"Its share of the variance, told the time: {found.error(TIME, PIVOT).shown}; with elapsed "
        f"times: {found.error(ELAPSED, PIVOT).shown}; ratio: {ratio.shown}. Every model loses at "
        f"least {_floor():.3g} without the times.",
        ratio,
    )


def paragraphs(found: Measured) -> tuple[str, ...]:
    """Say what lags cost in theory, and how far the fits reach."""
    if not found.exact and not found.fitted:
        return ("No job of this experiment is finished.",)
    counts = {name: parameters_of(model_settings(name), LENGTH) for name in _WITH_SMALL}
    sizes = ", ".join(f"{name} {count}" for name, count in counts.items())
    said = [
        "A delay by s has a Hankel matrix with s+1 equal singular values, so that a linear RNN of "
        "k states loses at least the share 1 - k / min(s+1, τ-s) of the variance: the states that "
        "are needed grow like s, and C_RNN like e^s. The smooth relative needs n states at every "
        "lag, n leaky integrators in a row, and is blurred by s/√n or more; its C_RNN grows with s "
        "all the same. A convolution that reads R tokens loses everything for s ≥ R.",
        f"Parameters: {sizes}.",
    ]
    reached = {name: found.reach(name) for name in _WITH_SMALL if found.over(delayed, name)}
    if reached:
        said.append(
            f"As trained here, the lags up to which at most {100 * REACHED:g} % of the variance is "
            f"lost: {fits.listed(reached)} (of {LENGTH - 1})."
        )
    return tuple(said)


def figures(found: Measured) -> tuple[Figure, ...]:
    """Draw errors over lags, and errors of all models in reversed order and on random times."""
    drawn = []
    over_lags = tuple(panel for panel in (_lag_panel(found), _states_panel(found)) if panel.series)
    if over_lags:
        drawn.append(
            Figure(
                "memory",
                "How far back models look",
                "Shares of the variance that are lost on the delay y(t) = x(t-s), τ = 33. Left: "
                "trained models of equal size, with intervals over seeds. Right: a linear RNN of "
                f"{STATES} states on delays and on their smooth relatives, and the floor of any "
                "such RNN.",
                over_lags,
            )
        )
    order = _order_panel(found)
    if order.series:
        drawn.append(
            Figure(
                "memory-order",
                "Reversed order and irregular steps",
                "Shares of the variance that are lost by models of equal size. The lines are "
                "exact: the floor of all causal models on the reversed delay, and what is lost on "
                "irregular steps without the times.",
                (order,),
            )
        )
    return tuple(drawn)


_SHARE = "error / variance"


def _lag_panel(found: Measured) -> Curves:
    every = [(name, found.over(delayed, name)) for name in NAMES]
    series = tuple(fits.curve(name, points, group=name) for name, points in every if points)
    return Curves("Trained, equal size", "lag s", _SHARE, series, "log", "log")


def _states_panel(found: Measured) -> Curves:
    kinds = {"delay, trained": delayed, "smooth relative, trained": smooth}
    every = [(label, found.over(task, SMALL)) for label, task in kinds.items()]
    series = [fits.curve(label, points) for label, points in every if points]
    floors = [(lag, one.few) for lag, one in sorted(found.exact.items()) if one.few > 0]
    if floors:
        series.append(fits.line("delay, floor", floors, "theory"))
    return Curves(f"{STATES} states", "lag s", _SHARE, tuple(series), "log", "log")


def _order_panel(found: Measured) -> Curves:
    series = []
    for task in (delayed(REVERSED), BACKWARD, ELAPSED, TIME):
        every = [(float(place), found.error(task, name)) for place, name in enumerate(NAMES)]
        points = [(place, one) for place, one in every if one.count]
        if points:
            series.append(fits.curve(task, points))
    known = found.exact.get(REVERSED)
    lines = [Line("floor without times", y=_floor())]
    if known is not None:
        lines.insert(0, Line("causal floor, reversed", y=known.causal))
    shown = tuple(series)
    return Curves("", "model", _SHARE, shown, y_scale="log", lines=tuple(lines), ticks=NAMES)


def tables(found: Measured) -> tuple[Table, ...]:
    """Tabulate what is exact for every lag, and the errors of all models."""
    exact: tuple[tuple[Cell, ...], ...] = tuple(
        (lag, one.c_rnn, one.c_rnn_smooth, lag + 1, one.few, one.causal)
        for lag, one in sorted(found.exact.items())
    )
    rows = tuple((task, *(_cell(found.of(task, name)) for name in NAMES)) for task in found.tasks)
    made = (
        Table(
            "What is known of each lag",
            (
                "lag s",
                "C_RNN",
                "C_RNN, smooth",
                "states that suffice",
                f"floor, {STATES} states",
                "causal floor, reversed",
            ),
            exact,
            "Floors are shares of the variance. Beyond half of the sequence, the floor of few "
            "states falls again, because states that grow can come near such a delay.",
        ),
        Table(
            "Shares of the variance that are lost",
            ("task", *NAMES),
            rows,
            "Geometric means over seeds with 95 % intervals for two or more seeds. "
            f"Small RNN: {_small_words(found)}.",
        ),
    )
    return tuple(table for table in made if table.rows)


def _cell(found: fits.Fits) -> Cell:
    return found.mean().shown if found else None


def _small_words(found: Measured) -> str:
    return fits.listed(
        {task: found.error(task, SMALL) for task in found.tasks if found.of(task, SMALL)}
    )


EXPERIMENT = contract.Experiment(
    "memory",
    "How far back each architecture reaches",
    "Sec. 6; our question",
    190,
    plan,
    conclude,
)
