"""Sizes within a budget: the least sum of squares, as brute force over all combinations says."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnrate.compress.allocate import Options, front

# of a layer: the cost of a dimension, a cost that it has anyway, and the changes of its sizes
LAYERS = st.lists(
    st.tuples(
        st.sampled_from([1, 4, 6, 24]),
        st.integers(0, 9),
        st.lists(st.floats(0, 1), min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=4,
)


def options(drawn: list[tuple[int, int, list[float]]]) -> list[Options]:
    """Layers; changes need not fall with the size, since what is measured has errors."""
    found = []
    for unit, start, changes in drawn:
        sizes = tuple(range(2, 2 + 2 * len(changes), 2))
        found.append(Options(sizes, tuple(start + unit * size for size in sizes), tuple(changes)))
    return found


def every(layers: list[Options]) -> list[tuple[int, float, tuple[int, ...]]]:
    """Cost, sum of squares and sizes of all combinations."""
    found = []
    for picks in product(*(range(len(x.sizes)) for x in layers)):
        pairs = [*zip(layers, picks, strict=True)]
        square = 0.0
        for layer, i in pairs:
            square += layer.changes[i] ** 2
        cost = sum(layer.costs[i] for layer, i in pairs)
        found.append((cost, square, tuple(layer.sizes[i] for layer, i in pairs)))
    return found


@settings(max_examples=150, deadline=None)
@given(drawn=LAYERS, share=st.floats(-0.1, 1.1))
def test_no_combination_within_a_budget_has_a_lesser_sum(
    drawn: list[tuple[int, int, list[float]]], share: float
) -> None:
    layers = options(drawn)
    known, made = every(layers), front(layers)
    least, most = (end(cost for cost, _, _ in known) for end in (min, max))
    budget = round(least + share * (most - least))
    point = made.within(budget)
    allowed = [(square, cost) for cost, square, _ in known if cost <= budget]
    if not allowed:
        assert point == -1
        return
    square, cost = min(allowed)
    assert made.squares[point] == square
    sizes = made.sizes(point)
    assert (int(made.costs[point]), square, sizes) in known
    # the cheapest of those with the least sum
    assert made.costs[point] == cost


@settings(max_examples=50, deadline=None)
@given(drawn=LAYERS)
def test_the_front_rises_in_cost_and_falls_in_the_sum_from_the_cheapest_sizes_on(
    drawn: list[tuple[int, int, list[float]]],
) -> None:
    layers = options(drawn)
    made = front(layers)
    assert made.costs[0] == sum(min(x.costs) for x in layers)
    assert (np.diff(made.costs) > 0).all()
    assert (np.diff(made.squares) < 0).all()


def test_a_layer_that_hardly_feels_a_cut_gives_its_bytes_to_one_that_does() -> None:
    deaf = Options((8, 16, 24), (8, 16, 24), (0.01, 0.005, 0.001))
    keen = Options((8, 16, 24), (8, 16, 24), (0.5, 0.3, 0.05))
    made = front([deaf, keen])
    assert made.sizes(made.within(32)) == (8, 24)
    assert made.squares[made.within(32)] == pytest.approx(0.01**2 + 0.05**2)
    assert made.sizes(len(made.costs) - 1) == (24, 24)


def test_many_layers_of_many_sizes_take_no_time_to_speak_of() -> None:
    drawn = np.random.default_rng(0)
    sizes = tuple(range(2, 130, 2))
    layers = [
        Options(sizes, tuple(32 * s for s in sizes), tuple(np.sort(drawn.random(64))[::-1]))
        for _ in range(80)
    ]
    made = front(layers)
    half = made.sizes(made.within(80 * 64 * 32))
    assert sum(half) <= 80 * 64
    # exchanging two units between any two layers makes no sum less
    square = {(n, s): layers[n].changes[i] ** 2 for n in range(80) for i, s in enumerate(sizes)}
    for one, two in product(range(80), repeat=2):
        if one != two and half[one] < 128 and half[two] > 2:
            before = square[one, half[one]] + square[two, half[two]]
            after = square[one, half[one] + 2] + square[two, half[two] - 2]
            assert after >= before - 1e-12
