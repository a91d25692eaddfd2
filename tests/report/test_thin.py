"""Panels of one or two points are said, all others are drawn."""

import math

import pytest

from attnrate.figures.figure import Curves, Figure, Matrix, Panel, Series
from attnrate.report.thin import is_thin, pruned

FEW = Series("trained", (4.0, 16.0), (1.5e-7, 0.25))
MANY = Series("compiled", (1.0, 2.0, 4.0), (3.0, 2.0, 1.0))
PAPER = Series("the paper", (1.0, 2.0, 4.0), (3.0, 2.0, 1.0), style="paper")


def panel(*series: Series, ticks: tuple[str, ...] | None = None) -> Curves:
    return Curves("α = 1", "m_h", "error", series, ticks=ticks)


@pytest.mark.parametrize(
    ("drawn", "thin"),
    [
        (panel(FEW), True),
        (panel(FEW, FEW, PAPER), True),
        (panel(Series("holes", (1.0, 2.0, 3.0), (1.0, math.nan, 2.0))), True),
        (panel(FEW, MANY), False),
        (panel(FEW, Series("bound", (1.0, 2.0, 4.0), (3.0, 2.0, 1.0), style="theory")), False),
        (panel(FEW, ticks=("as it is", "mixed")), False),
        (panel(Series("nothing", (1.0,), (math.nan,))), False),
        (panel(), False),
        (Matrix("", "", "", ((1.0,),)), False),
    ],
)
def test_a_panel_is_thin_if_no_curve_has_three_points(drawn: Panel, thin: bool) -> None:
    assert is_thin(drawn) is thin


def test_a_thin_panel_becomes_a_sentence_with_all_its_numbers() -> None:
    figure = Figure("a", "A", "", (panel(MANY), panel(FEW, Series("Adam", (4.0,), (1.0,)))))
    kept, said = pruned(figure)
    assert kept == Figure("a", "A", "", (panel(MANY),))
    assert said == (
        "α = 1: error against m_h: trained: 1.5×10⁻⁷ at 4 and 0.25 at 16; Adam: 1 at 4.",
    )
    assert pruned(Figure("a", "A", "", (panel(FEW),)))[0] is None
    assert pruned(kept) == (kept, ())
