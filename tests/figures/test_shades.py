"""Shades as classes: in order, none for what is not a number, and words on them can be read."""

import math
import re

import pytest

from attnrate.figures.shades import shade, shade_rules, shades_between
from attnrate.figures.style import COLOURS, DIVERGING, SEQUENTIAL

RULES = dict(re.findall(r"\.(\w+) { --shade: (.*?); --on: .*; }", shade_rules()))
INKS = dict(re.findall(r"\.(\w+) { .*--on: (.*); }", shade_rules()))
Rgb = tuple[float, float, float]


def rgb(colour: str) -> Rgb:
    red, green, blue = bytes.fromhex(colour[1:])
    return red / 255, green / 255, blue / 255


def evaluate(text: str, theme: int) -> Rgb:
    """The colour that a browser makes of a rule, in light (0) or dark (1)."""
    if text.startswith("light-dark("):
        return {"#000": (0.0, 0.0, 0.0), "#fff": (1.0, 1.0, 1.0)}[text[11:-1].split(", ")[theme]]
    first, *others = [rgb(COLOURS[name][theme]) for name in re.findall(r"var\(--(\w+)\)", text)]
    if not others:
        return first
    part = float(re.findall(r"([0-9.]+)%", text)[0]) / 100
    red, green, blue = (part * a + (1 - part) * b for a, b in zip(first, others[0], strict=True))
    return red, green, blue


def luminance(colour: Rgb) -> float:
    """The relative luminance of WCAG 2."""
    parts = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def test_ends_and_middle_are_the_colours_of_the_scale() -> None:
    for scale in (SEQUENTIAL, DIVERGING):
        for place, name in enumerate(scale):
            found = shade(place, 0.0, len(scale) - 1.0, scale)
            assert RULES[found] == f"var(--{name})"
    assert shade(-7, 0.0, 1.0) == shade(0, 0.0, 1.0)
    assert shade(7, 0.0, 1.0) == shade(1, 0.0, 1.0)
    assert shade(math.nan, 0.0, 1.0) == shade(math.inf, 0.0, 1.0) == ""


def test_every_class_that_is_used_is_defined() -> None:
    for scale in (SEQUENTIAL, DIVERGING):
        assert {*shades_between(scale, 200)} <= {*RULES}
    used = {*shades_between(SEQUENTIAL, 999), *shades_between(DIVERGING, 999)}
    assert used == {*RULES} == {*INKS}


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_more_is_darker_in_light_and_lighter_in_dark(theme: int) -> None:
    light = [luminance(evaluate(RULES[name], theme)) for name in shades_between(SEQUENTIAL, 61)]
    ordered = sorted(light, reverse=theme == 0)
    assert light == ordered


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_words_on_a_shade_can_be_read(theme: int) -> None:
    worst = min(
        (max(one, other) + 0.05) / (min(one, other) + 0.05)
        for name in RULES
        for one in [luminance(evaluate(RULES[name], theme))]
        for other in [luminance(evaluate(INKS[name], theme))]
    )
    assert worst >= 4.5  # what WCAG 2 asks for small type
