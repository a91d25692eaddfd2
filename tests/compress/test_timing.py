"""Times in turn: who goes first, when it ends, and what is made of them; by a clock of ours."""

import pytest
import torch
from rotary_tiny import tiny_llama, tokens
from small_models import small

import attnrate as ar
from attnrate.compress.timing import in_turn, time_batch, time_token, timed


class Clock:
    """A clock that goes on when work is done."""

    def __init__(self) -> None:
        self.now = 0.0
        self.order: list[str] = []

    def __call__(self) -> float:
        return self.now

    def work(self, name: str, seconds: float) -> None:
        self.now += seconds
        self.order.append(name)


def rounds(seconds: float, most: int = 12, whole: float = 1.0) -> tuple[list[str], list[float]]:
    """Who worked, and the times of the cut model over those of the whole one."""
    clock = Clock()
    found = in_turn(
        lambda _: clock.work("whole", whole),
        lambda number: clock.work("cut", 0.5 + number / 8),
        seconds,
        most,
        clock,
    )
    return clock.order, [cut / own for own, cut in found]


def test_both_have_their_turn_and_the_first_changes() -> None:
    order, ratios = rounds(4.5)
    # 1.5 + 1.625 + 1.75 seconds
    assert order == ["whole", "cut", "cut", "whole", "whole", "cut"]
    assert ratios == [0.5, 0.625, 0.75]


def test_three_rounds_are_run_in_any_case_and_no_more_than_asked() -> None:
    assert [len(rounds(seconds)[1]) for seconds in (0.0, 5.0, 1000.0)] == [3, 4, 12]
    assert len(rounds(1000.0, 2)[1]) == 2


def test_the_ratio_is_the_median_over_rounds_and_its_spread_their_middle_half() -> None:
    found = timed("batch", 4, None, [(1.0, 1.0), (1.0, 2.0), (2.0, 6.0), (1.0, 4.0), (10.0, 50.0)])
    assert (found.before, found.after) == (1, 4)
    assert (found.low, found.ratio, found.high, found.rounds) == (2, 3, 4, 5)


def test_a_batch_is_timed_with_as_many_inputs_as_there_is_time_for() -> None:
    one = small("bert")
    quick = time_batch(one.model, one.model, one.batch, 0.0)
    assert (quick.work, quick.inputs, quick.tokens, quick.rounds) == ("batch", 1, None, 3)
    assert time_batch(one.model, one.model, one.batch, 1e3).inputs == 4
    assert 0 < quick.low <= quick.ratio <= quick.high


def test_a_token_is_timed_at_the_end_of_a_text() -> None:
    model = tiny_llama()
    seen: list[tuple[int, int]] = []

    def see(_part: object, given: tuple[object, ...], named: dict[str, object]) -> None:
        ids, cache = named["input_ids"], named["past_key_values"]
        seen.append((ids.shape[1], cache.get_seq_length()))  # type: ignore[attr-defined]

    hook = model.register_forward_pre_hook(see, with_kwargs=True)
    found = time_token(model, model, tokens(1, 20), 100.0)
    hook.remove()
    assert found is not None
    assert (found.work, found.inputs, found.tokens, found.rounds) == ("token", 1, 11, 9)
    assert sorted(seen[4:]) == [(1, place) for place in range(11, 20) for _ in range(2)]
    assert time_token(model, model, tokens(1, 3), 1.0) is None


def test_times_can_be_left_out_and_are_no_negative_number() -> None:
    inputs = {"input_ids": tokens(10, 20)}
    done = ar.compress(tiny_llama(torch.float32), inputs, size=8, timing=0)
    assert len(done.times) == 0
    assert "times as long" not in str(done)
    for wrong in (-1, float("nan"), "fast"):
        with pytest.raises(ar.InputError, match="timing must be a"):
            ar.compress(tiny_llama(torch.float32), inputs, size=8, timing=wrong)
