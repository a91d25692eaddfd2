"""Made-up records with every panel, style and verdict, holes in the numbers, and hostile text."""

import math
from typing import get_args

import pytest

from attnrate.experiments.claims import Claim, Verdict
from attnrate.experiments.experiment import Conclusion
from attnrate.experiments.plots import Curves, Figure, Graph, Line, Matrix, Series, Table
from attnrate.experiments.record import Record

NAN = math.nan
HOSTILE = (
    "<script>window.hacked=1</script></script><!-- <img src=x onerror=window.hacked=1> "
    "\"'&amp; $x$ %{y} [red] \u2028 \x1b[31m ∑ 漢 <b>bold</b> {{ 7*7 }}"
)


def reals(*values: float) -> tuple[float, ...]:
    """The values as floats: beartype does not take a whole number for one."""
    return tuple(map(float, values))


SIZES = (1.0, 2.0, 4.0, 8.0, 16.0)


def curves_figure() -> Figure:
    """Every style, on linear, logarithmic and categorical axes."""
    falling = Series("trained", SIZES, reals(1, 0.1, NAN, 1e-3, 0.0), group="g", style="measured")
    many = tuple(float(k) for k in range(1, 50))
    banded = Series(
        "many points",
        many,
        tuple(1 / k for k in many),
        tuple(0.5 / k for k in many),
        tuple(2 / k for k in many),
    )
    wide = Series(
        "two seeds",
        SIZES,
        reals(1, 1, 1, 1, 1),
        reals(-1, NAN, 0.5, 1e-9, 1e-300),
        reals(2, 3, NAN, 1e9, 4),
    )
    return Figure(
        "curves",
        "Curves",
        "All styles.",
        (
            Curves(
                "logarithmic",
                "m_h",
                "error",
                (
                    falling,
                    wide,
                    Series("bound", SIZES, reals(2, 1, 0.5, 0.25, 0.1), style="theory", group="g"),
                    Series(
                        "the paper", SIZES, reals(3, 1, 0.3, 0.1, 0.03), style="paper", group="g"
                    ),
                    Series("one seed", SIZES, reals(1, 0.2, 0.1, 0.05, 0.02), style="faint"),
                ),
                "log",
                "log",
                (Line("rank", x=4.0), Line("floor", y=1e-3)),
            ),
            Curves("linear", "k", "σ", (banded, Series("nothing", reals(1, 2), (NAN, NAN)))),
            Curves(
                "categories",
                "",
                "error",
                (
                    Series("RNN", reals(0, 1), (0.1, 0.2), (0.05, 0.1), (0.2, 0.3)),
                    Series("the paper's RNN", reals(0, 1), (0.1, 0.4), style="paper"),
                ),
                ticks=("as it is", "in another order"),
            ),
        ),
    )


def other_figure() -> Figure:
    """Matrices, small and large, of one sign and of both, and a graph."""
    small = ((0.1, 0.9), (NAN, 0.5))
    large = tuple(tuple(math.sin(i * j) for j in range(20)) for i in range(15))
    graph = Graph(
        "links",
        ((0.0, 0.0), (1.0, 1.0)),
        ((1.0, 0.0), (0.0, 1.0)),
        ((0, 0, 0.9), (0, 1, 0.1), (1, 1, NAN)),
        (True, False, True),
    )
    return Figure(
        "others",
        "Others",
        "The rest.",
        (Matrix("a", "s", "t", small), Matrix("b", "", "", large), graph),
    )


def hostile_figure() -> Figure:
    """Hostile text in every field."""
    t = HOSTILE
    return Figure(
        "../" + t,
        t,
        t,
        (
            Curves(
                t,
                t,
                t,
                (Series(t, reals(0, 1), reals(1, 2)),),
                lines=(Line(t, y=1.0),),
                ticks=(t, t),
            ),
            Matrix(t, t, t, ((1.0,),)),
            Graph(t, ((0.0, 0.0),), ((1.0, 1.0),), ((0, 0, 1.0),), (False,), t, t),
        ),
    )


@pytest.fixture(scope="session")
def figures() -> tuple[Figure, ...]:
    return curves_figure(), other_figure(), hostile_figure()


@pytest.fixture(scope="session")
def records() -> list[Record]:
    t = HOSTILE
    claims = tuple(
        Claim(f"claim-{i}", "Eq. 17", f"statement {i}", "one", verdict, "value", 0.5, 0.25, 0.75)
        for i, verdict in enumerate(get_args(Verdict))
    )
    table = Table("numbers", ("name", "value"), (("x", 0.123456), ("y", None), ("z", 12)), "note")
    versions = {"date": "2026-05-04", "versions": {"attnrate": "0.1.0"}}
    first = Conclusion(
        ("A paragraph.", "Another."), (curves_figure(), other_figure()), (table,), claims
    )
    bad = Conclusion(
        (t,),
        (hostile_figure(),),
        (Table(t, (t,), ((t,),), t),),
        (Claim(t, t, t, t, "open", t, NAN, correction=t),),
    )
    return [
        Record("one", "First", "Figure 1", "quick", 3, 3, 90.0, versions, first),
        Record(t, t, t, t, 2, 1, 1.0, {t: t, "more": {"deep": t}}, bad),
        Record("lost", "Lost", "Table 9", "quick", 2, 0, 0.0, {}, failed=f"WorkerError: {t}"),
    ]
