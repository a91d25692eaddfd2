"""What trained attention links, held against the true weights: fits of graph targets, measured.

An experiment has a job of its own, a `MapFit`, whose `run` says what is measured. Every number is
taken on fresh inputs that neither training nor its error has seen, in float64.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar, cast

import torch
from jaxtyping import Bool, Float

from attnrate.experiments.contract import FittedOutcome, Plan, Work
from attnrate.fitting.fit import fit
from attnrate.fitting.job import Sized
from attnrate.fitting.recipe import complete_recipe, recipe_of
from attnrate.models.build import build_model, complete_model
from attnrate.models.transformer import Transformer
from attnrate.targets import AttentionTarget, Target
from attnrate.targets.alter import PermutedAttentionTarget
from attnrate.targets.build import build_target, complete_target

Tensor = torch.Tensor
#: Targets that have attention weights
Attending = AttentionTarget | PermutedAttentionTarget
#: The settings of a target, a model or a recipe, as a sweep has them
Settings = Mapping[str, float | int | str | bool | list[int] | None]
#: A matrix as plain numbers of six digits
Entries = tuple[tuple[float, ...], ...]
#: Fresh sequences of every measurement; their seeds lie beyond those of `fit`
SEQUENCES = 4096
_FRESH = 1 << 43
_DIGITS = 6
_BINS = 12
#: An output counts as right when it is so near to the truth, on a scale of 1
NEAR = 0.05


@dataclass(frozen=True)
class Measures:
    """Learned attention against the true one, over some rows.

    - `link`: the share of rows whose largest weight is the true one's, over rows whose true
      argmax is unique, with its standard error over sequences; this is argmax ρ̂ = argmax ρ, the
      invariant of Prop. B.1 (2, 3).
    - `near` and `near_link`: the share of rows with |Ĥ - H| at most NEAR, and `link` among them.
    - `mae`: the mean |Â - A| over the entries of the rows; `moved`: the share of a row's weight
      that lies elsewhere, half the sum of |Â - A|.
    """

    link: float | None = None
    link_se: float | None = None
    near: float | None = None
    near_link: float | None = None
    mae: float | None = None
    moved: float | None = None


#: Those of a fit that diverged
UNMEASURED = Measures()


@dataclass(frozen=True)
class Curve:
    """F̂∘f̂ over F∘f, in bins of equally many tokens.

    Of each bin it has the mean of F∘f and of F̂∘f̂, and F∘f plus the 5 % and the 95 % quantile of the
    difference.
    """

    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class Pointwise:
    """F̂∘f̂ against F∘f on tokens: the rms difference, the truth's spread, and a curve of bins."""

    rms: float | None = None
    spread: float | None = None
    curve: Curve | None = None


@dataclass(frozen=True)
class Example:
    """Both attention matrices of one input, with the input, and the mean |Â - A|."""

    x: Entries
    learned: Entries
    true: Entries
    mae: float


class MapOutcome(FittedOutcome):
    """How a fit went, and one input to be shown; of a diverged fit nothing else is known."""

    example: Example | None = None


class PointwiseOutcome(MapOutcome):
    """An outcome with F̂∘f̂ on fresh tokens."""

    pointwise: Pointwise = Pointwise()


class RowsOutcome(MapOutcome):
    """An outcome with the weights of all rows."""

    rows: Measures = UNMEASURED


class WholeOutcome(RowsOutcome, PointwiseOutcome):
    """An outcome with F̂∘f̂ and the weights of all rows."""


M = TypeVar("M", bound=MapOutcome)


@dataclass(frozen=True)
class Fitted:
    """A target and the model that the fit with that seed has trained on it, in float64."""

    target: Attending
    model: Transformer
    seed: int

    def fresh(self, n: int | None = None) -> Float[Tensor, "n length d"]:
        """Inputs that no fit has seen: `n` of them, SEQUENCES by default."""
        return self.target.sample(SEQUENCES if n is None else n, _FRESH + self.seed)

    def attentions(
        self, x: Float[Tensor, "n length d"]
    ) -> tuple[Float[Tensor, "n length length"], Float[Tensor, "n length length"]]:
        """The model's attention weights and the target's, at [t, s]."""
        with torch.no_grad():
            return self.model.attention(x), self.target.attention(x)

    def measures(
        self, x: Float[Tensor, "n length d"], rows: Bool[Tensor, "n length"] | None = None
    ) -> Measures:
        """Learned attention against the true one, over the given rows, all by default."""
        kept = torch.ones(x.shape[:2], dtype=torch.bool) if rows is None else rows
        learned, true = self.attentions(x)
        top = true.topk(2, dim=-1).values
        counted = kept & (top[..., 0] - top[..., 1] > 1e-9)
        right = counted & (learned.argmax(-1) == true.argmax(-1))
        with torch.no_grad():
            near = kept & ((self.model(x) - self.target(x)).norm(dim=-1) <= NEAR)
        gap = (learned - true).abs()[kept]
        link, link_se = _share(right, counted)
        near_link, _ = _share(right & near, counted & near)
        return Measures(
            link=link,
            link_se=link_se,
            near=float(near.sum() / kept.sum()),
            near_link=near_link,
            mae=float(gap.mean()),
            moved=float(gap.sum(-1).mean() / 2),
        )

    def pointwise(self, tokens: Float[Tensor, "k d"]) -> Pointwise:
        """F̂∘f̂ against F∘f on tokens; of several outputs all are taken together."""
        with torch.no_grad():
            learned = self.model.pointwise(tokens).flatten()
        base = self.target if isinstance(self.target, AttentionTarget) else self.target.base
        assert isinstance(base, AttentionTarget)
        true = base.F(base.f(tokens)).flatten()
        points = [_point(true[part], learned[part]) for part in true.argsort().tensor_split(_BINS)]
        return Pointwise(
            rms=float((learned - true).square().mean().sqrt()),
            spread=float(true.std()),
            curve=Curve(*zip(*points, strict=True)),
        )

    def example(self, x: Float[Tensor, "1 length d"]) -> Example:
        """Both attention matrices of one input."""
        learned, true = self.attentions(x)
        gap = float((learned - true).abs().mean())
        return Example(entries(x[0]), entries(learned[0]), entries(true[0]), gap)

    def all_rows(self, shown: Float[Tensor, "1 length d"]) -> WholeOutcome:
        """The weights of all rows and F̂∘f̂ of all tokens on fresh inputs; `shown` as example."""
        x = self.fresh()
        return WholeOutcome(
            rows=self.measures(x),
            pointwise=self.pointwise(x.flatten(0, 1)),
            example=self.example(shown),
        )


def entries(matrix: Float[Tensor, "rows columns"]) -> Entries:
    """A matrix as plain numbers of six digits."""
    return tuple(tuple(_rounded(entry) for entry in row) for row in matrix)


def _point(
    true: Float[Tensor, " k"], learned: Float[Tensor, " k"]
) -> tuple[float, float, float, float]:
    """x, y, low and high of a bin."""
    centre, off = true.mean(), learned - true
    low, high = centre + off.quantile(0.05), centre + off.quantile(0.95)
    return _rounded(centre), _rounded(learned.mean()), _rounded(low), _rounded(high)


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


class MapFit(Work):
    """A fit whose attention is looked at."""

    target: Settings
    model: Settings
    recipe: Settings

    @property
    @abstractmethod
    def case(self) -> str:
        """Which case of the experiment it is, by its settings."""

    def make_model(self, target: Target) -> torch.nn.Module:
        """The model as it is before training."""
        return build_model(self.model, target)

    def measured(self, kind: type[M], look: Callable[[Fitted], M]) -> M:
        """Fit, and what `look` finds; of a diverged fit only how it went."""
        target, recipe = build_target(self.target), recipe_of(self.recipe)
        done = fit(target, lambda: self.make_model(target), recipe, seed=self.seed, threads=1)
        if done.diverged:
            return replace(kind(), **done.outcome)
        model = cast(Transformer, done.model.double())
        return replace(look(Fitted(cast(Attending, target), model, self.seed)), **done.outcome)


@dataclass(frozen=True)
class Size:
    """How many and how long the fits of a preset are; `cost` has the seconds of every case."""

    seeds: int
    steps: int
    batch: int
    cost: Mapping[str, float]


def map_plan(size: Size, case: Callable[[str], MapFit]) -> Plan:
    """The fits of every seed and every case of the preset, all settings spelled out as in a sweep.

    `case` gives the fit of a name; its recipe holds what it has beside the size.
    """
    whole = {}
    for name in size.cost:
        job = case(name)
        recipe = {"name": "strong", "steps": size.steps, "batch": size.batch, **job.recipe}
        whole[name] = replace(
            job,
            target=complete_target(job.target),
            model=complete_model(job.model),
            recipe=complete_recipe(recipe),
        )
    return [
        Sized(replace(whole[name], seed=seed), cost)
        for seed in range(size.seeds)
        for name, cost in size.cost.items()
    ]
