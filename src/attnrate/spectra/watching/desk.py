"""Where the sources of calls bring what they have seen of a model at work."""

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import nn

from attnrate.spectra.capture import Call
from attnrate.spectra.watching.running import Frame

Tensor = torch.Tensor
Did = Literal["product", "softmax"]


@runtime_checkable
class Desk(Protocol):
    """What a source of calls knows of the pass that is watched, and whom it tells."""

    @property
    def frames(self) -> Sequence[Frame]:
        """The modules at work, the innermost last."""

    @property
    def inputs(self) -> int:
        """The number of inputs in the batch."""

    @property
    def sees(self) -> bool:
        """Whether calls are wanted."""

    @property
    def edits(self) -> bool:
        """Whether queries are to be changed."""

    def is_free(self, module: nn.Module) -> bool:
        """Whether a module belongs to the model and to no adapter."""

    def begin(self, module: nn.Module) -> int:
        """Count a call of a module; which call of it in this pass it is, from 1."""

    def edited(self, module: nn.Module, run: int, query: Tensor) -> Tensor:
        """The queries (rows, heads, T, m) that the model is to use in that call."""

    def seen(self, module: nn.Module, run: int, call: Call) -> None:
        """Take a call of a module."""

    def did(self, what: Did) -> None:
        """Take note that the modules at work multiply matrices, or compute softmax."""

    def lost(self, module: nn.Module, why: str) -> None:
        """Take note that attention of a module was seen and not understood."""
