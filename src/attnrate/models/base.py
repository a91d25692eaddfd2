"""What models share: sequences in and out, the number of parameters, the feed-forward network."""

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Shaped
from torch import nn

from attnrate.errors import InputError
from attnrate.kinds import Kinds
from attnrate.settings import Count, Settings, checked

Tensor = torch.Tensor


@checked
def feed_forward(inputs: Count, outputs: Count, width: Count, depth: Count) -> nn.Sequential:
    """Make a ReLU network, the f̂ and F̂ of Eq. 5, with PyTorch's default weights.

    Args:
        inputs: The number of inputs.
        outputs: The number of outputs.
        width: The number of units in each hidden layer.
        depth: The number of hidden layers.

    Returns:
        The network, a torch module that acts on the last axis.

    Examples:
        >>> network = ar.feed_forward(1, 2, width=8, depth=3)
        >>> sum(p.numel() for p in network.parameters())
        178

    """
    sizes = [inputs, *[width] * depth]
    layers: list[nn.Module] = []
    for one, two in pairwise(sizes):
        layers += [nn.Linear(one, two), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], outputs))


#: What `model.kind` can name in settings; the target decides d and out
MODELS: Kinds[Callable[..., nn.Module]] = Kinds(
    "model", __package__, given=("d", "out"), without=("f_hat", "F_hat")
)


class Counted(nn.Module):
    """A module that counts its parameters."""

    def parameter_count(self) -> int:
        """Count the trainable numbers; shared ones count once."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


@checked
def nearest_size(count: Callable[[int], int], wanted: Count) -> int:
    """Find the size of a model whose number of parameters is nearest to a wanted one.

    No random number is drawn and no memory is taken, also where `count` builds the model.

    Args:
        count: A function from the size 1, 2, ... to the number of parameters, which grows with it.
        wanted: The wanted number of parameters.

    Returns:
        The size.

    Raises:
        InputError: If the smallest model is too large.

    Examples:
        >>> rival = ar.Transformer(1, 1, m_h=4).parameter_count()
        >>> ar.nearest_size(lambda hidden: ar.GRU(1, 1, hidden).parameter_count(), rival)
        158

    """
    with torch.device("meta"):
        if count(1) > wanted:
            raise InputError("no rival is as small as this model, of {value} parameters", wanted)
        low, high = 1, 2
        while count(high) < wanted:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if count(middle) < wanted else (low, middle)
        return min(low, high, key=lambda size: abs(count(size) - wanted))


class SequenceModel(Counted):
    """A torch module from sequences (batch, length, d) to sequences (batch, length, out).

    Inputs of any floating-point type are cast to that of the model's parameters, and there may be
    more axes before the length. A model of your own derives from this class, or simply from
    torch.nn.Module: `fit` takes both.

    Args:
        d: The number of coordinates of an input token.
        out: The number of coordinates of an output.

    Examples:
        >>> from torch import nn
        >>> class Pointwise(ar.SequenceModel):
        ...     def __init__(self, d, out):
        ...         super().__init__(d, out)
        ...         self.readout = nn.Linear(d, out)
        ...     def forward(self, x):
        ...         return self.readout(self.sequences(x))
        >>> target = ar.spectral_target(1.0, 2, length=4)
        >>> Pointwise(target.d, target.out)(target.sample(8, seed=0)).shape
        torch.Size([8, 4, 1])

    """

    if TYPE_CHECKING:
        # torch says nothing of what a module gives when it is called
        def __call__(self, x: torch.Tensor) -> torch.Tensor: ...  # noqa: D102

    def __init__(self, d: Count, out: Count) -> None:
        super().__init__()
        self.d, self.out = d, out

    @classmethod
    def needs_length(cls, settings: Settings) -> bool:
        """Say whether a model with these settings has to know how long the sequences are.

        Args:
            settings: The settings of the model, complete.

        Returns:
            False, unless a subclass says otherwise; True means that `length` is set to that of the
            target where the settings leave it open.

        """
        return False

    def sequences(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch length d"]:
        """Check the inputs of the model and cast them to the type of its parameters.

        Args:
            x: Sequences of shape (batch, length, d).

        Returns:
            The sequences as the model computes with them.

        Raises:
            InputError: If they have another shape or are no floating-point numbers.

        """
        tokens = require_tokens(x, self.d, self)
        if x.shape[-2] == 0:
            raise InputError("a sequence must have a token", tuple(x.shape), "Leave it out.")
        return tokens


def require_tokens(
    x: Shaped[Tensor, "..."],
    d: int,
    reader: nn.Module,
    shape: tuple[str, ...] = ("batch", "length"),
) -> Float[Tensor, "*shape d"]:
    """Check the tokens that a module reads, and cast them to the type of its parameters.

    Args:
        x: The tokens.
        d: The number of coordinates of a token.
        reader: The module that sees x first; without parameters it takes any floating-point type.
        shape: Names of the axes before the last; the first stands for any number of axes.

    Returns:
        The tokens as the module computes with them. InputError if they have another shape or are no
        floating-point numbers.

    """
    if not isinstance(x, Tensor):
        raise InputError("inputs must be a torch tensor", x, "Wrap them in torch.as_tensor.")
    if x.ndim < len(shape) or x.shape[-1] != d:
        raise InputError(
            f"inputs must have shape ({', '.join((*shape, str(d)))})",
            tuple(x.shape),
            f"The last axis holds the {d} coordinates of a token.",
        )
    if not x.is_floating_point():
        raise InputError("inputs must hold floats", x.dtype, "Pass x.float().")
    parameter = next(reader.parameters(), None)
    return x if parameter is None else x.to(parameter.dtype)
