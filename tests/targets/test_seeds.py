"""Seeds that differ in any bit give other numbers, which torch's own do not."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from attnrate.targets import linear_target
from attnrate.targets.seeds import generator, spread


def numbers(seed: int) -> list[float]:
    return torch.rand(4, generator=generator(seed)).tolist()


def test_torch_keeps_32_bits_of_a_seed_and_no_others() -> None:
    plain, shifted = (torch.Generator().manual_seed(seed) for seed in (3, 3 + (1 << 40)))
    assert torch.equal(torch.rand(4, generator=plain), torch.rand(4, generator=shifted))


@given(st.integers(0, (1 << 32) - 1))
def test_small_seeds_are_those_of_torch(seed: int) -> None:
    assert spread(seed) == seed


@given(st.integers(0, 1 << 30), st.integers(32, 61))
def test_every_bit_counts(seed: int, bit: int) -> None:
    assert numbers(seed) != numbers(seed + (1 << bit))
    assert 0 <= spread(seed + (1 << bit)) < 1 << 32


def test_sequences_of_seeds_far_apart_differ() -> None:
    target = linear_target("exponential", 8)
    found = [target.sample(4, (1 << bit) + 5) for bit in (33, 40, 41, 42, 43)]
    found.append(target.sample(4, 5))
    for i, one in enumerate(found):
        assert all(not torch.equal(one, other) for other in found[:i])
