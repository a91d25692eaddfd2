"""Kernels whose C_RNN is known in closed form, and kernels that have none."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.theory.recurrent import RNNComplexity, rnn_complexity

LAGS = np.arange(32)


def test_the_papers_exponential_kernel_has_complexity_two():
    found = rnn_complexity(lambda s: np.exp(-s))
    assert pytest.approx(2.0, rel=1e-9) == found.C1
    assert pytest.approx(1.0, rel=1e-9) == found.C2
    assert found.value == pytest.approx(2.0, rel=1e-9)
    assert found.rate(m=128) == pytest.approx(2.0 / 128, rel=1e-9)
    assert found.rate(m=10, d=3) == pytest.approx(0.6, rel=1e-9)


@given(a=st.floats(1e-3, 1e3), time=st.floats(0.1, 2000.0))
def test_a_scaled_exponential_has_c1_one_plus_its_time_and_c2_its_scale(a, time):
    found = rnn_complexity(lambda s: a * np.exp(-s / time))
    assert pytest.approx(1.0 + time, rel=1e-6) == found.C1
    assert pytest.approx(a, rel=1e-6) == found.C2
    assert found.interval[0] <= time * (1 + 1e-9)
    assert found.interval[1] >= time * (1 - 1e-9)


@pytest.mark.parametrize("power", [1, 2, 5])
def test_a_polynomial_factor_does_not_change_the_decay_time(power):
    found = rnn_complexity(lambda s: s.astype(float) ** power * np.exp(-s))
    assert pytest.approx(2.0, abs=1e-3) == found.C1
    t = np.arange(60.0)
    assert pytest.approx(np.max(t**power * np.exp(-t / 2)), rel=0.02) == found.C2


@pytest.mark.parametrize("frequency", [0.02, 0.7, 1.3, np.pi])
def test_oscillation_does_not_change_the_decay_time(frequency):
    found = rnn_complexity(lambda s: np.exp(-s / 20) * np.cos(frequency * s))
    assert pytest.approx(21.0, rel=1e-3) == found.C1
    assert pytest.approx(1.0, rel=1e-9) == found.C2


def test_the_slower_of_two_exponentials_decides():
    found = rnn_complexity(lambda s: np.exp(-s) + 1e-3 * np.exp(-s / 10))
    assert pytest.approx(11.0, rel=1e-3) == found.C1


@given(
    values=st.lists(st.floats(-5.0, 5.0).filter(lambda v: abs(v) > 1e-3), min_size=1, max_size=40)
)
def test_finite_support_has_c1_one(values):
    rho = np.array(values)
    expected = np.max(np.exp(np.arange(rho.size)) * np.abs(rho))
    for kernel in (
        np.r_[rho, 0.0, 0.0],
        lambda s: np.where(s < rho.size, rho[np.minimum(s, rho.size - 1)], 0.0),
    ):
        found = rnn_complexity(kernel)
        assert found.C1 == 1.0
        assert pytest.approx(expected, rel=1e-9) == found.C2
        assert "finite support" in found.note


@pytest.mark.parametrize(
    "kernel", [lambda s: np.exp(-(s.astype(float) ** 2)), lambda s: np.exp(-s * np.log1p(s))]
)
def test_faster_than_exponential_has_decay_time_zero(kernel):
    found = rnn_complexity(kernel)
    assert found.C1 == 1.0
    assert np.isfinite(found.C2)
    assert "faster" in found.note


@pytest.mark.parametrize(
    "kernel",
    [
        lambda s: 1.0 / (1.0 + s) ** 2,
        lambda s: 1.0 / (1.0 + s.astype(float) ** 2),
        lambda s: np.ones(s.shape),
        lambda s: np.exp(-np.sqrt(s)),
        lambda s: 2.0 + np.cos(s),
        1.0 / (1.0 + LAGS) ** 2,
        np.ones(32),
        np.exp(LAGS / 9.0),
        [1.0, 0.5, 0.25],
    ],
)
def test_without_exponential_decay_the_complexity_is_infinite_and_the_note_says_so(kernel):
    found = rnn_complexity(kernel)
    assert found.C1 == found.value == found.rate(100) == float("inf")
    assert "C_RNN are infinite" in found.note


@given(seed=st.integers(0, 10**6), n=st.integers(8, 400))
def test_a_uniform_random_kernel_never_shows_a_decay(seed, n):
    assert np.isinf(rnn_complexity(np.random.default_rng(seed).random(n)).value)


@pytest.mark.parametrize("time", [0.5, 5.0, 100.0])
def test_an_array_is_extrapolated_and_says_so(time):
    found = rnn_complexity(np.exp(-LAGS / time))
    assert pytest.approx(1.0 + time, rel=1e-6) == found.C1
    assert "extrapolated from 32 values of the array" in found.note


def test_noisy_arrays_have_intervals_that_cover_the_decay_time():
    rng = np.random.default_rng(0)
    found = [
        rnn_complexity(np.exp(-LAGS / 5.0) * rng.uniform(0.9, 1.1, LAGS.size)) for _ in range(300)
    ]
    assert all(each.interval[0] <= each.C1 - 1.0 <= each.interval[1] for each in found)
    assert np.mean([np.isfinite(each.C1) for each in found]) >= 0.99
    assert np.mean([each.interval[0] <= 5.0 <= each.interval[1] for each in found]) >= 0.9


def test_underflow_is_decay_and_not_finite_support():
    found = rnn_complexity(np.exp(-np.arange(2000.0)))
    assert pytest.approx(2.0, rel=1e-9) == found.C1


def test_a_delay_costs_the_exponential_of_its_half():
    delayed = rnn_complexity(lambda s: np.where(s < 10, 0.0, np.exp(10.0 - s)))
    assert pytest.approx(np.exp(5.0), rel=1e-6) == delayed.C2


def test_the_zero_kernel_costs_nothing():
    assert rnn_complexity(np.zeros(9)).value == 0.0
    assert rnn_complexity(lambda s: 0.0 * s).value == 0.0


def test_the_print_has_two_lines():
    assert str(RNNComplexity(2.0, 1.0, (1.0, 1.0), "why.")).splitlines() == [
        "C_RNN = 2: C1 = 2 (decay time in [1, 1]), C2 = 1",
        "  why.",
    ]


@given(
    wrong=st.sampled_from([np.nan, np.inf, -np.inf]),
    lag=st.integers(0, 19),
    as_function=st.booleans(),
)
def test_a_value_that_is_not_finite_is_named_with_its_lag(wrong, lag, as_function):
    rho = np.exp(-np.arange(20.0))
    rho[lag] = wrong
    kernel = (lambda s: np.where(s == lag, wrong, np.exp(-s))) if as_function else rho
    with pytest.raises(InputError, match=f"lag {lag}") as caught:
        rnn_complexity(kernel)
    np.testing.assert_equal(caught.value.value, wrong)


@pytest.mark.parametrize(
    "kernel", [[], np.ones((2, 2)), 1.0, "kernel", None, [1j], lambda s: s[:5] + 0.0, lambda s: 1.0]
)
def test_what_is_no_kernel_is_refused(kernel):
    with pytest.raises(InputError):
        rnn_complexity(kernel)


@given(wrong=st.integers(max_value=0))
def test_a_rate_needs_positive_sizes(wrong):
    found = RNNComplexity(2.0, 1.0, (1.0, 1.0), "")
    for sizes in ((wrong, 1), (4, wrong)):
        with pytest.raises(InputError) as caught:
            found.rate(*sizes)
        assert caught.value.value == wrong


def test_a_complexity_can_be_pickled_and_prints_as_its_text():
    found = rnn_complexity(np.exp(-LAGS / 3))
    assert pickle.loads(pickle.dumps(found)) == found  # noqa: S301 - our own, just made
    assert repr(found) == str(found)


@pytest.mark.parametrize("size", [0, 2.5, True, "8"])
def test_sizes_that_are_none_are_refused(size):
    found = rnn_complexity(np.exp(-LAGS / 3))
    for name in ("m", "d"):
        with pytest.raises(InputError, match=f"^{name} must be a whole number"):
            found.rate(**{"m": 1, "d": 1, name: size})
