"""Figures for papers: plain-data figures drawn with matplotlib, as PNG and SVG.

No pyplot and no settings of the user take part, so the same figure always gives the same bytes.
"""

import io
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib.style
from matplotlib.figure import Figure as Drawing

from attnrate.figures import geometry
from attnrate.figures.draw_curves import draw_curves, draw_violins
from attnrate.figures.draw_others import draw_graph, draw_matrix
from attnrate.figures.draw_shared import INK, MUTED, RULE, Legend, text_in_lines
from attnrate.figures.figure import Curves, Figure, Matrix, Violins
from attnrate.figures.words import clean
from attnrate.files import safe_name, write_whole

_DPI = 150
_PANEL = (4.3, 3.5)  # inches
_WIDTHS = {1: 6.2, 2: 9.2, 3: 12.4}
_TICK_LETTERS = {1: 72, 2: 50, 3: 46}  # that fit side by side below a panel
_SETTINGS: dict[str, Any] = {
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.hashsalt": "attnrate",
    "svg.fonttype": "path",
}


def draw(figure: Figure) -> Drawing:
    """The figure in matplotlib: panels in rows of up to three, one legend below all of them."""
    with _our_settings():
        columns = geometry.columns_of(figure)
        rows = max(1, math.ceil(len(figure.panels) / columns))
        drawing = Drawing(layout="constrained")
        grid = drawing.subplots(rows, columns, squeeze=False)
        legend: Legend = {}
        for place, axes in enumerate(grid.flat):
            if place >= len(figure.panels):
                axes.set_axis_off()
                continue
            panel = figure.panels[place]
            if isinstance(panel, Curves):
                draw_curves(axes, panel, figure, legend, _TICK_LETTERS[columns])
            elif isinstance(panel, Violins):
                draw_violins(axes, panel, figure, legend)
            elif isinstance(panel, Matrix):
                draw_matrix(axes, panel)
            else:
                draw_graph(axes, panel, legend)
            if clean(panel.title) != clean(figure.title):
                axes.set_title(text_in_lines(panel.title, 46))
        width = _WIDTHS[columns]
        lines = _draw_legend(drawing, legend, width)
        drawing.set_size_inches(width, rows * _PANEL[1] + 0.22 * lines + 0.35)
        title = text_in_lines(figure.title, int(width * 11))
        drawing.suptitle(title, fontsize=11.5, fontweight="bold")
        return drawing


def save_figure(figure: Figure, folder: Path) -> tuple[Path, Path]:
    """Write <name>.png and <name>.svg into the folder; the same figure gives the same bytes."""
    drawing = draw(figure)
    paths = tuple(folder / f"{safe_name(figure.name)}.{kind}" for kind in ("png", "svg"))
    empty = {"Software": None}, {"Date": None, "Creator": None}
    for path, metadata in zip(paths, empty, strict=True):
        data = io.BytesIO()
        with _our_settings(), warnings.catch_warnings():
            # Letters that the font lacks are drawn as boxes; the page still has them.
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            drawing.savefig(data, format=path.suffix[1:], dpi=_DPI, metadata=metadata)
        write_whole(path, data.getvalue())
        # The places of all parts are found while the first file is drawn, and hold for the second.
        drawing.set_layout_engine("none")
    return paths[0], paths[1]


@contextmanager
def _our_settings() -> Iterator[None]:
    with matplotlib.style.context(["default", _SETTINGS]):
        yield


def _draw_legend(drawing: Drawing, legend: Legend, width: float) -> int:
    """Draw the legend below the panels; how many lines it has."""
    if not legend:
        return 0
    labels = [text_in_lines(label, 70) for _, label in legend.values()]
    longest = max(len(line) for label in labels for line in label.split("\n"))
    columns = max(1, min(len(labels), 5, int(width / (0.066 * longest + 0.6))))
    drawing.legend(
        [handle for handle, _ in legend.values()],
        labels,
        loc="outside lower center",
        ncols=columns,
        fontsize=8.5,
        handlelength=2.8,
        columnspacing=1.6,
    )
    lines = sum(label.count("\n") for label in labels)
    return math.ceil(len(labels) / columns) + lines
