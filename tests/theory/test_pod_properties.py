"""What holds for the POD of any coupling: orthonormal functions, the gauge, honesty, the result."""

import json
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnrate.errors import AccuracyWarning, InputError
from attnrate.targets.couplings import spectral_coupling
from attnrate.theory.decomposition import Pod
from attnrate.theory.domain import union
from attnrate.theory.pod import pod

PI = np.pi
FACTORS = [
    lambda t: np.ones_like(t),
    np.exp,
    lambda t: np.sin(5 * t),
    lambda t: 1 / (2 + t),
    lambda t: t**3 - t,
    lambda t: np.cos(9 * t + 1),
    lambda t: np.tanh(4 * t - 2),
]


def quadrature(intervals, *also: float) -> tuple[np.ndarray, np.ndarray]:
    """33 nodes on each of 64 panels an interval, with further cuts where something breaks.

    Functions of tiny singular values carry noise that jumps between the panels of `pod`, which
    are dyadic; so are these, though with other nodes.
    """
    t, w = np.polynomial.legendre.leggauss(33)
    nodes, weights = [], []
    for a, b in intervals:
        cuts = np.union1d(np.linspace(a, b, 65), [c for c in also if a < c < b])
        for left, right in pairwise(cuts):
            nodes.append((left + right) / 2 + (right - left) / 2 * t)
            weights.append((right - left) / 2 * w)
    return np.concatenate(nodes), np.concatenate(weights)


def gaussian(u, v):
    return np.exp(-((u - v) ** 2) / 0.08)


def kinked_net() -> torch.nn.Module:
    """|u - v| + relu(u + v - 1), written as a ReLU network."""
    net = Net(torch.nn.ReLU(), width=3)
    with torch.no_grad():
        net.layers[0].weight.copy_(torch.tensor([[1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]]))
        net.layers[0].bias.copy_(torch.tensor([0.0, 0.0, -1.0]))
        net.layers[2].weight.fill_(1.0)
        net.layers[2].bias.zero_()
    return net


class Net(torch.nn.Module):
    """rho(u, v) as a network of one hidden layer on numbers that broadcast."""

    def __init__(self, activation: torch.nn.Module, width: int = 6, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(2, width), activation, torch.nn.Linear(width, 1)
        )
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))

    def forward(self, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        u, v = torch.broadcast_tensors(u, v)
        return self.layers(torch.stack([u, v], dim=-1))[..., 0]


@pytest.fixture(scope="module")
def results() -> dict[str, tuple[Pod, object, list[tuple[float, float]]]]:
    two = [(0, 1), (2, 3)]
    return {
        "gaussian": (pod(gaussian, (0, 1)), gaussian, [(0, 1)]),
        "union": (pod(gaussian, union(*two)), gaussian, two),
        "kink": (pod(np.minimum, (0, 1), max_rank=20), np.minimum, [(0, 1)]),
        "jump": (pod(np.greater, (0, 1), max_rank=20), np.greater, [(0, 1)]),
        "softmax": (pod(gaussian, (0, 1), gauge="softmax"), gaussian, [(0, 1)]),
        "kink softmax": (
            pod(np.minimum, (0, 1), max_rank=20, gauge="softmax"),
            np.minimum,
            [(0, 1)],
        ),
    }


ALL = ["gaussian", "union", "kink", "jump", "softmax", "kink softmax"]


@pytest.mark.parametrize("name", ALL)
def test_phi_and_psi_are_orthonormal(results, name):
    result, _, intervals = results[name]
    nodes, weights = quadrature(intervals)
    for values in (result.phi(nodes), result.psi(nodes)):
        gram = (values.T * weights) @ values
        np.testing.assert_allclose(gram, np.eye(result.rank), atol=1e-10)


@pytest.mark.parametrize("name", ALL)
def test_each_triple_is_singular(results, name):
    """∫ rho(u, v) psi_k(v) dv = sigma_k phi_k(u), by a quadrature that is split at v = u."""
    result, rho, intervals = results[name]
    for u in (0.0, 0.137, 0.5, 1.0):
        nodes, weights = quadrature(intervals, u)
        image = (rho(u, nodes) * weights) @ result.psi(nodes)
        np.testing.assert_allclose(image, result.sigma * result.phi(u), atol=1e-10)


@pytest.mark.parametrize("name", ["gaussian", "union"])
def test_the_sum_gives_rho_back_at_fresh_points_and_at_the_ends(results, name):
    result, rho, intervals = results[name]
    rng = np.random.default_rng(1)
    ends = np.array([end for pair in intervals for end in pair], float)
    u = np.concatenate([ends, rng.uniform(*intervals[-1], size=50)])
    np.testing.assert_allclose(result(u[:, None], u), rho(u[:, None], u), atol=1e-10)


@pytest.mark.parametrize("name", ["softmax", "kink softmax"])
def test_psi_has_no_mean_for_softmax(results, name):
    result, _, intervals = results[name]
    nodes, weights = quadrature(intervals)
    np.testing.assert_allclose(weights @ result.psi(nodes), 0, atol=1e-11)


@pytest.mark.parametrize("name", ALL)
def test_the_values_descend_and_with_the_rest_they_make_the_norm(results, name):
    result = results[name][0]
    assert np.all(np.diff(result.sigma) <= 0)
    assert np.all(result.sigma > 0)
    if result.gauge == "none":
        assert result.tail(0) == pytest.approx(result.norm, rel=1e-3)
    tails = [result.tail(r) for r in range(result.rank + 3)]
    assert tails == sorted(tails, reverse=True)
    assert tails[-1] == result.rest


@pytest.mark.parametrize("rho", [gaussian, np.minimum])
@given(coefficients=st.lists(st.floats(-5, 5), min_size=1, max_size=4))
@settings(max_examples=12)
def test_no_function_of_u_gives_smaller_tails_than_the_gauge(rho, coefficients):
    best = pod(rho, (0, 1), gauge="softmax", max_rank=10)
    shifted = pod(
        lambda u, v: rho(u, v) + np.polynomial.polynomial.polyval(u, coefficients),
        (0, 1),
        max_rank=10,
    )
    slack = 10 * (best.error + shifted.error)
    assert all(best.tail(r) <= shifted.tail(r) + slack for r in range(11))


@given(
    left=st.permutations(range(len(FACTORS))),
    right=st.permutations(range(len(FACTORS))),
    rank=st.integers(1, 5),
    sizes=st.lists(st.floats(0.1, 10), min_size=5, max_size=5),
)
@settings(max_examples=60)
def test_a_sum_of_r_products_has_rank_r(left, right, rank, sizes):
    terms = list(zip(sizes, left, right, strict=False))[:rank]

    def rho(u, v):
        return sum(size * FACTORS[i](u) * FACTORS[j](v) for size, i, j in terms)

    result = pod(rho, (0, 1))
    assert result.rank == rank
    assert result.converged
    nodes, weights = quadrature([(0, 1)])
    values = rho(nodes[:, None], nodes)
    assert result.norm == pytest.approx(np.sqrt(weights @ values**2 @ weights), rel=1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 30), st.sampled_from([1, 2]))
def test_samples_with_the_gauge_are_the_svd_of_the_centred_matrix(seed, n, m, d):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n, d)), rng.normal(size=(m, d))

    def rho(u, v):
        return np.cos((u * v).sum(-1)) + u[..., 0]

    result = pod(rho, x, y, gauge="softmax")
    matrix = rho(x[:, None], y[None])
    centred = (matrix - matrix.mean(axis=1, keepdims=True)) / np.sqrt(n * m)
    reference = np.linalg.svd(centred, compute_uv=False)
    np.testing.assert_allclose(result.sigma, reference[: result.rank], atol=1e-13)
    assert np.all(reference[result.rank :] <= 1e-12)
    # the Nyström continuation passes through the samples it was made from
    np.testing.assert_allclose(
        (result.phi(x) * result.sigma) @ result.psi(y).T,
        matrix - matrix.mean(1)[:, None],
        atol=1e-6,
    )


def test_two_calls_give_identical_results():
    for rho in (gaussian, np.minimum):
        one, two = (pod(rho, (0, 1), max_rank=15) for _ in range(2))
        t = np.linspace(0, 1, 11)
        assert np.array_equal(one.sigma, two.sigma)
        assert np.array_equal(one.phi(t), two.phi(t))
        assert np.array_equal(one.psi(t), two.psi(t))
        assert one.evaluations == two.evaluations


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (0,)])
def test_functions_keep_the_shape_of_their_points(shape):
    result = pod(gaussian, (0, 1))
    plane = pod(lambda u, v: gaussian(u, v).prod(-1), [(0, 1), (0, 1)], rtol=1e-4)
    assert result.phi(np.full(shape, 0.5)).shape == (*shape, result.rank)
    assert result(np.full(shape, 0.5), 0.25).shape == shape
    assert plane.psi(np.full((*shape, 2), 0.5)).shape == (*shape, plane.rank)


def test_truncation_moves_what_it_drops_into_the_tail():
    result = pod(gaussian, (0, 1))
    short = result.truncate(4)
    assert short.rank == 4
    assert np.array_equal(short.sigma, result.sigma[:4])
    assert short.rest == pytest.approx(result.tail(4), rel=1e-15)
    assert short.tail(2) == pytest.approx(result.tail(2), rel=1e-14)
    assert np.array_equal(short.phi(0.3), result.phi(0.3)[:4])
    assert result.truncate(10**6).rank == result.rank
    # Eq. 11: the error of the truncation is the tail
    nodes, weights = quadrature([(0, 1)])
    gap = gaussian(nodes[:, None], nodes) - short(nodes[:, None], nodes)
    assert np.sqrt(weights @ gap**2 @ weights) == pytest.approx(result.tail(4), rel=1e-9)


def test_samples_truncate_too():
    x = np.linspace(0, 1, 9)
    short = pod(gaussian, x).truncate(2)
    assert short.phi(x).shape == (9, 2)
    np.testing.assert_allclose(short.phi(x).T @ short.phi(x) / 9, np.eye(2), atol=1e-12)


def test_the_frame_the_figure_and_the_text_tell_the_same():
    result = pod(gaussian, (0, 1), gauge="softmax").truncate(5)
    frame = result.to_frame()
    assert list(frame.index) == [1, 2, 3, 4, 5]
    assert list(frame.columns) == ["sigma", "tail", "energy"]
    np.testing.assert_array_equal(frame["sigma"], result.sigma)
    np.testing.assert_allclose(frame["tail"], [result.tail(k) for k in range(1, 6)])
    assert frame["energy"].is_monotonic_increasing
    assert json.loads(frame.to_json())["sigma"]["1"] == pytest.approx(result.sigma[0])
    drawn = result.plot()
    np.testing.assert_array_equal(drawn.axes[0].lines[0].get_ydata(), result.sigma)
    assert "softmax" in drawn.get_suptitle()
    assert "rank 5" in str(result)
    assert f"{result.sigma[0]:.6g}" in str(result)
    assert "converged" in str(result)


def test_nothing_can_be_drawn_and_printed_too():
    result = pod(lambda u, v: 0.0, (0, 1))
    assert result.to_frame().empty
    assert result.plot().axes
    assert "rank 0" in str(result)


def test_a_smooth_network_is_decomposed_like_the_function_it_computes():
    net = Net(torch.nn.Tanh())
    result = pod(net, (0, 1))
    weights = [p.detach().double().numpy() for p in net.parameters()]

    def by_hand(u, v):
        u, v = np.broadcast_arrays(u, v)
        hidden = np.tanh(np.stack([u, v], -1) @ weights[0].T + weights[1])
        return (hidden @ weights[2].T + weights[3])[..., 0]

    np.testing.assert_allclose(result.sigma, pod(by_hand, (0, 1)).sigma, atol=1e-12)
    assert next(net.parameters()).dtype == torch.float32
    assert net.training


def test_a_relu_network_is_decomposed_like_the_kinks_it_computes():
    result = pod(kinked_net(), (0, 1), max_rank=12)
    plain = pod(lambda u, v: np.abs(u - v) + np.maximum(u + v - 1, 0), (0, 1), max_rank=12)
    assert result.converged
    np.testing.assert_allclose(result.sigma, plain.sigma, rtol=1e-11)


@pytest.mark.parametrize(("alpha", "rank"), [(0.55, 12), (1.5, 30)])
def test_a_coupling_given_by_its_spectrum_has_that_spectrum(alpha, rank):
    result = pod(spectral_coupling(alpha, rank), (0, 1))
    np.testing.assert_allclose(result.sigma, np.arange(1, rank + 1) ** -alpha, rtol=1e-11)
    points = np.linspace(0, 1, 13)
    exact = np.sqrt(2) * np.sin(2 * PI * points[:, None] * np.arange(1, rank + 1))
    sign = np.sign(np.sum(exact * result.phi(points), axis=0))
    np.testing.assert_allclose(sign * result.phi(points), exact, atol=1e-9)


def noise(u, v):
    wild = np.sin(u * 12345.678 + v * 54321.123) * 43758.5453
    return wild - np.floor(wild)


@pytest.mark.parametrize(
    ("rho", "domain"),
    [
        (noise, (0, 1)),
        (lambda u, v: noise(u, v).sum(-1) + u[..., 0] * v[..., 1], [(0, 1), (0, 1)]),
        (lambda u, v: np.exp(u * v).astype(np.float32), (0, 1)),
        (lambda u, v: np.exp(u * v) + 1e-9 * noise(u, v), (0, 1)),
    ],
    ids=["noise", "noise in the plane", "float32", "little noise"],
)
def test_what_cannot_be_resolved_is_said_and_never_passed_over(rho, domain):
    with pytest.warns(AccuracyWarning, match="did not converge") as caught:
        result = pod(rho, domain, max_rank=20)
    assert not result.converged
    assert result.error > 1e-12 * result.norm
    assert f"{result.error:.2g}" in str(caught[0].message)
    assert "NOT CONVERGED" in str(result)


def test_little_noise_is_no_obstacle_when_less_is_asked_for():
    clean = pod(lambda u, v: np.exp(u * v), (0, 1))
    result = pod(lambda u, v: np.exp(u * v) + 1e-9 * noise(u, v), (0, 1), rtol=1e-6)
    assert result.converged
    np.testing.assert_allclose(result.sigma, clean.sigma[: result.rank], atol=1e-6 * result.norm)


def test_a_cusp_is_resolved_to_what_is_asked_and_its_error_is_honest():
    rough, fine = (
        pod(lambda u, v: np.sqrt(np.abs(u - v)), (0, 1), rtol=rtol, max_rank=20)
        for rtol in (1e-5, 1e-7)
    )
    assert rough.converged
    np.testing.assert_allclose(rough.sigma, fine.sigma, rtol=0, atol=10 * rough.error + fine.error)


def test_less_accuracy_asks_rho_less_and_keeps_fewer_values():
    fine, rough = pod(gaussian, (0, 1)), pod(gaussian, (0, 1), rtol=1e-4)
    assert rough.rank < fine.rank
    assert rough.evaluations < fine.evaluations
    np.testing.assert_allclose(rough.sigma, fine.sigma[: rough.rank], atol=1e-4 * rough.norm)


@given(st.floats(allow_nan=True, allow_infinity=True).filter(lambda t: not 0 <= t <= 1))
@settings(max_examples=300)
def test_points_outside_the_domain_are_refused(results, t):
    if -1e-12 < t < 1 + 2e-12:
        return
    for function in (results["gaussian"][0].phi, results["kink"][0].psi):
        with pytest.raises(InputError) as caught:
            function([0.5, t])
        assert caught.value.value == t or np.isnan(t)
        assert "outside the domain" in str(caught.value)


@given(st.floats(1.001, 1.999))
def test_the_gap_between_the_intervals_of_a_union_is_outside_too(results, t):
    with pytest.raises(InputError, match="outside the domain") as caught:
        results["union"][0].psi(t)
    assert caught.value.value == t
