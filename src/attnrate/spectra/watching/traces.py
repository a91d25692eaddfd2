"""Logits on their way to softmax and weights on their way to values, through one operation each.

People scale logits, add masks and biases, hide some, give them a soft cap, a sink, other shapes and
number types. What is none of that ends a trace: its module is then named as not understood, if
softmax and a product with values come after all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import nn

from attnrate.spectra.attention import HIDES
from attnrate.spectra.watching.axes import TWO, Axes
from attnrate.spectra.watching.product import TURNS, order_of
from attnrate.spectra.watching.reading import bias_in

Tensor = torch.Tensor

# what leaves the values as they are
_SAME = frozenset(
    {
        *("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "contiguous", "clone"),
        *("to", "float", "half", "bfloat16", "double", "type", "type_as", "dropout", "dropout_"),
        *("detach", "nan_to_num", "nan_to_num_", "expand", "view_as", "reshape_as", "expand_as"),
        *("__getitem__", "pad", "alias", "_to_copy", "repeat", "narrow"),
    }
)
_TIMES = {
    **dict.fromkeys(("mul", "mul_", "multiply", "multiply_"), 1),
    **dict.fromkeys(("div", "div_", "true_divide", "divide", "divide_"), -1),
}
_PLUS = {"add": 1.0, "add_": 1.0, "sub": -1.0, "sub_": -1.0, "subtract": -1.0}
_FILL = frozenset({"masked_fill", "masked_fill_", "where"})
_BOUND = frozenset({"max", "maximum", "min", "minimum", "clamp", "clamp_", "clip", "clip_"})
FOLLOWED = frozenset(
    {*_SAME, *_TIMES, *_PLUS, *_FILL, *_BOUND, *TURNS, "tanh", "softmax", "cat", "concat", "mT"}
)
_FAR = 1e4  # a bound beyond which no logit lies
BETWEEN = "between the product of queries and keys and softmax it does what is not understood"
_PIECES = "its logits are put together from several products"


@dataclass(frozen=True)
class Logits:
    """A product of queries and keys on its way to softmax.

    Attributes:
        module: The module that made it.
        number: Which product of that module it is, in this pass.
        axes: What its axes count.
        query: The queries as (rows, heads, T, m).
        key: The keys as (rows, groups, S, m).
        scale: The factor of the product so far.
        factor: A factor of each head or query, (rows, heads, T, 1), if there is one.
        cap: The factor within a soft cap, while its bound is not known yet.
        softcap: The bound of a soft cap.
        biases: What was added with values of its own, (rows, heads, T, S), with its factor.
        sinks: Logits for attention to no token, (rows, heads, T, 1), in a last column of their own.

    """

    module: nn.Module
    number: int
    axes: Axes
    query: Tensor
    key: Tensor
    scale: float = 1.0
    factor: Tensor | None = None
    cap: float | None = None
    softcap: float | None = None
    biases: tuple[tuple[Tensor, float], ...] = ()
    sinks: Tensor | None = None

    @property
    def is_plain(self) -> bool:
        """Whether nothing but scaling has happened to it."""
        return self.cap is None and self.softcap is None and not self.biases

    def times(self, factor: float) -> "Logits | None":
        """The trace after a multiplication."""
        if self.cap is not None:
            return replace(self, cap=None, softcap=factor, scale=self.cap * factor)
        if self.softcap is not None and factor != 1:
            return None
        scaled = tuple((bias, by * factor) for bias, by in self.biases)
        return replace(self, scale=self.scale * factor, biases=scaled)

    def plus(self, other: Any, factor: float) -> "Logits | None":
        """The trace after something was added: masks need no note, biases do."""
        if self.cap is not None:
            return None
        added = _aligned(other, self.axes)
        if added is None or self.sinks is not None:
            return self
        # XLNet subtracts its mask
        bias = bias_in(-added if factor < 0 else added)
        if bias is None:
            return self
        own = self.axes.canonical(bias.detach())
        factor = abs(factor)
        return replace(self, biases=(*self.biases, (own, factor)))


@dataclass(frozen=True)
class Weights:
    """Attention weights on their way to values: their logits, and those as they met softmax."""

    logits: Logits
    axes: Axes
    final: Float[Tensor, "rows heads T S"] = field(repr=False)


@dataclass(frozen=True)
class Lost:
    """A product that is not understood, on its way to softmax and to values.

    Attributes:
        module: The module that made it.
        why: What was not understood.
        softened: Whether softmax has come.

    """

    module: nn.Module
    why: str
    softened: bool = False


Trace = Logits | Weights | Lost


def after(
    trace: Trace, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], place: int, made: Tensor
) -> Trace | None:
    """The trace of what an operation has made.

    Args:
        trace: The trace of one of its arguments.
        name: The name of the operation.
        args: Its arguments.
        kwargs: Its named arguments.
        place: The place of the traced one among them.
        made: Its result.

    Returns:
        The trace, or None if there is nothing more to follow.

    """
    if isinstance(trace, Lost):
        return replace(trace, softened=trace.softened or name == "softmax")
    given = (*args, *kwargs.values())
    if name == "softmax":
        return _softmax(trace, given[place], args, kwargs)
    axes = _axes_after(trace.axes, name, args, kwargs, made)
    if isinstance(trace, Weights):
        return _after_weights(trace, axes, name, given)
    if axes is None:
        return _with_sinks(trace, name, args, kwargs, made) or Lost(trace.module, BETWEEN)
    moved = replace(trace, axes=axes)
    if name in _SAME or name in TURNS or name == "mT":
        return moved
    return _changed(moved, name, args, kwargs, place) or Lost(trace.module, BETWEEN)


def _axes_after(
    axes: Axes, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], made: Tensor
) -> Axes | None:
    if name in TURNS or name == "mT":
        order = order_of(name, args[1:], kwargs, len(axes.axes))
        return None if order is None else axes.permuted(order)
    if name in ("cat", "concat"):
        return None
    if name in ("__getitem__", "pad", "repeat", "narrow") and made.numel() != _numel(axes):
        return None
    return axes.viewed(tuple(made.shape))


def _numel(axes: Axes) -> int:
    return torch.Size(axes.shape).numel()


def _softmax(
    trace: Logits | Weights, x: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Trace | None:
    if isinstance(trace, Weights):
        return None
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    if not isinstance(dim, int) or not trace.axes.is_only(dim % x.dim(), TWO):
        return Lost(trace.module, "its softmax is not over the keys of each query", softened=True)
    if trace.cap is not None:
        return Lost(trace.module, BETWEEN, softened=True)
    final = trace.axes.canonical(x)
    if trace.sinks is not None:
        trace = replace(trace, sinks=final[..., -1:])
        final = final[..., :-1]
    return Weights(trace, trace.axes, final)


def _changed(
    trace: Logits, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], place: int
) -> Logits | None:
    """The trace after an operation that changes values."""
    given = (*args, *kwargs.values())
    other = given[1 - place] if len(given) > 1 and place < 2 else None
    if name in _TIMES:
        return _times(trace, other, _TIMES[name]) if place == 0 or _TIMES[name] > 0 else None
    if name in _PLUS:
        if place == 1 and _PLUS[name] < 0:
            return None
        return trace.plus(other, _PLUS[name] * float(kwargs.get("alpha", 1)))
    if name in _FILL:
        # where(condition, x, y) or x.where(condition, y)
        least = _number(given[{0: 2, 1: 2, 2: 1}[place]] if name == "where" else given[-1])
        return trace if least is not None and least < HIDES else None
    if name in _BOUND:
        bounds = [_number(x) for x in given[1:] if x is not None]
        return trace if bounds and all(b is not None and abs(b) > _FAR for b in bounds) else None
    if name == "tanh" and trace.is_plain:
        return replace(trace, cap=trace.scale, scale=1.0)
    return None


def _times(trace: Logits, other: Any, power: int) -> Logits | None:
    """The trace after a product with, or a quotient by, a number or one for each head or query."""
    factor = _number(other)
    if factor is not None:
        return trace.times(factor**power) if factor or power > 0 else None
    many = _aligned(other, trace.axes)
    if many is None:
        return None
    if power > 0 and bool(((many == 0) | (many == 1)).all()):
        return trace  # a mask: what it hides is hidden by what is added next
    each = trace.axes.canonical(many.detach())
    if not trace.is_plain or each.shape[-1] != 1:
        return None
    each = each**power
    return replace(trace, factor=each if trace.factor is None else trace.factor * each)


def _with_sinks(
    trace: Logits, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], made: Tensor
) -> Trace | None:
    """The trace after a last column was put beside the keys: a logit for attention to no token."""
    if name not in ("cat", "concat"):
        return None
    parts: Sequence[Tensor] = args[0] if args else kwargs["tensors"]
    dim = kwargs.get("dim", args[1] if len(args) > 1 else 0)
    last = made.dim() - 1
    if len(parts) == 2 and dim % made.dim() == last and trace.axes.is_only(last, TWO):
        sizes = [part.shape[-1] for part in parts]
        if sizes == [trace.axes.count(TWO), 1] and trace.cap is None:
            wider = trace.axes.axes[:-1]
            return replace(trace, axes=Axes((*wider, (((TWO,), made.shape[-1]),))), sinks=parts[1])
    return Lost(trace.module, _PIECES)


def _after_weights(
    trace: Weights, axes: Axes | None, name: str, given: tuple[Any, ...]
) -> Trace | None:
    module = trace.logits.module
    if axes is None:
        cut = name in ("__getitem__", "narrow") and trace.logits.sinks is not None
        last = trace.axes.axes[-1]
        if cut and trace.axes.is_only(-1 % len(trace.axes.axes), TWO):
            # the column of sinks is taken off
            ((key, count),) = last
            return replace(trace, axes=Axes((*trace.axes.axes[:-1], ((key, count - 1),))))
        return Lost(module, "its attention weights are cut or put together", softened=True)
    if name in _SAME or name in TURNS or name == "mT":
        return replace(trace, axes=axes)
    if name in ("masked_fill", "masked_fill_") and _number(given[-1]) == 0:
        return replace(trace, axes=axes)
    return Lost(module, "its attention weights are changed after softmax", softened=True)


def _aligned(other: Any, axes: Axes) -> Tensor | None:
    """A tensor that broadcasts to these axes, with as many axes; None if it does not."""
    if not isinstance(other, Tensor) or other.dim() > len(axes.axes):
        return None
    wide = other.reshape((1,) * (len(axes.axes) - other.dim()) + tuple(other.shape))
    fits = all(a in (1, b) for a, b in zip(wide.shape, axes.shape, strict=True))
    return wide if fits else None


def _number(value: Any) -> float | None:
    if isinstance(value, Tensor):
        return float(value.detach()) if value.numel() == 1 else None
    return float(value) if isinstance(value, int | float) else None
