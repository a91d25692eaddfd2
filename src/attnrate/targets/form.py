"""Targets: what every one of them offers, and Eq. 8, the form that the theory speaks about."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated

import torch
from jaxtyping import Float, Shaped

from attnrate.errors import InputError, require_callable, require_choice, require_whole
from attnrate.settings import Kinds, Positive, Switch, by, checked
from attnrate.targets.checks import Vector, require_floats
from attnrate.targets.couplings import Coupling, Exponent, FunctionCoupling, Rank, spectral_coupling
from attnrate.targets.inputs import InputLaw, UniformInputs
from attnrate.targets.seeds import generator

#: The longest sequences of a target: a single one of these takes a gigabyte and more
MOST_LENGTH = 10_000_000
#: The number of tokens of a sequence
Length = Annotated[int, by(require_whole, 1, MOST_LENGTH)]
#: What `target.kind` can name in settings; every target can also be permuted and mixed
TARGETS: Kinds[Callable[..., "Target"]] = Kinds(
    "target", __package__, without=("inputs",), besides=("permute", "mix")
)
_ENTRIES_AT_ONCE = 2**22  # largest intermediate tensor of one batch: 32 MB in float64
_LARGEST_SEED = 2**63 - 1


class Target(ABC):
    """A map H from sequences x(1), ..., x(τ) in R^d to sequences in R^out, with a law for x."""

    length: int
    inputs: InputLaw
    out: int
    name: str

    @property
    def d(self) -> int:
        """The dimension of one input token."""
        return self.inputs.d

    def sample(
        self, n: object, seed: object, dtype: torch.dtype = torch.float64
    ) -> Float[torch.Tensor, "n length d"]:
        """`n` input sequences from the target's law.

        They are drawn in float64 and then cast, so that one seed gives the same numbers, up to
        rounding, in every dtype.
        """
        n = require_whole("n", n, 1)
        seed = require_whole("seed", seed, 0, _LARGEST_SEED)
        if not dtype.is_floating_point:
            raise InputError("dtype must be a floating-point type", dtype, "Pass torch.float32.")
        return self.inputs.draw(n, self.length, generator(seed)).to(dtype)

    def __call__(self, x: Shaped[torch.Tensor, "..."]) -> Float[torch.Tensor, "n length out"]:
        """H(x): (n, length, d) -> (n, length, out), in the dtype and on the device of x."""
        self.check(x)
        rows = max(1, _ENTRIES_AT_ONCE // self.entries_a_sequence())
        return torch.cat([self.evaluate(part) for part in torch.split(x, rows)])

    def check(self, x: object) -> None:
        """An InputError when x is not a float tensor of shape (n, length, d)."""
        x = require_floats("x", x)
        if x.ndim != 3 or x.shape[1:] != (self.length, self.d):
            raise InputError(
                f"x must have the shape (n, length, d) = (n, {self.length}, {self.d})",
                tuple(x.shape),
                "Draw one with target.sample(n, seed).",
            )

    @abstractmethod
    def evaluate(self, x: Float[torch.Tensor, "n length d"]) -> Float[torch.Tensor, "n length out"]:
        """H(x) for one batch of the right shape."""

    def entries_a_sequence(self) -> int:
        """How many numbers the evaluation of one sequence holds at once, roughly."""
        return self.length * max(self.d, self.length)

    def permuted(self, p: object) -> "Target":
        """H~ with H~(x∘p) = H(x), where (x∘p)(t) = x(p(t)); see `alter.permuted`."""
        from attnrate.targets import alter

        return alter.permuted(self, p)

    @checked
    def mixed(self, theta: Vector, causal: Switch = True) -> "Target":
        """H~(x) = H(θ∗x); see `alter.mixed`."""
        from attnrate.targets import alter

        return alter.mixed(self, theta, causal)


@dataclass(frozen=True, init=False)
class AttentionTarget(Target):
    """Eq. 8: H_t(x) = F(Σ_s softmax[ρ(x(t), x(·))](s) f(x(s))).

    `F` and `f` are functions of torch tensors that act on the last axis, f: (..., d) -> (..., n')
    and F: (..., n') -> (..., out), in any floating-point dtype. `rho` is a Coupling, or a plain
    function of two tensors (..., d) which is then wrapped in a FunctionCoupling. Without `inputs`
    the tokens are uniform on [0, 1]^d.

    Beyond Eq. 8, normalise="hardmax" puts the whole weight on the largest ρ (Eq. 55); positions
    that tie share it equally, which is the limit of softmax(β ρ) as β grows (see `softened`).
    """

    F: Callable[[torch.Tensor], torch.Tensor]
    f: Callable[[torch.Tensor], torch.Tensor]
    rho: Coupling
    length: int
    inputs: InputLaw
    normalise: str
    name: str
    out: int = field(init=False)

    def __init__(
        self,
        F: object,
        f: object,
        rho: object,
        length: object,
        inputs: object = None,
        normalise: str = "softmax",
        name: str = "",
    ) -> None:
        require_choice("normalise", normalise, ("softmax", "hardmax"))
        law = _law(inputs, rho)
        object.__setattr__(self, "F", require_callable("F", F))
        object.__setattr__(self, "f", require_callable("f", f))
        object.__setattr__(self, "rho", _coupling(rho, law.d))
        object.__setattr__(self, "length", require_whole("length", length, 1, MOST_LENGTH))
        object.__setattr__(self, "inputs", law)
        object.__setattr__(self, "normalise", normalise)
        object.__setattr__(self, "name", name)
        with torch.no_grad():
            out = self.evaluate(self.sample(1, seed=0)).shape[-1]
        object.__setattr__(self, "out", out)

    def logits(self, x: Shaped[torch.Tensor, "..."]) -> Float[torch.Tensor, "n length length"]:
        """ρ(x(t), x(s)) at [t, s]."""
        self.check(x)
        return self.rho.outer(x, x)

    def attention(self, x: Shaped[torch.Tensor, "..."]) -> Float[torch.Tensor, "n length length"]:
        """The weight of position s in the output at t, at [t, s]; every row sums to one."""
        logits = self.logits(x)
        if self.normalise == "softmax":
            return logits.softmax(-1)
        largest = (logits == logits.amax(-1, keepdim=True)).to(logits.dtype)
        return largest / largest.sum(-1, keepdim=True)

    def inner(self, x: Shaped[torch.Tensor, "..."]) -> Float[torch.Tensor, "n length inner"]:
        """Σ_s attention[t, s] f(x(s)), which F is applied to."""
        self.check(x)
        return self.attention(x) @ _on_last_axis("f", self.f, x)

    @property
    def inner_size(self) -> int:
        """The coordinates of f's values."""
        with torch.no_grad():
            return int(self.f(self.sample(1, 0)).shape[-1])

    def evaluate(self, x: Float[torch.Tensor, "n length d"]) -> Float[torch.Tensor, "n length out"]:
        """F(inner(x))."""
        return _on_last_axis("F", self.F, self.inner(x))

    def entries_a_sequence(self) -> int:
        """A coupling that broadcasts holds d numbers for every pair of positions."""
        return self.length * self.length * max(self.d, 2)

    @checked
    def softened(self, beta: Positive) -> "AttentionTarget":
        """The softmax target with the coupling beta ρ; hard-max is its limit as beta grows."""
        return replace(self, rho=self.rho.scaled(beta), normalise="softmax")


def identity(x: Float[torch.Tensor, "..."]) -> Float[torch.Tensor, "..."]:
    """F = f = id of sec. 5.1."""
    return x


@TARGETS.add("spectral")
@checked
def spectral_target(alpha: Exponent, rank: Rank, length: Length = 16) -> AttentionTarget:
    """Fig. 1's target: F = f = id, x uniform on [0, 1], ρ with σ_k = k^-α and the given rank."""
    rho = spectral_coupling(alpha, rank)
    return AttentionTarget(identity, identity, rho, length, name=f"spectral α={alpha} r={rank}")


def _law(inputs: object, rho: object) -> InputLaw:
    if inputs is None:
        d = rho.d if isinstance(rho, Coupling) else 1
        return UniformInputs((0.0,) * d, (1.0,) * d)
    if not isinstance(inputs, InputLaw):
        raise InputError("inputs must be a law of the inputs", inputs, "Pass UniformInputs().")
    return inputs


def _coupling(rho: object, d: int) -> Coupling:
    if not isinstance(rho, Coupling):
        return FunctionCoupling(rho, d)
    if rho.d != d:
        raise InputError(f"rho takes tokens of dimension {rho.d}, inputs have another", d)
    return rho


def _on_last_axis(
    name: str, function: Callable[[torch.Tensor], object], x: torch.Tensor
) -> torch.Tensor:
    values = function(x)
    if not isinstance(values, torch.Tensor) or values.shape[:-1] != x.shape[:-1]:
        raise InputError(
            f"{name} must act on the last axis: it was given {tuple(x.shape)}",
            tuple(values.shape) if isinstance(values, torch.Tensor) else values,
            f"Return a tensor of shape {(*x.shape[:-1], 'k')}.",
        )
    return values.to(x.dtype)
