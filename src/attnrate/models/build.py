"""From a table of settings to a model for the tokens of a target."""

import inspect
from typing import Any

from torch import nn

from attnrate.errors import InputError
from attnrate.models.base import MODELS
from attnrate.settings import Settings, Table
from attnrate.targets import Target


def complete_model(settings: Settings) -> dict[str, Any]:
    """The model's settings with all defaults filled in; InputError for what is not known."""
    return MODELS.complete(settings)


def build_model(settings: Settings, target: Target) -> nn.Module:
    """Make the model that a table of settings describes, as in `fit`, sweeps and TOML files.

    Its weights are drawn from torch's random numbers. A model that needs to know the length, and
    whose settings do not have it, is made for that of the target.

    Args:
        settings: `kind` and the parameters of that kind. The kinds of attnrate are "transformer",
            "coupling", "relative", "hybrid", "linear_rnn", "gru", "state_space" and "convolution";
            a class or function of your own with parameters d and out is "module:name", or the
            class itself.
        target: The target, which decides d and out.

    Returns:
        The model.

    Raises:
        InputError: If a setting is not known, missing or wrong.

    Examples:
        >>> target = ar.spectral_target(1.0, 2)
        >>> model = ar.build_model({"kind": "gru", "hidden": 8}, target)
        >>> model(target.sample(4, seed=0)).shape
        torch.Size([4, 16, 1])

    """
    full = complete_model(settings)
    if full.get("length", 0) is None and _needs_length(full):
        full["length"] = target.length
    model = MODELS.make(full, d=target.d, out=target.out)
    if not isinstance(model, nn.Module):
        raise InputError(
            f"model.kind = {full['kind']!r} must give a torch module",
            type(model).__name__,
            "Name a class derived from torch.nn.Module, or a function that returns one.",
        )
    return model


def _needs_length(settings: Table) -> bool:
    """Whether a model without a length has to be made for that of the target.

    A class says so by `needs_length`; a user's function with a parameter `length` always does.
    """
    needs = getattr(inspect.unwrap(MODELS.of(settings)), "needs_length", None)
    return needs is None or bool(needs(settings))
