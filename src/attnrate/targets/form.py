"""Targets: what every one of them offers, and Eq. 8, the form that the theory speaks about."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, TypeAlias

import torch
from jaxtyping import Float, Shaped

from attnrate.errors import InputError, require_callable, require_choice, require_whole
from attnrate.kinds import Kinds
from attnrate.settings import Positive, Switch, by, checked
from attnrate.targets.checks import Floats, FloatType, Permutation, Seed, Vector, on_last_axis
from attnrate.targets.couplings import (
    Coupling,
    CouplingLike,
    Exponent,
    FunctionCoupling,
    Rank,
    spectral_coupling,
)
from attnrate.targets.drawn import Law, drawn, require_law
from attnrate.targets.inputs import InputLaw, UniformInputs
from attnrate.targets.seeds import generator

#: The longest sequences of a target: a single one of these takes a gigabyte and more
MOST_LENGTH = 10_000_000
#: The number of tokens of a sequence
Length = Annotated[int, by(require_whole, 1, MOST_LENGTH)]
#: The number of sequences in a batch
Batch = Annotated[int, by(require_whole, 1)]
#: A function of tokens that acts on the last axis of a tensor
TokenMap: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
#: How logits become weights: by softmax, or all weight to the largest
Normalise: TypeAlias = Literal["softmax", "hardmax"]
#: What `target.kind` can name in settings; every target can also be permuted and mixed
TARGETS: Kinds[Callable[..., "Target"]] = Kinds(
    "target", __package__, without=("inputs",), besides=("permute", "mix")
)
_ENTRIES_AT_ONCE = 2**22  # largest intermediate tensor of one batch: 32 MB in float64


class Target(ABC):
    """A map H from sequences x(1), ..., x(τ) in R^d to sequences in R^out, with a law for x.

    A target of your own derives from this class: it has the four attributes and a method
    `evaluate`. Calling it as `target(x)` gives H(x), in parts that fit into memory.

    Attributes:
        length: The number of tokens τ of a sequence.
        inputs: The law of the input sequences.
        out: The number of coordinates of an output.
        name: A name for tables and figures.
        d: The number of coordinates of an input token, that of the law.

    Examples:
        >>> import torch
        >>> class Running(ar.Target):
        ...     length, inputs, out, name = 8, ar.UniformInputs(), 1, "running maximum"
        ...     def evaluate(self, x):
        ...         return x.cummax(dim=1).values
        >>> target = Running()
        >>> target(target.sample(2, seed=0)).shape
        torch.Size([2, 8, 1])

    """

    length: int
    inputs: InputLaw
    out: int
    name: str

    @property
    def d(self) -> int:
        """The number of coordinates of an input token."""
        return self.inputs.d

    def __repr__(self) -> str:
        kind, lacks = type(self).__name__, self._lacks()
        if lacks:
            return f"{kind}(without {', '.join(lacks)})"
        name = f"{self.name!r}, " if getattr(self, "name", "") else ""
        sizes = f"length={self.length}, d={getattr(self.inputs, 'd', '?')}, out={self.out}"
        return f"{kind}({name}{sizes}, {type(self.inputs).__name__})"

    @checked
    def sample(
        self, n: Batch, seed: Seed, dtype: FloatType = torch.float64
    ) -> Float[torch.Tensor, "n length d"]:
        """Draw input sequences from the target's law.

        They are drawn in float64 and then cast, so that one seed gives the same numbers, up to
        rounding, in every dtype.

        Args:
            n: The number of sequences.
            seed: Where the random numbers start; equal seeds give equal sequences.
            dtype: The floating-point type of the result. Default: float64.

        Returns:
            The sequences, of shape (n, length, d).

        """
        self.check_parts()
        return drawn(self.inputs, n, self.length, generator(seed)).to(dtype)

    def __call__(self, x: Shaped[torch.Tensor, "..."]) -> Float[torch.Tensor, "n length out"]:
        """H(x): (n, length, d) -> (n, length, out), in the dtype and on the device of x."""
        self.check_parts()
        self.check(x)
        rows = max(1, _ENTRIES_AT_ONCE // self.entries_a_sequence())
        return torch.cat([self._values(part) for part in torch.split(x, rows)])

    def check_parts(self) -> None:
        """Raise an InputError unless the target has the attributes that every target needs."""
        kind, lacks = type(self).__name__, self._lacks()
        if lacks:
            what = f"{kind} must have length, inputs, out and name; {{value}} is missing"
            example = 'length, inputs, out, name = 8, ar.UniformInputs(), 1, "mine"'
            raise InputError(what, lacks[0], f"As {example} in the class.")
        require_whole(f"{kind}.length", self.length, 1, MOST_LENGTH)
        require_whole(f"{kind}.out", self.out, 1)
        require_law(f"{kind}.inputs", self.inputs)

    def _lacks(self) -> list[str]:
        return [one for one in ("length", "inputs", "out") if not hasattr(self, one)]

    def _values(self, x: Float[torch.Tensor, "n length d"]) -> Float[torch.Tensor, "n length out"]:
        """What `evaluate` gives for one batch; InputError if it has another type or shape."""
        found: object = self.evaluate(x)
        named = f"{type(self).__name__}.evaluate"
        if not isinstance(found, torch.Tensor):
            what = f"{named} must return a torch tensor"
            raise InputError(what, type(found).__name__, "Compute with torch, as x.cummax(dim=1).")
        wanted = (len(x), self.length, self.out)
        if found.shape != wanted:
            same = found.ndim == 3 and found.shape[:2] == wanted[:2]
            other = f"Set out = {found.shape[-1]}, or" if same else "Keep all axes of x;"
            raise InputError(
                f"{named} must return the shape (n, length, out) = {wanted}",
                tuple(found.shape),
                f"{other} return {self.out} coordinate{'s' * (self.out > 1)} for every token.",
            )
        return found.to(x.dtype)

    @checked
    def check(self, x: Floats) -> None:
        """Raise an InputError unless x is a float tensor of shape (n, length, d).

        Args:
            x: What is to be evaluated.

        """
        if x.ndim != 3 or x.shape[1:] != (self.length, self.d):
            raise InputError(
                f"x must have the shape (n, length, d) = (n, {self.length}, {self.d})",
                tuple(x.shape),
                "Draw one with target.sample(n, seed).",
            )

    @abstractmethod
    def evaluate(self, x: Float[torch.Tensor, "n length d"]) -> Float[torch.Tensor, "n length out"]:
        """Compute H(x) for one batch of the right shape.

        Args:
            x: Sequences of shape (n, length, d).

        Returns:
            The outputs, of shape (n, length, out), in the dtype of x.

        """

    def entries_a_sequence(self) -> int:
        """Estimate how many numbers the evaluation of one sequence holds at once."""
        return self.length * max(self.d, self.length)

    @checked
    def permuted(self, p: Permutation) -> "Target":
        """Make the target that sees its tokens in another order (sec. 6.1).

        The new target H~ has H~_t(x∘p) = H_t(x), where (x∘p)(t) = x(p(t)): it is given the tokens
        in the order p and still has to give the outputs of H.

        Args:
            p: Every position 0, ..., length - 1 once, as `swap_ends` and `move_to_end` give them.

        Returns:
            H~, with attention weights where H has them.

        """
        from attnrate.targets import alter

        return alter.permuted(self, p)

    @checked
    def mixed(self, theta: Vector, causal: Switch = True) -> "Target":
        """Make the target H~(x) = H(θ∗x), whose inputs are mixed by a filter (sec. 6.2).

        (θ∗x)(t) = Σ_s θ(s) x(t-s), with x = 0 outside the sequence. The paper prints x(t+s), which
        reads the future; its Table 2 is only possible with the causal filter, the default.

        Args:
            theta: θ(0), θ(1), ..., at most `length` numbers.
            causal: Whether the filter reads the past, x(t-s), or the future, x(t+s).

        Returns:
            H~, for inputs of the same law.

        """
        from attnrate.targets import alter

        return alter.mixed(self, theta, causal)


def _require_normalise(name: str, value: object) -> Normalise:
    words: tuple[Normalise, ...] = ("softmax", "hardmax")
    return require_choice(name, value, words)


_TokenMap = Annotated[TokenMap, by(require_callable)]
_Rho = Annotated[CouplingLike, by(require_callable)]


@dataclass(frozen=True, init=False, repr=False)
class AttentionTarget(Target):
    """Eq. 8: H_t(x) = F(Σ_s softmax[ρ(x(t), x(·))](s) f(x(s))).

    Beyond Eq. 8, normalise="hardmax" puts the whole weight on the largest ρ (Eq. 55); positions
    that tie share it equally, which is the limit of softmax(β ρ) as β grows (see `softened`).

    Args:
        F: The outer function. It acts on the last axis of a tensor, (..., n') -> (..., out), in any
            floating-point dtype; `identity` for none.
        f: The inner function, (..., d) -> (..., n'), of the same kind.
        rho: The coupling ρ(u, v): a `Coupling`, a torch module, or a function of two tokens,
            written for torch or for numpy. On tokens in R¹ it sees plain numbers, arrays u and v
            that broadcast; on tokens in R^d, d ≥ 2, points with a last axis of d coordinates.
        length: The number of tokens of a sequence.
        inputs: The law of the input sequences. Default: uniform on [0, 1]^d, where d is that of
            the coupling, 1 for a function.
        normalise: "softmax", or "hardmax" for the whole weight on the largest ρ.
        name: A name for tables and figures.

    Attributes:
        F: The outer function.
        f: The inner function.
        rho: The coupling, as a `Coupling`.
        length: The number of tokens of a sequence.
        inputs: The law of the input sequences.
        normalise: "softmax" or "hardmax".
        name: A name for tables and figures.
        out: The number of coordinates of an output.

    Raises:
        InputError: If the functions, the coupling and the law do not fit together.

    Examples:
        >>> def rho(u, v):
        ...     return -(u - v).square().sum(-1)
        >>> law = ar.GaussianInputs((0, 0))
        >>> target = ar.AttentionTarget(ar.identity, ar.identity, rho, 8, law, name="nearby")
        >>> x = target.sample(5, seed=0)
        >>> target(x).shape
        torch.Size([5, 8, 2])
        >>> bool((target.attention(x).sum(-1) - 1).abs().max() < 1e-12)
        True

    """

    F: TokenMap
    f: TokenMap
    rho: Coupling
    length: int
    inputs: InputLaw
    normalise: Normalise
    name: str
    out: int = field(init=False)

    @checked
    def __init__(
        self,
        F: _TokenMap,
        f: _TokenMap,
        rho: _Rho,
        length: Length,
        inputs: Law | None = None,
        normalise: Annotated[Normalise, by(_require_normalise)] = "softmax",
        name: str = "",
    ) -> None:
        law = _law(inputs, rho)
        object.__setattr__(self, "F", F)
        object.__setattr__(self, "f", f)
        object.__setattr__(self, "rho", _coupling(rho, law.d))
        object.__setattr__(self, "length", length)
        object.__setattr__(self, "inputs", law)
        object.__setattr__(self, "normalise", normalise)
        object.__setattr__(self, "name", name)
        with torch.no_grad():
            out = self.evaluate(drawn(law, 1, length, generator(0))).shape[-1]
        object.__setattr__(self, "out", out)

    def logits(self, x: Shaped[torch.Tensor, "..."]) -> Float[torch.Tensor, "n length length"]:
        """Evaluate the coupling at every pair of tokens.

        Args:
            x: Sequences of shape (n, length, d).

        Returns:
            ρ(x(t), x(s)) at [:, t, s], of shape (n, length, length).

        """
        self.check(x)
        return self.rho.outer(x, x)

    def attention(self, x: Shaped[torch.Tensor, "..."]) -> Float[torch.Tensor, "n length length"]:
        """Compute the attention weights.

        Args:
            x: Sequences of shape (n, length, d).

        Returns:
            The weight of position s in the output at t, at [:, t, s]; every row sums to one.

        """
        logits = self.logits(x)
        if self.normalise == "softmax":
            return logits.softmax(-1)
        largest = (logits == logits.amax(-1, keepdim=True)).to(logits.dtype)
        return largest / largest.sum(-1, keepdim=True)

    def inner(self, x: Shaped[torch.Tensor, "..."]) -> Float[torch.Tensor, "n length inner"]:
        """Compute Σ_s attention[t, s] f(x(s)), to which F is applied.

        Args:
            x: Sequences of shape (n, length, d).

        Returns:
            The means of f under the attention weights, of shape (n, length, n').

        """
        self.check(x)
        return self.attention(x) @ on_last_axis("f", self.f, x)

    @property
    def inner_size(self) -> int:
        """The number of coordinates of f's values."""
        with torch.no_grad():
            return int(self.f(self.sample(1, 0)).shape[-1])

    def evaluate(self, x: Float[torch.Tensor, "n length d"]) -> Float[torch.Tensor, "n length out"]:
        """Compute F(inner(x)) for one batch of the right shape.

        Args:
            x: Sequences of shape (n, length, d).

        Returns:
            The outputs, of shape (n, length, out).

        """
        return on_last_axis("F", self.F, self.inner(x))

    def entries_a_sequence(self) -> int:
        """Count d numbers for every pair of positions, which a coupling that broadcasts holds."""
        return self.length * self.length * max(self.d, 2)

    @checked
    def softened(self, beta: Positive) -> "AttentionTarget":
        """Make the softmax target with the coupling beta ρ; hard-max is its limit as beta grows.

        Args:
            beta: The factor, above 0.

        Returns:
            The target with softmax, whatever `normalise` was.

        """
        return replace(self, rho=self.rho.scaled(beta), normalise="softmax")


def identity(x: Float[torch.Tensor, "..."]) -> Float[torch.Tensor, "..."]:
    """Return x itself: the F and f of sec. 5.1.

    Args:
        x: Any tensor.

    Returns:
        The same tensor.

    Examples:
        >>> import torch
        >>> ar.identity(torch.tensor([1.0, 2.0]))
        tensor([1., 2.])

    """
    return x


@TARGETS.add("spectral")
@checked
def spectral_target(alpha: Exponent, rank: Rank, length: Length = 16) -> AttentionTarget:
    """Make the target of Fig. 1, whose coupling has singular values σ_k = k^-α.

    F = f = id, tokens are uniform on [0, 1], and ρ = `spectral_coupling(alpha, rank)`.

    Args:
        alpha: The exponent α, above 1/2.
        rank: The number of singular values.
        length: The number of tokens of a sequence. Default: 16.

    Returns:
        The target.

    Examples:
        >>> target = ar.spectral_target(alpha=1.0, rank=3, length=4)
        >>> target
        AttentionTarget('spectral α=1.0 r=3', length=4, d=1, out=1, UniformInputs)
        >>> ar.spectral_coupling(1.0, 3).sigma.round(3)
        array([1.   , 0.5  , 0.333])

    """
    rho = spectral_coupling(alpha, rank)
    return AttentionTarget(identity, identity, rho, length, name=f"spectral α={alpha} r={rank}")


def _law(inputs: InputLaw | None, rho: CouplingLike) -> InputLaw:
    d = rho.d if isinstance(rho, Coupling) else 1
    return UniformInputs((0.0,) * d, (1.0,) * d) if inputs is None else inputs


def _coupling(rho: CouplingLike, d: int) -> Coupling:
    if not isinstance(rho, Coupling):
        return FunctionCoupling(rho, d)
    if rho.d != d:
        raise InputError(f"rho takes tokens of dimension {rho.d}, inputs have {{value}}", d)
    return rho
