"""lower <= best <= upper: what is known of the least error of a model of given size.

The trained error is an upper bound on the best error, and so is that of the compiled Transformer,
and of the compiled one trained further. Lower bounds are exact floors, where there is one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from torch import nn

from attnrate.errors import InputError
from attnrate.fitting.fit import Fit, fit
from attnrate.fitting.recipe import as_recipe
from attnrate.models import GRU, CausalConvolution, LinearRNN, StateSpace, Transformer
from attnrate.targets import AttentionTarget, LinearTarget, Target, error_of
from attnrate.theory.compile import compile_target


class Sources(NamedTuple):
    """Which part gave each bound."""

    lower: str
    upper: str


@dataclass(frozen=True)
class Bracket:
    """lower <= best <= upper, mean squared errors; `parts` are all upper bounds that were found."""

    lower: float
    upper: float
    upper_standard_error: float
    from_: Sources
    parts: dict[str, float]

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {value:.3e}" for name, value in self.parts.items())
        return (
            f"{self.lower:.3e} ({self.from_.lower}) <= best <= {self.upper:.3e} "
            f"({self.from_.upper})\n  upper bounds: {parts}"
        )


def floor_of(target: Target, model: nn.Module) -> tuple[float, str]:
    """The exact least error of any model of this kind, and why; 0 where none is known."""
    if isinstance(target, LinearTarget):
        if isinstance(model, LinearRNN) and model.activation == "linear":
            return target.floor("time-invariant", bias=True), "best causal convolution with a bias"
        if isinstance(model, GRU | LinearRNN | StateSpace | CausalConvolution):
            # the inputs are independent, so what lies in the future cannot be guessed by any map
            return target.floor("causal", bias=True), "best causal map"
        if isinstance(model, Transformer) and model.rule.causal:
            return target.floor("causal", bias=True), "best causal map"
    return 0.0, "no floor is known"


def bracket(
    target: Target,
    model: nn.Module | Callable[[], nn.Module] | None = None,
    *,
    m_h: object = None,
    m_ff: object = 128,
    recipe: object = "strong",
    seeds: tuple[int, ...] = (0,),
    threads: object = 1,
    **changes: object,
) -> Bracket:
    """Bracket the best error of `model`, or of the Transformer of Eq. 5 with head size m_h.

    With m_h (and a target of the form of Eq. 8) the upper bound is the least of trained, compiled
    and compiled-then-trained; `m_ff` is the width of the compiled networks.
    """
    if (model is None) == (m_h is None):
        raise InputError(
            "bracket needs either a model or a head size m_h", {"model": model, "m_h": m_h}
        )
    chosen = as_recipe(recipe, **changes)
    found: dict[str, tuple[float, float]] = {}
    if model is None:
        if not isinstance(target, AttentionTarget):
            raise InputError(
                "only a target of the form of Eq. 8 can be compiled",
                type(target).__name__,
                "Pass a model instead of m_h.",
            )
        compiled = compile_target(target, m_h, m_ff)
        error = error_of(compiled, target)
        found["compiled"] = error.value, error.standard_error
        warm = as_recipe("warm", steps=chosen.steps)
        _add(found, "compiled, then trained", [fit(target, compiled, warm, 0, threads)])
        size = compiled.m_h
        model = lambda: Transformer(target.d, target.out, m_h=size)  # noqa: E731
    fits = [fit(target, model, chosen, seed, threads) for seed in seeds]
    _add(found, "trained", fits)
    lower, why = floor_of(target, fits[0].model)
    if not found:
        raise InputError("every fit diverged", [f.learning_rate for f in fits], "Lower the lr.")
    name = min(found, key=lambda part: found[part][0])
    return Bracket(
        lower=lower,
        upper=found[name][0],
        upper_standard_error=found[name][1],
        from_=Sources(why, name),
        parts={part: value for part, (value, _) in found.items()},
    )


def _add(found: dict[str, tuple[float, float]], name: str, fits: list[Fit]) -> None:
    sound = [f for f in fits if not f.diverged]
    if sound:
        best = min(sound, key=lambda f: f.error)
        found[name] = best.error, best.standard_error
