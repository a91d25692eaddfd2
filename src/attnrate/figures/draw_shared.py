"""What all panels drawn with matplotlib share: colours, dashes, markers, text, legend."""

from typing import Any

from matplotlib.artist import Artist

from attnrate.figures.style import light
from attnrate.figures.words import wrapped

INK, MUTED, RULE = light("ink"), light("muted"), light("rule")
DASHES: dict[str, Any] = {
    "solid": "-",
    "dash": (0, (4.5, 2)),
    "dot": (0, (1, 1.6)),
    "dashdot": (0, (5, 1.8, 1, 1.8)),
    "longdash": (0, (8, 2.5)),
    "longdashdot": (0, (8, 2, 1, 2)),
}
MARKERS = {
    "circle": "o",
    "square": "s",
    "triangle-up": "^",
    "triangle-down": "v",
    "pentagon": "p",
    "x": "X",
    "hexagon": "h",
    "cross": "P",
    "diamond": "D",
}
#: What is in the legend, by what makes it one entry: how it is drawn and its words
Legend = dict[object, tuple[Artist, str]]


def text_in_lines(text: str, width: int) -> str:
    """Text from outside, in lines; a dollar sign starts no formula."""
    return "\n".join(wrapped(text, width)).replace("$", r"\$")
