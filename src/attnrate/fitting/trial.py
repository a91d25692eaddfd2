"""Trials: one fit as plain values (target, model, recipe, seed), its key, and its function."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any

from attnrate.errors import InputError, require_whole
from attnrate.fitting.job import Plain, Settings, key_of, plain
from attnrate.settings import by, checked

#: How deep tables may be nested in a setting
_DEEPEST = 20


def worded(part: str, table: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """The table with a word for its `kind`, if that is a user's function or class itself."""
    kind = table.get("kind")
    if isinstance(kind, str) or not callable(kind):
        return table
    if part == "target":
        from attnrate.targets.form import TARGETS as KINDS
    else:
        from attnrate.models.base import MODELS as KINDS  # type: ignore[assignment]

    return {**table, "kind": KINDS.word_of(kind)}


def require_table(name: str, value: object) -> Mapping[str, Any]:
    """The settings of one part of a trial in plain values; an InputError if they are no table."""
    if isinstance(value, Mapping):
        table = value if name == "recipe" else worded(name, value)
        return plain(name, table)  # type: ignore[no-any-return]
    if name == "recipe" and value is None:
        return {}
    if callable(value):
        shown = getattr(value, "__name__", value)
        raise InputError(
            f"{name} must be a table of settings, not the object itself, because results are kept "
            "under their settings",
            shown if isinstance(shown, str) else type(value).__name__,
            f'Pass {{"kind": function, ...}}, where the function makes the {name} from settings.',
        )
    raise InputError(f"{name} must be a table of settings", value, 'As {"kind": ...}.')


_Table = Annotated[Settings, by(require_table)]
_SomeTable = Annotated[Settings | None, by(require_table)]


@dataclass(frozen=True, eq=False, init=False)
class Trial:
    """One fit as plain values: the settings of target, model and recipe, and the seed.

    A trial is a `Job`. It can be hashed, stored and sent to another machine. Two trials are equal
    when their keys are.

    Args:
        target: The settings of the target: its `kind` and the arguments of that kind. `kind` is a
            word such as "spectral", "module:name", or a function of your own that returns a
            `Target`.
        model: The settings of the model: its `kind` and the arguments of that kind. `kind` is a
            word such as "transformer", "module:name", or a class or function of your own.
        recipe: Settings that differ from those of the recipe called `name` ("strong" by default).
        seed: The seed of weights and data.

    Examples:
        >>> target = {"kind": "spectral", "alpha": 1.0, "rank": 2}
        >>> trial = ar.Trial(target, {"kind": "transformer", "m_h": 2}, {"steps": 100}, seed=3)
        >>> trial.settings["model"]
        {'kind': 'transformer', 'm_h': 2}
        >>> trial == ar.Trial(target, {"m_h": 2, "kind": "transformer"}, {"steps": 100.0}, 3)
        True

    """

    target: Mapping[str, Any]
    model: Mapping[str, Any]
    recipe: Mapping[str, Any]
    seed: int

    @checked
    def __init__(
        self,
        target: _Table,
        model: _Table,
        recipe: _SomeTable = None,
        seed: Annotated[int, by(require_whole, 0, 2**63 - 1)] = 0,
    ) -> None:
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "model", model)
        object.__setattr__(self, "recipe", {} if recipe is None else recipe)
        object.__setattr__(self, "seed", seed)

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
        """The name of the trial in a store."""
        return key_of(self.settings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trial) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def trial_of(settings: Mapping[str, Any]) -> Trial:
    """The trial with these settings: the inverse of `Trial.settings`."""
    return Trial(settings["target"], settings["model"], settings["recipe"], settings["seed"])


def tables_of(pairs: Iterable[str]) -> dict[str, Any]:
    """Tables of a spec from words NAME=VALUE, with dotted names and TOML values (else strings)."""
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
    """Fit the model of the trial with these settings to its target; return the result.

    The result is the same on every machine except for times. The error of a diverged fit is None,
    so that it cannot enter an average.
    """
    from attnrate.fitting.build import build
    from attnrate.fitting.fit import fit
    from attnrate.fitting.provenance import provenance

    trial = trial_of(settings)
    target, make_model, recipe = build(trial)
    result = fit(target, make_model, recipe=recipe, seed=trial.seed, threads=1, progress=False)
    return {
        **result.outcome,
        "diverged": result.diverged,
        "parameters": sum(p.numel() for p in result.model.parameters() if p.requires_grad),
        **provenance(),
    }


def prepare() -> None:
    """Import what `run_trial` needs and limit torch to one thread, before the first trial."""
    import torch

    import_module("attnrate.fitting.build")
    import_module("attnrate.fitting.fit")
    import_module("attnrate.fitting.provenance").provenance()
    torch.set_num_threads(1)
