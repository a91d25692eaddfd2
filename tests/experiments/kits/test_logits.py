"""Logits of training and of the POD: errors as the spectrum gives them, kept by a worker."""

import json
from dataclasses import astuple

import pytest
import torch

from attnrate.experiments.kits.logits import Coupling, logit_errors
from attnrate.experiments.run import run_job
from attnrate.targets import spectral_target
from attnrate.theory.compile import compile_target


def test_compiled_logits_have_the_errors_that_the_spectrum_gives():
    target = spectral_target(1.0, 6)
    found = logit_errors(target, compile_target(target, 4))
    rest = torch.tensor([1 / 5, 1 / 6], dtype=torch.float64)
    assert found.pairs == pytest.approx(float(rest.square().sum()), rel=1e-9)
    # 2 sin² 2πkx = 1 - cos 4πkx
    diagonal = rest.sum() ** 2 + rest.square().sum() / 2
    assert found.diagonal == pytest.approx(float(diagonal), rel=1e-9)
    assert found.weights > 0
    exact = logit_errors(target, compile_target(target, 6))
    assert max(astuple(exact)) < 1e-20


def test_a_fit_of_the_coupling_tells_its_logits():
    recipe = {"name": "strong", "steps": 2, "batch": 8}
    job = Coupling(alpha=0.55, rank=2, m_h=1, recipe=recipe)
    found = run_job(job.settings)
    assert found["steps"] == 2
    assert found["error"] > 0
    assert found["trained_pairs"] > found["pod_pairs"] > 0
    json.dumps(found, allow_nan=False)
