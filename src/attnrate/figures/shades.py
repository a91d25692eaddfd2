"""Shades of a matrix as classes of a style sheet, so that a page shows them in light and in dark.

A class sets two variables: `--shade`, the colour of a cell, and `--on`, the colour of words in it:
black or white, whichever is read better on it.
"""

import math

from attnrate.figures.figure import Number
from attnrate.figures.style import COLOURS, DIVERGING, SEQUENTIAL

#: The letter with which the names of the classes of each scale begin
_SCALES = {SEQUENTIAL: "q", DIVERGING: "z"}
_STEPS = 10  # classes from one colour of a scale to the next
_GREY = 0.179  # luminance on which black and white have the same contrast


def shade(value: Number, low: float, high: float, scale: tuple[str, ...] = SEQUENTIAL) -> str:
    """The class of a value between `low` and `high`; "" for a value that is not finite."""
    if not math.isfinite(value):
        return ""
    last = _STEPS * (len(scale) - 1)
    share = (value - low) / (high - low)
    return f"{_SCALES[scale]}{round(last * min(1.0, max(0.0, share)))}"


def shades_between(scale: tuple[str, ...], count: int) -> list[str]:
    """The classes of `count` values that lie evenly between the ends of a scale."""
    return [shade(place, 0.0, count - 1.0, scale) for place in range(count)]


def shade_rules() -> str:
    """The rules of a style sheet that define all classes."""
    return "\n".join(
        f".{letter}{level} {{ {_rule(scale, level)} }}"
        for scale, letter in _SCALES.items()
        for level in range(_STEPS * (len(scale) - 1) + 1)
    )


def _rule(scale: tuple[str, ...], level: int) -> str:
    """The variables of a level: one of the scale's colours, or a mixture of two neighbours."""
    place, step = divmod(level, _STEPS)
    first, second = scale[place], scale[min(place + 1, len(scale) - 1)]
    part = (_STEPS - step) / _STEPS
    colour = f"var(--{first})"
    if step:
        colour = f"color-mix(in srgb, {colour} {100 * part:g}%, var(--{second}))"
    on = [_on(COLOURS[first][theme], COLOURS[second][theme], part) for theme in (0, 1)]
    return f"--shade: {colour}; --on: light-dark({on[0]}, {on[1]});"


def _on(first: str, second: str, part: float) -> str:
    """Black or white, by the luminance (of WCAG 2) of a mixture of two colours."""
    luminance = 0.0
    channels = zip(bytes.fromhex(first[1:]), bytes.fromhex(second[1:]), strict=True)
    for weight, (one, other) in zip((0.2126, 0.7152, 0.0722), channels, strict=True):
        mixed = (part * one + (1 - part) * other) / 255
        luminance += weight * (mixed / 12.92 if mixed <= 0.04 else ((mixed + 0.055) / 1.055) ** 2.4)
    return "#000" if luminance > _GREY else "#fff"
