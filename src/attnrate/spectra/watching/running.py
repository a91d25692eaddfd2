"""Which modules of a model are at work, the innermost last, and with which arguments."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from torch import nn

Left = Callable[[nn.Module, tuple[Any, ...], Any], None]
"""A function of a module that has run, its positional arguments and its output."""


@dataclass(frozen=True)
class Frame:
    """A module at work and the arguments of its forward."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def given(self) -> dict[str, Any]:
        """The arguments by name."""
        return dict(zip(self.takes, self.args, strict=False)) | self.kwargs

    @property
    def takes(self) -> tuple[str, ...]:
        """The names of all arguments that its forward takes."""
        return _names(type(self.module).forward)


class Running:
    """The modules of a model that are at work.

    Attributes:
        stack: The modules at work, the innermost last.
        ran: The numbers (`id`) of all modules that have run.

    """

    def __init__(self, ran: set[int]) -> None:
        self.stack: list[Frame] = []
        self.ran = ran
        self._begun: Callable[[], None] = _nothing

    @contextmanager
    def follow(self, model: nn.Module, left: Left, begun: Callable[[], None]) -> Iterator[None]:
        """While it is open, the stack is kept; `left` is called when a module has run.

        `begun` is called when a module begins to run while no other does: another pass. Torch's own
        simple layers (Linear, LayerNorm, …) make no attention and are passed over.
        """
        self.stack.clear()
        self._begun = begun
        with ExitStack() as hooks:
            for part in model.modules():
                if is_simple(part):
                    continue
                enter = part.register_forward_pre_hook(self._enter, with_kwargs=True)
                hooks.callback(enter.remove)
                leave = part.register_forward_hook(self._leave(left), always_call=True)
                hooks.callback(leave.remove)
            try:
                yield
            finally:
                self.stack.clear()
                self._begun = _nothing

    def _enter(self, part: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not self.stack:
            self._begun()
        self.stack.append(Frame(part, args, kwargs))
        self.ran.add(id(part))

    def _leave(self, left: Left) -> Callable[..., None]:
        def hook(part: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            # after an exception, modules whose own hook was not reached are above this one
            while self.stack and self.stack.pop().module is not part:
                pass
            left(part, args, output)

        return hook


def _nothing() -> None:
    """Nothing is to be done when a pass begins."""


def is_simple(part: nn.Module) -> bool:
    """Whether a module is one of torch's own layers without parts."""
    own = type(part).__module__.startswith("torch.nn.modules.")
    return own and next(part.children(), None) is None


@cache
def _names(forward: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the arguments of a module's forward, without `self`."""
    return tuple(inspect.signature(forward).parameters)[1:]
