"""Thin layers that are also of the class in whose place they stand.

Transformers asks for the class of a layer: only of layers of the right class does it record the
attention weights (`output_attentions=True`). So a thin layer has its own `forward` from a class of
this room, and everything else from the class of the whole layer.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

import torch
from torch import nn

Attention: TypeAlias = Callable[..., tuple[torch.Tensor, torch.Tensor | None]]
"""An attention function of transformers."""
T = TypeVar("T", bound="StandIn")
_HOOKS = ("_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called")


@runtime_checkable
class Sizes(Protocol):
    """What says how large the heads of a thin layer are, such as its thin parts."""

    @property
    def size(self) -> int:
        """The size of queries and keys."""

    @property
    def value_size(self) -> int:
        """The size of values."""


class StandIn(nn.Module):
    """A layer made of a whole one and of its thin parts; families derive theirs from it.

    Args:
        module: The layer in whose place it stands.
        parts: Its thin parts, or its sizes.

    Attributes:
        whole: The class of the layer in whose place it stands.
        size: The size of queries and keys.
        value_size: The size of values.
        query_factor: What the layer multiplies its queries by before they meet the keys.
        in_cache: Whether its keys and values are kept while the model writes token by token.

    """

    whole: ClassVar[type[nn.Module]]
    query_factor: float = 1.0
    in_cache: bool = False

    def __init__(self, module: nn.Module, parts: Sizes) -> None:
        # not the constructor of the whole layer, which would make its large parts
        nn.Module.__init__(self)
        given: Any = module
        self.config: Any = given.config
        self.size, self.value_size = parts.size, parts.value_size
        for name in _HOOKS:  # among them that of transformers which records attention weights
            getattr(self, name).update(getattr(module, name))

    @property
    def plain(self) -> Attention:
        """The attention of the family by plain products, which is called "eager"."""
        home: Any = sys.modules[self.whole.__module__]
        return cast(Attention, home.eager_attention_forward)

    def extra_repr(self) -> str:
        """The sizes, for the model's own print."""
        return f"size={self.size}, values={self.value_size}"


def standing_in(thin: type[T], module: nn.Module, parts: Sizes) -> T:
    """A thin layer of the class `thin`, and of the class of the layer in whose place it stands."""
    return cast(T, _both(thin, type(module))(module, parts))


def is_of(module: nn.Module, families: Mapping[str, str], last: str) -> bool:
    """Whether a layer is of a class of some families of transformers, not of one derived from it.

    Args:
        module: The layer.
        families: What the names of classes begin with, by the families' names in transformers.
        last: What the name of the class ends with.

    """
    kind = type(module)
    names = {f"transformers.models.{f}.modeling_{f}": f"{own}{last}" for f, own in families.items()}
    return names.get(kind.__module__) == kind.__qualname__


_MADE: dict[tuple[type[StandIn], type[nn.Module]], type[StandIn]] = {}


def _both(thin: type[StandIn], whole: type[nn.Module]) -> type[StandIn]:
    """The class that is of both, made once."""
    known = _MADE.get((thin, whole))
    if known is not None:
        return known
    own = {
        "__doc__": thin.__doc__,
        "__module__": thin.__module__,
        # it has no name by which a copy in another process could find it
        "__reduce__": lambda self: (_empty, (thin, whole), self.__dict__),
        "whole": whole,
    }
    made = cast(type[StandIn], type(f"Thin{whole.__name__}", (thin, whole), own))
    return _MADE.setdefault((thin, whole), made)


def _empty(thin: type[StandIn], whole: type[nn.Module]) -> StandIn:
    kind = _both(thin, whole)
    return kind.__new__(kind)
