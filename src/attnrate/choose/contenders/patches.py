"""A Transformer on patches: a convolution on the inputs makes one token of several (sec. 7).

Windows become few tokens, side by side. Sequences with an output at each token keep as many: each
is joined with those before it. Attention sees the whole sample.
"""

import torch
from jaxtyping import Float
from torch import nn

from attnrate.choose.contender import Contender, Cost, Read, Shape
from attnrate.choose.contenders.transformer import FEATURES, attention

Tensor = torch.Tensor

#: Tokens of a patch at most; a sample has four patches at least
_LARGEST = 8


class Patched(nn.Module):
    """A Transformer whose tokens are linear maps of `patch` tokens in a row.

    Args:
        shape: What it maps.
        width: The number of hidden units of the networks of the Transformer.
        m_h: The head size.

    """

    def __init__(self, shape: Shape, width: int, m_h: int | None) -> None:
        super().__init__()
        self.patch = max(2, min(_LARGEST, shape.length // 4))
        self.stride = 1 if shape.whole else self.patch
        # zeros before the first token, so that the last patch ends with the last token
        self.before = self.patch - 1 if shape.whole else -shape.length % self.patch
        tokens = (shape.length + self.before - self.patch) // self.stride + 1
        self.convolution = nn.Conv1d(shape.d, FEATURES, self.patch, stride=self.stride)
        self.model = attention(FEATURES, shape.out, tokens, width, m_h)

    def forward(self, x: Float[Tensor, "batch length d"]) -> Float[Tensor, "batch tokens out"]:
        """Map tokens to the outputs at the patches."""
        padded = nn.functional.pad(x.mT, (self.before, 0))
        outputs: Tensor = self.model(self.convolution(padded).mT)
        return outputs


def make(shape: Shape, size: int, m_h: int | None = None) -> nn.Module:
    """Make a Transformer on patches.

    Args:
        shape: What it maps.
        size: The number of hidden units of its networks.
        m_h: The head size. Default: the number of features.

    """
    return Read(Patched(shape, size, m_h), shape.whole)


CONTENDER = Contender(
    "patches", "Transformer on patches", make, 3e-2, Cost(3e-3, 0.0, 5e-5, 1e-9), FEATURES
)
