"""A Transformer of the paper's form, two layers with positions; the last token or each is read.

It sees the whole sample, also on panels, where the recurrent contenders are causal.
"""

import torch
from jaxtyping import Float
from torch import nn

from attnrate.choose.contender import Contender, Cost, Shape
from attnrate.models.transformer import Transformer

Tensor = torch.Tensor

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


class Attending(nn.Module):
    """A Transformer of which each token is read, or the last one; then it alone has a query.

    Args:
        model: The Transformer.
        whole: Whether each token is read.

    """

    def __init__(self, model: Transformer, whole: bool) -> None:
        super().__init__()
        self.model, self.whole = model, whole

    def forward(self, x: Float[Tensor, "batch length d"]) -> Float[Tensor, "batch places out"]:
        """Compute the outputs that are read, as `Transformer.forward` computes all of them."""
        model = self.model
        h: Tensor = model.f_hat(model.position(x))
        for inner in model.inner:
            h = inner(h)
        h = model.norm(h)
        asking = h if self.whole else h[:, -1:]
        mixed = model.rule.mix(model.W_Q(asking), model.W_K(h), model.W_V(h))
        outputs: Tensor = model.F_hat(mixed)
        return outputs


def make(shape: Shape, size: int, m_h: int | None = None) -> nn.Module:
    """Make a Transformer on tokens.

    Args:
        shape: What it maps.
        size: The number of hidden units of its networks.
        m_h: The head size. Default: the number of features.

    """
    return Attending(attention(shape.d, shape.out, shape.length, size, m_h), shape.whole)


CONTENDER = Contender(
    "transformer", "Transformer", make, 3e-2, Cost(2.5e-3, 0.0, 6.5e-5, 1.3e-8), FEATURES
)
