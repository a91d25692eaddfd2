"""Spectra whose law is known, and what fit_decay says of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from attnrate.errors import InputError
from attnrate.theory.decay import Decay, fit_decay


def ranks(n: int) -> np.ndarray:
    return np.arange(1.0, n + 1.0)


def noisy(law: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    return np.sort(law * np.exp(noise * rng.standard_normal(law.size)))[::-1]


def holds(fit: Decay, value: float) -> bool:
    assert fit.interval is not None
    return fit.interval[0] <= value <= fit.interval[1]


@pytest.mark.parametrize("alpha", [0.55, 0.8, 1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("n", [12, 50, 800])
def test_an_exact_power_law_is_found_with_its_exponent_and_envelope(alpha, n):
    fit = fit_decay(2.5 * ranks(n) ** -alpha)
    assert fit.law == "power"
    assert fit.alpha == pytest.approx(alpha, rel=1e-9)
    assert pytest.approx(2.5, rel=1e-9) == fit.C1
    assert fit.used == (1, n)
    assert fit.floor is None
    assert all(np.isfinite(score) for score in fit.scores.values())


@pytest.mark.parametrize("n", [20, 50, 500])
def test_the_spectrum_of_min_u_v_has_exponent_two_although_it_is_shifted(n):
    fit = fit_decay(1.0 / ((ranks(n) - 0.5) * np.pi) ** 2)
    assert fit.law == "power"
    assert fit.alpha == pytest.approx(2.0, abs=1e-4)
    assert pytest.approx(4.0 / np.pi**2, rel=1e-3) == fit.C1


@pytest.mark.parametrize("rate", [0.05, 0.3, 1.0, 2.0])
def test_an_exact_exponential_is_found_with_its_rate(rate):
    fit = fit_decay(7.0 * np.exp(-rate * ranks(60)))
    assert fit.law == "exponential"
    assert fit.rate == pytest.approx(rate, rel=1e-9)
    assert fit.alpha is None
    assert fit.C1 is None


@pytest.mark.parametrize(
    ("sigma", "rank"),
    [
        ([1.0, 0.0], 1),
        ([1e-313, 0.0], 1),
        ([1.262169, 0.5, 0.396143, 0.0, 0.0], 3),
        ([1.262169, 0.5, 0.396143, 1e-16, 3e-17], 3),
        ([1.0, 1e-5, 1e-17, 9e-18, 5e-18], 2),
        ([1.0] * 9 + [0.0] * 9, 9),
        (np.r_[ranks(40) ** -1.5, 0.0], 40),
        (np.r_[ranks(40) ** -1.5, np.zeros(60)], 40),
        (np.r_[np.exp(-0.2 * ranks(30)), np.full(30, 1e-17)], 30),
    ],
)
def test_a_drop_to_nothing_is_a_finite_rank(sigma, rank):
    fit = fit_decay(sigma)
    assert (fit.law, fit.rank) == ("finite rank", rank)
    assert fit.interval is None


@pytest.mark.parametrize("size", [1e-9, 1e-12, 1e-15])
def test_the_rank_of_a_noisy_matrix_is_the_rank_without_its_noise(size):
    noise = size * np.random.default_rng(3).standard_normal((150, 150))
    law = np.where(ranks(150) <= 25, ranks(150) ** -1.5, 0.0)
    fit = fit_decay(np.linalg.svd(np.diag(law) + noise, compute_uv=False))
    assert (fit.law, fit.rank) == ("finite rank", 25)


@pytest.mark.parametrize("size", [1e-9, 1e-12, 1e-15])
def test_a_numerical_floor_does_not_enter_an_exponential(size):
    noise = size * np.random.default_rng(3).standard_normal((150, 150))
    sigma = np.linalg.svd(np.diag(np.exp(-0.5 * ranks(150))) + noise, compute_uv=False)
    fit = fit_decay(sigma)
    assert fit.law == "exponential"
    assert fit.rate == pytest.approx(0.5, rel=1e-3)
    assert fit.floor is not None
    assert sigma[fit.used[1] - 1] > fit.floor


@pytest.mark.parametrize(("alpha", "n"), [(3.0, 2000), (4.0, 400)])
def test_a_numerical_floor_does_not_enter_a_power_law(alpha, n):
    rng = np.random.default_rng(5)
    sigma = np.sort(ranks(n) ** -alpha + 1e-8 * rng.random(n))[::-1]
    fit = fit_decay(sigma)
    assert fit.law == "power"
    assert fit.alpha == pytest.approx(alpha, abs=0.02)
    assert fit.floor is not None
    assert fit.clear < n / 2


@pytest.mark.parametrize("alpha", [0.55, 1.0, 2.0])
def test_pairs_of_equal_values_keep_the_exponent(alpha):
    fit = fit_decay(np.repeat(ranks(60) ** -alpha, 2))
    assert fit.law == "power"
    assert holds(fit, alpha)


def test_pairs_of_equal_values_keep_half_the_rate():
    fit = fit_decay(np.repeat(np.exp(-0.5 * ranks(50)), 2))
    assert fit.law == "exponential"
    assert holds(fit, 0.25)


def test_the_staircase_of_a_disc_has_the_exponent_of_weyls_law():
    i, j = np.meshgrid(ranks(100), ranks(100))
    fit = fit_decay(np.sort(1.0 / (i**2 + j**2).ravel())[::-1][:1000])
    assert fit.law == "power"
    assert fit.alpha == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(
    "sigma",
    [
        np.exp(-0.01 * ranks(100) ** 2),
        np.exp(-0.05 * ranks(100) ** 2),
        np.exp(-2.0 * np.sqrt(ranks(200))),
        1.0 / np.log(ranks(50) + 1.0) ** 2,
        1.0 / np.log(ranks(1000) + 1.0) ** 2,
        1.0 / np.log(ranks(200) + 1.0),
        1.0 - ranks(50) / 51.0,
        np.ones(30),
    ],
)
def test_where_there_is_no_power_law_none_is_claimed(sigma):
    fit = fit_decay(sigma)
    assert fit.law == "none"
    assert (fit.alpha, fit.rate, fit.rank, fit.interval, fit.C1) == (None,) * 5
    assert fit.reason.startswith("no ")


@pytest.mark.parametrize("n", [60, 200, 1000])
@pytest.mark.parametrize("share", [4, 2])
@pytest.mark.parametrize(("first", "second"), [(0.5, 2.0), (2.0, 0.5)])
def test_two_slopes_are_no_power_law(n, share, first, second):
    knot = n // share
    k = ranks(n)
    sigma = np.where(k < knot, k**-first, knot ** (second - first) * k**-second)
    assert fit_decay(sigma).law == "none"


def test_a_product_of_exponentials_is_neither_power_nor_exponential():
    i, j = np.meshgrid(ranks(60), ranks(60))
    assert fit_decay(np.sort(np.exp(-(i + j)).ravel())[::-1][:500]).law == "none"


def test_a_gaussian_coupling_decays_faster_than_any_exponential():
    x, w = np.polynomial.legendre.leggauss(120)
    rho = np.exp(-((x[:, None] - x) ** 2) / 8 / 0.1**2) * np.sqrt(np.outer(w, w)) / 2
    assert fit_decay(np.linalg.svd(rho, compute_uv=False)).law == "superexponential"


def test_a_spectrum_that_is_floor_but_for_two_values_gets_an_answer():
    # The fitted law falls by next to nothing over the floor; nothing may be divided by that.
    assert fit_decay([3991.0, 298.0] + [1.0] * 8).reason.endswith(".")


def test_few_values_and_zeros_carry_no_law():
    assert "8 are needed" in fit_decay([3.0, 2.0, 1.0]).reason
    assert "every value is zero" in fit_decay(np.zeros(20)).reason
    assert fit_decay(np.exp(-5.0 * ranks(40))).law == "none"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("law", "parameter"), [("power", 0.55), ("power", 1.0), ("power", 2.0), ("exponential", 0.1)]
)
def test_intervals_cover_the_truth_about_as_often_as_they_say(law, parameter):
    rng = np.random.default_rng(11)
    k = ranks(120)
    exact = k**-parameter if law == "power" else np.exp(-parameter * k)
    fits = [fit_decay(noisy(exact, noise, rng)) for noise in (0.03, 0.1) for _ in range(75)]
    named = [fit for fit in fits if fit.law == law]
    assert len(named) >= 0.95 * len(fits)
    # 95 % are nominal; for 150 spectra 0.89 lies a little over three standard errors below.
    assert np.mean([holds(fit, parameter) for fit in named]) >= 0.89


def test_a_wider_level_gives_a_wider_interval():
    sigma = noisy(ranks(100) ** -1.0, 0.1, np.random.default_rng(0))
    narrow, wide = fit_decay(sigma, level=0.5), fit_decay(sigma, level=0.99)
    assert wide.interval[0] < narrow.interval[0] < narrow.interval[1] < wide.interval[1]


def test_the_answer_is_the_same_every_time():
    sigma = noisy(ranks(100) ** -1.0, 0.1, np.random.default_rng(0))
    assert fit_decay(sigma) == fit_decay(sigma)


@given(
    alpha=st.floats(0.55, 3.0),
    scale=st.floats(1e-12, 1e12),
    noise=st.floats(0.0, 0.1),
    seed=st.integers(0, 10**6),
)
def test_scaling_a_spectrum_scales_its_envelope_and_nothing_else(alpha, scale, noise, seed):
    sigma = noisy(ranks(64) ** -alpha, noise, np.random.default_rng(seed))
    one, other = fit_decay(sigma), fit_decay(scale * sigma)
    assert one.law == other.law
    assert one.envelope(alpha) * scale == pytest.approx(other.envelope(alpha), rel=1e-9)
    if one.alpha is not None:
        assert one.alpha == pytest.approx(other.alpha, rel=1e-6)


spectra = npst.arrays(np.float64, st.integers(1, 60), elements=st.floats(0.0, 1e6)).map(
    lambda values: np.sort(values)[::-1]
)


@given(sigma=spectra)
def test_any_spectrum_gets_an_answer_that_is_consistent(sigma):
    fit = fit_decay(sigma)
    set_ = {"power": fit.alpha, "exponential": fit.rate, "finite rank": fit.rank}
    set_["superexponential"] = fit.order
    assert {name for name, value in set_.items() if value is not None} == {fit.law} - {"none"}
    assert fit.reason.endswith(".")
    assert len(str(fit).splitlines()) <= 2
    k = ranks(sigma.size)[: fit.clear]
    assert np.all(sigma[: fit.clear] <= fit.envelope(1.0) / k * (1 + 1e-12))
    frame = fit.to_frame()
    assert list(frame.columns) == ["k", "sigma", "fitted", "used"]
    np.testing.assert_array_equal(frame["sigma"], sigma)


def test_the_frame_holds_the_law():
    fit = fit_decay(3.0 * ranks(40) ** -1.5)
    np.testing.assert_allclose(fit.to_frame()["fitted"], 3.0 * ranks(40) ** -1.5, rtol=1e-9)


@pytest.mark.parametrize("sigma", [ranks(40) ** -1.0, np.exp(-ranks(60)), [1.0, 0.0], np.zeros(3)])
def test_a_plot_has_axes_with_names(sigma):
    axes = fit_decay(sigma).plot().axes[0]
    assert axes.get_xlabel() == "rank k"
    assert "σ_k" in axes.get_ylabel()


@given(sigma=spectra.filter(lambda s: s.size > 1), data=st.data())
def test_a_wrong_value_is_named_with_its_index(sigma, data):
    i = data.draw(st.integers(0, sigma.size - 1))
    wrong = data.draw(st.sampled_from([np.nan, np.inf, -np.inf, -1.0, -1e-3, -1e9]))
    sigma[i] = wrong
    with pytest.raises(InputError, match=rf"sigma\[{i}\]") as caught:
        fit_decay(sigma)
    np.testing.assert_equal(caught.value.value, wrong)


@given(sigma=spectra.filter(lambda s: s.size > 1), data=st.data())
def test_a_rise_is_named_with_its_index(sigma, data):
    i = data.draw(st.integers(1, sigma.size - 1))
    sigma[i] = sigma[0] + 1.0 + data.draw(st.floats(0.0, 1e6))
    with pytest.raises(InputError, match=rf"sigma\[{i}\] exceeds") as caught:
        fit_decay(sigma)
    assert caught.value.value == sigma[i]


def test_a_rise_within_rounding_is_no_rise():
    assert fit_decay([1.0, 1.0 + 2e-16, 0.5]).law == "none"


@pytest.mark.parametrize(
    "sigma", [np.ones((3, 3)), 1.0, [], np.ones((0, 2)), "spectrum", [[1.0], [2.0, 3.0]], [1j, 0j]]
)
def test_what_is_no_vector_is_refused(sigma):
    with pytest.raises(InputError):
        fit_decay(sigma)


@given(level=st.one_of(st.floats(max_value=0.0), st.floats(min_value=1.0), st.just(float("nan"))))
def test_a_level_outside_zero_and_one_is_refused(level):
    with pytest.raises(InputError) as caught:
        fit_decay([2.0, 1.0], level=level)
    np.testing.assert_equal(caught.value.value, level)


def test_an_envelope_needs_a_finite_exponent():
    with pytest.raises(InputError):
        fit_decay([2.0, 1.0]).envelope(float("nan"))


def test_there_is_nothing_to_predict_without_a_law():
    with pytest.raises(InputError):
        fit_decay([2.0, 1.0]).predict(ranks(3))


def test_what_is_not_decided_is_not_called_a_law():
    assert str(fit_decay([1.0, 0.5, 0.25])).startswith("no law is certain")
    with pytest.raises(InputError, match=r"exceeds sigma\[0\] = 1\.0:"):
        fit_decay([1, 2, 3])
