"""Why a cut does not pay: rules of rivals and times, tried both ways."""

import pytest

from attnrate.compress.measured import Measurements
from attnrate.compress.rivals import Rival
from attnrate.compress.timing import Timing
from attnrate.compress.verdict import outdone, slower


def found(int8: Rival, *others: Rival) -> Measurements:
    """A cut to 48 bytes that changes the output by 10 %, beside quantised keys."""
    whole, cut = Rival("whole", 128.0, 64.0, 0.0, 20.0), Rival("cut", 96.0, 48.0, 0.1, 25.0)
    return Measurements((), (), (whole, cut, int8, *others), ())


def test_quantised_keys_that_are_smaller_and_better_outdo_a_cut() -> None:
    said = outdone(found(Rival("int8 keys", 68.0, 48.0, 0.01, 20.1)))
    assert said == (
        "int8 keys of the whole model take 48 bytes per token in the cache instead of 48 (other "
        "numbers in 16 bits), and the output changes by 1.0 % instead of 10.0 %"
    )
    larger = Rival("int8 keys", 68.0, 51.0, 0.01, 20.1)
    assert outdone(found(larger)) is None
    assert outdone(found(Rival("int8 keys", 68.0, 40.0, 0.1, 20.1))) is None
    four = outdone(found(larger, Rival("4-bit keys", 50.0, 30.0, 0.09, 21.0)))
    assert four is not None
    assert four.startswith("4-bit keys of the whole model take 30 bytes")


def test_values_have_rivals_and_a_few_bytes_more_are_equal() -> None:
    said = outdone(found(Rival("int8 keys and values", 68.0, 50.0, 0.01, 20.1)))
    assert said is not None
    assert said.startswith("int8 keys and values of the whole model take 50 bytes")
    both = Rival("cut + int8 keys and values", 40.0, 20.0, 0.05, 22.0)
    assert outdone(found(both)) is None


def test_both_together_are_no_rival() -> None:
    both = Rival("cut + int8 keys", 40.0, 20.0, 0.05, 22.0)
    assert outdone(found(both)) is None
    assert outdone(Measurements((), (), (), ())) is None


def timings(low: float, last: float) -> Measurements:
    batch = Timing("batch", 4, None, 9, 1.0, 1.0, low + 0.1, low, low + 0.2)
    token = Timing("token", 1, 40, 9, 1.0, 1.0, last + 0.1, last, last + 0.2)
    return Measurements((), (batch, token), (), ())


@pytest.mark.parametrize(("last", "slow"), [(1.31, True), (1.29, False), (0.9, False)])
def test_a_model_that_is_slower_by_more_than_it_saves_does_not_pay(last: float, slow: bool) -> None:
    said = slower(timings(2.0, last), 0.3)
    assert (said is not None) == slow
    if said:
        assert said == (
            "a token takes 1.41 times as long (1.31 to 1.51), and no more than 30.0 % is saved"
        )


def test_without_times_nothing_is_slower() -> None:
    assert slower(Measurements((), (), (), ()), 0.0) is None
    batch = Measurements((), timings(2.0, 1.0).times[:1], (), ())
    assert str(slower(batch, 0.5)).startswith("a batch takes 2.10 times as long")
