"""Targets between graph and temporal: unit variance, affine in λ, floors as in closed form."""

import pytest
import torch

from attnrate.experiments.kits.blend import VARIANTS, PastAttention, blend, causal_floor, variance
from attnrate.targets import linear_target, spectral_target, swap_ends


@pytest.mark.parametrize("variant", VARIANTS)
def test_both_parts_have_unit_variance(variant):
    assert variance(blend(0.0, variant)) == pytest.approx(1.0, abs=0.02)
    assert variance(blend(1.0, variant)) == pytest.approx(1.0, abs=0.02)


def test_a_blend_is_affine_in_its_share():
    x = blend(0.0, "as it is").sample(3, 1)
    graph, temporal, middle = (blend(share, "as it is")(x) for share in (0.0, 1.0, 0.25))
    assert torch.allclose(middle, 0.75 * graph + 0.25 * temporal)


def test_the_ends_are_the_papers_targets_but_for_mean_and_scale():
    x = blend(0.0, "as it is").sample(50, 1)
    for share, part in ((0.0, spectral_target(1.0, 2)), (1.0, linear_target("exponential", 16))):
        pairs = torch.stack([blend(share, "as it is")(x).flatten(), part(x).flatten()])
        assert float(torch.corrcoef(pairs)[0, 1]) == pytest.approx(1.0)


def test_past_attention_is_the_target_of_the_shorter_sequence():
    target = PastAttention(spectral_target(1.0, 2, 6))
    x = target.sample(4, 0)
    for t in range(6):
        shorter = spectral_target(1.0, 2, t + 1)
        assert torch.allclose(target(x)[:, t], shorter(x[:, : t + 1])[:, t])


def test_the_permuted_blend_gives_the_same_outputs_for_the_permuted_inputs():
    plain, permuted = (blend(0.3, variant) for variant in ("as it is", "permuted"))
    x = plain.sample(4, 0)
    assert torch.allclose(permuted(x[:, swap_ends(16, 5)]), plain(x))


def test_the_floor_of_causal_targets_is_zero():
    assert causal_floor(blend(1.0, "as it is")) == (0.0, 0.0)
    assert causal_floor(blend(0.4, "causal"))[0] == pytest.approx(0.0, abs=1e-28)


def test_the_floor_of_a_permuted_linear_target_is_the_closed_form():
    target = linear_target("exponential", 16).permuted(swap_ends(16, 5))
    value, error = causal_floor(target)
    assert abs(value - target.floor("causal")) < 5 * error
