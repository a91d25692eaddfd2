"""Maps by position: their errors are those of a least squares for each position by itself."""

import numpy as np
import pytest
from cut_samples import sequences

from attnrate.choose.folds import blocks
from attnrate.choose.positions import by_position
from attnrate.choose.rungs import RIDGES, Class
from attnrate.choose.samples import Samples

drawn = np.random.default_rng(0)
N, T, D, K = 150, 4, 2, 2
X = drawn.normal(size=(N, T, D)) + 3.0
Y = np.einsum("ntd,tsdk->nsk", X, drawn.normal(size=(T, T, D, K))) + drawn.normal(size=(N, T, K))
PANEL = sequences(X, Y)
NAMES: tuple[Class, Class] = ("causal", "linear")


@pytest.mark.parametrize("name", NAMES)
def test_errors_inside_are_the_residuals_of_each_position(name: Class) -> None:
    wanted = np.zeros(N)
    for place in range(T):
        seen = X[:, : place + 1] if name == "causal" else X
        x = np.column_stack([np.ones(N), seen.reshape(N, -1)])
        left = Y[:, place] - x @ np.linalg.lstsq(x, Y[:, place], rcond=None)[0]
        wanted += (left**2).sum(1)
    np.testing.assert_allclose(by_position(PANEL, 6, 0)[name].inside, wanted, rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_held_out_errors_are_those_of_slow_ridge_regressions(name: Class) -> None:
    numbers = blocks(PANEL, 6, 5)
    flat = X.reshape(N, -1)
    scaled = (flat - flat.mean(0)) / flat.std(0)
    level = Y.mean(0)

    def theta(rows: np.ndarray, place: int, ridge: float) -> tuple[np.ndarray, int]:
        end = (place + 1) * D if name == "causal" else T * D
        x = np.column_stack([np.ones(len(rows)), scaled[rows, :end]])
        size = np.maximum(1.0, (x**2).mean(0))
        size[0] = 0.0
        more = np.diag(np.sqrt(len(rows) * ridge * size))
        y = np.concatenate([Y[rows, place] - level[place], np.zeros((end + 1, K))])
        return np.linalg.lstsq(np.concatenate([x, more]), y, rcond=None)[0], end

    def errors(learned: np.ndarray, judged: np.ndarray, ridge: float) -> np.ndarray:
        total = np.zeros(len(judged))
        for place in range(T):
            found, end = theta(learned, place, ridge)
            x = np.column_stack([np.ones(len(judged)), scaled[judged, :end]])
            total += ((Y[judged, place] - level[place] - x @ found) ** 2).sum(1)
        return total

    wanted = np.zeros(N)
    for block in range(6):
        after = (block + 1) % 6
        rest = np.flatnonzero((numbers != block) & (numbers != after))
        watched, mine = np.flatnonzero(numbers == after), np.flatnonzero(numbers == block)
        sums = [errors(rest, watched, ridge).sum() for ridge in RIDGES]
        ridge = RIDGES[int(np.argmin(sums))]
        wanted[mine] = errors(np.flatnonzero(numbers != block), mine, ridge)
    np.testing.assert_allclose(by_position(PANEL, 6, 5)[name].held, wanted, rtol=1e-5)


def test_long_sequences_have_none() -> None:
    assert by_position(sequences(np.zeros((30, 1025, 1)), np.zeros((30, 1025, 1))), 6, 0) == {}


def test_a_token_with_one_huge_value_breaks_no_fit() -> None:
    x = X.copy()
    x[17, 2, 1] = 1e12
    found = by_position(sequences(x, Y), 6, 0)
    assert all(np.isfinite(each.held).all() for each in found.values())


def test_the_samples_are_left_as_they_are() -> None:
    before: Samples = sequences(X, Y)
    by_position(before, 6, 0)
    np.testing.assert_array_equal(before.x, X.reshape(-1, D))
