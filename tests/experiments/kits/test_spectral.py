"""Sec. 5.1's targets: named by rank, models run over them in parts."""

import torch

from attnrate.experiments.kits.spectral import LONG, Spectral, outputs
from attnrate.theory.compile import compile_target


def test_the_long_sum_stands_for_an_endless_one():
    assert Spectral(1.0, LONG).name == "α = 1, r = ∞"
    assert Spectral(0.55, 6).name == "α = 0.55, r = 6"


def test_outputs_in_parts_are_those_of_the_whole():
    target = Spectral(1.0, 2).build()
    model, x = compile_target(target, 1), target.sample(300, 0)
    with torch.no_grad():
        assert torch.allclose(outputs(model, x), model(x), rtol=0, atol=1e-12)
