"""The simulation behind `--settle`, in small: its rules do what they say; its promises hold."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

ROOT = Path(__file__).resolve().parents[1]
# behind Python's own folders: there is a profile.py among the benchmarks
sys.path.append(str(ROOT / "benchmarks"))

import settle  # noqa: E402


@pytest.fixture(scope="module")
def rows() -> list[settle.Row]:
    return settle.simulate(5, 6000, seed=3)


def test_the_promises_of_settling_hold_in_small(rows: list[settle.Row]) -> None:
    at_limit = {row.rule: row.wrong for row in rows if row.effect == 0}
    noise = 3 * (0.05 * 0.95 / 6000) ** 0.5
    for rule in ("even", "late", "mixture", "joint", "settle"):
        assert at_limit[rule] <= 0.05 + noise, rule
    assert at_limit["naive"] > 0.05 + noise
    fixed = {row.effect: row for row in rows if row.rule == "fixed"}
    for row in rows:
        if row.rule == "settle" and row.effect:
            assert row.median < fixed[row.effect].median


def test_giving_up_makes_no_verdict_wrong_that_was_not(rows: list[settle.Row]) -> None:
    by = {(row.rule, row.effect): row for row in rows}
    for effect in settle.EFFECTS:
        settled, joint = by["settle", effect], by["joint", effect]
        assert settled.wrong <= joint.wrong
        assert settled.right <= joint.right
        assert settled.mean <= joint.mean


def test_a_fixed_design_has_the_power_that_was_asked_for() -> None:
    seeds = settle.fixed_seeds(0.6, 0.8, 0.05)
    values = np.random.default_rng(0).standard_normal((20_000, seeds)) - 0.6
    share = (stats.ttest_1samp(values, 0.0, axis=1, alternative="less").pvalue < 0.05).mean()
    assert 0.8 - 0.01 < share < 0.83


def test_a_look_with_the_first_observations_alone_is_students_test() -> None:
    values = np.random.default_rng(1).standard_normal((200, 8)) - 0.8
    found = settle.by_levels(values, [8], [0.025], give_up=False)
    chances = stats.ttest_1samp(values, 0.0, axis=1).pvalue
    assert ((found.right | found.wrong) == (chances < 0.05)).all()
    assert (found.seeds == 8).all()
