"""Planning: steps fit into the minutes, by the same number on each machine."""

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_samples import panel, series

from attnrate.choose.contender import Shape, contender, contenders
from attnrate.choose.jobs import training_seconds
from attnrate.choose.planning import BATCH, LEAST, MOST, PARAMETERS, head_sizes, planned_steps

SERIES, PANEL = series(rows=60), panel(count=10)


def test_more_minutes_never_give_fewer_steps_within_the_bounds() -> None:
    found = [planned_steps(SERIES, minutes) for minutes in (1e-6, 0.6, 2.0, 1e6)]
    assert found == sorted(found)
    assert found[0] == LEAST == 100
    assert found[-1] == MOST == 3000
    assert LEAST < found[1] < found[2] < MOST


@pytest.mark.parametrize("samples", [SERIES, PANEL], ids=["series", "panel"])
def test_the_planned_steps_take_the_minutes_by_the_model_of_costs(samples) -> None:
    shape, seeds, folds = Shape.of(samples), 2, 4
    steps = planned_steps(samples, 2.0, seeds, folds, heads=False)
    assert LEAST < steps < MOST
    total = 0.0
    for kind in contenders().values():
        if not kind.solved:
            count = kind.parameters(shape, kind.size(shape, PARAMETERS))
            total += training_seconds(kind.name, shape, count, steps, BATCH)
    # two cores, and a quarter more for watching and judging
    assert total * seeds * folds * 1.25 / 2 / 60 == pytest.approx(2.0, rel=1 / steps)


def test_heads_seeds_and_folds_take_of_the_time() -> None:
    alone = planned_steps(SERIES, 2.0, heads=False)
    assert LEAST < planned_steps(SERIES, 2.0) < alone < MOST
    assert planned_steps(SERIES, 2.0, seeds=6, heads=False) == pytest.approx(alone / 2, abs=1)
    assert planned_steps(SERIES, 2.0, folds=6, heads=False) == pytest.approx(alone / 2, abs=1)


def test_no_clock_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = planned_steps(SERIES, 2.0)

    def stopped() -> float:
        raise AssertionError("a clock was read")

    for name in ("time", "perf_counter", "process_time", "monotonic"):
        monkeypatch.setattr(time, name, stopped)
    assert planned_steps(SERIES, 2.0) == wanted


@given(st.integers(1, 300))
def test_head_sizes_double_up_to_the_largest(largest: int) -> None:
    found = head_sizes(largest)
    assert found[0] == 1
    assert found[-1] == largest
    assert all(one < two <= 2 * one for one, two in itertools.pairwise(found))


def test_the_transformer_has_heads_to_try() -> None:
    assert (contender("transformer").m_h or 0) > 1
