"""Causal convolution by hand, the network's causality to the bit, and how far back it sees."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.models import CausalConvolution
from attnrate.models.convolution import causal_convolution, channel_convolution


def inputs(*shape: int, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def small(d: int = 2, out: int = 3, seed: int = 0, **sizes: int) -> CausalConvolution:
    torch.manual_seed(seed)
    return CausalConvolution(d, out, channels=4, **sizes).double()


@pytest.mark.parametrize("length", [1, 2, 7, 256, 257])
@pytest.mark.parametrize(("out", "d"), [(1, 1), (2, 3)])
def test_convolution_with_a_kernel_is_numpys(length, out, d):
    kernel, x = inputs(length, out, d), inputs(2, length, d, seed=2)
    expected = np.zeros((2, length, out))
    for b, i, j in np.ndindex(2, out, d):
        expected[b, :, i] += np.convolve(kernel[:, i, j], x[b, :, j])[:length]
    np.testing.assert_allclose(causal_convolution(kernel, x).numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("length", [1, 2, 7, 256, 257])
def test_channels_are_convolved_apart(length):
    kernel, x = inputs(length, 3), inputs(2, length, 3, seed=2)
    expected = np.zeros((2, length, 3))
    for b, c in np.ndindex(2, 3):
        expected[b, :, c] = np.convolve(kernel[:, c], x[b, :, c])[:length]
    np.testing.assert_allclose(channel_convolution(kernel, x).numpy(), expected, atol=1e-12)


def test_a_kernel_too_large_for_a_matrix_gives_the_same_as_its_parts():
    # 128 · 128 · 17 · 17 entries are beyond the largest matrix
    kernel, x = inputs(128, 17, 17), inputs(2, 128, 17, seed=2)
    parts = torch.cat([causal_convolution(part, x) for part in kernel.split(3, dim=1)], dim=-1)
    torch.testing.assert_close(causal_convolution(kernel, x), parts, rtol=1e-11, atol=1e-11)


def by_hand(model: CausalConvolution, x: np.ndarray) -> np.ndarray:
    """The formula of the docstring for one sequence, a sum at a time."""

    def array(parameter: torch.Tensor) -> np.ndarray:
        return parameter.detach().numpy()

    h = x @ array(model.encoder.weight).T + array(model.encoder.bias)
    for layer, convolution in enumerate(model.convolutions):
        new = h.copy()
        for t in range(len(x)):
            total = array(convolution.bias).copy()
            for j in range(model.kernel):
                # torch's weights begin with the oldest lag
                K = array(convolution.weight)[:, :, model.kernel - 1 - j]
                past = t - j * 2**layer
                total += K @ h[past] if past >= 0 else 0
            new[t] += np.maximum(total, 0)
        h = new
    return h @ array(model.readout.weight).T + array(model.readout.bias)


@pytest.mark.parametrize("kernel", [2, 3, 4])
def test_the_values_are_those_of_the_formula(kernel):
    model, x = small(kernel=kernel, layers=3), inputs(2, 11, 2)
    expected = np.stack([by_hand(model, sequence.numpy()) for sequence in x])
    np.testing.assert_allclose(model(x).detach().numpy(), expected, rtol=1e-12, atol=1e-13)


@given(st.integers(1, 19), st.integers(0, 100))
@settings(max_examples=25)
def test_the_future_does_not_change_a_bit_of_the_past(t, seed):
    model, x = small(seed=seed, layers=3), inputs(4, 20, 2, seed=seed)
    other = torch.cat([x[:, :t], 10 * inputs(4, 20 - t, 2, seed=seed + 1)], dim=1)
    assert torch.equal(model(other)[:, :t], model(x)[:, :t])
    assert not torch.equal(model(other)[:, t:], model(x)[:, t:])


@pytest.mark.parametrize(
    ("kernel", "layers", "field"), [(2, 1, 2), (3, 1, 3), (2, 3, 8), (3, 3, 15)]
)
def test_an_output_depends_on_its_receptive_field_and_nothing_else(kernel, layers, field):
    model, x = small(kernel=kernel, layers=layers), inputs(1, 25, 2).requires_grad_()
    with torch.no_grad():
        for convolution in model.convolutions:
            convolution.bias.fill_(50.0)  # every unit is on, so that no dependence is hidden
    assert model.receptive_field == field
    (gradient,) = torch.autograd.grad(model(x)[0, -1].sum(), x)
    seen = (gradient[0] != 0).any(-1)
    assert seen.tolist() == [t >= 25 - field for t in range(25)]


@given(st.integers(1, 2000), st.integers(2, 9))
@settings(max_examples=50)
def test_as_many_layers_as_a_sequence_needs_and_no_more(length, kernel):
    model = CausalConvolution(1, 1, channels=1, kernel=kernel, length=length)
    assert model.receptive_field >= length
    if model.layers > 1:
        fewer = CausalConvolution(1, 1, channels=1, kernel=kernel, layers=model.layers - 1)
        assert fewer.receptive_field < length


@given(st.integers(15, 24), st.integers(0, 100))
@settings(max_examples=15)
def test_beyond_the_first_tokens_a_delay_of_the_input_is_a_delay_of_the_output(t, seed):
    model, x = small(seed=seed, layers=3), inputs(2, 30, 2, seed=seed)
    torch.testing.assert_close(model(x[:, 5:])[:, t], model(x)[:, t + 5])


def test_leading_axes_are_batches():
    model, x = small(), inputs(6, 5, 2)
    torch.testing.assert_close(model(x.reshape(2, 3, 5, 2)).reshape(6, 5, 3), model(x))
    torch.testing.assert_close(model(x[0]), model(x)[0])


def test_parameters_are_counted_by_hand():
    assert small(layers=2).parameter_count() == (8 + 4) + 2 * (4 * 4 * 3 + 4) + (12 + 3)
    assert CausalConvolution(1, 1).layers == 5


@given(
    st.sampled_from(["d", "out", "channels", "kernel", "layers", "length"]),
    st.one_of(st.integers(max_value=0), st.floats(), st.booleans(), st.text(max_size=3)),
)
@settings(max_examples=100)
def test_sizes_that_are_none_are_refused_with_the_value(name, value):
    with pytest.raises(InputError, match=rf"^{name} must be a whole number") as caught:
        CausalConvolution(**{"d": 1, "out": 1, name: value})
    assert caught.value.value is value


def test_a_kernel_of_one_sees_no_past():
    with pytest.raises(InputError, match="kernel must be a whole number of at least 2"):
        CausalConvolution(1, 1, kernel=1)


def test_layers_that_do_not_reach_back_far_enough_are_refused():
    assert CausalConvolution(1, 1, layers=4, length=31).layers == 4
    with pytest.raises(InputError, match="length 32 need layers=5") as caught:
        CausalConvolution(1, 1, layers=4, length=32)
    assert caught.value.value == 4


@pytest.mark.parametrize("shape", [(), (2,), (4, 3), (2, 4, 1), (1, 0, 2)])
def test_inputs_of_another_shape_are_refused_with_their_shape(shape):
    with pytest.raises(InputError) as caught:
        small()(torch.zeros(shape))
    assert caught.value.value == shape
