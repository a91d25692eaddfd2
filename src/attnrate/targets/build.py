"""From a table of settings to a target: a kind with its parameters, perhaps permuted and mixed."""

from collections.abc import Callable, Mapping
from typing import Any

from attnrate.errors import InputError, hint, require_whole
from attnrate.settings import Table, filled
from attnrate.targets.alter import MOVED, move_to_end, swap_ends
from attnrate.targets.form import TARGETS, Target

#: Orders that `permute` can name, each moving k positions
ORDERS: dict[str, Callable[[int, int], list[int]]] = {
    "swap_ends": swap_ends,
    "move_to_end": move_to_end,
}


def complete_target(settings: Table) -> dict[str, Any]:
    """The target's settings with all defaults spelled out; InputError for what is not known.

    Args:
        settings: `kind` and the parameters of that kind; `permute`, a list of positions, the name
            of an order or {name = k}; `mix`, the parameters of `Target.mixed`.

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


def build_target(settings: Table) -> Target:
    """The target with these settings, complete or not."""
    full = complete_target(settings)
    target: Target = TARGETS.make(full)
    permute = full.get("permute")
    if isinstance(permute, Mapping):
        ((name, k),) = permute.items()
        permute = ORDERS[name](target.length, k)
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
