"""The construction of Theorem 4.1: below its bound, exact from the rank on, blind to the gauge."""

import pytest

from attnrate.experiments.contract import to_plain
from attnrate.experiments.kits.compiled import Gauge, Theory
from attnrate.experiments.run import run_job


def test_theory_stays_below_its_bound_and_ends_at_the_rank():
    job = Theory(alpha=1.0, rank=2, m_h=(1, 2), sequences=64)
    found = job.run()
    assert run_job(job.settings).items() >= to_plain(found).items()
    first, second = found.rows[1], found.rows[2]
    assert found.m_h == (1, 2)
    assert 0 < first.mse < first.rigorous
    assert 0 < first.l1 < first.rigorous_l1 < first.printed
    assert second.mse < 1e-20


def test_the_gauge_undoes_a_shift_that_softmax_cannot_see():
    found = Gauge(alpha=1.0, rank=6, m_h=3, sequences=256).run()
    assert found.plain_with == pytest.approx(found.plain_without, rel=1e-9)
    assert found.shifted_with == pytest.approx(found.plain_without, rel=1e-6)
    assert found.shifted_without > 1.5 * found.plain_without
