"""What every coupling ρ(u, v) offers, and couplings that are given by a function."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Float64

from attnrate.calling import Called, Library, NumpyFunction, find_call
from attnrate.errors import InputError, require_callable
from attnrate.settings import Count, by, checked
from attnrate.targets.checks import require_floats

TorchFunction: TypeAlias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""A function of two torch tensors of tokens."""

CouplingFunction: TypeAlias = NumpyFunction | TorchFunction | torch.nn.Module
"""A function of two tokens, written for numpy or for torch."""


class Coupling(ABC):
    """ρ(u, v), how much a token u attends to a token v, as a function of torch tensors.

    The last axis of u and v has the d coordinates of one token; the axes before it broadcast. A
    coupling of your own derives from this class and writes `raw` and `scaled`; for most purposes a
    plain function of u and v is enough, which `FunctionCoupling` wraps.

    Attributes:
        d: The dimension of one token.

    Examples:
        >>> import torch
        >>> class Product(ar.Coupling):
        ...     d = 1
        ...     factor = 1.0
        ...     def raw(self, u, v):
        ...         return self.factor * (u * v).sum(-1)
        ...     def scaled(self, beta):
        ...         other = Product()
        ...         other.factor = beta * self.factor
        ...         return other
        >>> u = torch.tensor([[1.0], [2.0]])
        >>> Product().scaled(3.0).outer(u, u)
        tensor([[ 3.,  6.],
                [ 6., 12.]])

    """

    d: int

    @abstractmethod
    def raw(self, u: torch.Tensor, v: torch.Tensor) -> object:
        """ρ(u, v) as it comes, before its shape and its values are checked.

        Args:
            u: Tokens of shape (..., d).
            v: Tokens of shape (..., d), whose other axes broadcast against those of u.

        """

    @abstractmethod
    def scaled(self, beta: float) -> "Coupling":
        """The coupling beta ρ.

        Args:
            beta: A factor.

        """

    def __call__(
        self, u: Float[torch.Tensor, "... d_u"], v: Float[torch.Tensor, "... d_v"]
    ) -> Float[torch.Tensor, "..."]:
        """ρ(u, v): (..., d), (..., d) -> (...)."""
        self._check_tokens(u, v)
        return checked_values(self.raw(u, v), u, v)

    def outer(
        self, u: Float[torch.Tensor, "..."], v: Float[torch.Tensor, "..."]
    ) -> Float[torch.Tensor, "... t s"]:
        """ρ(u(t), v(s)) for every pair of two sequences.

        Args:
            u: Sequences of tokens, shape (..., t, d).
            v: Sequences of tokens, shape (..., s, d).

        Returns:
            The values, shape (..., t, s).

        """
        return self(*paired(u, v))

    def _check_tokens(self, u: torch.Tensor, v: torch.Tensor) -> None:
        check_tokens("u", u, self.d)
        check_tokens("v", v, self.d)
        _pairs_shape(u, v)


CouplingLike: TypeAlias = Coupling | NumpyFunction | TorchFunction | torch.nn.Module
"""What can be given for ρ: a `Coupling`, a function of two arrays or tensors, or a torch module.

For tokens in R¹ a function sees plain numbers, two arrays that broadcast; for tokens in R^d, d ≥ 2,
it sees points with a last axis of d coordinates. It returns one value per pair.
"""


def _require_function(_: str, value: object) -> object:
    return require_callable("rho", value)


@dataclass(frozen=True, init=False)
class FunctionCoupling(Coupling):
    """ρ given by a function of two tokens, written for torch or for numpy.

    For tokens in R¹ the function sees plain numbers: two arrays that broadcast, u and v, and it
    returns one value per pair. For tokens in R^d, d ≥ 2, u and v have a last axis of d coordinates,
    which the function reduces. `pod` calls functions in the same way. A function written with a
    last axis of length 1 for tokens in R¹, such as (u * v).sum(-1), works as well. At its first
    call the function is called on a few tokens to find out which of these it is.

    Args:
        function: ρ(u, v), a function of torch tensors or numpy arrays, or a torch module.
        d: The dimension of one token.
        name: What ρ is called in texts.

    Examples:
        >>> import numpy as np, torch
        >>> rho = ar.FunctionCoupling(lambda u, v: np.minimum(u, v), name="min(u, v)")
        >>> rho.outer(torch.tensor([[0.2], [0.7]]), torch.tensor([[0.5], [0.9]]))
        tensor([[0.2000, 0.2000],
                [0.5000, 0.7000]])

    """

    function: CouplingFunction
    d: int
    name: str
    _call: Called | None = field(init=False, repr=False, compare=False)

    @checked
    def __init__(
        self,
        function: Annotated[CouplingFunction, by(_require_function)],
        d: Count = 1,
        name: str = "",
    ) -> None:
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "d", d)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "_call", None)

    def raw(self, u: torch.Tensor, v: torch.Tensor) -> object:
        """ρ(u, v) as the function gives it, before its shape and its values are checked.

        Args:
            u: Tokens of shape (..., d).
            v: Tokens of shape (..., d), whose other axes broadcast against those of u.

        """
        call = self._call
        if call is None:
            function: Any = self.function
            module = isinstance(function, torch.nn.Module)
            if module:
                function = _InOwnDtype(function)
            libraries: tuple[Library, ...] = ("torch",) if module else ("torch", "numpy")
            call, _ = find_call(function, _some(u), _some(v), "torch", libraries)
            object.__setattr__(self, "_call", call)
        return call.on_tensors(u, v)

    def scaled(self, beta: float) -> "FunctionCoupling":
        """The coupling beta ρ.

        Args:
            beta: A factor.

        """
        name = f"{beta:g} {self.name}"
        return FunctionCoupling(functools.partial(_product, beta, self), self.d, name)


def _product(beta: float, rho: Coupling, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return beta * rho(u, v)


def _some(tokens: torch.Tensor) -> Float64[np.ndarray, "few d"]:
    """The first of some tokens, to try a function on."""
    few = tokens.detach().reshape(-1, tokens.shape[-1])[:12]
    return np.asarray(few.cpu().double().numpy())


@dataclass(frozen=True)
class _InOwnDtype:
    """A torch module that gets its arguments in the dtype of its own parameters."""

    module: torch.nn.Module

    def __call__(self, u: torch.Tensor, v: torch.Tensor) -> object:
        dtypes = {p.dtype for p in self.module.parameters() if p.is_floating_point()}
        if len(dtypes) == 1:
            (own,) = dtypes
            u, v = u.to(own), v.to(own)
        return self.module(u, v)


def check_tokens(name: str, tokens: torch.Tensor, d: int) -> None:
    """Raise an InputError when `tokens` are no floats with a last axis of d coordinates."""
    require_floats(name, tokens)
    if tokens.ndim == 0 or tokens.shape[-1] != d:
        raise InputError(
            f"the last axis of {name} must have the {d} entries of one token",
            tuple(tokens.shape),
            f"Pass {name} with the shape (..., {d}).",
        )


def paired(u: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """u and v with axes added, so that they broadcast to every pair: (..., t, s, d)."""
    for name, tokens in (("u", u), ("v", v)):
        if require_floats(name, tokens).ndim < 2:
            raise InputError(f"{name} must be a sequence of tokens", tuple(tokens.shape))
    return u.unsqueeze(-2), v.unsqueeze(-3)


def _pairs_shape(u: torch.Tensor, v: torch.Tensor) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(u.shape[:-1], v.shape[:-1])
    except ValueError as error:
        raise InputError(
            "the axes of u and v before the last do not broadcast",
            (tuple(u.shape), tuple(v.shape)),
        ) from error


def checked_values(values: object, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """`values` broadcast to the pairs of u and v, or an InputError: wrong shape, or not finite."""
    shape = _pairs_shape(u, v)
    if isinstance(values, (int, float)):
        values = torch.tensor(float(values), dtype=u.dtype, device=u.device)
    if not isinstance(values, torch.Tensor):
        wanted = "rho must return real numbers, as a torch tensor or a numpy array"
        raise InputError(wanted, values, "Use functions of torch or of numpy in rho.")
    try:
        values = values.to(torch.promote_types(u.dtype, v.dtype)).expand(shape)
    except RuntimeError as error:
        raise InputError(
            f"rho came back with a shape that does not broadcast to the expected {shape}",
            tuple(values.shape),
            "rho must reduce the last axis of its arguments, e.g. with .sum(-1).",
        ) from error
    finite = values.isfinite()
    if not finite.all():
        at = tuple((~finite).nonzero()[0].tolist())
        where = ", ".join(
            f"{name} = {tokens.expand(*shape, -1)[at].tolist()}"
            for name, tokens in (("u", u), ("v", v))
        )
        raise InputError(f"rho is not finite at {where}, entry {at}", float(values[at]))
    return values
