"""Figures, tables, claims and records come back from JSON as they were."""

import json
import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.experiments.claims import Claim, Verdict
from attnrate.experiments.record import (
    FORMAT,
    load_record,
    record_from_plain,
    record_to_plain,
    save_record,
)
from attnrate.figures.figure import (
    Curves,
    Figure,
    Graph,
    Line,
    Matrix,
    Rows,
    Series,
    Style,
    Table,
    Violins,
    figure_from_plain,
    figure_to_plain,
    table_from_plain,
    table_to_plain,
    violin_values,
)

# The strategies make plain values, not the objects: beartype draws random numbers when an object is
# made, and Hypothesis allows that only within the test.
TEXT = st.text(max_size=8)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
# None stands for a value that is not finite.
NUMBERS = FINITE | st.none()
POINTS = st.lists(st.tuples(FINITE, FINITE).map(list), min_size=1, max_size=3)
SCALES = st.sampled_from(["linear", "log"])
FEW = settings(max_examples=40)


def listed(entries: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[list[Any]]:
    return st.lists(entries, max_size=most)


@st.composite
def series(draw: st.DrawFn) -> dict[str, Any]:
    size = draw(st.integers(0, 3))
    values = st.lists(NUMBERS, min_size=size, max_size=size)
    return {
        "label": draw(TEXT),
        "x": draw(values),
        "y": draw(values),
        "low": draw(st.none() | values),
        "high": draw(st.none() | values),
        "style": draw(st.sampled_from(get_args(Style))),
        "group": draw(st.none() | TEXT),
    }


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, Any]:
    points, ends = draw(POINTS), draw(POINTS)
    starts, goals = st.integers(0, len(points) - 1), st.integers(0, len(ends) - 1)
    links = draw(listed(st.tuples(starts, goals, NUMBERS).map(list)))
    return {
        "kind": "graph",
        "title": draw(TEXT),
        "points": points,
        "ends": ends,
        "links": links,
        "right": [draw(st.booleans()) for _ in links],
        "points_label": draw(TEXT),
        "ends_label": draw(TEXT),
    }


LABELS: dict[str, Any] = {"title": TEXT, "x_label": TEXT, "y_label": TEXT}
LINES = st.fixed_dictionaries({"label": TEXT, "x": NUMBERS, "y": NUMBERS})
CURVES = st.fixed_dictionaries(
    {
        "kind": st.just("curves"),
        **LABELS,
        "series": listed(series()),
        "x_scale": SCALES,
        "y_scale": SCALES,
        "lines": listed(LINES, 2),
        "ticks": st.none() | listed(TEXT),
    }
)


@st.composite
def matrices(draw: st.DrawFn) -> dict[str, Any]:
    values = draw(listed(listed(NUMBERS)))
    size = {"min_size": len(values), "max_size": len(values)}
    names, numbers = st.lists(TEXT, **size), st.lists(st.integers(0, 99), **size)
    return {
        "kind": "matrix",
        **{name: draw(text) for name, text in LABELS.items()},
        "values": values,
        "low": draw(NUMBERS),
        "high": draw(NUMBERS),
        "label": draw(TEXT),
        "row_names": draw(st.none() | names),
        "row_numbers": draw(st.none() | numbers),
        "words": draw(st.none() | st.tuples(*(words_of(row) for row in values)).map(list)),
    }


def words_of(row: list[Any]) -> st.SearchStrategy[list[str]]:
    return st.lists(TEXT, min_size=len(row), max_size=len(row))


@st.composite
def violins(draw: st.DrawFn) -> dict[str, Any]:
    places = draw(listed(NUMBERS))
    return {
        "kind": "violins",
        **{name: draw(text) for name, text in LABELS.items()},
        "label": draw(TEXT),
        "x": places,
        "values": [draw(listed(NUMBERS)) for _ in places],
        "series": draw(listed(series())),
        "y_scale": draw(SCALES),
    }


FIGURES = st.fixed_dictionaries(
    {
        "name": TEXT,
        "title": TEXT,
        "caption": TEXT,
        "panels": listed(st.one_of(CURVES, matrices(), graphs(), violins()), 2),
    }
)
CELLS = st.one_of(TEXT, FINITE, st.integers(), st.none())


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    columns = draw(listed(TEXT))
    row = st.lists(CELLS, min_size=len(columns), max_size=len(columns))
    return {
        "title": draw(TEXT),
        "columns": columns,
        "rows": draw(listed(row)),
        "note": draw(TEXT),
    }


WORDS: dict[str, Any] = dict.fromkeys(("name", "place"), TEXT)
CLAIMS = st.fixed_dictionaries(
    {
        **WORDS,
        "statement": TEXT,
        "experiment": TEXT,
        "verdict": st.sampled_from(get_args(Verdict)),
        "evidence": TEXT,
        "value": NUMBERS,
        "low": NUMBERS,
        "high": NUMBERS,
        "correction": TEXT,
    }
)
RECORDS = st.fixed_dictionaries(
    {
        "format": st.just(FORMAT),
        **WORDS,
        "title": TEXT,
        "preset": TEXT,
        "tasks": st.integers(0, 99),
        "finished": st.integers(0, 99),
        "seconds": st.floats(0, 1e6),
        "provenance": st.dictionaries(TEXT, TEXT, max_size=2),
        "failed": st.none() | TEXT,
        "paragraphs": listed(TEXT, 2),
        "figures": listed(FIGURES, 1),
        "tables": listed(tables(), 1),
        "claims": listed(CLAIMS, 2),
    }
)


def through_json(plain: dict[str, Any]) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(json.dumps(plain, allow_nan=False))
    return read


@FEW
@given(FIGURES)
def test_a_figure_is_the_same_through_json(plain: dict[str, Any]) -> None:
    figure = figure_from_plain(plain)
    assert figure_to_plain(figure) == plain
    # Compared as text, because nan differs from itself.
    assert repr(figure_from_plain(through_json(figure_to_plain(figure)))) == repr(figure)


@given(tables())
def test_a_table_is_the_same_through_json(plain: dict[str, Any]) -> None:
    table = table_from_plain(plain)
    assert table_to_plain(table) == plain
    assert table_from_plain(through_json(table_to_plain(table))) == table


@given(CLAIMS)
def test_a_claim_is_the_same_through_json(plain: dict[str, Any]) -> None:
    claim = Claim(**plain)
    assert claim.to_plain() == plain
    assert Claim(**through_json(claim.to_plain())) == claim


@FEW
@given(RECORDS)
def test_a_record_is_the_same_from_its_file(plain: dict[str, Any]) -> None:
    record = record_from_plain(plain)
    assert record_to_plain(record) == plain
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.json"
        save_record(record, path)
        assert repr(load_record(path)) == repr(record)
        assert [*path.parent.iterdir()] == [path]


def test_every_kind_of_panel_comes_back_as_itself() -> None:
    line = Series("a", (1.0, 2.0), (math.nan, 1.0), low=(0.5, 0.5), style="paper", group="g")
    panels = (
        Curves("c", "x", "y", (line,), "log", "log", (Line("l", y=1.0),), ("one", "two")),
        Rows("r", "x", "y", ("one", "two"), (line,), "log", (Line("l", x=1.0),)),
        Matrix("m", "x", "y", ((1.0, math.nan),), low=0.0, label="l", row_names=("a",)),
        Violins("v", "x", "y", "inputs", (1.0, 2.0), ((1.0, math.nan), ()), (line,), "log"),
        Graph("g", ((0.0, 1.0),), ((1.0, 0.0),), ((0, 0, 0.5),), (True,)),
    )
    figure = Figure("name", "title", "caption", panels)
    assert repr(figure_from_plain(through_json(figure_to_plain(figure)))) == repr(figure)


def test_a_matrix_that_was_kept_before_shades_had_words_still_loads() -> None:
    kept = {"kind": "matrix", "title": "", "x_label": "", "y_label": "", "values": [[1.0]]}
    plain = {"name": "", "title": "", "caption": "", "panels": [{**kept, "low": None, "high": 1.0}]}
    assert figure_from_plain(plain).panels == (Matrix("", "", "", ((1.0,),), high=1.0),)


def test_the_values_of_a_violin_are_kept_few_without_changing_its_distribution() -> None:
    draws = np.random.default_rng(0).normal(size=5000)
    kept = violin_values(draws.tolist())
    assert len(kept) == 200
    assert (kept[0], kept[-1]) == (draws.min(), draws.max())
    shares = np.linspace(0.05, 0.95, 19)
    assert np.quantile(kept, shares) == pytest.approx(np.quantile(draws, shares), abs=0.01)
    assert violin_values([2.0, math.nan, 1.0, math.inf]) == (1.0, 2.0)


def test_as_many_violins_as_places_and_as_many_names_as_rows() -> None:
    with pytest.raises(ValueError, match="2 violins at 1 places"):
        Violins("v", "", "", "", (1.0,), ((1.0,), (2.0,)))
    with pytest.raises(ValueError, match="1 of 2 names"):
        Matrix("m", "", "", ((1.0,), (2.0,)), row_names=("a",))
    with pytest.raises(ValueError, match="m: words must have the shape of the matrix"):
        Matrix("m", "", "", ((1.0,), (2.0,)), words=(("a",), ("b", "c")))


def test_infinite_values_are_stored_as_nothing() -> None:
    figure = Figure("", "", "", (Matrix("", "", "", ((math.inf, 1.0),)),))
    (panel,) = figure_from_plain(through_json(figure_to_plain(figure))).panels
    assert isinstance(panel, Matrix)
    assert math.isnan(panel.values[0][0])


def test_a_record_of_another_format_is_refused() -> None:
    with pytest.raises(InputError, match="format"):
        record_from_plain({"format": FORMAT + 1})


def test_values_of_unequal_number_are_refused() -> None:
    with pytest.raises(ValueError, match="y has 1 of 2"):
        Series("a", (1.0, 2.0), (1.0,))
    with pytest.raises(ValueError, match="1 of 2 cells"):
        Table("a", ("b", "c"), ((1,),))
