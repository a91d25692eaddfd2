"""Theorem A.3: any continuous H on inputs with position encoding (Eq. 7) is of the form Eq. 8.

The printed proof has a gap. Its f (Eq. 26) has 2τd+2 coordinates, (ψ_{0,s}(x_s), ..., b_s), so F is
given u(t) = Σ_s (1 + [s=t]) ψ_{q,s}(x_s) / (τ+1) for every q, and F_1 (Eq. 28) then subtracts
ψ_{q,t}(x_t). But F sees u(t) only, and x_t cannot in general be recovered from it: two inputs can
share u(t) and differ in H_t, and then no F exists. (tests/theory/test_represent.py has an example.)

With the n = τ(2τd+1)+1 that the theorem states, the proof can be mended: f puts ψ_{q,s}(x_s) into a
slot of its own for each position s, zeros into the slots of the others, and b_s into the last
coordinate. F reads t from the last coordinate and halves the slots of position t.

Two things follow that the paper does not say. The slots may carry x_s itself, so that
n = τd + 1 suffices, without Kolmogorov's theorem. And the weights need not be 2/(τ+1) and 1/(τ+1):
with ρ = strength on the own interval any strength > 0 works, and the singular values of ρ are
strength · |I_s|. Hence the infimum C1 of Eq. 12, taken by itself over all F, f, ρ and n, is 0 for
every continuous H; the price is the Lipschitz constant of F (C0, C2), which grows.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import log
from typing import Annotated, Any

import torch
from jaxtyping import Float, Int

from attnrate.errors import InputError, require_callable, require_number
from attnrate.settings import by, checked
from attnrate.targets import AttentionTarget, FactoredCoupling, PositionedInputs
from attnrate.theory.slots import Slots

Tensor = torch.Tensor
#: A function of torch tensors
Function = Callable[[Tensor], Tensor]

_WEAKEST, _STRONGEST = 1e-6, 20.0
_RANGE_POINTS = 257
_RANGE_SLACK = 1e-12


def _require_table(name: str, rows: object) -> tuple[tuple[Function, ...], ...]:
    """`rows` as a table of functions with rows of one length, or an InputError."""
    listed = [_require_list(f"{name}[{i}]", row) for i, row in enumerate(_require_list(name, rows))]
    for i, row in enumerate(listed):
        for j, function in enumerate(row):
            require_callable(f"{name}[{i}][{j}]", function)
        if len(row) != len(listed[0]):
            raise InputError(
                f"{name}[{i}] must have {len(listed[0])} functions, as {name}[0] has", len(row)
            )
    return tuple(map(tuple, listed))  # type: ignore[arg-type]


def _require_list(name: str, values: object) -> Sequence[object]:
    """`values` itself if it is a list or tuple that is not empty, else an InputError."""
    if not isinstance(values, list | tuple) or not values:
        raise InputError(f"{name} must be a list with at least one entry", values)
    return values


def require_law(name: str, value: Any) -> PositionedInputs:
    """`value` as a law with one interval per position, or an InputError."""
    return value if isinstance(value, PositionedInputs) else PositionedInputs(value)


#: A table of functions, one row per sum or per position
Functions = Annotated[Sequence[Sequence[Function]], by(_require_table)]
#: The disjoint intervals of the positions (Eq. 7): pairs (a, b), or the law of the inputs
Intervals = Annotated[PositionedInputs | Sequence[tuple[float, float]], by(require_law)]


@dataclass(frozen=True, init=False, repr=False)
class Superposition:
    """Kolmogorov's form of a sequence map: H_t(x) = Σ_q g_q^(t)(Σ_s ψ_{q,s}(x_s)) (Eq. 24).

    The inner functions are shared by all t, as in the proof of Theorem A.3. All are functions of
    torch tensors that act elementwise. `represent` needs inner functions with values in [0, 1].

    Args:
        inner: ψ: one row for every sum q, with one function for every position s.
        outer: g: one row for every position t, with one function for every sum q.

    Examples:
        >>> import torch
        >>> H = ar.Superposition(inner=[[torch.sigmoid] * 2], outer=[[torch.square], [torch.exp]])
        >>> H
        Superposition of 2 positions and 1 sum
        >>> H(torch.zeros(1, 2, 1)).flatten()
        tensor([1.0000, 2.7183])

    """

    inner: tuple[tuple[Function, ...], ...]
    outer: tuple[tuple[Function, ...], ...]

    @checked
    def __init__(self, inner: Functions, outer: Functions) -> None:
        if len(outer) != len(inner[0]):
            raise InputError(
                f"inner has functions of {len(inner[0])} positions, and outer needs as many rows",
                len(outer),
                "inner[q][s] and outer[t][q], with s and t over the same positions.",
            )
        if len(outer[0]) != len(inner):
            raise InputError(
                f"inner has {len(inner)} sums, and each row of outer needs as many functions",
                len(outer[0]),
                "inner[q][s] and outer[t][q], with q over the same sums.",
            )
        object.__setattr__(self, "inner", inner)
        object.__setattr__(self, "outer", outer)

    def __repr__(self) -> str:
        sums = "1 sum" if self.sums == 1 else f"{self.sums} sums"
        return f"Superposition of {self.length} positions and {sums}"

    @property
    def length(self) -> int:
        """τ, the number of positions."""
        return len(self.outer)

    @property
    def sums(self) -> int:
        """Q, the number of inner sums (2τd+1 in Theorem A.1)."""
        return len(self.inner)

    def __call__(self, x: Float[Tensor, "n length 1"]) -> Float[Tensor, "n length 1"]:
        """The map itself, H(x): (n, length, 1) -> (n, length, 1)."""
        totals = torch.stack(
            [_total(psi(x[:, s, 0]) for s, psi in enumerate(row)) for row in self.inner], dim=-1
        )
        return torch.stack([self.outside(totals, t) for t in range(self.length)], dim=1)

    def outside(self, totals: Float[Tensor, "n sums"], t: int) -> Float[Tensor, "n 1"]:
        """Σ_q g_q^(t)(totals_q), the output at position t.

        Args:
            totals: The inner sums Σ_s ψ_{q,s}(x_s), one column for every q.
            t: The position, counted from 0.

        """
        return _total(g(totals[:, q]) for q, g in enumerate(self.outer[t]))[:, None]


@dataclass(frozen=True)
class _Superposed(Slots):
    """Slots that hold ψ_{q,s}(x_s) of a Superposition, Q coordinates each."""

    H: Superposition

    @property
    def width(self) -> int:
        """Q, the number of inner sums."""
        return self.H.sums

    def features(self, s: int, x: Float[Tensor, " k"]) -> Float[Tensor, "k width"]:
        """ψ_{q,s}(x) for every q."""
        return torch.stack([row[s](x) for row in self.H.inner], dim=-1)

    def readout(
        self, slots: Float[Tensor, "k length width"], t: Int[Tensor, " k"]
    ) -> Float[Tensor, "k out"]:
        """The outer functions of position t at the sums over all slots."""
        totals = slots.sum(1)
        decoded = totals.new_zeros(len(totals), 1)
        for position in range(self.length):
            decoded[t == position] = self.H.outside(totals[t == position], position).to(
                totals.dtype
            )
        return decoded


@dataclass(frozen=True)
class _Whole(Slots):
    """Slots that hold the token itself, scaled to [0, 1]."""

    H: Callable[[Tensor], object]

    @property
    def width(self) -> int:
        """One coordinate, since d = 1."""
        return 1

    def features(self, s: int, x: Float[Tensor, " k"]) -> Float[Tensor, "k width"]:
        """(x - a_s) / (b_s - a_s) for I_s = [a_s, b_s]."""
        low, high = self.intervals[s]
        return ((x - low) / (high - low))[:, None]

    def readout(
        self, slots: Float[Tensor, "k length width"], t: Int[Tensor, " k"]
    ) -> Float[Tensor, "k out"]:
        """H at the whole sequence, which the slots hold; its output at t."""
        ends = slots.new_tensor(self.intervals)
        x = ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * slots
        values = self.H(x)
        if not isinstance(values, Tensor) or values.ndim != 3 or values.shape[:2] != x.shape[:2]:
            raise InputError(
                f"H was given {tuple(x.shape)} and must return (batch, length, out)",
                tuple(values.shape) if isinstance(values, Tensor) else values,
            )
        return values[torch.arange(len(t), device=t.device), t]


def _require_strength(name: str, value: object) -> float:
    """`value` as a strength that F can undo in float64, or an InputError."""
    strength = require_number(name, value)
    if not _WEAKEST <= strength <= _STRONGEST:
        raise InputError(
            f"{name} must lie in [{_WEAKEST:g}, {_STRONGEST:g}] for F to undo it in float64",
            strength,
            "log(2) is the theorem's.",
        )
    return strength


@checked
def represent(
    H: Annotated[Superposition | Function, by(require_callable)],
    intervals: Intervals,
    strength: Annotated[float, by(_require_strength)] = log(2.0),
) -> AttentionTarget:
    """Write a sequence map in the form of Eq. 8, exactly (Theorem A.3).

    The result has F, f and ρ with H_t(x) = F(Σ_s softmax[ρ(x(t), x(·))](s) f(x(s))) for every
    input with position encoding (Eq. 7). ρ(u, v) is the strength where u and v lie in one interval
    and 0 elsewhere. On the intervals the functions are exact; in the gaps, where Eq. 8 says
    nothing, they are extended.

    Args:
        H: The map. A `Superposition` gives n = τQ + 1 coordinates of f (the theorem's n for
            Q = 2τd + 1). Any function (batch, τ, 1) -> (batch, τ, out) of torch tensors gives
            n = τ + 1, fewer than the theorem's.
        intervals: The disjoint intervals I_s of the positions, as pairs (a, b) or as
            `PositionedInputs`.
        strength: ρ within an interval, between 1e-6 and 20. log 2, the default, gives the paper's
            weights 2/(τ+1) and 1/(τ+1).

    Returns:
        A target whose inputs are uniform on the intervals.

    Raises:
        InputError: If H is no such map, if an inner function of a Superposition does not map into
            [0, 1], or if the intervals are not disjoint.

    Examples:
        >>> import torch
        >>> def order(x: torch.Tensor) -> torch.Tensor:  # any map of whole sequences
        ...     return x.cumsum(1) * x.flip(1)
        >>> target = ar.represent(order, [(0, 1), (2, 3), (4, 5)])
        >>> x = target.sample(100, seed=0)
        >>> bool((target(x) - order(x)).abs().max() < 1e-12)
        True

    """
    law = require_law("intervals", intervals)
    slots: Slots
    if isinstance(H, Superposition):
        _check_superposition(H, law)
        slots = _Superposed(law.intervals, strength, H)
    else:
        slots = _Whole(law.intervals, strength, H)
    rho = FactoredCoupling(slots.own, slots.one_hot, slots.length, name="own interval")
    return AttentionTarget(slots.F, slots.f, rho, slots.length, law, name="represented")


def _check_superposition(H: Superposition, law: PositionedInputs) -> None:
    """An InputError when H has other positions than the law, or inner functions leave [0, 1]."""
    if H.length != len(law.intervals):
        raise InputError(
            f"H has {H.length} positions and needs as many intervals", len(law.intervals)
        )
    for s, ends in enumerate(law.intervals):
        for q in range(H.sums):
            _check_range(H.inner[q][s], f"inner[{q}][{s}]", ends)


@checked
def pair_product(intervals: Intervals) -> Superposition:
    """A Superposition of two positions: H_0 = x_0 x_1 and H_1 = (x_0 - x_1)².

    Both come from the sum and the difference: x_0 x_1 = ((x_0+x_1)² - (x_0-x_1)²) / 4. The inner
    functions are scaled into [0, 1].

    Args:
        intervals: The two intervals of the positions, as pairs (a, b) or as `PositionedInputs`.

    Returns:
        The map, which `represent` takes with the same intervals.

    Examples:
        >>> import torch
        >>> H = ar.pair_product([(0, 1), (2, 3)])
        >>> H(torch.tensor([[[0.5], [2.0]]])).flatten()
        tensor([1.0000, 2.2500])

    """
    law = require_law("intervals", intervals)
    if len(law.intervals) != 2:
        raise InputError("a product of two needs two intervals", law.intervals)
    low, high = law.low[0], law.high[0]
    wide = high - low

    def up(x: Tensor) -> Tensor:
        return (x - low) / wide

    def down(x: Tensor) -> Tensor:
        return (high - x) / wide

    def square(offset: float) -> Function:
        return lambda total: (wide * total + offset) ** 2

    of_sum, of_difference = square(2 * low), square(-wide)
    return Superposition(
        [[up, up], [up, down]],
        [
            [lambda a: of_sum(a) / 4, lambda b: -of_difference(b) / 4],
            [torch.zeros_like, of_difference],
        ],
    )


@checked
def product_and_sum(intervals: Intervals) -> Superposition:
    """A Superposition of any number of positions: H_t = Π_s x_s + t (Σ_s x_s)², with Π = exp Σ log.

    Args:
        intervals: The intervals of the positions, as pairs (a, b) or as `PositionedInputs`. They
            must be positive, since logarithms are taken.

    Returns:
        The map, which `represent` takes with the same intervals.

    Examples:
        >>> import torch
        >>> H = ar.product_and_sum([(1, 2), (3, 4), (5, 6)])
        >>> H(torch.tensor([[[1.0], [3.0], [5.0]]])).flatten()
        tensor([ 15.0000,  96.0000, 177.0000])

    """
    law = require_law("intervals", intervals)
    low, high = law.low[0], law.high[0]
    if low <= 0:
        raise InputError("the intervals must be positive", low, "Their logarithm is taken.")
    length, wide, stretch = len(law.intervals), high - low, log(high / low)

    def row(t: int) -> list[Function]:
        return [
            lambda a: torch.exp(stretch * a + length * log(low)),
            lambda b: t * (wide * b + length * low) ** 2,
        ]

    return Superposition(
        [[lambda x: torch.log(x / low) / stretch] * length, [lambda x: (x - low) / wide] * length],
        [row(t) for t in range(length)],
    )


def _total(terms: Iterable[Tensor]) -> Tensor:
    """The sum of tensors of one shape."""
    return torch.stack(list(terms)).sum(0)


def _check_range(psi: Function, name: str, ends: tuple[float, float]) -> None:
    """An InputError when ψ leaves [0, 1] on a grid of I_s: Theorem A.1 has ψ: I_s -> [0, 1]."""
    x = torch.linspace(*ends, _RANGE_POINTS, dtype=torch.float64)
    values = psi(x)
    if not isinstance(values, Tensor) or values.shape != x.shape:
        raise InputError(
            f"{name} must act elementwise: it was given {tuple(x.shape)}",
            tuple(values.shape) if isinstance(values, Tensor) else values,
        )
    wrong = ~((values >= -_RANGE_SLACK) & (values <= 1 + _RANGE_SLACK))
    if wrong.any():
        at = int(wrong.nonzero()[0])
        raise InputError(
            f"{name} must map {ends} into [0, 1]; at x = {float(x[at]):.6g} it does not",
            float(values[at]),
            "Scale it, and scale back in the outer functions.",
        )
