"""A gated recurrent unit, read at the last token of a window or at each token of a sequence.

It is causal on panels as well: an output depends on its token and those before it.
"""

from torch import nn

from attnrate.choose.contender import Contender, Cost, Read, Shape
from attnrate.models.recurrent import GRU


def make(shape: Shape, size: int, m_h: int | None = None) -> nn.Module:
    """Make a GRU.

    Args:
        shape: What it maps.
        size: The size of its state.
        m_h: Nothing; it has no heads.

    """
    return Read(GRU(shape.d, shape.out, size), shape.whole)


CONTENDER = Contender("gru", "GRU", make, 3e-2, Cost(3.0e-3, 5e-5, 3.0e-4))
