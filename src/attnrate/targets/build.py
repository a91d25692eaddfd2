"""From a table of settings to a target: a kind with its parameters, perhaps permuted and mixed."""

from collections.abc import Callable, Mapping
from typing import Any

from attnrate.errors import InputError, hint, require_whole
from attnrate.settings import Settings, filled
from attnrate.targets.alter import MOVED, move_to_end, swap_ends
from attnrate.targets.form import TARGETS, Target

#: Orders that `permute` can name, each moving k positions
ORDERS: dict[str, Callable[[int, int], list[int]]] = {
    "swap_ends": swap_ends,
    "move_to_end": move_to_end,
}


def complete_target(settings: Settings) -> dict[str, Any]:
    """The target's settings with all defaults filled in.

    Args:
        settings: As in `build_target`.

    Returns:
        Plain values. InputError for a setting that is not known or missing.

    """
    full = TARGETS.complete(settings)
    if "permute" in settings:
        full["permute"] = _permutation(settings["permute"])
    if "mix" in settings:
        if not isinstance(settings["mix"], Mapping):
            raise InputError(
                "target.mix must be a table", settings["mix"], "As {theta = [0.5, 0.5]}."
            )
        full["mix"] = filled("target.mix", settings["mix"], Target.mixed, without=("self",))
    return full


def build_target(settings: Settings) -> Target:
    """Make the target that a table of settings describes, as in `fit`, sweeps and TOML files.

    Args:
        settings: `kind` and the parameters of that kind. The kinds of attnrate are "spectral",
            "linear", "delay", "irregular", "nearest_point", "centre_of_gravity", "selection" and
            "gravity"; a function of your own is "module:name", or the function itself. `permute`,
            if given, is a list of positions, the name of an order ("swap_ends", "move_to_end") or
            {name: k}; `mix` is a table with the parameters of `Target.mixed`.

    Returns:
        The target.

    Raises:
        InputError: If a setting is not known, missing or wrong.

    Examples:
        >>> ar.build_target({"kind": "spectral", "alpha": 1.0, "rank": 2, "length": 4})
        AttentionTarget('spectral α=1.0 r=2', length=4, d=1, out=1, UniformInputs)
        >>> altered = {"permute": {"swap_ends": 1}, "mix": {"theta": [0.5, 0.5]}}
        >>> ar.build_target({"kind": "linear", "kernel": "exponential", "length": 2, **altered})
        LinearTarget('linear permuted mixed', length=2, d=1, out=1, UniformInputs)

    """
    full = complete_target(settings)
    target = TARGETS.make(full)
    if not isinstance(target, Target):
        raise InputError(
            f"target.kind = {full['kind']!r} must give a Target",
            type(target).__name__,
            "Return an AttentionTarget, a LinearTarget or an object of your own class derived from "
            "attnrate.Target.",
        )
    permute = full.get("permute")
    if isinstance(permute, Mapping):
        ((name, k),) = permute.items()
        try:
            permute = ORDERS[name](target.length, k)
        except InputError:
            raise InputError(
                f"target.permute.{name} moves more positions than target.length = {target.length} "
                "has room for",
                k,
                f"As target.permute={{{name}={max(1, target.length // 2)}}}.",
            ) from None
    target = target if permute is None else target.permuted(permute)
    return target.mixed(**full["mix"]) if "mix" in full else target


def _permutation(permute: object) -> object:
    """A list of positions as it is, a named order with the number of positions that it moves."""
    if isinstance(permute, list):
        return permute
    named = {permute: MOVED} if isinstance(permute, str) else permute
    if not isinstance(named, Mapping) or len(named) != 1 or not {*named} <= {*ORDERS}:
        name = next(iter(named)) if isinstance(named, Mapping) and named else permute
        raise InputError("target.permute is not known", permute, hint(str(name), ORDERS))
    return {name: require_whole(f"target.permute.{name}", k, 1) for name, k in named.items()}
