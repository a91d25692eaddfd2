"""Queries and keys before a rotary embedding turns them.

Models turn queries and keys in a function of their own (`apply_rotary_pos_emb` and the like) or in
a module (`RotaryEmbedding`). While a watch is open, what goes into these and what comes out is
remembered. If the queries and keys of a call are what came out, wholly or in their first or last
dimensions, then what went in is known, and nothing is assumed.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from types import FunctionType
from typing import Any

import torch
from torch import nn

from attnrate.spectra.capture import Call

Tensor = torch.Tensor
Turn = tuple[Tensor, Tensor]
"""A tensor before and after it was turned."""

_FUNCTION = re.compile(r"(apply|rotate)_?.*(rot|rope)|apply_rope|rotary_(pos_)?emb", re.IGNORECASE)
_MODULE = re.compile(r"rotary|rope", re.IGNORECASE)


class Rotation:
    """The turns of a pass that no call has used yet.

    Attributes:
        turned: Whether a function has turned something since the last call.

    """

    def __init__(self) -> None:
        self._turns: list[Turn] = []
        self.turned = False

    def restart(self) -> None:
        """Forget the turns so far: another pass begins."""
        self._turns.clear()
        self.turned = False

    @contextmanager
    def follow(self, model: nn.Module) -> Iterator[None]:
        """While it is open, the functions with which the model's files turn are followed."""
        files = {type(part).__module__ for part in model.modules()}
        with ExitStack() as patched:
            for name in sorted(files):
                known = vars(sys.modules[name]) if name in sys.modules else {}
                for word, function in list(known.items()):
                    if isinstance(function, FunctionType) and _FUNCTION.match(word):
                        patched.callback(known.__setitem__, word, function)
                        known[word] = self._followed(function)
            yield

    def _followed(self, function: FunctionType) -> Any:
        @wraps(function)
        def turn(*args: Any, **kwargs: Any) -> Any:
            made = function(*args, **kwargs)
            if self._remember((*args, *kwargs.values()), made):
                self.turned = True
            return made

        return turn

    def left(self, part: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """Remember what a module turned, if it is one that turns."""
        if _MODULE.search(type(part).__name__):
            self._remember(args, output)

    def _remember(self, given: tuple[Any, ...], made: Any) -> bool:
        results = [made] if isinstance(made, Tensor) else made
        if not isinstance(results, tuple | list):
            return False
        free = [x for x in given if isinstance(x, Tensor) and x.dim() >= 3]
        found = False
        for after in results:
            if not isinstance(after, Tensor) or not after.is_floating_point():
                continue
            same = next((x for x in free if x.shape == after.shape), None)
            if same is not None and same is not after:
                free = [x for x in free if x is not same]
                self._turns.append((same, after))
                found = True
        return found

    def plain(self, call: Call) -> tuple[bool, tuple[Tensor, Tensor] | None]:
        """Whether the queries and keys of a call were turned, and what they were before that."""
        turns, self._turns = self._turns, []
        turned, self.turned = self.turned, False
        query, key = _first(call.query, turns), _first(call.key, turns[::-1])
        if query is None or key is None:
            return turned, None
        return True, (query, key)


def _first(x: Tensor, turns: list[Turn]) -> Tensor | None:
    """`x` before the first of these turns that it went through."""
    undone = (_undone(x, turn) for turn in turns)
    return next((before for before in undone if before is not None), None)


def _undone(x: Tensor, turn: Turn) -> Tensor | None:
    """`x` with the turned dimensions as they were before; None if `x` does not have them."""
    before, after = turn
    for swap in (False, True):
        if swap and after.dim() != 4:
            break
        one, two = (t.transpose(1, 2) if swap else t for t in (before, after))
        if one.dim() == 3 and x.shape[0] == len(one) and x.shape[1] == 1:
            one, two = one[:, None], two[:, None]
        if one.dim() != 4 or two.shape[2] != x.shape[2] or two.shape[-1] > x.shape[-1]:
            continue
        if two.shape[0] != x.shape[0] or two.shape[1] not in (1, x.shape[1]):
            continue
        width = two.shape[-1]
        for start in dict.fromkeys((0, x.shape[-1] - width)):
            place = slice(start, start + width)
            if _equal(x[..., place], two):
                if width == x.shape[-1]:
                    return one.expand_as(x)
                whole = x.clone()
                whole[..., place] = one
                return whole
    return None


def _equal(x: Tensor, y: Tensor) -> bool:
    """Whether two tensors agree in their first and in their last head."""
    if x.dtype != y.dtype:
        y = y.to(x.dtype)
    y = y.expand_as(x)
    return torch.equal(x[0, 0], y[0, 0]) and torch.equal(x[-1, -1], y[-1, -1])
