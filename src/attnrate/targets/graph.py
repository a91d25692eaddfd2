"""Graph targets of App. B.1 in the form of Eq. 8: nearest point, centre of gravity, selection.

The exact parts F, f and ρ of each are known, so a trained model can be compared with them. A pair
of tokens that must not attend gets a finite penalty, because ρ has to be finite: 60 per unit, and
e^-60 < 1e-26 vanishes beside the weights that count. The target `gravity` is not in the paper: it
is a task of the same kind whose coupling has no finite rank.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64

from attnrate.errors import InputError, require_whole
from attnrate.settings import Count, Natural, Positive, Switch, checked
from attnrate.targets.couplings import Coupling, FactoredCoupling, FunctionCoupling
from attnrate.targets.form import TARGETS, AttentionTarget, identity
from attnrate.targets.inputs import InputLaw, UniformInputs, float64, unit

PENALTY = 60.0
LIGHTEST = 0.1  # masses are uniform on [LIGHTEST, 1]: their logarithms stay moderate

#: The paper's index vectors, Eq. 66: token t averages the values at EQ66_INDICES[t].
EQ66_INDICES = (
    (4, 5, 5),
    (4, 4, 4),
    (1, 1, 7),
    (5, 5, 5),
    (0, 3, 7),
    (0, 6, 7),
    (2, 2, 2),
    (2, 3, 4),
)


@TARGETS.add("nearest_point")
@checked
def nearest_point(points: Count = 6, dim: Count = 2, squared: Switch = False) -> AttentionTarget:
    """Make the target of Eq. 54-55: y(t) is the v(s) nearest to u(t), where x(t) = (u(t), v(t)).

    Hard-max with F = id, f(x) = v and ρ = -|u(t) - v(s)|. The paper writes |u - v| below Eq. 55,
    which would give the farthest point. With squared=True ρ = 2 u·v - |v|², which is -|u - v|² but
    for a function of u that hard-max cannot see, and has rank dim + 1.

    Args:
        points: The number of tokens, each with a point u and a point v. Default: 6.
        dim: The dimension of the points; a token has 2 dim coordinates. Default: 2.
        squared: Whether ρ is the squared distance, of finite rank. Default: it is not.

    Returns:
        The target, with tokens uniform on [0, 1]^(2 dim).

    Examples:
        >>> target = ar.nearest_point(points=4)
        >>> target(target.sample(3, seed=0)).shape
        torch.Size([3, 4, 2])

    """

    def u(x: torch.Tensor) -> torch.Tensor:
        return x[..., :dim]

    def v(x: torch.Tensor) -> torch.Tensor:
        return x[..., dim:]

    def left(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([2 * u(x), -torch.ones_like(x[..., :1])], -1)

    def right(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([v(x), v(x).square().sum(-1, keepdim=True)], -1)

    def distance(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        apart: torch.Tensor = torch.linalg.vector_norm(u(x) - v(y), dim=-1)
        return -apart

    rho: Coupling = (
        FactoredCoupling(left, right, dim + 1, 2 * dim, "2 u·v - |v|²")
        if squared
        else FunctionCoupling(distance, 2 * dim, "-|u - v|")
    )
    law = UniformInputs((0.0,) * (2 * dim), (1.0,) * (2 * dim))
    return AttentionTarget(identity, v, rho, points, law, "hardmax", "nearest point")


@TARGETS.add("centre_of_gravity")
@checked
def centre_of_gravity(
    length: Count = 10, dim: Count = 2, min_segment: Count = 2
) -> AttentionTarget:
    """Make the target of Eq. 57-62: the norm of each segment's centre of gravity and of each point.

    A sequence is cut into segments; each opens with a prediction token, then come its points with
    their masses, at least `min_segment` of them. With two segments, Eq. 60-61:

        x   pred   x1,m1  x2,m2  x3,m3   pred   x4,m4  x5,m5
            |------- segment 0 -------|  |--- segment 1 ----|
        y   |x̄|    |x1|   |x2|   |x3|    |x̄'|   |x4|   |x5|     x̄ = Σ m_s x_s / Σ m_s

    What the paper leaves out: ρ sees two tokens and nothing else, so (x, m) alone cannot tell
    which segment a point is in, nor which token is itself. Here a token carries all that ρ needs,
    (point, mass, segment, position, is prediction): dim + 4 numbers.

    Softmax with f(x) = point, F = the Euclidean norm. A prediction token attends to the points of
    its own segment with ρ = log m(s), any other token to itself; with the flag p, segment g and
    position i, and L the penalty,

        ρ = p(t) [log m(s) - L p(s) - L (g(t) - g(s))²] - (1 - p(t)) L (i(t) - i(s))²,

    which has rank 4 without the terms in t alone, which softmax cannot see.

    Args:
        length: The number of tokens, at least min_segment + 1. Default: 10.
        dim: The dimension of the points. Default: 2.
        min_segment: The least number of points in a segment. Default: 2.

    Returns:
        The target, with random segmentations, points uniform on [0, 1]^dim and masses uniform on
        [0.1, 1].

    Examples:
        >>> target = ar.centre_of_gravity(length=7)
        >>> target.d, target.out
        (6, 1)

    """
    law = SegmentInputs(require_whole("length", length, min_segment + 1), dim, min_segment)
    dim, mass, segment, position, prediction = law.columns
    # Centred indices keep the squares small, and with them the rounding in float32.
    mid_segment, mid_position = (law.most_segments - 1) / 2, (law.length - 1) / 2

    def left(x: torch.Tensor) -> torch.Tensor:
        p = x[..., prediction]
        g, i = x[..., segment] - mid_segment, x[..., position] - mid_position
        return torch.stack([p, p * g, 1 - p, (1 - p) * i], -1)

    def right(x: torch.Tensor) -> torch.Tensor:
        p = x[..., prediction]
        g, i = x[..., segment] - mid_segment, x[..., position] - mid_position
        of_segment = x[..., mass].log() - PENALTY * (p + g.square())
        return torch.stack(
            [of_segment, 2 * PENALTY * g, -PENALTY * i.square(), 2 * PENALTY * i], -1
        )

    def point(x: torch.Tensor) -> torch.Tensor:
        return x[..., :dim]

    def norm(x: torch.Tensor) -> torch.Tensor:
        size: torch.Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return size

    rho = FactoredCoupling(left, right, 4, law.d, "log mass within the segment")
    return AttentionTarget(norm, point, rho, law.length, law, name="centre of gravity")


@TARGETS.add("selection")
@checked
def selection(length: Count = 8, dim: Count = 2, k: Count = 3) -> AttentionTarget:
    """Make the target of Eq. 63 (qSA): y(t) = (1/k) Σ_{s in s(t)} v(s), with k indices s(t).

    The indices may repeat. A token is (v, the k indices from 0, its own position): dim + k + 1
    numbers. F = id, f(x) = v.
    Eq. 64 calls the frequencies {0, 1/k, ..., 1} ρ; they are attention weights, and
    ρ = log(count of s in s(t)) gives them under softmax, a penalty standing for log 0. It is the
    product of the counts' logarithms with the one-hot position, of rank `length`.

    Args:
        length: The number of tokens. Default: 8.
        dim: The dimension of the values v. Default: 2.
        k: The number of indices of each token. Default: 3.

    Returns:
        The target, with values uniform on [0, 1]^dim and indices uniform on the positions.

    Examples:
        >>> target = ar.selection()
        >>> target.d, target.out
        (6, 2)

    """
    law, stop = SelectionInputs(length, dim, k), dim + k

    def left(x: torch.Tensor) -> torch.Tensor:
        counts = (_one_hot(x[..., dim:stop], law.length)).sum(-2)
        if (counts.sum(-1) != law.k).any():
            raise InputError(
                f"the indices of a selection must be whole numbers from 0 to {law.length - 1}",
                x[..., dim:stop][counts.sum(-1) != law.k][0].tolist(),
            )
        return torch.where(counts > 0, counts.clamp(min=1).log(), -PENALTY)

    def right(x: torch.Tensor) -> torch.Tensor:
        return _one_hot(x[..., stop], law.length)

    def value(x: torch.Tensor) -> torch.Tensor:
        return x[..., :dim]

    rho = FactoredCoupling(left, right, law.length, law.d, "log count")
    return AttentionTarget(identity, value, rho, law.length, law, name="selection")


@checked
def selection_example(seed: Natural = 0) -> Float64[torch.Tensor, "1 8 6"]:
    """Draw an input of `selection()` that has the indices of Eq. 66.

    Args:
        seed: Where the random numbers of the values start. Default: 0.

    Returns:
        One sequence, of shape (1, 8, 6).

    Examples:
        >>> ar.selection_example()[0, 0, 2:5]
        tensor([4., 5., 5.], dtype=torch.float64)

    """
    x = selection().sample(1, seed)
    x[:, :, 2:5] = float64(EQ66_INDICES)
    return x


@TARGETS.add("gravity")
@checked
def gravity(bodies: Count = 8, dim: Count = 2, softening: Positive = 0.3) -> AttentionTarget:
    """Make a target that is not in the paper: the centre of the pull of all bodies on body t.

    A token is (position in [0, 1]^dim, mass). Softmax with ρ = log m(s) - log(|x(t) - x(s)|² + ε²)
    weighs body s by its softened attraction m(s) / (|x(t) - x(s)|² + ε²), body t itself included;
    F = id, f = position.

    Args:
        bodies: The number of tokens. Default: 8.
        dim: The dimension of the positions. Default: 2.
        softening: ε, above 0, in units of the box. Default: 0.3.

    Returns:
        The target, with positions uniform on [0, 1]^dim and masses uniform on [0.1, 1].

    Examples:
        >>> target = ar.gravity(bodies=3)
        >>> target(target.sample(1, seed=0)).shape
        torch.Size([1, 3, 2])

    """

    def position(x: torch.Tensor) -> torch.Tensor:
        return x[..., :dim]

    def pull(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        squares = (position(x) - position(y)).square().sum(-1)
        return y[..., dim].log() - (squares + softening**2).log()

    rho = FunctionCoupling(pull, dim + 1, "log of the pull")
    law = UniformInputs((0.0,) * dim + (LIGHTEST,), (1.0,) * (dim + 1))
    return AttentionTarget(identity, position, rho, bodies, law, name="gravity")


@dataclass(frozen=True)
class SegmentInputs(InputLaw):
    """Random segmentations for `centre_of_gravity`.

    The number of segments is uniform, every segment gets its prediction token and `min_segment`
    points, and each token left over joins a segment at random. A prediction token has the point 0
    and the mass 1, which nothing depends on.
    """

    length: int
    dim: int
    min_segment: int

    @property
    def columns(self) -> tuple[int, int, int, int, int]:
        """Where the point ends, then the columns of mass, segment, position and prediction."""
        return self.dim, self.dim, self.dim + 1, self.dim + 2, self.dim + 3

    @property
    def most_segments(self) -> int:
        """The largest number of segments that a sequence has room for."""
        return self.length // (self.min_segment + 1)

    @property
    def low(self) -> tuple[float, ...]:
        """The lower corner of the box."""
        return (0.0,) * self.dim + (LIGHTEST, 0.0, 0.0, 0.0)

    @property
    def high(self) -> tuple[float, ...]:
        """The upper corner of the box."""
        return (1.0,) * self.dim + (1.0, self.most_segments - 1.0, self.length - 1.0, 1.0)

    def draw(
        self, n: int, length: int, generator: torch.Generator
    ) -> Float64[torch.Tensor, "n length d"]:
        """Draw `n` independent sequences in float64."""
        _require_length(self.length, length)
        starts = self._starts(n, generator)
        position = torch.arange(length)
        segment = (starts[:, None, :] <= position[:, None]).sum(-1) - 1
        prediction = (starts[:, None, :] == position[:, None]).any(-1)
        x = torch.zeros(n, length, self.d, dtype=torch.float64)
        x[..., : self.dim] = unit(generator, n, length, self.dim)
        x[..., self.dim] = LIGHTEST + (1 - LIGHTEST) * unit(generator, n, length)
        x[..., : self.dim][prediction] = 0.0
        x[..., self.dim][prediction] = 1.0
        x[..., self.dim + 1] = segment.double()
        x[..., self.dim + 2] = position.double()
        x[..., self.dim + 3] = prediction.double()
        return x

    def _starts(self, n: int, generator: torch.Generator) -> torch.Tensor:
        """The start of each segment, (n, most_segments); segments that do not exist start last."""
        most, least = self.most_segments, self.min_segment + 1
        count = torch.randint(1, most + 1, (n, 1), generator=generator)
        owner = (unit(generator, n, self.length) * count).long()
        left_over = torch.arange(self.length) < self.length - count * least
        sizes = least * (torch.arange(most) < count).long()
        sizes = sizes.scatter_add(1, owner, left_over.long())
        return sizes.cumsum(1) - sizes


@dataclass(frozen=True)
class SelectionInputs(InputLaw):
    """Values uniform on [0, 1]^dim, k indices uniform on the positions, and the own position."""

    length: int
    dim: int
    k: int

    @property
    def low(self) -> tuple[float, ...]:
        """The lower corner of the box."""
        return (0.0,) * (self.dim + self.k + 1)

    @property
    def high(self) -> tuple[float, ...]:
        """The upper corner of the box."""
        return (1.0,) * self.dim + (self.length - 1.0,) * (self.k + 1)

    def draw(
        self, n: int, length: int, generator: torch.Generator
    ) -> Float64[torch.Tensor, "n length d"]:
        """Draw `n` independent sequences in float64."""
        _require_length(self.length, length)
        values = unit(generator, n, length, self.dim)
        indices = torch.randint(0, length, (n, length, self.k), generator=generator).double()
        position = torch.arange(length, dtype=torch.float64).expand(n, length)[..., None]
        return torch.cat([values, indices, position], -1)


def _one_hot(index: Float[torch.Tensor, "*n"], size: int) -> Float[torch.Tensor, "*n size"]:
    positions = torch.arange(size, dtype=index.dtype, device=index.device)
    return (index[..., None] == positions).to(index.dtype)


def _require_length(expected: int, length: int) -> None:
    if length != expected:
        raise InputError(f"this law makes sequences of length {expected} only", length)
