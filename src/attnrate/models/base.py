"""What models share: sequences in and out, a count of parameters, the feed-forward network."""

from collections.abc import Callable
from itertools import pairwise

import torch
from jaxtyping import Float, Shaped
from torch import nn

from attnrate.errors import InputError
from attnrate.settings import Count, Kinds, Table

Tensor = torch.Tensor


def feed_forward(inputs: int, outputs: int, width: int, depth: int) -> nn.Sequential:
    """A ReLU network with `depth` hidden layers of `width` units, PyTorch's default init."""
    sizes = [inputs, *[width] * depth]
    layers: list[nn.Module] = []
    for one, two in pairwise(sizes):
        layers += [nn.Linear(one, two), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], outputs))


#: What `model.kind` can name in settings; the target says how many coordinates tokens have
MODELS: Kinds[type["SequenceModel"]] = Kinds(
    "model", __package__, without=("d", "out", "f_hat", "F_hat")
)


class Counted(nn.Module):
    """A module that tells its size."""

    def parameter_count(self) -> int:
        """Trainable numbers; shared ones count once."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


def nearest_size(count: Callable[[int], int], wanted: int) -> int:
    """The size whose count of parameters, which grows with it, is nearest to the wanted one.

    `count` may build the model of a size: nothing is allocated and no random number is drawn.
    """
    with torch.device("meta"):
        if count(1) > wanted:
            raise InputError("no rival is as small as this model; its parameters", wanted)
        low, high = 1, 2
        while count(high) < wanted:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if count(middle) < wanted else (low, middle)
        return min(low, high, key=lambda size: abs(count(size) - wanted))


class SequenceModel(Counted):
    """A map of sequences, (batch, length, d) -> (batch, length, out); more batch axes are fine."""

    def __init__(self, d: Count, out: Count) -> None:
        super().__init__()
        self.d, self.out = d, out

    @classmethod
    def needs_length(cls, settings: Table) -> bool:
        """Whether a model with these settings has to know how long the sequences are."""
        return False

    def _sequences(self, x: Shaped[Tensor, "..."]) -> Float[Tensor, "*batch length d"]:
        """x itself, when it is what the model takes."""
        if x.ndim > 1 and x.shape[-2] == 0:
            raise InputError("a sequence must have a token", tuple(x.shape), "Leave it out.")
        return require_tokens(x, self.d, self)


def require_tokens(
    x: Shaped[Tensor, "..."],
    d: int,
    reader: nn.Module,
    shape: tuple[str, ...] = ("batch", "length"),
) -> Float[Tensor, "*shape d"]:
    """x itself, or an InputError when it is not of shape (*shape, d) or not what `reader` reads.

    The first name of `shape` stands for any number of axes. `reader` is the module that sees x
    first; its parameters, if it has any, say which numbers it takes.
    """
    if x.ndim < len(shape) or x.shape[-1] != d:
        raise InputError(
            f"inputs must have shape ({', '.join((*shape, str(d)))})",
            tuple(x.shape),
            f"The last axis holds the {d} coordinates of a token.",
        )
    parameter = next(reader.parameters(), None)
    wanted = x.dtype if parameter is None else parameter.dtype
    if not x.is_floating_point() or x.dtype != wanted:
        named = "floats" if parameter is None else str(wanted)
        raise InputError(
            f"inputs must hold {named}",
            x.dtype,
            "Convert them with .to, or the model with .double.",
        )
    return x
