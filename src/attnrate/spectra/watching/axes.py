"""What the axes of a tensor count, kept up to date while its shape changes.

Every axis is a product of atoms: what counts rows (inputs, windows), heads, and two more, which are
queries and keys in logits, tokens and dimensions in queries, keys and values. A view regroups the
atoms, a transposition changes their order. So a tensor can be brought back to (rows, heads, T, S)
from whatever shape a model gives it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped

Tensor = torch.Tensor
Atom = tuple[tuple[int, ...], int]
"""A key that says what is counted and in which order, and how many there are."""

ROWS, HEADS, ONE, TWO = range(4)


@dataclass(frozen=True)
class Axes:
    """The atoms of each axis of a tensor."""

    axes: tuple[tuple[Atom, ...], ...]

    def ending(self, one: int, two: int) -> "Axes":
        """These axes, and after them two of these sizes."""
        return Axes((*self.axes, (((ONE,), one),), (((TWO,), two),)))

    @property
    def atoms(self) -> list[Atom]:
        """All atoms in their order."""
        return [atom for axis in self.axes for atom in axis]

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return tuple(_size(axis) for axis in self.axes)

    def count(self, kind: int) -> int:
        """The number of rows, of heads, of queries or of keys."""
        return math.prod(size for key, size in self.atoms if key[0] == kind)

    def is_only(self, axis: int, kind: int) -> bool:
        """Whether an axis counts that kind and nothing else."""
        return [key[0] for key, size in self.axes[axis] if size > 1 or key[0] == kind] == [kind]

    def permuted(self, order: Sequence[int]) -> "Axes":
        """The axes after `permute`."""
        return Axes(tuple(self.axes[place] for place in order))

    def viewed(self, shape: Sequence[int]) -> "Axes | None":
        """The axes after the tensor was given another shape; None if that cannot be known.

        The atoms stay in their order. One that is too large for its axis is divided, as windows are
        when they are taken out of an axis that counts inputs as well. Queries and keys are not.
        """
        if tuple(shape) == self.shape:
            return self
        left = self.atoms
        found: list[tuple[Atom, ...]] = []
        for size in shape:
            axis: list[Atom] = []
            while left and (_size(axis) < size or (size == 1 == left[0][1] and not axis)):
                key, count = left.pop(0)
                part = size // _size(axis)
                if count > part:
                    if key[0] in (ONE, TWO) or part * _size(axis) != size or count % part:
                        return None
                    left.insert(0, ((*key, 1), count // part))
                    key, count = (*key, 0), part
                axis.append((key, count))
            if _size(axis) != size:
                return None
            found.append(tuple(axis))
        if not found or _size(left) > 1:
            return None
        return Axes((*found[:-1], (*found[-1], *left)))

    def canonical(
        self, x: Shaped[Tensor, "..."], groups: bool = False
    ) -> Shaped[Tensor, "rows heads one two"]:
        """A tensor with these axes as (rows, heads, one, two).

        Args:
            x: A tensor that broadcasts to these axes: one of size 1 serves all.
            groups: Whether heads that share what `x` holds are counted once.

        Returns:
            A tensor with the number of rows and of heads of these axes, or with 1 where `x` has the
            same for all. With `groups` it may have fewer heads, each for several in a row.

        """
        served = [
            [(key, size if x.shape[place] > 1 else 1) for key, size in axis]
            for place, axis in enumerate(self.axes)
        ]
        atoms = [atom for axis in served for atom in axis]
        order = sorted(range(len(atoms)), key=lambda place: atoms[place][0])
        wide = x.reshape([size for _, size in atoms]).permute(order)
        whole = [self.atoms[place] for place in order]
        rows, heads = (
            [place for place, (key, _) in enumerate(whole) if key[0] == kind]
            for kind in (ROWS, HEADS)
        )
        shape = list(wide.shape)
        for own in (rows, heads):
            there = [place for place in own if shape[place] > 1]
            first = len(own) if groups and own is heads else 0
            for place in own:
                # a serving atom before one that is not would mix up which head is whose
                if there and (place < there[-1] or not first):
                    shape[place] = whole[place][1]
        wide = wide.expand(shape)
        return wide.reshape(
            math.prod(shape[place] for place in rows),
            math.prod(shape[place] for place in heads),
            *shape[-2:],
        )

    def restored(self, x: Float[Tensor, "rows heads one two"]) -> Float[Tensor, "..."]:
        """A tensor with these axes, from what `canonical` gives."""
        atoms = self.atoms
        order = sorted(range(len(atoms)), key=lambda place: atoms[place][0])
        wide = x.reshape([atoms[place][1] for place in order])
        return wide.permute([order.index(place) for place in range(len(order))]).reshape(self.shape)


def _size(axis: Sequence[Atom]) -> int:
    return math.prod(size for _, size in axis)


def lead_axes(lead: Sequence[int], heads: int | None, inputs: int) -> Axes | None:
    """What the leading axes of queries (…, T, m) count, or None where it cannot be known.

    Args:
        lead: The sizes of all axes but the last two.
        heads: The number of heads that the module says it has, if it does.
        inputs: The number of inputs in the batch.

    Returns:
        Heads are the axis with the module's number of heads, or two neighbours that make it up
        (groups of heads that share keys), or the inner part of the only axis. Without such a number
        they are the axis before the tokens, unless that is the only one.

    """
    places = range(len(lead))
    if len(lead) == 1:
        if heads in (None, 1):
            return _leading(lead, ()) if lead[0] == inputs else None
        assert heads is not None
        if lead[0] % heads or lead[0] == heads == inputs:
            return None
        return Axes(((((ROWS, 0), lead[0] // heads), ((HEADS, 0), heads)),))
    if heads is not None:
        for place in reversed(places):
            if lead[place] == heads:
                return _leading(lead, (place,))
        for place in reversed(places[:-1]):
            if lead[place] * lead[place + 1] == heads and place > 0:
                return _leading(lead, (place, place + 1))
    return _leading(lead, (len(lead) - 1,)) if lead else None


def _leading(lead: Sequence[int], heads: tuple[int, ...]) -> Axes:
    """The axes of which those at some places count heads, and the others rows."""
    return Axes(
        tuple(
            (((HEADS if place in heads else ROWS, place), size),) for place, size in enumerate(lead)
        )
    )
