"""A Transformer of the paper's form, two layers with positions; the last token or each is read.

It sees the whole sample, also on panels, where the recurrent contenders are causal.
"""

from torch import nn

from attnrate.choose.contender import Contender, Cost, Read, Shape
from attnrate.models.transformer import Transformer

#: The number of features, of which the values have as many; heads are this large at most
FEATURES = 16


def attention(d: int, out: int, length: int, width: int, m_h: int | None) -> Transformer:
    """Make the Transformer that the contenders with attention have in common.

    Args:
        d: The number of coordinates of a token.
        out: The number of coordinates of an output.
        length: The number of tokens.
        width: The number of hidden units of its networks.
        m_h: The head size. Default: the number of features.

    """
    return Transformer(
        d,
        out,
        n=FEATURES,
        m_h=m_h or FEATURES,
        m_v=FEATURES,
        width=width,
        depth=1,
        layers=2,
        position="learned",
        length=length,
        residual=True,
        layer_norm=True,
        scale=True,
    )


def make(shape: Shape, size: int, m_h: int | None = None) -> nn.Module:
    """Make a Transformer on tokens.

    Args:
        shape: What it maps.
        size: The number of hidden units of its networks.
        m_h: The head size. Default: the number of features.

    """
    return Read(attention(shape.d, shape.out, shape.length, size, m_h), shape.whole)


CONTENDER = Contender(
    "transformer", "Transformer", make, 3e-2, Cost(3e-3, 0.0, 1e-4, 1e-9), FEATURES
)
