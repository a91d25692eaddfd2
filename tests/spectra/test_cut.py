"""Cutting heads: the best logits of a rank, and what they do to attention, by hand in float64."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnrate.spectra.capture import Call
from attnrate.spectra.cut import loss, projection
from attnrate.spectra.estimate import Gram


def draw(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    tokens=st.integers(1, 30),
    rank=st.integers(0, 7),
    gauge=st.booleans(),
)
def test_cut_logits_are_the_best_of_their_rank(seed, tokens, rank, gauge):
    query, key = draw(seed, 1, 1, tokens, 6), draw(seed + 1, 1, 1, tokens, 6)
    P = projection(Gram.of(query).pooled(), Gram.of(key).pooled(), [rank], gauge)[0]
    Q, K = query[0, 0].double(), key[0, 0].double()
    logits, cut = Q @ K.mT, Q @ P @ K.mT
    if gauge:
        logits, cut = (each - each.mean(-1, keepdim=True) for each in (logits, cut))
    U, S, V = torch.linalg.svd(logits)
    best = (U[:, :rank] * S[:rank]) @ V[:rank]
    assert torch.linalg.matrix_rank(P, rtol=1e-6) <= rank
    wanted = torch.linalg.norm(best - logits)
    assert torch.linalg.norm(cut - logits) <= wanted + 1e-6 * S[0]


def by_hand(q, k, v, P, bias, hidden):
    """½ Σ |A' - A| and the relative error of the output, one head of one input."""
    logits = 0.5 * q @ k.T + bias
    short = 0.5 * (q @ P) @ k.T + bias
    weights = [np.where(hidden, -np.inf, each) for each in (logits, short)]
    A, B = (np.exp(each - each.max(-1, keepdims=True)) for each in weights)
    A, B = A / A.sum(-1, keepdims=True), B / B.sum(-1, keepdims=True)
    moved = np.abs(B - A).sum(-1).mean() / 2
    return moved, np.linalg.norm((B - A) @ v) / np.linalg.norm(A @ v)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("form", ["none", "bool", "added"])
def test_loss_is_that_of_attention_formed_by_hand(causal, form, monkeypatch):
    # blocks of a few rows, as with long inputs
    monkeypatch.setattr("attnrate.spectra.cut._ROWS", 2 * 4 * 9 * 2)
    query, key, value = draw(0, 2, 4, 9, 5), draw(1, 2, 2, 9, 5), draw(2, 2, 2, 9, 3)
    bias = draw(3, 1, 4, 9, 9)
    P = draw(4, 4, 5, 5).double()
    lengths = (9, 6)
    kept = torch.arange(9) < torch.tensor(lengths)[:, None]
    seen = kept[:, None, None, :].expand(2, 1, 9, 9)
    mask = {"none": None, "bool": seen, "added": torch.where(seen, 0.0, -1e30)}[form]
    call = Call(query, key, value, 0.5, mask, bias, causal)
    found = loss(call, P, (kept, kept))
    for i, length in enumerate(lengths):
        future = np.triu(np.ones((length, length), bool), 1) & causal
        for head in range(4):
            parts = (query[i, head], key[i, head // 2], value[i, head // 2])
            q, k, v = (each[:length].double().numpy() for each in parts)
            b = bias[0, head, :length, :length].double().numpy()
            wanted = by_hand(q, k, v, P[head].numpy(), b, future)
            assert found.weights[i, head] == pytest.approx(wanted[0], rel=1e-4)
            assert found.output[i, head] == pytest.approx(wanted[1], rel=1e-4)
