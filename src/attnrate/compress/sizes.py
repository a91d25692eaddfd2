"""The sizes to which heads are cut: from a size, a list, an advice or a share, for every layer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attnrate.errors import InputError, require_whole
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

    """

    m_h: int
    m_v: int
    rotary: bool


@dataclass(frozen=True)
class Wanted:
    """What was asked for, one of the three: one size, sizes of layers, or a share.

    Attributes:
        size: The size for all layers.
        sizes: Sizes layer by layer, or an advice.
        keep: The share of each head that stays.

    """

    size: int | None
    sizes: Advice | Sequence[int] | None
    keep: float | None

    def __post_init__(self) -> None:
        given = {name: value for name, value in vars(self).items() if value is not None}
        if len(given) > 1:
            raise InputError(
                "only one of size, sizes and keep can be given", [*given], "Leave the others out."
            )

    def of(self, layers: Mapping[str, Whole]) -> dict[str, int]:
        """The new size of queries and keys of each layer, by its name.

        Args:
            layers: The layers that can be cut, in the order in which they run.

        Returns:
            A size for each layer; for an advice, for those that it names.

        Raises:
            InputError: A size is zero, above that of the heads, or odd for a rotary embedding; or
                there are sizes for another number of layers.

        """
        if isinstance(self.sizes, Advice):
            wanted = self._advised(self.sizes, layers)
        elif self.sizes is not None:
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
            wanted = {name: kept(own, share) for name, own in layers.items()}
        for name, size in wanted.items():
            _require(size, name, layers[name])
        return wanted

    @staticmethod
    def _advised(advice: Advice, layers: Mapping[str, Whole]) -> dict[str, int]:
        """The advised sizes of layers that can be cut; pairs are kept whole."""
        found = {each.name: each.size for each in advice.layers if each.name in layers}
        if not found:
            raise InputError(
                "the advice names none of the layers that can be cut; it names",
                [each.name for each in advice.layers][:5],
                f"Profile this model; it has {[*layers][:5]}.",
            )
        return {n: r + (r % 2 if layers[n].rotary else 0) for n, r in found.items()}


def kept(own: Whole, share: float) -> int:
    """The size that holds a share of a head, as a multiple of 8, or of 2 for heads below 16."""
    step = _MULTIPLE if own.m_h >= 2 * _MULTIPLE else 2
    return min(own.m_h, max(step, step * round(share * own.m_h / step)))


def _require(size: int, name: str, own: Whole) -> None:
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


def require_tokens(tokens: int, size: int) -> None:
    """Raise an InputError where calibration tokens are too few for a size."""
    if tokens < _TOKENS * size:
        raise InputError(
            f"too few calibration tokens: to cut heads to size {size}, {_TOKENS * size} are needed "
            f"({_TOKENS} for each dimension), besides those of inputs that are held out",
            tokens,
            "Pass more or longer inputs, or a smaller size.",
        )
