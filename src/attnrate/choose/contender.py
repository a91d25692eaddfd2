"""Contenders of the race: kinds of models, made with about equally many parameters."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Float
from torch import nn

from attnrate.choose.samples import Samples
from attnrate.errors import InputError, hint
from attnrate.found import modules_of
from attnrate.models.base import nearest_size

Tensor = torch.Tensor


@dataclass(frozen=True)
class Shape:
    """What a contender maps: (batch, length, d) to (batch, places, out).

    Attributes:
        d: The number of coordinates of a token.
        out: The number of coordinates of an output.
        length: The number of tokens of a sample.
        whole: Whether each token has an output; else the last one alone has.

    """

    d: int
    out: int
    length: int
    whole: bool

    @classmethod
    def of(cls, samples: Samples) -> "Shape":
        """Give the shape that models of these samples have.

        Args:
            samples: The samples.

        """
        return cls(samples.d, samples.out, samples.length, samples.whole)


@dataclass(frozen=True)
class Cost:
    """A fixed model of the seconds that a step of training takes on one core.

    seconds = step + token · length + parameter · batch · length · parameters / 10⁶
    + pair · batch · length². The plan that these constants give is the same on each machine.
    They were measured on a shared machine of two cores on 2026-11-19, and are within a third.

    Attributes:
        step: Seconds of a step, whatever the sizes.
        token: Seconds of each token of a sample, for models that go from token to token.
        parameter: Seconds of a million products of tokens and parameters.
        pair: Seconds of a pair of tokens, for models that compare them.

    """

    step: float
    token: float = 0.0
    parameter: float = 0.0
    pair: float = 0.0

    def seconds(self, shape: Shape, parameters: int, batch: int) -> float:
        """Give the nominal seconds of one step.

        Args:
            shape: What the model maps.
            parameters: The number of its parameters.
            batch: The number of samples in the step.

        """
        tokens = batch * shape.length
        return (
            self.step
            + self.token * shape.length
            + self.parameter * tokens * parameters / 1e6
            + self.pair * tokens * shape.length
        )


#: A function from a shape, a size and a head size to a model; its parameters grow with the size
Maker = Callable[[Shape, int, int | None], nn.Module]


@dataclass(frozen=True)
class Contender:
    """A kind of model in the race; a file of `contenders/` holds one, by the name CONTENDER.

    Attributes:
        name: Its name in tables and in stores.
        title: Its name on pages.
        make: The function that makes it.
        rate: The largest step size; 0 for a model that is solved exactly.
        cost: What a step of training costs.
        m_h: The head size that it has in the race; None for models without heads.

    """

    name: str
    title: str
    make: Maker
    rate: float
    cost: Cost
    m_h: int | None = None

    @property
    def solved(self) -> bool:
        """Whether its least-squares problem is solved exactly, without steps."""
        return not self.rate

    def size(self, shape: Shape, parameters: int) -> int:
        """Give the size with which it is nearest to a number of parameters.

        Args:
            shape: What it maps.
            parameters: The wanted number of parameters.

        Returns:
            The size; 1 if even the smallest model is larger, and for a model that is solved.

        """
        if self.solved:
            return 1
        with torch.device("meta"):
            if count_of(self.make(shape, 1, self.m_h)) >= parameters:
                return 1
        return nearest_size(lambda size: count_of(self.make(shape, size, self.m_h)), parameters)

    def parameters(self, shape: Shape, size: int, m_h: int | None = None) -> int:
        """Count the parameters of a model without making its numbers.

        Args:
            shape: What it maps.
            size: Its size.
            m_h: Its head size. Default: that of the race.

        """
        with torch.device("meta"):
            return count_of(self.make(shape, size, m_h or self.m_h))


class Read(nn.Module):
    """A model of sequences, read at each token or at the last one.

    Args:
        model: A module from (batch, length, d) to (batch, length, out).
        whole: Whether each token is read.

    """

    def __init__(self, model: nn.Module, whole: bool) -> None:
        super().__init__()
        self.model, self.whole = model, whole

    def forward(self, x: Float[Tensor, "batch length d"]) -> Float[Tensor, "batch places out"]:
        """Map tokens to the outputs that are read."""
        outputs: Tensor = self.model(x)
        return outputs if self.whole else outputs[:, -1:]


def count_of(model: nn.Module) -> int:
    """Count the trainable numbers of a module.

    Args:
        model: The module.

    """
    return sum(each.numel() for each in model.parameters() if each.requires_grad)


@cache
def contenders() -> dict[str, Contender]:
    """Give all contenders by name, as they are found in `contenders/`."""
    found: list[Contender] = [
        module.CONTENDER for module in modules_of("attnrate.choose.contenders")
    ]
    return {each.name: each for each in sorted(found, key=lambda one: not one.solved)}


def contender(name: str) -> Contender:
    """Give the contender of a name.

    Args:
        name: The name.

    Raises:
        InputError: If there is none of that name.

    """
    if name not in contenders():
        raise InputError("there is no such contender", name, hint(name, contenders()))
    return contenders()[name]
