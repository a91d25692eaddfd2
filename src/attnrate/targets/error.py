"""How far a model is from a target: the mean error over fresh inputs, with its standard error."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float

from attnrate.errors import require_choice, require_whole
from attnrate.targets.form import Target

_SEQUENCES_AT_ONCE = 1024


@dataclass(frozen=True)
class ErrorEstimate:
    """A mean over independent input sequences, and the standard error of that mean."""

    value: float
    standard_error: float

    def __str__(self) -> str:
        return f"{self.value:.3e} ± {self.standard_error:.1e}"


def error_of(
    model: Callable[[torch.Tensor], torch.Tensor],
    target: Target,
    n: object = 4096,
    seed: object = 1,
    norm: object = "mse",
    dtype: torch.dtype = torch.float64,
) -> ErrorEstimate:
    """E mean_t |H_t - Ĥ_t|² (mse) or E Σ_t |H_t - Ĥ_t| (l1) over n fresh sequences.

    |·| is the Euclidean norm of one output; the reference values are computed in float64.
    """
    count = require_whole("n", n, 2)
    require_choice("norm", norm, ("mse", "l1"))
    return error_on(model, target, target.sample(count, seed), norm, dtype)


def error_on(
    model: Callable[[torch.Tensor], torch.Tensor],
    target: Target,
    x: Float[torch.Tensor, "n length d"],
    norm: object = "mse",
    dtype: torch.dtype = torch.float64,
) -> ErrorEstimate:
    """The same over these sequences."""
    values = []
    with torch.no_grad():
        for part in torch.split(x, _SEQUENCES_AT_ONCE):
            gap = (model(part.to(dtype)).double() - target(part)).norm(dim=-1)
            values.append(gap.square().mean(-1) if norm == "mse" else gap.sum(-1))
    each = torch.cat(values)
    return ErrorEstimate(float(each.mean()), float(each.std() / len(each) ** 0.5))
