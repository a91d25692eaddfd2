"""What trained attention links, held against the true weights: fits of graph targets, measured.

Every number is taken on fresh inputs that neither training nor its error has seen, in float64.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from jaxtyping import Bool, Float

from attnrate.experiments.experiment import Task, other_work
from attnrate.fitting.build import (
    build_model,
    build_recipe,
    build_target,
    complete_model,
    complete_recipe,
    complete_target,
)
from attnrate.fitting.fit import Fit, fit
from attnrate.fitting.trial import Trial
from attnrate.models.base import feed_forward
from attnrate.models.coupling import Beside, hold_values
from attnrate.models.transformer import Transformer
from attnrate.targets import AttentionTarget, Target
from attnrate.targets.alter import PermutedAttentionTarget

Tensor = torch.Tensor
#: Targets that have attention weights
Attending = AttentionTarget | PermutedAttentionTarget
#: Fresh sequences of every measurement; their seeds lie beyond those of `fit`
SEQUENCES = 4096
_FRESH = 1 << 43
_DIGITS = 6
_BINS = 12
#: An output counts as right when it is so near to the truth, on a scale of 1
NEAR = 0.05


@dataclass(frozen=True)
class MapSettings:
    """How long the fits of a preset are; `cost` has the seconds of each that is run."""

    seeds: int
    steps: int
    batch: int
    cost: Mapping[str, float]
    lr: float = 0.01


@dataclass(frozen=True)
class Case:
    """A model on a target; `lr` stands before that of the preset, `more` are further settings."""

    target: Mapping[str, Any]
    model: Mapping[str, Any]
    lr: float | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


def map_tasks(work: str, size: MapSettings, label: str, case: Callable[[str], Case]) -> list[Task]:
    """Fits whose attention is looked at, for every seed and every case that the preset runs.

    All settings are spelled out, as in a sweep. A result is found by its case under `label`.
    """
    return [
        other_work(work, _settings(size, case(name)), {label: name, "seed": seed}, seed, cost)
        for seed in range(size.seeds)
        for name, cost in size.cost.items()
    ]


def _settings(size: MapSettings, case: Case) -> dict[str, Any]:
    lr = size.lr if case.lr is None else case.lr
    recipe = {"name": "strong", "steps": size.steps, "batch": size.batch, "lr": lr}
    return {
        "target": complete_target(case.target),
        "model": complete_model(case.model),
        "recipe": complete_recipe(recipe),
        **case.more,
    }


@dataclass(frozen=True)
class Fitted:
    """A target and the model that was trained on it, in float64."""

    target: Attending
    model: Transformer
    fit: Fit


def measured(
    trial: Trial, look: Callable[[Fitted, Float[Tensor, "n length d"]], dict[str, Any]]
) -> dict[str, Any]:
    """Fit, and what `look` finds on fresh inputs; of a diverged fit only how it went."""
    done = fitted(trial)
    if done.fit.diverged:
        return done.fit.outcome
    return {**done.fit.outcome, **look(done, fresh(done.target, trial.seed))}


def fitted(trial: Trial) -> Fitted:
    """Fit the model of a map task to its target.

    The setting `held` is the number of values that are held at the first coordinates of the token,
    so that only ρ̂ and F̂ are learned (see `values_held`).
    """
    settings = trial.target
    target = build_target(settings["target"])
    held = settings.get("held", 0)

    def make() -> torch.nn.Module:
        if held:
            return values_held(settings["model"], target, held)
        return build_model(settings["model"], target)

    done = fit(target, make, build_recipe(settings["recipe"]), seed=trial.seed, threads=1)
    return Fitted(cast(Attending, target), cast(Transformer, done.model.double()), done)


def values_held(settings: Mapping[str, Any], target: Target, held: int) -> Transformer:
    """Eq. 5 with W_V f̂(x) held at the first `held` coordinates of x, which are f(x).

    f̂(x) = (x, g(x)) with a network g of n features; ρ̂ and F̂ are learned.
    """
    given = {key: value for key, value in settings.items() if key not in ("kind", "n", "m_v")}
    n, d = settings["n"], target.d
    beside = Beside(feed_forward(d, n, settings["width"], settings["depth"]))
    model = Transformer(d, target.out, n=d + n, m_v=held, f_hat=beside, **given)
    hold_values(model)
    return model


def fresh(target: Target, seed: int, n: int | None = None) -> Float[Tensor, "n length d"]:
    """Inputs that no fit has seen, SEQUENCES unless told."""
    return target.sample(SEQUENCES if n is None else n, _FRESH + seed)


def measures(
    model: Transformer,
    target: Attending,
    x: Float[Tensor, "n length d"],
    rows: Bool[Tensor, "n length"] | None = None,
) -> dict[str, float | None]:
    """Learned attention against the true one, over the given rows (all, unless told).

    - `link`: the share of rows whose largest weight is the true one's, over rows whose true
      argmax is unique, with its standard error over sequences; this is argmax ρ̂ = argmax ρ, the
      invariant of Prop. B.1 (2, 3).
    - `near` and `near_link`: the share of rows with |Ĥ - H| at most NEAR, and `link` among them.
    - `mae`: the mean |Â - A| over the entries of the rows; `moved`: the share of a row's weight
      that lies elsewhere, half the sum of |Â - A|.
    """
    kept = torch.ones(x.shape[:2], dtype=torch.bool) if rows is None else rows
    learned, true = attentions(model, target, x)
    top = true.topk(2, dim=-1).values
    counted = kept & (top[..., 0] - top[..., 1] > 1e-9)
    right = counted & (learned.argmax(-1) == true.argmax(-1))
    with torch.no_grad():
        near = kept & ((model(x) - target(x)).norm(dim=-1) <= NEAR)
    gap = (learned - true).abs()[kept]
    link, link_se = _share(right, counted)
    near_link, _ = _share(right & near, counted & near)
    return {
        "link": link,
        "link_se": link_se,
        "near": float(near.sum() / kept.sum()),
        "near_link": near_link,
        "mae": float(gap.mean()),
        "moved": float(gap.sum(-1).mean() / 2),
    }


def attentions(
    model: Transformer, target: Attending, x: Float[Tensor, "n length d"]
) -> tuple[Float[Tensor, "n length length"], Float[Tensor, "n length length"]]:
    """The model's attention weights and the target's, at [t, s]."""
    with torch.no_grad():
        return model.attention(x), target.attention(x)


def pointwise(
    model: Transformer,
    target: Attending,
    tokens: Float[Tensor, "k d"],
) -> dict[str, Any]:
    """F̂∘f̂ against F∘f on tokens: the rms difference, the truth's spread, and a curve of bins.

    The curve has, over bins of F∘f with equally many tokens, the mean of both, and F∘f plus the 5 %
    and 95 % quantiles of the difference; of several outputs all are taken together.
    """
    with torch.no_grad():
        learned = model.pointwise(tokens).flatten()
    base = target if isinstance(target, AttentionTarget) else target.base
    assert isinstance(base, AttentionTarget)
    true = base.F(base.f(tokens)).flatten()
    order = true.argsort()
    shown = {"x": [], "y": [], "low": [], "high": []}  # type: dict[str, list[float]]
    for part in torch.tensor_split(order, _BINS):
        centre, off = true[part].mean(), learned[part] - true[part]
        shown["x"].append(_rounded(centre))
        shown["y"].append(_rounded(learned[part].mean()))
        shown["low"].append(_rounded(centre + off.quantile(0.05)))
        shown["high"].append(_rounded(centre + off.quantile(0.95)))
    return {
        "rms": float((learned - true).square().mean().sqrt()),
        "spread": float(true.std()),
        "curve": shown,
    }


def matrix(values: Float[Tensor, "rows columns"]) -> list[list[float]]:
    """A matrix as plain numbers of six digits."""
    return [[_rounded(entry) for entry in row] for row in values]


def example(
    model: Transformer, target: Attending, x: Float[Tensor, "1 length d"]
) -> dict[str, Any]:
    """Both attention matrices of one input, with the input, and the mean |Â - A|."""
    learned, true = attentions(model, target, x)
    return {
        "x": matrix(x[0]),
        "learned": matrix(learned[0]),
        "true": matrix(true[0]),
        "mae": float((learned - true).abs().mean()),
    }


def _share(
    hits: Bool[Tensor, "n length"], cases: Bool[Tensor, "n length"]
) -> tuple[float | None, float | None]:
    """Hits in all cases, and its standard error; rows of one sequence are not independent."""
    total = cases.sum()
    if total == 0:
        return None, None
    share = hits.sum() / total
    left = hits.sum(-1) - share * cases.sum(-1)
    return float(share), float(left.std() * len(hits) ** 0.5 / total)


def _rounded(value: Float[Tensor, ""]) -> float:
    return round(float(value), _DIGITS)
