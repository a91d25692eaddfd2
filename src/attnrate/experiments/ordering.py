"""From purely graph to purely temporal: which model is best where, at equal parameter count.

A review of the paper's first version asks for a spectrum of tasks between the two, and for both
orders of the inputs. Targets are (1-λ) graph + λ temporal with unit variance each, over uniform
scalars of length 16: the graph part is Fig. 1's target (α = 1, rank 2), the temporal one Table 2's.
Errors are divided by the variance of the target. All models but the Transformer see only the past,
so the least error of any causal model is estimated without training; and in the variant "causal"
the graph part sees only the past too, and so does the Transformer: what is left is architecture.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from attnrate.experiments import ordering_claims
from attnrate.experiments.blend import LENGTH, VARIANTS, blend, causal_floor, variance
from attnrate.experiments.experiment import Conclusion, Experiment, Preset, Result, Task, other_work
from attnrate.fitting.build import build_model
from attnrate.fitting.fit import fit
from attnrate.fitting.trial import Trial
from attnrate.models.base import SequenceModel
from attnrate.targets import linear_target

TRANSFORMER: Mapping[str, Any] = {
    "kind": "transformer",
    "n": 16,
    "m_h": 8,
    "m_v": 16,
    "width": 32,
    "depth": 2,
    "position": "learned",
}
#: The others, and the setting that is chosen to give them as many parameters
OTHERS: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "RNN": ({"kind": "linear_rnn", "activation": "tanh"}, "hidden"),
    "linear RNN": ({"kind": "linear_rnn"}, "hidden"),
    "GRU": ({"kind": "gru"}, "hidden"),
    "convolution": ({"kind": "convolution"}, "channels"),
    "state space": ({"kind": "state_space", "state": 16}, "channels"),
}
NAMES = ("Transformer", *OTHERS)


@dataclass(frozen=True)
class Settings:
    """For each variant the values of λ and the models; the recipe, its cost, and the seeds."""

    grid: Mapping[str, tuple[tuple[float, ...], tuple[str, ...]]]
    recipe: Mapping[str, Any]
    cost: float
    seeds: int


QUICK = Settings(
    {
        "as it is": ((0.0, 0.5, 1.0), NAMES),
        "permuted": ((0.0, 1.0), ("Transformer", "RNN")),
        "causal": ((0.0,), ("Transformer", "RNN", "GRU", "convolution", "state space")),
    },
    {"lr": 0.01, "steps": 500, "batch": 32},
    3.4,
    1,
)
PAPER = Settings(
    {
        "as it is": ((0.0, 0.1, 0.25, 0.5, 0.75, 1.0), NAMES),
        "permuted": ((0.0, 0.5, 1.0), NAMES),
        "causal": ((0.0, 0.25, 0.5, 0.75, 1.0), NAMES),
    },
    {"lr": 0.01, "steps": 1200, "batch": 64},
    10.0,
    5,
)


def tasks(preset: Preset) -> list[Task]:
    """The floors, and a fit for every variant, λ, model and seed."""
    chosen = QUICK if preset == "quick" else PAPER
    listed = []
    for variant, (shares, names) in chosen.grid.items():
        for share in shares:
            at = {"variant": variant, "share": share}
            listed.append(other_work("ordering.floor", at, {"part": "floor", **at}, cost=0.4))
            listed.extend(
                other_work(
                    "ordering.trained",
                    {**at, "model": name, "recipe": dict(chosen.recipe)},
                    {"part": "fit", **at, "model": name, "seed": seed},
                    seed,
                    chosen.cost,
                )
                for seed in range(chosen.seeds)
                for name in names
            )
    return listed


@cache
def model_settings(name: str) -> dict[str, Any]:
    """The settings of a model; the size that is free is chosen to match the Transformer."""
    if name == "Transformer":
        return dict(TRANSFORMER)
    given, free = OTHERS[name]
    wanted, size = parameters("Transformer"), 1
    while _count({**given, free: size + 1}) <= wanted:
        size += 1
    near = [{**given, free: candidate} for candidate in (size, size + 1)]
    return min(near, key=lambda one: abs(_count(one) - wanted))


@cache
def parameters(name: str) -> int:
    """How many parameters a model has."""
    return _count(model_settings(name))


def floor(trial: Trial) -> dict[str, Any]:
    """The least error of any causal model, over the variance of the target."""
    target = blend(trial.target["share"], trial.target["variant"])
    whole = variance(target)
    value, error = causal_floor(target, trial.seed)
    return {"floor": value / whole, "floor_error": error / whole}


def trained(trial: Trial) -> dict[str, Any]:
    """The error of a trained model over the variance of the target; None when it diverged."""
    asked = trial.target
    target = blend(asked["share"], asked["variant"])
    given = model_settings(asked["model"])
    if asked["model"] == "Transformer" and asked["variant"] == "causal":
        given = {**given, "causal": True}
    found = fit(
        target,
        lambda: build_model(given, target),
        recipe="strong",
        seed=trial.seed,
        threads=1,
        **asked["recipe"],
    )
    return {
        "error": None if found.diverged else found.error / variance(target),
        "seconds": found.seconds,
        "parameters": parameters(asked["model"]),
    }


def conclude(results: Sequence[Result]) -> Conclusion:
    """Curves over λ, where they cross, and the claims."""
    counts = {name: parameters(name) for name in NAMES}
    return ordering_claims.conclusion(results, counts, VARIANTS)


def _count(given: Mapping[str, Any]) -> int:
    model = build_model(given, linear_target("exponential", LENGTH))
    assert isinstance(model, SequenceModel)
    return model.parameter_count()


WORK = {"floor": floor, "trained": trained}
EXPERIMENT = Experiment(
    "ordering", "From graph to temporal targets", "Sec. 6; review of version 1", tasks, conclude
)
