"""Words that several rooms take, each with one meaning and default: gauge, norm and progress."""

from typing import Annotated, Literal, TypeAlias

from attnrate.errors import InputError, require_choice
from attnrate.settings import by

Gauge: TypeAlias = Literal["softmax", "none"]
"""What is left out of a coupling because attention cannot see it.

"softmax" takes out of ρ(u, v) what depends on u alone: softmax over v gives the same weights with
and without it. "none" leaves ρ as it is. Everything that speaks about attention has "softmax" for
its default; `pod` has "none", because it decomposes any function of two variables.
"""

Norm: TypeAlias = Literal["mse", "l1"]
"""How far a model Ĥ is from a target H, in words.

"mse" is E mean_t |H_t - Ĥ_t|², the mean squared error: what fits minimise, what brackets and sweeps
report, and the default everywhere. "l1" is E Σ_t |H_t - Ĥ_t|, the norm in which the paper states
Theorem 4.1. |·| is the Euclidean length of one output.
"""

GAUGES: tuple[Gauge, ...] = ("softmax", "none")
NORMS: tuple[Norm, ...] = ("mse", "l1")


def require_gauge(name: str, value: object) -> Gauge:
    """`value` as a gauge, None being "none"; an InputError when it is no gauge."""
    return require_choice(name, "none" if value is None else value, GAUGES)


def require_norm(name: str, value: object) -> Norm:
    """`value` as a norm; an InputError when it is none of them."""
    return require_choice(name, value, NORMS)


def require_wanted(name: str, value: object) -> bool | None:
    """`value` as the switch of a live line; an InputError unless it is None, True or False."""
    if value is not None and not isinstance(value, bool):
        raise InputError(
            f"{name} must be None, True or False",
            value,
            f"{name}=False shows nothing, {name}=True prints lines where there is no live line.",
        )
    return value


#: Parameters of `checked` functions: None may be written for the gauge "none"
GaugeLike = Annotated[Gauge | None, by(require_gauge)]
NormLike = Annotated[Norm, by(require_norm)]
#: Whether progress is shown; None shows a live line where there can be one
Wanted = Annotated[bool | None, by(require_wanted)]
