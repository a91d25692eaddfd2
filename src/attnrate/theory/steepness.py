"""How steep F must be in Eq. 8 once f and the coupling are chosen: a bound from below on any F.

F has to map the pooled vectors u_t(x) = Σ_s softmax[ρ(x(t), x(·))](s) f(x(s)) to H_t(x). On the
surface of these vectors F is determined, so its Lipschitz constant is at least

    |∂H_t J⁺|, with J = ∂u_t/∂x and ∂H_t the derivatives by the tokens (F(u_t(x)) = H_t(x) gives
    DF J = ∂H_t), and |H_t(x) - H_t'(x)| / |u_t(x) - u_t'(x)| for two positions of one sequence.

No choice of F outside this surface makes it smaller. The number bounds Barron's complexity of
Eq. 13 from below, too: |∇F| ≤ ∫ |ω| |F^(ω)| dω.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float

from attnrate.errors import InputError

Tensor = torch.Tensor
#: A map of sequences, (n, length, d) -> (n, length, k), that can be differentiated
SequenceMap = Callable[[Tensor], Tensor]


def steepness(
    H: SequenceMap, pooled: SequenceMap, x: Float[Tensor, "n length d"]
) -> Float[Tensor, " n"]:
    """The least Lipschitz constant that any F with F(pooled) = H must have, near each sequence.

    Args:
        H: The map to be represented.
        pooled: What F is given, such as `AttentionTarget.inner`. It may depend on no parameters
            but x, and have at least as many coordinates as a sequence has.
        x: Sequences at which it is measured.

    Returns:
        The largest of the quotients above over all t, t', for every sequence. It is infinite where
        pooled vectors agree and H does not: then there is no F.

    """
    x = x.detach().clone().requires_grad_()
    y, u = H(x), pooled(x)
    unknown = x[0].numel()
    if u.shape[-1] < unknown:
        raise InputError(
            f"pooled must have at least the {unknown} coordinates of a sequence", u.shape[-1]
        )
    along = [_along(_derivatives(y[:, t], x), _derivatives(u[:, t], x)) for t in range(x.shape[1])]
    most = torch.stack([*along, _between(y.detach(), u.detach())])
    return most.amax(0)


def _derivatives(values: Float[Tensor, "n k"], x: Tensor) -> Float[Tensor, "n k unknown"]:
    """∂values/∂x; sequences do not depend on each other, so their sum has all derivatives."""
    if not values.requires_grad:
        return values.new_zeros(*values.shape, x[0].numel())
    rows = [
        torch.autograd.grad(one.sum(), x, retain_graph=True, materialize_grads=True)[0].flatten(1)
        for one in values.unbind(-1)
    ]
    return torch.stack(rows, dim=1)


def _along(
    of_H: Float[Tensor, "n out unknown"], of_u: Float[Tensor, "n k unknown"]
) -> Float[Tensor, " n"]:
    """|∂H J⁺| in the spectral norm, with J = Q R and J⁺ = R⁻¹ Qᵀ."""
    R = torch.linalg.qr(of_u).R
    slopes = torch.linalg.solve_triangular(R, of_H, upper=True, left=False)
    norm: Tensor = torch.linalg.matrix_norm(slopes, 2)
    return norm


def _between(y: Float[Tensor, "n length out"], u: Float[Tensor, "n length k"]) -> Tensor:
    """The largest |H_t - H_t'| / |u_t - u_t'| of each sequence; 0 where H does not change."""
    rise, run = ((v[:, :, None] - v[:, None]).norm(dim=-1) for v in (y, u))
    quotient = torch.where(rise > 0, rise / run, torch.zeros_like(rise))
    return quotient.amax((-1, -2))
