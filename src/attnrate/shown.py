"""How results show themselves: as text in a terminal, as a table and a figure in a notebook."""

import base64
import io
from abc import abstractmethod
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from rich.console import Console
    from rich.table import Table

_ROWS = 10  # of a table, in a notebook
_DPI = 80  # of a figure, in a notebook
_ENDLESS = 100_000  # characters: wider than any table


class Shown:
    """The base of results: `repr` is the text of `str`, and notebooks show more.

    A subclass writes `__str__`, a few lines at most. Where it has a table or a figure, it says so
    in `_table` and `_figure`; the notebook then shows the text, the first rows and the figure.
    """

    #: The call that gives the whole table
    _rows = ".to_frame()"

    @abstractmethod
    def __str__(self) -> str: ...

    def __repr__(self) -> str:
        return str(self)

    def _table(self) -> "pd.DataFrame | None":
        """The table that a notebook shows, if there is one."""
        return None

    def _figure(self) -> "Figure | None":
        """The figure that a notebook shows, if there is one."""
        return None

    def _text(self) -> str:
        """The text that a notebook shows above the table; a subclass may leave its table out."""
        return str(self)

    def _repr_html_(self) -> str:
        parts = [f"<pre>{escape(self._text())}</pre>"]
        table, figure = self._table(), self._figure()
        if table is not None:
            # the numbers 0, 1, … of rows say nothing; an index that has a name does
            named = table.index.name is not None
            rows = table.head(_ROWS)
            parts.append(rows.to_html(border=0, index=named, float_format="{:.4g}".format))
            if len(table) > _ROWS:
                parts.append(f"<p>{len(table) - _ROWS} more rows: {self._rows}</p>")
        if figure is not None:
            data = base64.b64encode(png(figure)).decode()
            name = escape(type(self).__name__)
            parts.append(f'<img alt="{name}" src="data:image/png;base64,{data}">')
        return "\n".join(parts)


def fits(table: "Table", console: "Console") -> bool:
    """Whether a terminal shows the table without wrapping or cutting any of its cells."""
    unlimited = console.options.update(max_width=_ENDLESS)
    return table.__rich_measure__(console, unlimited).maximum <= console.width


def png(figure: "Figure") -> bytes:
    """The figure as a small PNG, for notebooks."""
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=_DPI)
    return data.getvalue()
