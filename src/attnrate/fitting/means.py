"""The table at the end of a sweep: mean errors over seeds for each combination of what varies."""

import math
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attnrate.fitting.records import Failed, Finished
from attnrate.fitting.table import flat
from attnrate.statistics import Interval, geometric_mean

if TYPE_CHECKING:
    import pandas as pd

#: Rows of the table that the text of a result shows
MOST_ROWS = 20
#: Settings that decide all others of their table
_DECIDING = ("target.kind", "model.kind", "recipe.name")


def varying(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of the settings in which jobs differ, apart from the seed, in their order.

    A setting that some kinds do not have counts only where those that have it differ, or where two
    jobs would otherwise look alike. Settings that follow from the kind or from the name of the
    recipe alone are left out.

    Args:
        settings: Settings of the jobs, flat (see `flat`).

    """
    names = [name for name in dict.fromkeys(n for one in settings for n in one) if name != "seed"]
    chosen = [
        name
        for name in names
        if name.rpartition(".")[2] != "code"
        and len({one[name] for one in settings if name in one}) > 1
    ]
    for deciding in _DECIDING:
        if deciding in chosen:
            part = deciding.partition(".")[0] + "."
            chosen = [
                name
                for name in chosen
                if name == deciding
                or not name.startswith(part)
                or not _follows(name, deciding, settings)
            ]
    whole, apart = _distinct(settings, names), _distinct(settings, chosen)
    for name in names:
        if apart == whole:
            break
        more = _distinct(settings, [*chosen, name])
        if more > apart:
            chosen, apart = [*chosen, name], more
    return sorted(chosen, key=names.index)


def _distinct(settings: Sequence[Mapping[str, Any]], names: Sequence[str]) -> int:
    return len({_values(one, names) for one in settings})


def _follows(name: str, deciding: str, settings: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the deciding setting determines the other one."""
    pairs = {(one.get(deciding), one.get(name)) for one in settings}
    return len(pairs) == len({first for first, _ in pairs})


def _values(settings: Mapping[str, Any], names: Iterable[str]) -> tuple[Any, ...]:
    return tuple(settings.get(name) for name in names)


@dataclass(frozen=True)
class Combination:
    """One combination of the settings that vary: its mean error and the number of its fits.

    Attributes:
        settings: The values of the settings that vary, by name.
        error: The geometric mean of the errors with its interval; not known if all diverged.
        diverged: The number of fits that diverged and so do not enter the mean.

    """

    settings: dict[str, Any]
    error: Interval
    diverged: int

    @property
    def shown(self) -> str:
        """The error and its interval, in words."""
        return str(self.error) if self.error.known else "diverged"


def combinations(
    rows: Sequence[Finished], others: Sequence[Finished | Failed] = ()
) -> list[Combination]:
    """The combinations of the finished fits, in the order in which they first come.

    Rows without an error, which are no fits, are left out. `others` are further trials of the
    sweep: a setting in which they differ from the finished ones varies too.
    """
    fits = [row for row in rows if "error" in row.result]
    settings = [flat(row.settings) for row in fits]
    names = varying([*settings, *(flat(row.settings) for row in others)]) if fits else []
    groups: dict[tuple[Any, ...], list[Finished]] = {}
    for row, one in zip(fits, settings, strict=True):
        groups.setdefault(_values(one, names), []).append(row)
    found = []
    for values, group in groups.items():
        errors = [row.result["error"] for row in group if row.result["error"] is not None]
        named = {n: value for n, value in zip(names, values, strict=True) if value is not None}
        found.append(Combination(named, geometric_mean(errors), len(group) - len(errors)))
    return found


def means_frame(found: Sequence[Combination]) -> "pd.DataFrame":
    """The combinations as a table: error, low, high, fits, diverged, then the settings."""
    import pandas as pd

    first = ["error", "low", "high", "fits", "diverged"]
    rows = [
        {
            "error": one.error.value,
            "low": one.error.low,
            "high": one.error.high,
            "fits": one.error.count,
            "diverged": one.diverged,
            **one.settings,
        }
        for one in found
    ]
    names = dict.fromkeys(name for one in found for name in one.settings)
    return pd.DataFrame(rows, columns=[*first, *names])


def text_of(found: Sequence[Combination], width: int | None = None) -> str:
    """The combinations as lines of text, error first, within the width of the terminal.

    Where the columns do not fit side by side, each row names its settings and is folded.
    """
    room = shutil.get_terminal_size().columns if width is None else width
    shown = found[:MOST_ROWS]
    names = short_names(dict.fromkeys(name for one in found for name in one.settings))
    header = ["error", *([_INTERVAL] if _intervals(shown) else []), *names.values(), "fits"]
    header += ["diverged"] if any(one.diverged for one in found) else []
    rows = [_cells(one, names, header) for one in shown]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    if sum(widths) + 2 * (len(widths) - 1) <= room:
        lines = [
            "  ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip()
            for row in (header, *rows)
        ]
    else:
        lines = [_folded(row, header, room) for row in rows]
    if len(found) > MOST_ROWS:
        lines.append(f"… {len(found) - MOST_ROWS} more: .means()")
    return "\n".join(lines)


_INTERVAL = "95 % interval"


def _intervals(found: Sequence[Combination]) -> bool:
    return any(not math.isnan(one.error.low) for one in found)


def _cells(one: Combination, names: Mapping[str, str], header: Sequence[str]) -> list[str]:
    cells = [f"{one.error.value:.3g}" if one.error.known else "diverged"]
    if _INTERVAL in header:
        known = not math.isnan(one.error.low)
        cells.append(f"[{one.error.low:.3g}, {one.error.high:.3g}]" if known else "")
    cells += [_cell(one.settings.get(name, "")) for name in names]
    cells += [str(one.error.count)] + ([str(one.diverged)] if header[-1] == "diverged" else [])
    return cells


def _cell(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _folded(row: Sequence[str], header: Sequence[str], room: int) -> str:
    """One row as words, each cell but the first two after its name, folded to the width."""
    head = 2 if header[1] == _INTERVAL else 1
    named = [f"{name} {cell}" for name, cell in zip(header, row, strict=True) if cell]
    words = [" ".join(filter(None, row[:head])), *named[len([c for c in row[:head] if c]) :]]
    return textwrap.fill(
        ", ".join(words), max(room, 20), subsequent_indent="    ", break_on_hyphens=False
    )


def short_names(names: Iterable[str]) -> dict[str, str]:
    """The last parts of dotted names, where these differ; the whole names otherwise."""
    whole = list(names)
    last = [name.rpartition(".")[2] for name in whole]
    return {
        name: short if last.count(short) == 1 else name
        for name, short in zip(whole, last, strict=True)
    }
