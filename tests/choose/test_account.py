"""What people are told of their data: counts are right, and sentences are whole."""

import numpy as np
import pytest
from made_samples import panel, series

from attnrate.choose.account import of_constants, of_missing, of_size, of_task, of_windows
from attnrate.choose.columns import Table
from attnrate.choose.windows import Windows


def table(values: np.ndarray, targets: int = 1) -> Table:
    names = tuple(f"c{number}" for number in range(values.shape[1]))
    rows = np.arange(len(values))
    return Table(values, names[:targets], names[targets:], None, 0 * rows, ("",), rows)


def test_constant_targets_are_faults_and_constant_covariates_not() -> None:
    values = np.random.default_rng(0).normal(size=(20, 3))
    values[:, 1:] = 7.0
    values[3, 1] = np.nan
    assert of_constants(table(values, 2)) == [
        "the target 'c1' is 7 in all rows: nothing can be learned"
    ]
    assert of_constants(table(values, 1)) == []


def test_missing_values_are_counted_by_column() -> None:
    values = np.zeros((2000, 3))
    values[:1500, 0] = np.nan
    values[5, 2] = np.nan
    assert of_missing(table(values)) == [
        "missing values: 1,500 in 'c0', 1 in 'c2'; none is filled in"
    ]
    assert of_missing(table(np.zeros((3, 1)))) == []


@pytest.mark.parametrize(("rows", "enough"), [(71, False), (72, True)])
def test_eight_windows_that_do_not_overlap_are_enough(rows: int, enough: bool) -> None:
    said = of_size(series(rows=rows, window=8, horizon=1), 1)
    assert (said == []) == enough
    if not enough:
        assert "9 rows fit one after another without overlap only 7 times, and" in said[0]
        assert "which is 72 rows without gaps" in said[0]


@pytest.mark.parametrize(("count", "enough"), [(49, False), (50, True)])
def test_fifty_sequences_are_enough(count: int, enough: bool) -> None:
    said = of_size(panel(count=count), 1)
    assert (said == []) == enough
    if not enough:
        assert said[0].startswith("there are too few data: 49 sequences, and an answer needs at")


def windows(count: int, gaps: int, missing: int) -> Windows:
    return Windows(np.arange(count - gaps - missing), count, gaps, missing)


def test_windows_that_are_left_out_are_counted_with_why() -> None:
    assert of_windows(windows(100, 0, 0)) == []
    assert of_windows(windows(2000, 0, 1200)) == [
        "1,200 of 2,000 windows are left out because of missing values"
    ]
    assert of_windows(windows(100, 5, 7)) == [
        "12 of 100 windows are left out: 5 because they cross a gap in time, "
        "7 because of missing values"
    ]
    (few,) = of_windows(windows(100, 0, 90))
    assert "Only 10.0% are kept, so the answer is about these alone" in few


def test_the_task_is_said_in_a_sentence() -> None:
    values = np.zeros((20, 3))
    one = series(window=1, horizon=1)
    assert of_task(one, table(values[:, :1]), "") == (
        "wanted: the next value of 'c0', from its last 1 row"
    )
    ahead = series(window=8, horizon=3)
    assert of_task(ahead, table(values, 2), " (why)") == (
        "wanted: the next 3 values of 'c0' and 'c1', from their last 8 rows (why) "
        "and those of 1 covariate: 'c2'"
    )
    now = series(window=4, horizon=0)
    assert of_task(now, table(values), "") == (
        "wanted: 'c0' at each row, from that row and those before it, 4 rows in all, "
        "of 2 covariates: 'c1', 'c2'"
    )
    many = table(np.zeros((20, 11)))
    assert of_task(now, many, "").endswith(
        "10 covariates: " + ", ".join(repr(f"c{number}") for number in range(1, 9)) + ", ..."
    )
