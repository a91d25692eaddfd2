"""Heads, layers, residuals, norms, scaling, masks, positions: by explicit loops, then as facts."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.models import (
    IntervalShift,
    LearnedPosition,
    SinusoidalPosition,
    Transformer,
    feed_forward,
)
from attnrate.theory.domain import union
from attnrate.theory.pod import pod

SWITCHES = ("residual", "layer_norm", "scale", "causal")
POSITIONS = ("learned", "sinusoidal", "shift")


def small(d: int = 2, out: int = 3, seed: int = 0, **chosen: object) -> Transformer:
    torch.manual_seed(seed)
    return Transformer(d, out, n=6, m_h=4, m_v=5, width=8, depth=2, **chosen).double()


def inputs(n: int = 3, length: int = 5, d: int = 2, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(n, length, d, generator=generator, dtype=torch.float64)


def array(parameter: torch.Tensor) -> np.ndarray:
    return parameter.detach().numpy()


def network(layers: torch.nn.Module, value: np.ndarray) -> np.ndarray:
    linear = [layer for layer in layers if isinstance(layer, torch.nn.Linear)]
    for i, layer in enumerate(linear):
        value = array(layer.weight) @ value + array(layer.bias)
        if i + 1 < len(linear):
            value = np.maximum(value, 0)
    return value


def normed(module: torch.nn.Module, h: np.ndarray) -> np.ndarray:
    if isinstance(module, torch.nn.Identity):
        return h
    centred = h - h.mean()
    return centred / math.sqrt((centred**2).mean() + 1e-5) * array(module.weight) + array(
        module.bias
    )


def attended(
    layer: torch.nn.Module, h: list[np.ndarray], heads: int, factor: float, causal: bool
) -> list[np.ndarray]:
    h = [normed(layer.norm, one) for one in h]
    outputs = []
    for t in range(len(h)):
        stacked = []
        for i in range(heads):
            W_Q, W_K = (array(w.weight)[4 * i : 4 * i + 4] for w in (layer.W_Q, layer.W_K))
            W_V = array(layer.W_V.weight)[5 * i : 5 * i + 5]
            seen = range(t + 1) if causal else range(len(h))
            weights = {s: math.exp(factor * (W_Q @ h[t]) @ (W_K @ h[s])) for s in seen}
            total = sum(weights.values())
            stacked.append(sum(weights[s] / total * (W_V @ h[s]) for s in seen))
        outputs.append(np.concatenate(stacked))
    return outputs


def by_hand(model: Transformer, x: np.ndarray, chosen: dict[str, bool]) -> np.ndarray:
    """The formula of the docstring for one sequence, a sum at a time, from the weights alone."""
    factor = 1 / math.sqrt(4) if chosen["scale"] else 1.0
    rule = (model.heads, factor, chosen["causal"])
    h = [network(model.f_hat, token) for token in x]
    for layer in model.inner:
        a = [array(layer.W_o.weight) @ mixed for mixed in attended(layer, h, *rule)]
        if chosen["residual"]:
            a = [one + two for one, two in zip(h, a, strict=True)]
        h = [network(layer.g, normed(layer.inner_norm, one)) for one in a]
        if chosen["residual"]:
            h = [one + two for one, two in zip(a, h, strict=True)]
    return np.array([network(model.F_hat, mixed) for mixed in attended(model, h, *rule)])


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("on", list(itertools.product([False, True], repeat=4)))
def test_the_values_are_those_of_the_formula(heads, layers, on):
    chosen = dict(zip(SWITCHES, on, strict=True))
    model, x = small(heads=heads, layers=layers, **chosen), inputs(n=2)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():  # norms start as 1 and 0, which would hide a missing factor
        for module in model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.weight.copy_(1 + torch.rand(6, generator=generator))
                module.bias.copy_(torch.rand(6, generator=generator))
    expected = np.stack([by_hand(model, sequence.numpy(), chosen) for sequence in x])
    np.testing.assert_allclose(model(x).detach().numpy(), expected, rtol=1e-11, atol=1e-12)


def test_eq_5_has_the_parameters_and_the_first_values_it_always_had():
    torch.manual_seed(7)
    model = Transformer(2, 1)
    torch.manual_seed(7)
    f_hat, F_hat = feed_forward(2, 32, 128, 3), feed_forward(32, 1, 128, 3)
    made = {f"f_hat.{name}": value for name, value in f_hat.state_dict().items()}
    made |= {f"F_hat.{name}": value for name, value in F_hat.state_dict().items()}
    for name, size in [("W_Q", 8), ("W_K", 8), ("W_V", 32)]:
        made[f"{name}.weight"] = torch.nn.Linear(32, size, bias=False).weight
    assert [name for name, _ in model.named_parameters()] == list(made)
    assert {*model.state_dict()} == {*made}
    assert all(torch.equal(value, made[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("causal", [False, True])
def test_a_layer_of_zeros_with_residuals_is_no_layer(heads, causal):
    deep = small(heads=heads, layers=2, residual=True, causal=causal)
    flat = small(heads=heads, causal=causal)
    flat.load_state_dict(deep.state_dict(), strict=False)
    x = inputs()
    assert (deep(x) - flat(x)).abs().max() > 1e-3
    with torch.no_grad():
        deep.inner[0].W_o.weight.zero_()
        deep.inner[0].g[-1].weight.zero_()
        deep.inner[0].g[-1].bias.zero_()
    torch.testing.assert_close(deep(x), flat(x), rtol=1e-13, atol=1e-14)
    torch.testing.assert_close(deep.logits(x), flat.logits(x), rtol=1e-13, atol=1e-14)


def test_scaling_divides_the_logits_by_the_root_of_the_head_size():
    x = inputs()
    torch.testing.assert_close(small(scale=True).logits(x), small().logits(x) / 2)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("heads", [1, 3])
def test_the_shapes_of_attention_have_a_head_axis_for_several_heads_only(heads, layers):
    model, x = small(heads=heads, layers=layers), inputs()
    shape = (3, 5, 5) if heads == 1 else (3, heads, 5, 5)
    for layer in range(-layers, layers):
        attention = model.attention(x, layer)
        assert attention.shape == model.logits(x, layer).shape == shape
        torch.testing.assert_close(attention.sum(-1), torch.ones(shape[:-1]).double())
    torch.testing.assert_close(model.attention(x), model.attention(x, layers - 1))


def test_the_logits_of_the_first_layer_are_those_of_a_model_that_has_no_other():
    deep, flat, x = small(layers=2), small(), inputs()
    flat.f_hat.load_state_dict(deep.f_hat.state_dict())
    for name in ("W_Q", "W_K"):
        getattr(flat, name).load_state_dict(getattr(deep.inner[0], name).state_dict())
    torch.testing.assert_close(deep.logits(x, 0), flat.logits(x))


@given(st.permutations(range(3)), st.integers(0, 100))
@settings(max_examples=20)
def test_the_order_of_the_heads_does_not_matter(p, seed):
    model, other = small(heads=3, seed=seed), small(heads=3)
    other.load_state_dict(model.state_dict())
    with torch.no_grad():
        for name, rows in [("W_Q", 4), ("W_K", 4), ("W_V", 5)]:
            weight = getattr(model, name).weight.reshape(3, rows, 6)
            getattr(other, name).weight.copy_(weight[p].reshape(3 * rows, 6))
        first = model.F_hat[0].weight.reshape(8, 3, 5)
        other.F_hat[0].weight.copy_(first[:, p].reshape(8, 15))
    x = inputs(seed=seed)
    torch.testing.assert_close(other(x), model(x), rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(other.attention(x), model.attention(x)[:, p])


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(0, 100))
@settings(max_examples=25)
def test_a_causal_model_does_not_see_the_future(t, heads, layers, seed):
    model, x = small(heads=heads, layers=layers, causal=True, seed=seed), inputs(seed=seed)
    other = torch.cat([x[:, :t], 10 * inputs(length=5 - t, seed=seed + 1)], dim=1)
    torch.testing.assert_close(model(other)[:, :t], model(x)[:, :t], rtol=0, atol=1e-14)
    attention = model.attention(x)
    assert torch.equal(attention, attention.tril())
    torch.testing.assert_close(attention.sum(-1), torch.ones(attention.shape[:-1]).double())
    free = small(heads=heads, layers=layers, seed=seed)
    assert not torch.allclose(free(other)[:, :t], free(x)[:, :t], rtol=0, atol=1e-10)


@given(st.permutations(range(5)), st.integers(0, 100))
@settings(max_examples=20)
def test_without_positions_the_order_of_the_inputs_is_the_order_of_the_outputs(p, seed):
    model = small(heads=2, layers=3, residual=True, layer_norm=True, scale=True, seed=seed)
    x = inputs(seed=seed)
    torch.testing.assert_close(model(x[:, p]), model(x)[:, p], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("position", POSITIONS)
def test_positions_end_the_equivariance(position):
    model, x = small(position=position, length=5), inputs()
    p = [4, 3, 2, 1, 0]
    assert (model(x[:, p]) - model(x)[:, p]).abs().max() > 1e-4


def test_the_shift_is_eq_5_on_shifted_tokens():
    model, plain, x = small(position="shift", length=5), small(), inputs()
    encoded = x + 2 * torch.arange(5)[:, None]
    torch.testing.assert_close(model(x), plain(encoded))
    torch.testing.assert_close(model.logits(x), plain.logits(encoded))


@pytest.mark.parametrize(
    ("position", "made"), [("learned", LearnedPosition), ("sinusoidal", SinusoidalPosition)]
)
def test_other_positions_hand_n_numbers_to_f_hat(position, made):
    model, x = small(position=position, length=7), inputs()
    assert isinstance(model.position, made)
    assert model.f_hat[0].in_features == model.n == 6
    plain = Transformer(6, 3, n=6, m_h=4, m_v=5, f_hat=model.f_hat, F_hat=model.F_hat).double()
    plain.load_state_dict(model.state_dict(), strict=False)
    torch.testing.assert_close(model(x), plain(model.position(x)))


def test_an_encoding_of_ones_own_is_used():
    shift = IntervalShift(2, 5, width=4.0, low=-2.0)
    model, plain, x = small(position=shift), small(), 4 * inputs() - 2
    torch.testing.assert_close(model(x), plain(x + 5 * torch.arange(5)[:, None]))


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 7), st.integers(0, 100))
@settings(max_examples=25)
def test_pointwise_is_what_constant_sequences_get(heads, layers, length, seed):
    model = small(heads=heads, layers=layers, residual=True, layer_norm=True, seed=seed)
    tokens = inputs(seed=seed)[:, 0]
    constant = tokens[:, None, :].expand(-1, length, -1)
    expected = model.pointwise(tokens)[:, None, :].expand(-1, length, -1)
    torch.testing.assert_close(model(constant), expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("switches", [{}, {"scale": True, "layer_norm": True}])
def test_the_coupling_of_a_head_gives_its_logits(switches):
    model, x = small(heads=3, **switches), inputs()
    for head in range(3):
        pairs = model.coupling(head)(x[:, :, None, :], x[:, None, :, :])
        torch.testing.assert_close(pairs, model.logits(x)[:, head], rtol=1e-12, atol=1e-13)


def test_with_a_shift_the_coupling_takes_encoded_points():
    model, x = small(position="shift", length=5), inputs()
    u = model.position(x)
    pairs = model.coupling()(u[:, :, None, :], u[:, None, :, :])
    torch.testing.assert_close(pairs, model.logits(x), rtol=1e-12, atol=1e-13)
    assert model.pointwise(u).shape == (3, 5, 3)


def test_pod_decomposes_the_coupling_on_the_union_of_intervals():
    torch.manual_seed(0)
    f_hat = torch.nn.Sequential(torch.nn.Linear(1, 6), torch.nn.Tanh())
    model = Transformer(1, 1, n=6, m_h=2, position="shift", length=3, f_hat=f_hat).double()
    result = pod(model.coupling(), union(*model.position.intervals))
    assert result.converged
    assert 1 <= result.rank <= 2
    u, v = (model.position(inputs(n=4, length=3, d=1, seed=seed)) for seed in (1, 2))
    expected = model.coupling()(u, v).detach().numpy()
    values = result(u[..., 0].numpy().ravel(), v[..., 0].numpy().ravel())
    np.testing.assert_allclose(values, expected.ravel(), atol=1e-12)


def test_parameters_are_counted_by_hand():
    flat = small().parameter_count()
    # two more heads: 2 x 4 rows of 6 in W_Q and W_K, 2 x 5 in W_V and as many inputs of F̂ (8 units)
    assert small(heads=3).parameter_count() == flat + 2 * 48 + 60 + 80
    # one more layer: W_Q, W_K, W_V, W_o and g: 6-8-8-6
    inner = 24 + 24 + 30 + 30 + (48 + 8 + 64 + 8 + 48 + 6)
    assert small(layers=2).parameter_count() == flat + inner
    # norms have 2 x 6 numbers: one for the last attention, two in the inner layer
    assert small(layers=2, layer_norm=True).parameter_count() == flat + inner + 3 * 12
    # A: 6 x 2, e: 5 x 6, and f̂ begins with 6 numbers instead of 2
    assert small(position="learned", length=5).parameter_count() == flat + 12 + 30 + 32
    assert small(position="sinusoidal", length=5).parameter_count() == flat + 12 + 32
    assert small(position="shift", length=5).parameter_count() == flat


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.parametrize("value", [None, 1, "yes", 0.0])
def test_switches_that_are_no_truth_values_are_refused(name, value):
    with pytest.raises(InputError, match=f"{name} must be True or False") as caught:
        small(**{name: value})
    assert caught.value.value is value


@given(
    st.sampled_from(["heads", "layers", "length"]),
    st.one_of(st.integers(max_value=0), st.floats(), st.booleans(), st.text(max_size=3)),
)
def test_sizes_that_are_none_are_refused_with_the_value(name, value):
    with pytest.raises(InputError, match=rf"^{name} must be a whole number") as caught:
        Transformer(**{"d": 1, "out": 1, name: value})
    assert caught.value.value is value


@pytest.mark.parametrize("position", POSITIONS)
def test_positions_need_a_length_and_keep_to_it(position):
    with pytest.raises(InputError, match=f"'{position}' needs the length"):
        small(position=position)
    with pytest.raises(InputError, match="4 positions at most") as caught:
        small(position=position, length=4)(inputs())
    assert caught.value.value == 5


def test_unknown_positions_are_refused_with_the_list():
    with pytest.raises(InputError, match="'none', 'learned', 'sinusoidal', 'shift'") as caught:
        small(position="rotary", length=5)
    assert caught.value.value == "rotary"
    with pytest.raises(InputError, match="tokens of d = 2") as caught:
        small(position=IntervalShift(1, 5))
    assert caught.value.value == 1


@given(st.integers(1, 3), st.integers(-9, 9))
def test_layers_that_are_not_there_are_refused(layers, layer):
    model, x = small(layers=layers), inputs()
    if -layers <= layer < layers:
        assert model.logits(x, layer).shape == (3, 5, 5)
        return
    for use in (model.logits, model.attention):
        with pytest.raises(InputError, match="layer must be a whole number") as caught:
            use(x, layer)
        assert caught.value.value == layer


@pytest.mark.parametrize("head", [-1, 2, None, "first", 0.0])
def test_heads_that_are_not_there_are_refused(head):
    with pytest.raises(InputError, match="head must be a whole number") as caught:
        small(heads=2).coupling(head)
    assert caught.value.value is head


@pytest.mark.parametrize("position", ["learned", "sinusoidal"])
def test_what_is_no_function_of_tokens_is_refused(position):
    model = small(position=position, length=5)
    for use in (model.coupling, lambda: model.pointwise(inputs())):
        with pytest.raises(InputError, match="every position adds its own vector") as caught:
            use()
        assert caught.value.value == type(model.position).__name__


def test_the_last_of_several_layers_has_no_coupling():
    with pytest.raises(InputError, match="depends on whole sequences") as caught:
        small(layers=2).coupling()
    assert caught.value.value == 2


def test_every_use_of_a_model_casts_floats_and_refuses_whole_numbers_by_name():
    model, x = small(), torch.zeros(1, 5, 2, dtype=torch.int64)
    for use in (model, model.logits, model.pointwise, lambda x: model.coupling()(x, x)):
        with pytest.raises(InputError, match=r"inputs must hold floats") as caught:
            use(x)
        assert caught.value.value == torch.int64
        assert torch.equal(use(x.float()), use(x.double()))
