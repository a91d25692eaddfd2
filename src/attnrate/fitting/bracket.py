"""lower <= best <= upper: what is known of the least error of a model of given size.

The trained error is an upper bound on the best error, and so is that of the compiled Transformer,
and of the compiled one trained further. Lower bounds are exact floors, where there is one.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import nn

from attnrate.errors import AttnrateError, InputError, require_whole
from attnrate.fitting.device import as_threads
from attnrate.fitting.fit import Fit, fit, initial, judged
from attnrate.fitting.recipe import WARM, Recipe, RecipeLike, as_recipe
from attnrate.fitting.train import LARGEST_SEED, Look
from attnrate.fitting.warm import compiled_within
from attnrate.models import GRU, CausalConvolution, LinearRNN, StateSpace, Transformer
from attnrate.targets import AttentionTarget, LinearTarget, Target, UniformInputs
from attnrate.theory.compile import compile_target

COMPILED, WARMED, TRAINED = "compiled", "compiled, then trained", "trained"
#: Units of compiled networks for a head size without a model
_UNITS = 128


class Sources(NamedTuple):
    """Which part gave each bound."""

    lower: str
    upper: str


@dataclass(frozen=True)
class Bracket:
    """lower <= best <= upper, mean squared errors.

    `parts` are all upper bounds that were found, `left_out` says of the others why there is none.
    """

    lower: float
    upper: float
    upper_standard_error: float
    from_: Sources
    parts: dict[str, float]
    left_out: dict[str, str]

    @property
    def summary(self) -> dict[str, Any]:
        """The same in plain values."""
        return {
            "lower": self.lower,
            "lower_from": self.from_.lower,
            "upper": self.upper,
            "upper_standard_error": self.upper_standard_error,
            "upper_from": self.from_.upper,
            "parts": self.parts,
            "left_out": self.left_out,
        }

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {value:.3e}" for name, value in self.parts.items())
        without = "".join(f"\n  not {name}: {why}" for name, why in self.left_out.items())
        return (
            f"{self.lower:.3e} ({self.from_.lower}) <= best <= {self.upper:.3e} "
            f"± {self.upper_standard_error:.1e} ({self.from_.upper})\n"
            f"  upper bounds: {parts}{without}"
        )


def floor_of(target: Target, model: nn.Module) -> tuple[float, str]:
    """The exact least error of any model of this kind, and why; 0 where none is known."""
    # the inputs are independent, so what lies in the future cannot be guessed by any map
    if isinstance(target, LinearTarget) and isinstance(target.inputs, UniformInputs):
        if isinstance(model, LinearRNN) and model.activation == "linear":
            bias = model.b is not None
            why = f"best causal convolution {'with' if bias else 'without'} a bias"
            return target.floor("time-invariant", bias=bias), why
        causal = isinstance(model, Transformer) and model.rule.causal
        if causal or isinstance(model, GRU | LinearRNN | StateSpace | CausalConvolution):
            return target.floor("causal", bias=True), "best causal map"
    return 0.0, "no floor is known"


def bracket(
    target: Target,
    model: nn.Module | Callable[[], nn.Module] | None = None,
    *,
    m_h: object = None,
    m_ff: object = None,
    recipe: RecipeLike = "strong",
    seeds: object = (0,),
    threads: object = 1,
    watch: Callable[[str, Look], object] | None = None,
    **changes: object,
) -> Bracket:
    """Bracket the best error of `model`, or of the Transformers of Eq. 5 with head size m_h.

    The upper bound is the least of what was found, each part with its own budget:

    - "trained": the model, by the recipe from its own weights, the best over `seeds`. With m_h
      it is Transformer(d, out, m_h=m_h): n = m_v = 32, three hidden layers of 128 units.
    - "compiled": what the proof constructs, in float64. n = 2 m_h + k and m_v = k, where k is the
      number of coordinates of f's values; f̂ and F̂ have one hidden layer of m_ff units each, which
      all 2 m_h + k components of f̂ share.
    - "compiled, then trained": all of its weights trained, by the recipe with a step of at most
      that of `warm`, with the first seed, from one start; never worse than its beginning on the
      inputs that were watched.

    With m_h, the last two are always tried (m_ff is 128 if not given), and `best` is over all
    budgets with that head size. With a model they are tried when it is of the plain form of Eq. 5,
    the target is of the form of Eq. 8, and n, m_v and the width of the model (which m_ff is, if
    not given) are large enough: the model then has weights with which it is the compiled one, so
    that the bound is one on the model itself.

    A fit that diverged is never a bound. `watch` is told the part and the look.
    """
    if (model is None) == (m_h is None):
        raise InputError(
            "bracket needs either a model or a head size m_h", {"model": model, "m_h": m_h}
        )
    chosen = replace(as_recipe(recipe, **changes), start="model")
    numbers = _seeds(seeds)
    units = None if m_ff is None else require_whole("m_ff", m_ff, 1)
    as_threads("threads", threads)

    def train(part: str, one: nn.Module | Callable[[], nn.Module], by: Recipe, seed: int) -> Fit:
        told = None if watch is None else lambda look: watch(part, look)
        return fit(target, one, by, seed, threads, watch=told)

    found = _Found({}, {})
    compiled: Transformer | None
    if model is None:
        size = require_whole("m_h", m_h, 1)
        compiled = compile_target(target, size, units or _UNITS)
        model = lambda: Transformer(target.d, target.out, m_h=size)  # noqa: E731
    else:
        first = initial(model, numbers[0])
        compiled = None
        # of other models and targets nobody would think so
        if isinstance(target, AttentionTarget) and isinstance(first, Transformer):
            try:
                compiled = compiled_within(target, first, units)
            except InputError as problem:
                found.left_out[COMPILED] = str(problem)
    if compiled is not None:
        error = judged(compiled, target, numbers[0], torch.float64)
        found.errors[COMPILED] = error.value, error.standard_error
        gently = replace(chosen, name=WARM.name, lr=min(chosen.lr, WARM.lr), starts=1)
        found.add(WARMED, [train(WARMED, compiled, gently, numbers[0])])
    fits = [train(TRAINED, model, chosen, seed) for seed in numbers]
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


@dataclass(frozen=True)
class _Found:
    """The error of every part with its standard error, and why other parts have none."""

    errors: dict[str, tuple[float, float]]
    left_out: dict[str, str]

    def add(self, name: str, fits: list[Fit]) -> None:
        """The best of the fits that did not diverge."""
        sound = [f for f in fits if not f.diverged]
        if not sound:
            self.left_out[name] = "every fit diverged"
            return
        best = min(sound, key=lambda f: f.error)
        self.errors[name] = best.error, best.standard_error


def _seeds(seeds: object) -> list[int]:
    if not isinstance(seeds, list | tuple | range) or not len(seeds):
        raise InputError("seeds must be a list of whole numbers, at least one", seeds, "As [0, 1].")
    return [require_whole("seeds", seed, 0, LARGEST_SEED) for seed in seeds]
