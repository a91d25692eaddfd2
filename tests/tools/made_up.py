"""Made-up records with every panel, style and verdict, holes and hostile text; made-up profiles."""

import math
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
import torch

from attnrate.experiments.claims import Claim, Verdict
from attnrate.experiments.contract import Conclusion
from attnrate.experiments.record import Record
from attnrate.figures.figure import (
    Curves,
    Figure,
    Graph,
    Line,
    Matrix,
    Rows,
    Series,
    Table,
    Violins,
)
from attnrate.spectra.cut import Cut
from attnrate.spectra.estimate import Gram
from attnrate.spectra.layer import LayerSpectra
from attnrate.spectra.measures import SHARES, rank_of, tails
from attnrate.spectra.result import Profile
from attnrate.words import GAUGES

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


def violins_figure() -> Figure:
    """Violins of many values, of one, of none, with holes, on both scales, with series across."""
    spread = tuple(0.5 + 0.1 * math.sin(7 * i) for i in range(60))
    pooled = Series("pooled", reals(1, 2, 3, 4), reals(0.5, 0.3, 0.1, 0.01))
    law = Series("law", reals(1, 2, 3, 4), reals(0.6, 0.2, 0.06, 0.02), style="theory")
    values = (spread, (0.3, NAN, 0.0, 0.2), (0.1,), ())
    places = reals(1, 2, 3, 4)
    return Figure(
        "violins",
        "Violins",
        "Distributions.",
        (
            Violins("log", "k", "σ", "inputs", places, values, (pooled, law), "log"),
            Violins("linear", "k", "σ", "inputs", places, values),
        ),
    )


def rows_figure() -> Figure:
    """Rows with intervals that reach zero, with holes, on both scales."""
    held = (0.9, 0.5, 0.01), (0.8, NAN, 0.0), (1.0, 2.0, 3.0)
    series = (
        Series("held out", reals(0, 1, 2), *held),
        Series("in sample", reals(0, 1), (0.8, NAN)),
    )
    names = "a linear filter", "any function of the token now", "pairs"
    labels = "share of the variance", ""
    line = Line("the winner", x=0.01)
    return Figure(
        "rows",
        "Rows",
        "Names of rows.",
        (
            Rows("log", *labels, names, series, "log", (line,)),
            Rows("linear", *labels, names, series),
        ),
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
            Rows(t, t, t, (t, t), (Series(t, reals(0, 1), reals(1, 2)),), lines=(Line(t, x=1.0),)),
            Matrix(t, t, t, ((1.0,),), label=t, row_names=(t,)),
            Violins(t, t, t, t, (1.0,), ((1.0, 2.0),), (Series(t, (1.0,), (1.0,)),)),
            Graph(t, ((0.0, 0.0),), ((1.0, 1.0),), ((0, 0, 1.0),), (False,), t, t),
        ),
    )


@pytest.fixture(scope="session")
def figures() -> tuple[Figure, ...]:
    return curves_figure(), other_figure(), hostile_figure(), violins_figure(), rows_figure()


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


def _layer(
    number: int,
    name: str,
    heads: int,
    m_h: int,
    *,
    rotary: bool = False,
    cut: bool = True,
    inputs: int,
) -> LayerSpectra:
    """Head h has σ_k = e^{-(h + 1) k / 8}, each input a little more or less of it.

    With its rows' means left in, a head has a first value ten times as large; before the rotation
    its spectrum falls twice as fast.
    """
    k = np.arange(1, m_h + 1)
    pooled = np.exp(-np.outer(np.arange(1, heads + 1), k) / 8.0)
    factors = np.linspace(0.8, 1.2, inputs)[:, None, None]
    ungauged = pooled * np.where(k == 1, 10.0, 1.0)
    by_gauge = dict(zip(GAUGES, (pooled, ungauged), strict=True))
    spectra = {("logits", gauge): values for gauge, values in by_gauge.items()}
    moments = {"logits": _moments(pooled)}
    if rotary:
        spectra |= {("plain", gauge): values**2 for gauge, values in by_gauge.items()}
        moments["plain"] = _moments(pooled**2, 100.0)
    sigma = {key: (factors * values).astype(np.float32) for key, values in spectra.items()}
    shares = np.tile(np.linspace(0.01, 0.1, heads), (inputs, 1))
    cuts = {share: _cut(pooled, share, shares) for share in SHARES}
    return LayerSpectra(
        number=number,
        name=name,
        kind="self",
        heads=heads,
        groups=heads,
        m_h=m_h,
        m_v=m_h,
        rotary=rotary,
        causal=False,
        run=1,
        scale=1.0,
        tokens=np.full(inputs, 7),
        sigma=sigma,
        moments=moments,
        query=moments["logits"][0],
        key=moments["logits"][0],
        cuts=cuts if cut else {},
    )


def _moments(pooled: np.ndarray, first: float = 10.0) -> tuple[Gram, Gram]:
    """Moments of a query and a key with these singular values, by heads.

    With the rows' means left in, the first value is `first` times as large.
    """
    heads, m_h = pooled.shape
    one, none = torch.ones(heads, dtype=torch.float64), torch.zeros(heads, m_h, dtype=torch.float64)
    square = torch.eye(m_h, dtype=torch.float64).expand(heads, m_h, m_h)
    mean = none.clone()
    mean[:, 0] = torch.from_numpy(pooled[:, 0]) * (first**2 - 1) ** 0.5
    spread = torch.diag_embed(torch.from_numpy(pooled) ** 2)
    return Gram(square, none, one), Gram(spread, mean, one)


def _cut(pooled: np.ndarray, share: float, moved: np.ndarray) -> Cut:
    """A cut to the ranks of a share that moves these shares of attention."""
    ranks = rank_of(pooled, share)
    tail = np.take_along_axis(tails(pooled), ranks[:, None], -1)[:, 0]
    shape = moved.shape
    return Cut(np.broadcast_to(ranks, shape), np.broadcast_to(tail, shape), moved, 2 * moved)


def _profile(*layers: dict[str, Any], model: str = "made-up", inputs: int = 5) -> Profile:
    return Profile(
        model=model,
        family="made",
        gauge="softmax",
        layers=tuple(_layer(i, **one, inputs=inputs) for i, one in enumerate(layers)),
        made_by={"attnrate": "0.1.0", "git_commit": "0123456789abcdef", "git_changed": False},
    )


@pytest.fixture(scope="session")
def made() -> Callable[..., Profile]:
    """Makes a profile of layers that are given by the arguments of `_layer`, without a model."""
    return _profile
