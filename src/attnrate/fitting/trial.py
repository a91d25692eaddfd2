"""One trial of a sweep: target, model, recipe and seed as plain values, its key, and its run."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from attnrate.errors import InputError, require_whole
from attnrate.fitting.job import Plain, key_of, plain

#: Tables within tables of a setting
_DEEPEST = 20


@dataclass(frozen=True, eq=False, init=False)
class Trial:
    """One fit, a `Job`: what is to be approximated, by which model, how it is trained, the seed.

    All parts are plain JSON values, so that a trial can be hashed, stored and sent to another
    machine without loss. Two trials are equal when their keys are.
    """

    target: Mapping[str, Any]
    model: Mapping[str, Any]
    recipe: Mapping[str, Any]
    seed: int

    def __init__(
        self, target: object, model: object, recipe: object = None, seed: object = 0
    ) -> None:
        recipe = {} if recipe is None else recipe
        for name, part in (("target", target), ("model", model), ("recipe", recipe)):
            if not isinstance(part, Mapping):
                raise InputError(f"{name} must be a table of settings", part, 'As {"kind": ...}.')
            object.__setattr__(self, name, plain(name, part))
        object.__setattr__(self, "seed", require_whole("seed", seed, 0, 2**63 - 1))

    @property
    def settings(self) -> dict[str, Any]:
        """The whole trial as one dictionary of plain values."""
        return {
            "target": dict(self.target),
            "model": dict(self.model),
            "recipe": dict(self.recipe),
            "seed": self.seed,
        }

    @property
    def key(self) -> str:
        """What it is known by in a store."""
        return key_of(self.settings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trial) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def trial_of(settings: Mapping[str, Any]) -> Trial:
    """The trial with these `settings`; the inverse of `Trial.settings`."""
    return Trial(settings["target"], settings["model"], settings["recipe"], settings["seed"])


def tables_of(pairs: Iterable[str]) -> dict[str, Any]:
    """Words NAME=VALUE, dotted names and TOML values (else a string), as the tables of a spec."""
    tables: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise InputError("a setting must be NAME=VALUE", pair, "Example: model.m_h=6")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text
        except RecursionError:
            raise _too_deep(name, text) from None
        *path, last = name.split(".")
        if len(path) > _DEEPEST:
            raise _too_deep(name, text)
        place = tables
        for part in path:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise InputError(f"{part} is a value already, not a table", pair)
        if last in place:
            raise InputError(f"{name} is given twice", pair, "Give it once.")
        place[last] = value
    return tables


def _too_deep(name: str, text: str) -> InputError:
    return InputError(
        f"a setting may be nested at most {_DEEPEST} deep, and {name[:40]} is deeper", text
    )


def run_trial(settings: Plain) -> Plain:
    """Fit the model of a trial to its target; the same on every machine but for time.

    `settings` are those of the trial. A diverged fit has the error None: it must not enter an
    average.
    """
    from attnrate.fitting.build import build
    from attnrate.fitting.fit import fit
    from attnrate.fitting.provenance import provenance

    trial = trial_of(settings)
    target, make_model, recipe = build(trial)
    result = fit(target, make_model, recipe=recipe, seed=trial.seed, threads=1)
    return {
        **result.outcome,
        "diverged": result.diverged,
        "parameters": sum(p.numel() for p in result.model.parameters() if p.requires_grad),
        **provenance(),
    }


def prepare() -> None:
    """Load what `run_trial` needs and keep it to one thread, before a worker's first trial."""
    import torch

    import_module("attnrate.fitting.build")
    import_module("attnrate.fitting.fit")
    import_module("attnrate.fitting.provenance").provenance()
    torch.set_num_threads(1)
