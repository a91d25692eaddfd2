"""A temporal convolution network: dilated causal convolutions with residuals that see the window.

It is causal on panels as well: an output depends on its token and those before it.
"""

from torch import nn

from attnrate.choose.contender import Contender, Cost, Read, Shape
from attnrate.models.convolution import CausalConvolution


def make(shape: Shape, size: int, m_h: int | None = None) -> nn.Module:
    """Make a network whose layers see the whole sample.

    Args:
        shape: What it maps.
        size: The number of features between its layers.
        m_h: Nothing; it has no heads.

    """
    model = CausalConvolution(shape.d, shape.out, channels=size, kernel=3, length=shape.length)
    return Read(model, shape.whole)


CONTENDER = Contender("tcn", "TCN", make, 3e-2, Cost(1.5e-3, 0.0, 2.5e-4))
