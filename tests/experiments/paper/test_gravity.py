"""Gravity: verdicts go both ways; attention permutes with the bodies without an encoding only."""

import pytest
from map_experiments import changed, concluded, verdicts, worked


def test_verdicts_go_both_ways():
    good = changed(worked("gravity"), rows={"mae": 0.01}, error=1e-4)
    good = changed(good, "permuted", error=1.5e-4)
    assert set(verdicts("gravity", good).values()) == {"holds"}
    bad = changed(good, "permuted", error=1e-2)
    bad = changed(bad, "plain", rows={"mae": 0.1}, equivariance=0.1)
    assert set(verdicts("gravity", bad).values()) == {"does not hold"}
    order = {claim.name: claim for claim in concluded("gravity", bad).claims}["gravity-order"]
    assert order.value == pytest.approx(100.0)


def test_trained_attention_permutes_with_the_bodies_only_without_encoding():
    gaps = {one.job.case: one.outcome.equivariance for one in worked("gravity")}
    assert gaps["plain"] < 1e-12
    assert gaps["encoded"] > 1e-6
