"""What a sweep gives: its finished and failed trials, a table of mean errors, and a figure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnrate.errors import InputError, hint
from attnrate.fitting.means import (
    Combination,
    combinations,
    means_frame,
    short_names,
    text_of,
    varying,
)
from attnrate.fitting.records import Failed, Finished
from attnrate.fitting.table import flat
from attnrate.shown import Shown

if TYPE_CHECKING:
    import pandas as pd

    from attnrate.figures.drawing import Drawing
    from attnrate.figures.figure import Figure, Series

#: An axis of values that grow by this factor or more is logarithmic
_WIDE = 8.0
#: The largest number of curves that a reader can distinguish
_MOST_SERIES = 12


@dataclass(frozen=True, repr=False)
class SweepResult(Shown):
    """The trials of a sweep: the finished ones, in the order of the grid, and the failed ones.

    Its text is a table of mean errors over seeds, one row per combination of the settings that
    vary. `means()` gives that table, `to_frame()` one row per trial, `plot()` the errors.

    Attributes:
        finished: The finished trials with their results.
        failed: The trials that failed, with their errors; the next run tries them again.
        ran: The number of trials that this run finished. The others were in the store before, or
            came from another sweep on the same store.
        seconds: Seconds that this run took.
        store: The file that keeps the results.

    Examples:
        >>> spec: ar.SweepSpec = {
        ...     "target": {"kind": "spectral", "alpha": 1.0, "rank": 2, "length": 4},
        ...     "model": {"kind": "transformer", "width": 8, "depth": 1},
        ...     "recipe": {"steps": 5},
        ...     "grid": {"model.m_h": [1, 2], "seed": [0, 1]},
        ... }
        >>> result = ar.sweep(spec, store="grid.sqlite", workers=1)
        >>> result
        4 of 4 trials finished, 4 of them now, in ... s; kept in ...grid.sqlite
        error  95 % interval  m_h  fits
        ...
        >>> result.means()["model.m_h"].to_list()
        [1, 2]
        >>> result.to_frame().columns[:3].to_list()
        ['error', 'model.m_h', 'seed']

    """

    finished: tuple[Finished, ...]
    failed: tuple[Failed, ...]
    ran: int
    seconds: float
    store: Path

    _rows = ".means()"

    def means(self) -> "pd.DataFrame":
        """Return the mean errors over seeds, one row per combination of the settings that vary.

        The mean is geometric, because errors of fits differ by factors rather than by amounts; the
        interval holds the true mean with 95 % confidence (Student's, of the logarithms). With one
        fit there is none. Fits that diverged have no error and are counted apart.

        Returns:
            The columns error, low, high, fits, diverged, then the settings that vary.

        """
        return means_frame(combinations(self.finished, self.failed))

    def to_frame(self) -> "pd.DataFrame":
        """Return the finished trials as a table, one row each.

        Returns:
            The error first, then the settings that vary, the seed, and everything else.

        """
        from attnrate.fitting.table import trials_frame

        return trials_frame(self.finished)

    def export(self, path: str | Path) -> Path:
        """Write the table of `to_frame` to a file.

        Args:
            path: The name of the file; it ends in .csv or .parquet.

        Returns:
            The path of the file.

        """
        from attnrate.fitting.table import export_frame

        return export_frame(self.to_frame(), path)

    def plot(self, x: str | None = None) -> "Drawing":
        """Draw the mean errors with their intervals against a setting that varies.

        Args:
            x: The setting on the horizontal axis, as "model.m_h". By default the numeric setting
                with the most values; the other settings that vary make the curves.

        Returns:
            A matplotlib figure.

        """
        from attnrate.figures.draw import draw

        return draw(_figure(combinations(self.finished, self.failed), x))

    @property
    def summary(self) -> dict[str, Any]:
        """The counts, why trials failed, and the mean errors, in plain values."""
        return {
            "total": len(self.finished) + len(self.failed),
            "finished": len(self.finished),
            "failed": len(self.failed),
            "failures": [{"settings": row.settings, "error": row.error} for row in self.failed],
            "ran": self.ran,
            "seconds": self.seconds,
            "store": str(self.store),
            "means": [_plain(one) for one in combinations(self.finished, self.failed)],
        }

    def _table(self) -> "pd.DataFrame | None":
        found = self.means()
        return found if len(found) else None

    def _figure(self) -> "Drawing | None":
        return (
            self.plot()
            if any(one.error.known for one in combinations(self.finished, self.failed))
            else None
        )

    def _text(self) -> str:
        return "\n".join(self._counts())

    def _counts(self) -> list[str]:
        total = len(self.finished) + len(self.failed)
        lines = [
            f"{len(self.finished)} of {total} trials finished, {self.ran} of them now, "
            f"in {self.seconds:.1f} s; kept in {self.store}"
        ]
        if self.failed:
            first = self.failed[0]
            done = [flat(row.settings) for row in self.finished]
            names = [*varying([*done, *(flat(row.settings) for row in self.failed)]), "seed"]
            there = flat(first.settings)
            named = ", ".join(f"{name} = {there[name]}" for name in names if name in there)
            which = f"the first, with {named}" if named else "the first"
            lines.append(f"{len(self.failed)} failed and will be retried; {which}: {first.reason}")
        return lines

    def __str__(self) -> str:
        lines, found = self._counts(), combinations(self.finished, self.failed)
        return "\n".join([*lines, text_of(found)] if found else lines)


def _plain(one: Combination) -> dict[str, Any]:
    error, low, high = one.error.limits
    fits = {"fits": one.error.count, "diverged": one.diverged}
    return {"error": error, "low": low, "high": high, **fits, "settings": one.settings}


def _figure(found: Sequence[Combination], x: str | None) -> "Figure":
    """The errors of the combinations against one of their settings."""
    from attnrate.figures.figure import Curves, Figure

    names = [*dict.fromkeys(name for one in found for name in one.settings)]
    if x is not None and x not in names:
        raise InputError("plot: this setting does not vary in the sweep", x, hint(x, names))
    if not found:
        what = "there is nothing to plot: {value} trials are finished and have an error"
        raise InputError(what, 0, "Run the sweep to its end; .failed says why trials failed.")
    axis = _axis(found, names) if x is None else x
    short = short_names(names)
    places: list[Any] = [*dict.fromkeys(one.settings.get(axis or "", "") for one in found)]
    numbers = all(_is_number(place) for place in places)
    series = _series(found, axis, short, places, numbers)
    along = [float(place) for place in places] if numbers else [0.0]
    wide = min(along) > 0 and max(along) >= _WIDE * min(along)
    errors = [y for one in series for y in one.y]
    panel = Curves(
        "",
        axis or "",
        "mean squared error",
        tuple(series[:_MOST_SERIES]),
        x_scale="log" if wide else "linear",
        y_scale="log" if errors and min(errors) > 0 else "linear",
        ticks=None if numbers else tuple(map(str, places)),
    )
    more = len(series) - _MOST_SERIES
    spread = any(one.low is not None for one in series)
    title = "Mean error over seeds" + (", with 95 % intervals" if spread else "")
    title += f" ({more} more curves are not shown)" if more > 0 else ""
    return Figure("sweep", title, title, (panel,))


def _series(
    found: Sequence[Combination],
    axis: str | None,
    short: dict[str, str],
    places: list[Any],
    numbers: bool,
) -> "list[Series]":
    """One curve for each combination of the settings that are not on the axis."""
    from attnrate.figures.figure import Series

    curves: dict[str, list[Combination]] = {}
    for one in found:
        others = (f"{short[n]} = {value}" for n, value in one.settings.items() if n != axis)
        if one.error.known:
            curves.setdefault(", ".join(others), []).append(one)

    def place(one: Combination) -> float:
        value = one.settings.get(axis or "", "")
        return float(value) if numbers else float(places.index(value))

    series = []
    for label, group in curves.items():
        ordered = sorted(group, key=place)
        known = all(not math.isnan(one.error.low) for one in ordered)
        series.append(
            Series(
                label or "error",
                tuple(map(place, ordered)),
                tuple(one.error.value for one in ordered),
                tuple(one.error.low for one in ordered) if known else None,
                tuple(one.error.high for one in ordered) if known else None,
            )
        )
    return series


def _axis(found: Sequence[Combination], names: Sequence[str]) -> str | None:
    """The numeric setting with the most values, of the model if possible; else any that varies."""

    def rank(name: str) -> tuple[bool, int, bool]:
        values = [one.settings[name] for one in found if name in one.settings]
        numeric = len(values) == len(found) and all(map(_is_number, values))
        return numeric, len({*values}), name.startswith("model.")

    return max(names, key=rank, default=None)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
