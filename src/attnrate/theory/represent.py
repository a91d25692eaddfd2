"""Theorem A.3: any continuous H on inputs with position encoding (Eq. 7) is of the form Eq. 8.

The printed proof has a gap. Its f (Eq. 26) has 2τd+2 coordinates, (ψ_{0,s}(x_s), ..., b_s), so F is
given u(t) = Σ_s (1 + [s=t]) ψ_{q,s}(x_s) / (τ+1) for every q, and F_1 (Eq. 28) then subtracts
ψ_{q,t}(x_t). But F sees u(t) only, and x_t cannot in general be recovered from it: two inputs can
share u(t) and differ in H_t, and then no F exists. (tests/theory/test_represent.py has such two.)

With the n = τ(2τd+1)+1 that the theorem states, the proof can be mended: f puts ψ_{q,s}(x_s) into a
slot of its own for each position s, zero in the slots of the others, and b_s into the last
coordinate. F reads t from the last coordinate and halves the slots of position t.

Two things follow that the paper does not say. The slots may carry x_s itself, so that
n = τd + 1 suffices, without Kolmogorov's theorem. And the weights need not be 2/(τ+1) and 1/(τ+1):
with ρ = strength on the own interval any strength > 0 will do, and the singular values of ρ are
strength · |I_s|. Hence the infimum C1 of Eq. 12, taken by itself over all F, f, ρ and n, is 0 for
every continuous H; what is saved there is paid for in the Lipschitz constant of F (C0, C2).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import expm1, log

import torch
from jaxtyping import Float, Int

from attnrate.errors import InputError, require_callable, require_number
from attnrate.targets import AttentionTarget, FactoredCoupling, PositionedInputs

Tensor = torch.Tensor
Function = Callable[[Tensor], Tensor]
Readout = Callable[[Tensor, Tensor], Tensor]

_WEAKEST, _STRONGEST = 1e-6, 20.0
_RANGE_POINTS = 257
_RANGE_SLACK = 1e-12


@dataclass(frozen=True, init=False)
class Superposition:
    """Eq. 24: H_t(x) = Σ_q g_q^(t)(Σ_s ψ_{q,s}(x_s)), with inner[q][s] = ψ and outer[t][q] = g.

    The inner functions are the same for every t, as in the proof. All are functions of torch
    tensors that act elementwise.
    """

    inner: tuple[tuple[Function, ...], ...]
    outer: tuple[tuple[Function, ...], ...]

    def __init__(self, inner: object, outer: object) -> None:
        inner, outer = _table("inner", inner), _table("outer", outer)
        if len(outer) != len(inner[0]):
            raise InputError(
                f"inner has functions of {len(inner[0])} positions, so outer needs that many rows",
                len(outer),
                "inner[q][s] and outer[t][q], with s and t over the same positions.",
            )
        if len(outer[0]) != len(inner):
            raise InputError(
                f"inner has {len(inner)} sums, so each row of outer needs that many functions",
                len(outer[0]),
                "inner[q][s] and outer[t][q], with q over the same sums.",
            )
        object.__setattr__(self, "inner", inner)
        object.__setattr__(self, "outer", outer)

    @property
    def length(self) -> int:
        """τ, the number of positions."""
        return len(self.outer)

    @property
    def sums(self) -> int:
        """Q, the number of inner sums (2τd+1 in Theorem A.1)."""
        return len(self.inner)

    def __call__(self, x: Float[Tensor, "n length 1"]) -> Float[Tensor, "n length 1"]:
        """H(x)."""
        totals = torch.stack(
            [_total(psi(x[:, s, 0]) for s, psi in enumerate(row)) for row in self.inner], dim=-1
        )
        return torch.stack([self.outside(totals, t) for t in range(self.length)], dim=1)

    def outside(self, totals: Float[Tensor, "n sums"], t: int) -> Float[Tensor, "n 1"]:
        """Σ_q g_q^(t)(totals_q)."""
        return _total(g(totals[:, q]) for q, g in enumerate(self.outer[t]))[:, None]


@dataclass(frozen=True)
class _Slots:
    """f and F of the mended proof: `features(s, x)` maps tokens (k,) of I_s to slots (k, width)."""

    intervals: tuple[tuple[float, float], ...]
    features: Callable[[int, Tensor], Tensor]
    width: int
    readout: Readout
    strength: float

    @property
    def length(self) -> int:
        return len(self.intervals)

    def position(self, x: Float[Tensor, "*shape 1"]) -> Int[Tensor, "*shape"]:
        """The interval a token is in; in a gap, the nearer one, which extends f and ρ beyond I."""
        order = sorted(range(self.length), key=lambda s: self.intervals[s])
        ends = [self.intervals[s] for s in order]
        cuts = [(one[1] + two[0]) / 2 for one, two in pairwise(ends)]
        where = torch.bucketize(x[..., 0].detach().contiguous(), x.new_tensor(cuts))
        return torch.tensor(order, device=x.device)[where]

    def one_hot(self, x: Float[Tensor, "*shape 1"]) -> Float[Tensor, "*shape length"]:
        """1 at the token's position: the piecewise factors of ρ."""
        return torch.nn.functional.one_hot(self.position(x), self.length).to(x.dtype)

    def f(self, x: Float[Tensor, "*shape 1"]) -> Float[Tensor, "*shape n"]:
        """Eq. 26 with a slot for each position, and b_s = s/τ in the last coordinate."""
        token, at = x.reshape(-1), self.position(x).reshape(-1)
        slots = x.new_zeros(token.numel(), self.length, self.width)
        for s, (low, high) in enumerate(self.intervals):
            slots[at == s, s] = self.features(s, token[at == s].clamp(low, high)).to(x.dtype)
        marked = torch.cat([slots.flatten(1), at[:, None].to(x.dtype) / self.length], dim=1)
        return marked.reshape(*x.shape[:-1], -1)

    def F(self, u: Float[Tensor, "*shape n"]) -> Float[Tensor, "*shape out"]:
        """Reads t from the last coordinate, takes the extra weight off its slots, and decodes.

        (e^c + τ-1) u = Σ_s f(x(s)) + (e^c - 1) f(x(t)), c the strength, and Σ_s b_s = (τ-1)/2.
        """
        more = expm1(self.strength)
        total = u.reshape(-1, u.shape[-1]) * (more + self.length)
        mark = (total[:, -1] - (self.length - 1) / 2) / more
        t = (mark * self.length).round().long().clamp(0, self.length - 1)
        slots = total[:, :-1].reshape(-1, self.length, self.width)
        own = torch.nn.functional.one_hot(t, self.length)[:, :, None].bool()
        decoded = self.readout(torch.where(own, slots / (more + 1.0), slots), t)
        return decoded.reshape(*u.shape[:-1], -1)


def represent(H: object, intervals: object, strength: object = log(2.0)) -> AttentionTarget:
    """Theorem A.3: F, f and ρ with H_t(x) = F(Σ_s softmax[ρ(x(t), x(·))](s) f(x(s))), exactly.

    `H` is a Superposition, which gives n = τQ + 1 (the theorem's n for Q = 2τd+1), or any function
    (batch, τ, 1) -> (batch, τ, out), which gives n = τ + 1, fewer than the theorem's. `intervals`
    are the disjoint I_s (d = 1), as pairs or as PositionedInputs. ρ(u, v) = strength where u and v
    are in the same interval and 0 elsewhere; log 2 gives the paper's weights 2/(τ+1) and 1/(τ+1).
    On I the functions are exact; in the gaps, where Eq. 8 says nothing, they are extended.
    """
    law = _law(intervals)
    strength = require_number("strength", strength)
    if not _WEAKEST <= strength <= _STRONGEST:
        raise InputError(
            f"strength must lie in [{_WEAKEST:g}, {_STRONGEST:g}] for F to undo it in float64",
            strength,
            "log(2) is the theorem's.",
        )
    if isinstance(H, Superposition):
        slots = _superposed(H, law, strength)
    else:
        slots = _whole(require_callable("H", H), law, strength)
    rho = FactoredCoupling(
        lambda u: strength * slots.one_hot(u), slots.one_hot, slots.length, name="own interval"
    )
    return AttentionTarget(slots.F, slots.f, rho, slots.length, law, name="represented")


def _superposed(H: Superposition, law: PositionedInputs, strength: float) -> _Slots:
    if H.length != len(law.intervals):
        raise InputError(
            f"H has {H.length} positions and needs as many intervals", len(law.intervals)
        )
    for s, ends in enumerate(law.intervals):
        for q in range(H.sums):
            _check_range(H.inner[q][s], f"inner[{q}][{s}]", ends)

    def features(s: int, x: Tensor) -> Tensor:
        return torch.stack([row[s](x) for row in H.inner], dim=-1)

    def readout(slots: Tensor, t: Tensor) -> Tensor:
        totals = slots.sum(1)
        decoded = totals.new_zeros(len(totals), 1)
        for position in range(H.length):
            decoded[t == position] = H.outside(totals[t == position], position).to(totals.dtype)
        return decoded

    return _Slots(law.intervals, features, H.sums, readout, strength)


def _whole(H: Callable[..., object], law: PositionedInputs, strength: float) -> _Slots:
    def features(s: int, x: Tensor) -> Tensor:
        low, high = law.intervals[s]
        return ((x - low) / (high - low))[:, None]

    def readout(slots: Tensor, t: Tensor) -> Tensor:
        ends = slots.new_tensor(law.intervals)
        x = ends[:, :1] + (ends[:, 1:] - ends[:, :1]) * slots
        values = H(x)
        if not isinstance(values, Tensor) or values.ndim != 3 or values.shape[:2] != x.shape[:2]:
            raise InputError(
                f"H was given {tuple(x.shape)} and must return (batch, length, out)",
                tuple(values.shape) if isinstance(values, Tensor) else values,
            )
        return values[torch.arange(len(t), device=t.device), t]

    return _Slots(law.intervals, features, 1, readout, strength)


def pair_product(intervals: object) -> Superposition:
    """H_0 = x_0 x_1 and H_1 = (x_0 - x_1)² for τ = 2, from the sum and the difference alone.

    x_0 x_1 = ((x_0+x_1)² - (x_0-x_1)²) / 4, with inner functions scaled into [0, 1].
    """
    law = _law(intervals)
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


def product_and_sum(intervals: object) -> Superposition:
    """H_t = Π_s x_s + t (Σ_s x_s)² for any τ and positive intervals; Π = exp Σ log."""
    law = _law(intervals)
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


def _law(intervals: object) -> PositionedInputs:
    return intervals if isinstance(intervals, PositionedInputs) else PositionedInputs(intervals)


def _total(terms: Iterable[Tensor]) -> Tensor:
    return torch.stack(list(terms)).sum(0)


def _table(name: str, rows: object) -> tuple[tuple[Function, ...], ...]:
    listed = [_listed(f"{name}[{i}]", row) for i, row in enumerate(_listed(name, rows))]
    for i, row in enumerate(listed):
        for j, function in enumerate(row):
            require_callable(f"{name}[{i}][{j}]", function)
        if len(row) != len(listed[0]):
            raise InputError(
                f"{name}[{i}] must have {len(listed[0])} functions, as {name}[0] has", len(row)
            )
    return tuple(map(tuple, listed))  # type: ignore[arg-type]


def _listed(name: str, values: object) -> Sequence[object]:
    if not isinstance(values, list | tuple) or not values:
        raise InputError(f"{name} must be a list with at least one entry", values)
    return values


def _check_range(psi: Function, name: str, ends: tuple[float, float]) -> None:
    """Theorem A.1 has ψ: I_s -> [0, 1], and f must map into [0, 1]^n; tried on a grid."""
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
