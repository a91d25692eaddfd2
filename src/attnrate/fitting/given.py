"""What `fit` and `bracket` take: a target, a model, a seed, threads and a device, checked."""

import copy
import inspect
from collections.abc import Callable
from typing import Annotated, TypeAlias

import torch
from torch import nn

from attnrate.errors import InputError, require_whole
from attnrate.fitting.device import as_device, as_threads
from attnrate.fitting.train import LARGEST_SEED
from attnrate.settings import by
from attnrate.targets import Target
from attnrate.targets.seeds import spread

Model: TypeAlias = nn.Module | Callable[[], nn.Module]
"""A torch module, or a function without arguments that makes one."""

_MODEL = "model must be a torch module, or a function that makes one"
_AS = "As lambda: ar.Transformer(1, 1, m_h=4)."


def require_target(name: str, value: object) -> Target:
    """`value` itself; an InputError that says what a target is when `value` is none."""
    if isinstance(value, Target):
        return value
    shape = getattr(value, "shape", None)
    way_out = (
        "Make one by ar.spectral_target, ar.linear_target, ar.AttentionTarget and so on, or derive "
        "a class from ar.Target and write its method evaluate."
    )
    if shape is not None:
        way_out = (
            "Arrays and tables cannot be fitted directly; ar.choose says what suits data of your "
            "own. Write the map as an ar.AttentionTarget, or as a class derived from ar.Target "
            "with a method evaluate; data for its inputs go into ar.SampledInputs."
        )
    shown = type(value).__name__ if shape is None else f"{type(value).__name__} of shape {shape}"
    what = f"{name} must be a Target: a map of sequences that can be evaluated at fresh inputs"
    raise InputError(what, shown if shape is not None else value, way_out)


def require_model(name: str, value: object) -> Model:
    """`value` itself; an InputError when it is neither a torch module nor a function."""
    if not isinstance(value, nn.Module) and not callable(value):
        shape = getattr(value, "shape", None)
        shown = value if shape is None else f"{type(value).__name__} of shape {shape}"
        raise InputError(_MODEL, shown, _AS)
    if not isinstance(value, nn.Module) and _needs_arguments(value):
        name = getattr(value, "__name__", type(value).__name__)
        raise InputError(
            "model must be a function without arguments that makes a torch module, and {value} "
            "needs arguments",
            name,
            f"Pass lambda: {name}(…), or a module." if inspect.isclass(value) else _AS,
        )
    return value


def _needs_arguments(function: Callable[..., object]) -> bool:
    """Whether a function cannot be called without arguments; False where that cannot be known."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    try:
        signature.bind()
    except TypeError:
        return True
    return False


def _require_device(name: str, value: object) -> torch.device:
    return as_device(value)


GivenTarget = Annotated[Target, by(require_target)]
GivenModel = Annotated[Model, by(require_model)]
Seed = Annotated[int, by(require_whole, 0, LARGEST_SEED)]
Threads = Annotated[int, by(as_threads)]
Device = Annotated[str | torch.device, by(_require_device)]


def initial(model: Model, seed: int) -> nn.Module:
    """Make the model with which a fit of this seed begins.

    Args:
        model: A torch module, or a function without arguments that makes one.
        seed: The seed of the weights. The random state of the caller does not change.

    Returns:
        A copy of the module; or what the function makes with the random numbers of the seed.

    Raises:
        InputError: If there is no torch module.

    Examples:
        >>> import torch
        >>> make = lambda: ar.LinearRNN(1, 1, hidden=4)
        >>> first, again = ar.initial(make, 0), ar.initial(make, 0)
        >>> torch.equal(first.W, again.W)
        True

    """
    if isinstance(model, nn.Module):
        return copy.deepcopy(model)
    require_model("model", model)
    with torch.random.fork_rng(devices=[]):
        # not torch.manual_seed, which would also change the caller's random numbers on a GPU
        torch.default_generator.manual_seed(spread(seed))
        made = model()
    if not isinstance(made, nn.Module):
        raise InputError(_MODEL, made, _AS)
    return copy.deepcopy(made)
