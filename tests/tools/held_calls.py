"""Small calls of attention with grouped keys, biases, masks and padding, for tests."""

import torch

from attnrate.compress.held import Held
from attnrate.spectra.capture import Call


def draw(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def tokens_of(seed: int, inputs: int, heads: int, tokens: int, size: int) -> torch.Tensor:
    """Vectors whose directions are of different sizes, with a mean."""
    scales = torch.linspace(2, 0.3, size)
    return draw(seed, inputs, heads, tokens, size) * scales + draw(seed + 1, 1, heads, 1, size)


def call_of(
    seed: int = 0,
    heads: int = 4,
    groups: int = 2,
    m: int = 6,
    m_v: int = 5,
    tokens: tuple[int, int] = (12, 12),
    inputs: int = 3,
    causal: bool = False,
    bias: bool = False,
) -> Call:
    T, S = tokens
    return Call(
        tokens_of(seed, inputs, heads, T, m),
        tokens_of(seed + 2, inputs, groups, S, m),
        tokens_of(seed + 4, inputs, groups, S, m_v),
        m**-0.5,
        bias=draw(seed + 6, 1, heads, T, S) if bias else None,
        causal=causal,
    )


def padding(lengths: tuple[int, ...], longest: int) -> torch.Tensor:
    return torch.arange(longest) < torch.tensor(lengths)[:, None]


def held_of(call: Call, lengths: tuple[int, ...] | None = None) -> Held:
    if lengths is None:
        return Held.of(call, (None, None))
    kept = padding(lengths, call.key.shape[2])
    return Held.of(call, (kept if call.query.shape[2] == call.key.shape[2] else None, kept))
