"""The linear RNN against Eq. 72-74 step by step, what it can represent, the tanh RNN, the GRU."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.models import GRU, LinearRNN
from attnrate.targets import linear_target

MODELS = [LinearRNN, lambda d, out, hidden: LinearRNN(d, out, hidden, "tanh"), GRU]


def inputs(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, generator=generator, dtype=torch.float64).to(dtype)


def stepped(model: LinearRNN, x: torch.Tensor) -> torch.Tensor:
    """Eq. 72-73, a token at a time."""
    h = torch.zeros(len(x), model.hidden, dtype=x.dtype)
    outputs = []
    for t in range(x.shape[1]):
        h = h @ model.W.T + x[:, t] @ model.U.T + (0 if model.b is None else model.b)
        outputs.append(h @ model.c.T + (0 if model.b_out is None else model.b_out))
    return torch.stack(outputs, dim=1)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("d", "out"), [(1, 1), (3, 2), (2, 5)])
@pytest.mark.parametrize("length", [1, 2, 3, 32, 33])
@pytest.mark.parametrize(("dtype", "accuracy"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_the_convolution_is_the_recurrence_and_so_are_its_gradients(
    d, out, length, bias, dtype, accuracy
):
    torch.manual_seed(0)
    model = LinearRNN(d, out, hidden=24, bias=bias).to(dtype)
    x = inputs(7, length, d, dtype=dtype).requires_grad_()
    torch.testing.assert_close(model(x), stepped(model, x), rtol=accuracy, atol=accuracy)
    weights = inputs(7, length, out, dtype=dtype, seed=2)
    leaves = [x, *model.parameters()]
    ours, theirs = (
        torch.autograd.grad(
            (use * weights).mean(), leaves, allow_unused=True, materialize_grads=True
        )
        for use in (model(x), stepped(model, x))
    )
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=accuracy, atol=accuracy)


@pytest.mark.parametrize("length", [256, 257, 700])
def test_long_sequences_go_another_way_to_the_same_values(length):
    torch.manual_seed(0)
    model, x = LinearRNN(2, 3, hidden=8).double(), inputs(2, length, 2)
    torch.testing.assert_close(model(x), stepped(model, x), rtol=1e-12, atol=1e-12)


def test_a_scalar_state_has_a_geometric_kernel():
    model = LinearRNN(1, 1, hidden=1).double()
    with torch.no_grad():
        for parameter, value in [(model.W, 0.5), (model.U, 3.0), (model.c, 2.0)]:
            parameter.fill_(value)
        model.b.fill_(1.0)
        model.b_out.fill_(-4.0)
    assert model.kernel(4).flatten().tolist() == [6, 3, 1.5, 0.75]
    # the bias b = 1 adds 2 (1 + 1/2 + ... + 2^-t) - 4
    assert model(torch.zeros(3, 1).double()).flatten().tolist() == [-2, -1, -0.5]


def test_the_linear_rnn_is_the_target_of_table_2_with_one_unit():
    target = linear_target("exponential", 32)
    model = LinearRNN(1, 1, hidden=1, bias=False).double()
    with torch.no_grad():
        model.W.fill_(np.exp(-1))
        model.U.fill_(1.0)
        model.c.fill_(1.0)
    x = target.sample(20, seed=0)
    torch.testing.assert_close(model(x), target(x), rtol=0, atol=1e-14)


@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 4), st.integers(0, 100))
@settings(max_examples=25)
def test_the_kernel_is_c_W_to_the_s_U(length, d, out, seed):
    torch.manual_seed(seed)
    model = LinearRNN(d, out, hidden=5).double()
    W, U, c = (p.detach().numpy() for p in (model.W, model.U, model.c))
    expected = np.stack([c @ np.linalg.matrix_power(W, s) @ U for s in range(length)])
    np.testing.assert_allclose(model.kernel(length).detach().numpy(), expected, atol=1e-13)


@given(st.integers(0, 9), st.integers(0, 100))
@settings(max_examples=25)
def test_without_bias_a_delay_of_the_input_is_a_delay_of_the_output(delay, seed):
    torch.manual_seed(seed)
    model, x = LinearRNN(2, 3, hidden=6, bias=False).double(), inputs(4, 10, 2, seed=seed)
    late = torch.cat([torch.zeros(4, delay, 2), x[:, : 10 - delay]], dim=1)
    torch.testing.assert_close(model(late)[:, delay:], model(x)[:, : 10 - delay])
    torch.testing.assert_close(model(2 * x), 2 * model(x))


def test_the_tanh_rnn_is_torchs():
    torch.manual_seed(0)
    model, other = (
        LinearRNN(2, 3, 6, "tanh").double(),
        torch.nn.RNN(2, 6, batch_first=True).double(),
    )
    with torch.no_grad():
        other.weight_hh_l0.copy_(model.W)
        other.weight_ih_l0.copy_(model.U)
        other.bias_ih_l0.copy_(model.b)
        other.bias_hh_l0.zero_()
    x = inputs(4, 9, 2)
    expected = other(x)[0] @ model.c.T + model.b_out
    torch.testing.assert_close(model(x), expected, rtol=1e-12, atol=1e-13)


def test_the_gru_is_torchs_with_a_readout():
    model, x = GRU(2, 3, hidden=6).double(), inputs(4, 9, 2)
    expected = model.gru(x)[0] @ model.readout.weight.T + model.readout.bias
    torch.testing.assert_close(model(x), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("make", MODELS)
@given(t=st.integers(1, 11), seed=st.integers(0, 100))
@settings(max_examples=15)
def test_the_future_does_not_change_the_past(make, t, seed):
    torch.manual_seed(seed)
    model, x = make(2, 3, 6).double(), inputs(4, 12, 2, seed=seed)
    other = torch.cat([x[:, :t], 10 * inputs(4, 12 - t, 2, seed=seed + 1)], dim=1)
    torch.testing.assert_close(model(other)[:, :t], model(x)[:, :t], rtol=0, atol=1e-14)
    assert not torch.equal(model(other)[:, t:], model(x)[:, t:])


@pytest.mark.parametrize("make", MODELS)
def test_leading_axes_are_batches(make):
    model, x = make(2, 3, 6).double(), inputs(6, 5, 2)
    torch.testing.assert_close(model(x.reshape(2, 3, 5, 2)).reshape(6, 5, 3), model(x))
    torch.testing.assert_close(model(x[0]), model(x)[0])


def test_numbers_start_uniform_within_a_root_of_the_size():
    torch.manual_seed(0)
    model = LinearRNN(3, 2, hidden=100)
    for parameter in model.parameters():
        assert parameter.abs().max() <= 0.1
    # the variance of a uniform law on ±1/10, from 10,000 draws
    assert model.W.var().item() == pytest.approx(0.01 / 3, rel=0.05)


def test_parameters_are_counted_by_hand():
    assert LinearRNN(3, 2, hidden=5).parameter_count() == 25 + 15 + 10 + 5 + 2
    assert LinearRNN(3, 2, hidden=5, bias=False).parameter_count() == 25 + 15 + 10
    assert GRU(3, 2, hidden=5).parameter_count() == 3 * (25 + 15 + 2 * 5) + 12


NO_SIZE = st.one_of(
    st.integers(max_value=0), st.floats(), st.booleans(), st.none(), st.text(max_size=3)
)


@pytest.mark.parametrize("make", [LinearRNN, GRU])
@given(name=st.sampled_from(["d", "out", "hidden"]), value=NO_SIZE)
@settings(max_examples=60)
def test_sizes_that_are_none_are_refused_with_the_value(make, name, value):
    with pytest.raises(InputError, match=rf"^{name} must be a whole number") as caught:
        make(**{"d": 1, "out": 1, name: value})
    assert caught.value.value is value


@given(st.one_of(st.none(), st.integers(), st.text(max_size=6)))
def test_other_activations_are_refused_with_the_choices(activation):
    with pytest.raises(InputError, match="'linear', 'tanh'") as caught:
        LinearRNN(1, 1, 2, activation)
    assert caught.value.value is activation


@pytest.mark.parametrize("bias", [None, 1, "yes"])
def test_a_bias_that_is_no_truth_value_is_refused(bias):
    with pytest.raises(InputError, match="bias must be True or False") as caught:
        LinearRNN(1, 1, 2, bias=bias)
    assert caught.value.value is bias


def test_the_tanh_rnn_has_no_kernel():
    with pytest.raises(InputError, match="only a linear RNN is a convolution"):
        LinearRNN(1, 1, 2, "tanh").kernel(3)


@given(NO_SIZE)
def test_a_kernel_needs_a_length(length):
    with pytest.raises(InputError, match=r"^length must be a whole number") as caught:
        LinearRNN(1, 1, 2).kernel(length)
    assert caught.value.value is length


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("shape", [(), (2,), (4, 3), (2, 4, 1), (1, 0, 2)])
def test_inputs_of_another_shape_are_refused_with_their_shape(make, shape):
    with pytest.raises(InputError) as caught:
        make(2, 1, 4)(torch.zeros(shape))
    assert caught.value.value == shape


@pytest.mark.parametrize("make", MODELS)
def test_whole_numbers_are_refused_by_name(make):
    with pytest.raises(InputError, match=r"inputs must hold floats") as caught:
        make(2, 1, 4)(torch.zeros(3, 4, 2, dtype=torch.int64))
    assert caught.value.value == torch.int64
