"""One trial of a sweep: target, model, recipe and seed as plain values, its key, and its run."""

import difflib
import hashlib
import json
import math
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from attnrate.errors import LARGEST, InputError, require_whole

#: Goes into every key. Raise it when the same settings come to mean another computation.
FORMAT = 1
#: Tables within tables of a setting
_DEEPEST = 20
RUN_TRIAL = "attnrate.fitting.trial.run_trial"


@dataclass(frozen=True, eq=False, init=False)
class Trial:
    """One fit: what is to be approximated, by which model, how it is trained, and the seed.

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
        """SHA-256 of the settings and FORMAT; neither order nor 1 against 1.0 changes it."""
        text = canonical({"format": FORMAT, **_whole_floats_as_ints(self.settings)})
        return hashlib.sha256(text.encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trial) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True, init=False)
class Sized:
    """A trial, and its expected cost beside others: one of twice the size takes twice as long.

    The size 0 stands for a cost that is not known. Trials of a lower `turn` come first.
    """

    trial: Trial
    size: float
    turn: int

    def __init__(self, trial: object, size: object, turn: int = 0) -> None:
        if not isinstance(trial, Trial):
            raise InputError("a sized trial needs a Trial", trial, "As Sized(trial, 3).")
        number = isinstance(size, (int, float)) and not isinstance(size, bool)
        if not number or not 0 <= size < math.inf:  # type: ignore[operator]
            raise InputError("size must be a finite number of at least 0", size)
        object.__setattr__(self, "trial", trial)
        object.__setattr__(self, "size", float(size))  # type: ignore[arg-type]
        object.__setattr__(self, "turn", turn)


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


def plain(name: str, value: object) -> Any:
    """A copy of `value` in plain JSON values, or an InputError naming the entry that is none."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        if abs(value) > LARGEST:
            raise InputError(f"{name} must be a whole number of 64 bits", value)
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"{name} must be finite", value)
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InputError(f"the names in {name} must be words", key)
        return {key: plain(f"{name}.{key}", entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(f"{name}[{i}]", entry) for i, entry in enumerate(value)]
    raise InputError(
        f"{name} must be a plain value: a number, a word, a list or a table",
        value,
        "Convert it, e.g. with .item() or .tolist().",
    )


def canonical(value: object) -> str:
    """`value` as JSON in one spelling: sorted names, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def hint(name: str, known: Collection[str]) -> str:
    """A remedy for a name that is not known: the nearest one, and all there are."""
    listed = ", ".join(sorted(known)) or "none"
    near = difflib.get_close_matches(name, known, 1, 0.5)
    return (f"Did you mean {near[0]!r}? " if near else "") + f"Known: {listed}."


def run_trial(trial: Trial) -> dict[str, Any]:
    """Fit the trial's model to its target; plain values, the same on every machine but for time.

    A diverged fit has the error None: it must not enter an average.
    """
    from attnrate.fitting.build import build
    from attnrate.fitting.fit import fit
    from attnrate.fitting.provenance import provenance

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


def _whole_floats_as_ints(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole_floats_as_ints(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_whole_floats_as_ints(entry) for entry in value]
    return value
