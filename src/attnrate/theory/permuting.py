"""Prop. 6.2, tested by a run: does a permuted target have the complexity of the original?"""

from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
import torch

from attnrate.errors import require_callable
from attnrate.settings import Count, by, checked
from attnrate.targets import AttentionTarget, PositionedInputs
from attnrate.targets.alter import as_permutation
from attnrate.theory.check import ROUNDING, Check, Seed
from attnrate.theory.domain import union
from attnrate.theory.pod import pod
from attnrate.theory.represent import Intervals, require_law


def _require_order(name: str, p: object) -> tuple[int, ...]:
    """`p` as a permutation, or an InputError."""
    return as_permutation(p, None)


Tensor = torch.Tensor
#: A coupling of tokens with a last axis, (..., 1), (..., 1) -> (...)
Rho = Annotated[Callable[[Tensor, Tensor], Tensor], by(require_callable)]
#: The positions 0, 1, ... in some order
Order = Annotated[Sequence[int], by(_require_order)]


@checked
def check_6_2(
    coupling: Rho | None = None,
    intervals: Intervals | None = None,
    p: Order = (2, 0, 3, 1),
    samples: Count = 200,
    seed: Seed = 0,
) -> Check:
    """Check Prop. 6.2: the permuted target has the same C0, C1 and C2.

    Eq. 90 asks for φ~(x(p(t))) = φ^(t)(x(t)): H~ at t must know x(t) but sees x(p(t)), another
    token. That is possible when φ is constant on each interval (the query matters only by its
    position), as it is in Theorem A.3; then ρ~(u, v) = ρ(u moved from I_p(t) to I_t, v). For a
    query that matters by its value there is no ρ~ with F and f unchanged: for F = f = id and fixed
    u = x(p(t)), the equations u - T + g(a)(a - T) + h(c)(c - T) = 0 for the weights g, h of the
    other two tokens, T = H_t, have no solution.

    Args:
        coupling: ρ, a function of two tensors of tokens, (..., 1), (..., 1) -> (...). By default
            a random one of rank 3 whose query matters only by its position.
        intervals: The intervals of the positions, as pairs (a, b) or as `PositionedInputs`; by
            default [0, 1], [2, 3], [4, 5], [6, 7].
        p: The permutation, as many positions as there are intervals.
        samples: The number of sequences at which the two targets are compared.
        seed: Draws the coupling and the sequences.

    Returns:
        The check; its value is the larger of the difference of the targets and the largest
        relative change of a singular value.

    Examples:
        >>> ar.check_6_2().verdict
        'holds when corrected'

    """
    law = PositionedInputs.shifted(4) if intervals is None else require_law("intervals", intervals)
    order = as_permutation(p, len(law.intervals))
    rng = np.random.default_rng(seed)
    rho = _by_position(law, rng) if coupling is None else coupling

    def altered(u: Tensor, v: Tensor) -> Tensor:
        return rho(_moved_back(u, law, order), v)

    H, H_altered = (
        AttentionTarget(torch.tanh, torch.sin, each, len(order), law) for each in (rho, altered)
    )
    x = H.sample(samples, seed)
    gap = float((H_altered(x[:, list(order)]) - H(x)).abs().max())
    domain = union(*law.intervals)
    one, two = (pod(target.rho, domain).sigma for target in (H, H_altered))
    same_rank = len(one) == len(two)
    drift = float(np.max(np.abs(one - two)) / one[0]) if same_rank else float("inf")
    # Levels on [0,1], [2,3], ..., extended linearly over the gaps, which have the width 1. No
    # extension has a smaller Lipschitz constant: the ends of a gap belong to the pieces.
    levels = np.array([[0.0, 0.5, 1.0], [0.0, 1.0, 0.5]])
    before, after = np.abs(np.diff(levels)).max(axis=1)
    residual = _unsolvable(lambda u, v: torch.sin(u * v)[..., 0])
    control = _unsolvable(lambda u, v: torch.sin(3 * v + 0 * u)[..., 0])
    sound = residual > 1e-3 and control <= ROUNDING and after > before
    return Check(
        "Prop. 6.2",
        "The permuted target H~_t(x∘p) = H_t(x) has the same C0, C1 and C2 as H.",
        f"one coupling on the intervals {law.intervals}, p = {order}, {samples} sequences, "
        f"seed {seed}; POD of ρ and ρ~ to 1e-12; Lipschitz constants of three pieces; the "
        "equations for ρ = sin(uv) on a 5 x 5 grid, τ = 3",
        "holds when corrected" if sound and gap <= ROUNDING and drift <= 1e-10 else "does not hold",
        max(gap, drift),
        f"with the pieces permuted, largest |H~(x∘p) - H(x)| = {gap:.2g} and largest change of a "
        f"singular value = {drift:.2g} of σ_1.",
        "this needs a ρ whose query counts by its position only (for ρ = sin(uv) and F = f = id no "
        f"ρ~ exists, for the equations leave a residual of {residual:.2g}; for ρ = sin(3v), as a "
        f"control, {control:.1g}) and intervals of one length. And C2 is not kept: pieces 0, 0.5, "
        f"1 on [0,1], [2,3], [4,5] have the Lipschitz constant {before:.3g}, as 0, 1, 0.5 they "
        f"have {after:.3g}, and no extension over the gaps has less; only what lies within the "
        "pieces is unchanged.",
    )


def _pieces(u: Tensor, law: PositionedInputs) -> list[Tensor]:
    """One mask for every interval: whether each token lies in it."""
    return [(u >= low) & (u <= high) for low, high in law.intervals]


def _by_position(law: PositionedInputs, rng: np.random.Generator) -> Rho:
    """A random coupling of rank 3 whose query matters only by its position."""
    levels = torch.tensor(rng.normal(size=(len(law.intervals), 3)))
    waves = torch.tensor(rng.uniform(0.5, 2.0, 3))

    def rho(u: Tensor, v: Tensor) -> Tensor:
        inside = torch.cat(_pieces(u, law), dim=-1).to(levels.dtype)
        return ((inside @ levels) * torch.cos(waves * v)).sum(-1)

    return rho


def _moved_back(u: Tensor, law: PositionedInputs, p: tuple[int, ...]) -> Tensor:
    """Tokens of I_p(t) moved to the corresponding place in I_t (Eq. 89)."""
    moved = u.clone()
    inside = _pieces(u, law)
    for t, source in enumerate(p):
        (low, high), (to_low, to_high) = law.intervals[source], law.intervals[t]
        share = (u - low) / (high - low)
        moved = torch.where(inside[source], to_low + share * (to_high - to_low), moved)
    return moved


def _unsolvable(rho: Rho, points: int = 5) -> float:
    """The least residual of the equations in `check_6_2`, as a share of their right-hand side.

    τ = 3 on [0,1], [2,3], [4,5]; t = 0, u = x(p(0)) = 2.5 fixed, a = x(0) and c = x(2) on a grid.
    """
    a, c = torch.meshgrid(
        torch.linspace(0, 1, points).double(), torch.linspace(4, 5, points).double(), indexing="ij"
    )
    u = torch.full_like(a, 2.5)
    tokens = torch.stack([a, u, c], dim=-1)[..., None]
    weights = rho(a[..., None, None], tokens).softmax(-1)
    T = (weights * tokens[..., 0]).sum(-1).flatten()
    rows, columns = (torch.eye(points).double() for _ in range(2))
    g = rows.repeat_interleave(points, 0) * (a.flatten() - T)[:, None]
    h = columns.repeat(points, 1) * (c.flatten() - T)[:, None]
    system, right = torch.cat([g, h], dim=1).numpy(), (T - u.flatten()).numpy()
    solution = np.linalg.lstsq(system, right, rcond=None)[0]
    return float(np.linalg.norm(system @ solution - right) / np.linalg.norm(right))
