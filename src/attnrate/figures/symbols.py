"""Symbols of points as outlines of SVG paths, by the names of `style.py`."""

import math

_PLUS = ((0.3, 1), (0.3, 0.3), (1, 0.3), (1, -0.3), (0.3, -0.3), (0.3, -1))
#: Regular polygons: the number of corners, and the angle of the first, from the top
_REGULAR = {
    "square": (4, math.pi / 4),
    "diamond": (4, 0.0),
    "triangle-up": (3, 0.0),
    "triangle-down": (3, math.pi),
    "pentagon": (5, 0.0),
    "hexagon": (6, 0.0),
}


def outline(symbol: str, x: float, y: float, size: float) -> str:
    """The outline of a symbol at (x, y) that is about `size` wide."""
    half = size / 2
    if symbol == "dash":
        return f"M{x - half:.1f} {y:.1f}h{size:.3g}"
    if symbol == "circle":
        arc = f"a{half:.3g} {half:.3g} 0 1 0"
        return f"M{x - half:.1f} {y:.1f}{arc} {size:.3g} 0{arc} {-size:.3g} 0z"
    turned = math.pi / 4 if symbol == "x" else 0.0
    if symbol in ("x", "cross"):
        right = [*_PLUS]
        corners = right + [(-a, -b) for a, b in right]
        reach = half
    else:
        count, start = _REGULAR[symbol]
        angles = [start + 2 * math.pi * k / count for k in range(count)]
        corners = [(math.sin(angle), -math.cos(angle)) for angle in angles]
        reach = 1.15 * half
    cos, sin = reach * math.cos(turned), reach * math.sin(turned)
    places = [(x + a * cos - b * sin, y + a * sin + b * cos) for a, b in corners]
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in places) + "z"
