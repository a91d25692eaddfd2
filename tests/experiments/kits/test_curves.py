"""Fig. 1's work: the construction below its bound and blind to the gauge, logits and the POD's."""

import json

import pytest
import torch

from attnrate.experiments.contract import to_plain
from attnrate.experiments.kits.curves import Coupling, Gauge, Theory, logit_errors
from attnrate.experiments.run import run_job
from attnrate.targets import spectral_target
from attnrate.theory.compile import compile_target


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


def test_compiled_logits_have_the_errors_that_the_spectrum_gives():
    target = spectral_target(1.0, 6)
    found = logit_errors(target, compile_target(target, 4))
    rest = torch.tensor([1 / 5, 1 / 6], dtype=torch.float64)
    assert found["pairs"] == pytest.approx(float(rest.square().sum()), rel=1e-9)
    # 2 sin² 2πkx = 1 - cos 4πkx
    diagonal = rest.sum() ** 2 + rest.square().sum() / 2
    assert found["diagonal"] == pytest.approx(float(diagonal), rel=1e-9)
    assert found["weights"] > 0
    exact = logit_errors(target, compile_target(target, 6))
    assert max(exact.values()) < 1e-20


def test_a_fit_of_the_coupling_tells_its_logits():
    recipe = {"name": "strong", "steps": 2, "batch": 8}
    job = Coupling(alpha=0.55, rank=2, m_h=1, recipe=recipe)
    found = run_job(job.settings)
    assert found["steps"] == 2
    assert found["error"] > 0
    assert found["trained_pairs"] > found["pod_pairs"] > 0
    json.dumps(found, allow_nan=False)
