"""Products of two stacks of matrices, as matmul, bmm, baddbmm and einsum do them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

Tensor = torch.Tensor
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
_NAMES = {
    "baddbmm": ("input", "batch1", "batch2"),
    "einsum": ("equation", "left", "right"),
    "bmm": ("input", "mat2"),
}
OPERATIONS = frozenset({"matmul", "__matmul__", "linalg_matmul", *_NAMES})


@dataclass(frozen=True)
class Product:
    """A product seen as (…, T, k) times (…, k, S).

    Attributes:
        left: The first tensor, with its axes in that order.
        right: The second one, with axes of size 1 where it has none.
        given: The first tensor as the operation was given it.
        taken: The order in which the axes of `given` make those of `left`.
        out: The order in which the axes (…, T, S) make those of the operation's result.

    """

    left: Tensor
    right: Tensor
    given: Tensor
    taken: tuple[int, ...]
    out: tuple[int, ...]

    def restored(self, left: Tensor) -> Tensor:
        """A tensor in place of `given`, from one in place of `left`."""
        return left.permute([self.taken.index(place) for place in range(len(self.taken))])

    def result(self, made: Tensor) -> Tensor:
        """What the operation made, as (…, T, S)."""
        return made.permute([self.out.index(place) for place in range(len(self.out))])


@dataclass(frozen=True)
class Operation:
    """An operation that multiplies two tensors.

    Attributes:
        sides: Both tensors as they were given.
        equation: That of einsum.
        replaced: The arguments with another tensor in place of one side.
        added: What is added to the product (baddbmm), with the factor `beta`.
        alpha: The factor of the product.

    """

    sides: tuple[Tensor, Tensor]
    equation: str | None
    replaced: Callable[[int, Tensor], Arguments]
    added: Tensor | None = None
    beta: float = 1.0
    alpha: float = 1.0

    def with_first(self, first: int) -> Product | None:
        """The product with one side as the first of both; None if it is none of matrices."""
        if self.equation is not None:
            return _by_equation(self.equation, self.sides, first)
        one, two = self.sides
        count = max(one.dim(), two.dim())
        if min(one.dim(), two.dim()) < 3 or one.dim() != two.dim():
            return None
        same = tuple(range(count))
        if first == 0:
            return Product(one, two, one, same, same)
        turned = (*same[:-2], count - 1, count - 2)
        return Product(two.mT, one.mT, two, turned, turned)

    @property
    def queries(self) -> int:
        """Which side counts queries, if it makes logits: that of the result's last axis but one."""
        if self.equation is None:
            return 0
        sides, out = _words(self.equation, self.sides)
        return 0 if out and out[-1] in sides[1] and out[-1] not in sides[0] else 1


def operation(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Operation | None:
    """What a call of one of these operations multiplies; None if it is no product of two tensors.

    Args:
        name: The name of the operation.
        args: Its arguments.
        kwargs: Its named arguments.

    """
    names = _NAMES.get(name, ("input", "other"))
    if name == "einsum" and len(args) == 2 and isinstance(args[1], list | tuple):
        args = (args[0], *args[1])
    if len(args) > len(names):
        return None
    given = dict(zip(names, args, strict=False)) | kwargs
    one, two = (given.get(word) for word in names[-2:])
    if not isinstance(one, Tensor) or not isinstance(two, Tensor) or not one.is_floating_point():
        return None
    equation = given.get("equation")
    if name == "einsum" and not (isinstance(equation, str) and "->" in equation):
        return None

    def replaced(side: int, new: Tensor) -> Arguments:
        rest = {word: value for word, value in given.items() if word not in names}
        sides = (new, two) if side == 0 else (one, new)
        return (*(given[word] for word in names[:-2]), *sides), rest

    if name != "baddbmm":
        return Operation((one, two), equation, replaced)
    factors = float(given.get("beta", 1)), float(given.get("alpha", 1))
    return Operation((one, two), None, replaced, given["input"], *factors)


def _words(equation: str, sides: tuple[Tensor, Tensor]) -> tuple[tuple[str, str], str]:
    """The letters of both sides and of the result, with letters in place of an ellipsis."""
    terms, out = equation.replace(" ", "").split("->")
    parts = terms.split(",")
    if len(parts) != 2:
        return ("", ""), ""
    hidden = [
        side.dim() - len(part.replace("...", "")) for part, side in zip(parts, sides, strict=True)
    ]
    spare = [chr(code) for code in range(0x3B1, 0x3B1 + max(0, *hidden))]  # Greek ones

    def filled(part: str, count: int) -> str:
        return part.replace("...", "".join(spare[len(spare) - count :]) if count > 0 else "")

    one, two = (filled(part, count) for part, count in zip(parts, hidden, strict=True))
    return (one, two), filled(out, len(spare))


def _by_equation(equation: str, sides: tuple[Tensor, Tensor], first: int) -> Product | None:
    words, out = _words(equation, sides)
    (a, left), (b, right) = ((words[side], sides[side]) for side in (first, 1 - first))
    if any(len(set(word)) < len(word) for word in (a, b, out)):
        return None
    if len(a) != left.dim() or len(b) != right.dim():
        return None
    summed = [x for x in a if x in b and x not in out]
    rows = [x for x in out if x in a and x not in b]
    columns = [x for x in out if x in b and x not in a]
    if len(summed) != 1 or len(columns) != 1 or not rows or set(a + b) - set(out) != {*summed}:
        return None
    # axes that only the first side has are shared by the second; the last one counts tokens
    token = rows[-1]
    outer = [x for x in out if x in a and x not in (token, *columns)]
    order = [*outer, token, *summed]
    taken = tuple(a.index(x) for x in order)
    wide = right.permute([b.index(x) for x in (*(x for x in outer if x in b), *summed, *columns)])
    for place, x in enumerate(outer):
        if x not in b:
            wide = wide.unsqueeze(place)
    final = [*outer, token, *columns]
    return Product(left.permute(taken), wide, left, taken, tuple(final.index(x) for x in out))


def order_of(
    name: str, args: Sequence[Any], kwargs: dict[str, Any], count: int
) -> list[int] | None:
    """The order of axes that a transposition gives a tensor with `count` axes.

    Args:
        name: permute, transpose and their other names, movedim, or mT.
        args: The arguments after the tensor.
        kwargs: The named ones.
        count: The number of axes.

    """
    order = list(range(count))
    if name == "mT":
        return [*order[:-2], count - 1, count - 2]
    given = list(args) or [kwargs[word] for word in _ORDERS.get(name, ()) if word in kwargs]
    if name == "permute":
        places = given[0] if len(given) == 1 and not isinstance(given[0], int) else given
        return [int(place) % count for place in places]
    if len(given) != 2:
        return None
    one, two = given
    if name in ("movedim", "moveaxis"):
        if not isinstance(one, int) or not isinstance(two, int):
            return None
        order.remove(one % count)
        order.insert(two % count, one % count)
        return order
    one, two = int(one) % count, int(two) % count
    order[one], order[two] = order[two], order[one]
    return order


_ORDERS = {
    "permute": ("dims",),
    "transpose": ("dim0", "dim1"),
    "swapaxes": ("axis0", "axis1"),
    "swapdims": ("dim0", "dim1"),
    "movedim": ("source", "destination"),
    "moveaxis": ("source", "destination"),
}
TURNS = frozenset(_ORDERS)
