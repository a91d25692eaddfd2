"""The trials of a sweep, from tables of settings and a grid over them, in TOML or a dictionary.

    seed = 0

    [target]                          # one table each: target, model, recipe
    kind = "spectral"
    rank = 6

    [model]
    kind = "transformer"

    [recipe]
    name = "strong"

    [grid]                            # every combination is a trial; the last name varies fastest
    "target.alpha" = [0.55, 1.0]
    "model.m_h" = [1, 2, 4]
    seed = [0, 1, 2]

A name in the grid takes precedence over the same name in a table. `target`, `model` and `recipe`
may vary as a whole: `model = [{kind = "transformer", m_h = 4}, {kind = "linear_rnn"}]`.
"""

import itertools
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from typing_extensions import TypedDict

from attnrate.errors import InputError, hint
from attnrate.fitting.job import Job, Settings, Sized, plain
from attnrate.fitting.recipe import RecipeChanges
from attnrate.fitting.trial import Trial, require_table, worded
from attnrate.own import look_in

_TABLES = ("target", "model", "recipe")
_NAMES = (*_TABLES, "seed", "grid")
_MOST = 1_000_000
#: Bytes of a spec; devices such as /dev/zero have no end
_LARGEST = 10_000_000


@dataclass(frozen=True)
class Spec:
    """The distinct trials of a sweep, in the order of the grid."""

    trials: tuple[Trial, ...]

    def __post_init__(self) -> None:
        require_distinct(self.trials)

    def __len__(self) -> int:
        return len(self.trials)


class SweepSpec(TypedDict, total=False):
    """The tables of a sweep: settings of target, model and recipe, and a grid over them.

    Attributes:
        target: Settings of the target: `kind` and the arguments of that kind. `kind` is a word,
            "module:name", or a function of your own that returns a `Target`.
        model: Settings of the model: `kind` and the arguments of that kind.
        recipe: Settings of the recipe that differ from the one called `name` ("strong" by default).
        seed: The seed of all trials, 0 by default; `grid` usually has several.
        grid: Lists, ranges or arrays of values by dotted names ("model.m_h", "seed"). Every
            combination is a trial; the last name varies fastest. "target", "model" and "recipe"
            may vary as a whole.

    Examples:
        >>> spec: ar.SweepSpec = {
        ...     "target": {"kind": "spectral", "rank": 2, "length": 4},
        ...     "model": {"kind": "transformer"},
        ...     "grid": {"target.alpha": [0.6, 1.0], "model.m_h": [1, 2], "seed": [0, 1, 2]},
        ... }
        >>> ar.sweep_status(spec, "grid.sqlite").total
        12

    """

    target: Settings
    model: Settings
    recipe: RecipeChanges
    seed: int
    grid: Settings


@runtime_checkable
class _Array(Protocol):
    """An array of any library."""

    ndim: int

    def tolist(self) -> Any:
        """The values of the array as a list of plain numbers."""


SpecLike: TypeAlias = (
    str | Path | SweepSpec | Settings | Spec | Sequence[Trial] | Sequence[Sized[Job]]
)
"""The name of a TOML file, a dictionary of its form, or a list of trials or of `Sized` jobs."""


def load_spec(source: object) -> Spec:
    """The sweep that a TOML file, a dictionary of the same form, or a list of trials describes."""
    if isinstance(source, Spec):
        return source
    if isinstance(source, (str, Path)):
        table = _read(Path(source))
        look_in(Path(source).absolute().parent)  # modules of the user beside her spec
        return _from_table(table)
    if isinstance(source, Mapping):
        return _from_table(source)
    if isinstance(source, Sequence) and all(isinstance(entry, Trial) for entry in source):
        if not source:
            raise InputError("the sweep has no trials", source, "Give at least one.")
        return Spec(tuple(source))
    shape = getattr(source, "shape", None)
    raise InputError(
        "a sweep must be a TOML file, a dictionary or a list of trials",
        source if shape is None else f"{type(source).__name__} of shape {shape}",
        'As {"target": {...}, "model": {...}, "grid": {"model.m_h": [1, 2]}}.',
    )


def require_distinct(jobs: Iterable[Job]) -> None:
    """Raise an InputError when two jobs are the same."""
    seen: set[str] = set()
    for number, job in enumerate(jobs):
        if job.key in seen:
            raise InputError(
                f"trial {number} of the sweep is there twice",
                job.settings,
                "Remove the repeated value from the grid; 1 and 1.0, and a default that is "
                "spelled out, count as the same.",
            )
        seen.add(job.key)


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)
        if len(raw) > _LARGEST:
            raise InputError(
                f"a spec has at most {_LARGEST:,} bytes, and this file has more", str(path)
            )
        return tomllib.loads(raw.decode())
    except OSError as problem:
        raise InputError(
            f"the spec cannot be read ({problem.strerror})", str(path), "Check the name."
        ) from None
    except UnicodeDecodeError:
        raise InputError("the spec is no text in UTF-8", str(path)) from None
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise InputError(f"the spec is no TOML ({problem})", str(path)) from None


def _from_table(table: Mapping[Any, Any]) -> Spec:
    for name, value in table.items():
        if name not in _NAMES:
            remedy = f"{hint(str(name), _NAMES)} Settings have a part, as target.{name}."
            raise InputError(f"{name} is not known in a fit or sweep", value, remedy)
    base: dict[str, Any] = {name: require_table(name, table.get(name, {})) for name in _TABLES}
    base["seed"] = table.get("seed", 0)
    grid = _axes(table.get("grid", {}))
    total = math.prod(len(values) for values in grid.values())
    if total > _MOST:
        raise InputError(f"the grid has more than {_MOST} trials", total, "Make several sweeps.")
    points = itertools.product(*grid.values())
    return Spec(tuple(_trial(base, dict(zip(grid, point, strict=True))) for point in points))


def _axes(grid: object, prefix: str = "") -> dict[str, list[Any]]:
    """The lists of the grid by dotted names. TOML reads `target.alpha` as nested tables."""
    if not isinstance(grid, Mapping):
        raise InputError("grid must be a table", grid, 'As "model.m_h" = [1, 2].')
    axes: dict[str, list[Any]] = {}
    for name, values in grid.items():
        path = f"{prefix}{name}"
        if isinstance(values, Mapping):
            inner = _axes(values, f"{path}.")
        else:
            inner = {path: _values(path, values)}
        for key in inner:
            if key in axes:
                raise InputError(f"grid has {key} twice", inner[key], "Name it once.")
        axes |= inner
    return axes


def _values(path: str, values: object) -> list[Any]:
    first, _, rest = path.partition(".")
    if first not in (*_TABLES, "seed") or (first == "seed" and rest) or path.endswith("."):
        known = [*(f"{name}.…" for name in _TABLES), "seed"]
        names = (*_TABLES, "seed")
        near = hint(first, names).removesuffix(f"Known: {', '.join(sorted(names))}.")
        raise InputError(f"grid.{path} is not known", values, f"{near}Known: {', '.join(known)}.")
    values = _listed(values)
    if not isinstance(values, list):
        raise InputError(f"grid.{path} must be a list of values", values, f"Pass [{values!r}].")
    if not values:
        raise InputError(
            f"grid.{path} is empty, so the sweep has no trials", values, "Give a value."
        )
    if rest == "kind":
        values = [worded(first, {"kind": value})["kind"] for value in values]
    elif not rest and first in ("target", "model"):
        values = [worded(first, one) if isinstance(one, Mapping) else one for one in values]
    found: list[Any] = plain(f"grid.{path}", values)
    if not rest and first != "seed":
        for value in found:
            if not isinstance(value, dict):
                raise InputError(f"grid.{path} must be a list of tables", value, "As {kind = ...}.")
    return found


def _listed(values: object) -> object:
    """A tuple, a range, or an array of numpy, torch or pandas as a list; anything else as it is."""
    if isinstance(values, tuple | range):
        return list(values)
    return values.tolist() if isinstance(values, _Array) and values.ndim else values


def _trial(base: Mapping[str, Any], point: Mapping[str, Any]) -> Trial:
    settings: dict[str, Any] = plain("sweep", base)
    # Whole tables first: `model.m_h` varies every model, in whichever order they were written.
    for path in sorted(point, key=lambda path: "." in path):
        _put(settings, path, point[path])
    return Trial(**settings)


def _put(settings: dict[str, Any], path: str, value: Any) -> None:
    *tables, last = path.split(".")
    place = settings
    for name in tables:
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            raise InputError(f"grid.{path} leads into {name}, which is no table", place)
    if isinstance(value, dict) and isinstance(place.get(last), dict) and not tables:
        place[last] = {**place[last], **value}
    else:
        place[last] = value
