"""One convention for ρ: numpy or torch, numbers or a last axis of length 1, and what is refused."""

import copy
import math
import pickle
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnrate.calling import Called, find_call
from attnrate.errors import InputError
from attnrate.targets import AttentionTarget, FunctionCoupling, identity
from attnrate.theory.domain import Samples, box
from attnrate.theory.pod import pod

#: One ρ on numbers, a (u - b v)² + e^{-|u - v|}, written in four ways
WAYS = {
    "numpy, numbers": lambda a, b: lambda u, v: a * (u - b * v) ** 2 + np.exp(-np.abs(u - v)),
    "torch, numbers": lambda a, b: lambda u, v: a * (u - b * v) ** 2 + torch.exp(-torch.abs(u - v)),
    "numpy, last axis": lambda a, b: (
        lambda u, v: np.sum(a * (u - b * v) ** 2 + np.exp(-np.abs(u - v)), axis=-1)
    ),
    "torch, last axis": lambda a, b: (
        lambda u, v: (a * (u - b * v) ** 2 + (-(u - v).abs()).exp()).sum(-1)
    ),
}


def tokens(count, d=1):
    return np.random.default_rng(count).uniform(size=(count, d))


@pytest.mark.parametrize("home", ["numpy", "torch"])
@pytest.mark.parametrize("way", WAYS)
def test_the_way_in_which_a_function_is_written_is_found(way, home):
    call, pairs = find_call(WAYS[way](1.0, 2.0), tokens(4), tokens(5), home)
    library, shape = way.split(", ")
    if shape == "numbers":
        assert call.library == library
    assert call.axis == (shape == "last axis")
    assert pairs > 0


@given(st.floats(-3, 3), st.floats(-3, 3))
def test_one_coupling_has_the_same_logits_and_spectrum_in_every_way(a, b):
    spectra, logits = [], []
    for way in WAYS.values():
        rho = way(a, b)
        target = AttentionTarget(identity, identity, rho, 5)
        logits.append(target.logits(target.sample(2, 3)).numpy())
        at = np.linspace(0, 1, 7)
        spectra.append(pod(rho, Samples(at)).sigma)
        # samples that are given as rows are tokens in R¹ as well
        spectra.append(pod(rho, Samples(at[:, None])).sigma)
    for other in logits[1:]:
        np.testing.assert_allclose(other, logits[0], rtol=1e-12, atol=1e-12)
    for other in spectra[1:]:
        np.testing.assert_allclose(other, spectra[0], rtol=1e-9, atol=1e-12)


@given(st.integers(2, 4), st.floats(0.1, 3))
def test_points_have_a_last_axis_in_numpy_and_in_torch(d, scale):
    ways = (
        lambda u, v: np.cos(scale * (u - v)).sum(-1),
        lambda u, v: torch.cos(scale * (u - v)).sum(-1),
    )
    x = tokens(6, d)
    spectra = [pod(rho, Samples(x)).sigma for rho in ways]
    np.testing.assert_allclose(spectra[0], spectra[1], rtol=1e-9, atol=1e-12)
    seen = [FunctionCoupling(rho, d).outer(*[torch.from_numpy(x)] * 2) for rho in ways]
    np.testing.assert_allclose(seen[0], seen[1], rtol=1e-12)


def test_a_function_of_torch_is_decomposed_on_intervals_and_boxes():
    sigma = pod(lambda u, v: torch.minimum(u, v), (0, 1), rtol=1e-8).sigma
    np.testing.assert_allclose(sigma[:3], 1 / ((np.arange(3) + 0.5) * np.pi) ** 2, rtol=1e-6)
    plane = pod(lambda u, v: (torch.sin(u) * v).sum(-1), box((0, 1), (0, 1)), rtol=1e-6)
    assert plane.rank == 2


@pytest.mark.parametrize("home", ["numpy", "torch"])
def test_what_takes_both_libraries_is_called_with_the_arrays_at_hand(home):
    assert find_call(product, tokens(2), tokens(2), home)[0].library == home


def test_an_axis_of_length_one_that_is_squeezed_away_is_no_plain_number():
    def rho(u, v):
        return (u - v).abs().squeeze(-1)

    call, _ = find_call(rho, tokens(3), tokens(3), "torch")
    assert call.axis
    for count in (1, 4):
        u, v = torch.rand(3, 1), torch.rand(count, 1)
        assert torch.equal(FunctionCoupling(rho).outer(u, v), (u - v.T).abs())


def test_a_constant_and_a_function_of_one_argument_are_couplings():
    u = torch.tensor([[1.0], [2.0]])
    assert FunctionCoupling(lambda u, v: 3.0).outer(u, u).tolist() == [[3.0, 3.0], [3.0, 3.0]]
    # with an axis this one would be v[..., 0] of one token: the shape alone does not show it
    assert FunctionCoupling(lambda u, v: v[..., 0]).outer(u, u).tolist() == [[1.0, 2.0]] * 2
    assert FunctionCoupling(lambda u, v: v).outer(u, u).tolist() == [[1.0, 2.0]] * 2
    assert FunctionCoupling(lambda u, v: u).outer(u, u).tolist() == [[1.0, 1.0], [2.0, 2.0]]


@pytest.mark.parametrize(
    "rho",
    [
        lambda u, v: math.exp(-((u - v) ** 2)),
        lambda u, v: u if u > v else v,
        lambda u, v: float(u) * float(v),
    ],
    ids=["math", "if", "float"],
)
def test_a_function_of_single_numbers_is_refused_with_the_way_to_vectorise(rho):
    attempts = (
        lambda: pod(rho, (0, 1)),
        lambda: AttentionTarget(identity, identity, rho, 4),
    )
    for attempt in attempts:
        with pytest.raises(InputError, match=r"single numbers.*np\.where.*np\.vectorize"):
            attempt()
    # the way out that the message names works
    result = pod(np.vectorize(rho), Samples(np.linspace(0, 1, 5)))
    assert result.rank >= 1


class Pairwise(torch.nn.Module):
    """A network of [u, v] that joins its arguments without broadcasting them."""

    def __init__(self, broadcasts: bool) -> None:
        super().__init__()
        self.broadcasts = broadcasts
        torch.manual_seed(0)
        self.net = torch.nn.Linear(2, 1)

    def forward(self, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        if self.broadcasts:
            u, v = torch.broadcast_tensors(u, v)
        joined: torch.Tensor = self.net(torch.cat([u, v], -1))[..., 0]
        return joined


def test_a_module_that_does_not_broadcast_is_refused_with_the_way_out():
    for attempt in (
        lambda: pod(Pairwise(False), (0, 1)),
        lambda: AttentionTarget(identity, identity, Pairwise(False), 4),
    ):
        with pytest.raises(InputError, match=r"called with arrays.*broadcast_tensors"):
            attempt()


def test_the_advice_for_modules_can_be_followed():
    net = torch.nn.Linear(2, 1)

    class Stacked(torch.nn.Module):
        def __init__(self, dropped: bool) -> None:
            super().__init__()
            self.net, self.dropped = net, dropped

        def forward(self, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            joined: torch.Tensor = self.net(torch.stack(torch.broadcast_tensors(u, v), -1))
            return joined.squeeze(-1) if self.dropped else joined

    with pytest.raises(InputError, match=r"torch\.stack\(\[u, v\], -1\)"):
        pod(Pairwise(False), (0, 1))
    with pytest.raises(InputError, match=r"got \(3, 4, 1\)\. Drop the last axis.*squeeze\(-1\)"):
        pod(Stacked(False), (0, 1))
    assert pod(Stacked(True), (0, 1)).rank == 2


def test_warnings_of_the_other_library_are_not_shown():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match="rho was called with"):
            pod(lambda u, v: u @ v.T, tokens(7, 3))


def test_a_module_in_float32_is_decomposed_and_attended_by():
    module = Pairwise(True)
    assert pod(module, (0, 1)).rank == 2
    target = AttentionTarget(identity, identity, module, 4)
    x = target.sample(2, 0)
    assert target.logits(x).dtype == x.dtype
    weight, bias = module.net.weight[0].double(), module.net.bias.double()
    expected = x @ weight[:1, None] + (x @ weight[1:, None]).mT + bias
    np.testing.assert_allclose(target.logits(x).detach(), expected.detach(), rtol=1e-6)


def test_an_error_of_a_function_is_shown_as_its_cause():
    def rho(u, v):
        raise KeyError("weights")

    with pytest.raises(InputError, match="KeyError") as caught:
        pod(rho, (0, 1))
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_function_is_tried_within_its_domain_only():
    def rho(u, v):
        assert np.all((u >= 2) & (u <= 3) & (v >= 5) & (v <= 6))
        return u * v

    assert pod(rho, (2, 3), (5, 6)).rank == 1


def product(u, v):
    return u * v


def test_couplings_of_functions_can_be_copied_and_pickled():
    rho = FunctionCoupling(product).scaled(2.0)
    u = torch.tensor([[1.0], [3.0]])
    assert torch.equal(rho.outer(u, u), 2 * u * u.T)
    again = pickle.loads(pickle.dumps(rho))  # noqa: S301 - made one line above
    for other in (copy.copy(rho), copy.deepcopy(rho), again):
        assert torch.equal(other.outer(u, u), rho.outer(u, u))


@given(st.integers(1, 3), st.booleans())
def test_calls_on_arrays_and_tensors_agree(d, axis):
    call = Called(lambda u, v: (u - v) if d == 1 and not axis else (u - v).sum(-1), "numpy", axis)
    u, v = tokens(3, d)[:, None], tokens(4, d)[None]
    arrays = call.on_arrays(u, v)
    tensors = call.on_tensors(torch.from_numpy(u), torch.from_numpy(v))
    np.testing.assert_array_equal(arrays, tensors)
