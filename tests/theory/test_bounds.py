"""Theorem 4.1: the rigorous form holds for everything compiled, the printed one does not."""

import copy
import pickle
from functools import lru_cache
from math import pi, sqrt

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from unbounded import Normal

from attnrate.errors import AccuracyWarning, InputError
from attnrate.targets import (
    AttentionTarget,
    FunctionCoupling,
    PositionedInputs,
    SpectralCoupling,
    UniformInputs,
    centre_of_gravity,
    identity,
    nearest_point,
    selection,
    spectral_coupling,
    spectral_target,
)
from attnrate.theory.bounds import best_split, jackson_bound, parameters_of
from attnrate.theory.compile import compile_target
from attnrate.theory.complexity import complexity

NORMS = ("l1", "mse")
HEADS = range(1, 9)
FRESH = 99


def sine(y):
    return torch.sin(3 * y)


def wave(u, v):
    return (torch.cos(3 * u * v) + torch.exp(2 * u))[..., 0]


def gaussian(u, v):
    return torch.exp(-((u - v).square().sum(-1)) / 0.5)


def minimum(u, v):
    return torch.minimum(u, v)[..., 0]


def lopsided(u, v):
    return (4 * torch.sin(5 * u + 3 * v) * torch.exp(u - 2 * v))[..., 0]


def made(F, f, rho, length, inputs=None, d=1) -> AttentionTarget:
    coupling = FunctionCoupling(rho, d) if callable(rho) and not hasattr(rho, "d") else rho
    return AttentionTarget(F, f, coupling, length, inputs)


@lru_cache(maxsize=4)
def fresh(target: AttentionTarget, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = target.sample(n, FRESH)
    return x, target(x)


def measured(target: AttentionTarget, m_h: int, m_ff: int | None, n: int, **options) -> dict:
    """Both errors of the compiled Transformer, means over n sequences that it has not seen."""
    x, y = fresh(target, n)
    with torch.no_grad():
        gap = (compile_target(target, m_h, m_ff, **options)(x) - y).norm(dim=-1)
    return {"l1": float(gap.sum(-1).mean()), "mse": float(gap.square().mean())}


def assert_bounded(target: AttentionTarget, m_h: int, m_ff: int | None, n=1000, **options) -> None:
    errors = measured(target, m_h, m_ff, n, **options)
    for norm in NORMS:
        bound = jackson_bound(target, m_h, m_ff, norm, **options)
        assert errors[norm] <= bound.value, (norm, m_h, m_ff)


def assert_bounded_over_the_grid(target: AttentionTarget, **options) -> None:
    for m_h in HEADS:
        assert_bounded(target, m_h, None, **options)
    for m_h, m_ff in ((1, 8), (1, 64), (3, 64), (8, 8), (8, 64)):
        assert_bounded(target, m_h, m_ff, **options)


SMOOTH = {
    f"spectral {alpha} rank {rank} length {length}": (alpha, rank, length)
    for alpha in (0.55, 1.0, 2.0)
    for rank in (1, 2, 6, 40)
    for length in (2, 8, 16)
}


@pytest.mark.parametrize("name", SMOOTH)
def test_the_rigorous_form_bounds_spectral_targets(name):
    assert_bounded_over_the_grid(spectral_target(*SMOOTH[name]))


OTHERS = {
    "sin(3y) of x²": made(sine, torch.square, spectral_coupling(1.0, 6), 8),
    "small spectrum": made(sine, torch.square, SpectralCoupling([0.01, 0.003, 0.001]), 8),
    "large spectrum": made(sine, sine, SpectralCoupling([9.0, 8.0, 7.0, 6.0]), 4),
    "cos(3uv) + exp(2u)": made(sine, torch.square, wave, 8),
    "gaussian": made(torch.square, sine, gaussian, 4),
    "lopsided": made(sine, identity, lopsided, 5),
    "wide inputs": made(sine, torch.sin, wave, 3, UniformInputs([-1.0], [1.5])),
    "sines on half": made(
        identity, identity, spectral_coupling(1.0, 6), 4, UniformInputs([0], [0.5])
    ),
    "alone": made(sine, torch.square, wave, 1),
}


@pytest.mark.parametrize("gauge", ["softmax", None])
@pytest.mark.parametrize("name", OTHERS)
def test_the_rigorous_form_bounds_smooth_targets(name, gauge):
    assert_bounded_over_the_grid(OTHERS[name], gauge=gauge)


RANK_ONLY = {
    "min(u, v)": made(sine, torch.square, minimum, 8),
    "positions": made(
        sine, torch.square, wave, 3, PositionedInputs(((0, 1), (1.5, 2), (-1, -0.8)))
    ),
    "two dimensions": made(sine, lambda x: x[..., :1] * x[..., 1:], gaussian, 4, d=2),
    "two dimensions in and out": made(identity, identity, gaussian, 6, d=2),
}


@pytest.mark.parametrize("gauge", ["softmax", None])
@pytest.mark.parametrize("name", RANK_ONLY)
def test_the_rank_term_bounds_targets_of_several_variables_and_kinks(name, gauge):
    for m_h in HEADS:
        assert_bounded(RANK_ONLY[name], m_h, None, gauge=gauge)


@pytest.mark.parametrize(
    "target", [nearest_point(squared=True).softened(3.0), selection(), centre_of_gravity()]
)
def test_graph_targets_keep_below_the_estimate_that_samples_give(target):
    for m_h in (1, 3, 8):
        assert_bounded(target, m_h, None, n=300)


@given(
    st.lists(st.floats(0.0, 6.0), min_size=1, max_size=10).map(lambda s: sorted(s, reverse=True)),
    st.integers(1, 9),
    st.integers(1, 12),
    st.one_of(st.none(), st.integers(1, 80)),
    st.sampled_from([identity, sine, torch.square]),
    st.sampled_from([identity, sine, torch.square]),
)
@settings(max_examples=80)
def test_the_rigorous_form_bounds_any_spectrum(sigma, length, m_h, m_ff, F, f):
    target = made(F, f, SpectralCoupling(sigma), length)
    assert_bounded(target, m_h, m_ff, n=300)


@given(
    st.lists(st.floats(-30, 30), min_size=1, max_size=8),
    st.lists(st.floats(-9, 9), min_size=8, max_size=8),
)
@settings(max_examples=300)
def test_softmax_moves_by_the_largest_change_at_most(z, d):
    """The lemma of the module's docstring; with half the range, since constants do nothing."""
    z, d = torch.tensor(z).double(), torch.tensor(d[: len(z)]).double()
    moved = (torch.softmax(z + d, 0) - torch.softmax(z, 0)).abs().sum()
    assert moved <= (d.max() - d.min()) / 2 + 1e-14


def test_the_lemma_cannot_be_improved():
    for size in (0.1, 0.01, 0.001):
        d = torch.tensor([size, -size]).double()
        moved = (torch.softmax(d, 0) - 0.5).abs().sum()
        assert moved == pytest.approx(size, rel=size)


def test_the_rank_term_by_hand():
    """(K_F R_f)² ((tau-1) Σσ² + (Σσ)² + ½ Σσ²) beyond m_h, with K_F = 3 and R_f = 1/2."""
    target = made(sine, torch.square, SpectralCoupling([1.0, 0.5, 0.25, 0.125]), 5)
    squares, total = 0.25**2 + 0.125**2, 0.375
    expected = (3 / 2) ** 2 * (4 * squares + total**2 + squares / 2)
    mse, l1 = (jackson_bound(target, 2, norm=norm) for norm in ("mse", "l1"))
    assert mse.value == mse.rank_term == pytest.approx(expected, rel=1e-9)
    assert l1.value == l1.rank_term == pytest.approx(5 * sqrt(expected), rel=1e-9)
    assert mse.feedforward_term == l1.feedforward_term == 0.0


def test_the_two_terms_add_up():
    target = spectral_target(1.0, 6)
    l1, mse = (jackson_bound(target, 3, 200, norm) for norm in NORMS)
    assert l1.value == pytest.approx(l1.rank_term + l1.feedforward_term)
    assert sqrt(mse.value) == pytest.approx(sqrt(mse.rank_term) + sqrt(mse.feedforward_term))
    assert l1.value == pytest.approx(16 * sqrt(mse.value))


def test_the_feed_forward_term_falls_with_the_square_of_m_ff():
    target = spectral_target(1.0, 6)
    sizes = (10_000, 20_000)
    terms = [jackson_bound(target, 3, m_ff, "l1").feedforward_term for m_ff in sizes]
    assert terms[0] / terms[1] == pytest.approx(4.0, rel=1e-3)


@pytest.mark.parametrize("alpha", [0.75, 1.0, 1.5, 2.0])
def test_what_falls_with_the_paper_s_exponent_and_what_does_not(alpha):
    """Pairs s ≠ t: mse m_h^-(2α-1), so m_h^-(α-½) in L1. The pair s = t: m_h^-(2α-2), α > 1.

    rho(x, x) is a sum of σ, not of σ², so the pair that Eq. 46 overlooks is the slower one, and it
    does not fall at all for α <= 1 as the rank grows. One more position adds the pairs s ≠ t of one
    position, hence the difference of the bounds for lengths 3 and 2 is the share of one pair.
    """
    rank, heads = 1 << 17, np.array([16, 32, 64, 128])
    two, three = (spectral_target(alpha, rank, length) for length in (2, 3))
    mse = {
        t: np.array([jackson_bound(t, int(m), norm="mse").value for m in heads])
        for t in (two, three)
    }
    slopes = {
        "pairs": np.polyfit(np.log(heads), np.log(mse[three] - mse[two]), 1)[0],
        "diagonal": np.polyfit(np.log(heads), np.log(2 * mse[two] - mse[three]), 1)[0],
    }
    assert slopes["pairs"] == pytest.approx(-(2 * alpha - 1), abs=0.05)
    if alpha > 1:
        assert slopes["diagonal"] == pytest.approx(-(2 * alpha - 2), abs=0.05)
    else:
        assert slopes["diagonal"] > -0.3


@given(st.lists(st.floats(0.0, 3.0), min_size=1, max_size=9).map(lambda s: sorted(s, reverse=True)))
@settings(max_examples=40)
def test_a_larger_head_never_has_a_larger_bound_when_rho_is_positive_definite(sigma):
    target = made(identity, identity, SpectralCoupling(sigma), 4)
    values = [jackson_bound(target, m_h).value for m_h in range(1, 11)]
    assert values == sorted(values, reverse=True)


def test_otherwise_a_larger_head_can_have_a_larger_bound():
    """g(u) g(v) - h(u) h(v) with g² = h² nearly everywhere vanishes at u = v, its terms do not.

    Cutting between the two costs more on the pair s = t than it gains on the pairs s ≠ t.
    """

    def rho(u, v):
        def parts(x):
            bump = torch.exp(-1000 * (x - 0.3) ** 2)
            return torch.exp(-1000 * (x - 0.7) ** 2), bump, bump * torch.tanh(300 * (x - 0.3))

        (e, g, h), (E, G, H) = parts(u[..., 0]), parts(v[..., 0])
        return 5 * e * E + g * G - h * H

    target = made(identity, identity, rho, 2)
    one, two, three = (jackson_bound(target, m_h).value for m_h in (1, 2, 3))
    assert one < two
    assert three < 1e-9


def test_the_printed_form_is_eq_17():
    """τ² C0 (C1 / m_h^(2α-1) + C2(m_h) m_h^(β+1) / m_ff^β) for Fig. 1 with α = 1, by hand."""
    bound = jackson_bound(spectral_target(1.0, 6), 3, 64, form="printed")
    C2 = sum(2 * sqrt(2) * (2 * pi * i) ** 2 / 8 for i in (1, 2, 3))
    scale = 16**2 * 2 * sqrt(2)
    assert bound.rank_term == pytest.approx(scale / 3, rel=1e-9)
    assert bound.feedforward_term == pytest.approx(scale * C2 * 3**3 / 64**2, rel=1e-9)
    assert bound.value == pytest.approx(bound.rank_term + bound.feedforward_term)


def test_the_printed_form_takes_alpha_and_the_family():
    target = spectral_target(1.0, 6)
    bound = jackson_bound(target, 2, form="printed", alpha=3.0)
    assert bound.value == pytest.approx(16**2 * 2 * sqrt(2) * 6.0**2 / 2**5, rel=1e-9)
    barron = jackson_bound(target, 1, 100, form="printed", family="barron")
    wider = jackson_bound(target, 1, 400, form="printed", family="barron")
    assert barron.feedforward_term == pytest.approx(2 * wider.feedforward_term)


@pytest.mark.parametrize("m_h", [8, 16, 32])
def test_the_printed_form_fails_for_a_power_law(m_h):
    """σ_k = k^-3, two tokens: the proof's construction has a larger L1 error than Eq. 17 allows.

    Eq. 46 needs the mean of |rho - rho_m|, and Eq. 47-50 insert Σ_{k>m} σ_k² where its root
    belongs: m^-5 instead of m^-5/2. The pair s = t, which Eq. 46 treats as any other, adds
    Σ_{k>m} σ_k, about m^-2 / 2. The bases are exact here, so nothing but the rank is to blame. It
    is the error of the construction of the proof, not of the best Transformer: the proof is
    refuted by it, and the theorem left without one.
    """
    target = spectral_target(3.0, 256, length=2)
    x = target.sample(4000, FRESH)
    errors = (compile_target(target, m_h)(x) - target(x)).detach().norm(dim=-1).sum(-1)
    least = float(errors.mean() - 5 * errors.std() / 4000**0.5)
    assert least > 1.5 * jackson_bound(target, m_h, form="printed").value
    assert float(errors.mean()) <= jackson_bound(target, m_h, norm="l1").value


def test_the_printed_form_fails_for_a_finite_spectrum_and_a_large_alpha():
    """Every α > 1/2 is allowed. Six equal singular values, α = 20: C1 = 6^20, not squared.

    The printed bound at m_h = 5 is τ² C0 6^20 / 5^39, below 1e-8; a sixth of rho is missing.
    """
    target = made(identity, identity, SpectralCoupling(np.ones(6)), 16)
    printed = jackson_bound(target, 5, form="printed", alpha=20.0)
    assert printed.value == pytest.approx(16**2 * 2 * sqrt(2) * 6.0**20 / 5.0**39, rel=1e-9)
    assert printed.value < 1e-8
    assert measured(target, 5, None, 500)["l1"] > 0.1


def test_a_bound_says_when_it_says_nothing():
    idle, useful = (
        jackson_bound(spectral_target(0.55, 40), 1, norm="l1"),
        jackson_bound(spectral_target(2.0, 6), 5, norm="l1"),
    )
    # F = f = id on [0, 1]: no output is farther than 1 from another, at any of 16 positions
    assert idle.trivial == pytest.approx(16.0)
    assert "so it says nothing" in str(idle)
    assert "so it says nothing" not in str(useful)
    assert jackson_bound(spectral_target(2.0, 6), 5, norm="mse").trivial == pytest.approx(1.0)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("rank", "parameters"), [(1, 30), (6, 30), (1, 300), (6, 300)])
def test_no_split_of_the_parameters_is_better(rank, parameters, norm):
    target = spectral_target(1.0, rank, length=4)
    best = best_split(target, parameters, norm)
    assert best.parameters == parameters_of(best.m_h, best.m_ff) <= parameters
    for m_h in range(1, rank + 3):
        widths = [m for m in range(1, 200) if parameters_of(m_h, m) <= parameters]
        for m_ff in widths:
            assert best.bound.value <= jackson_bound(target, m_h, m_ff, norm).value


@given(st.integers(1, 6), st.integers(1, 40))
@settings(max_examples=25)
def test_parameters_are_those_of_the_compiled_transformer(m_h, m_ff):
    model = compile_target(spectral_target(1.0, 3), m_h, m_ff)
    assert parameters_of(m_h, m_ff) == model.parameter_count()


def test_parameters_in_several_dimensions():
    model = compile_target(selection(), 3, 10)
    assert parameters_of(3, 10, d=6, inner=2, out=2) == model.parameter_count()


@given(st.integers(1, parameters_of(1, 1) - 1))
def test_too_few_parameters_are_refused_with_the_least_number(parameters):
    with pytest.raises(InputError, match=f"at least {parameters_of(1, 1)}") as caught:
        best_split(spectral_target(1.0, 2), parameters)
    assert caught.value.value == parameters


def test_the_smallest_split_has_the_least_number():
    split = best_split(spectral_target(1.0, 2), parameters_of(1, 1))
    assert (split.m_h, split.m_ff) == (1, 1)
    assert "m_h = 1, m_ff = 1" in str(split)


def planes(u, v):
    return torch.sin(2 * u[..., 0] + u[..., 1]) * torch.cos(v[..., 0] - v[..., 1]) + u[..., 1] * v[
        ..., 0
    ]  # fmt: skip


SEVERAL = {
    "two dimensions": made(sine, lambda x: x[..., :1] * x[..., 1:], planes, 4, d=2),
    "two dimensions in and out": made(torch.sin, identity, planes, 4, d=2),
    "three dimensions": made(
        sine, lambda x: x.prod(-1, keepdim=True), lambda u, v: (u * v).sum(-1), 4, d=3
    ),
    "three in, two out": made(
        torch.square, lambda x: x[..., :2] * x[..., 2:], lambda u, v: (u * v).sum(-1), 3, d=3
    ),
    "positions": RANK_ONLY["positions"],
}


@pytest.mark.parametrize(
    # in three dimensions the mean over v, which the gauge takes out, costs ten seconds
    ("name", "gauge"),
    [(name, None) for name in SEVERAL]
    + [(name, "softmax") for name in SEVERAL if "three" not in name],
)
def test_the_rigorous_form_bounds_networks_of_several_variables(name, gauge):
    """What `compile_target` makes of f, phi and psi by interpolation, for both terms at once."""
    target = SEVERAL[name]
    x, y = fresh(target, 300)
    for m_h, m_ff in ((1, 40), (4, 40), (4, 250)):
        model = compile_target(target, m_h, m_ff, gauge=gauge, networks="interpolant")
        with torch.no_grad():
            gap = (model(x) - y).norm(dim=-1)
        bounds = [jackson_bound(target, m_h, m_ff, norm, gauge=gauge).value for norm in NORMS]
        assert float(gap.sum(-1).mean()) <= bounds[0]
        assert float(gap.square().mean()) <= bounds[1]


@given(
    st.lists(st.floats(-2, 2), min_size=6, max_size=6),
    st.integers(7, 200),
    st.sampled_from([identity, sine, torch.square]),
)
@settings(max_examples=3)
def test_the_rigorous_form_bounds_networks_of_drawn_couplings_in_two_dimensions(a, m_ff, F):
    def rho(u, v):
        left = torch.sin(a[0] * u[..., 0] + a[1] * u[..., 1])
        return left * torch.cos(a[2] * v[..., 0] + a[3] * v[..., 1]) + a[4] * u[..., 0] * v[..., 1]

    target = made(F, lambda x: torch.cos(a[5] * x[..., :1] + x[..., 1:]), rho, 3, d=2)
    x = target.sample(200, FRESH)
    model = compile_target(target, 2, m_ff, networks="interpolant")
    with torch.no_grad():
        error = float((model(x) - target(x)).square().mean())
    assert error <= jackson_bound(target, 2, m_ff).value + 1e-20


@pytest.mark.parametrize(("name", "d"), [("two dimensions", 2), ("three dimensions", 3)])
def test_the_networks_term_of_d_variables_falls_with_beta_two_over_d(name, d):
    sizes = (2_000_000, 16_000_000)
    terms = [
        jackson_bound(SEVERAL[name], 2, m_ff, "l1", gauge=None).feedforward_term for m_ff in sizes
    ]
    assert terms[0] / terms[1] == pytest.approx(8 ** (2 / d), rel=0.05)


def test_the_printed_networks_term_in_two_dimensions_is_eq_17():
    target = SEVERAL["two dimensions"]
    measures = complexity(target)
    bound = jackson_bound(target, 2, 100, form="printed")
    assert measures.beta == 1.0
    scale = 4**2 * measures.C0
    assert bound.feedforward_term == pytest.approx(scale * measures.C2(2) * 2**2 / 100, rel=1e-9)
    assert bound.feedforward_term > jackson_bound(target, 2, 100, "l1").feedforward_term


def test_networks_of_several_variables_need_a_cell():
    with pytest.raises(InputError, match="at least 7"):
        jackson_bound(SEVERAL["two dimensions"], 2, 6)
    with pytest.raises(InputError, match="scalar tokens"):
        best_split(SEVERAL["two dimensions"], 1000)


def test_a_split_for_several_intervals_has_networks_that_reach_them():
    target = RANK_ONLY["positions"]
    split = best_split(target, 200)
    assert split.m_ff >= 5
    assert split.bound.value <= jackson_bound(target, 1, 5).value
    with pytest.raises(InputError, match="5 units or more"):
        best_split(target, parameters_of(1, 4))


WRONG = st.one_of(
    st.integers(max_value=0), st.floats(), st.booleans(), st.text(max_size=3), st.just([1])
)


@given(st.sampled_from(["m_h", "m_ff"]), st.sampled_from(["printed", "rigorous"]), WRONG)
@settings(max_examples=300)
def test_sizes_that_are_none_are_refused_with_the_value(name, form, value):
    with pytest.raises(InputError, match=rf"^{name} must be a whole number") as caught:
        jackson_bound(spectral_target(1.0, 2), **{"m_h": 1, "form": form, name: value})
    assert caught.value.value is value


@given(st.sampled_from(["norm", "form", "gauge"]), st.one_of(st.text(), st.integers(), st.just([])))
@settings(max_examples=100)
def test_choices_that_are_none_are_refused_with_the_value(name, value):
    with pytest.raises(InputError, match=rf"^{name} is not known") as caught:
        jackson_bound(spectral_target(1.0, 2), 1, **{name: value})
    assert caught.value.value is value


@given(WRONG)
def test_numbers_of_parameters_that_are_none_are_refused(value):
    with pytest.raises(InputError, match="parameters must be a whole number") as caught:
        best_split(spectral_target(1.0, 2), value)
    assert caught.value.value is value


@given(st.one_of(st.floats(max_value=0.5), st.just(float("nan")), st.text(max_size=3)))
def test_exponents_of_one_half_or_less_are_refused(alpha):
    with pytest.raises(InputError, match="alpha must be") as caught:
        jackson_bound(spectral_target(1.0, 2), 1, form="printed", alpha=alpha)
    assert caught.value.value is alpha


def test_hard_max_and_altered_targets_are_refused():
    for bound in (lambda t: jackson_bound(t, 1), lambda t: best_split(t, 1000)):
        with pytest.raises(InputError, match="softened"):
            bound(nearest_point())
        with pytest.raises(InputError, match=r"Eq\. 8"):
            bound(spectral_target(1.0, 2).permuted(range(16)))


@pytest.mark.parametrize("make", [centre_of_gravity, selection])
def test_the_networks_term_of_a_target_of_many_variables_is_refused_with_a_way_out(make):
    with pytest.raises(InputError, match="Leave m_ff out"):
        jackson_bound(make(), 4, 64)


def test_an_exponent_beyond_all_floats_leaves_no_rank_term() -> None:
    printed = jackson_bound(spectral_target(1000, 2, 4), 2, form="printed", alpha=1000)
    assert printed.rank_term == 0.0


# Laws without a bounded box, and results as objects


@pytest.mark.parametrize("m_h", [1, 3, 8])
def test_unbounded_tokens_keep_below_the_estimate_and_it_says_that_it_is_one(m_h):
    target = made(identity, identity, gaussian, 4, Normal())
    bound = jackson_bound(target, m_h)
    assert bound.estimated
    assert "1024 sampled tokens" in str(bound)
    assert measured(target, m_h, None, 500)["mse"] <= bound.value
    assert not jackson_bound(spectral_target(1.0, 2), 1).estimated


def test_unbounded_tokens_have_no_networks_term_and_a_way_out():
    target = made(identity, identity, gaussian, 4, Normal())
    for form in ("rigorous", "printed"):
        with pytest.raises(InputError, match=r"uniform on .*Leave m_ff out"):
            jackson_bound(target, 2, 16, form=form)
    with pytest.raises(InputError, match=r"this law is sampled.*jackson_bound\(target, m_h\)"):
        best_split(target, 1000)


@pytest.mark.parametrize("form", ["rigorous", "printed"])
def test_the_default_norm_is_that_of_fits(form):
    target = spectral_target(1.0, 6)
    assert jackson_bound(target, 3, form=form) == jackson_bound(target, 3, None, "mse", form)
    assert best_split(target, 100) == best_split(target, 100, "mse")


@given(st.sampled_from([None, "none"]), st.integers(1, 4))
def test_None_is_the_gauge_none(gauge, m_h):
    target = OTHERS["cos(3uv) + exp(2u)"]
    plain = jackson_bound(target, m_h, gauge=gauge)
    assert plain == jackson_bound(target, m_h, gauge="none")
    assert plain != jackson_bound(target, m_h)


def test_bounds_and_splits_can_be_copied_and_pickled_and_print_as_their_text():
    target = spectral_target(1.0, 4)
    for one in (jackson_bound(target, 2, 9), best_split(target, 200)):
        for other in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):  # noqa: S301
            assert other == one
        assert repr(one) == str(one)


def test_a_long_split_shows_where_it_is(on_a_terminal, monkeypatch):
    monkeypatch.setattr("attnrate.theory.bounds.QUIET", 0.0)
    shown = on_a_terminal(lambda: best_split(spectral_target(1.0, 3), 500))
    assert "splitting 500 parameters: m_h = " in shown


def rough(u, v):
    return (u - v).abs()[..., 0] ** 0.1


def test_a_bound_from_singular_values_that_have_not_converged_says_so(monkeypatch):
    monkeypatch.setattr("attnrate.theory.pod.MOST_EVALUATIONS", 5000)
    target = made(identity, identity, rough, 4)
    with pytest.warns(AccuracyWarning) as caught:
        bound = jackson_bound(target, 2)
    assert not bound.converged
    assert "have not converged" in str(bound)
    (warning,) = caught
    # the budget and rtol of `pod` are no arguments of a bound
    assert "budget" not in str(warning.message)
    assert "rtol" not in str(warning.message)
    certain = jackson_bound(made(identity, identity, wave, 4), 2)
    assert certain.converged
    assert "converged" not in str(certain)


def test_several_head_sizes_are_sent_to_the_curve():
    with pytest.raises(InputError, match="bound_curve takes several head sizes"):
        jackson_bound(spectral_target(alpha=1.0, rank=3), [1, 2])


def test_a_split_for_a_sampled_law_is_refused_in_its_own_words():
    target = made(identity, identity, gaussian, 4, Normal())
    with pytest.raises(InputError, match="sampled") as caught:
        best_split(target, 100)
    assert "m_ff" not in str(caught.value)
