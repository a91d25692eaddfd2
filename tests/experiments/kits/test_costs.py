"""Counted costs: closed forms of operations, bytes and states, which hold on every machine."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from attnrate.errors import InputError
from attnrate.experiments.kits.costs import Ledger, cost_of, in_rounds, infer, state_bytes
from attnrate.models import (
    GRU,
    CausalConvolution,
    LinearRNN,
    SequenceModel,
    StateSpace,
    Transformer,
)

LENGTHS = (4, 8, 32)


def transformer(heads=1, **changes):
    given = {"n": 6, "m_h": 3, "m_v": 5, "width": 7, "depth": 2, "heads": heads}
    return Transformer(1, 1, **{**given, **changes})


def products(model):
    """The entries of all matrices that act on single tokens."""
    return sum(m.weight.numel() for m in model.modules() if isinstance(m, nn.Linear))


def network(model, length):
    """Every number of a matrix is multiplied and summed once for each token."""
    return 2 * length * products(model)


def of_transformer(model, length):
    pairs = 2 * length**2 * model.heads * model.layers * (model.m_h + model.m_v)
    return network(model, length) + pairs


def of_rnn(model, length):
    return 2 * length * (model.hidden**2 + 2 * model.hidden)


def of_linear_rnn(model, length):
    """c W^s for all s by doubling, W squared in between, then the kernel's matrix."""
    h = model.hidden
    doubled = 2 * h**2 * (length - 1)
    squared = 2 * h**3 * (math.log2(length) - 1)
    return doubled + squared + 2 * length * h * 2 + 2 * length**2


def of_gru(model, length):
    h = model.hidden
    return 2 * length * (3 * h * h + 3 * h + h)


def of_state_space(model, length):
    block = math.isqrt(length - 1) + 1
    kernel = 2 * block**2 * model.state * model.channels
    return kernel + 2 * length**2 * model.channels + network(model, length)


def of_convolution(model, length):
    inner = model.layers * model.kernel * model.channels**2
    return 2 * length * inner + network(model, length)


MODELS = {
    "transformer": (transformer, of_transformer),
    "heads": (lambda: transformer(heads=2), of_transformer),
    "layers": (lambda: transformer(layers=3, residual=True, layer_norm=True), of_transformer),
    "rnn": (lambda: LinearRNN(1, 1, 5, activation="tanh"), of_rnn),
    "linear rnn": (lambda: LinearRNN(1, 1, 5), of_linear_rnn),
    "gru": (lambda: GRU(1, 1, 5), of_gru),
    "state space": (lambda: StateSpace(1, 1, 4, 3), of_state_space),
    "convolution": (lambda: CausalConvolution(1, 1, 3, layers=4), of_convolution),
}


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", MODELS)
def test_operations_of_a_forward_pass_have_a_closed_form(name, length):
    make, closed = MODELS[name]
    model = make()
    assert cost_of(model, length).inference == closed(model, length)


@given(
    n=st.integers(1, 9), m_h=st.integers(1, 9), width=st.integers(1, 9), length=st.integers(2, 9)
)
@settings(max_examples=15, deadline=None)
def test_a_training_step_takes_two_more_products_for_each_but_the_first(n, m_h, width, length):
    """Backward needs the gradients of both factors; the inputs have none."""
    model = transformer(n=n, m_h=m_h, width=width)
    found = cost_of(model, length)
    assert found.inference == of_transformer(model, length)
    assert found.training == 3 * found.inference - 2 * length * width


@pytest.mark.parametrize("name", ["transformer", "layers", "rnn", "gru", "convolution"])
def test_operations_are_those_of_torchs_own_counter(name):
    model, x = MODELS[name][0](), torch.zeros(3, 8, 1)
    with FlopCounterMode(display=False) as counter:
        model(x).sum().backward()
    assert cost_of(model, 8, batch=3).training == counter.get_total_flops()


def test_a_fourier_transform_of_n_numbers_takes_5_halves_n_log_n():
    x, ledger = torch.ones(3, 16), Ledger()
    with ledger:
        back = torch.fft.irfft(torch.fft.rfft(x), 16)
        torch.fft.fft(x.cfloat())
    assert ledger.operations == (2 * 2.5 + 5) * 3 * 16 * 4
    assert torch.allclose(back, x)


def test_a_product_of_complex_matrices_takes_four_times_as_many():
    one, two = torch.ones(2, 3, 4, dtype=torch.complex64), torch.ones(2, 4, 5).cfloat()
    ledger = Ledger()
    with ledger:
        one @ two
    assert ledger.operations == 8 * 2 * 3 * 4 * 5


def test_bytes_are_those_of_live_tensors_made_meanwhile():
    before, ledger = torch.zeros(100), Ledger()
    with ledger:
        first = before + 1
        second = first.view(10, 10).mT
        second.mul_(2.0)
        before.add_(1.0)
        assert ledger.bytes == 400
        third = torch.cat([first, before])
        assert ledger.bytes == 1200
        del first
        assert ledger.bytes == 1200  # its view is alive
        del second
        assert ledger.bytes == 800
        del third
    assert (ledger.bytes, ledger.peak) == (0, 1200)


@pytest.mark.parametrize("heads", [1, 3])
def test_attention_needs_two_matrices_of_scores_and_three_in_training(heads):
    """What is quadratic: logits and weights; weights and the gradients of both."""
    lengths = (256, 512, 1024)
    found = [cost_of(transformer(heads=heads), length) for length in lengths]
    for kind, matrices in (("inference_bytes", 2), ("training_bytes", 3)):
        one, two, four = (getattr(each, kind) for each in found)
        # of a τ² + b τ + c at τ, 2τ and 4τ this leaves 6 a τ²
        square = (four - 3 * two + 2 * one) / (6 * lengths[0] ** 2)
        assert square == pytest.approx(4 * matrices * heads, rel=1e-3)


def test_counts_are_the_same_again_and_leave_no_gradients():
    model = transformer(heads=2)
    assert cost_of(model, 16) == cost_of(model, 16)
    assert all(p.grad is None for p in model.parameters())
    assert cost_of(model, 16).parameters == model.parameter_count()


def test_a_batch_shares_the_kernel_of_a_linear_model_and_nothing_else():
    for name, shares in (("gru", False), ("transformer", False), ("linear rnn", True)):
        model = MODELS[name][0]()
        one, two = (cost_of(model, 8, batch).inference for batch in (1, 2))
        assert (two < 2 * one) == shares


class Streams:
    """Each model a token at a time, from what it keeps; `state` has the tensors it keeps."""

    def __init__(self, model, **state):
        self.model, self.state = model, state

    @property
    def bytes(self):
        return sum(each.numel() * each.element_size() for each in self.state.values())


class OfTransformer(Streams):
    def step(self, x, t):
        model, h = self.model, self.model.f_hat(x)
        for name, W in (("keys", model.W_K), ("values", model.W_V)):
            self.state[name] = torch.cat([*([self.state[name]] if t else []), W(h)], dim=1)
        return model.F_hat(model.rule_without_mask.mix(model.W_Q(h), *self.state.values()))


class OfRNN(Streams):
    def step(self, x, t):
        model, h = self.model, self.state.get("h", torch.zeros(1, 1, self.model.hidden))
        h = h @ model.W.mT + x @ model.U.mT + model.b
        self.state["h"] = h.tanh() if model.activation == "tanh" else h
        return self.state["h"] @ model.c.mT + model.b_out


class OfGRU(Streams):
    def step(self, x, t):
        out, self.state["h"] = self.model.gru(x, self.state.get("h"))
        return self.model.readout(out)


class OfStateSpace(Streams):
    def step(self, x, t):
        model, (exponent, weight) = self.model, self.model.modes()
        u = model.encoder(x)
        s = self.state.get("s", torch.zeros_like(exponent))
        self.state["s"] = s = exponent.exp() * s + u[0, 0, :, None]
        z = 2 * (weight * s).sum(-1).real + model.D * u[0, 0]
        return model.readout(nn.functional.gelu(z))[None, None]


class OfConvolution(Streams):
    def step(self, x, t):
        model, h = self.model, self.model.encoder(x)
        for layer, convolution in enumerate(model.convolutions):
            reach = (model.kernel - 1) * 2**layer
            seen = torch.cat([*([self.state[layer]] if t else []), h], dim=1)
            self.state[layer] = seen[:, -reach:]
            past = nn.functional.pad(seen[:, -reach - 1 :].mT, (max(0, reach - t), 0))
            h = h + convolution(past).mT.relu()
        return model.readout(h)


@pytest.mark.parametrize(
    ("stream", "model"),
    [
        (OfTransformer, lambda: transformer(causal=True)),
        (OfTransformer, lambda: transformer(heads=2, causal=True)),
        (OfRNN, MODELS["rnn"][0]),
        (OfRNN, MODELS["linear rnn"][0]),
        (OfGRU, MODELS["gru"][0]),
        (OfStateSpace, MODELS["state space"][0]),
        (OfConvolution, MODELS["convolution"][0]),
    ],
)
def test_a_state_of_these_bytes_is_enough_for_the_outputs_token_by_token(stream, model):
    torch.manual_seed(0)
    made, x = model(), torch.randn(1, 40, 1)
    if isinstance(made, Transformer):
        made.rule_without_mask = transformer(heads=made.heads).rule
    kept = stream(made)
    with torch.no_grad():
        whole = made(x)
        for t in range(x.shape[1]):
            assert torch.allclose(kept.step(x[:, t : t + 1], t), whole[:, t : t + 1], atol=1e-5)
            assert kept.bytes == state_bytes(made, t + 1)


def test_a_model_of_which_nothing_is_known_has_no_state():
    with pytest.raises(InputError, match="nothing is known of the state of a 'SequenceModel'"):
        state_bytes(SequenceModel(1, 1), 4)


def test_functions_are_timed_in_turn_and_each_is_first_once():
    order, now = [], [0.0]

    def work(number):
        order.append(number)
        now[0] += 10.0**number

    found = in_rounds([lambda n=n: work(n) for n in range(3)], 3, clock=lambda: now[0])
    assert found == [(1.0, 1.0, 1.0), (10.0, 10.0, 10.0), (100.0, 100.0, 100.0)]
    assert order == [0, 1, 2, 0, 1, 2, 1, 2, 0, 2, 0, 1]


def test_inference_keeps_no_graph():
    model = MODELS["gru"][0]()
    seen = []
    model.register_forward_hook(lambda *call: seen.append(call[2].requires_grad))
    infer(model, torch.zeros(1, 4, 1))
    assert seen == [False]
