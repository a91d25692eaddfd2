"""Rungs: coefficients are those of slow least squares; richer classes never leave more inside."""

import itertools

import numpy as np
import pytest
from cut_samples import attended, autoregressive, filtered, sequences, windows
from hypothesis import given, settings
from hypothesis import strategies as st

from attnrate.choose.features import Features
from attnrate.choose.folds import held_out
from attnrate.choose.ladder import BLOCKS, ladder
from attnrate.choose.rungs import GROUPS, RIDGES, Class, fit_classes
from attnrate.choose.samples import Samples
from attnrate.choose.sums import Scaled, scaled, sums

X = autoregressive(400, 0.7)
SERIES = windows(X, filtered(X, [1.0, 0.5], 0.3) + 0.2 * X**2, 5)
PANEL = attended(120, 4, 0.3)
BOTH = pytest.mark.parametrize("samples", [SERIES, PANEL], ids=["series", "panel"])


def design(data: Scaled, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    parts = [*data.batches(which)]
    return np.concatenate([part[1] for part in parts]), np.concatenate([part[2] for part in parts])


def ridged(x: np.ndarray, y: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    """Ridge regression as least squares with a row more for each penalty."""
    size = np.maximum(1.0, (x**2).mean(0))
    more = np.diag(np.sqrt(len(y) * (ridge + 1e-10) * size))
    wide = np.zeros((len(ridge), y.shape[1]))
    return np.linalg.lstsq(np.concatenate([x, more]), np.concatenate([y, wide]), rcond=None)[0]


@BOTH
@pytest.mark.parametrize("name", ["filter", "additive"])
def test_each_block_is_judged_by_a_fit_without_it_and_the_ridge_of_the_next_block(
    samples: Samples, name: Class
) -> None:
    features = Features(samples)
    data = scaled(samples, features.of)
    made = sums(data, BLOCKS, 2)
    fitted = fit_classes(features, made)
    groups = np.array(features.groups)
    stages: list[tuple[Class, tuple[str, ...]]] = [
        ("filter", ("now", "past")),
        ("additive", ("curved", "additive", "mean")),
    ]
    for block in (0, 3, BLOCKS - 1):
        train = held_out(samples, made.numbers, block).train
        after = (block + 1) % BLOCKS
        known = np.where(groups == "one", 0.0, RIDGES[-1])
        for stage, free in stages:
            columns = features.columns(*GROUPS[stage])
            without = np.intersect1d(train, held_out(samples, made.numbers, after).train)
            x, y = (each for each in design(data, without))
            seen, wanted = design(data, np.flatnonzero(made.numbers == after))
            best = np.inf
            options = [
                np.where(
                    np.isin(groups, free), weight * (1 + features.column_lags) ** growth, known
                )
                for weight in RIDGES
                for growth in (0.0, 1.0)
            ]
            for option in options:
                theta = ridged(x[:, columns], y, option[columns])
                error = ((wanted - seen[:, columns] @ theta) ** 2).sum()
                # of options that are equally good but for rounding, the first
                if error < best * (1 - 1e-9):
                    best, chosen = error, option
            known = chosen
            if stage == name:
                break
        x, y = design(data, train)
        slow = ridged(x[:, columns], y, known[columns])
        held = design(data, np.flatnonzero(made.numbers == block))[0][:, columns]
        np.testing.assert_allclose(held @ fitted[name].apart[block], held @ slow, atol=1e-6)


@BOTH
def test_the_errors_inside_are_what_least_squares_leaves(samples: Samples) -> None:
    found = ladder(samples, seed=1, progress=False)
    features = Features(samples)
    x = features.of(np.arange(samples.count))
    y = samples.truth(np.arange(samples.count)).reshape(len(x), -1)
    for name, groups in GROUPS.items():
        mine = x[:, features.columns(*groups)]
        left = y - mine @ np.linalg.lstsq(mine, y, rcond=None)[0]
        inside = found.errors.inside[name].sum() / found.errors.points.sum()
        # the ridge against rounding leaves a little more
        assert (left**2).sum(1).mean() <= inside * (1 + 1e-9)
        assert inside == pytest.approx((left**2).sum(1).mean(), rel=1e-5)


NESTED: tuple[tuple[Class, ...], ...] = (
    ("nothing", "memoryless linear", "memoryless", "additive", "pairwise"),
    ("nothing", "memoryless linear", "filter", "additive", "pairwise"),
    ("memoryless", "set", "additive"),
    ("filter", "causal", "linear"),
)


@settings(max_examples=12)
@given(st.integers(0, 10_000), st.integers(1, 2), st.integers(1, 4), st.booleans())
def test_a_richer_class_never_leaves_more_inside(
    seed: int, d: int, length: int, whole: bool
) -> None:
    drawn = np.random.default_rng(seed)
    if whole:
        x = drawn.standard_t(3, size=(30, length, d))
        samples = sequences(x, drawn.normal(size=(30, length, 1)) + np.abs(x[..., :1]))
    else:
        x = drawn.standard_t(3, size=(150, d))
        samples = windows(x, drawn.normal(size=(150, 1)) + np.abs(x[:, :1]), length)
    inside = ladder(samples, seed, progress=False).errors.inside
    for chain in NESTED:
        left = [inside[name].sum() for name in chain if name in inside]
        assert all(b <= a + 1e-6 * left[0] for a, b in itertools.pairwise(left))


def shares(samples: Samples) -> np.ndarray:
    found = ladder(samples, seed=1, progress=False)
    return np.array([[rung.lower.value, rung.upper.value] for rung in found.rungs])


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(("times", "plus"), [(1e-3, 0.0), (1e3, 0.0), (1.0, 1e6), (-7.0, -300.0)])
def test_units_of_tokens_and_outputs_change_no_share(
    whole: bool, times: float, plus: float
) -> None:
    made = PANEL if whole else SERIES
    x, y = made.x, made.y + made.x

    def cut(x: np.ndarray, y: np.ndarray) -> Samples:
        if not whole:
            return windows(x, y, 5)
        return sequences(x.reshape(-1, 4, 1), y.reshape(-1, 4, 1))

    before = shares(cut(x, y))
    np.testing.assert_allclose(shares(cut(x, times * y + plus)), before, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(shares(cut(times * x + plus, y)), before, rtol=1e-4, atol=1e-6)


def test_the_order_of_a_panel_changes_nothing_but_which_block_a_sequence_is_in() -> None:
    order = np.random.default_rng(0).permutation(PANEL.count)
    x, y = (each.reshape(PANEL.count, 4, 1)[order] for each in (PANEL.x, PANEL.y))
    one, two = (ladder(each, 1, progress=False) for each in (PANEL, sequences(x, y)))
    for name in one.errors.inside:
        np.testing.assert_allclose(
            two.errors.inside[name], one.errors.inside[name][order], rtol=1e-6, atol=1e-9
        )
    # which sequence is drawn into which block depends on the seed and the place alone
    features = Features(PANEL)
    data = scaled(PANEL, features.of)
    np.testing.assert_array_equal(
        sums(data, BLOCKS, 1).numbers, sums(scaled(sequences(x, y), features.of), BLOCKS, 1).numbers
    )
