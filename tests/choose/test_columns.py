"""Columns: recognised by name, refused with their name, row and value."""

import numpy as np
import pandas as pd
import pytest

from attnrate.choose.cells import numbers
from attnrate.choose.columns import Roles, plain, roles
from attnrate.choose.data import from_frame
from attnrate.errors import InputError


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["unique_id", "ds", "y", "a"], Roles(("y",), ("a",), "ds", "unique_id")),
        (["Item_ID", "Timestamp", "TARGET"], Roles(("TARGET",), (), "Timestamp", "Item_ID")),
        (["a", "target"], Roles(("target",), ("a",), None, None)),
        (["datetime", "y", "date2"], Roles(("y",), ("date2",), "datetime", None)),
    ],
)
def test_columns_are_recognised_by_names_in_common_use(names: list[str], found: Roles) -> None:
    assert roles(names) == found


def test_what_is_given_goes_before_what_is_recognised() -> None:
    given = roles(["ds", "time", "y", "b", "unique_id"], ["b"], "time", "ds", ["y"])
    assert given == Roles(("b",), ("unique_id",), "time", "ds")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"target": "lod"},
            "target names a column that is not there: got 'lod'. Did you mean 'load'",
        ),
        ({"target": []}, "target names no column"),
        ({"target": ["load", "load"]}, "target names a column twice"),
        ({"target": "load", "time": "tim"}, "time names a column that is not there"),
        ({"target": "load", "id": "no"}, "id names a column that is not there"),
        ({"target": "load", "time": "load"}, "the target cannot be the time too"),
        ({"target": "load", "time": "a", "id": "a"}, "time and id name the same column"),
        ({"target": "load", "ignore": ["z"]}, "ignore names a column that is not there"),
        ({"target": "load", "ignore": ["load"]}, "is among those to ignore"),
        ({}, "no column is named 'y' or 'target'"),
    ],
)
def test_a_column_that_is_not_there_is_refused(
    arguments: dict[str, str | list[str]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        roles(["a", "load"], **arguments)  # type: ignore[arg-type]


def test_two_columns_that_could_be_the_time_are_not_guessed() -> None:
    with pytest.raises(InputError, match=r"several columns could be the time: \['date', 'time'\]"):
        roles(["date", "time", "y"])
    assert roles(["date", "time", "y"], time="date").covariates == ("time",)


def test_an_index_of_times_and_of_series_becomes_columns() -> None:
    frame = pd.DataFrame({"y": range(4)}, index=pd.date_range("2024", periods=4))
    found, clock = plain(frame, None, None)
    assert (list(found.columns), clock) == (["index", "y"], "index")
    levels = pd.MultiIndex.from_product(
        [["a", "b"], pd.period_range("2024", periods=2, freq="M")], names=["item_id", "timestamp"]
    )
    found, clock = plain(frame.set_axis(levels), None, None)
    assert (list(found.columns), clock) == (["item_id", "timestamp", "y"], "timestamp")
    assert plain(frame.reset_index(drop=True), None, None)[1] is None


def test_names_of_any_kind_work() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 4)), columns=[0, "a b, c", "Ω\n\"'", ""])
    assert from_frame(frame, 0, 1, 4).samples.inputs == ("0", "a b, c", "Ω\n\"'", "")


def test_columns_of_the_same_name_or_of_several_levels_are_refused() -> None:
    with pytest.raises(InputError, match="two columns have the same name: got 'y'"):
        plain(pd.DataFrame([[1, 2]], columns=["y", "y"]), None, None)
    levels = pd.MultiIndex.from_tuples([("a", "b")])
    with pytest.raises(InputError, match="names of several levels"):
        plain(pd.DataFrame([[1]], columns=levels), None, None)


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        ([True, False, None], [1, 0, np.nan]),
        (["true", "FALSE", " "], [1, 0, np.nan]),
        (["1", " 2.5 ", ""], [1, 2.5, np.nan]),
        (["1e3", "nan", None], [1000, np.nan, np.nan]),
    ],
)
def test_cells_become_numbers(cells: list[object], values: list[float]) -> None:
    np.testing.assert_array_equal(numbers("a", pd.Series(cells, dtype=object)), values)


@pytest.mark.parametrize("kind", ["Int64", "Float64", "boolean"])
def test_the_nullable_types_of_pandas_become_numbers(kind: str) -> None:
    cells = pd.Series([1, None, 0], dtype=kind)
    np.testing.assert_array_equal(numbers("a", cells), [1, np.nan, 0])


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (
            [*range(17), "n/a", 3, "?"],
            r"column 'load' has text in row 17 \(the first is 0\): 'n/a'; 2 cells do\. .*"
            r"leave it out: ignore=\['load'\] \(--ignore load\)",
        ),
        ([1, 2, "1,234"], "has text in row 2 .*'1,234'; no other cell does"),
        (["Oslo", "Bergen"], r"holds text, such as 'Oslo' in row 0 .*id='load' \(--id load\)"),
        (["2024-01-01 00:00", "2024-01-01 01:00"], "pass time='load'"),
        ([1.0, np.inf, -np.inf], "has 2 infinite values; the first, in row 1 .*, is inf"),
        ([1j, 2j], "holds complex numbers"),
        ([[1], [2]], "holds text, such as"),
        ([pd.Timestamp("2024")] * 2, "holds times"),
        ([pd.Timedelta(hours=1)] * 2, r"holds durations.*total_seconds\(\)"),
    ],
)
def test_cells_that_are_no_numbers_are_refused(cells: list[object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        numbers("load", pd.Series(cells))


def test_a_target_that_is_text_is_refused_without_the_advice_to_leave_it_out() -> None:
    with pytest.raises(InputError, match="the target 'y' holds text") as caught:
        numbers("y", pd.Series(["a"]), "target")
    assert "ignore" not in caught.value.remedy


def test_a_row_without_the_name_of_its_series_is_refused() -> None:
    frame = pd.DataFrame({"unique_id": ["a", None], "y": [1.0, 2.0]})
    with pytest.raises(InputError, match="'unique_id', which names the series, is empty in row 1"):
        from_frame(frame)
