"""Linear functionals: Eq. 69 in loops, closure under alterations, floors against least squares."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attnrate.errors import InputError
from attnrate.fitting.bracket import floor_of
from attnrate.models import GRU
from attnrate.targets import (
    GaussianInputs,
    LinearTarget,
    PositionedInputs,
    UniformInputs,
    error_of,
    linear_target,
    mixed,
    permuted,
    swap_ends,
    uniform_kernel,
)

LAWS = [UniformInputs(), UniformInputs((-1.0,), (1.0,)), UniformInputs((2.0,), (2.5,))]
KINDS = ("causal", "time-invariant")
MATRICES = st.integers(1, 6).flatmap(
    lambda n: arrays(np.float64, (n, n), elements=st.floats(-3, 3, width=32))
)


def features(length, kind, bias):
    """All models of a kind as linear combinations: (model parameter, t, weights on (x, 1)).

    Entry [i, t] holds what parameter i adds to ŷ(t): its weight on every x(s), then on 1.
    """
    rows = []
    if kind == "causal":
        for t in range(length):
            for s in range(t + 1):
                row = np.zeros((length, length + 1))
                row[t, s] = 1
                rows.append(row)
    else:
        for lag in range(length):
            row = np.zeros((length, length + 1))
            for t in range(lag, length):
                row[t, t - lag] = 1
            rows.append(row)
    if bias:
        for t in range(length):
            row = np.zeros((length, length + 1))
            row[t, length] = 1
            rows.append(row)
    return np.array(rows)


def least_squares(matrix, law, kind, bias):
    """The floor and the parameters by dense least squares over the exact second moments."""
    length = len(matrix)
    mu, v = law.mean[0], law.variance[0]
    moments = np.full((length + 1, length + 1), mu**2) + np.diag([v] * length + [0.0])
    moments[length, :length] = moments[:length, length] = mu
    moments[length, length] = 1.0
    values, vectors = np.linalg.eigh(moments)
    root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
    design = (features(length, kind, bias) @ root).reshape(-1, length * (length + 1)).T
    wanted = (np.hstack([matrix, np.zeros((length, 1))]) @ root).ravel()
    parameters = np.linalg.lstsq(design, wanted, rcond=None)[0]
    return np.sum((wanted - design @ parameters) ** 2) / length, parameters


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("law", LAWS, ids=["U01", "centred", "far"])
@given(matrix=MATRICES)
def test_floors_are_those_of_dense_least_squares(kind, bias, law, matrix):
    expected, parameters = least_squares(matrix, law, kind, bias)
    target = LinearTarget(matrix, law)
    assert abs(target.floor(kind, bias) - expected) < 1e-11
    if kind == "time-invariant":
        k = target.best_kernel(bias)
        np.testing.assert_allclose(k, parameters[: len(matrix)], atol=1e-9)


@pytest.mark.parametrize("bias", [True, False])
def test_the_best_kernel_reaches_the_floor_on_drawn_inputs(bias):
    target = linear_target(uniform_kernel(12, seed=1), 12).permuted(swap_ends(12, 4))
    x = target.sample(200_000, seed=0)
    residual = target(x) - linear_target(target.best_kernel(bias), 12)(x)
    if bias:
        residual = residual - residual.mean(0)
    errors = residual.square().mean((1, 2))
    five_sigma = 5 * errors.std().item() / math.sqrt(len(errors))
    assert abs(errors.mean().item() - target.floor("time-invariant", bias)) < five_sigma


@pytest.mark.parametrize("bias", [True, False])
def test_regression_on_drawn_inputs_finds_the_causal_floor(bias):
    target = linear_target("exponential", 8).permuted(swap_ends(8, 3))
    x = target.sample(100_000, seed=0).numpy()[..., 0]
    y = target(torch.tensor(x)[..., None]).numpy()[..., 0]
    errors = np.zeros_like(y)
    for t in range(8):
        seen = np.hstack([x[:, : t + 1], np.ones((len(x), 1))]) if bias else x[:, : t + 1]
        errors[:, t] = (y[:, t] - seen @ np.linalg.lstsq(seen, y[:, t], rcond=None)[0]) ** 2
    error = errors.mean(1)
    five_sigma = 5 * error.std() / math.sqrt(len(error))
    assert abs(error.mean() - target.floor("causal", bias)) < five_sigma


def test_table_2_s_permuted_target_has_the_floor_the_prototype_found():
    target = linear_target("exponential", 32).permuted(swap_ends(32, 10))
    assert target.floor("time-invariant") == pytest.approx(5.26e-2, abs=5e-5)
    assert target.floor("time-invariant") > target.floor("causal") > 0.01


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [True, False])
def test_a_convolution_has_no_floor_nor_has_it_when_mixed_causally(kind, bias):
    target = linear_target(uniform_kernel(16, 3), 16)
    assert target.floor(kind, bias) < 1e-25
    assert target.mixed([0.3, 0.2, 0.9]).floor(kind, bias) < 1e-25
    np.testing.assert_allclose(target.best_kernel(bias), target.matrix[:, 0], atol=1e-12)
    assert target.mixed([0.3, 0.2, 0.9], causal=False).floor(kind, bias) > 1e-3


@given(MATRICES)
def test_more_freedom_never_has_a_higher_floor(matrix):
    target = LinearTarget(matrix)
    floors = {(kind, bias): target.floor(kind, bias) for kind in KINDS for bias in (True, False)}
    for kind in KINDS:
        assert floors[kind, True] <= floors[kind, False] + 1e-12
    for bias in (True, False):
        assert 0 <= floors["causal", bias] <= floors["time-invariant", bias] + 1e-12


def test_eq_69_in_loops():
    kernel = [0.5, -1.0, 2.0, 7.0, 100.0]
    target = linear_target(kernel, 4)
    x = target.sample(3, seed=0)
    for n, t in np.ndindex(3, 4):
        expected = sum(kernel[s] * x[n, t - s, 0].item() for s in range(t + 1))
        assert abs(target(x)[n, t, 0].item() - expected) < 1e-13


def test_kernels_may_be_a_word_an_array_or_a_function():
    expected = [[1, 0, 0], [math.exp(-1), 1, 0], [math.exp(-2), math.exp(-1), 1]]
    for kernel in (
        "exponential",
        [1.0, math.exp(-1), math.exp(-2)],
        torch.exp(-torch.arange(3.0, dtype=torch.float64)),
        lambda s: np.exp(-s.astype(float)),
    ):
        np.testing.assert_allclose(linear_target(kernel, 3).matrix, expected, rtol=1e-15)


def test_the_uniform_kernel_is_seeded_and_lies_in_the_unit_interval():
    kernel = uniform_kernel(2000, 5)
    np.testing.assert_array_equal(kernel, uniform_kernel(2000, 5))
    assert not np.array_equal(kernel, uniform_kernel(2000, 6))
    assert 0 <= kernel.min() < 0.01
    assert 0.99 < kernel.max() <= 1


@given(MATRICES, st.integers(0, 2**31), st.data())
def test_permuting_stays_linear_and_agrees_with_the_general_wrapper(matrix, seed, data):
    p = data.draw(st.permutations(range(len(matrix))))
    target = LinearTarget(matrix)
    closed, general = target.permuted(p), permuted(target, p)
    assert isinstance(closed, LinearTarget)
    z = closed.sample(3, seed)
    np.testing.assert_array_equal(z, general.sample(3, seed))
    np.testing.assert_allclose(closed(z), general(z), atol=1e-12)


@given(MATRICES, st.integers(0, 2**31), st.booleans(), st.data())
def test_mixing_stays_linear_and_agrees_with_the_general_wrapper(matrix, seed, causal, data):
    size = data.draw(st.integers(1, len(matrix)))
    theta = data.draw(st.lists(st.floats(-2, 2), min_size=size, max_size=size))
    target = LinearTarget(matrix)
    closed, general = target.mixed(theta, causal), mixed(target, theta, causal)
    assert isinstance(closed, LinearTarget)
    x = closed.sample(3, seed)
    np.testing.assert_allclose(closed(x), general(x), atol=1e-11)


def test_a_permuted_target_with_positions_draws_them_permuted():
    target = linear_target("exponential", 3, PositionedInputs.shifted(3))
    z = target.permuted([2, 0, 1]).sample(4, 0)
    np.testing.assert_array_equal(z, target.sample(4, 0)[:, [2, 0, 1]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_dtype_is_kept(dtype):
    target = linear_target("exponential", 4)
    assert target(target.sample(2, 0, dtype)).dtype == dtype
    assert (target.d, target.out, target.length) == (1, 1, 4)


def test_the_matrix_cannot_be_changed_from_outside():
    matrix = np.eye(2)
    target = LinearTarget(matrix)
    matrix[0, 0] = 5
    assert target.matrix[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        target.matrix[0, 0] = 3


@given(st.text(max_size=5).filter(lambda s: s not in KINDS))
def test_an_unknown_floor_is_refused(kind):
    with pytest.raises(InputError, match="time-invariant") as caught:
        linear_target("exponential", 3).floor(kind)
    assert caught.value.value == kind


def test_a_floor_needs_inputs_of_one_law():
    target = linear_target("exponential", 3, PositionedInputs.shifted(3))
    for request in (lambda: target.floor("causal"), target.best_kernel):
        with pytest.raises(InputError, match="independent"):
            request()


@given(st.integers(1, 5), st.integers(0, 4))
def test_a_kernel_that_is_too_short_is_refused(length, missing):
    size = max(0, length - 1 - missing)
    with pytest.raises(InputError):
        linear_target([1.0] * size, length)


@pytest.mark.parametrize(
    "kernel",
    [
        "gauss",
        None,
        3.0,
        [[1.0] * 4],
        [1.0, math.nan, 0, 0],
        ["a"] * 4,
        lambda s: 1.0,
        lambda s: s / 0,
    ],
)
def test_what_is_no_kernel_is_refused(kernel):
    with pytest.raises(InputError), np.errstate(all="ignore"):
        linear_target(kernel, 4)


@pytest.mark.parametrize("bad", [0, -1, 2.0, "3", None, True])
def test_lengths_are_whole_numbers_from_one(bad):
    for attempt in (lambda: linear_target("exponential", bad), lambda: uniform_kernel(bad, 0)):
        with pytest.raises(InputError) as caught:
            attempt()
        assert caught.value.value is bad


@given(st.integers(max_value=-1) | st.floats() | st.none() | st.text())
def test_a_kernel_s_seed_is_a_whole_number_from_zero(seed):
    with pytest.raises(InputError) as caught:
        uniform_kernel(4, seed)
    assert caught.value.value is seed


@pytest.mark.parametrize(
    "matrix", [np.zeros((2, 3)), np.zeros(4), [], None, "a", [[math.inf]], [[1, 2], [3]], [[1j]]]
)
def test_what_is_no_square_matrix_is_refused(matrix):
    with pytest.raises(InputError):
        LinearTarget(matrix)


@given(st.integers(0, 3), st.integers(0, 3), st.sampled_from([math.nan, math.inf, -math.inf]))
def test_a_matrix_entry_that_is_not_finite_is_named(t, s, bad):
    matrix = np.zeros((4, 4))
    matrix[t, s] = bad
    with pytest.raises(InputError, match=rf"matrix\[{t}, {s}\]"):
        LinearTarget(matrix)


@pytest.mark.parametrize(
    "inputs", [UniformInputs((0.0, 0.0), (1.0, 1.0)), PositionedInputs.shifted(5), 3, "uniform"]
)
def test_inputs_are_a_law_of_scalars_for_this_length(inputs):
    with pytest.raises(InputError):
        linear_target("exponential", 4, inputs)


@pytest.mark.parametrize("bias", [True, False])
def test_the_floor_of_gaussian_inputs_is_met_by_the_best_causal_map(bias):
    """The best causal map for M = one step into the future, in closed form for each row."""
    law = GaussianInputs(1.0, 2.0)
    target = LinearTarget(np.eye(3, k=1), law)
    mu, v = 1.0, 4.0
    lost = [v + (0 if bias else mu**2 * v / (v + (t + 1) * mu**2)) for t in (0, 1)]
    assert target.floor("causal", bias=bias) == pytest.approx(sum(lost) / 3)

    def best(x):
        """a(t, s) = μ / (v + (t+1) μ²) of what is missing, or the constant μ."""
        seen = torch.arange(1, 4, dtype=x.dtype)[:, None]
        guess = x.cumsum(1) * mu**2 / (v + seen * mu**2) if not bias else torch.full_like(x, mu)
        return torch.cat([guess[:, :2], torch.zeros_like(x[:, 2:])], 1)

    found = error_of(best, target, n=40_000)
    assert abs(found.value - target.floor("causal", bias=bias)) < 5 * found.standard_error


def test_a_linear_target_can_be_copied_and_pickled_and_shows_no_matrix():
    target = linear_target("exponential", 64, GaussianInputs())
    x = target.sample(2, 0)
    again = pickle.loads(pickle.dumps(target))  # noqa: S301 - made here
    for other in (copy.deepcopy(target), again, target.permuted(range(64))):
        assert torch.equal(other(x), target(x))
    assert repr(target) == "LinearTarget('linear', length=64, d=1, out=1, GaussianInputs)"
    assert target.permuted(range(64)).inputs is target.inputs


def test_a_bracket_knows_the_floor_of_causal_models_for_every_independent_law():
    target = LinearTarget(np.eye(3, k=1), GaussianInputs(0.0, 2.0))
    assert floor_of(target, GRU(1, 1, 4)) == (pytest.approx(8 / 3), "best causal map")
