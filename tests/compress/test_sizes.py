"""Which sizes are asked for: multiples, advice that is raised to them, and what is refused."""

import pytest

from attnrate.compress.sizes import Target, Wanted, Whole, candidates, kept, step_of
from attnrate.errors import InputError

CONTENT = {"a": Whole(32, 32, False), "b": Whole(12, 12, False)}
ROTARY = {"a": Whole(64, 64, True)}


def test_candidates_are_all_multiples_and_the_whole_size() -> None:
    assert candidates(Whole(32, 32, False)) == (8, 16, 24, 32)
    assert candidates(Whole(12, 12, False)) == (2, 4, 6, 8, 10, 12)
    assert candidates(Whole(20, 20, False), 8) == (8, 16, 20)
    assert candidates(Whole(5, 5, False), 1) == (1, 2, 3, 4, 5)
    assert candidates(Whole(12, 12, True), 1) == (2, 4, 6, 8, 10, 12)
    assert candidates(Whole(12, 12, True), 3) == (6, 12)


def test_a_step_is_8_for_large_heads_and_even_where_heads_turn_in_pairs() -> None:
    assert [step_of(Whole(m, m, False)) for m in (15, 16, 64)] == [2, 8, 8]
    assert [step_of(Whole(64, 64, True), n) for n in (1, 3, 4)] == [2, 6, 4]


def test_bytes_are_those_of_keys_and_values_and_values_are_cut_no_further_than_they_are() -> None:
    own = Whole(32, 20, False, number=12)
    assert [own.bytes(size, True) for size in (8, 24)] == [12 * 16, 12 * 44]
    assert own.bytes(8, False) == 12 * 28


def test_shares_and_sizes_keep_to_the_multiple() -> None:
    assert kept(Whole(64, 64, False), 0.5, 12) == 36
    assert Wanted(size=8, multiple_of=4).of(CONTENT) == {"a": 8, "b": 8}
    # a head may keep its size
    assert Wanted(sizes=[16, 12], multiple_of=8).of(CONTENT) == {"a": 16, "b": 12}
    assert Wanted(keep=0.3, multiple_of=6).of(CONTENT) == {"a": 12, "b": 6}


def test_an_advised_size_is_raised_to_the_multiple_and_no_higher_than_the_head() -> None:
    eights = Wanted(multiple_of=8)
    assert [eights.snapped(size, CONTENT["a"]) for size in (1, 8, 9, 31, 32)] == [8, 8, 16, 32, 32]
    assert eights.snapped(9, CONTENT["b"]) == 12
    assert [Wanted().snapped(size, CONTENT["a"]) for size in (1, 9)] == [1, 9]
    assert [Wanted().snapped(size, ROTARY["a"]) for size in (1, 9, 64)] == [2, 10, 64]


@pytest.mark.parametrize(
    ("asked", "layers", "said"),
    [
        ({"size": 9, "multiple_of": 8}, CONTENT, r"sizes of a must be multiples of 8: got 9.*=16"),
        ({"sizes": [8, 9], "multiple_of": 4}, CONTENT, r"sizes of b must be multiples of 4: got 9"),
        ({"size": 4, "multiple_of": 3}, ROTARY, r"must be multiples of 6: got 4. Pass size=6"),
        ({"size": 8, "multiple_of": 33}, CONTENT, r"at most the size of the heads, 32: got 33"),
        ({"keep": 0.5, "multiple_of": 65}, ROTARY, r"at most the size of the heads, 64: got 65"),
    ],
)
def test_what_is_no_multiple_is_refused_with_the_next_one(asked, layers, said) -> None:
    with pytest.raises(InputError, match=said):
        Wanted(**asked).of(layers)


@pytest.mark.parametrize(
    "asked",
    [
        {"size": 4, "target": Target(loss=0.1)},
        {"keep": 0.5, "target": Target(average=8.0)},
        {"target": Target(loss=0.1, bytes=100)},
    ],
)
def test_only_one_way_to_say_sizes_can_be_given(asked) -> None:
    with pytest.raises(InputError, match="only one of size, sizes, keep, loss, bytes and average"):
        Wanted(**asked)


def test_a_target_says_what_it_is() -> None:
    assert [str(x) for x in (Target(loss=0.05), Target(bytes=96), Target(average=12.0))] == [
        "loss=0.05",
        "bytes=96",
        "average=12",
    ]
    assert Wanted(target=Target(bytes=5)).is_target
    assert not Wanted(size=5).is_target
