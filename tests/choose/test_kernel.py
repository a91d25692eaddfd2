"""The kernel: a known filter within its band, its reach, and C_RNN."""

import numpy as np
import pytest
from cut_samples import autoregressive, filtered, sequences, windows

import attnrate as ar
from attnrate.choose.kernel import Kernel, output_names
from attnrate.choose.ladder import ladder
from attnrate.choose.samples import Samples
from attnrate.theory.recurrent import rnn_complexity

RHO = [1.0, -0.6, 0.0, 0.3, 0.2]


def kernel_of(samples: Samples) -> Kernel:
    return ladder(samples, progress=False).kernel


def test_a_known_filter_is_held_by_the_bands_and_ends_where_it_ends() -> None:
    held, values, ends = 0, 0, []
    for seed in range(12):
        x = autoregressive(1000, 0.7, seed=seed)
        kernel = kernel_of(windows(x, filtered(x, RHO, 1.0, seed), 8))
        true = np.array([*RHO, *[0.0] * 3])
        off = np.abs(kernel.values[:, 0, 0] - true)
        held += int((off <= kernel.half[:, 0, 0]).sum())
        values += 8
        ends.append(kernel.reach)
    # bands of 95 %: of 96 values 10 or more are outside once in 60
    assert held >= values - 9
    assert ends.count(4) >= 11


def test_bands_hold_where_errors_depend_on_each_other() -> None:
    held = 0
    for seed in range(12):
        x = autoregressive(1500, 0.9, seed=seed)
        noise = autoregressive(1500, 0.9, seed=500 + seed)
        kernel = kernel_of(windows(x, filtered(x, [1.0], 0.0) + noise, 6))
        held += int((np.abs(kernel.values[:, 0, 0] - np.eye(6)[0]) <= kernel.half[:, 0, 0]).sum())
    assert held >= 72 - 8


def test_without_a_relation_there_is_no_reach() -> None:
    drawn = np.random.default_rng(0)
    x, y = drawn.normal(size=(2, 2000, 1))
    assert kernel_of(windows(x, y, 10)).reach == -1


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_of_a_filter_without_noise_the_reach_is_no_rounding(memory: float) -> None:
    x = autoregressive(2000, memory)
    kernel = kernel_of(windows(x, filtered(x, [1.0, 0.5, 0.25], 0.0), 12))
    assert kernel.reach == 2
    np.testing.assert_allclose(kernel.values[:3, 0, 0], [1.0, 0.5, 0.25], atol=1e-6)


def test_the_kernel_of_an_exponential_has_the_complexity_of_theory() -> None:
    rho = np.exp(-np.arange(24) / 4.0)
    x = np.random.default_rng(0).normal(size=(4000, 1))
    kernel = kernel_of(windows(x, filtered(x, [*rho], 1e-6), 24))
    assert kernel.reach == 23
    assert kernel.complexity is not None
    exact = rnn_complexity(rho)
    assert exact.value == pytest.approx(5.0, rel=1e-3)
    assert kernel.complexity.value == pytest.approx(exact.value, rel=1e-2)


def test_of_several_inputs_or_a_short_kernel_no_complexity_is_given() -> None:
    x = np.random.default_rng(0).normal(size=(800, 2))
    assert kernel_of(windows(x, x[:, :1] + x[:, 1:], 9)).complexity is None
    x = x[:, :1]
    assert kernel_of(windows(x, filtered(x, [1.0, 0.5], 0.1), 12)).complexity is None


def test_a_column_with_a_single_value_is_sure_of_nothing() -> None:
    drawn = np.random.default_rng(2)
    x = drawn.normal(size=(1000, 2))
    x[:, 1] = 0.0
    x[543, 1] = 5.0
    kernel = kernel_of(windows(x, x[:, :1] + 0.3 * drawn.normal(size=(1000, 1)), 6))
    assert kernel.reach == 0


def test_a_permuted_functional_has_the_kernel_of_theory() -> None:
    target = ar.linear_target("exponential", 6).permuted([2, 0, 1, 5, 3, 4])
    x = target.sample(4000, seed=0).double()
    y = target(x).numpy()
    kernel = kernel_of(
        sequences(x.numpy(), y + 0.01 * np.random.default_rng(0).normal(size=y.shape))
    )
    off = np.abs(kernel.values[:, 0, 0] - target.best_kernel())
    assert (off <= 1.5 * kernel.half[:, 0, 0]).all()
    assert (kernel.half < 0.1).all()


def test_a_table_has_a_row_for_each_lag_input_and_output() -> None:
    x = np.random.default_rng(0).normal(size=(800, 2))
    kernel = kernel_of(windows(x, x[:, :1], 5, 2))
    frame = kernel.to_frame()
    assert len(frame) == 5 * 2 * 2
    assert list(frame.columns) == ["lag", "input", "output", "value", "low", "high"]
    row = frame[(frame.lag == 3) & (frame.input == "x1") & (frame.output == "x0(t+2)")].iloc[0]
    assert row.value == kernel.values[3, 1, 1]
    assert row.high - row.value == pytest.approx(kernel.half[3, 1, 1])


def test_outputs_are_named_by_their_step() -> None:
    assert output_names(("a", "b"), 0) == ("a", "b")
    assert output_names(("a", "b"), 2) == ("a(t+1)", "b(t+1)", "a(t+2)", "b(t+2)")
