"""Brackets: the lower bound is exact, the upper the least that was found, and both say why."""

import pytest

from attnrate.errors import InputError
from attnrate.fitting.bracket import bracket, floor_of
from attnrate.models import GRU, LinearRNN, Transformer
from attnrate.targets import linear_target, spectral_target, swap_ends

PERMUTED = linear_target("exponential", 8).permuted(swap_ends(8, 2))


def test_a_recurrent_model_on_a_permuted_target_is_held_by_its_floor() -> None:
    found = bracket(PERMUTED, lambda: LinearRNN(1, 1, hidden=16), steps=400)
    assert found.lower == PERMUTED.floor("time-invariant") > 0
    assert found.upper >= found.lower - 4 * found.upper_standard_error
    assert found.upper <= 1.1 * found.lower
    assert found.from_.lower == "best causal convolution with a bias"
    assert found.from_.upper == "trained"


def test_floors_follow_from_the_kind_of_model() -> None:
    assert floor_of(PERMUTED, GRU(1, 1, hidden=4))[0] == PERMUTED.floor("causal")
    assert floor_of(PERMUTED, LinearRNN(1, 1, 4, "tanh"))[0] == PERMUTED.floor("causal")
    assert floor_of(PERMUTED, Transformer(1, 1, causal=True))[0] == PERMUTED.floor("causal")
    assert floor_of(PERMUTED, Transformer(1, 1)) == (0.0, "no floor is known")


def test_a_head_of_full_rank_is_best_compiled_and_a_small_one_best_trained() -> None:
    target = spectral_target(1.0, 3, length=8)
    full = bracket(target, m_h=3, m_ff=512, steps=60)
    assert full.from_.upper.startswith("compiled")
    assert set(full.parts) == {"compiled", "compiled, then trained", "trained"}
    assert full.upper == min(full.parts.values())
    assert full.lower == 0.0
    assert full.from_.lower == "no floor is known"


@pytest.mark.parametrize(
    "request_",
    [{}, {"model": lambda: GRU(1, 1), "m_h": 2}, {"m_h": 2}, {"m_h": 0}],
)
def test_wrong_requests_are_refused(request_: dict[str, object]) -> None:
    with pytest.raises(InputError):
        bracket(PERMUTED, **request_)
