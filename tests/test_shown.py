"""Results show themselves: short text for a terminal, text, table and figure for a notebook."""

import base64
import copy
import pickle
import re
from dataclasses import dataclass

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from attnrate.figures.drawing import Drawing
from attnrate.shown import Shown

PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True, repr=False)
class Weighed(Shown):
    """A result with a table of its numbers and, if wanted, a figure."""

    text: str
    numbers: tuple[float, ...] = ()
    drawn: bool = False

    def __str__(self) -> str:
        return self.text

    def _table(self) -> pd.DataFrame | None:
        return pd.DataFrame({"number": self.numbers}) if self.numbers else None

    def _figure(self) -> Drawing | None:
        if not self.drawn:
            return None
        figure = Drawing(figsize=(2, 1))
        figure.subplots().plot(self.numbers)
        return figure


def test_repr_is_the_text() -> None:
    assert repr(Weighed("3 kg")) == "3 kg"
    assert repr([Weighed("3 kg")]) == "[3 kg]"


@given(st.text())
def test_a_notebook_shows_any_text_escaped(text: str) -> None:
    shown = Weighed(text)._repr_html_()
    assert "<script" not in shown.lower()
    assert set(re.findall(r"</?(\w+)", shown)) == {"pre"}


def test_a_notebook_shows_the_first_rows_and_how_to_see_the_others() -> None:
    assert Weighed("", tuple(range(10)))._repr_html_().count("<tr") == 11
    long = Weighed("", tuple(range(13)))._repr_html_()
    assert long.count("<tr") == 11
    assert "3 more rows: .to_frame()" in long
    assert "12" not in re.findall(r"<td>(\d+)</td>", long)


def test_a_notebook_shows_the_figure_as_a_picture() -> None:
    shown = Weighed("", (1.0, 2.0), drawn=True)._repr_html_()
    (data,) = re.findall(r'src="data:image/png;base64,([^"]+)"', shown)
    assert base64.b64decode(data).startswith(PNG)
    assert Drawing(figsize=(2, 1))._repr_png_().startswith(PNG)


def test_a_result_without_table_and_figure_is_its_text() -> None:
    assert Weighed("a < b")._repr_html_() == "<pre>a &lt; b</pre>"


def test_results_are_copied_and_pickled() -> None:
    one = Weighed("3 kg", (1.0,))
    for other in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):  # noqa: S301
        assert other == one


def test_rows_have_numbers_only_where_their_index_has_a_name() -> None:
    plain = Weighed("", (7.0, 8.0))
    assert re.findall(r"<th>(\w*)</th>", plain._repr_html_()) == ["number"]

    class Named(Weighed):
        def _table(self) -> pd.DataFrame:
            return pd.DataFrame({"number": self.numbers}, pd.RangeIndex(1, 3, name="k"))

    assert re.findall(r"<th>(\w*)</th>", Named("", (7.0, 8.0))._repr_html_())[-2:] == ["1", "2"]
