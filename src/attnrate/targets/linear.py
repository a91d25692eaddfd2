"""Linear functionals, y(t) = Σ_s ρ(s) x(t-s) (Eq. 69), and the exact floors of causal models."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float, Float64

from attnrate.errors import InputError, require_choice, require_whole
from attnrate.settings import Count, Natural, Switch, by, checked
from attnrate.targets.alter import as_filter, as_permutation, permuted_law
from attnrate.targets.checks import Numbers, Vector, require_matrix, require_vector
from attnrate.targets.form import TARGETS, Target
from attnrate.targets.inputs import InputLaw, UniformInputs


def _require_kernel(name: str, kernel: object) -> object:
    if isinstance(kernel, str):
        require_choice(name, kernel, ("exponential",))
    elif isinstance(kernel, Mapping):
        if [*kernel] != ["uniform"]:
            raise InputError(f"{name} as a table must be {{uniform = SEED}}", dict(kernel))
        require_whole(f"{name}.uniform", kernel["uniform"], 0)
    elif not callable(kernel):
        return require_vector(name, kernel)
    return kernel


#: ρ of a linear functional: see `linear_target`
Kernel = Annotated[
    str | Mapping[str, int] | Numbers | Callable[..., Numbers],
    by(_require_kernel),
]


@TARGETS.add("linear")
@checked
def linear_target(kernel: Kernel, length: Count, inputs: InputLaw | None = None) -> "LinearTarget":
    """Eq. 69: y(t) = Σ_{s=0}^{t} ρ(s) x(t-s), with t from 0.

    `kernel` is ρ: the word "exponential" (ρ(s) = e^-s, Table 2), {"uniform": seed} for the
    `uniform_kernel` of Table 3, an array of at least `length` numbers, or a function of the
    integer array s.
    """
    rho = _kernel(kernel, length)
    lag = np.subtract.outer(np.arange(length), np.arange(length))
    matrix = np.where(lag >= 0, rho[np.maximum(lag, 0)], 0.0)
    return LinearTarget(matrix, inputs, "linear")


@checked
def uniform_kernel(length: Count, seed: Natural) -> Float64[np.ndarray, " length"]:
    """Table 3's kernel: ρ(s) independent and uniform on [0, 1]."""
    return np.random.default_rng(seed).uniform(size=length)


@dataclass(frozen=True, eq=False, init=False)
class LinearTarget(Target):
    """y = M x for any matrix M, causal or not. Permuting and mixing give such a target again."""

    matrix: Float64[np.ndarray, "length length"]
    inputs: InputLaw
    name: str
    length: int = field(init=False)
    out: int = field(default=1, init=False)

    def __init__(self, matrix: object, inputs: object = None, name: str = "") -> None:
        matrix = require_matrix("matrix", matrix)
        inputs = UniformInputs() if inputs is None else inputs
        if not isinstance(inputs, InputLaw) or inputs.d != 1:
            raise InputError("inputs must be a law of scalar tokens", inputs, "Pass d = 1.")
        matrix.flags.writeable = False
        object.__setattr__(self, "inputs", inputs)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "matrix", matrix)
        object.__setattr__(self, "length", matrix.shape[0])
        self.sample(1, seed=0)  # a law for another length is refused here, not in a long run

    def evaluate(self, x: Float[torch.Tensor, "n length 1"]) -> Float[torch.Tensor, "n length 1"]:
        """M x."""
        return torch.tensor(self.matrix, dtype=x.dtype, device=x.device) @ x

    def permuted(self, p: object) -> "LinearTarget":
        """The target with H~(x∘p) = H(x); its matrix has the columns of M in the order p."""
        order = as_permutation(p, self.length)
        inputs = permuted_law(self.inputs, order)
        return replace(
            self, matrix=self.matrix[:, order], inputs=inputs, name=f"{self.name} permuted".strip()
        )

    @checked
    def mixed(self, theta: Vector, causal: Switch = True) -> "LinearTarget":
        """The target H~(x) = H(θ∗x), with matrix M Θ; see `alter.mixed` for the two filters."""
        weights = as_filter(theta, self.length)
        theta_matrix = np.zeros_like(self.matrix)
        for s, weight in enumerate(weights):
            theta_matrix += weight * np.eye(self.length, k=-s if causal else s)
        return replace(self, matrix=self.matrix @ theta_matrix, name=f"{self.name} mixed".strip())

    def floor(self, kind: str, bias: bool = True) -> float:
        """The least E mean_t |y(t) - ŷ(t)|² over all models of one kind, in closed form.

        The inputs are independent with mean μ and variance v, so a model with the residual matrix
        D = M - A costs mean_t v Σ_s D[t,s]² + (μ Σ_s D[t,s] - b(t))², and a free b(t) removes the
        second term.

        kind="causal": ŷ(t) = Σ_{s≤t} a(t,s) x(s) + b(t). With bias the future is all that is
        lost, v Σ_{s>t} M[t,s]². Without, a constant shift of a(t,·) makes up for the future's mean
        c(t) = μ Σ_{s>t} M[t,s] as well as it can, and c(t)² v / (v + (t+1) μ²) is lost besides.

        kind="time-invariant": ŷ(t) = Σ_{s≤t} k(t-s) x(s) + b(t), all that a linear RNN can do
        (with bias=False: one that has none), with the kernel `best_kernel(bias)`.
        """
        require_choice("kind", kind, ("causal", "time-invariant"))
        mu, v = self._moments()
        if kind == "time-invariant":
            residual = self.matrix - _convolution(self.best_kernel(bias))
            missed = 0.0 if bias else (mu * residual.sum(1)) ** 2
            return float(np.mean(v * (residual**2).sum(1) + missed))
        future = np.triu(self.matrix, 1)
        seen = np.arange(1, self.length + 1)
        missed = 0.0 if bias else (mu * future.sum(1)) ** 2 * v / (v + seen * mu**2)
        return float(np.mean(v * (future**2).sum(1) + missed))

    def best_kernel(self, bias: bool = True) -> Float64[np.ndarray, " length"]:
        """The k of the best ŷ(t) = Σ_{s≤t} k(t-s) x(s) + b(t), in the mean square.

        With bias, k(j) is the mean of M along its j-th diagonal. Without, k solves the normal
        equations v (τ-j) k(j) + μ² Σ_i (τ - max(i,j)) k(i) = v Σ_{t≥j} M[t,t-j] + μ² Σ_{t≥j} R(t)
        with R(t) = Σ_s M[t,s].
        """
        mu, v = self._moments()
        j = np.arange(self.length)
        diagonals = np.array([np.trace(self.matrix, -lag) for lag in j])
        if bias:
            return diagonals / (self.length - j)
        normal = mu**2 * (self.length - np.maximum.outer(j, j)) + v * np.diag(self.length - j)
        later = np.cumsum(self.matrix.sum(1)[::-1])[::-1]
        return np.asarray(np.linalg.solve(normal, v * diagonals + mu**2 * later))

    def _moments(self) -> tuple[float, float]:
        if not isinstance(self.inputs, UniformInputs):
            raise InputError(
                "a floor needs inputs that are independent and of one law",
                self.inputs,
                "Pass inputs=UniformInputs(...).",
            )
        return self.inputs.mean[0], self.inputs.variance[0]


def _convolution(k: Float64[np.ndarray, " length"]) -> Float64[np.ndarray, "length length"]:
    return linear_target(k, k.size).matrix


def _kernel(kernel: Kernel, length: int) -> Float64[np.ndarray, " length"]:
    if isinstance(kernel, Mapping):
        return uniform_kernel(length, kernel["uniform"])
    if isinstance(kernel, str):
        return np.exp(-np.arange(length, dtype=np.float64))
    values = require_vector("kernel", kernel(np.arange(length)) if callable(kernel) else kernel)
    if values.size < length:
        raise InputError(
            f"kernel must have at least {length} entries, one for every lag", values.size
        )
    return values[:length]
