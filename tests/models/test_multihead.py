"""Multihead attention is the sum that its docstring says, for heads and values of any size."""

import math

import pytest
import torch

from attnrate.models.multihead import Multihead, Padding

Tensor = torch.Tensor


def by_hand(layer: Multihead, x: Tensor, memory: Tensor, seen: Tensor) -> Tensor:
    """One query, one head at a time, in the numbers of the layer; `seen` is (batch, T, S)."""
    rows = []
    for b in range(len(x)):
        for t in range(x.shape[1]):
            parts = []
            for head in range(layer.heads):
                some = slice(head * layer.m_h, (head + 1) * layer.m_h)
                other = slice(head * layer.m_v, (head + 1) * layer.m_v)
                q = layer.W_Q.weight[some] @ x[b, t] + layer.W_Q.bias[some]
                terms = []
                for s in range(memory.shape[1]):
                    k = layer.W_K.weight[some] @ memory[b, s] + layer.W_K.bias[some]
                    v = layer.W_V.weight[other] @ memory[b, s] + layer.W_V.bias[other]
                    if seen[b, t, s]:
                        terms.append(((q @ k / math.sqrt(layer.m_h)).exp(), v))
                whole = sum(weight for weight, _ in terms)
                parts.append(sum(weight / whole * v for weight, v in terms))
            rows.append(layer.W_O.weight @ torch.cat(parts) + layer.W_O.bias)
    return torch.stack(rows).reshape(*x.shape[:2], -1)


def layer_of(**sizes: object) -> Multihead:
    torch.manual_seed(0)
    layer = Multihead(**({"width": 6, "heads": 2, "m_h": 3} | sizes)).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.7)
    return layer


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("sizes", [{}, {"m_h": 1}, {"m_h": 7, "m_v": 2}, {"m_h": 2, "m_v": 5}])
def test_attention_within_a_sequence(sizes: dict[str, int]) -> None:
    layer, x = layer_of(**sizes), numbers(2, 4, 6)
    everything = torch.ones(2, 4, 4, dtype=torch.bool)
    torch.testing.assert_close(layer(x), by_hand(layer, x, x, everything))


def test_a_causal_layer_sees_no_later_token() -> None:
    layer, x = layer_of(causal=True), numbers(2, 4, 6)
    past = torch.ones(4, 4, dtype=torch.bool).tril().expand(2, 4, 4)
    torch.testing.assert_close(layer(x), by_hand(layer, x, x, past))


def test_attention_across_leaves_padding_out() -> None:
    layer, x, memory = layer_of(m_v=4), numbers(2, 3, 6), numbers(2, 5, 6)
    kept = torch.tensor([[True] * 5, [True] * 2 + [False] * 3])
    seen = kept[:, None, :].expand(2, 3, 5)
    found = layer(x, memory, Padding(key=kept))
    torch.testing.assert_close(found, by_hand(layer, x, memory, seen))


def test_padding_does_not_change_the_other_tokens() -> None:
    layer, x = layer_of(), numbers(2, 5, 6)
    kept = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    found = layer(x, padding=Padding(kept, kept))
    torch.testing.assert_close(found[1:, :3], layer(x[1:, :3]))


def test_remembered_keys_give_what_the_whole_sequence_gives() -> None:
    layer, x = layer_of(causal=True), numbers(2, 4, 6)
    keys, values = layer.remember(x)
    last = layer.attend(x[:, 3:], keys, values)
    torch.testing.assert_close(last, layer(x)[:, 3:])
