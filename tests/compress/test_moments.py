"""The sums of a layer against sums that are formed by hand, in float64."""

import pytest
import torch
from held_calls import call_of, draw, held_of

from attnrate.compress.moments import Moments, joined
from attnrate.spectra.attention import weights

LENGTHS = (12, 7, 9)
CASES = {
    "plain": {},
    "causal": {"causal": True},
    "bias": {"bias": True},
    "one head a key": {"groups": 4},
    "cross": {"tokens": (5, 12)},
}


def rows_by_hand(call, lengths, head):
    """(weights, queries, keys, values) of each input without its padding."""
    group = head // (call.query.shape[1] // call.key.shape[1])
    for i, length in enumerate(lengths):
        T = call.query.shape[2]
        kept = (torch.arange(call.key.shape[2]) < length)[None]
        q, k = call.query[i : i + 1].double(), call.key[i : i + 1].double()
        k = k.repeat_interleave(call.query.shape[1] // call.key.shape[1], 1)
        A = weights(call, q, k, slice(0, T), kept)[0, head, :, :length]
        rows = slice(0, length if call.key.shape[2] == T else T)
        yield (
            A[rows],
            call.query[i, head, rows].double(),
            call.key[i, group, :length].double(),
            call.value[i, group, :length].double(),
        )


def cov(p, x, y):
    return x.T @ torch.diag(p) @ y - torch.outer(x.T @ p, y.T @ p)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("padded", [False, True])
def test_sums_are_those_formed_by_hand(name, padded):
    call = call_of(**CASES[name])
    lengths = LENGTHS if padded else (12,) * 3
    W_O = draw(20, 4, 5, 7)
    found = Moments.of(held_of(call, lengths if padded else None), W_O)
    shared = 4 // call.key.shape[1]
    for head in range(4):
        parts = list(rows_by_hand(call, lengths, head))
        near = {"rtol": 1e-4, "atol": 1e-5}
        same = torch.testing.assert_close
        same(found.query[head], sum(q.T @ q for _, q, _, _ in parts), **near)
        same(found.logits[head // shared], sum(k.T @ k for _, _, k, _ in parts), **near)
        centred = [k - k.mean(0) for _, _, k, _ in parts]
        same(found.gauge[head // shared], sum(k.T @ k for k in centred), **near)
        felt = sum(cov(p, k, k) for A, _, k, _ in parts for p in A)
        same(found.felt[head], felt, **near)
        J = [W_O[head].T.double() @ cov(p, v, k) for A, _, k, v in parts for p in A]
        same(found.output[head], sum(j.T @ j for j in J), **near)
        out = torch.cat([A @ v for A, _, _, v in parts])
        same(found.mixed_mean[head], out.mean(0), **near)
        same(found.mixed_spread[head], torch.cov(out.T, correction=0), **near)


def test_what_is_felt_is_the_variance_of_the_error_under_the_weights():
    call = call_of(causal=True)
    delta = draw(9, 6).double()
    wanted = 0.0
    for A, _, k, _ in rows_by_hand(call, (12,) * 3, 1):
        error = k @ delta
        wanted += float((A @ error**2 - (A @ error) ** 2).sum())
    assert float(delta @ Moments.of(held_of(call)).felt[1] @ delta) == pytest.approx(wanted)


def test_sums_of_two_calls_are_those_of_both_together():
    call = held_of(call_of(), LENGTHS)
    parts = [Moments.of(call.pick([0])), Moments.of(call.pick([1, 2]))]
    both, whole = joined(parts), Moments.of(call)
    for name in ("query", "felt", "output", "mixed_spread"):
        torch.testing.assert_close(getattr(both, name), getattr(whole, name))


def test_a_sink_counts_as_a_key_at_zero():
    call = call_of()
    sinks = draw(30, 1, 4, 1, 1)
    held = Moments.of(
        held_of(type(call)(call.query, call.key, call.value, call.scale, sinks=sinks))
    )
    logits = call.scale * call.query[:, 3].double() @ call.key[:, 1].double().mT
    wide = torch.cat([logits, sinks[0, 3, 0, 0].double().expand(3, 12, 1)], -1).softmax(-1)
    keys = torch.cat([call.key[:, 1].double(), torch.zeros(3, 1, 6).double()], 1)
    wanted = sum(cov(p, keys[i], keys[i]) for i in range(3) for p in wide[i])
    torch.testing.assert_close(held.felt[3], wanted, rtol=1e-4, atol=1e-5)
