"""Linear functionals, y(t) = Σ_s ρ(s) x(t-s) (Eq. 69), and the exact floors of causal models."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Float64

from attnrate.errors import InputError, require_choice, require_whole
from attnrate.settings import Count, Natural, Switch, by, checked
from attnrate.targets.alter import as_filter, as_permutation, permuted_law
from attnrate.targets.checks import Numbers, Permutation, SquareMatrix, Vector, require_vector
from attnrate.targets.drawn import require_law
from attnrate.targets.form import TARGETS, Length, Target
from attnrate.targets.inputs import IndependentInputs, InputLaw, UniformInputs

#: The models whose least error is known: any causal map, or a causal convolution
FloorKind: TypeAlias = Literal["causal", "time-invariant"]

#: A kernel of more than this many times the entries that count is a series by mistake
_DATA = 50


def _require_kernel(name: str, kernel: object) -> object:
    if isinstance(kernel, str):
        require_choice(name, kernel, ("exponential",))
    elif isinstance(kernel, Mapping):
        if [*kernel] != ["uniform"]:
            raise InputError(f"{name} as a table must be {{uniform = SEED}}", dict(kernel))
        require_whole(f"{name}.uniform", kernel["uniform"], 0)
    elif type(kernel).__module__.partition(".")[0] == "pandas":
        raise InputError(
            f"{name} must be numbers ρ(0), ρ(1), ..., and this is a column or a table",
            kernel,
            "For data call ar.choose(frame, target='...'); a kernel is kernel.to_numpy().",
        )
    elif not callable(kernel):
        return require_vector(name, kernel)
    return kernel


#: ρ of a linear functional: see `linear_target`
Kernel = Annotated[
    str | Mapping[str, int] | Numbers | Callable[..., Numbers],
    by(_require_kernel),
]


def _require_scalar_law(name: str, inputs: object) -> InputLaw:
    law = require_law(name, inputs)
    if law.d != 1:
        what = f"{name} must be a law of scalar tokens"
        raise InputError(what, inputs, "Pass one with d = 1, as UniformInputs().")
    return law


#: A law of scalar tokens
ScalarLaw = Annotated[InputLaw, by(_require_scalar_law)]


@TARGETS.add("linear")
@checked
def linear_target(
    kernel: Kernel, length: Length, inputs: ScalarLaw | None = None
) -> "LinearTarget":
    """Make the linear functional y(t) = Σ_{s=0}^{t} ρ(s) x(t-s) of Eq. 69, with t from 0.

    Args:
        kernel: ρ itself (for data there is `choose`): the word "exponential" for ρ(s) = e^-s
            (Table 2), {"uniform": seed} for the `uniform_kernel` of Table 3, an array of at least
            `length` numbers, or a function of the integer array s = 0, ..., length - 1.
        length: The number of tokens of a sequence.
        inputs: The law of the scalar input tokens. Default: uniform on [0, 1].

    Returns:
        The target.

    Examples:
        >>> target = ar.linear_target("exponential", length=3)
        >>> target.matrix.round(2)
        array([[1.  , 0.  , 0.  ],
               [0.37, 1.  , 0.  ],
               [0.14, 0.37, 1.  ]])
        >>> reversed_in_time = target.permuted([2, 1, 0])
        >>> print(f"{reversed_in_time.floor('causal'):.3f}")
        0.032

    """
    rho = _kernel(kernel, length)
    lag = np.subtract.outer(np.arange(length), np.arange(length))
    matrix = np.where(lag >= 0, rho[np.maximum(lag, 0)], 0.0)
    return LinearTarget(matrix, inputs, "linear")


@checked
def uniform_kernel(length: Count, seed: Natural) -> Float64[np.ndarray, " length"]:
    """Draw Table 3's kernel: ρ(s) independent and uniform on [0, 1].

    Args:
        length: The number of lags s.
        seed: Where the random numbers start.

    Returns:
        ρ(0), ..., ρ(length - 1).

    Examples:
        >>> ar.uniform_kernel(3, seed=0).round(2)
        array([0.64, 0.27, 0.04])

    """
    return np.random.default_rng(seed).uniform(size=length)


@dataclass(frozen=True, eq=False, init=False, repr=False)
class LinearTarget(Target):
    """y = M x for any matrix M, causal or not; permuting and mixing give such a target again.

    `linear_target` makes the one with M[t, s] = ρ(t-s).

    Args:
        matrix: M, of shape (length, length).
        inputs: The law of the scalar input tokens. Default: uniform on [0, 1].
        name: A name for tables and figures.

    Attributes:
        matrix: M, a read-only float64 array.
        inputs: The law of the input tokens.
        name: A name for tables and figures.
        length: The number of tokens of a sequence.
        out: The number of coordinates of an output, 1.

    Raises:
        InputError: If the matrix is not square or not finite, or the tokens are not scalars.

    Examples:
        >>> target = ar.LinearTarget([[0.0, 1.0], [0.0, 0.0]], name="next token")
        >>> target
        LinearTarget('next token', length=2, d=1, out=1, UniformInputs)
        >>> print(f"{target.floor('causal'):.4f}")  # half of the variance of U[0, 1]
        0.0417

    """

    matrix: Float64[np.ndarray, "length length"]
    inputs: InputLaw
    name: str
    length: int = field(init=False)
    out: int = field(default=1, init=False)

    @checked
    def __init__(
        self,
        matrix: SquareMatrix,
        inputs: ScalarLaw | None = None,
        name: str = "",
    ) -> None:
        entries = np.asarray(matrix)  # a new array, by the check
        entries.flags.writeable = False
        object.__setattr__(self, "inputs", UniformInputs() if inputs is None else inputs)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "matrix", entries)
        object.__setattr__(self, "length", entries.shape[0])
        self.sample(1, seed=0)  # a law for another length is refused here, not in a long run

    def evaluate(self, x: Float[torch.Tensor, "n length 1"]) -> Float[torch.Tensor, "n length 1"]:
        """Compute M x for one batch of the right shape.

        Args:
            x: Sequences of shape (n, length, 1).

        Returns:
            The outputs, of shape (n, length, 1).

        """
        return torch.tensor(self.matrix, dtype=x.dtype, device=x.device) @ x

    @checked
    def permuted(self, p: Permutation) -> "LinearTarget":
        """Make the target with H~(x∘p) = H(x), whose matrix has the columns of M in the order p.

        Args:
            p: Every position 0, ..., length - 1 once.

        Returns:
            H~.

        """
        order = as_permutation(p, self.length)
        inputs = permuted_law(self.inputs, order)
        return replace(
            self, matrix=self.matrix[:, order], inputs=inputs, name=f"{self.name} permuted".strip()
        )

    @checked
    def mixed(self, theta: Vector, causal: Switch = True) -> "LinearTarget":
        """Make the target H~(x) = H(θ∗x), whose matrix is M Θ.

        Args:
            theta: The filter θ(0), θ(1), ..., at most `length` numbers.
            causal: Whether the filter reads the past, x(t-s), or the future, x(t+s).

        Returns:
            H~.

        """
        weights = as_filter(theta, self.length)
        theta_matrix = np.zeros_like(self.matrix)
        for s, weight in enumerate(weights):
            theta_matrix += weight * np.eye(self.length, k=-s if causal else s)
        return replace(self, matrix=self.matrix @ theta_matrix, name=f"{self.name} mixed".strip())

    @checked
    def floor(self, kind: FloorKind, bias: Switch = True) -> float:
        """Compute the least E mean_t |y(t) - ŷ(t)|² over all models of one kind, in closed form.

        The inputs are independent with mean μ and variance v, so a model with the residual matrix
        D = M - A costs mean_t v Σ_s D[t,s]² + (μ Σ_s D[t,s] - b(t))², and a free b(t) removes the
        second term.

        kind="causal": ŷ(t) = Σ_{s≤t} a(t,s) x(s) + b(t). With bias the future is all that is
        lost, v Σ_{s>t} M[t,s]². Without, a constant shift of a(t,·) makes up for the future's mean
        c(t) = μ Σ_{s>t} M[t,s] as well as it can, and c(t)² v / (v + (t+1) μ²) is lost in addition.

        kind="time-invariant": ŷ(t) = Σ_{s≤t} k(t-s) x(s) + b(t), all that a linear RNN can do
        (with bias=False: one that has none), with the kernel `best_kernel(bias)`.

        Args:
            kind: "causal" or "time-invariant".
            bias: Whether the models have a free b(t). Default: they have.

        Returns:
            The mean squared error that no such model can beat.

        Raises:
            InputError: If the inputs are not `IndependentInputs`.

        """
        mu, v = self._moments()
        if kind == "time-invariant":
            residual = self.matrix - _convolution(self.best_kernel(bias))
            missed = 0.0 if bias else (mu * residual.sum(1)) ** 2
            return float(np.mean(v * (residual**2).sum(1) + missed))
        future = np.triu(self.matrix, 1)
        seen = np.arange(1, self.length + 1)
        missed = 0.0 if bias else (mu * future.sum(1)) ** 2 * v / (v + seen * mu**2)
        return float(np.mean(v * (future**2).sum(1) + missed))

    @checked
    def best_kernel(self, bias: Switch = True) -> Float64[np.ndarray, " length"]:
        """Compute the k of the best ŷ(t) = Σ_{s≤t} k(t-s) x(s) + b(t), in the mean square.

        With bias, k(j) is the mean of M along its j-th diagonal. Without, k solves the normal
        equations v (τ-j) k(j) + μ² Σ_i (τ - max(i,j)) k(i) = v Σ_{t≥j} M[t,t-j] + μ² Σ_{t≥j} R(t)
        with R(t) = Σ_s M[t,s].

        Args:
            bias: Whether there is a free b(t). Default: there is.

        Returns:
            k(0), ..., k(length - 1).

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
        """The mean and the variance of an input token."""
        if not isinstance(self.inputs, IndependentInputs):
            raise InputError(
                "a floor needs inputs that are independent and of one law",
                self.inputs,
                "Pass inputs=UniformInputs(...) or another law derived from IndependentInputs.",
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
    if values.size > _DATA * length:
        raise InputError(
            f"kernel has {{value}} entries, and only the first {length} count: is it a series?",
            values.size,
            f"For data call ar.choose(frame, target='...'); of a kernel pass kernel[:{length}].",
        )
    return values[:length]
