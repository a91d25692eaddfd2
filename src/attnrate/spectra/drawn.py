"""Profiles, advice, comparisons and spectra of weights as figures: violins, maps, sizes."""

import math
from typing import TYPE_CHECKING

import numpy as np

from attnrate.figures.axes import MOST_NUMBERED
from attnrate.figures.figure import (
    Curves,
    Figure,
    Matrix,
    Number,
    Series,
    Style,
    Violins,
    violin_values,
)
from attnrate.figures.words import signed
from attnrate.spectra.measures import percent
from attnrate.theory.decay_result import SMOOTH

if TYPE_CHECKING:
    import pandas as pd

    from attnrate.spectra.advise import Advice
    from attnrate.spectra.comparison import Comparison
    from attnrate.spectra.result import Profile

MOST_VIOLINS = 32
#: Smaller values, as shares of the largest, are rounding of a float32 model and are not drawn
ROUNDING = 1e-6


def violins(profile: "Profile", layer: int | str, head: int, title: str) -> Violins:
    """A panel with each σ_k of one head over the inputs, its pooled spectrum and the fitted law.

    In a head of many dimensions only one k in `stride` has a violin, so that they stay readable.
    """
    sigma = profile.sigma(layer, head).astype(float)
    pooled = profile.pooled(layer, head).astype(float)
    law = profile.decay(layer, head)
    places = range(1, sigma.shape[1] + 1, stride(sigma.shape[1]))
    least = ROUNDING * max(float(sigma.max()), float(pooled.max()))
    lines = [line("all inputs together", pooled, least)]
    if law.law in SMOOTH and law.used is not None:
        k = np.arange(law.used[0], law.used[1] + 1, dtype=float)
        fitted = tuple(law.predict(k).tolist())
        lines.append(Series("law of decay", tuple(k.tolist()), fitted, style="theory"))
    return Violins(
        title,
        "k",
        "σ_k of the logits / √(T S)",
        "σ_k over the inputs",
        tuple(float(k) for k in places),
        tuple(violin_values(_seen(sigma[:, k - 1], least)) for k in places),
        tuple(lines),
        "log",
    )


def stride(size: int) -> int:
    """The distance between two k that have a violin, for a head of that size."""
    return math.ceil(size / MOST_VIOLINS)


def line(label: str, sigma: np.ndarray, least: float, style: Style = "measured") -> Series:
    """A spectrum over k = 1, 2, …; values of at most `least` are left out."""
    places = tuple(float(k) for k in range(1, len(sigma) + 1))
    return Series(label, places, tuple(_seen(sigma, least)), style=style)


def _seen(sigma: np.ndarray, least: float) -> list[float]:
    """The values, with nan in place of those that are rounding."""
    return [float(value) if value > least else math.nan for value in sigma]


def head_map(
    profile: "Profile",
    column: "pd.Series[float] | pd.Series[int]",
    title: str,
    label: str,
    low: Number | None = None,
    high: Number | None = None,
) -> Matrix:
    """A panel with one row per layer and one cell per head; nan where there is no head or value.

    Args:
        profile: The profile whose layers and heads are shown.
        column: A column of its table, or a part of one, with the table's index.
        title: What the panel shows.
        label: The unit of the values.
        low: The value of the lightest shade; the least value by default.
        high: The value of the darkest shade; the largest value by default.

    Returns:
        The panel as plain data.

    """
    most = max(layer.heads for layer in profile.layers)
    known = dict(zip(column.index, column.tolist(), strict=True))
    rows: list[tuple[Number, ...]] = []
    before = 0
    for layer in profile.layers:
        heads = range(before, before + layer.heads)
        before += layer.heads
        values = [known.get(head, math.nan) for head in heads]
        rows.append((*values, *[math.nan] * (most - layer.heads)))
    names = tuple(layer.name for layer in profile.layers)
    numbers = tuple(layer.number for layer in profile.layers)
    return Matrix(title, "head", "layer", tuple(rows), low, high, label, names, numbers)


def ranks_figure(profile: "Profile") -> Figure:
    """A map of the number of dimensions that hold 99 % of the energy of each head's logits."""
    most = max(layer.m_h for layer in profile.layers)
    title = f"of {most}, for 99 % of the energy"
    panel = head_map(profile, profile.to_frame()["rank99"], title, "dimensions", 0, most)
    return Figure("ranks", f"{profile.model}: dimensions that heads use", "", (panel,))


_TRIANGLES = {"gained": "▲", "lost": "▼"}


def changes_figure(found: "Comparison") -> Figure:
    """Maps of the change of each head's rank: its mean over inputs, and that of all together.

    Shades of both signs look alike in grey, so signs and triangles stand in the cells.
    """
    means: dict[tuple[int, int], Number] = {}
    together: dict[tuple[int, int], Number] = {}
    verdicts: dict[tuple[int, int], str] = {}
    for one in found.heads:
        place = one.layer, one.head
        means[place] = one.rank99.change.value
        together[place] = round(one.rank99.after - one.rank99.before)
        verdicts[place] = _TRIANGLES.get(one.verdict, "")
    most = max(1.0, *map(abs, means.values()), *map(abs, together.values()))
    return Figure(
        "changes",
        f"{found.after.model} against {found.before.model}: dimensions for 99 % of the energy",
        "How many more or fewer dimensions hold 99 % of the energy of each head's logits after "
        "than before. The first map has the mean of the change over inputs: ▲ marks the heads that "
        "gained rank and ▼ those that lost it, beyond what chance among all heads explains. The "
        "second has that of the rank of all inputs together, which decides the size of a head. "
        "Layers without cells were not compared.",
        (
            _change_map(found, means, "mean over inputs", most, verdicts),
            _change_map(found, together, "all inputs together", most, None),
        ),
    )


def _change_map(
    found: "Comparison",
    changes: dict[tuple[int, int], Number],
    title: str,
    most: Number,
    marks: dict[tuple[int, int], str] | None,
) -> Matrix:
    """One map of changes by (layer, head).

    Args:
        found: The comparison, whose second model has the layers and heads.
        changes: The change of each head.
        title: What the panel shows.
        most: The largest change of all, at the ends of the shades.
        marks: What stands beside the number of each head, or alone where there are many heads; None
            for its sign.

    Returns:
        The panel as plain data.

    """
    heads = max(layer.heads for layer in found.after.layers)
    numbers = tuple(layer.number for layer in found.after.layers)
    few = max(heads, len(numbers)) <= MOST_NUMBERED

    def word(place: tuple[int, int]) -> str:
        change = changes.get(place)
        if change is None:
            return ""
        number = signed(change, "+.1f" if isinstance(change, float) else "+d")
        if marks is None:
            return number if few else number.strip("0123456789")
        return number + marks[place] if few else marks[place]

    places = [[(layer, head) for head in range(heads)] for layer in numbers]
    return Matrix(
        title,
        "head",
        "layer",
        tuple(tuple(changes.get(place, math.nan) for place in row) for row in places),
        -most,
        most,
        "dimensions after − before",
        tuple(layer.name for layer in found.after.layers),
        numbers,
        tuple(tuple(map(word, row)) for row in places),
    )


def sizes_figure(advice: "Advice") -> Figure:
    """The head sizes of each layer: as they are, as advised, and as small as they might be."""
    number = tuple(float(layer.layer) for layer in advice.layers)
    columns: tuple[tuple[str, str, Style], ...] = (
        ("m_h", "now", "theory"),
        ("size", "advised", "measured"),
        ("low", "perhaps enough", "faint"),
    )
    series = tuple(
        Series(
            label, number, tuple(float(getattr(layer, name)) for layer in advice.layers), style=s
        )
        for name, label, s in columns
    )
    title = f"at most {percent(advice.tolerance)} of any head's attention moved"
    panel = Curves(title, "layer", "head size m_h", series)
    return Figure("sizes", f"{advice.model}: head sizes", "", (panel,))


def spectrum_figure(model: str, title: str, label: str, sigma: np.ndarray) -> Figure:
    """One spectrum over k on a logarithmic axis."""
    series = (line(label, sigma, ROUNDING * float(sigma[0])),)
    return Figure("spectrum", model, "", (Curves(title, "k", "σ_k", series, y_scale="log"),))
