"""Figures and tables as plain data: what is drawn, not how.

Everything here is made of numbers, words and tuples, so that it can be kept as JSON beside the
results and be drawn again, by matplotlib for papers and by plotly for the page.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, is_dataclass
from typing import Any, Literal

import numpy as np

#: How a series is drawn: measured values with intervals, theory as lines, the paper's own values
Style = Literal["measured", "theory", "paper", "faint"]
Scale = Literal["linear", "log"]
#: Where a float is asked for, a whole number is fine
Number = float | int
Cell = str | float | int | None
#: A violin of more values than this is kept as this many of their quantiles
MOST_VALUES = 200


@dataclass(frozen=True)
class Series:
    """Values y over x, with intervals [low, high] where they are known.

    The style "measured" is a line with markers and intervals, "theory" a dashed line, "paper" what
    the paper reports, in one colour everywhere, "faint" a thin line behind the others. Values that
    are not finite are not drawn. Series of one `group` share a colour.
    """

    label: str
    x: tuple[Number, ...]
    y: tuple[Number, ...]
    low: tuple[Number, ...] | None = None
    high: tuple[Number, ...] | None = None
    style: Style = "measured"
    group: str | None = None

    def __post_init__(self) -> None:
        for name in ("y", "low", "high"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.x):
                raise ValueError(f"{self.label}: {name} has {len(values)} of {len(self.x)} values")


@dataclass(frozen=True)
class Line:
    """A reference line across a panel: horizontal at y, or vertical at x."""

    label: str
    x: Number | None = None
    y: Number | None = None


@dataclass(frozen=True)
class _Named:
    """The first fields of panels with named axes.

    The title says what is shown; the labels name the axes, with their units.
    """

    title: str
    x_label: str
    y_label: str


@dataclass(frozen=True)
class Curves(_Named):
    """A panel of series over common axes, with reference lines across it.

    Where x are categories, `ticks` are the words at x = 0, 1, 2, …
    """

    series: tuple[Series, ...]
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"
    lines: tuple[Line, ...] = ()
    ticks: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Rows(_Named):
    """A panel of values along a horizontal axis, in named rows from top to bottom.

    The x of a series are the numbers of its rows, 0, 1, 2, …, its y and their intervals the values
    there. A reference line at x stands at that value. Words that are too long below a panel have
    room beside it.
    """

    rows: tuple[str, ...]
    series: tuple[Series, ...]
    x_scale: Scale = "linear"
    lines: tuple[Line, ...] = ()


@dataclass(frozen=True)
class Matrix(_Named):
    """A panel that shows a matrix by shades, with its rows from top to bottom.

    `label` says what the shades stand for. `row_names` are shown where the page's reader points at
    a cell; `row_numbers` stand at the axis, by default 0, 1, 2, … `words` stand in the cells; by
    default the numbers do, where there are few.
    """

    values: tuple[tuple[Number, ...], ...]
    low: Number | None = None
    high: Number | None = None
    label: str = ""
    row_names: tuple[str, ...] | None = None
    row_numbers: tuple[int, ...] | None = None
    words: tuple[tuple[str, ...], ...] | None = None

    def __post_init__(self) -> None:
        if self.words is not None and [*map(len, self.words)] != [*map(len, self.values)]:
            raise ValueError(f"{self.title}: words must have the shape of the matrix")
        for given in (self.row_names, self.row_numbers):
            if given is not None and len(given) != len(self.values):
                raise ValueError(f"{self.title}: {len(given)} of {len(self.values)} names")

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers that stand at the rows."""
        return tuple(range(len(self.values))) if self.row_numbers is None else self.row_numbers


@dataclass(frozen=True)
class Violins(_Named):
    """A panel of distributions side by side, and series drawn across them.

    `values` has one tuple per place of x: the values of its violin (`violin_values` keeps them
    few). `label` names the violins in the legend. Values that are not finite are not drawn.
    """

    label: str
    x: tuple[Number, ...]
    values: tuple[tuple[Number, ...], ...]
    series: tuple[Series, ...] = ()
    y_scale: Scale = "linear"

    def __post_init__(self) -> None:
        if len(self.values) != len(self.x):
            raise ValueError(f"{self.title}: {len(self.values)} violins at {len(self.x)} places")


@dataclass(frozen=True)
class Graph:
    """A panel of points of two kinds in the plane, and weighted links between them.

    A link is (from, to, weight): a position in `points`, a position in `ends`, and a number.
    `right` says of each link whether it is a true one.
    """

    title: str
    points: tuple[tuple[Number, Number], ...]
    ends: tuple[tuple[Number, Number], ...]
    links: tuple[tuple[int, int, Number], ...]
    right: tuple[bool, ...]
    points_label: str = "u"
    ends_label: str = "v"


Panel = Curves | Rows | Violins | Matrix | Graph
#: The name of each kind of panel in JSON
_KINDS: dict[str, type[Panel]] = {
    "curves": Curves,
    "rows": Rows,
    "violins": Violins,
    "matrix": Matrix,
    "graph": Graph,
}


@dataclass(frozen=True)
class Figure:
    """Panels side by side; `name` is the name of its files, the caption says what to see.

    Series with equal label, group and style look alike in all panels.
    """

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Table:
    """A table of words and numbers; numbers are shown to three digits."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{self.title}: a row has {len(row)} of {len(self.columns)} cells")


def violin_values(values: Iterable[Number]) -> tuple[float, ...]:
    """The finite values in order, or `MOST_VALUES` quantiles of them, the ends among them."""
    finite = np.sort([float(value) for value in values if math.isfinite(value)])
    if len(finite) > MOST_VALUES:
        finite = np.quantile(finite, np.linspace(0.0, 1.0, MOST_VALUES))
    return tuple(finite.tolist())


def figure_to_plain(figure: Figure) -> dict[str, Any]:
    """The figure as JSON values; a number that is not finite becomes None."""
    plain: dict[str, Any] = _plain(figure)
    return plain


def figure_from_plain(plain: dict[str, Any]) -> Figure:
    """The figure that `figure_to_plain` has made JSON values of; None becomes nan."""
    panels = []
    for entry in plain["panels"]:
        given = {name: _read(value, math.nan) for name, value in entry.items() if name != "kind"}
        for name, kind in (("series", Series), ("lines", Line)):
            if name in given:
                given[name] = tuple(kind(**one) for one in given[name])
        panels.append(_KINDS[entry["kind"]](**given))
    return Figure(plain["name"], plain["title"], plain["caption"], tuple(panels))


def table_to_plain(table: Table) -> dict[str, Any]:
    """The table as JSON values."""
    plain: dict[str, Any] = _plain(table)
    return plain


def table_from_plain(plain: dict[str, Any]) -> Table:
    """The table that `table_to_plain` has made JSON values of; a cell that is None stays None."""
    return Table(**_read(plain, None))


def _plain(value: Any) -> Any:
    """Dataclasses and tuples as JSON values."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    if is_dataclass(value):
        kinds = [name for name, kind in _KINDS.items() if isinstance(value, kind)]
        fields = {name: _plain(entry) for name, entry in vars(value).items()}
        return {"kind": kinds[0], **fields} if kinds else fields
    return value


def _read(value: Any, hole: float | None) -> Any:
    """JSON values with tuples instead of lists, and with `hole` instead of None in lists."""
    if isinstance(value, list):
        return tuple(hole if entry is None else _read(entry, hole) for entry in value)
    if isinstance(value, dict):
        return {name: _read(entry, hole) for name, entry in value.items()}
    return value
