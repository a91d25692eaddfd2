"""How far a model is from a target: the mean error over fresh inputs, with its standard error."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import nn

from attnrate.errors import AttnrateError, InputError, is_out_of_memory, require_whole
from attnrate.progress import QUIET, Progress
from attnrate.settings import by, checked
from attnrate.shown import Shown
from attnrate.targets.checks import FloatType, Seed
from attnrate.targets.form import Target
from attnrate.words import Norm, NormLike, Wanted

_SEQUENCES_AT_ONCE = 1024


def _require_model(name: str, value: object) -> object:
    if callable(value):
        return value
    inner = isinstance(getattr(value, "model", None), nn.Module)
    ways = "Pass its .model." if inner else "Pass a torch module or a function of a tensor."
    what = f"{name} must be a torch module or a function"
    raise InputError(what, f"a {type(value).__name__}" if inner else value, ways)


def _require_target(name: str, value: object) -> Target:
    if isinstance(value, Target):
        return value
    swapped = "The model comes first: error_of(model, target)."
    ways = swapped if isinstance(value, nn.Module) else "Make one by ar.AttentionTarget, say."
    raise InputError(f"{name} must be a Target", type(value).__name__, ways)


@dataclass(frozen=True, repr=False)
class ErrorEstimate(Shown):
    """A mean over independent input sequences, and the standard error of that mean.

    Attributes:
        value: The mean.
        standard_error: The standard deviation of the mean.

    Examples:
        >>> ar.ErrorEstimate(0.0123, 0.0004)
        1.230e-02 ± 4.0e-04

    """

    value: float
    standard_error: float

    def __str__(self) -> str:
        return f"{self.value:.3e} ± {self.standard_error:.1e}"


@checked
def error_of(
    model: Annotated[Callable[[torch.Tensor], torch.Tensor], by(_require_model)],
    target: Annotated[Target, by(_require_target)],
    n: Annotated[int, by(require_whole, 2)] = 4096,
    seed: Seed = 1,
    norm: NormLike = "mse",
    dtype: FloatType | None = None,
    progress: Wanted = None,
) -> ErrorEstimate:
    """Measure how far a model Ĥ is from a target H on fresh inputs.

    "mse" is E mean_t |H_t - Ĥ_t|², "l1" is E Σ_t |H_t - Ĥ_t|, where |·| is the Euclidean length of
    one output. The values of the target are computed in float64.

    Args:
        model: A torch module, or any function from sequences (n, length, d) to (n, length, out).
        target: The target.
        n: The number of input sequences, at least 2. Default: 4096.
        seed: Where the random numbers of the inputs start. Default: 1.
        norm: "mse" or "l1".
        dtype: The floating-point type in which the model is given its inputs. Default: that of its
            parameters; float64 for a function.
        progress: None shows a live line on a terminal or in a notebook once it has taken a second;
            True prints lines elsewhere too, False shows nothing.

    Returns:
        The error with its standard error.

    Raises:
        InputError: If the model fails on the inputs or gives another shape than the target.

    Examples:
        >>> target = ar.linear_target([1.0, 0.0, 0.0], length=3)
        >>> error = ar.error_of(lambda x: 0.5 * x, target)
        >>> abs(error.value - 1 / 12) < 4 * error.standard_error
        True

    """
    return error_on(model, target, target.sample(n, seed), norm, dtype, progress)


def error_on(
    model: Callable[[torch.Tensor], torch.Tensor],
    target: Target,
    x: Float[torch.Tensor, "n length d"],
    norm: Norm = "mse",
    dtype: torch.dtype | None = None,
    progress: bool | None = False,
) -> ErrorEstimate:
    """Measure how far a model is from a target on given sequences; see `error_of`."""
    kind = _type_of(model) if dtype is None else dtype
    values, begun = [], f"measuring the error on {len(x):,} sequences"
    parts = torch.split(x, _SEQUENCES_AT_ONCE)
    with torch.no_grad(), Progress(begun, wanted=progress, after=QUIET) as shown:
        for part in parts:
            truth = target(part)
            gap = (outputs(model, part.to(kind), truth.shape).double() - truth).norm(dim=-1)
            values.append(gap.square().mean(-1) if norm == "mse" else gap.sum(-1))
            shown.at(begun, len(values) / len(parts))
    each = torch.cat(values)
    return ErrorEstimate(float(each.mean()), float(each.std() / len(each) ** 0.5))


def outputs(
    model: Callable[[torch.Tensor], object], x: torch.Tensor, shape: tuple[int, ...]
) -> torch.Tensor:
    """Compute what a model gives for a batch of sequences.

    Args:
        model: A torch module, or any function of a tensor.
        x: Sequences of shape (n, length, d).
        shape: The shape (n, length, out) of the target's values.

    Returns:
        The model's values, of that shape. InputError, with the model's own error as its cause, if
        the model fails, or if it gives anything else.

    """
    called = type(model).__name__ if isinstance(model, nn.Module) else "the model"
    task = f"A model maps sequences {tuple(x.shape)} to {tuple(shape)}, as the target does."
    try:
        found = model(x)
    except AttnrateError:
        raise
    except Exception as problem:
        if is_out_of_memory(problem):
            raise
        what = f"{called} fails on inputs of shape {{value}} ({type(problem).__name__}: {problem})"
        raise InputError(what, tuple(x.shape), task) from problem
    if not isinstance(found, torch.Tensor):
        several = isinstance(found, tuple | list)
        ways = "Wrap it in a module that returns the first of them." if several else task
        raise InputError(f"{called} must return a torch tensor", type(found).__name__, ways)
    if found.shape != shape:
        ways = task if found.shape[:-1] != shape[:-1] else f"Make it for out = {shape[-1]}."
        what = f"{called} must give the shape of the target's values, {tuple(shape)}"
        raise InputError(what, tuple(found.shape), ways)
    return found


def _type_of(model: Callable[[torch.Tensor], torch.Tensor]) -> torch.dtype:
    """The floating-point type of a module's parameters; float64 where there are none."""
    parameters = model.parameters() if isinstance(model, nn.Module) else ()
    return next((one.dtype for one in parameters if one.is_floating_point()), torch.float64)
