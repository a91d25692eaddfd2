"""The POD of a target's own coupling against closed forms, the numerical POD and Monte Carlo."""

import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from unbounded import Normal

from attnrate.errors import InputError
from attnrate.targets import (
    AttentionTarget,
    FunctionCoupling,
    PositionedInputs,
    SpectralCoupling,
    UniformInputs,
    identity,
    nearest_point,
    spectral_target,
)
from attnrate.theory.basis import (
    CouplingBasis,
    coupling_basis,
    exact_factors,
    require_softmax,
    target_domain,
)
from attnrate.theory.complexity import lipschitz_of_F
from attnrate.theory.domain import Samples, box, union
from attnrate.theory.pod import pod


def target_of(function, length=4, inputs=None, d=1) -> AttentionTarget:
    return AttentionTarget(identity, identity, FunctionCoupling(function, d), length, inputs)


def wave(u, v):
    """Not symmetric, and with a mean over v that depends on u."""
    return torch.cos(3 * u * v)[..., 0] + torch.exp(2 * u)[..., 0] + (v * (u - v))[..., 0]


def measured(basis: CouplingBasis, r: int, n: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Σ_{s≠t} |delta|² and |delta|² at s = t, a mean over t for each of n sequences.

    delta is the difference of the logits, with the mean over v taken out by a rule of its own.
    """
    target = basis.target
    x = target.sample(n, seed=7)
    logits = target.logits(x)
    if basis.gauge == "softmax":
        axes = target_domain(target).axes[0]
        points, weights = zip(*(_legendre(a, b) for a, b in axes), strict=True)
        v, w = np.concatenate(points), np.concatenate(weights)
        rows = target.rho.outer(x, torch.from_numpy(v)[:, None])
        logits = logits - (rows @ torch.from_numpy(w / w.sum()))[..., None]
    delta = (logits - basis.query(x, r) @ basis.key(x, r).mT).numpy() ** 2
    diagonal = np.einsum("ntt->nt", delta)
    return (delta.sum(-1) - diagonal).mean(-1), diagonal.mean(-1)


def _legendre(a: float, b: float) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.legendre.leggauss(40)
    return (a + b) / 2 + (b - a) / 2 * nodes, (b - a) / 2 * weights


def agrees(estimates: np.ndarray, expected: float) -> bool:
    """Whether a mean of independent estimates is within 5 standard errors of `expected`."""
    off = abs(estimates.mean() - expected)
    return bool(off <= 5 * estimates.std() / len(estimates) ** 0.5 + 1e-15)


@pytest.mark.parametrize("gauge", [None, "softmax"])
@pytest.mark.parametrize(("alpha", "rank"), [(0.55, 6), (1.0, 12), (2.0, 5)])
def test_sec_5_1_in_closed_form_is_the_numerical_pod_of_the_same_function(alpha, rank, gauge):
    basis = coupling_basis(spectral_target(alpha, rank), gauge)
    k = np.arange(1, rank + 1)

    def rho(u, v):
        return sum(2 * i**-alpha * np.sin(2 * np.pi * i * u) * np.sin(2 * np.pi * i * v) for i in k)

    numerical = pod(rho, (0, 1), gauge=gauge)
    assert basis.sines
    assert basis.rank == numerical.rank == rank
    np.testing.assert_allclose(basis.sigma, numerical.sigma, atol=1e-10)
    u = np.linspace(0, 1, 101)
    phi = basis.phi(torch.from_numpy(u)[:, None]).numpy()
    sign = np.sign(np.sum(phi * numerical.phi(u), axis=0))
    np.testing.assert_allclose(phi, numerical.phi(u) * sign, atol=1e-9)
    np.testing.assert_allclose(phi, numerical.psi(u) * sign, atol=1e-9)


def test_a_spectral_coupling_away_from_the_unit_interval_has_no_sines():
    """On [0, 1/2] the functions sin 2πku are orthogonal still, with half the norm."""
    target = AttentionTarget(
        identity, identity, SpectralCoupling([1.0, 0.5]), 4, UniformInputs([0.0], [0.5])
    )
    basis = coupling_basis(target)
    assert not basis.sines
    plain = coupling_basis(target, None)
    np.testing.assert_allclose(plain.sigma, [0.5, 0.25], atol=1e-12)


@pytest.mark.parametrize("gauge", [None, "softmax"])
@pytest.mark.parametrize("r", [1, 2, 3])
@pytest.mark.parametrize(
    "make",
    [
        lambda: spectral_target(1.0, 6, length=5),
        lambda: target_of(wave, length=3),
        lambda: target_of(wave, length=6, inputs=UniformInputs([-1.0], [1.0])),
    ],
)
def test_energies_are_what_sequences_show(make, r, gauge):
    basis = coupling_basis(make(), gauge)
    pairs, diagonal = measured(basis, r)
    assert agrees(pairs, basis.pair_energy(r))
    assert agrees(diagonal, basis.diagonal_energy(r))


@given(st.integers(0, 12), st.floats(0.55, 3.0))
@settings(max_examples=25)
def test_the_diagonal_energy_of_sines_is_that_of_a_fine_rule(r, alpha):
    basis = coupling_basis(spectral_target(alpha, 12))
    x = (np.arange(4096) + 0.5) / 4096  # exact for the trigonometric polynomials in question
    k = np.arange(r + 1, 13)
    gap = np.sum(2 * k**-alpha * np.sin(2 * np.pi * x[:, None] * k) ** 2, axis=1)
    assert basis.diagonal_energy(r) == pytest.approx(np.mean(gap**2), rel=1e-12, abs=1e-20)


def test_nothing_is_left_at_full_rank():
    basis = coupling_basis(spectral_target(1.0, 6))
    assert basis.tail(6) == basis.pair_energy(6) == basis.diagonal_energy(6) == 0.0


@pytest.mark.parametrize("gauge", [None, "softmax"])
@pytest.mark.parametrize(
    "intervals", [((0.0, 1.0), (2.0, 3.0)), ((0.0, 0.1), (1.0, 2.0), (-1.0, -0.5))]
)
def test_with_positions_the_pair_energy_is_an_upper_bound_and_the_diagonal_exact(intervals, gauge):
    target = target_of(wave, len(intervals), PositionedInputs(intervals))
    basis = coupling_basis(target, gauge)
    for r in (1, 2, 3):
        pairs, diagonal = measured(basis, r)
        assert pairs.mean() <= basis.pair_energy(r)
        assert agrees(diagonal, basis.diagonal_energy(r))


def test_the_gauge_takes_out_what_depends_on_u_alone():
    def rho(u, v):
        return torch.exp(2 * u)[..., 0] + (u * v)[..., 0]

    with_gauge, without = (coupling_basis(target_of(rho), gauge) for gauge in ("softmax", None))
    assert (with_gauge.rank, without.rank) == (1, 2)
    # u (v - 1/2): 1/sqrt(3) times 1/sqrt(12)
    np.testing.assert_allclose(with_gauge.sigma, [1 / 6], atol=1e-12)
    assert with_gauge.diagonal_energy(1) < 1e-20


def test_a_coupling_that_softmax_cannot_see_has_rank_zero():
    basis = coupling_basis(target_of(lambda u, v: torch.exp(u)[..., 0]))
    assert basis.rank == 0
    assert basis.query(torch.zeros(5, 1).double(), 3).tolist() == [[0.0] * 3] * 5
    assert basis.diagonal_energy(2) < 1e-20


def test_tokens_live_where_the_law_says():
    assert target_domain(spectral_target(1.0, 2)) == box((0, 1))
    intervals = ((0.0, 1.0), (2.0, 3.0))
    positioned = target_of(wave, 2, PositionedInputs(intervals))
    assert target_domain(positioned) == union(*intervals)
    samples = target_domain(nearest_point(squared=True))
    assert isinstance(samples, Samples)
    assert samples.nodes.shape == (1024, 4)


def test_query_and_key_are_zero_beyond_the_rank():
    basis = coupling_basis(spectral_target(1.0, 2))
    x = torch.rand(7, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for side in (basis.query(x, 5), basis.key(x, 5)):
        assert side.shape == (7, 5)
        assert (side[:, :2] != 0).all()
        assert (side[:, 2:] == 0).all()


def test_exact_factors_exist_when_the_head_holds_them_all():
    target = spectral_target(1.0, 3)
    assert exact_factors(target, 2) is None
    left, right = exact_factors(target, 5)
    x = target.sample(2, 0)
    torch.testing.assert_close(left(x) @ right(x).mT, target.logits(x), rtol=1e-13, atol=1e-13)
    assert exact_factors(target_of(wave), 500) is None


def test_only_softmax_targets_of_eq_8_are_taken():
    hard = nearest_point(squared=True)
    assert require_softmax("target", hard.softened(2.0)).normalise == "softmax"
    with pytest.raises(InputError, match=r"softened\(beta\)") as caught:
        require_softmax("target", hard)
    assert caught.value.value == "hardmax"
    with pytest.raises(InputError, match=r"Eq\. 8"):
        require_softmax("target", spectral_target(1.0, 2).permuted(range(16)))


@given(st.one_of(st.text(), st.integers(), st.booleans(), st.lists(st.integers(), max_size=2)))
def test_other_gauges_are_refused(value):
    with pytest.raises(InputError, match="gauge") as caught:
        coupling_basis(spectral_target(1.0, 2), value)
    assert caught.value.value is value


def test_what_can_change_or_has_no_hash_is_computed_anew():
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.by = torch.nn.Parameter(torch.ones((), dtype=torch.float64))

        def forward(self, x):
            return self.by * x

    @dataclass
    class Plain:
        """A law without a hash."""

        d: int = 1
        low: tuple[float, ...] = (0.0,)
        high: tuple[float, ...] = (1.0,)

        def draw(self, n, length, generator):
            return torch.rand(n, length, 1, generator=generator, dtype=torch.float64)

    module = Scaled()
    target = replace(spectral_target(1.0, 2), F=module)
    before = lipschitz_of_F(target)
    with torch.no_grad():
        module.by.fill_(3.0)
    assert lipschitz_of_F(target) == pytest.approx(3 * before)
    unhashable = replace(spectral_target(1.0, 2), inputs=Plain())
    with pytest.raises(TypeError):
        hash(unhashable)
    assert coupling_basis(unhashable).sigma[0] == pytest.approx(1.0, rel=0.1)


def product(u, v):
    return (u * v).sum(-1)


def test_energies_of_unbounded_tokens_are_those_of_their_law():
    """u v with N(0, 1) tokens: E u²v² = 1 for s ≠ t, E x⁴ = 3 for s = t, with variances 8 and 96.

    2048 sequences of two tokens; each number is a mean plus two standard errors.
    """
    basis = coupling_basis(target_of(product, 2, Normal()), "none")
    assert basis.estimated
    assert basis.pair_energy(0) == pytest.approx(1.0, abs=7 * (8 / 2048) ** 0.5)
    assert basis.diagonal_energy(0) == pytest.approx(3.0, abs=7 * (96 / 4096) ** 0.5)
    assert basis.pair_energy(1) < 1e-20
    assert basis.diagonal_energy(1) < 1e-20


def test_energies_of_long_sequences_are_measured_at_some_of_their_positions():
    short, long = (coupling_basis(target_of(product, n, Normal()), "none") for n in (2, 1000))
    assert long.pair_energy(0) / 999 == pytest.approx(short.pair_energy(0), rel=0.3)


def test_energies_of_samples_are_not_those_that_made_the_basis():
    """A truncation is measured at fresh tokens: within the samples it would look too small."""
    basis = coupling_basis(target_of(lambda u, v: torch.exp(-(product(u - v, u - v))), 2, Normal()))
    fresh, within = basis.pair_energy(12), basis.tail(12) ** 2
    assert fresh > within


def test_a_basis_can_be_pickled_where_its_target_can():
    for target in (spectral_target(1.0, 3), target_of(product), target_of(product, 2, Normal())):
        basis = coupling_basis(target)
        again = pickle.loads(pickle.dumps(basis))  # noqa: S301 - our own, just made
        x = target.sample(3, 0)
        assert torch.equal(again.query(x, 3), basis.query(x, 3))
        assert again.diagonal_energy(0) == basis.diagonal_energy(0)
