"""Rotary positions and ALiBi: their logits by hand, their symmetries, and what they refuse."""

import math

import pytest
import torch

from attnrate.errors import InputError
from attnrate.models import RelativeTransformer
from attnrate.models.relative import turned

KINDS = ("rotary", "alibi")


def made(relative: str, m_h: int = 4, seed: int = 0) -> RelativeTransformer:
    torch.manual_seed(seed)
    model = RelativeTransformer(1, 1, n=5, m_h=m_h, m_v=3, width=8, depth=1, relative=relative)
    if relative == "alibi":
        torch.nn.init.constant_(model.slope, 0.3)
    return model.double()


def inputs(*shape: int, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, 1, generator=generator, dtype=torch.float64)


def test_a_pair_of_coordinates_is_turned_by_its_frequency_times_the_position():
    at = turned(torch.tensor([[1.0, 1.0, 0.0, 0.0]]).double().repeat(3, 1))
    for t in range(3):
        slow = t * 10000 ** (-2 / 4)
        expected = [math.cos(t), math.cos(slow), math.sin(t), math.sin(slow)]
        assert at[t].tolist() == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(("t", "s", "seed"), [(0, 0, 0), (3, 1, 1), (1, 3, 2), (30, 0, 3)])
def test_rotary_logits_of_two_tokens_are_products_that_depend_on_their_distance(t, s, seed):
    model, u, v = made("rotary", seed=seed), *inputs(2, seed=seed)
    x = torch.full((1, 31, 1), 0.5).double()
    x[0, t] = u
    x[0, s] = v
    q, k = (W(model.f_hat(x[0, i])) for W, i in ((model.W_Q, t), (model.W_K, s)))
    omega = torch.tensor([1.0, 0.01], dtype=torch.float64)
    # as complex numbers: the real part of q̄ k e^(i ω (s - t))
    joined = torch.complex(q[:2], -q[2:]) * torch.complex(k[:2], k[2:])
    expected = (joined * torch.exp(1j * omega * (s - t))).real.sum()
    torch.testing.assert_close(model.logits(x)[0, t, s], expected, rtol=1e-10, atol=1e-12)


def test_alibi_takes_the_slope_times_the_distance_from_the_product():
    model, x = made("alibi"), inputs(2, 6)
    h = model.f_hat(x)
    product = torch.einsum("bti,bsi->bts", model.W_Q(h), model.W_K(h))
    apart = torch.tensor([[abs(t - s) for s in range(6)] for t in range(6)])
    torch.testing.assert_close(model.logits(x), product - 0.3 * apart)


@pytest.mark.parametrize("relative", KINDS)
def test_a_window_of_a_longer_sequence_has_the_logits_of_a_sequence_of_its_own(relative):
    model, x = made(relative), inputs(2, 9)
    torch.testing.assert_close(model.logits(x)[:, 3:8, 3:8], model.logits(x[:, 3:8]))


@pytest.mark.parametrize("relative", KINDS)
def test_the_output_is_that_of_eq_5_with_these_logits(relative):
    model, x = made(relative), inputs(2, 4)
    logits, values = model.logits(x), model.W_V(model.f_hat(x))
    for b in range(2):
        for t in range(4):
            weights = [math.exp(one) for one in logits[b, t].tolist()]
            mixed = sum(w * v for w, v in zip(weights, values[b], strict=True)) / sum(weights)
            torch.testing.assert_close(model(x)[b, t], model.F_hat(mixed))
    torch.testing.assert_close(model.attention(x).sum(-1), torch.ones(2, 4).double())


def test_a_slope_of_zero_leaves_no_positions():
    model, x = made("alibi"), inputs(3, 5)
    torch.nn.init.zeros_(model.slope)
    p = [3, 0, 4, 1, 2]
    torch.testing.assert_close(model(x[:, p]), model(x)[:, p])


def test_the_slope_is_trained_and_starts_at_that_of_a_single_head():
    model = RelativeTransformer(1, 1, n=4, m_h=2, m_v=2, width=8, depth=1, relative="alibi")
    assert model.slope.item() == 2**-8
    model(inputs(2, 4).float()).sum().backward()
    assert model.slope.grad.abs().item() > 0
    rotary = RelativeTransformer(1, 1, n=4, m_h=2, m_v=2, width=8, depth=1)
    assert model.parameter_count() == rotary.parameter_count() + 1


def test_an_odd_head_cannot_be_turned():
    with pytest.raises(InputError, match=r"m_h must be even.*Pass m_h=4") as caught:
        RelativeTransformer(1, 1, m_h=3)
    assert caught.value.value == 3
    RelativeTransformer(1, 1, m_h=3, relative="alibi")


@pytest.mark.parametrize("relative", ["shift", None, 1])
def test_other_kinds_are_refused_with_the_list(relative):
    with pytest.raises(InputError, match="'rotary', 'alibi'"):
        RelativeTransformer(1, 1, relative=relative)


def test_inputs_of_another_shape_are_refused():
    with pytest.raises(InputError, match="inputs must have shape"):
        made("rotary")(torch.zeros(2, 3, 2))
