"""Cuts of values against the best low-rank approximation of what heads give."""

import pytest
import torch
from held_calls import call_of, draw, held_of

from attnrate.compress.moments import Moments
from attnrate.compress.values import value_cut


def outputs(held):
    key, value = held.spread(held.key), held.spread(held.value)
    return (held.weights(held.query, key, slice(None)) @ value).double()


def given(held, W_O, cut):
    """What the layer adds, whole and cut, input by input and token by token."""
    o = outputs(held).transpose(1, 2)
    V = cut.V.repeat_interleave(held.shared, 0)
    whole = torch.einsum("bthv,hvn->btn", o, W_O)
    thin = torch.einsum("bthv,hvr,hwr,hwn->btn", o, V, cut.U, W_O)
    return whole, thin + cut.shift


@pytest.mark.parametrize("size", [1, 3])
def test_one_head_loses_the_tail_of_its_centred_outputs(size):
    held = held_of(call_of(heads=1, groups=1, m_v=6))
    W_O = draw(5, 1, 6, 9).double()
    whole, thin = given(held, W_O, value_cut(Moments.of(held), W_O, size))
    centred = (whole - whole.mean((0, 1))).flatten(0, 1)
    tail = torch.linalg.svdvals(centred)[size:].square().sum()
    assert float((thin - whole).square().sum()) == pytest.approx(float(tail), rel=1e-4)


@pytest.mark.parametrize("groups", [2, 4])
def test_full_size_changes_nothing_and_less_changes_more(groups):
    held = held_of(call_of(groups=groups, causal=True), (12, 7, 9))
    W_O = draw(5, 4, 5, 9).double()
    moments, lost = Moments.of(held), []
    for size in range(1, 6):
        whole, thin = given(held, W_O, value_cut(moments, W_O, size))
        seen = held.counted[..., None]
        lost.append(float(((thin - whole) * seen).square().sum() / (whole * seen).square().sum()))
    assert lost == sorted(lost, reverse=True)
    assert lost[-1] < 1e-10


def test_the_mean_is_kept_whatever_the_size():
    held = held_of(call_of())
    W_O = draw(5, 4, 5, 9).double()
    whole, thin = given(held, W_O, value_cut(Moments.of(held), W_O, 1))
    torch.testing.assert_close(thin.mean((0, 1)), whole.mean((0, 1)), rtol=1e-4, atol=1e-5)
