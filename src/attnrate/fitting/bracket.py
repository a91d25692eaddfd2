"""Bracket the least error of a model of given size: lower <= best <= upper.

The trained error is an upper bound on the best error. So is the error of the compiled Transformer,
and of the compiled Transformer trained further. Lower bounds are exact floors where one is known.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Unpack

import torch
from torch import nn

from attnrate.errors import AttnrateError, InputError, require_whole
from attnrate.fitting.fit import Fit, fit, judged
from attnrate.fitting.given import GivenTarget, Model, Threads, initial, require_model
from attnrate.fitting.recipe import WARM, Recipe, RecipeChanges, RecipeLike, as_recipe
from attnrate.fitting.train import LARGEST_SEED, Look
from attnrate.fitting.warm import compiled_within
from attnrate.models import GRU, CausalConvolution, LinearRNN, StateSpace, Transformer
from attnrate.progress import QUIET, Progress
from attnrate.settings import by, checked
from attnrate.shown import Shown
from attnrate.targets import AttentionTarget, IndependentInputs, LinearTarget, Target
from attnrate.theory.basis import require_softmax
from attnrate.theory.compile import compile_target
from attnrate.words import Wanted

if TYPE_CHECKING:
    import pandas as pd

    from attnrate.figures.drawing import Drawing

COMPILED, WARMED, TRAINED = "compiled", "compiled, then trained", "trained"
#: Units of compiled networks for a head size without a model
_UNITS = 128


class Sources(NamedTuple):
    """The part that gave each bound of a `Bracket`.

    Attributes:
        lower: Why the lower bound holds, as "best causal map" or "no floor is known".
        upper: The part with the least error: "trained", "compiled" or "compiled, then trained".

    Examples:
        >>> ar.Sources(lower="best causal map", upper="trained").upper
        'trained'

    """

    lower: str
    upper: str


@dataclass(frozen=True, repr=False)
class Bracket(Shown):
    """Bounds on the least mean squared error of a model: lower <= best <= upper.

    Attributes:
        lower: The lower bound: an exact floor, or 0 where none is known.
        upper: The least error that was found.
        upper_standard_error: The standard error of `upper`, from the scatter over fresh inputs.
        from_: Where both bounds come from.
        parts: The error of every part that was found: each is an upper bound.
        left_out: Why other parts are missing.

    Examples:
        >>> target = ar.linear_target("exponential", 8)
        >>> found = ar.bracket(target, lambda: ar.LinearRNN(1, 1, hidden=8), steps=100)
        >>> found.from_
        Sources(lower='best causal convolution with a bias', upper='trained')
        >>> found.lower <= found.upper
        True

    """

    lower: float
    upper: float
    upper_standard_error: float
    from_: Sources
    parts: dict[str, float]
    left_out: dict[str, str]

    @property
    def summary(self) -> dict[str, Any]:
        """All bounds with their sources, in plain values."""
        return {
            "lower": self.lower,
            "lower_from": self.from_.lower,
            "upper": self.upper,
            "upper_standard_error": self.upper_standard_error,
            "upper_from": self.from_.upper,
            "parts": self.parts,
            "left_out": self.left_out,
        }

    def to_frame(self) -> "pd.DataFrame":
        """Return all bounds as a table: the bound, its error and its source, one row each."""
        import pandas as pd

        rows = [("lower", self.lower, self.from_.lower)]
        rows += [("upper", error, part) for part, error in self.parts.items()]
        return pd.DataFrame(rows, columns=["bound", "error", "source"])

    def plot(self) -> "Drawing":
        """Draw the error of every part, and both bounds as lines across."""
        from attnrate.figures.draw import draw
        from attnrate.figures.figure import Curves, Figure, Line, Series

        places, errors = tuple(range(len(self.parts))), tuple(self.parts.values())
        lines = [Line("upper bound", y=self.upper)]
        if self.lower > 0:
            lines.append(Line(f"lower bound: {self.from_.lower}", y=self.lower))
        panel = Curves(
            "",
            "upper bounds",
            "mean squared error",
            tuple(Series("error", (x,), (y,)) for x, y in zip(places, errors, strict=True)),
            y_scale="log" if min(errors) > 0 else "linear",
            lines=tuple(lines),
            ticks=tuple(self.parts),
        )
        title = f"{self.lower:.2e} <= best <= {self.upper:.2e}"
        return draw(Figure("bracket", title, str(self), (panel,)))

    def _table(self) -> "pd.DataFrame":
        return self.to_frame()

    def _figure(self) -> "Drawing":
        return self.plot()

    def __str__(self) -> str:
        parts = "; ".join(f"{name} {value:.3e}" for name, value in self.parts.items())
        without = "".join(f"\n  not {name}: {why}" for name, why in self.left_out.items())
        return (
            f"{self.lower:.3e} ({self.from_.lower}) <= best <= {self.upper:.3e} "
            f"± {self.upper_standard_error:.1e} ({self.from_.upper})\n"
            f"  upper bounds: {parts}{without}"
        )


def floor_of(target: Target, model: nn.Module) -> tuple[float, str]:
    """The exact least error of all models of this kind, and its reason; 0 if none is known."""
    # the inputs are independent, so a causal map cannot know anything about later ones
    if isinstance(target, LinearTarget) and isinstance(target.inputs, IndependentInputs):
        if isinstance(model, LinearRNN) and model.activation == "linear":
            bias = model.b is not None
            why = f"best causal convolution {'with' if bias else 'without'} a bias"
            return target.floor("time-invariant", bias=bias), why
        causal = isinstance(model, Transformer) and model.rule.causal
        if causal or isinstance(model, GRU | LinearRNN | StateSpace | CausalConvolution):
            return target.floor("causal", bias=True), "best causal map"
    return 0.0, "no floor is known"


def _require_seeds(name: str, seeds: object) -> tuple[int, ...]:
    if not isinstance(seeds, list | tuple | range) or not len(seeds):
        raise InputError("seeds must be a list of whole numbers, at least one", seeds, "As [0, 1].")
    return tuple(require_whole("seeds", seed, 0, LARGEST_SEED) for seed in seeds)


def _require_some_model(name: str, model: object) -> Model | None:
    return None if model is None else require_model(name, model)


def _require_some_size(name: str, size: object) -> int | None:
    return None if size is None else require_whole(name, size, 1)


_Seeds = Annotated[Sequence[int], by(_require_seeds)]
_SomeModel = Annotated[Model | None, by(_require_some_model)]
_SomeSize = Annotated[int | None, by(_require_some_size)]


@checked
def bracket(
    target: GivenTarget,
    model: _SomeModel = None,
    *,
    m_h: _SomeSize = None,
    m_ff: _SomeSize = None,
    recipe: RecipeLike = "strong",
    seeds: _Seeds = (0,),
    threads: Threads = 1,
    watch: Callable[[str, Look], object] | None = None,
    progress: Wanted = None,
    **changes: Unpack[RecipeChanges],
) -> Bracket:
    """Bracket the least error of a model, or of all Transformers of Eq. 5 with head size m_h.

    The upper bound is the least error of these parts, each with its own budget:

    - "trained": the model, trained by the recipe from its own weights, the best over `seeds`. With
      m_h it is Transformer(d, out, m_h=m_h): n = m_v = 32, three hidden layers of 128 units.
    - "compiled": the Transformer that the proof constructs, in float64. It has n = 2 m_h + k and
      m_v = k, where f takes values in R^k; f̂ and F̂ have one hidden layer of m_ff units each, which
      all 2 m_h + k components of f̂ share.
    - "compiled, then trained": the compiled Transformer, all of its weights trained by the recipe
      with at most the step size of `warm`, with the first seed, from one start. On the watched
      inputs it is never worse than the compiled one.

    With m_h the compiled parts are always tried, and `best` is over all budgets with that head
    size. With a model they are tried when the model can be the compiled Transformer: it has the
    plain form of Eq. 5, the target has the form of Eq. 8, and n, m_v and the width of the model are
    large enough. The bound is then one on the model itself. A fit that diverged is never a bound.

    The lower bound is exact where a floor is known: a linear RNN on a linear target cannot be
    better than the best causal convolution, no causal model better than the best causal map.
    Elsewhere it is 0.

    Args:
        target: What to approximate: any `Target`; with m_h one of the form of Eq. 8 with softmax.
        model: A torch module, or a function without arguments that makes one.
        m_h: The head size, instead of a model.
        m_ff: Units of the compiled networks; by default the width of the model, and 128 with m_h.
        recipe: How to train: "strong" (the default), "paper", "warm", or a `Recipe`.
        seeds: Seeds of the trained part, at least one; the first one also judges the compiled part.
        threads: Number of threads of torch.
        watch: A function that is called with the part and every `Look` at the watched error.
        progress: None shows a live line on a terminal or in a notebook once it has taken a second;
            True prints lines elsewhere too, False shows nothing.
        **changes: Settings of the recipe to change, as steps=500; `Recipe` lists them.

    Returns:
        Both bounds, where they come from, and every part.

    Raises:
        InputError: If an argument is wrong, or neither or both of model and m_h are given.
        AttnrateError: If every fit diverged and there is no compiled part.

    Examples:
        >>> target = ar.spectral_target(alpha=1.0, rank=2, length=4)
        >>> found = ar.bracket(target, m_h=2, m_ff=64, steps=20)
        >>> [*found.parts]
        ['compiled', 'compiled, then trained', 'trained']
        >>> found.upper == min(found.parts.values())
        True

    """
    if (model is None) == (m_h is None):
        what = "bracket needs either a model or a head size m_h"
        if model is not None:
            raise InputError(f"{what}, not both", {"m_h": m_h}, "Leave one of them out.")
        way_out = "As bracket(target, m_h=6), or bracket(target, lambda: Transformer(1, 1, m_h=6))."
        raise InputError(what, None, way_out)
    chosen = replace(as_recipe(recipe, **changes), start="model")
    found = _Found({}, {})
    with Progress(f"{COMPILED} Transformer", wanted=progress, after=QUIET) as shown:
        compiled: Transformer | None
        if m_h is not None:
            compiled = compile_target(_require_form(target), m_h, m_ff or _UNITS)
            model = lambda: Transformer(target.d, target.out, m_h=m_h)  # noqa: E731
        else:
            assert model is not None
            first = initial(model, seeds[0])
            compiled = None
            # other models and targets have no compiled form, which needs no mention
            if isinstance(target, AttentionTarget) and isinstance(first, Transformer):
                try:
                    compiled = compiled_within(target, first, m_ff)
                except InputError as problem:
                    found.left_out[COMPILED] = str(problem)
        warm = 0 if compiled is None else chosen.steps
        trainer = _Trainer(
            target, threads, watch, shown, warm + len(seeds) * chosen.starts * chosen.steps
        )
        if compiled is not None:
            error = judged(compiled, target, seeds[0], torch.float64, progress)
            found.errors[COMPILED] = error.value, error.standard_error
            gently = replace(chosen, name=WARM.name, lr=min(chosen.lr, WARM.lr), starts=1)
            found.add(WARMED, [trainer.fit(WARMED, compiled, gently, seeds[0])])
        fits = [trainer.fit(TRAINED, model, chosen, seed) for seed in seeds]
    found.add(TRAINED, fits)
    if not found.errors:
        raise AttnrateError(
            f"every fit diverged, the last with lr {fits[-1].learning_rate:.1e}. Lower the lr."
        )
    lower, why = floor_of(target, fits[0].model)
    name = min(found.errors, key=lambda part: found.errors[part][0])
    return Bracket(
        lower=lower,
        upper=found.errors[name][0],
        upper_standard_error=found.errors[name][1],
        from_=Sources(why, name),
        parts={part: value for part, (value, _) in found.errors.items()},
        left_out=found.left_out,
    )


def _require_form(target: Target) -> AttentionTarget:
    """The target itself; an InputError if no Transformer can be compiled for it."""
    try:
        return require_softmax("target", target)
    except InputError as problem:
        way_out = (
            f"Or pass a model: bracket(target, lambda: Transformer({target.d}, {target.out}))."
        )
        what = f"with m_h, {problem.what}"
        raise InputError(what, problem.value, f"{problem.remedy} {way_out}") from None


@dataclass
class _Trainer:
    """Trains the parts of one bracket; their progress is one line. `steps` is the sum over them."""

    target: Target
    threads: int
    watch: Callable[[str, Look], object] | None
    shown: Progress
    steps: int
    behind: int = 0

    def fit(self, part: str, model: Model, recipe: Recipe, seed: int) -> Fit:
        """Fit the model of one part."""

        def look_at(look: Look) -> None:
            done = self.behind + look.start * recipe.steps + look.step
            self.shown.at(f"{part} · error {look.error:.2e}", done / self.steps)
            if self.watch is not None:
                self.watch(part, look)

        found = fit(self.target, model, recipe, seed, self.threads, watch=look_at, progress=False)
        self.behind += recipe.steps * recipe.starts
        return found


@dataclass(frozen=True)
class _Found:
    """The error of every part with its standard error, and why other parts have none."""

    errors: dict[str, tuple[float, float]]
    left_out: dict[str, str]

    def add(self, name: str, fits: list[Fit]) -> None:
        """Keep the best of the fits that did not diverge."""
        sound = [f for f in fits if not f.diverged]
        if not sound:
            self.left_out[name] = "every fit diverged"
            return
        best = min(sound, key=lambda f: f.error)
        self.errors[name] = best.error, best.standard_error
