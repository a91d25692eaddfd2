"""The state-space model against its recurrence, its stability, and wrong requests."""

import cmath
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.models import StateSpace


def small(d: int = 2, out: int = 3, seed: int = 0) -> StateSpace:
    torch.manual_seed(seed)
    return StateSpace(d, out, state=6, channels=4).double()


def inputs(*shape: int, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def stepped(model: StateSpace, x: torch.Tensor) -> torch.Tensor:
    """s(t) = λ s(t-1) + (λ-1)/a u(t), z = 2 Re(C s) + D u, a token at a time."""
    u = x @ model.encoder.weight.T + model.encoder.bias
    a = torch.complex(-model.log_decay.exp(), model.frequency)
    lam = (model.log_step.exp() * a).exp()
    C = torch.complex(model.C[..., 0], model.C[..., 1])
    state = torch.zeros(len(x), *a.shape, dtype=torch.complex128)
    outputs = []
    for t in range(x.shape[1]):
        state = lam * state + (lam - 1) / a * u[:, t, :, None]
        z = 2 * (C * state).sum(-1).real + model.D * u[:, t]
        gelu = z * (1 + torch.erf(z / math.sqrt(2))) / 2
        outputs.append(gelu @ model.readout.weight.T + model.readout.bias)
    return torch.stack(outputs, dim=1)


@pytest.mark.parametrize("length", [1, 2, 5, 32, 256, 257, 400])
def test_the_convolution_is_the_recurrence(length):
    model, x = small(), inputs(3, length, 2)
    torch.testing.assert_close(model(x), stepped(model, x), rtol=1e-12, atol=1e-12)


def test_and_so_are_its_gradients():
    model, x = small(), inputs(3, 17, 2).requires_grad_()
    leaves, weights = [x, *model.parameters()], inputs(3, 17, 3, seed=2)
    ours, theirs = (
        torch.autograd.grad((use * weights).mean(), leaves) for use in (model(x), stepped(model, x))
    )
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-12)


def test_one_mode_has_a_kernel_in_closed_form():
    model = StateSpace(1, 1, state=2, channels=1).double()
    step, C, a = 0.3, 0.7 - 0.2j, -0.5 + 2j
    with torch.no_grad():
        model.log_step.fill_(math.log(step))
        model.log_decay.fill_(math.log(0.5))
        model.frequency.fill_(2.0)
        model.C.copy_(torch.tensor([0.7, -0.2], dtype=torch.float64))
    lam = cmath.exp(step * a)
    expected = [2 * (C * (lam - 1) / a * lam**t).real for t in range(7)]
    assert model.kernel(7).flatten().tolist() == pytest.approx(expected, rel=1e-13)


def test_a_constant_drive_settles_where_the_continuous_system_does():
    # s' = a s + u rests at s = -u/a, so the kernel sums to -2 Re Σ C/a
    model = small()
    with torch.no_grad():
        model.log_step.fill_(math.log(0.1))
    a = torch.complex(-model.log_decay.exp(), model.frequency)
    C = torch.complex(model.C[..., 0], model.C[..., 1])
    torch.testing.assert_close(
        model.kernel(1000).sum(0), -2 * (C / a).sum(-1).real, rtol=1e-11, atol=1e-11
    )


def test_the_first_modes_are_those_of_s4d_lin():
    model = StateSpace(1, 1, state=6, channels=50)
    step = model.log_step.exp()
    assert ((step >= 0.999e-3) & (step <= 0.1001)).all()
    assert step.std() > 0.01
    exponent, _ = model.modes()
    expected = torch.complex(torch.tensor(-0.5), torch.pi * torch.arange(3)) * step
    torch.testing.assert_close(exponent, expected)


@given(st.floats(-8, 8), st.floats(-100, 100), st.floats(-8, 3))
def test_no_training_makes_it_unstable(log_decay, frequency, log_step):
    model = small()
    with torch.no_grad():
        model.log_decay.fill_(log_decay)
        model.frequency.fill_(frequency)
        model.log_step.fill_(log_step)
    exponent, _ = model.modes()
    assert (exponent.exp().abs() < 1).all()


@given(st.integers(1, 11), st.integers(0, 100))
@settings(max_examples=15)
def test_the_future_does_not_change_the_past(t, seed):
    model, x = small(seed=seed), inputs(4, 12, 2, seed=seed)
    other = torch.cat([x[:, :t], 10 * inputs(4, 12 - t, 2, seed=seed + 1)], dim=1)
    torch.testing.assert_close(model(other)[:, :t], model(x)[:, :t], rtol=0, atol=1e-14)
    assert not torch.equal(model(other)[:, t:], model(x)[:, t:])


def test_leading_axes_are_batches():
    model, x = small(), inputs(6, 5, 2)
    torch.testing.assert_close(model(x.reshape(2, 3, 5, 2)).reshape(6, 5, 3), model(x))
    torch.testing.assert_close(model(x[0]), model(x)[0])


def test_parameters_are_counted_by_hand():
    # a: two numbers, C: two numbers for each of 4 x 3 modes; a step and D for each channel
    assert small().parameter_count() == 4 * 12 + 2 * 4 + (2 * 4 + 4) + (4 * 3 + 3)


@given(
    st.sampled_from(["d", "out", "state", "channels"]),
    st.one_of(st.integers(max_value=0), st.floats(), st.booleans(), st.none(), st.text(max_size=3)),
)
@settings(max_examples=100)
def test_sizes_that_are_none_are_refused_with_the_value(name, value):
    with pytest.raises(InputError, match=rf"^{name} must be a whole number") as caught:
        StateSpace(**{"d": 1, "out": 1, name: value})
    assert caught.value.value is value


@given(st.integers(1, 50).map(lambda k: 2 * k + 1))
def test_an_odd_state_is_refused(state):
    with pytest.raises(InputError, match="conjugate pairs") as caught:
        StateSpace(1, 1, state)
    assert caught.value.value == state


@pytest.mark.parametrize("shape", [(), (2,), (4, 3), (2, 4, 1), (1, 0, 2)])
def test_inputs_of_another_shape_are_refused_with_their_shape(shape):
    with pytest.raises(InputError) as caught:
        StateSpace(2, 1)(torch.zeros(shape))
    assert caught.value.value == shape
