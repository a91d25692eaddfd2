"""One palette and one look for every figure and page, in light and in dark.

Colours have names ("c0", "paper", "ink"); each name has one value in light and one in dark. The
eight colours of series differ in lightness as well as in hue, and every series has its own marker
or dash too, so that figures can be read in grey and by colour-blind readers. The paper's own values
are crimson diamonds, and nothing else is.
"""

from dataclasses import dataclass

from attnrate.figures.figure import Curves, Figure, Line, Rows, Series, Violins

#: name: (in light, in dark). All values in light differ, so that a page can replace each of them
COLOURS: dict[str, tuple[str, str]] = {
    # Series
    "c0": ("#1b4f8a", "#7fb2ef"),
    "c1": ("#c27a00", "#f2b24a"),
    "c2": ("#0a8466", "#4fd0a8"),
    "c3": ("#7a3d9e", "#c79be8"),
    "c4": ("#3d94cc", "#a8dbf8"),
    "c5": ("#65503c", "#c9b8a4"),
    "c6": ("#7b8500", "#cdd65a"),
    "c7": ("#24292f", "#f0eee9"),
    "paper": ("#c8102e", "#ff6b7d"),
    "faint": ("#8d949c", "#767e87"),
    # The page
    "background": ("#fdfcfa", "#15171a"),
    "card": ("#f5f3ee", "#1e2125"),
    "ink": ("#1d2126", "#e6e4df"),
    "muted": ("#565e67", "#a5abb2"),
    "rule": ("#dedbd4", "#353b42"),
    "link": ("#1a56a8", "#8ab8f5"),
    # Verdicts and failures
    "good": ("#1c6b3f", "#6fd39a"),
    "amended": ("#17608f", "#7cc0f0"),
    "even": ("#5f4a9c", "#b9a8f2"),
    "bad": ("#a8201a", "#ff8f87"),
    "unknown": ("#8a5800", "#e9b650"),
    "aside": ("#57606a", "#a6acb3"),
    # Shades of a matrix: from nothing to much, and from negative over nothing to positive
    "s0": ("#f7f5f1", "#1f2328"),
    "s1": ("#d3e1ef", "#203b5d"),
    "s2": ("#a3c4e2", "#2a5a8f"),
    "s3": ("#6a9fcf", "#3f80bf"),
    "s4": ("#3a76b3", "#6fa9dd"),
    "s5": ("#1d4f8c", "#a9cff1"),
    "s6": ("#0c2f5e", "#e3f1ff"),
    "d0": ("#1d4c8a", "#9cc6f4"),
    "d1": ("#86acd8", "#3d6fa6"),
    "d2": ("#f6f4f0", "#202429"),
    "d3": ("#e3b06a", "#a56a17"),
    "d4": ("#9c5400", "#ffc879"),
}
SEQUENTIAL = ("s0", "s1", "s2", "s3", "s4", "s5", "s6")
DIVERGING = ("d0", "d1", "d2", "d3", "d4")
#: What marks of one entry of the legend have in common
Key = tuple[str | bool | None, ...]

_SERIES_COLOURS = 8
_MARKERS = ("circle", "square", "triangle-up", "pentagon", "triangle-down", "x", "hexagon", "cross")
_THEORY_DASHES = ("dash", "dashdot", "longdash", "longdashdot")
_PAPER_DASHES = ("dot", "dashdot", "dash")
_LINE_DASHES = ("dot", "dashdot", "dash", "longdashdot")


@dataclass(frozen=True)
class Look:
    """How a mark is drawn; colours are names, widths and sizes are in points of a printed figure.

    Marks of a higher layer cover those of a lower one. Without `dash` there is no line. `marker` is
    the symbol at the points: `size` wide, filled with `fill`, with an `edge` of the mark's colour.
    """

    colour: str
    layer: float = 2.0
    dash: str | None = None
    width: float = 1.8
    opacity: float = 1.0
    marker: str | None = None
    fill: str = "background"
    size: float = 5.0
    edge: float = 0.8


def light(name: str) -> str:
    """The colour of that name in light."""
    return COLOURS[name][0]


def light_to_dark() -> dict[str, str]:
    """The colour in dark for each colour in light."""
    return dict(COLOURS.values())


def css_variables() -> str:
    """The palette as variables of a style sheet, from which the browser takes light or dark."""
    return "\n".join(f"  --{name}: light-dark({a}, {b});" for name, (a, b) in COLOURS.items())


def key_of(one: Series | Line) -> Key:
    """The key of a series (label, group and style) or a line (label); equal keys look alike."""
    return ("line", one.label) if isinstance(one, Line) else (one.label, one.group, one.style)


def looks_of(figure: Figure) -> dict[Key, Look]:
    """The look of each series and reference line of a figure, alike in all of its panels."""
    panels = [panel for panel in figure.panels if isinstance(panel, (Curves, Rows, Violins))]
    mentioned = {key_of(series): series for panel in panels for series in panel.series}
    groups = {s.group for s in mentioned.values() if s.style != "paper"}
    colours: dict[str, int] = {}
    for one in mentioned.values():
        if one.style in ("measured", "theory") or (one.style == "faint" and one.group):
            colours.setdefault(one.group or one.label, len(colours))
    counts = dict.fromkeys(("measured", "theory", "paper", "faint"), 0)
    looks = {}
    for key, one in mentioned.items():
        place = counts[one.style]
        counts[one.style] += 1
        index = colours.get(one.group or one.label, 0)
        colour = f"c{index % _SERIES_COLOURS}"
        if one.style == "measured":
            # The eight after the first eight have the same colours with other markers.
            marker = _MARKERS[(place + place // len(_MARKERS)) % len(_MARKERS)]
            looks[key] = Look(colour, 2.3, "solid", marker=marker, fill=colour)
        elif one.style == "theory":
            looks[key] = Look(colour, 2.6, _THEORY_DASHES[place % len(_THEORY_DASHES)])
        elif one.style == "paper":
            fill = colour if one.group and one.group in groups else "background"
            dash = _PAPER_DASHES[place % len(_PAPER_DASHES)]
            looks[key] = Look("paper", 2.9, dash, 1.5, 1.0, "diamond", fill, size=6.5, edge=1.6)
        else:
            looks[key] = Look(colour if one.group else "faint", 2.1, "solid", 0.9, opacity=0.55)
    lines = [line for panel in panels if isinstance(panel, (Curves, Rows)) for line in panel.lines]
    for place, key in enumerate(dict.fromkeys(map(key_of, lines))):
        looks[key] = Look("muted", 1.5, _LINE_DASHES[place % len(_LINE_DASHES)], 1.2)
    return looks
