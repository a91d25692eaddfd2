"""Eq. 5 with m_h = 1 represents every permutation-equivariant H on distinct tokens in d = 1.

Statement. Let H be continuous and permutation-equivariant on sequences of τ tokens in [a, b] that
are at least a margin apart. Then H is of the form of Eq. 5 with m_h = 1 and n = 2τ - 1.

Proof. 1. Take the coupling ρ(u, v) = u v, which has rank one, and f(x) = (x, x², ..., x^(2τ-1)).
2. The pooled vector at t is (m_1, ..., m_{2τ-1}), the moments of Σ_s p_s δ(x_s), with p_s > 0.
3. They determine the x_s and p_s (Prony): two such measures with equal moments differ by one on at
   most 2τ points that annihilates all polynomials of degree 2τ - 1, hence by 0 (Vandermonde).
4. log p_s - log p_s' = x(t) (x_s - x_s') then gives x(t), since tokens are distinct.
5. So pooled vectors determine the set of tokens and x(t), and H, being equivariant, H_t. The
   sequences form a compact set, so the inverse is continuous, and F extends it (Tietze).  QED

f contains x itself, the query and the key, so n = 2τ - 1 suffices (2τ + 1 where they are apart).
Hence the rank of a target's coupling is sufficient for a small m_h and not necessary: with F free
m_h = 1 is enough, with 2τ - 1 coordinates of f. The price is F, which has to undo the
mean; `steepness.py` measures it.

Tokens are scaled to z in [-1, 1], an affine change that conditions the powers. F is explicit: the
points and weights of the moments (`prony.py`), the token that asks, and H of the decoded tokens.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float, Int
from torch import nn

from attnrate.errors import InputError, require_callable, require_number, require_whole
from attnrate.models import Transformer
from attnrate.settings import Positive, by, checked
from attnrate.targets import seeds
from attnrate.theory.compile import ExactFunction
from attnrate.theory.prony import asking, powers, prony, refined

Tensor = torch.Tensor
#: A map of sequences of scalars, (batch, length, 1) -> (batch, length, out)
SequenceMap = Callable[[Tensor], Tensor]

#: The longest sequences: beyond, float64 has too few digits at any margin that leaves tokens free
MOST_TOKENS = 8
#: Half of the digits of float64: what decoded tokens must keep at the margin
HALF = math.sqrt(torch.finfo(torch.float64).eps)
_PLACES = 17


def _require_interval(name: str, value: object) -> tuple[float, float]:
    """`value` as an interval (a, b) with a < b, or an InputError."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise InputError(f"{name} must be a pair (a, b)", value)
    low, high = (require_number(f"{name}[{i}]", one) for i, one in enumerate(value))
    if not low < high:
        raise InputError(f"{name} must have a < b", value)
    return low, high


#: Where the tokens lie, (a, b) with a < b
Ends = Annotated[tuple[float, float], by(_require_interval)]
#: The number of tokens
Tokens = Annotated[int, by(require_whole, 2, MOST_TOKENS)]


@dataclass(frozen=True)
class Moments:
    """f(x) = (z, z², ..., z^count), z the token scaled to [-1, 1]: (..., 1) -> (..., count)."""

    interval: tuple[float, float]
    count: int

    def __call__(self, x: Float[Tensor, "*shape 1"]) -> Float[Tensor, "*shape count"]:
        """The powers of scaled tokens, in float64."""
        low, high = self.interval
        return powers((2 * x[..., 0].double() - low - high) / (high - low), self.count)


class Decoder(nn.Module):
    """The F of the construction: from the moments at t to H_t, without parameters.

    Args:
        H: The equivariant map.
        interval: Where the tokens lie.

    """

    def __init__(self, H: SequenceMap, interval: tuple[float, float]) -> None:
        super().__init__()
        self.H, self.interval = H, interval

    def tokens(
        self, u: Float[Tensor, "n moments"]
    ) -> tuple[Float[Tensor, "n length"], Int[Tensor, " n"]]:
        """The tokens of each sequence in increasing order, and which of them asks.

        Args:
            u: Moments of tokens scaled to [-1, 1], one row for each position of a sequence.

        """
        points, weights = prony(u.detach())
        at = asking(points, weights)
        low, high = self.interval
        return (low + high + (high - low) * refined(points, at, u.detach())) / 2, at

    def forward(self, u: Float[Tensor, "*shape moments"]) -> Float[Tensor, "*shape out"]:
        """H at the decoded tokens, its output at the token that asks."""
        x, at = self.tokens(u.reshape(-1, u.shape[-1]))
        values = evaluated(self.H, x[..., None])[torch.arange(len(at), device=at.device), at]
        return values.reshape(*u.shape[:-1], -1)


def evaluated(H: SequenceMap, x: Float[Tensor, "n length 1"]) -> Float[Tensor, "n length out"]:
    """H(x), or an InputError where it has another type or shape."""
    values: object = H(x)
    if not isinstance(values, Tensor) or values.ndim != 3 or values.shape[:2] != x.shape[:2]:
        raise InputError(
            f"H was given {tuple(x.shape)} and must return (batch, length, out)",
            tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__,
        )
    return values


def apart(
    count: int, length: int, margin: float, interval: tuple[float, float], seed: int
) -> Float[Tensor, "count length 1"]:
    """Sequences of tokens at least a margin apart, uniform among all of these, in random order."""
    generator = seeds.generator(seed)
    free = _free(length, margin, interval)
    drawn = torch.rand(count, length, generator=generator, dtype=torch.float64).sort(-1).values
    x = interval[0] + free * drawn + margin * torch.arange(length, dtype=torch.float64)
    order = torch.rand(count, length, generator=generator).argsort(-1)
    return x.gather(1, order)[..., None]


def clustered(
    count: int, length: int, margin: float, interval: tuple[float, float]
) -> Float[Tensor, "count length 1"]:
    """The tightest sequences: tokens exactly a margin apart, beginning at equispaced places."""
    free = _free(length, margin, interval)
    start = interval[0] + free * torch.linspace(0, 1, count, dtype=torch.float64)
    return (start[:, None] + margin * torch.arange(length, dtype=torch.float64))[..., None]


def _free(length: int, margin: float, interval: tuple[float, float]) -> float:
    """The length of the interval that the margins leave, or an InputError."""
    free = interval[1] - interval[0] - (length - 1) * margin
    if free <= 0:
        raise InputError(
            f"{length} tokens of {interval} cannot be that far apart: margin",
            margin,
            f"It must be below {(interval[1] - interval[0]) / (length - 1):.6g}.",
        )
    return free


@checked
def rank_one(
    H: Annotated[SequenceMap, by(require_callable)],
    length: Tokens,
    margin: Positive,
    interval: Ends = (0.0, 1.0),
) -> Transformer:
    """Write an equivariant map of scalar tokens into Eq. 5 with m_h = 1, exactly.

    The result has the rank-one coupling z(t) z(s), f = (z, z², ..., z^(2τ-1)) with z the token
    scaled to [-1, 1], and an F that decodes the moments. In float64 its error is that of rounding
    times the steepness of F, which grows like margin^-max(2, τ-1). It is refused where decoded
    tokens keep fewer than half of the digits, which is tried on the tightest sequences.

    Args:
        H: A function (batch, τ, 1) -> (batch, τ, out) of torch tensors with
            H(x∘p) = H(x)∘p for every permutation p of positions.
        length: The number of tokens τ, from 2 to 8.
        margin: The least distance of two tokens of a sequence. F is exact from there on, and gives
            something else for tokens that are much nearer.
        interval: Where the tokens lie, (a, b). Default: (0, 1).

    Returns:
        A Transformer in float64 with m_h = 1 and n = m_v = 2τ - 1. It is made to be evaluated;
        nothing is differentiated through F.

    Raises:
        InputError: If H is not equivariant, returns another shape, or if the margin is too large
            for the interval or too small for float64.

    Examples:
        >>> import torch
        >>> from attnrate.theory.rank_one import rank_one
        >>> def largest(x: torch.Tensor) -> torch.Tensor:
        ...     return x.amax(1, keepdim=True).expand(x.shape)
        >>> model = rank_one(largest, length=3, margin=0.1)
        >>> model(torch.tensor([[[0.2], [0.9], [0.5]]])).flatten().round(decimals=6)
        tensor([0.9000, 0.9000, 0.9000], dtype=torch.float64)

    """
    tightest = clustered(_PLACES, length, margin, interval)
    spread = apart(_PLACES, length, margin, interval, seed=0)
    out = _check_equivariant(H, torch.cat([tightest, spread]))
    n = 2 * length - 1
    # modules are created with random weights; every one of them is overwritten below
    with torch.random.fork_rng(devices=[]):
        model = Transformer(
            1,
            out,
            n=n,
            m_h=1,
            m_v=n,
            f_hat=ExactFunction(Moments(interval, n)),
            F_hat=Decoder(H, interval),
        ).double()
    unit = torch.eye(n, dtype=torch.float64)
    with torch.no_grad():
        model.W_Q.weight.copy_(unit[:1])
        model.W_K.weight.copy_(unit[:1])
        model.W_V.weight.copy_(unit)
    off = float(token_errors(model, tightest).amax()) / (interval[1] - interval[0])
    if not off <= HALF:
        raise InputError(
            f"float64 cannot tell {length} tokens apart by their moments at this margin",
            margin,
            f"Decoded tokens are off by {off:.1g} of the interval: use a larger margin or fewer "
            "tokens.",
        )
    return model


def token_errors(model: Transformer, x: Float[Tensor, "n length 1"]) -> Float[Tensor, " n"]:
    """The largest error of the decoded tokens and of the asking token, for every sequence.

    Args:
        model: A Transformer that `rank_one` made.
        x: Sequences.

    """
    assert isinstance(model.F_hat, Decoder)
    u = pooled(model, x)
    tokens, at = model.F_hat.tokens(u.detach().flatten(0, 1))
    wanted = x[..., 0].sort(-1).values.repeat_interleave(x.shape[1], 0)
    asks = tokens.gather(1, at[:, None]) - x.reshape(-1, 1)
    off = torch.cat([tokens - wanted, asks], dim=-1).abs().amax(-1)
    return off.view(len(x), -1).amax(-1)


def pooled(model: Transformer, x: Float[Tensor, "n length 1"]) -> Float[Tensor, "n length moments"]:
    """What F is given at every position: the moments of the tokens under the attention.

    Args:
        model: A Transformer that `rank_one` made.
        x: Sequences.

    """
    h = model.f_hat(x)
    return model.rule.mix(model.W_Q(h), model.W_K(h), model.W_V(h))


def _check_equivariant(H: SequenceMap, x: Float[Tensor, "n length 1"]) -> int:
    """The size of H's outputs; an InputError where reversed or rotated tokens change them."""
    with torch.no_grad():
        values = evaluated(H, x)
        for order in (torch.arange(x.shape[1]).flip(0), torch.arange(x.shape[1]).roll(1)):
            off = (evaluated(H, x[:, order]) - values[:, order]).abs().amax()
            if not off <= HALF * (1 + values.abs().amax()):
                raise InputError(
                    "H must be permutation-equivariant; in another order its outputs change by",
                    float(off),
                    "Without positions Eq. 5 represents nothing else (App. A.1).",
                )
    return values.shape[-1]
