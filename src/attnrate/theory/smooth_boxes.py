"""Functions of two or three variables as piecewise Chebyshev expansions, and suprema from them.

The supremum over a box of a polynomial of degree n_i in each variable is at most the largest value
at a tensor grid of m_i > n_i Chebyshev points, divided by Π cos(n_i π / 2m_i): the estimate of
Ehlich & Zeller (1964), one variable after the other. It holds for v·D²g(x)v with any fixed vector
v, and so for the norm of the matrix D²g(x).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np
from jaxtyping import Bool, Float
from numpy.polynomial import chebyshev

from attnrate.errors import InputError
from attnrate.theory.panels import Array
from attnrate.theory.variables import Box, Function, values_at

#: The degree of the expansion in each variable, by dimension
DEGREE = {2: 32, 3: 16}
#: The most pieces of an expansion, by dimension: one million values, and 2.5 million
MOST_PIECES = {2: 1000, 3: 500}
#: Pieces are halved at most this often; a function that is not smooth then has a kink
DEPTH = 12
#: An expansion has converged when its last coefficients are below FINE of the largest value, or
#: below COARSE where halving helps no longer: the function itself carries noise
FINE, COARSE = 1e-12, 1e-8
#: Chebyshev points per degree, for suprema: they exceed the truth by at most 2 %, and by 11 %
_OVERSAMPLED = {2: 12, 3: 6}
_REMEDY = "Use a family that asks for no derivatives, such as 'hoelder', or a smaller domain."


@dataclass(frozen=True, eq=False)
class Pieces:
    """Boxes [low, high] that fill a box, and the Chebyshev coefficients of g on each.

    `noise` is the size below which coefficients are rounding errors and have been set to zero.
    """

    low: Float[Array, "pieces d"]
    high: Float[Array, "pieces d"]
    coefficients: Float[Array, "pieces ..."]
    noise: Float[Array, " pieces"]

    @property
    def d(self) -> int:
        """The number of variables."""
        return int(self.low.shape[1])

    def partial(self, orders: Sequence[int]) -> Float[Array, "pieces ..."]:
        """The coefficients of the partial derivative with these orders, in each variable."""
        found = self.coefficients
        for axis, order in enumerate(orders):
            if order:
                scale = (2.0 / (self.high - self.low)[:, axis]) ** order
                found = chebyshev.chebder(found, order, axis=axis + 1)
                found = found * scale.reshape(-1, *[1] * self.d)
        return np.asarray(found)


@lru_cache(maxsize=4)
def _nodes(d: int) -> tuple[Float[Array, "n d"], Float[Array, "probes d"]]:
    """The tensor grid of Chebyshev points on [-1, 1]^d, and scattered points to test at."""
    axis = chebyshev.chebpts1(DEGREE[d] + 1)
    grid = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)
    return grid, np.random.default_rng(29).uniform(-1, 1, size=(12 * d, d))


def _contracted(coefficients: Float[Array, "..."], bases: Sequence[Array]) -> Float[Array, "..."]:
    """The matrices applied to the axes of the coefficients, one after the other."""
    found = coefficients
    for axis, basis in enumerate(bases):
        found = np.moveaxis(np.tensordot(basis, found, axes=(1, axis)), 0, axis)
    return np.asarray(found)


def _at(coefficients: Float[Array, "..."], local: Float[Array, "n d"]) -> Float[Array, " n"]:
    """A tensor Chebyshev series at scattered points of [-1, 1]^d."""
    found = np.broadcast_to(coefficients, (len(local), *coefficients.shape))
    for axis in reversed(range(local.shape[1])):
        basis = chebyshev.chebvander(local[:, axis], found.shape[-1] - 1)
        found = np.einsum("n...k,nk->n...", found, basis)
    return np.asarray(found)


def expand_box(g: Function, sides: Box) -> Pieces:
    """Expand g on pieces of a box; pieces are halved, in the variables that need it, until all fit.

    Each piece is also tested at scattered points. An InputError names the place where halving does
    not end: a kink, a jump or a singularity of g, or features too fine for the number of pieces.
    """
    d = len(sides)
    nodes, probes = _nodes(d)
    inverse = np.linalg.inv(chebyshev.chebvander(chebyshev.chebpts1(DEGREE[d] + 1), DEGREE[d]))
    low, high = (np.array([[float(side[end]) for side in sides]]) for end in (0, 1))
    parent = np.full(1, np.inf)
    done: list[tuple[Array, Array, Array]] = []
    scale, depth = 0.0, 0
    while len(low):
        local = np.concatenate([nodes, probes])
        points = (low + high)[:, None] / 2 + (high - low)[:, None] / 2 * local
        values = values_at(g, points.reshape(-1, d)).reshape(len(low), -1)
        scale = max(scale, float(np.max(np.abs(values))))
        tails, split, fitted = [], [], []
        for row in values:
            on_grid = row[: len(nodes)].reshape([DEGREE[d] + 1] * d)
            c = _contracted(on_grid, [inverse] * d)
            ends = [float(np.max(np.abs(np.moveaxis(c, i, 0)[-2:]))) for i in range(d)]
            misfit = float(np.max(np.abs(_at(c, probes) - row[len(nodes) :])))
            tails.append(max(*ends, misfit))
            # where only the test points tell, every variable is halved
            rough = [end > FINE * scale for end in ends]
            split.append(rough if any(rough) else [True] * d)
            fitted.append(c)
        tail = np.array(tails)
        noisy = (depth >= 2) & (tail <= COARSE * scale) & (tail > 0.25 * parent)
        good = (tail <= FINE * scale) | noisy
        done += [(low[i], high[i], fitted[i]) for i in np.flatnonzero(good)]
        worst = int(np.argmax(np.where(good, 0.0, tail)))
        middle = ((low + high) / 2)[worst]
        low, high, parent = _halved(low[~good], high[~good], tail[~good], np.array(split)[~good])
        depth += 1
        if len(done) + len(low) > MOST_PIECES[d] or (len(low) and depth > DEPTH):
            raise InputError(
                f"g is not smooth near u = {_shown(middle)}, or too fine for "
                f"{MOST_PIECES[d]} polynomials of degree {DEGREE[d]}",
                middle.tolist(),
                _REMEDY,
            )
    coefficients = np.stack([c for _, _, c in done])
    last = [np.abs(np.moveaxis(coefficients, i + 1, 1)[:, -2:]) for i in range(d)]
    ends_of = [each.reshape(len(done), -1).max(axis=1) for each in last]
    noise = np.maximum(2.0 * np.max(ends_of, axis=0), 1e-15 * scale)
    kept = np.where(np.abs(coefficients) > noise.reshape(-1, *[1] * d), coefficients, 0.0)
    return Pieces(
        np.stack([at for at, _, _ in done]), np.stack([at for _, at, _ in done]), kept, noise
    )


def _halved(
    low: Float[Array, "n d"],
    high: Float[Array, "n d"],
    tail: Float[Array, " n"],
    split: Bool[Array, "n d"],
) -> tuple[Float[Array, "more d"], Float[Array, "more d"], Float[Array, " more"]]:
    """Every piece in halves along the variables that are chosen for it."""
    for axis in range(low.shape[1]):
        cut = split[:, axis]
        middle = (low + high)[:, axis] / 2
        left, right = high.copy(), low.copy()
        left[cut, axis] = middle[cut]
        right[cut, axis] = middle[cut]
        low, high = np.concatenate([low, right[cut]]), np.concatenate([left, high[cut]])
        tail, split = np.concatenate([tail, tail[cut]]), np.concatenate([split, split[cut]])
    return low, high, tail


def sup_hessian(g: Function, sides: Box) -> float:
    """An upper estimate of sup |S D²g S| on a box, S its side lengths; |·| the spectral norm.

    g and its first derivatives must be continuous where pieces meet, or D²g does not exist: an
    InputError says where.
    """
    pieces, d = expand_box(g, sides), len(sides)
    _require_smooth(pieces, 2)
    S = np.array([b - a for a, b in sides])
    pairs = list(combinations_with_replacement(range(d), 2))
    partials = [
        S[i] * S[j] * pieces.partial([(k == i) + (k == j) for k in range(d)]) for i, j in pairs
    ]
    # coefficients bound each entry, and the entries the norm: pieces that are small are left out
    entries = np.stack([np.abs(each).reshape(len(each), -1).sum(axis=1) for each in partials])
    counts = np.array([1.0 if i == j else 2.0 for i, j in pairs])
    at_most = np.sqrt(counts @ entries**2)
    most = 0.0
    for row in np.argsort(-at_most):
        if at_most[row] <= most:
            break
        values, factor = _sampled([each[row] for each in partials])
        most = max(most, factor * float(np.max(_spectral_norm(values, d))))
    return most


def sup_partials(g: Function, order: int, sides: Box) -> Float[Array, "d orders"]:
    """Upper estimates of sup |∂_i^r g| L_i^r for every variable i and r = 1, …, order.

    L_i are the side lengths of the box. All derivatives below the order must be continuous.
    """
    pieces, d = expand_box(g, sides), len(sides)
    _require_smooth(pieces, order)
    found = np.zeros((d, order))
    for i, (a, b) in enumerate(sides):
        for r in range(1, order + 1):
            of_all = pieces.partial([r * (k == i) for k in range(d)]) * (b - a) ** r
            for coefficients in of_all:
                (values,), factor = _sampled([coefficients])
                found[i, r - 1] = max(found[i, r - 1], factor * float(np.max(np.abs(values))))
    return found


def _sampled(series: Sequence[Float[Array, "..."]]) -> tuple[list[Array], float]:
    """Series on a grid of Chebyshev points, and the factor by which suprema may be larger."""
    d = series[0].ndim
    degrees = []
    for axis in range(d):
        used = [np.flatnonzero(np.abs(np.moveaxis(c, axis, 0)).reshape(c.shape[axis], -1).max(1))
                for c in series]  # fmt: skip
        degrees.append(max((int(each[-1]) for each in used if len(each)), default=0))
    counts = [max(1, _OVERSAMPLED[d] * n) for n in degrees]
    places = [chebyshev.chebpts1(m) for m in counts]
    values = []
    for c in series:
        bases = [chebyshev.chebvander(at, n - 1) for at, n in zip(places, c.shape, strict=True)]
        values.append(_contracted(c, bases))
    cosines = [np.cos(n * np.pi / (2 * m)) for n, m in zip(degrees, counts, strict=True)]
    return values, float(1.0 / np.prod(cosines))


def _spectral_norm(entries: Sequence[Float[Array, "..."]], d: int) -> Float[Array, "..."]:
    """The spectral norms of symmetric matrices, given by their upper triangles, row by row."""
    if d == 2:
        a, b, c = entries
        return np.asarray(np.abs(a + c) / 2 + np.hypot((a - c) / 2, b))
    a, b, c, e, f, i = entries
    # the eigenvalues of a symmetric 3 × 3 matrix in closed form (Smith, 1961)
    q = (a + e + i) / 3
    A, E, I = a - q, e - q, i - q  # noqa: E741 - the diagonal of the matrix minus q
    p = np.sqrt((A**2 + E**2 + I**2 + 2 * (b**2 + c**2 + f**2)) / 6)
    det = A * (E * I - f * f) - b * (b * I - f * c) + c * (b * f - E * c)
    ratio = np.divide(det / 2, p**3, out=np.zeros_like(det), where=p > 0)
    angle = np.arccos(np.clip(ratio, -1, 1)) / 3
    ends = q + 2 * p * np.cos(angle), q + 2 * p * np.cos(angle + 2 * np.pi / 3)
    return np.asarray(np.maximum(np.abs(ends[0]), np.abs(ends[1])))


def _require_smooth(pieces: Pieces, order: int) -> None:
    """Raise an InputError where a derivative below the order jumps between two pieces."""
    if len(pieces.low) == 1:
        return
    for axis in range(pieces.d):
        for r in range(order):
            # across a face all other derivatives follow from those along the axis
            c = pieces.partial([r * (k == axis) for k in range(pieces.d)])
            size = float(np.max(np.abs(c).reshape(len(c), -1).sum(axis=1)))
            widths = (pieces.high - pieces.low)[:, axis]
            spoilt = pieces.noise * (DEGREE[pieces.d] ** 2 * 2.0 / widths) ** r
            for i in range(len(c)):
                _require_meeting(pieces, c, i, axis, r, 1e-6 * size + spoilt)


def _require_meeting(
    pieces: Pieces, c: Float[Array, "..."], i: int, axis: int, r: int, slack: Float[Array, " n"]
) -> None:
    """Compare the series c of piece i on its upper face with those of the pieces beyond it."""
    low, high, d = pieces.low, pieces.high, pieces.d
    unit = _nodes(d)[1]
    face = low[i] + (high[i] - low[i]) * (unit + 1) / 2
    face[:, axis] = high[i, axis]
    for at in face[:6]:
        inside = np.all((low <= at) & (at < high), axis=1)
        if not inside.any():  # the face is the edge of the box
            return
        j = int(np.argmax(inside))
        one, other = (_at(c[k], _local(pieces, k, at))[0] for k in (i, j))
        if abs(one - other) > slack[i] + slack[j]:
            name = "g" if r == 0 else f"derivative {r} of g along coordinate {axis}"
            raise InputError(
                f"{name} jumps at u = {_shown(at)}, so the derivative after it does not exist",
                abs(float(one - other)),
                _REMEDY,
            )


def _local(pieces: Pieces, k: int, at: Float[Array, " d"]) -> Float[Array, "1 d"]:
    low, high = pieces.low[k], pieces.high[k]
    return np.asarray(((2 * at - low - high) / (high - low))[None])


def _shown(point: Float[Array, " d"]) -> str:
    return f"({', '.join(f'{float(each):.6g}' for each in point)})"
