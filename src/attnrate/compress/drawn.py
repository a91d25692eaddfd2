"""A compression as a picture: each way to a smaller cache with what it costs, or each layer."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from attnrate.compress.rivals import CUT, Rival
from attnrate.figures.draw import draw
from attnrate.figures.drawing import Drawing
from attnrate.figures.figure import Curves, Figure, Number, Scale, Series, Style
from attnrate.figures.labels import Label, label_points

if TYPE_CHECKING:
    from attnrate.compress.result import Compressed, CompressedLayer

_BEYOND = 1e100
_FAR_APART = 10  # values that differ by more than this factor stand on a logarithmic axis


def drawing_of(done: "Compressed") -> Drawing:
    """Draw the ways to a smaller cache where they were measured, otherwise the layers."""
    rivals = done.measured.rivals
    if not rivals:
        return draw(layers_figure(done.name, done.layers, done.repaired[0] > 0))
    drawing = draw(ways_figure(done.name, rivals))
    label_points(
        drawing.axes[0], [Label(each.bytes_16, cost_of(each), each.way) for each in rivals]
    )
    return drawing


def cost_of(rival: Rival) -> float:
    """What a way costs: its perplexity, or without a language head the change of the output.

    Beyond all measure it is nan, which is not drawn.
    """
    cost = rival.change if rival.perplexity is None else rival.perplexity
    return cost if cost < _BEYOND else math.nan


def ways_figure(name: str, rivals: Sequence[Rival]) -> Figure:
    """What each way to a smaller cache costs over its bytes, of the whole model and of its cut."""
    cost = "perplexity on inputs held out"
    if rivals[0].perplexity is None:
        cost = "change of the output on inputs held out, as a share of its size"
    lines = []
    for label, cut in (("whole heads", False), ("smaller heads", True)):
        own = [each for each in rivals if each.way.startswith(CUT) == cut]
        sizes = tuple(each.bytes_16 for each in own)
        lines.append(Series(label, sizes, tuple(map(cost_of, own))))
    panel = Curves(
        "",
        "bytes per token in the cache (with 16-bit floats)",
        cost,
        tuple(lines),
        y_scale=_scale([cost_of(each) for each in rivals]),
    )
    caption = (
        "The cache and the quality of the model with whole and with smaller heads, with keys as "
        "they are, in 8 and in 4 bits. What is further down and further to the left is better."
    )
    return Figure("ways", f"{name}: ways to a smaller cache", caption, (panel,))


def layers_figure(name: str, layers: "Sequence[CompressedLayer]", repaired: bool) -> Figure:
    """The change of each layer by its cut and after its repair, and its sizes before and now.

    Args:
        name: The name of the model.
        layers: What became of each layer.
        repaired: Whether each layer was repaired by itself.

    """
    where = "layer, in the order of the report"
    changes = [_line("by the cut", [each.change_cut for each in layers])]
    if repaired:
        changes.append(_line("after its repair", [each.change for each in layers]))
    panels = []
    known = [y for line in changes for y in line.y]
    if known:
        what = "change of what the layer gives, as a share of its size"
        panels.append(Curves("change by layer", where, what, tuple(changes), y_scale=_scale(known)))
    panels.append(Curves("sizes by layer", where, "dimensions of a head", _sizes(layers)))
    caption = "How much each layer's own output changes while all others are whole, and its sizes."
    return Figure("layers", f"{name}: smaller heads", caption, tuple(panels))


def _sizes(layers: "Sequence[CompressedLayer]") -> tuple[Series, ...]:
    """The sizes before and now; those of values have lines of their own where they differ."""
    keys = [each.m_h for each in layers], [each.size for each in layers]
    values = [each.m_v for each in layers], [each.value_size for each in layers]
    shown = {"queries and keys": keys, "values": values}
    if keys == values:
        shown = {"queries, keys and values": keys}
    elif values[0] == values[1]:
        shown = {"queries and keys": keys}
    found = []
    for what, (before, now) in shown.items():
        found += [_line(f"{what}, before", before, "theory"), _line(f"{what}, now", now)]
    return tuple(found)


def _line(label: str, values: Sequence[Number | None], style: Style = "measured") -> Series:
    """A series over the numbers of layers, without those that have no value."""
    there = [(float(number), float(y)) for number, y in enumerate(values) if y is not None]
    return Series(label, tuple(x for x, _ in there), tuple(y for _, y in there), style=style)


def _scale(values: Sequence[Number]) -> Scale:
    """A logarithmic axis for values that are far apart, unless one of them has no place on it."""
    there = [value for value in values if not math.isnan(value)] or [1.0]
    return "log" if min(there) > 0 and max(there) > _FAR_APART * min(there) else "linear"
