"""Which axes of a tensor count inputs, heads and tokens, in attention as people write it.

Queries come as (batch, heads, T, m), (batch · heads, T, m), (batch, windows, heads, T, m) and in
any order that einsum allows. A `Layout` turns all of them into (rows, heads, T, m), where rows
count inputs, or inputs times windows, and back.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float

Tensor = torch.Tensor


@dataclass(frozen=True)
class Layout:
    """How the leading axes of a tensor (…, T, m) hold rows and heads.

    Attributes:
        lead: The sizes of the leading axes, with merged heads apart.
        axis: The place of the heads among them.
        given: The sizes of the leading axes as they came.

    """

    lead: tuple[int, ...]
    axis: int
    given: tuple[int, ...]

    @property
    def heads(self) -> int:
        """The number of heads."""
        return self.lead[self.axis]

    @property
    def rows(self) -> int:
        """The product of all other leading axes."""
        return math.prod(self.lead) // max(1, self.heads)

    def to_heads(self, x: Float[Tensor, "*lead T m"]) -> Float[Tensor, "rows heads T m"]:
        """`x` as (rows, heads, T, m)."""
        wide = x.reshape(*self.lead, *x.shape[-2:]).movedim(self.axis, -3)
        return wide.reshape(-1, self.heads, *x.shape[-2:])

    def back(self, x: Float[Tensor, "rows heads T m"]) -> Float[Tensor, "*lead T m"]:
        """What `to_heads` was given, from its result."""
        others = [size for place, size in enumerate(self.lead) if place != self.axis]
        wide = x.reshape(*others, *x.shape[-3:]).movedim(-3, self.axis)
        return wide.reshape(*self.given, *x.shape[-2:])

    def keys_to_heads(
        self, x: Float[Tensor, "*lead S m"]
    ) -> Float[Tensor, "rows groups S m"] | None:
        """Keys or values as (rows, groups, S, m); None where they do not fit the queries.

        They may have fewer heads than the queries, or one that all share.
        """
        if tuple(x.shape[:-2]) == self.given:
            return self.to_heads(x)
        if x.dim() - 2 != len(self.lead):
            return None
        moved = x.movedim(self.axis, -3)
        others = [size for place, size in enumerate(self.lead) if place != self.axis]
        groups = moved.shape[-3]
        fits = all(a in (1, b) for a, b in zip(moved.shape[:-3], others, strict=True))
        if not fits or groups == 0 or self.heads % groups:
            return None
        return moved.expand(*others, *moved.shape[-3:]).reshape(-1, *moved.shape[-3:])


def layout_of(lead: tuple[int, ...], heads: int | None, inputs: int) -> Layout | None:
    """The layout of a tensor with these leading axes, or None where it cannot be known.

    Args:
        lead: The sizes of all axes but the last two.
        heads: The number of heads that the module says it has, if it does.
        inputs: The number of inputs in the batch.

    Returns:
        The axis with the module's number of heads, or several neighbouring ones that make it up
        (groups of heads that share keys). Without such a number the axis before the tokens, unless
        that is the only one.

    """
    if heads is not None:
        for axis in reversed(range(len(lead))):
            if lead[axis] == heads and (axis > 0 or len(lead) > 1):
                return Layout(lead, axis, lead)
        for axis in reversed(range(1, len(lead) - 1)):
            if lead[axis] * lead[axis + 1] == heads:
                merged = (*lead[:axis], heads, *lead[axis + 2 :])
                return Layout(merged, axis, lead)
        if len(lead) == 1 and lead[0] % heads == 0 and lead[0] >= heads * inputs:
            return Layout((lead[0] // heads, heads), 1, lead)
    if len(lead) == 1:
        return Layout((lead[0], 1), 1, lead) if lead[0] == inputs and heads in (None, 1) else None
    return Layout(lead, len(lead) - 1, lead) if lead else None


@dataclass(frozen=True)
class Product:
    """A product of two tensors as a matrix product over leading axes.

    Attributes:
        left: (…, T, k).
        right: (…, k, S), with axes of size 1 where it has none.
        restored: Turns a new `left` into the tensor that the operation was given.
        result: Turns the operation's result into (…, T, S).

    """

    left: Tensor
    right: Tensor
    restored: Callable[[Tensor], Tensor]
    result: Callable[[Tensor], Tensor]


def _same(x: Tensor) -> Tensor:
    return x


def matrix_product(left: Tensor, right: Tensor) -> Product | None:
    """The product of matmul or bmm; None unless both are stacks of matrices."""
    if min(left.dim(), right.dim()) < 3 or not left.is_floating_point():
        return None
    return Product(left, right, _same, _same)


def einsum_product(equation: str, left: Tensor, right: Tensor) -> Product | None:
    """The product of torch.einsum with two operands; None if it is no product of matrices."""
    words = equation.replace(" ", "")
    if "->" not in words or words.count(",") != 1 or "." in words:
        return None
    sides, out = words.split("->")
    a, b = sides.split(",")
    if any(len(set(word)) < len(word) for word in (a, b, out)):
        return None
    summed = [x for x in a if x in b and x not in out]
    rows = [x for x in out if x in a and x not in b]
    columns = [x for x in out if x in b and x not in a]
    lead = [x for x in out if x in a and x in b]
    if len(summed) != 1 or len(columns) != 1 or not rows or set(a + b) - set(out) != {*summed}:
        return None
    if len(a) != left.dim() or len(b) != right.dim() or not left.is_floating_point():
        return None
    # an axis that only the left side has is shared by all keys; the last such one counts tokens
    token = rows[-1]
    outer = [x for x in out if x in (*lead, *rows[:-1])]
    order = [*outer, token, *summed]
    turned = left.permute([a.index(x) for x in order])
    there = [x for x in outer if x in b]
    wide = right.permute([b.index(x) for x in (*there, *summed, *columns)])
    for place, x in enumerate(outer):
        if x not in b:
            wide = wide.unsqueeze(place)

    def restored(new: Tensor) -> Tensor:
        return new.permute([order.index(x) for x in a])

    def result(made: Tensor) -> Tensor:
        return made.permute([out.index(x) for x in (*outer, token, *columns)])

    return Product(turned, wide, restored, result)
