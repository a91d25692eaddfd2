"""Prop. B.1, tested by runs: what two representations (Eq. 8) of one target have in common.

Eq. 8 leaves more free than a term c(u) added to ρ. With one more coordinate in f, the coupling
ρ(u, v) - ψ(v), the features e^ψ(v) (f(v), 1) and F(y, z) = F(y/z) give the same target for any ψ.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated

import torch
from jaxtyping import Bool, Float

from attnrate.errors import InputError, require_callable
from attnrate.settings import Count, by, checked
from attnrate.targets import AttentionTarget, PositionedInputs, UniformInputs, identity
from attnrate.theory.check import ROUNDING, Check, Seed, Verdict
from attnrate.theory.represent import pair_product, represent

Tensor = torch.Tensor
#: A function of tokens that acts elementwise
Function = Annotated[Callable[[Tensor], Tensor], by(require_callable)]

_SAME = ROUNDING
_LENGTH = 6


@checked
def check_B_1_1(
    pair: tuple[AttentionTarget, AttentionTarget] | None = None,
    samples: Count = 500,
    seed: Seed = 0,
) -> Check:
    """Check Prop. B.1, part 1: H1 = H2 implies F1∘f1 = F2∘f2.

    The proof inserts a constant sequence. On U[0,1]^τ that is an input; on X^(E) (Eq. 7), the input
    space of the paper, there is none.

    Args:
        pair: Two targets that are the same map on one law of the inputs. By default three pairs on
            U[0,1]^τ and one on X^(E) are tried.
        samples: The number of sequences for each pair.
        seed: Draws the sequences.

    Returns:
        The check; its value is the largest |F1∘f1 - F2∘f2|.

    Raises:
        InputError: If the two targets differ.

    Examples:
        >>> ar.check_B_1_1(samples=50).verdict
        'holds when corrected'

    """
    name, statement = "Prop. B.1 (1)", "If H1(x) = H2(x) for all x, then F1∘f1 = F2∘f2."
    if pair is not None:
        gap, scale = _pointwise_gap(pair, samples, seed)
        return Check(
            name,
            statement,
            f"one given pair, {samples} sequences, seed {seed}",
            "holds" if gap <= _SAME * scale else "does not hold",
            gap,
            f"largest |F1∘f1 - F2∘f2| = {gap:.2g}",
        )
    gaps = [_pointwise_gap(two, samples, seed) for two in _equal_pairs()]
    free = max(gap / scale for gap, scale in gaps)
    law = PositionedInputs.shifted(2)
    H = pair_product(law)
    encoded, _ = _pointwise_gap((represent(H, law), represent(H.__call__, law)), samples, seed)
    broken = encoded > 1e-3
    good: Verdict = "holds when corrected" if broken else "holds"
    return Check(
        name,
        statement,
        f"three pairs on U[0,1]^{_LENGTH} (affine change of f, c(u) added to ρ, ψ(v) taken from ρ "
        f"with one more coordinate) and one on X^(E) (two of Theorem A.3's representations of one "
        f"target, τ = 2); {samples} sequences each, seed {seed}",
        good if free <= _SAME else "does not hold",
        free,
        f"largest |F1∘f1 - F2∘f2| = {free:.2g} of its size where constant sequences are inputs, "
        f"and {encoded:.3g} on X^(E), where there are none and the proof has nothing to put in.",
        "it holds when every constant sequence is an input." if broken else "",
    )


def _cubic(x: Tensor) -> Tensor:
    """x³ + x, which is injective."""
    return x**3 + x


@checked
def check_B_1_2(pointwise: Function = _cubic, samples: Count = 500, seed: Seed = 0) -> Check:
    """Check Prop. B.1, part 2 (hard-max): equal outputs come from the same token.

    The statement needs an injective F∘f and a unique argmax. For every pair of five couplings, and
    every position, the check is whether outputs that agree come from one token.

    Args:
        pointwise: F∘f, a function of tokens in [-1, 1] that acts elementwise; by default x³ + x.
        samples: The number of sequences.
        seed: Draws the sequences.

    Returns:
        The check; its value is the number of positions where outputs agree and tokens differ.

    Examples:
        >>> import torch
        >>> ar.check_B_1_2(samples=50).verdict, ar.check_B_1_2(torch.relu, samples=50).verdict
        ('holds', 'does not hold')

    """
    law = UniformInputs((-1.0,), (1.0,))
    couplings: list[Callable[[Tensor, Tensor], Tensor]] = [
        lambda u, v: (torch.sin(3 * u + 2 * v) + u * v)[..., 0],
        lambda u, v: (torch.exp(u) * (torch.sin(3 * u + 2 * v) + u * v) - u**2)[..., 0],
        lambda u, v: torch.cos(4 * v - u)[..., 0],
        lambda u, v: -v[..., 0],
        lambda u, v: _bump(v)[..., 0],
    ]
    targets = [
        AttentionTarget(pointwise, identity, rho, _LENGTH, law, "hardmax") for rho in couplings
    ]
    x = targets[0].sample(samples, seed)
    agree = wrong = 0
    for i, one in enumerate(targets):
        for two in targets[:i]:
            same = ((one(x) - two(x)).abs() <= _SAME)[..., 0]
            agree += int(same.sum())
            wrong += int((same & ~_same_argmax(one, two, x)).sum())
    # max(min x, 0), once by the least token and once by another negative one
    least, other = (replace(target, F=torch.relu) for target in targets[3:])
    gap, share = _compared(least, other, x)
    return Check(
        "Prop. B.1 (2)",
        "Hard-max: if H1 = H2, the argmax is unique and F1∘f1, F2∘f2 are injections, then the "
        "argmax of ρ1(x(t), ·) and of ρ2(x(t), ·) are the same token.",
        f"all 10 pairs of 5 couplings with one F∘f, two of them of the same order, at "
        f"{samples} x {_LENGTH} positions, seed {seed}; and a pair with F∘f = max(x, 0)",
        "holds" if wrong == 0 else "does not hold",
        float(wrong),
        f"outputs agreed at {agree} positions, and at {wrong} of them came from different tokens. "
        f"Injectivity is needed: with F∘f = max(x, 0) two couplings give one target (largest "
        f"difference {gap:.2g}) and different argmax at {share:.1%} of the positions. "
        "F1∘f1 = F2∘f2 is needed too, hence part 1 with its constant sequences.",
    )


def _wave(v: Tensor) -> Tensor:
    """3 sin 5v."""
    return 3 * torch.sin(5 * v)


@checked
def check_B_1_3(psi: Function = _wave, samples: Count = 500, seed: Seed = 0) -> Check:
    """Check Prop. B.1, part 3 (softmax): equal targets with unbounded ρ have equal argmax.

    A counterexample is ρ1 = uv and ρ2 = uv - ψ(v) on R, with f2 = e^ψ(v) (v, 1) and F2(y, z) = y/z.
    Both ρ are unbounded, F1∘f1 = F2∘f2 = id is injective, and the argmax is unique almost surely.
    The limit in the proof only says that the argmax agree for inputs that are large enough.

    Args:
        psi: ψ, a function of tokens that acts elementwise; by default 3 sin 5v.
        samples: The number of sequences at each of three sizes of input.
        seed: Draws the sequences.

    Returns:
        The check; its value is the largest share of positions where the argmax differ.

    Raises:
        InputError: If ψ is so large that the two targets are not equal in float64.

    Examples:
        >>> ar.check_B_1_3(samples=50).verdict
        'does not hold'

    """
    shares, gap = {}, 0.0
    for size in (1.0, 10.0, 100.0):
        law = UniformInputs((-size,), (size,))
        one = AttentionTarget(identity, identity, lambda u, v: (u * v)[..., 0], _LENGTH, law)
        off, shares[size] = _compared(one, _keyed(one, psi), one.sample(samples, seed))
        gap = max(gap, off / size)
    if gap > _SAME:
        raise InputError("the two targets are not equal in float64", gap, "Choose a smaller psi.")
    shown = ", ".join(f"{share:.1%} for |x| <= {size:g}" for size, share in shares.items())
    return Check(
        "Prop. B.1 (3)",
        "Softmax: if H1 = H2, ρ1 and ρ2 are unbounded, the argmax is unique and F1∘f1, F2∘f2 are "
        "injections, then the argmax of ρ1(x(t), ·) and of ρ2(x(t), ·) are the same token.",
        f"ρ1 = uv against ρ1 - ψ(v), {samples} x {_LENGTH} positions at each of three sizes of "
        f"input, seed {seed}",
        "does not hold" if max(shares.values()) > 0 else "holds",
        max(shares.values()),
        f"targets equal to {gap:.2g} of the inputs' size, argmax different at {shown}. Only the "
        "limit of large inputs is right. Within Eq. 8 the statement is empty besides: a continuous "
        "ρ on a compact set is bounded.",
    )


def _pointwise_gap(
    pair: tuple[AttentionTarget, AttentionTarget], samples: int, seed: int
) -> tuple[float, float]:
    """The largest |F1∘f1 - F2∘f2| on tokens, and the scale of the outputs.

    An InputError says that the two targets differ.
    """
    one, two = pair
    x = one.sample(samples, seed)
    gap = float((one(x) - two(x)).abs().max())
    scale = 1.0 + float(one(x).abs().max())
    if gap > _SAME * scale:
        raise InputError("the two targets differ, so nothing follows for F∘f", gap)
    return float((one.F(one.f(x)) - two.F(two.f(x))).abs().max()), scale


def _equal_pairs() -> list[tuple[AttentionTarget, AttentionTarget]]:
    """Three pairs of representations of one target on U[0,1]^τ."""

    def rho(u: Tensor, v: Tensor) -> Tensor:
        return torch.sin(5 * u * v + v)[..., 0]

    def F(y: Tensor) -> Tensor:
        return torch.tanh(y[..., :1]) + y[..., 1:] ** 2

    def f(x: Tensor) -> Tensor:
        return torch.cat([torch.cos(3 * x), x**2], dim=-1)

    mix = torch.tensor([[1.0, 2.0], [-1.0, 0.5]], dtype=torch.float64)
    shift = torch.tensor([0.3, -2.0]).double()
    base = AttentionTarget(F, f, rho, _LENGTH)
    affine = AttentionTarget(
        lambda y: F((y - shift) @ torch.linalg.inv(mix).T),
        lambda x: f(x) @ mix.T + shift,
        rho,
        _LENGTH,
    )
    query = AttentionTarget(F, f, lambda u, v: rho(u, v) + 7 * torch.cos(u)[..., 0], _LENGTH)
    return [(base, other) for other in (affine, query, _keyed(base, _wave))]


def _keyed(target: AttentionTarget, psi: Function) -> AttentionTarget:
    """`target` written with ρ(u, v) - ψ(v), and one more coordinate in f that compensates."""
    return AttentionTarget(
        lambda y: target.F(y[..., :-1] / y[..., -1:]),
        lambda x: torch.exp(psi(x)) * torch.cat([target.f(x), torch.ones_like(x)], dim=-1),
        lambda u, v: target.rho(u, v) - psi(v)[..., 0],
        target.length,
        target.inputs,
    )


def _compared(
    one: AttentionTarget, two: AttentionTarget, x: Float[Tensor, "n length d"]
) -> tuple[float, float]:
    """The largest difference of two targets, and the share of positions where the argmax differ."""
    gap = float((one(x) - two(x)).abs().max())
    return gap, 1 - float(_same_argmax(one, two, x).double().mean())


def _same_argmax(
    one: AttentionTarget, two: AttentionTarget, x: Float[Tensor, "n length d"]
) -> Bool[Tensor, "n length"]:
    """Whether both targets have their largest logit at the same position."""
    return one.logits(x).argmax(-1) == two.logits(x).argmax(-1)


def _bump(v: Tensor) -> Tensor:
    """A continuous function that falls on [0, 1] and has its maximum at -1/2, zero at -1 and 0."""
    return torch.where(v > 0, -v, -v * (1 + v))
