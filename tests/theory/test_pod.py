"""Couplings whose singular values are known: by a formula, or by a dense reference."""

import numpy as np
import pytest
from scipy.optimize import brentq

from attnrate.theory.decomposition import Pod
from attnrate.theory.domain import Samples, box, union
from attnrate.theory.pod import pod

K = np.arange(1, 61)
PI = np.pi


def d3(u, v):
    return 1 + 2 * np.sin(2 * PI * u) * np.sin(2 * PI * (u + v))


def sines(u, v):
    return sum(2 * i**-1.5 * np.sin(2 * PI * i * u) * np.sin(2 * PI * i * v) for i in range(1, 41))


def gaussian(u, v):
    return np.exp(-((u - v) ** 2) / (2 * 0.1**2))


def roots(function, ends) -> np.ndarray:
    return np.array([brentq(function, *pair, xtol=1e-15, rtol=1e-15) for pair in ends])


def eigenvalues_of_exp_distance(count: int) -> np.ndarray:
    """f'' = (1 - 2/lambda) f with f' = f at 0, -f at 1: 2/(1+w²), w tan(w/2)=1 or w cot(w/2)=-1."""
    even = roots(
        lambda w: w * np.sin(w / 2) - np.cos(w / 2),
        [(2 * PI * j, 2 * PI * j + PI) for j in range(count)],
    )
    odd = roots(
        lambda w: w * np.cos(w / 2) + np.sin(w / 2),
        [(2 * PI * j + PI, 2 * PI * j + 2 * PI) for j in range(count)],
    )
    return np.sort(2 / (1 + np.append(even, odd) ** 2))[::-1][:count]


def singular_values_of_distance(count: int) -> np.ndarray:
    """The moduli of the eigenvalues, in three families.

    K f = ∫|u-v| f gives (Kf)'' = 2f, (Kf)(0) + (Kf)(1) = ∫f = (Kf)'(1) = -(Kf)'(0).
    Odd about 1/2: f' vanishes at the ends, so f = cos((2j-1) pi u), lambda = -2/((2j-1)² pi²).
    Even, lambda = -2/w²: f = cos w(u-½), 2 cos(w/2) = -w sin(w/2).
    Even, lambda = 2/w²: f = cosh w(u-½), 2 cosh(w/2) = w sinh(w/2), one root.
    """
    odd = 2 / ((2 * np.arange(1, count + 1) - 1) * PI) ** 2
    even = roots(
        lambda w: 2 * np.cos(w / 2) + w * np.sin(w / 2),
        [(2 * PI * j - PI, 2 * PI * j) for j in range(1, count + 1)],
    )
    positive = roots(lambda w: 2 * np.cosh(w / 2) - w * np.sinh(w / 2), [(1.0, 5.0)])
    every = np.concatenate([odd, 2 / even**2, 2 / positive**2])
    return np.sort(every)[::-1][:count]


#: name, rho, domain, singular values, relative accuracy
CLOSED = [
    ("min", np.minimum, (0, 1), 1 / ((K - 0.5) * PI) ** 2, 1e-11),
    ("min on (0, 4)", np.minimum, (0, 4), 16 / ((K - 0.5) * PI) ** 2, 1e-11),
    ("min from -2", lambda u, v: np.minimum(u, v) + 2, (-2, 1), 9 / ((K - 0.5) * PI) ** 2, 1e-11),
    ("u > v", lambda u, v: 1.0 * (u > v), (0, 1), 2 / ((2 * K - 1) * PI), 1e-11),
    # f' = 2f/lambda with f(0) = -f(1): exp(2u/lambda) = -1 at 1, pairs of lambda = ±2i/((2j-1) pi)
    ("sign", lambda u, v: np.sign(u - v), (0, 1), 2 / ((2 * ((K + 1) // 2) - 1) * PI), 1e-11),
    ("|u-v|", lambda u, v: np.abs(u - v), (0, 1), singular_values_of_distance(60), 1e-10),
    (
        "exp(-|u-v|)",
        lambda u, v: np.exp(-np.abs(u - v)),
        (0, 1),
        eigenvalues_of_exp_distance(60),
        1e-10,
    ),
]


def legendre(intervals, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights on a union of intervals, by numpy alone."""
    t, w = np.polynomial.legendre.leggauss(order)
    nodes = [(a + b) / 2 + (b - a) / 2 * t for a, b in intervals]
    weights = [(b - a) / 2 * w for a, b in intervals]
    return np.concatenate(nodes), np.concatenate(weights)


def dense(rho, u_side, v_side) -> np.ndarray:
    (u, wu), (v, wv) = u_side, v_side
    matrix = np.sqrt(wu)[:, None] * rho(u[:, None], v[None, :]) * np.sqrt(wv)
    return np.linalg.svd(matrix, compute_uv=False)


def honest(result: Pod, truth: np.ndarray) -> bool:
    """The true error is at most ten times the reported one, plus the rounding of the norm."""
    true_error = np.max(np.abs(result.sigma - truth[: result.rank]))
    return bool(true_error <= 10 * result.error + 8 * np.finfo(float).eps * result.norm)


def test_the_coupling_of_section_d3_has_its_three_values():
    result = pod(d3, (0, 1))
    truth = np.sqrt([(7 + 33**0.5) / 8, 1 / 4, (7 - 33**0.5) / 8])
    assert result.rank == 3
    assert result.converged
    np.testing.assert_allclose(result.sigma, truth, rtol=0, atol=1e-12)
    assert honest(result, truth)


def test_forty_sines_have_their_forty_values():
    result = pod(sines, (0, 1))
    truth = np.arange(1, 41) ** -1.5
    assert result.rank == 40
    np.testing.assert_allclose(result.sigma, truth, rtol=1e-11)
    assert honest(result, truth)


def test_min_at_the_defaults_has_its_first_fifty_values_and_says_what_is_left():
    result = pod(np.minimum, (0, 1))
    every = 1 / ((np.arange(1, 100_001) - 0.5) * PI) ** 2
    assert result.converged
    assert result.rank >= 50
    np.testing.assert_allclose(result.sigma[:50], every[:50], rtol=1e-8)
    assert honest(result, every)
    assert result.tail(50) == pytest.approx(np.linalg.norm(every[50:]), rel=1e-4)
    assert result.rest == pytest.approx(np.linalg.norm(every[result.rank :]), rel=0.02)


@pytest.mark.parametrize(
    ("rho", "domain", "truth", "rtol"), [c[1:] for c in CLOSED], ids=[c[0] for c in CLOSED]
)
def test_kinks_and_jumps_have_the_values_of_their_differential_equation(rho, domain, truth, rtol):
    result = pod(rho, domain, max_rank=60)
    assert result.converged
    assert result.rank == 60
    np.testing.assert_allclose(result.sigma, truth, rtol=rtol)
    assert honest(result, truth)


def test_a_kink_off_the_diagonal_agrees_with_the_eigenvalues_of_its_gram_kernel():
    """rho = |u - 2v|: both arguments scaled, so no grid is aligned with the kink."""
    result = pod(lambda u, v: np.abs(u - 2 * v), (0, 1), max_rank=20)
    # ∫|u-2s||w-2s| ds is a piecewise cubic in s: exact by Gauss on the pieces between its kinks
    u, weights = legendre([(i / 24, (i + 1) / 24) for i in range(24)], 12)
    low, high = np.minimum.outer(u, u) / 2, np.maximum.outer(u, u) / 2
    t, w = np.polynomial.legendre.leggauss(2)
    gram = np.zeros_like(low)
    for a, b in ((0 * low, low), (low, high), (high, 0 * high + 1)):
        for node, weight in zip(t, w, strict=True):
            s = (a + b) / 2 + (b - a) / 2 * node
            product = np.abs(u[:, None] - 2 * s) * np.abs(u[None, :] - 2 * s)
            gram += weight * (b - a) / 2 * product
    root = np.sqrt(weights)
    reference = np.sqrt(np.linalg.eigvalsh(root[:, None] * gram * root)[::-1])
    np.testing.assert_allclose(result.sigma**2, reference[:20] ** 2, rtol=0, atol=2e-7)
    np.testing.assert_allclose(result.sigma[:5], reference[:5], rtol=1e-6)


def test_the_gaussian_agrees_with_a_dense_reference():
    result = pod(gaussian, (0, 1))
    side = legendre([(0, 1)], 200)
    reference = dense(gaussian, side, side)
    np.testing.assert_allclose(
        result.sigma, reference[: result.rank], rtol=0, atol=1e-12 * reference[0]
    )
    assert reference[result.rank] <= 1.1e-12 * reference[0]
    assert honest(result, reference)


@pytest.mark.parametrize(
    "c",
    [
        np.exp,
        lambda u: np.abs(u - 0.3),
        lambda u: 1e3 * np.exp(u),
        lambda u: 1e3 * np.abs(u - 0.3),
        lambda u: np.sqrt(np.abs(u - 0.3)),
        lambda u: 1e6 * np.sin(3 * u),
        lambda u: 0 * u + 5,
    ],
    ids=["exp", "kink", "large", "large kink", "cusp", "huge", "constant"],
)
def test_a_function_of_u_and_two_products_have_rank_two_for_softmax(c):
    def two_products(u, v):
        return np.cos(2 * PI * v) * np.sin(u) + u**2 * (v - 0.5)

    result = pod(lambda u, v: c(u) + two_products(u, v), (0, 1), gauge="softmax")
    without = pod(two_products, (0, 1))
    assert result.rank == 2
    assert result.converged
    np.testing.assert_allclose(result.sigma, without.sigma, rtol=0, atol=10 * result.error)


@pytest.mark.parametrize("gauge", [None, "softmax"])
def test_a_function_of_u_alone_has_rank_one_and_none_for_softmax(gauge):
    result = pod(lambda u, v: np.exp(u), (0, 1), gauge=gauge)
    assert result.rank == (0 if gauge else 1)
    assert result.converged
    if not gauge:
        assert result.sigma[0] == pytest.approx(np.sqrt((np.exp(2) - 1) / 2), rel=1e-13)


def test_min_for_softmax_has_the_values_of_a_beam():
    """K P K f = sigma² f, K = (-D²)⁻¹: sigma² D⁴f = f, f = Df = 0 at 0 and Df = D³f = 0 at 1.

    That is half of a beam clamped at both ends: sigma = 1/w² with tan w + tanh w = 0.
    """
    result = pod(np.minimum, (0, 1), gauge="softmax", max_rank=60)
    w = roots(lambda w: np.sin(w) + np.tanh(w) * np.cos(w), [((k - 0.5) * PI, k * PI) for k in K])
    assert result.converged
    np.testing.assert_allclose(result.sigma, w**-2.0, rtol=1e-10)
    assert honest(result, w**-2.0)


def test_a_product_in_two_dimensions_has_the_products_of_the_values():
    def one(u, v):
        return np.exp(-((u - v) ** 2))

    def two(u, v):
        return 1 / (2 + u * v)

    result = pod(lambda u, v: one(u[..., 0], v[..., 0]) * two(u[..., 1], v[..., 1]), [(0, 1)] * 2)
    side = legendre([(0, 1)], 60)
    truth = np.sort(np.outer(dense(one, side, side), dense(two, side, side)).ravel())[::-1]
    np.testing.assert_allclose(result.sigma, truth[: result.rank], rtol=0, atol=1e-12 * truth[0])
    significant = truth[: result.rank] > 1e-5 * truth[0]
    np.testing.assert_allclose(
        result.sigma[significant], truth[: result.rank][significant], rtol=1e-8
    )
    assert honest(result, truth)


def test_a_box_of_three_sides_has_the_products_of_the_values():
    rates = np.array([1.0, 0.5, 0.25])
    result = pod(lambda u, v: np.exp((u * v) @ rates), box((0, 1), (-1, 1), (0, 2)), rtol=1e-7)
    truth = np.ones(1)
    for rate, interval in zip(rates, [(0, 1), (-1, 1), (0, 2)], strict=True):
        side = legendre([interval], 24)
        values = dense(lambda u, v, rate=rate: np.exp(rate * u * v), side, side)
        truth = np.outer(truth, values).ravel()
    truth = np.sort(truth)[::-1]
    np.testing.assert_allclose(result.sigma, truth[: result.rank], rtol=0, atol=1e-7 * truth[0])


@pytest.mark.parametrize("rho", [gaussian, d3, lambda u, v: 1 / (1 + u + v)])
def test_a_union_of_intervals_agrees_with_a_dense_reference_on_both_pieces(rho):
    result = pod(rho, union((2, 3), (0, 1)))
    side = legendre([(0, 1), (2, 3)], 120)
    reference = dense(rho, side, side)
    np.testing.assert_allclose(
        result.sigma, reference[: result.rank], rtol=0, atol=1e-12 * reference[0]
    )


def test_a_kink_on_a_union_is_the_integral_of_the_overlap():
    """min on (0,1) u (2,3): its Gram kernel in u is smooth but for the diagonal of each piece."""
    result = pod(np.minimum, union((0, 1), (2, 3)), max_rank=20)
    # Nyström with the kink corrected by doubling: error falls as panels⁻⁴ when extrapolated once
    estimates = []
    for panels in (40, 80):
        cuts = [(p + i / panels, p + (i + 1) / panels) for p in (0, 2) for i in range(panels)]
        side = legendre(cuts, 2)
        estimates.append(dense(np.minimum, side, side)[:20])
    extrapolated = estimates[1] + (estimates[1] - estimates[0]) / 3
    np.testing.assert_allclose(result.sigma, extrapolated, rtol=0, atol=5e-6 * extrapolated[0])


def test_two_different_intervals_agree_with_a_dense_reference():
    def rho(u, v):
        return np.exp(-u * v) * np.cos(3 * u + v)

    result = pod(rho, (0, 1), (-1, 2))
    reference = dense(rho, legendre([(0, 1)], 64), legendre([(-1, 2)], 64))
    np.testing.assert_allclose(
        result.sigma, reference[: result.rank], rtol=0, atol=1e-12 * reference[0]
    )


@pytest.mark.parametrize("shape", [(40,), (40, 1), (40, 3)])
def test_samples_give_the_singular_values_of_their_matrix(shape):
    generator = np.random.default_rng(5)
    x, y = generator.normal(size=shape), generator.normal(size=(25, *shape[1:]))

    def rho(u, v):
        gap = np.abs(u - v)
        return np.exp(-gap) if len(shape) == 1 else np.exp(-gap.sum(-1))

    result = pod(rho, x, Samples(y))
    matrix = rho(x[:, None], y[None, :]) / np.sqrt(40 * 25)
    reference = np.linalg.svd(matrix, compute_uv=False)
    np.testing.assert_allclose(result.sigma, reference[: result.rank], rtol=1e-12, atol=1e-15)
    assert np.all(reference[result.rank :] <= 1e-12 * reference[0])
    np.testing.assert_allclose(result(x[:, None], y[None]), rho(x[:, None], y[None]), atol=1e-12)


def test_many_samples_of_a_smooth_coupling_agree_with_their_matrix():
    x = np.random.default_rng(6).uniform(size=1100)
    result = pod(gaussian, x)
    reference = np.linalg.svd(gaussian(x[:, None], x[None]), compute_uv=False) / 1100
    np.testing.assert_allclose(
        result.sigma, reference[: result.rank], rtol=0, atol=1e-12 * reference[0]
    )
    assert result.evaluations < 1100**2 / 2
    assert result.resolution > 0  # not every pair was asked for


def test_samples_of_the_plane_against_an_interval_agree_with_a_half_dense_reference():
    x = np.random.default_rng(7).normal(size=(30, 2))

    def rho(u, v):
        return np.exp(-((u[..., 0] - v) ** 2)) * np.cos(u[..., 1] * v)

    def swapped(u, v):
        return rho(v, u)

    v, weights = legendre([(0, 1)], 64)
    matrix = rho(x[:, None, :], v[None, :]) * np.sqrt(weights) / np.sqrt(30)
    reference = np.linalg.svd(matrix, compute_uv=False)
    for result in (pod(rho, x, (0, 1)), pod(swapped, (0, 1), x)):
        np.testing.assert_allclose(
            result.sigma, reference[: result.rank], rtol=0, atol=1e-12 * reference[0]
        )


@pytest.mark.parametrize("width", [1e-2, 1e-3, 1e-4])
def test_a_spike_with_tails_is_found_however_thin(width):
    """exp(-|·|²/2w²) is a product; both factors have norm (w √pi)^½ away from the ends."""
    result = pod(
        lambda u, v: np.exp(-((u - 0.3123) ** 2 + (v - 0.7) ** 2) / (2 * width**2)), (0, 1)
    )
    assert result.rank == 1
    assert result.sigma[0] == pytest.approx(width * np.sqrt(PI), rel=1e-11)


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e-30, 1e30, 1e200, 1e300])
@pytest.mark.parametrize("domain", [(0, 1), np.linspace(0, 1, 40)], ids=["interval", "samples"])
def test_the_values_scale_with_rho_however_large_or_small_it_is(size, domain):
    result, plain = pod(lambda u, v: size * d3(u, v), domain), pod(d3, domain)
    np.testing.assert_allclose(result.sigma / size, plain.sigma, rtol=1e-13)
    assert result.norm / size == pytest.approx(plain.norm, rel=1e-13)
    assert result.tail(1) / size == pytest.approx(plain.tail(1), rel=1e-13)
    np.testing.assert_allclose(np.abs(result.phi(0.3)), np.abs(plain.phi(0.3)), atol=1e-11)


def test_zero_has_no_singular_values():
    result = pod(lambda u, v: 0.0, (0, 1))
    assert (result.rank, result.norm, result.error, result.converged) == (0, 0.0, 0.0, True)
    assert result.tail(0) == 0.0
    assert result.phi(np.zeros(7)).shape == (7, 0)
    assert result(0.5, 0.5) == 0.0


def test_rho_is_asked_at_grid_times_rank_points_and_not_at_grid_squared():
    calls = 0

    def rho(u, v):
        nonlocal calls
        values = np.exp(-((u - v) ** 2).sum(-1) / (2 * 0.2**2))
        calls += values.size
        return values

    result = pod(rho, [(0, 1), (0, 1)])
    assert result.converged
    assert result.evaluations == calls
    assert result.evaluations < 12 * 1024 * result.rank
