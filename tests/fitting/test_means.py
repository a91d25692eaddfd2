"""The table of a sweep: means by hand, what varies, and text that fits the terminal."""

import copy
import math
import pickle
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.fitting.means import MOST_ROWS, combinations, means_frame, text_of, varying
from attnrate.fitting.records import Failed, Finished
from attnrate.fitting.result import SweepResult
from attnrate.fitting.table import flat, trials_frame
from attnrate.statistics import geometric_mean


def row(error: float | None, seed: int = 0, **settings: Any) -> Finished:
    """A finished fit; settings as model__m_h=2 for {"model": {"m_h": 2}}."""
    nested: dict[str, Any] = {"seed": seed, "recipe": {"steps": 5}}
    for name, value in settings.items():
        part, _, last = name.partition("__")
        nested.setdefault(part, {})[last] = value
    result = {"error": error, "diverged": error is None, "torch": "2"}
    return Finished(f"{seed}{settings}{error}", nested, result, 1.0, "here", "now")


ROWS = [
    row(error * size, seed, model__m_h=size, target__alpha=alpha)
    for size in (1, 2)
    for alpha in (0.5, 1.0)
    for seed, error in enumerate((0.1, 0.2, 0.4))
]


def result(rows: list[Finished]) -> SweepResult:
    return SweepResult(tuple(rows), (), len(rows), 1.0, Path("s.sqlite"))


def test_the_mean_of_a_combination_is_the_geometric_mean_over_its_seeds() -> None:
    found = result(ROWS).means()
    assert found.columns.to_list() == [
        *("error", "low", "high", "fits", "diverged", "model.m_h", "target.alpha")
    ]
    assert found["model.m_h"].to_list() == [1, 1, 2, 2]
    by_hand = geometric_mean([0.1, 0.2, 0.4])
    assert found["error"].to_list() == pytest.approx([0.2, 0.2, 0.4, 0.4])
    assert (found["low"][0], found["high"][0]) == pytest.approx((by_hand.low, by_hand.high))
    assert found["fits"].to_list() == [3] * 4


def test_fits_that_diverged_are_counted_and_do_not_enter_the_mean() -> None:
    rows = [row(0.1, 0, model__m_h=1), row(None, 1, model__m_h=1), row(None, 0, model__m_h=2)]
    one, two = combinations(rows)
    assert (one.error.value, one.error.count, one.diverged) == (pytest.approx(0.1), 1, 1)
    assert not two.error.known
    text = str(result(rows))
    assert text.splitlines()[-1].split() == ["diverged", "2", "0", "1"]
    assert "nan" not in text
    assert "not run" not in text


def test_a_frame_has_the_error_first_then_what_varies_then_the_seed() -> None:
    table = trials_frame(ROWS)
    assert table.columns[:4].to_list() == ["error", "model.m_h", "target.alpha", "seed"]
    assert len(table) == len(ROWS)
    assert {"recipe.steps", "torch", "worker", "finished"} <= {*table.columns}


def test_settings_that_only_some_kinds_have_do_not_vary_by_that_alone() -> None:
    rows = [
        row(0.1, model__kind="transformer", model__m_h=4),
        row(0.2, model__kind="gru", model__hidden=8),
    ]
    assert varying([flat(one.settings) for one in rows]) == ["model.kind"]


def test_what_follows_from_the_name_of_a_recipe_is_left_out_and_other_changes_are_not() -> None:
    def settings(name: str, lr: float, steps: int) -> dict[str, Any]:
        return {"recipe.name": name, "recipe.lr": lr, "recipe.steps": steps, "seed": 0}

    two = [settings("paper", 1e-3, 10), settings("strong", 1e-2, 20)]
    assert varying(two) == ["recipe.name"]
    assert varying([*two, settings("strong", 1e-2, 40)]) == ["recipe.name", "recipe.steps"]


def test_a_setting_that_is_there_or_not_sets_trials_apart() -> None:
    rows = [row(0.1, target__alpha=1.0), row(0.9, target__alpha=1.0, target__permute="[1, 0]")]
    assert varying([flat(one.settings) for one in rows]) == ["target.permute"]
    assert len(combinations(rows)) == 2


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["a.x", "a.kind", "b.y", "b.z", "c"]), st.integers(0, 2)),
        min_size=1,
        max_size=8,
    )
)
def test_trials_that_differ_in_more_than_the_seed_are_never_averaged(
    settings: list[dict[str, Any]],
) -> None:
    names = varying([{**one, "seed": n} for n, one in enumerate(settings)])
    assert "seed" not in names
    whole = {tuple(sorted(one.items())) for one in settings}
    shown = {tuple(one.get(name) for name in names) for one in settings}
    assert len(shown) == len(whole)


@pytest.mark.parametrize("width", [30, 60, 80, 200])
@pytest.mark.parametrize("rows", [ROWS, ROWS[:1], ROWS[::3]])
def test_the_text_fits_the_terminal_and_loses_nothing(width: int, rows: list[Finished]) -> None:
    found = combinations(rows)
    text = text_of(found, width)
    assert max(map(len, text.splitlines())) <= width
    words = text.replace(",", " ").split()
    for one in found:
        assert f"{one.error.value:.3g}" in words
        assert all(f"{value:g}" in words for value in one.settings.values())


def test_at_80_columns_a_row_is_a_line_and_long_tables_are_cut() -> None:
    head, *lines = text_of(combinations(ROWS), 80).splitlines()
    assert head.split() == ["error", "95", "%", "interval", "m_h", "alpha", "fits"]
    assert len(lines) == 4
    many = [row(0.1, model__m_h=size) for size in range(MOST_ROWS + 5)]
    assert text_of(combinations(many), 80).splitlines()[-1] == "… 5 more: .means()"


def test_names_that_end_alike_are_written_whole() -> None:
    rows = [row(0.1, model__length=size, target__length=2 * size) for size in (1, 2)]
    assert "model.length  target.length" in text_of(combinations(rows), 80)


def test_a_setting_varies_though_only_one_of_its_values_is_finished() -> None:
    good, bad = row(0.4, target__a=1.0), row(0.4, target__a=2.0)
    failed = Failed(bad.key, bad.settings, "Traceback\nRuntimeError: boom\n", 1, "here", "now")
    found = SweepResult((good,), (failed,), 1, 1.0, Path("s.sqlite"))
    assert found.means()["target.a"].to_list() == [1.0]
    lines = str(found).splitlines()
    assert lines[1] == (
        "1 failed and will be retried; the first, with target.a = 2.0, seed = 0: RuntimeError: boom"
    )
    assert lines[2].split() == ["error", "a", "fits"]


def test_rows_of_a_store_show_themselves_in_one_line() -> None:
    settings = {"target": {"kind": "linear"}, "model": {"kind": "gru"}, "seed": 3}
    named = "trial 01234567 (target linear, model gru, seed 3)"

    def shown(result: dict[str, Any]) -> str:
        return repr(Finished("0123456789", settings, result, 1.5, "here", "now"))

    assert shown({"error": 0.25, "diverged": False}) == f"{named}: error 0.25, 1.5 s"
    assert shown({"error": None, "diverged": True}) == f"{named}: diverged, 1.5 s"
    assert shown({"square": 9}) == f"{named}: 1.5 s"
    failed = Failed("0123456789", settings, "Traceback\n  File\nValueError: no\n", 1, "", "")
    assert repr(failed) == f"{named} failed: ValueError: no"


def test_work_without_errors_has_no_table() -> None:
    rows = [Finished("k", {"number": 3, "seed": 0}, {"square": 9}, 1.0, "here", "now")]
    found = result(rows)
    assert len(found.means()) == 0
    assert str(found).count("\n") == 0
    assert "<table" not in found._repr_html_()
    assert trials_frame(rows)["square"].to_list() == [9]
    with pytest.raises(InputError, match=r"nothing to plot: 0 trials are finished .*\.failed"):
        found.plot()
    assert means_frame([]).columns.to_list() == ["error", "low", "high", "fits", "diverged"]


def test_a_result_shows_its_means_once_in_a_notebook_with_a_figure() -> None:
    html = result(ROWS)._repr_html_()
    assert html.count("<table") == html.count("<img") == 1
    assert "95 % interval" not in html.partition("</pre>")[0]


def test_a_figure_has_a_curve_for_each_value_of_what_is_not_on_its_axis() -> None:
    (axes,) = result(ROWS).plot().axes
    assert axes.get_xlabel() == "model.m_h"
    assert axes.get_yscale() == "log"
    (other,) = result(ROWS).plot("target.alpha").axes
    assert other.get_xlabel() == "target.alpha"
    with pytest.raises(InputError, match="does not vary"):
        result(ROWS).plot("model.n")


def test_words_are_categories_on_the_axis() -> None:
    rows = [row(0.1, model__kind="gru"), row(0.2, model__kind="transformer")]
    (axes,) = result(rows).plot().axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["gru", "transformer"]


def test_a_result_can_be_copied_and_pickled() -> None:
    found = result(ROWS)
    assert pickle.loads(pickle.dumps(found)) == copy.deepcopy(found) == found  # noqa: S301


def test_the_summary_for_machines_has_the_means() -> None:
    (first, *_) = result([*ROWS, row(None, model__m_h=9)]).summary["means"]
    assert first["settings"] == {"model.m_h": 1, "target.alpha": 0.5}
    assert first["error"] == pytest.approx(0.2)
    last = result([row(None)]).summary["means"][-1]
    assert (last["error"], last["diverged"]) == (None, 1)


def test_an_exported_table_begins_with_the_error(tmp_path: Path) -> None:
    table = pd.read_csv(result(ROWS).export(tmp_path / "t.csv"))
    assert table.columns[0] == "error"
    assert not math.isnan(table["error"][0])
