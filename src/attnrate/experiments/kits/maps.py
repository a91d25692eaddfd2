"""Fits of graph targets whose learned attention is compared with the true attention weights.

An experiment defines a job of its own, a `MapFit`, whose `run` says what is measured. All
measurements are made in float64 on fresh inputs, which neither training nor the error estimate has
used.
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
#: The settings of a target, a model or a recipe, as in a sweep
Settings = Mapping[str, float | int | str | bool | list[int] | None]
#: A matrix as tuples of numbers with six decimals
Entries = tuple[tuple[float, ...], ...]
#: Number of fresh sequences per measurement; their seeds are larger than all those used by `fit`
SEQUENCES = 4096
_FRESH = 1 << 43
_DIGITS = 6
_BINS = 12
#: An output counts as right when its error is at most this; outputs are of order 1
NEAR = 0.05


@dataclass(frozen=True)
class Measures:
    """Learned attention compared with the true one, over some rows of the attention matrix.

    - `link`: the share of rows in which the learned and the true weights have the same argmax, over
      rows whose true argmax is unique, with its standard error `link_se` over sequences. This is
      argmax ρ̂ = argmax ρ, the invariant of Prop. B.1 (2, 3).
    - `near`: the share of rows with |Ĥ - H| at most NEAR; `near_link`: `link` among those rows.
    - `mae`: the mean |Â - A| over the entries of the rows.
    - `moved`: the share of a row's weight that lies elsewhere, half the sum of |Â - A|.
    """

    link: float | None = None
    link_se: float | None = None
    near: float | None = None
    near_link: float | None = None
    mae: float | None = None
    moved: float | None = None


#: The measures of a diverged fit
UNMEASURED = Measures()


@dataclass(frozen=True)
class Curve:
    """F̂∘f̂ against F∘f, in bins with equally many tokens.

    For each bin, `x` and `y` are the means of F∘f and F̂∘f̂. `low` and `high` are x plus the 5
    % and the 95 % quantile of the difference.
    """

    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class Pointwise:
    """F̂∘f̂ compared with F∘f on tokens: rms difference, deviation of F∘f, binned curve.

    `rms` is the root mean square of F̂∘f̂ - F∘f, `spread` the standard deviation of F∘f.
    """

    rms: float | None = None
    spread: float | None = None
    curve: Curve | None = None


@dataclass(frozen=True)
class Example:
    """One input with its learned and its true attention matrix, and their mean |Â - A|."""

    x: Entries
    learned: Entries
    true: Entries
    mae: float


class MapOutcome(FittedOutcome):
    """How a fit went, and one example input; a diverged fit has no example."""

    example: Example | None = None


class PointwiseOutcome(MapOutcome):
    """An outcome with F̂∘f̂ measured on fresh tokens."""

    pointwise: Pointwise = Pointwise()


class RowsOutcome(MapOutcome):
    """An outcome with the attention weights measured over all rows."""

    rows: Measures = UNMEASURED


class WholeOutcome(RowsOutcome, PointwiseOutcome):
    """An outcome with F̂∘f̂ and the attention weights of all rows."""


M = TypeVar("M", bound=MapOutcome)


@dataclass(frozen=True)
class Fitted:
    """A target and the model that was trained on it with this seed, in float64."""

    target: Attending
    model: Transformer
    seed: int

    def fresh(self, n: int | None = None) -> Float[Tensor, "n length d"]:
        """Draw `n` inputs (default SEQUENCES) that no fit has seen."""
        return self.target.sample(SEQUENCES if n is None else n, _FRESH + self.seed)

    def attentions(
        self, x: Float[Tensor, "n length d"]
    ) -> tuple[Float[Tensor, "n length length"], Float[Tensor, "n length length"]]:
        """The attention weights of the model and of the target, indexed by [t, s]."""
        with torch.no_grad():
            return self.model.attention(x), self.target.attention(x)

    def measures(
        self, x: Float[Tensor, "n length d"], rows: Bool[Tensor, "n length"] | None = None
    ) -> Measures:
        """Compare learned and true attention over the given rows (default: all)."""
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
        """Compare F̂∘f̂ with F∘f on tokens; the components of a vector output are pooled."""
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
        """Compute both attention matrices of one input."""
        learned, true = self.attentions(x)
        gap = float((learned - true).abs().mean())
        return Example(entries(x[0]), entries(learned[0]), entries(true[0]), gap)

    def all_rows(self, shown: Float[Tensor, "1 length d"]) -> WholeOutcome:
        """Measure all rows and F̂∘f̂ of all tokens on fresh inputs; `shown` is the example."""
        x = self.fresh()
        return WholeOutcome(
            rows=self.measures(x),
            pointwise=self.pointwise(x.flatten(0, 1)),
            example=self.example(shown),
        )


def entries(matrix: Float[Tensor, "rows columns"]) -> Entries:
    """Convert a matrix to tuples of numbers with six decimals."""
    return tuple(tuple(_rounded(entry) for entry in row) for row in matrix)


def _point(
    true: Float[Tensor, " k"], learned: Float[Tensor, " k"]
) -> tuple[float, float, float, float]:
    """x, y, low and high of one bin of a `Curve`."""
    centre, off = true.mean(), learned - true
    low, high = centre + off.quantile(0.05), centre + off.quantile(0.95)
    return _rounded(centre), _rounded(learned.mean()), _rounded(low), _rounded(high)


def _share(
    hits: Bool[Tensor, "n length"], cases: Bool[Tensor, "n length"]
) -> tuple[float | None, float | None]:
    """The share of hits among cases, and its standard error over sequences.

    Rows of one sequence are not independent, so sequences are the units of the standard error.
    """
    total = cases.sum()
    if total == 0:
        return None, None
    share = hits.sum() / total
    left = hits.sum(-1) - share * cases.sum(-1)
    return float(share), float(left.std() * len(hits) ** 0.5 / total)


def _rounded(value: Float[Tensor, ""]) -> float:
    return round(float(value), _DIGITS)


class MapFit(Work):
    """A job that fits a model to a target and measures the learned attention."""

    target: Settings
    model: Settings
    recipe: Settings

    @property
    @abstractmethod
    def case(self) -> str:
        """The name of the experiment's case to which this fit belongs, read from its settings."""

    def make_model(self, target: Target) -> torch.nn.Module:
        """Build the untrained model."""
        return build_model(self.model, target)

    def measured(self, kind: type[M], look: Callable[[Fitted], M]) -> M:
        """Fit the model and return what `look` measures; of a diverged fit only how it went."""
        target, recipe = build_target(self.target), recipe_of(self.recipe)
        done = fit(target, lambda: self.make_model(target), recipe, seed=self.seed, threads=1)
        if done.diverged:
            return replace(kind(), **done.outcome)
        model = cast(Transformer, done.model.double())
        return replace(look(Fitted(cast(Attending, target), model, self.seed)), **done.outcome)


@dataclass(frozen=True)
class Size:
    """The size of a preset: number of seeds, steps and batch size of a fit.

    `cost` has the expected seconds of a fit for every case.
    """

    seeds: int
    steps: int
    batch: int
    cost: Mapping[str, float]


def map_plan(size: Size, case: Callable[[str], MapFit]) -> Plan:
    """Plan a fit for every seed and case, with all settings spelled out as in a sweep.

    `case` returns the fit of a case by name; its recipe holds the settings that `size` does
    not.
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
