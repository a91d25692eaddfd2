"""Figures for pages without a library: marks and axes painted as SVG, one picture for each panel.

Colours are the variables of the palette, so that the style sheet of a page shows them in light and
in dark, and a page places the panels side by side or below each other as its width allows. What is
shown where a reader points is a <title>. Text from outside is escaped.
"""

import html
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attnrate.figures.axes import whole_step
from attnrate.figures.figure import Figure, Number, Scale
from attnrate.figures.marks import Area, Axis, Cells, Frame, Mark, Path, Rule
from attnrate.figures.shades import shade, shades_between
from attnrate.figures.sketch import sketch
from attnrate.figures.style import Look
from attnrate.figures.symbols import outline
from attnrate.figures.words import clean, number, wrapped

_PIXELS = 1.25  # pixels on a page for one point in print
_WIDTHS = {1: 440.0, 2: 440.0, 3: 360.0}  # of a panel, by the number of panels side by side
_HEIGHT = 240.0
_HIGHEST = 430.0  # of a matrix
_RIGHT, _LINE, _BELOW = 12.0, 18.0, 44.0
_BAR = 62.0  # room for a bar of shades with its numbers and its label
_LETTER = 6.6
_FAR = 9999.0  # pixels; what lies further outside is not seen anyway
_MOST_TITLES = 2500  # a matrix of more cells has no words to point at, which keeps pages small
_DASHES = {
    "dash": "6 3",
    "dot": "1.5 2.5",
    "dashdot": "7 2.5 1.5 2.5",
    "longdash": "11 4",
    "longdashdot": "11 3 1.5 3",
}


@dataclass(frozen=True)
class Painted:
    """A figure as SVG: a picture for each panel, and (picture, words) for each entry of the legend.

    The pictures are markup; the words are text that is still to be escaped.
    """

    panels: tuple[str, ...]
    legend: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _Box:
    """The inner part of a panel: its place in the picture and the axes across it."""

    left: float
    top: float
    width: float
    height: float
    x: Axis
    y: Axis

    def across(self, value: Number) -> float:
        """The distance of a value from the left edge."""
        return _within(self.width * _share(value, self.x))

    def down(self, value: Number) -> float:
        """The distance of a value from the upper edge."""
        return _within(self.height * (1 - _share(value, self.y)))


def painted(figure: Figure) -> Painted:
    """Paint the panels of a figure and its legend."""
    found = sketch(figure)
    width = _WIDTHS[found.columns()]
    panels = tuple(_panel(frame, width) for frame in found.frames)
    legend = tuple((_sample(mark), mark.label or "") for mark in found.legend.values())
    return Painted(panels, legend)


def _panel(frame: Frame, width: float) -> str:
    """One panel as a picture of its own."""
    title = wrapped(frame.title, int(width / 8.2)) if frame.title else []
    box = _box(frame, width, 8.0 + _LINE * len(title))
    high = box.top + box.height + _BELOW
    inner = [_grid(box, "x"), _grid(box, "y")]
    for mark in sorted(frame.marks, key=lambda mark: mark.look.layer):
        inner.append(_mark(mark, box))
    if frame.cells is not None:
        inner.append(_cells(frame.cells, box))
    # an inner <svg> cuts off what reaches out of it
    place = (
        f'x="{box.left:.5g}" y="{box.top:.5g}" width="{box.width:.5g}" height="{box.height:.5g}"'
    )
    parts = [
        *(_text(width / 2, 4 + _LINE * (i + 0.6), line, "title") for i, line in enumerate(title)),
        f"<svg {place}>{''.join(inner)}</svg>",
        _axis(box, "x"),
        _axis(box, "y"),
        "" if frame.cells is None else _bar(frame.cells, box),
    ]
    label = html.escape(" ".join(title) or clean(frame.y.label))
    return (
        f'<svg class="panel" viewBox="0 0 {width:.5g} {high:.5g}" role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg>"
    )


def _box(frame: Frame, width: float, top: float) -> _Box:
    """The inner part of a panel, in as much room as the words around it leave."""
    words = [_beside(word, frame.y, width) for _, word in _ticks(frame.y)]
    left = 14.0 + _LETTER * max(map(len, words), default=0) + (20.0 if frame.y.label else 0.0)
    inner, height = width - left - (_RIGHT if frame.cells is None else _BAR), _HEIGHT
    x, y = frame.x, frame.y
    if frame.shape is not None:
        height = min(inner * frame.shape, _HIGHEST)
        left, inner = left + (inner - height / frame.shape) / 2, height / frame.shape
    if frame.equal:
        unit = max((x.high - x.low) / inner, (y.high - y.low) / height)
        x, y = _widened(x, unit * inner), _widened(y, unit * height)
    return _Box(left, top, inner, height, x, y)


def _beside(word: str, axis: Axis, width: float) -> str:
    """The word at a tick beside a panel; the name of a row leaves more than half of the width."""
    return _short(word, 0.42 * width) if axis.kind == "words" else word


def _widened(axis: Axis, length: float) -> Axis:
    """The axis with as much more on both sides that it is `length` long."""
    more = (length - (axis.high - axis.low)) / 2
    return Axis(axis.label, axis.low - more, axis.high + more, ticks=axis.ticks, kind=axis.kind)


def _share(value: Number, axis: Axis) -> float:
    """Where a value lies on an axis: 0 at its lower end, 1 at its upper end."""
    low, high = _along(axis.low, axis.scale), _along(axis.high, axis.scale)
    return (_along(value, axis.scale) - low) / (high - low)


def _along(value: Number, scale: Scale) -> float:
    return math.log10(value) if scale == "log" else float(value)


def _within(pixels: float) -> float:
    return min(_FAR, max(-_FAR, pixels))


def _ticks(axis: Axis) -> list[tuple[Number, str]]:
    """The ticks of an axis, as (place, word); where it does not name any, at round numbers."""
    if axis.ticks is not None:
        return axis.ticks
    low, high = sorted((axis.low, axis.high))
    step = float(axis.step or _round_step(low, high))
    first = math.ceil(low / step - 1e-9)
    places = [step * k for k in range(first, math.floor(high / step + 1e-9) + 1)]
    return [(place, number(place)) for place in places]


def _round_step(low: float, high: float) -> float:
    """A distance between ticks that is 1, 2 or 5 times a power of ten, for about five of them."""
    unit = 10.0 ** math.floor(math.log10((high - low) / 9))
    return unit * whole_step(low / unit, high / unit)


def _grid(box: _Box, which: str) -> str:
    """The lines at the ticks of an axis, if it is one of numbers."""
    axis = box.x if which == "x" else box.y
    if axis.kind != "numbers":
        return ""
    if which == "x":
        lines = [f"M{box.across(at):.1f} 0V{box.height:.5g}" for at, _ in _ticks(axis)]
    else:
        lines = [f"M0 {box.down(at):.1f}H{box.width:.5g}" for at, _ in _ticks(axis)]
    return f'<path class="grid" d="{"".join(lines)}"/>'


def _axis(box: _Box, which: str) -> str:
    """The line of an axis, the words at its ticks, and its label."""
    parts = []
    right, bottom = box.left + box.width, box.top + box.height
    axis = box.x if which == "x" else box.y
    ticks = _ticks(axis)
    if axis.kind != "cells":
        line = f"H{right:.5g}" if which == "x" else f"V{box.top:.5g}"
        parts.append(f'<path class="axis" d="M{box.left:.5g} {bottom:.5g}{line}"/>')
    if which == "y":
        width = box.left + box.width + _RIGHT
        for at, word in ticks:
            shown = _beside(word, axis, width)
            parts.append(_text(box.left - 6, box.top + box.down(at) + 4, shown, "end"))
        middle, label = box.top + box.height / 2, _short(axis.label, box.height)
        if label:
            turned = f'transform="translate(13 {middle:.5g}) rotate(-90)" class="label"'
            parts.append(f"<text {turned}>{html.escape(label)}</text>")
        return "".join(parts)
    room = int(box.width / max(len(ticks), 1) / _LETTER)
    for at, word in ticks:
        shown = word if len(word) <= room or axis.kind == "cells" else _short(word, room * _LETTER)
        parts.append(_text(box.left + box.across(at), bottom + 16, shown))
    label = _short(axis.label, box.width + 60)
    if label:
        parts.append(_text(box.left + box.width / 2, bottom + 36, label, "label"))
    return "".join(parts)


def _short(text: str, pixels: float) -> str:
    """The first line of a text that is broken where the room ends; "…" for the rest."""
    lines = wrapped(text, max(4, int(pixels / _LETTER)))
    return lines[0] if len(lines) == 1 else f"{lines[0]} …"


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    """A text in the middle of x, or as its class says."""
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{named}>{html.escape(clean(words))}</text>'


def _mark(mark: Mark, box: _Box) -> str:
    """One mark, in the coordinates of the inner part."""
    if isinstance(mark, Rule):
        if mark.axis == "x":
            line = f"M{box.across(mark.at):.1f} 0V{box.height:.5g}"
        else:
            line = f"M0 {box.down(mark.at):.1f}H{box.width:.5g}"
        return f'<path d="{line}" {_stroke(mark.look)}/>'
    if isinstance(mark, Area):
        shapes = "".join(_line([*shape], box) + "Z" for shape in mark.shapes)
        fill = f'fill="var(--{mark.look.colour})" opacity="{mark.look.opacity:g}"'
        return f'<path d="{shapes}" {fill}/>' if shapes else ""
    points = [*zip(mark.x, mark.y, strict=True)]
    if mark.look.marker == "arrow":
        return _arrow(mark, box)
    parts = []
    if mark.look.dash is not None:
        parts.append(f'<path d="{_line(points, box)}" {_stroke(mark.look)}/>')
    if mark.low is not None and mark.high is not None:
        rows = zip(mark.x, mark.low, mark.high, strict=True)
        bars = [
            f"M{box.across(x):.1f} {_low(low, box):.1f}V{box.down(high):.1f}"
            for x, low, high in rows
            if math.isfinite(x) and math.isfinite(high)
        ]
        parts.append(f'<path d="{"".join(bars)}" {_stroke(mark.look, plain=True)}/>')
    parts += _symbols(mark, points, box)
    return "".join(parts)


def _low(value: Number, box: _Box) -> float:
    """The place of the lower end of a bar, which may be zero on a logarithmic axis."""
    return _FAR if box.y.scale == "log" and value <= 0 else box.down(value)


def _line(points: Sequence[tuple[Number, Number]], box: _Box) -> str:
    """A line through points; a point that is nan is a gap."""
    parts, fresh = [], True
    for x, y in points:
        if math.isnan(x) or math.isnan(y):
            fresh = True
            continue
        parts.append(f"{'M' if fresh else 'L'}{box.across(x):.1f} {box.down(y):.1f}")
        fresh = False
    return "".join(parts)


def _symbols(mark: Path, points: Sequence[tuple[Number, Number]], box: _Box) -> Iterator[str]:
    """The markers of a path, each with what is said of it."""
    look = mark.look
    if look.marker is None:
        return
    hover = [*mark.hover] or [""] * len(points)
    for place, ((x, y), said) in enumerate(zip(points, hover, strict=True)):
        if place % mark.every or math.isnan(x) or math.isnan(y):
            continue
        shape = outline(look.marker, box.across(x), box.down(y), _PIXELS * look.size)
        yield f'<path d="{shape}" {_filled(look)}>{_title(said)}</path>'


def _arrow(mark: Path, box: _Box) -> str:
    """A line with the head of an arrow at its end."""
    first, last = [(box.across(x), box.down(y)) for x, y in zip(mark.x, mark.y, strict=True)][::2]
    angle = math.atan2(last[1] - first[1], last[0] - first[0])
    size = _PIXELS * mark.look.size
    corners = [last]
    for side in (2.75, -2.75):
        corners.append(
            (last[0] + size * math.cos(angle + side), last[1] + size * math.sin(angle + side))
        )
    head = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in corners) + "Z"
    line = f"M{first[0]:.1f} {first[1]:.1f}L{last[0]:.1f} {last[1]:.1f}"
    said = _title(mark.hover[0] if mark.hover else "")
    return (
        f'<g opacity="{mark.look.opacity:.2g}"><path d="{line}" '
        f"{_stroke(mark.look, opaque=True)}>{said}</path>"
        f'<path d="{head}" fill="var(--{mark.look.colour})">{said}</path></g>'
    )


def _stroke(look: Look, plain: bool = False, opaque: bool = False) -> str:
    """The attributes of a line; a plain one is thin and without dashes."""
    width = 1.4 if plain else max(0.4, _PIXELS * look.width)
    parts = [f'stroke="var(--{look.colour})"', f'stroke-width="{width:.3g}"', 'fill="none"']
    if look.opacity < 1 and not opaque:
        parts.append(f'opacity="{look.opacity:.2g}"')
    if look.dash in _DASHES and not plain:
        parts.append(f'stroke-dasharray="{_DASHES[look.dash]}"')
    return " ".join(parts)


def _filled(look: Look) -> str:
    """The attributes of a marker."""
    edge = f'stroke="var(--{look.colour})" stroke-width="{_PIXELS * look.edge:.3g}"'
    return f'fill="var(--{look.fill})" {edge}'


def _title(hover: str) -> str:
    """What is shown where the reader points; it is escaped already, but for lines and bold type."""
    for tag, words in (("<br>", "\n"), ("<b>", ""), ("</b>", "")):
        hover = hover.replace(tag, words)
    return f"<title>{hover}</title>" if hover else ""


def _cells(cells: Cells, box: _Box) -> str:
    """The cells of a matrix, with their words if they have any."""
    rows, columns = len(cells.values), max(map(len, cells.values))
    wide, high = box.width / columns, box.height / rows
    shape = f"h{wide + 0.3:.3g}v{high + 0.3:.3g}h-{wide + 0.3:.3g}z"  # no light between two cells
    longest = max((len(word) for row in cells.words or () for word in row), default=0)
    size = min(12.0, wide / (0.62 * max(longest, 1)))
    merged: dict[str, list[str]] = {}
    parts, texts = [], []
    for i, row in enumerate(cells.values):
        for j, value in enumerate(row):
            name = shade(value, cells.low, cells.high, cells.shades)
            if not name:
                continue
            at = f"M{j * wide:.1f} {i * high:.1f}{shape}"
            if rows * columns > _MOST_TITLES:
                merged.setdefault(name, []).append(at)
            else:
                parts.append(f'<path class="{name}" d="{at}">{_title(cells.hover[i][j])}</path>')
            if cells.words is not None and cells.words[i][j]:
                where = f'x="{(j + 0.5) * wide:.1f}" y="{(i + 0.5) * high + size / 3:.1f}"'
                word = html.escape(clean(cells.words[i][j]))
                texts.append(
                    f'<text class="{name}" {where} style="font-size:{size:.3g}px">{word}</text>'
                )
    parts += [f'<path class="{name}" d="{"".join(all_)}"/>' for name, all_ in merged.items()]
    return f'<g class="cells">{"".join(parts + texts)}</g>'


def _bar(cells: Cells, box: _Box) -> str:
    """A bar of the shades beside a matrix, with numbers and what they stand for."""
    count = 24
    left, step = box.left + box.width + 8, box.height / count
    parts = [
        f'<path class="{name}" d="M{left:.5g} {box.top + box.height - (i + 1) * step:.5g}'
        f'h9v{step + 0.3:.3g}h-9z"/>'
        for i, name in enumerate(shades_between(cells.shades, count))
    ]
    scale = _Box(left, box.top, 9.0, box.height, box.x, Axis("", cells.low, cells.high))
    for at, word in _ticks(scale.y):
        parts.append(_text(left + 13, box.top + scale.down(at) + 4, word, "start"))
    middle, label = box.top + box.height / 2, _short(cells.label, max(box.height, 130.0))
    turned = f'transform="translate({left + 50:.5g} {middle:.5g}) rotate(-90)"'
    parts.append(f"<text {turned}>{html.escape(label)}</text>" if label else "")
    return f'<g class="cells bar">{"".join(parts)}</g>'


def _sample(mark: Mark) -> str:
    """The picture of a mark in the legend."""
    look = mark.look
    parts = []
    if isinstance(mark, Area):
        fill = f'fill="var(--{look.colour})" opacity="{look.opacity:g}"'
        parts.append(f'<path d="M4 2h24v10h-24z" {fill}/>')
    else:
        if look.dash is not None:
            parts.append(f'<path d="M2 7h28" {_stroke(look, opaque=True)}/>')
        if look.marker == "arrow":
            parts.append(f'<path d="M30 7l-8 -4v8z" fill="var(--{look.colour})"/>')
        elif look.marker is not None:
            shape = outline(look.marker, 16.0, 7.0, _PIXELS * max(look.size, 5.0))
            parts.append(f'<path d="{shape}" {_filled(look)}/>')
    return (
        f'<svg viewBox="0 0 32 14" width="32" height="14" aria-hidden="true">{"".join(parts)}</svg>'
    )
