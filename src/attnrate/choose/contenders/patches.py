"""A Transformer on patches: a convolution on the inputs makes one token of several (sec. 7).

Windows become few tokens, side by side. Sequences with an output at each token keep as many: each
is joined with those before it. Attention sees the whole sample.
"""

import torch
from jaxtyping import Float
from torch import nn

from attnrate.choose.contender import Contender, Cost, Shape
from attnrate.choose.contenders.transformer import FEATURES, Attending, attention

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
        model = attention(FEATURES, shape.out, tokens, width, m_h)
        self.model = Attending(model, shape.whole)

    def forward(self, x: Float[Tensor, "batch length d"]) -> Float[Tensor, "batch places out"]:
        """Map tokens to the outputs at each patch, or at the last one."""
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
    return Patched(shape, size, m_h)


CONTENDER = Contender(
    "patches", "Transformer on patches", make, 3e-2, Cost(3.0e-3, 0.0, 6e-6, 2e-10), FEATURES
)
