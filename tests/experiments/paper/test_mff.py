"""The second term: its jobs build, its work measures the networks, its verdicts go both ways."""

import math
from dataclasses import replace
from functools import partial

import conclusions
import pytest
from conclusions import fitted

from attnrate.experiments.contract import Done, Fit, to_plain
from attnrate.experiments.kits.spectral import Tried
from attnrate.experiments.paper import mff
from attnrate.experiments.paper.mff import (
    Compiled,
    CompiledOutcome,
    Split,
    SplitOutcome,
    needed,
    unit_slope,
)
from attnrate.experiments.run import run_job
from attnrate.fitting.build import complete

concluded = partial(conclusions.concluded, mff.EXPERIMENT)
SIZES = (1, 2, 4, 8, 16)


def compiled(target, m_h, beta=2.0, growth=1.0, bound=3.0, error=-0.5):
    """An error exact + c (m_h^growth / m_ff)^(2 beta), and a printed term m_h^bound / m_ff^beta."""
    exact = m_h**error
    networks = tuple(exact * (4 * m_h**growth / m_ff) ** (2 * beta) for m_ff in mff.UNITS)
    outcome = CompiledOutcome(
        m_ff=mff.UNITS,
        exact=exact,
        networks=networks,
        total=tuple(exact + e for e in networks),
        rigorous=tuple(100 * m_h**bound * m_ff**-4.0 for m_ff in mff.UNITS),
        printed=tuple(1e4 * m_h ** (2 * bound) * m_ff**-2.0 for m_ff in mff.UNITS),
    )
    job = Compiled(alpha=target.alpha, rank=target.rank, m_h=m_h, m_ff=mff.UNITS, sequences=1)
    return Done(job, outcome)


def everything(**changes):
    done = [compiled(t, m_h, **changes) for t in mff.TARGETS for m_h in SIZES]
    for t in mff.TARGETS:
        split = SplitOutcome((1, 2, 3), (1, 2, 4), (10, 20, 40), (3.0, 2.0, 1.0))
        done.append(Done(Split(alpha=t.alpha, rank=t.rank, parameters=(1, 2, 3)), split))
    for width in (8, 16, 32):
        for seed in (0, 1):
            done.append(
                fitted(Tried("trained", mff.TRAINED, width, seed), (1 + 0.1 * seed) / width)
            )
    return done


def verdicts(done):
    return {c.name.removeprefix("mff-"): c.verdict for c in concluded(done).claims}


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_every_job_builds_once(preset):
    jobs = [one.job for one in mff.plan(preset)]
    assert len({job.key for job in jobs}) == len(jobs)
    complete([job.trial for job in jobs if isinstance(job, Fit)])


def test_what_is_made_up_is_found():
    made = compiled(mff.TARGETS[0], 4, growth=1.5)
    values = made.outcome
    assert unit_slope(made).value == pytest.approx(-4.0)
    # exact (1 + (4 · 8 / m_ff)^4) is within 10 % from m_ff = 32 · 10^(1/4)
    assert needed(values) == pytest.approx(32 * 10**0.25, rel=0.02)

    def needed_for(total):
        return needed(replace(values, total=(total,) * len(mff.UNITS)))

    assert needed_for(1.0) != needed(values)
    assert math.isnan(needed_for(9.0))
    assert needed_for(values.exact) == mff.UNITS[0]


def test_verdicts_go_both_ways():
    found = verdicts(everything(bound=1.5))
    assert found == {
        "rate": "holds",
        "must-grow": "holds",
        "condition": "holds",
        "bound-not-error": "holds",
    }
    # the printed term asks for m_ff = m_h^3, the error for m_ff = m_h
    assert verdicts(everything(bound=3.0))["condition"] == "holds when corrected"
    # that the error asks for more than the bound does not make the bound's condition wrong
    assert verdicts(everything(bound=1.5, growth=2.0))["condition"] == "holds"
    assert verdicts(everything(beta=1.0))["rate"] == "does not hold"
    assert verdicts(everything(growth=0.0))["must-grow"] == "does not hold"
    assert verdicts(everything(bound=-1.0))["bound-not-error"] == "does not hold"


def test_needs_that_scatter_leave_it_open_whether_they_grow():
    scattered = [
        compiled(target, m_h, growth=2.0 if m_h == 2 else 0.0)
        for target in mff.TARGETS
        for m_h in SIZES
    ]
    assert verdicts(scattered)["must-grow"] == "open"


def test_the_trained_and_the_split_are_told_with_their_numbers():
    said = concluded(everything())
    assert "width 8 and 32" in said.paragraphs[1]
    assert "-1 [" in said.paragraphs[1]
    assert "the exponent is: α = 1, r = ∞: 1 [1, 1]" in said.paragraphs[0]


def test_missing_results_leave_claims_open():
    assert set(verdicts([]).values()) == {"open"}
    few = [one for one in everything() if isinstance(one.job, Compiled) and one.job.m_h == 1]
    assert verdicts(few)["must-grow"] == "open"


def test_compiled_networks_converge_with_their_rate():
    job = Compiled(alpha=1.0, rank=2, m_h=2, m_ff=(32, 64, 128), sequences=64)
    found = job.run()
    assert run_job(job.settings).items() >= to_plain(found).items()
    assert found.exact < 1e-20
    assert found.total == pytest.approx(found.networks)
    assert all(b > e for b, e in zip(found.rigorous, found.networks, strict=True))
    # piecewise-linear interpolation: a fourth of the error, squared
    for coarse, fine in zip(found.networks, found.networks[1:], strict=False):
        assert coarse / fine == pytest.approx(16, rel=0.1)
    assert found.printed[0] / found.printed[1] == pytest.approx(4)


def test_splits_spend_what_they_are_given():
    found = Split(alpha=1.0, rank=16, parameters=(100, 1000)).run()
    assert found.m_h[0] < found.m_h[1]
    assert found.m_ff[0] < found.m_ff[1]
    assert found.root_bound[0] > found.root_bound[1]
