"""What a symmetry of a model costs: exact floors for models that commute with permutations.

A model is equivariant under a group G of permutations of the positions if Ĥ(x∘g) = Ĥ(x)∘g for each
g in G. If the inputs are independent and of one law, the best such model for a target H is the mean
of H over the group,

    H̄(x) = |G|⁻¹ Σ_g H(x∘g)∘g⁻¹,    E|H - Ĥ|² = E|H - H̄|² + E|H̄ - Ĥ|²,

because x∘g has the law of x, so that the mean is the orthogonal projection onto the equivariant
maps. E|H - H̄|² is thus a floor for all of them, whatever their sizes and however nonlinear. For a
linear target y = M x it is a closed form: H̄ is the matrix whose entry at (t, s) is the mean of
M[g(t), g(s)].
"""

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float64

from attnrate.errors import InputError
from attnrate.targets import IndependentInputs, LinearTarget, seeds

Tensor = torch.Tensor
Matrix = Float64[np.ndarray, "length length"]
#: The permutations that a model commutes with: all of them, as without positions; the reversal of
#: time, as where |t - s| is all that counts; or none but the identity
Symmetry = Literal["all", "reversal", "none"]
#: The longest sequences whose permutations are all tried: 720 for six tokens
_MOST_TRIED = 6


def averaged(M: Matrix, symmetry: Symmetry) -> Matrix:
    """The mean of M[g(t), g(s)] over a group of permutations g.

    Over all permutations this is the mean of the diagonal on the diagonal, and the mean of the
    other entries elsewhere.

    Args:
        M: A square matrix.
        symmetry: The group.

    Returns:
        A matrix that commutes with the group.

    """
    length = len(M)
    if symmetry == "none":
        return M
    if symmetry == "reversal":
        return np.asarray((M + M[::-1, ::-1]) / 2)
    diagonal = np.trace(M) / length
    other = (M.sum() - np.trace(M)) / (length * max(length - 1, 1))
    return np.asarray(np.where(np.eye(length, dtype=bool), diagonal, other))


def symmetric_floor(target: LinearTarget, symmetry: Symmetry) -> float:
    """The least E mean_t |y(t) - ŷ(t)|² of all models with a symmetry, in closed form.

    With D = M - M̄, inputs of mean μ and variance v lose mean_t v Σ_s D[t,s]² + (μ Σ_s D[t,s])².

    Args:
        target: A linear target whose inputs are independent and of one law.
        symmetry: The permutations that the models commute with.

    Returns:
        The mean squared error that no such model can beat.

    Raises:
        InputError: If the inputs are not `IndependentInputs`.

    """
    if not isinstance(target.inputs, IndependentInputs):
        raise InputError(
            "the floor of a symmetry needs inputs that are independent and of one law",
            target.inputs,
            "Pass inputs=UniformInputs(...).",
        )
    mu, v = target.inputs.mean[0], target.inputs.variance[0]
    D = target.matrix - averaged(target.matrix, symmetry)
    return float(np.mean(v * np.square(D).sum(1) + np.square(mu * D.sum(1))))


def reordered_floor(p: Sequence[int], spread: float, symmetry: Symmetry) -> float:
    """The floor where H is equivariant under all permutations, but its inputs come in the order p.

    Then H~(x∘p) = H(x) is H with its outputs in another order, H~(z) = H(z)∘p⁻¹: a linear map of
    H's outputs, which are exchangeable. Rows of its matrix and of the mean of that sum to one, so
    that only the spread of the outputs within a sequence counts.

    Args:
        p: The permutation.
        spread: E Var_t H_t, the variance of the outputs of a sequence around their mean, with
            divisor τ - 1; for exchangeable outputs it is Var H_t - Cov(H_t, H_s).
        symmetry: The permutations that the models commute with.

    Returns:
        The mean squared error that no such model can beat.

    """
    M = np.eye(len(p))[np.argsort(p)]
    return float(spread * np.square(M - averaged(M, symmetry)).sum(1).mean())


def symmetries(
    model: Callable[[Tensor], Tensor], length: int, rounding: float, seed: int = 0
) -> tuple[tuple[int, ...], ...]:
    """Find all permutations of the positions that a model commutes with, by trying every one.

    Args:
        model: A map (n, length, 1) -> (n, length, out) of float64 tensors.
        length: The number of positions, 6 at most.
        rounding: A difference of this share of the largest output counts as none.
        seed: Draws the sequences, uniform on [0, 1].

    Returns:
        The permutations, in lexical order.

    Raises:
        InputError: If there are too many positions.

    """
    if length > _MOST_TRIED:
        raise InputError(f"permutations of {_MOST_TRIED} positions at most are tried", length)
    x = torch.rand(8, length, 1, generator=seeds.generator(seed), dtype=torch.float64)
    with torch.no_grad():
        y = model(x)
        most = rounding * float(y.abs().max())
        return tuple(
            p
            for p in permutations(range(length))
            if float((model(x[:, list(p)]) - y[:, list(p)]).abs().max()) <= most
        )
