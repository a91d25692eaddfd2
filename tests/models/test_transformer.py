"""Eq. 5 as a module: its values by an explicit loop, its symmetries, its rank, wrong requests."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.models import Transformer
from attnrate.targets import spectral_target
from attnrate.theory.compile import compile_target
from attnrate.theory.pod import pod

SIZES = ("d", "out", "n", "m_h", "m_v", "width", "depth")


def small(d: int = 2, out: int = 3, m_h: int = 4, seed: int = 0) -> Transformer:
    torch.manual_seed(seed)
    return Transformer(d, out, n=6, m_h=m_h, m_v=5, width=8, depth=2).double()


def inputs(n: int = 3, length: int = 5, d: int = 2, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(n, length, d, generator=generator, dtype=torch.float64)


def eq5(model: Transformer, x: np.ndarray) -> np.ndarray:
    """Eq. 5 for one sequence, a sum at a time, from the weights alone."""

    def network(layers: torch.nn.Module, value: np.ndarray) -> np.ndarray:
        linear = [layer for layer in layers if isinstance(layer, torch.nn.Linear)]
        for i, layer in enumerate(linear):
            value = layer.weight.detach().numpy() @ value + layer.bias.detach().numpy()
            if i + 1 < len(linear):
                value = np.maximum(value, 0)
        return value

    W_Q, W_K, W_V = (w.weight.detach().numpy() for w in (model.W_Q, model.W_K, model.W_V))
    h = [network(model.f_hat, token) for token in x]
    outputs = []
    for t in range(len(x)):
        weights = [math.exp((W_Q @ h[t]) @ (W_K @ h[s])) for s in range(len(x))]
        mean = sum(weights[s] / sum(weights) * (W_V @ h[s]) for s in range(len(x)))
        outputs.append(network(model.F_hat, mean))
    return np.array(outputs)


def test_the_values_are_those_of_eq_5():
    model, x = small(), inputs()
    expected = np.stack([eq5(model, sequence.numpy()) for sequence in x])
    np.testing.assert_allclose(model(x).detach().numpy(), expected, rtol=1e-13, atol=1e-15)


def test_logits_are_plain_products_without_a_root_of_the_head_size():
    identity = torch.nn.Identity()
    model = Transformer(4, 4, n=4, m_h=4, m_v=4, f_hat=identity, F_hat=identity).double()
    with torch.no_grad():
        for W in (model.W_Q, model.W_K, model.W_V):
            W.weight.copy_(torch.eye(4))
    x = inputs(d=4)
    torch.testing.assert_close(model.logits(x), x @ x.mT, rtol=1e-14, atol=0)


def test_every_row_of_attention_sums_to_one():
    attention = small().attention(inputs())
    assert attention.shape == (3, 5, 5)
    assert (attention > 0).all()
    torch.testing.assert_close(attention.sum(-1), torch.ones(3, 5).double(), rtol=0, atol=1e-14)


@given(st.permutations(range(5)), st.integers(0, 1000))
@settings(max_examples=30)
def test_the_order_of_the_inputs_is_the_order_of_the_outputs(p, seed):
    model, x = small(), inputs(seed=seed)
    torch.testing.assert_close(model(x[:, p]), model(x)[:, p], rtol=1e-12, atol=1e-13)


@given(st.integers(1, 7), st.integers(0, 1000))
@settings(max_examples=30)
def test_pointwise_is_what_constant_sequences_get(length, seed):
    model, tokens = small(), inputs(seed=seed)[:, 0]
    constant = tokens[:, None, :].expand(-1, length, -1)
    expected = model.pointwise(tokens)[:, None, :].expand(-1, length, -1)
    torch.testing.assert_close(model(constant), expected, rtol=1e-12, atol=1e-13)


def test_leading_axes_are_batches():
    model, x = small(), inputs(n=6)
    torch.testing.assert_close(model(x.reshape(2, 3, 5, 2)).reshape(6, 5, 3), model(x))
    torch.testing.assert_close(model(x[0]), model(x)[0])


@pytest.mark.parametrize("m_h", [1, 2, 4])
def test_the_learned_coupling_has_rank_m_h_at_most(m_h):
    torch.manual_seed(m_h)
    model = Transformer(
        1, 1, n=8, m_h=m_h, m_v=2, f_hat=torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh())
    ).double()
    result = pod(model.coupling(), (0, 1))
    assert result.converged
    assert 1 <= result.rank <= m_h
    u, v = np.random.default_rng(0).uniform(size=(2, 50))
    expected = model.coupling()(torch.from_numpy(u[:, None]), torch.from_numpy(v[:, None]))
    np.testing.assert_allclose(result(u, v), expected.detach().numpy(), atol=1e-12)


def test_the_coupling_gives_the_logits():
    model, x = small(), inputs()
    pairs = model.coupling()(x[:, :, None, :], x[:, None, :, :])
    torch.testing.assert_close(pairs, model.logits(x), rtol=1e-13, atol=1e-14)


def test_parameters_are_counted_by_hand():
    # f̂: 2-8-8-6, F̂: 5-8-8-3, then W_Q, W_K: 6 x 4 each and W_V: 6 x 5
    f_hat, F_hat = 2 * 8 + 8 + 64 + 8 + 48 + 6, 40 + 8 + 64 + 8 + 24 + 3
    assert small().parameter_count() == f_hat + F_hat + 2 * 24 + 30


def test_frozen_parameters_are_not_counted():
    model = small()
    model.W_V.requires_grad_(False)
    assert small().parameter_count() - model.parameter_count() == 30


def test_the_paper_network_has_three_hidden_layers_of_128():
    layers = [layer for layer in Transformer(1, 1).f_hat if isinstance(layer, torch.nn.Linear)]
    shapes = [(layer.in_features, layer.out_features) for layer in layers]
    assert shapes == [(1, 128), (128, 128), (128, 128), (128, 32)]


@given(
    st.sampled_from(SIZES),
    st.one_of(
        st.integers(max_value=0),
        st.floats(),
        st.booleans(),
        st.none(),
        st.text(max_size=3),
        st.lists(st.integers(), max_size=2),
    ),
)
@settings(max_examples=300)
def test_sizes_that_are_none_are_refused_with_the_value(name, value):
    with pytest.raises(InputError, match=rf"^{name} must be a whole number") as caught:
        Transformer(**{"d": 1, "out": 1, name: value})
    assert caught.value.value is value


@given(st.lists(st.integers(0, 4), min_size=0, max_size=4).filter(lambda s: s[-1:] != [2]))
@settings(max_examples=100)
def test_inputs_with_another_last_axis_are_refused_with_their_shape(shape):
    model, x = small(), torch.zeros(shape, dtype=torch.float64)
    for use in (model, model.logits, model.attention, model.pointwise):
        with pytest.raises(InputError, match="inputs must have shape") as caught:
            use(x)
        assert caught.value.value == tuple(shape)


def test_a_lone_token_is_no_sequence():
    model, token = small(), torch.zeros(2, dtype=torch.float64)
    assert model.pointwise(token).shape == (3,)
    for use in (model, model.logits, model.attention):
        with pytest.raises(InputError, match=r"\(batch, length, 2\)"):
            use(token)


def test_a_given_f_hat_with_another_number_of_features_is_refused():
    model = Transformer(2, 1, n=4, f_hat=torch.nn.Linear(2, 3))
    with pytest.raises(InputError, match="f_hat must give n = 4 features") as caught:
        model(torch.zeros(1, 5, 2))
    assert caught.value.value == (1, 5, 3)


def test_a_compiled_transformer_computes_in_its_own_precision():
    model, x = compile_target(spectral_target(1.0, 2), 2), torch.rand(2, 16, 1)
    assert model(x).dtype == torch.float64
    assert torch.equal(model(x), model(x.double()))
