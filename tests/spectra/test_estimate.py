"""Singular values from factors, against the matrix formed in float64 and its full SVD."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnrate.spectra.estimate import Gram, spectra


def dense(query: torch.Tensor, key: torch.Tensor, scale: float, gauge: bool) -> torch.Tensor:
    """σ of scale·QKᵀ/√(TS) by forming it; rows' means out with the gauge."""
    logits = scale * query.double() @ key.double().mT
    if gauge:
        logits = logits - logits.mean(-1, keepdim=True)
    found = torch.linalg.svdvals(logits / (len(query) * len(key)) ** 0.5)
    size = query.shape[-1]
    return torch.nn.functional.pad(found, (0, max(0, size - len(found))))[:size]


def spectrum(query: Gram, key: Gram, scale: float, gauge: bool) -> torch.Tensor:
    return spectra(query, key, scale)[0 if gauge else 1]


def draw(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    queries=st.integers(1, 30),
    keys=st.integers(1, 30),
    m_h=st.integers(1, 12),
    shared=st.integers(1, 3),
    gauge=st.booleans(),
)
def test_is_that_of_the_formed_matrix(seed, queries, keys, m_h, shared, gauge):
    query, key = draw(seed, 2, 2 * shared, queries, m_h), draw(seed + 1, 2, 2, keys, m_h)
    found = spectrum(Gram.of(query), Gram.of(key), 0.3, gauge)
    assert found.shape == (2, 2 * shared, m_h)
    for i in range(2):
        for head in range(2 * shared):
            wanted = dense(query[i, head], key[i, head // shared], 0.3, gauge)
            assert torch.allclose(found[i, head], wanted, rtol=0, atol=1e-7 * (1 + wanted[0]))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), lengths=st.lists(st.integers(1, 15), min_size=1, max_size=4))
def test_padding_does_not_count(seed, lengths):
    query, key = draw(seed, len(lengths), 3, 15, 5), draw(seed + 1, len(lengths), 3, 15, 5)
    kept = torch.arange(15) < torch.tensor(lengths)[:, None]
    query[~kept[:, None].expand(-1, 3, -1)] = torch.nan  # whatever a model leaves there
    found = spectrum(Gram.of(query, kept), Gram.of(key, kept), 1.0, True)
    for i, length in enumerate(lengths):
        for head in range(3):
            wanted = dense(query[i, head, :length], key[i, head, :length], 1.0, True)
            assert torch.allclose(found[i, head], wanted, rtol=0, atol=1e-7 * (1 + wanted[0]))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), parts=st.lists(st.integers(1, 6), min_size=2, max_size=4))
def test_pooling_is_all_tokens_against_each_other(seed, parts):
    query = [draw(seed + i, 1, 2, 4 * n, 3) for i, n in enumerate(parts)]
    key = [draw(seed + 50 + i, 1, 2, 4 * n, 3) + 5 for i, n in enumerate(parts)]
    moments = [Gram.of(each).pooled() for each in query], [Gram.of(each).pooled() for each in key]
    pooled = [one[0] for one in moments]
    for side in range(2):
        for other in moments[side][1:]:
            pooled[side] = pooled[side].joined(other)
    for gauge in (True, False):
        found = spectrum(pooled[0], pooled[1], 2.0, gauge)
        for head in range(2):
            wanted = dense(torch.cat(query, 2)[0, head], torch.cat(key, 2)[0, head], 2.0, gauge)
            assert torch.allclose(found[head], wanted, rtol=0, atol=1e-7 * wanted[0])


@pytest.mark.parametrize("offset", [1e2, 1e4])
def test_a_large_common_part_of_the_keys_leaves_the_gauged_values_right(offset):
    query, key = draw(0, 1, 1, 200, 8), draw(1, 1, 1, 200, 8).double()
    found = spectrum(Gram.of(query), Gram.of(key + offset), 1.0, True)
    wanted = dense(query[0, 0], key[0, 0], 1.0, True)
    assert torch.allclose(found[0, 0], wanted, rtol=1e-7)


def test_dead_heads_have_a_spectrum_of_zeros():
    dead = torch.zeros(1, 1, 10, 4)
    assert spectrum(Gram.of(dead), Gram.of(draw(0, 1, 1, 10, 4)), 1.0, True).eq(0).all()


def test_picked_inputs_are_those_inputs():
    x = draw(0, 5, 2, 7, 3)
    picked, wanted = Gram.of(x).pick([1, 4]), Gram.of(x[[1, 4]])
    assert torch.equal(picked.spread, wanted.spread)
    assert torch.equal(picked.mean, wanted.mean)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_moments_are_exact_in_every_number_format(dtype):
    # Whole numbers that each format has; their sums over 4096 rows are beyond all but float64.
    drawn = torch.Generator().manual_seed(0)
    rows = torch.randint(-255, 256, (1, 2, 4096, 3), generator=drawn)
    found = Gram.of(rows.to(dtype))
    assert found.spread.dtype == torch.float64
    assert torch.equal(found.mean, rows.sum(-2).double() / 4096)
    centred = 4096 * rows - rows.sum(-2, keepdim=True)
    assert torch.equal(found.spread, (centred.mT @ centred).double() / 4096**2)
    odd = rows[:, :, :4095]
    torch.testing.assert_close(
        Gram.of(odd.to(dtype)).about_zero, (odd.mT @ odd).double(), rtol=1e-14, atol=1e-7
    )
