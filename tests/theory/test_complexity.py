"""C0, C1, C2 and the sizes they are made of, against what can be worked out by hand."""

import pickle
from dataclasses import dataclass, field
from itertools import pairwise
from math import cos, pi, sqrt

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
    centre_of_gravity,
    identity,
    nearest_point,
    spectral_coupling,
    spectral_target,
)
from attnrate.theory.basis import coupling_basis
from attnrate.theory.complexity import (
    complexity,
    decay_exponent,
    envelope,
    lipschitz_of_F,
    radius_of_f,
)
from attnrate.theory.feedforward import FAMILIES, Sobolev


def target_of(F=identity, f=identity, rho=None, length=4, inputs=None) -> AttentionTarget:
    return AttentionTarget(F, f, rho or spectral_coupling(1.0, 3), length, inputs)


def test_the_envelope_is_the_least_constant_above_the_spectrum():
    assert envelope(np.array([3.0, 1.0, 0.5]), 2.0) == pytest.approx(4.5)
    assert envelope(np.array([3.0, 0.1]), 2.0) == pytest.approx(3.0, rel=1e-14)
    assert envelope(np.ones(6), 20.0) == pytest.approx(6.0**20, rel=1e-13)
    assert envelope(np.array([]), 1.0) == 0.0


@given(st.floats(0.52, 6.0), st.integers(2, 60), st.floats(0.1, 10.0))
@settings(max_examples=60)
def test_a_power_law_has_its_exponent_and_its_constant(alpha, rank, scale):
    sigma = scale * np.arange(1, rank + 1) ** -alpha
    assert decay_exponent(sigma) == pytest.approx(alpha, rel=1e-9)
    assert envelope(sigma, alpha) == pytest.approx(scale, rel=1e-12)


@given(st.lists(st.floats(0.0, 5.0), max_size=12).map(lambda s: sorted(s, reverse=True)))
def test_every_inferred_exponent_is_allowed_by_the_theorem(sigma):
    assert decay_exponent(np.array(sigma)) > 0.5


@pytest.mark.parametrize("alpha", [0.55, 1.0])
@pytest.mark.parametrize("rank", [2, 6, 256])
def test_fig_1(alpha, rank):
    measures = complexity(spectral_target(alpha, rank))
    assert pytest.approx(2 * sqrt(2), rel=1e-12) == measures.C0
    assert measures.C1 == measures.C1_plain == pytest.approx(1.0)
    assert measures.alpha == pytest.approx(alpha)
    assert (measures.K_F, measures.sup_f) == (1.0, 1.0)
    # √2 sin 2πiu has |second derivative| <= √2 (2πi)²; F = f = id cost nothing
    expected = sum(2 * sqrt(2) * (2 * pi * i) ** 2 / 8 for i in (1, 2))
    assert measures.C2(2) == pytest.approx(expected, rel=1e-9)
    assert measures.beta == 2.0


def test_C2_counts_F_and_f_once_and_stops_at_the_rank():
    target = target_of(lambda y: torch.sin(3 * y), torch.square, spectral_coupling(1.0, 2))
    measures = complexity(target)
    # sup |(sin 3y)''| over [0, 1] is 9, reached inside; (x²)'' = 2
    outer, inner = 9 / 8, 2 / 8
    sines = [2 * sqrt(2) * (2 * pi * i) ** 2 / 8 for i in (1, 2)]
    assert measures.C2(1) == pytest.approx(outer + inner + sines[0], rel=6e-3)
    assert measures.C2(2) - measures.C2(1) == pytest.approx(sines[1], rel=1e-12)
    assert measures.C2(9) == measures.C2(2)


def test_C2_away_from_the_unit_interval_is_that_of_the_bases_there():
    """On [0, 1/2] the bases are 2 sin 2πku; the sines with √2 would give too little."""
    half = UniformInputs([0.0], [0.5])
    target = target_of(rho=SpectralCoupling([1.0, 0.5]), inputs=half)
    expected = [2 * 0.25 / 8 * 2 * (2 * pi * i) ** 2 for i in (1, 2)]
    measures = complexity(target, gauge=None)
    assert measures.C2(1) == pytest.approx(expected[0], rel=6e-3)
    assert measures.C2(2) == pytest.approx(sum(expected), rel=6e-3)


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_C2_grows_with_k_in_every_family(name):
    measures = complexity(spectral_target(1.0, 4), family=name)
    values = [measures.C2(k) for k in (1, 2, 3, 4)]
    assert all(a < b for a, b in pairwise(values))
    assert measures.family == name
    assert measures.beta == FAMILIES[name].beta
    assert np.isfinite(values).all()


def test_a_family_can_be_an_instance():
    assert complexity(spectral_target(1.0, 2), family=Sobolev(3)).beta == 3.0


def test_the_gauge_does_not_raise_C1():
    def rho(u, v):
        return (torch.cos(3 * u * v) + torch.exp(2 * u))[..., 0]

    target = target_of(rho=FunctionCoupling(rho))
    for alpha in (0.6, 1.0, 2.0, 4.0):
        measures = complexity(target, alpha)
        assert measures.C1_plain > measures.C1
        assert measures.C1_plain == complexity(target, alpha, gauge=None).C1


@given(st.integers(0, 4), st.floats(-3, 3), st.floats(0.51, 4.0))
@settings(max_examples=15)
def test_C1_with_the_gauge_is_never_above_C1_without(power, size, alpha):
    """σ_k(ρP) <= σ_k(ρ) for the projection P, so every envelope falls."""

    def rho(u, v):
        return (size * u**power + torch.exp(-((u - v) ** 2)))[..., 0]

    measures = complexity(target_of(rho=FunctionCoupling(rho)), alpha)
    assert measures.C1_plain * (1 + 1e-9) >= measures.C1


@pytest.mark.parametrize(
    ("F", "f", "inputs", "K_F"),
    [
        (identity, identity, None, 1.0),
        (lambda y: torch.sin(3 * y), identity, None, 3.0),
        (torch.square, identity, UniformInputs([-1.0], [3.0]), 6.0),
        (lambda y: torch.sin(3 * y), torch.square, UniformInputs([0.5], [0.7]), 3 * cos(0.75)),
        (lambda y: 5 * y, lambda x: torch.cat([x, x], -1), None, 5.0),
        (lambda y: y.sum(-1, keepdim=True), lambda x: torch.cat([x, -x], -1), None, sqrt(2)),
        (lambda y: torch.ones_like(y), identity, None, 0.0),
        (lambda y: torch.cat([y, 2 * y], -1), identity, None, sqrt(5)),
    ],
)
def test_the_lipschitz_constant_of_F(F, f, inputs, K_F):
    assert lipschitz_of_F(target_of(F, f, inputs=inputs)) == pytest.approx(K_F, rel=1e-6)


def test_the_lipschitz_constant_of_the_norm_is_one():
    assert lipschitz_of_F(centre_of_gravity()) == pytest.approx(1.0)


def test_K_F_does_not_need_gradients_to_be_on():
    target = target_of(lambda y: torch.sin(2 * y))
    with torch.no_grad():
        assert lipschitz_of_F(target) == pytest.approx(2.0)


@pytest.mark.parametrize("F", [torch.sqrt, lambda y: y.abs().sqrt()])
def test_an_F_that_is_not_lipschitz_is_refused_with_the_place(F):
    with pytest.raises(InputError, match="no finite derivative") as caught:
        complexity(target_of(F))
    assert caught.value.value == [0.0]


@pytest.mark.parametrize(
    ("f", "inputs", "radius"),
    [
        (identity, None, 0.5),
        (identity, UniformInputs([-1.0], [3.0]), 2.0),
        (lambda x: 7 + 0 * x, None, 0.0),
        (lambda x: torch.sin(pi * x), None, 0.5),
        (lambda x: torch.cat([x, 2 * x], -1), None, sqrt(1.25)),
        (identity, PositionedInputs(((0.0, 1.0), (2.0, 3.0), (8.0, 9.0), (5.0, 6.0))), 4.5),
    ],
)
def test_the_radius_of_f(f, inputs, radius):
    assert radius_of_f(target_of(f=f, inputs=inputs)) == pytest.approx(radius, abs=1e-6)


@given(st.floats(0.1, 20.0), st.floats(-3.0, 3.0))
@settings(max_examples=40)
def test_sizes_on_grids_miss_next_to_nothing(frequency, phase):
    """K_F and R_f are maxima over grids, thus below the truth: by less than 1e-4 of it here."""
    target = target_of(lambda y: torch.sin(frequency * y + phase))
    t = np.linspace(0, 1, 200001)
    slope = np.max(np.abs(frequency * np.cos(frequency * t + phase)))
    assert lipschitz_of_F(target) == pytest.approx(slope, rel=1e-4)
    bent = target_of(f=lambda x: torch.sin(frequency * x + phase))
    values = np.sin(frequency * t + phase)
    assert radius_of_f(bent) == pytest.approx(np.ptp(values) / 2, rel=1e-4)


def test_the_largest_basis_is_measured_where_it_is():
    """u v on [0, 1] without the gauge: phi = psi = √3 u, which is largest at the end."""
    target = target_of(rho=FunctionCoupling(lambda u, v: (u * v)[..., 0]))
    assert complexity(target, gauge=None).sup_bases == pytest.approx(2 * sqrt(3), rel=1e-9)


def bilinear(u, v):
    return (u * v).sum(-1)


@pytest.mark.parametrize("d", [2, 3])
def test_C2_in_several_dimensions_by_hand(d):
    """F(y) = sin 3y and f(x) = x_1 x_2: |F''| <= 9, |D²f| = 1. The bases are linear: they are free.

    With d variables beta = 2/d; a grid of one cell needs 7 units for d = 2 and 31 for d = 3.
    """
    target = target_of(
        lambda y: torch.sin(3 * y),
        lambda x: x[..., :1] * x[..., 1:2],
        FunctionCoupling(bilinear, d),
    )
    measures = complexity(target)
    assert measures.C0 >= 1
    # v_i - 1/2 against u_i: d terms
    assert coupling_basis(target).rank == d
    assert measures.beta == 2 / d
    # n cells begin at this many units: up to one less, m_ff^beta / n² is largest for n = 1
    before_two = {2: 15, 3: 97}[d]
    assert measures.of_f() == pytest.approx(before_two ** (2 / d) * d / 8, rel=1e-9)
    assert measures.of_F() == pytest.approx(9 / 8, rel=6e-3)
    np.testing.assert_allclose(measures.of_bases(d + 1), 0.0, atol=1e-3)


def test_C2_of_separable_bases_is_that_of_each_factor():
    """Bases 2 sin 2πu_1 sin 2πu_2: at a crest D² is -2 (2π)² I."""

    def rho(u, v):
        return (torch.sin(2 * pi * u) * torch.sin(2 * pi * v)).prod(-1)

    target = target_of(f=lambda x: x[..., :1], rho=FunctionCoupling(rho, 2))
    found = complexity(target, gauge=None).of_bases(1)[0]
    exact = 15 * 2 * (2 / 8) * 2 * (2 * pi) ** 2
    assert exact * (1 - 1e-5) <= found <= 1.02 * exact


def test_C2_of_a_vector_f_is_the_root_of_the_sum_of_squares():
    target = target_of(
        lambda y: torch.cat([y[..., :1] ** 2, y[..., 1:] ** 2], -1),
        lambda x: torch.cat([x[..., :1] ** 2, 3 * x[..., 1:] ** 2], -1),
        FunctionCoupling(bilinear, 2),
    )
    measures = complexity(target)
    assert measures.of_f() == pytest.approx(15 * 2 / 8 * sqrt(2**2 + 6**2), rel=1e-6)
    # F on [0, 1] x [0, 3]: 2 and 2 · 3² in units of the box
    assert measures.of_F() == pytest.approx(15 * 2 / 8 * sqrt(2**2 + 18**2), rel=1e-6)


def test_C2_on_two_intervals_is_the_larger_for_networks_that_bridge_the_gap():
    """f = x² on [0, 1] and [2, 4]: 2² · 2 / 8 on the second. m_ff = 4 leaves one piece each."""
    inputs = PositionedInputs(((0.0, 1.0), (2.0, 4.0)))
    measures = complexity(target_of(f=torch.square, length=2, inputs=inputs))
    assert measures.of_f() == pytest.approx(4**2 * 1.0, rel=6e-3)
    assert measures.C2(1) > measures.of_f()


@pytest.mark.parametrize("name", ["barron", "klusowski-barron", "sobolev"])
def test_every_family_has_a_C2_in_two_dimensions(name):
    target = target_of(f=lambda x: x[..., :1], rho=FunctionCoupling(bilinear, 2))
    measures = complexity(target, family=name)
    assert measures.beta == {"barron": 0.5, "klusowski-barron": 1.0, "sobolev": 1.0}[name]
    assert 0 < measures.C2(1) < measures.C2(2)


def test_four_dimensions_have_no_C2():
    four = target_of(f=lambda x: x[..., :1], rho=FunctionCoupling(bilinear, 4))
    wide = target_of(f=lambda x: x.expand(*x.shape[:-1], 4), F=lambda y: y[..., :1])
    for target, value in ((four, (4, 1)), (wide, (1, 4))):
        with pytest.raises(InputError, match=r"at most 3 variables.*Leave m_ff out") as caught:
            complexity(target).C2(1)
        assert caught.value.value == value


def test_a_complexity_prints_its_numbers():
    text = str(complexity(spectral_target(1.0, 6)))
    assert "C0 = 2.828" in text
    assert "C1^(1) = 1" in text
    assert "beta = 2" in text


@given(st.one_of(st.floats(max_value=0.5), st.just(np.nan), st.just(np.inf), st.text(max_size=3)))
def test_exponents_of_one_half_or_less_are_refused_with_the_value(alpha):
    with pytest.raises(InputError, match=r"alpha must be a finite number greater") as caught:
        complexity(spectral_target(1.0, 2), alpha)
    assert caught.value.value is alpha


@given(st.one_of(st.integers(max_value=0), st.floats(), st.booleans(), st.none()))
def test_counts_of_bases_that_are_none_are_refused(k):
    with pytest.raises(InputError, match="k must be a whole number") as caught:
        complexity(spectral_target(1.0, 2)).C2(k)
    assert caught.value.value is k


def test_other_wrong_requests():
    target = spectral_target(1.0, 2)
    with pytest.raises(InputError, match="family is not known"):
        complexity(target, family="fourier")
    with pytest.raises(InputError, match="gauge is not known"):
        complexity(target, gauge="argmax")
    with pytest.raises(InputError, match="softened"):
        complexity(nearest_point())


def test_unbounded_tokens_have_estimates_that_say_so_and_no_C2():
    target = target_of(inputs=Normal())
    measures = complexity(target)
    assert measures.estimated
    assert "1024 sampled tokens" in str(measures)
    # the largest of 1024 standard normal numbers is about 3.2
    assert measures.sup_f == pytest.approx(3.2, abs=1.0)
    with pytest.raises(InputError, match="Leave m_ff out"):
        measures.C2(1)
    assert not complexity(target_of()).estimated


@dataclass
class Own:
    """A family of one's own: the square root of the oscillation; a dataclass without a hash."""

    name: str = "own"
    beta: float = 1.0
    norm: str = "sup"
    statement: str = "Nobody has shown this."
    certified: bool = False
    asked: list[int] = field(default_factory=list)

    def complexity(self, g, interval=(0.0, 1.0)):
        self.asked.append(1)
        return float(np.ptp(g(np.linspace(*interval, 101))) ** 0.5)

    def rate(self, g, m_ff, interval=(0.0, 1.0)):
        return self.complexity(g, interval) / m_ff


def test_a_family_of_ones_own_is_used():
    """√2 sin 2πku spans 2√2, so each basis has 8^(1/4), twice; f and F of id have 1 each."""
    measures = complexity(spectral_target(1.0, 3), family=Own())
    assert (measures.family, measures.beta) == ("own", 1.0)
    assert measures.C2(2) == pytest.approx(2 + 4 * 8**0.25, rel=1e-3)


def test_a_family_of_ones_own_for_one_variable_says_what_it_lacks():
    target = target_of(f=lambda x: x[..., :1], rho=FunctionCoupling(bilinear, 2))
    with pytest.raises(InputError, match=r"'own' .* in_dimension"):
        complexity(target, family=Own()).C2(1)


def test_a_complexity_can_be_pickled_and_prints_as_its_text():
    measures = complexity(spectral_target(1.0, 6))
    again = pickle.loads(pickle.dumps(measures))  # noqa: S301 - our own, just made
    assert again == measures
    assert again.C2(3) == measures.C2(3)
    assert repr(measures) == str(measures)


def test_long_measurements_show_where_they_are(on_a_terminal, monkeypatch):
    monkeypatch.setattr("attnrate.theory.complexity.QUIET", 0.0)
    measures = complexity(spectral_target(1.0, 3), family="barron")
    assert "measuring phi and psi" in on_a_terminal(lambda: measures.C2(3))


@given(st.integers(1, 40), st.integers(1, 60))
@settings(max_examples=20)
def test_the_sines_have_the_complexity_of_each_by_itself(rank, k):
    """√2 sin 2πiu: (1/8) √2 (2πi)², for phi and for psi; nothing beyond the rank."""
    expected = [sqrt(2) * (2 * pi * i) ** 2 / 4 if i <= rank else 0.0 for i in range(1, k + 1)]
    found = complexity(spectral_target(1.0, rank)).of_bases(k)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
