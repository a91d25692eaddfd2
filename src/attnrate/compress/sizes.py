"""The sizes to which heads are cut: from a size, a list, an advice, a share, or a target."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attnrate.compress.advised import advised
from attnrate.errors import InputError, require_number, require_whole
from attnrate.spectra.advise import Advice

KEEP = 0.5
_MULTIPLE = 8  # what kernels like
_TOKENS = 10  # for each dimension that is kept


@dataclass(frozen=True)
class Whole:
    """The sizes of a layer as it is.

    Attributes:
        m_h: The size of queries and keys.
        m_v: The size of values.
        rotary: Whether queries and keys turn in pairs, so that sizes are even.
        number: The bytes that one dimension of all key heads takes, for one token.

    """

    m_h: int
    m_v: int
    rotary: bool
    number: int = 1

    def bytes(self, size: int, values: bool) -> int:
        """The bytes of keys and values per token at a size; `values` says whether both are cut."""
        return self.number * (size + (min(size, self.m_v) if values else self.m_v))


@dataclass(frozen=True)
class Target:
    """What sizes from measured curves are to reach, one of the three.

    Attributes:
        loss: The most that the output may change, as a share of its size.
        bytes: The most bytes of keys and values per token, over all layers.
        average: The largest mean size over layers.

    """

    loss: float | None = None
    bytes: int | None = None
    average: float | None = None

    def __str__(self) -> str:
        return ", ".join(
            f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
            for name, value in vars(self).items()
            if value is not None
        )


@dataclass(frozen=True)
class Wanted:
    """What was asked for: one size, sizes of layers, a share, or a target.

    Attributes:
        size: The size for all layers.
        sizes: Sizes layer by layer, or an advice.
        keep: The share of each head that stays.
        target: What sizes from measured curves are to reach.
        multiple_of: The number of which sizes are multiples; None: 8, or 2 for heads below 16, for
            sizes that are not given one by one.

    """

    size: int | None = None
    sizes: Advice | Sequence[int] | None = None
    keep: float | None = None
    target: Target = Target()
    multiple_of: int | None = None

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in ("size", "sizes", "keep")}
        given |= vars(self.target)
        found = [name for name, value in given.items() if value is not None]
        if len(found) > 1:
            raise InputError(
                "only one of size, sizes, keep, loss, bytes and average can be given",
                found,
                "Leave the others out.",
            )

    @property
    def is_target(self) -> bool:
        """Whether sizes come from measured curves."""
        return any(value is not None for value in vars(self.target).values())

    def of(self, layers: Mapping[str, Whole], left: Sequence[str] = ()) -> dict[str, int]:
        """The new size of queries and keys of each layer, by its name, without a target.

        Args:
            layers: The layers that can be cut, in the order in which they run.
            left: The names of layers that cannot be cut.

        Returns:
            A size for each layer; for an advice, for those that it names.

        Raises:
            InputError: A size is zero, above that of the heads, no multiple of what was asked for,
                or odd for a rotary embedding; there are sizes for another number of layers; or the
                advice is of another model.

        """
        self.require_multiple(layers)
        if isinstance(self.sizes, Advice):
            whole = {name: own.m_h for name, own in layers.items()}
            found = advised(self.sizes, whole, left)
            return {name: self.snapped(size, layers[name]) for name, size in found.items()}
        if self.sizes is not None:
            if len(self.sizes) != len(layers):
                raise InputError(
                    f"sizes must have one size for each of the {len(layers)} layers that can be "
                    "cut",
                    list(self.sizes),
                    "Pass size=N for one size in all layers.",
                )
            wanted = dict(zip(layers, self.sizes, strict=True))
        elif self.size is not None:
            wanted = dict.fromkeys(layers, self.size)
        else:
            share = KEEP if self.keep is None else self.keep
            return {name: kept(own, share, self.multiple_of) for name, own in layers.items()}
        for name, size in wanted.items():
            self._require(size, name, layers[name])
        return wanted

    def snapped(self, size: int, own: Whole) -> int:
        """An advised size, raised to the next one that was asked for, or to a pair."""
        every = step_of(own, 1 if self.multiple_of is None else self.multiple_of)
        return min(own.m_h, every * math.ceil(size / every))

    def require_multiple(self, layers: Mapping[str, Whole]) -> None:
        """Raise an InputError where no head is as large as the number of which sizes are multiples.

        Args:
            layers: The layers that can be cut.

        """
        most = max(own.m_h for own in layers.values())
        if self.multiple_of is not None and self.multiple_of > most:
            raise InputError(
                f"multiple_of must be at most the size of the heads, {most}",
                self.multiple_of,
                f"Pass multiple_of={most} or less, or none.",
            )

    def _require(self, size: int, name: str, own: Whole) -> None:
        require_whole("size", size, 1)
        if size > own.m_h or (own.rotary and size % 2):
            pairs = " and turn in pairs" if own.rotary else ""
            least = "an even size from 2" if own.rotary else "a size from 1"
            raise InputError(
                f"the heads of {name} have the size {own.m_h}{pairs}, and can be cut to {least} to "
                f"{own.m_h}",
                size,
                f"Pass size={min(size + size % 2, own.m_h)}.",
            )
        if self.snapped(size, own) != size:
            raise InputError(
                f"the sizes of {name} must be multiples of {step_of(own, self.multiple_of)}",
                size,
                f"Pass size={self.snapped(size, own)}, or leave multiple_of out.",
            )


def step_of(own: Whole, multiple_of: int | None = None) -> int:
    """The number of which new sizes of a layer are multiples; even where heads turn in pairs."""
    step = (_MULTIPLE if own.m_h >= 2 * _MULTIPLE else 2) if multiple_of is None else multiple_of
    return math.lcm(step, 2) if own.rotary else step


def candidates(own: Whole, multiple_of: int | None = None) -> tuple[int, ...]:
    """The sizes that a layer may take: all multiples below its own size, and its own size."""
    step = step_of(own, multiple_of)
    return (*range(step, own.m_h, step), own.m_h)


def kept(own: Whole, share: float, multiple_of: int | None = None) -> int:
    """The size that holds a share of a head, as a multiple of 8, or of 2 for heads below 16."""
    step = step_of(own, multiple_of)
    return min(own.m_h, max(step, step * round(share * own.m_h / step)))


def require_tokens(tokens: int, size: int) -> None:
    """Raise an InputError where calibration tokens are too few for a size."""
    if tokens < _TOKENS * size:
        raise InputError(
            f"too few calibration tokens: to cut heads to size {size}, {_TOKENS * size} are needed "
            f"({_TOKENS} for each dimension), besides those of inputs that are held out",
            tokens,
            "Pass more or longer inputs, or a smaller size.",
        )


def require_sizes(name: str, value: object) -> Advice | list[int] | None:
    """`value` as an advice or a list of sizes, or None; an InputError for anything else."""
    if value is None or isinstance(value, Advice):
        return value
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise InputError(
            f"{name} must be an advice or a list with one size for each layer",
            value,
            "Pass what advise has returned, or size=N for one size in all layers.",
        )
    return [require_whole(f"{name}[{i}]", size, 1) for i, size in enumerate(value)]


def require_share(name: str, value: object) -> float | None:
    """`value` as a share between 0 and 1, or None; an InputError for anything else."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        way_out = f"Pass e.g. {'0.05' if name == 'loss' else '0.5'}."
        raise InputError(f"{name} must be a share between 0 and 1", value, way_out)
    return float(value)


def require_average(name: str, value: object) -> float | None:
    """`value` as a number above 0, or None; an InputError for anything else."""
    return None if value is None else require_number(name, value, 0.0)
