"""The features by which the classes of the ladder are least squares: lags, ranks and products."""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Literal

import numpy as np
from jaxtyping import Float64, Int64
from numpy.polynomial.legendre import legvander

from attnrate.choose.samples import Samples

#: Kinds of features: a constant; the token now and those before it as they are; functions of the
#: token now; functions of single tokens, and their means over all tokens; products of a function of
#: the token now with such a mean, and of functions of two tokens
Group = Literal["one", "now", "past", "curved", "additive", "mean", "pooled", "pairwise"]

#: Features of each kind at most, so that the sums of a whole ladder fit into memory
MOST = {
    "linear": 1000,
    "curved": 400,
    "crosses": 300,
    "additive": 400,
    "pooled": 300,
    "products": 190,
    "places": 128,
}
#: Values of a coordinate from which its ranks are interpolated
_KNOTS = 4096


@dataclass(frozen=True, eq=False)
class Features:
    """Features of samples, in columns that belong to groups.

    u is the rank of a coordinate among all values of the data, from -1 to 1, and the Legendre
    polynomials P_j(u) with j = 1, 2, … are the functions of it: orthogonal where ranks are uniform,
    and quick to converge, where cosines would need many terms for a function with a slope at the
    ends. A sum over the tokens of a sample with equal weights counts
    as additive; a product of a function of the token now with such a sum is what attention whose
    coupling has low rank makes of the tokens, before its weights are divided by their sum.

    Args:
        samples: The samples.
        known: Sorted values of each coordinate, among which ranks are taken; by default those of
            the samples themselves.

    """

    samples: Samples
    known: tuple[Float64[np.ndarray, " values"], ...] | None = None

    @cached_property
    def lags(self) -> Int64[np.ndarray, " lags"]:
        """The lags of the linear features: all of them, or the first where there are too many."""
        most = max(1, MOST["linear"] // self.samples.d)
        return np.arange(min(self.samples.length, most))

    @cached_property
    def curved_lags(self) -> Int64[np.ndarray, " lags"]:
        """The lags at which single tokens go through functions; sparser further back."""
        return spread_lags(self.samples.length, MOST["additive"] // (self.samples.d * self._few))

    @cached_property
    def product_lags(self) -> Int64[np.ndarray, " lags"]:
        """The lags of the tokens that are multiplied by each other."""
        room = int((1 + math.sqrt(1 + 8 * MOST["products"])) / 2)
        return spread_lags(self.samples.length, max(1, room // self.samples.d))

    @property
    def _few(self) -> int:
        """The number of functions of a coordinate at another time: more where there is room."""
        room = MOST["additive"] // (self.samples.d * self.samples.length)
        return min(max(room, 4 if self.samples.d <= 2 else 3), self._many)

    @property
    def _many(self) -> int:
        """The number of functions of a coordinate of the token now."""
        room = max(1, MOST["curved"] // self.samples.d)
        return min(room, 8 if self.samples.d <= 2 else 5)

    @cached_property
    def pooled(self) -> tuple[int, int, int, int]:
        """How many functions pooled products have: of a coordinate, and products of coordinates.

        The first two numbers are those of the token now, the others those in means.
        """
        d, pairs = self.samples.d, len(self._pairs)
        for degree in range(5, 0, -1):
            if (d * degree + pairs) ** 2 <= MOST["pooled"]:
                return degree, pairs, degree, pairs
        if d * (d + pairs) <= MOST["pooled"]:
            return 1, 0, 1, pairs
        return (1, 0, 1, 0) if d * d <= MOST["pooled"] else (0, 0, 0, 0)

    @property
    def queries(self) -> int:
        """The number of functions of the token now in pooled products."""
        return self.samples.d * self.pooled[0] + self.pooled[1]

    @cached_property
    def values(self) -> tuple[Float64[np.ndarray, " values"], ...]:
        """Sorted values of each coordinate, among which ranks are taken."""
        return self.known or sorted_values(self.samples.x)

    @cached_property
    def tokens(self) -> Float64[np.ndarray, "rows d"]:
        """The tokens without the median of each coordinate.

        Zeros stand for what is before the beginning of a sequence, and so have to be usual values.
        """
        return np.asarray(self.samples.x - self.middle)

    @cached_property
    def middle(self) -> Float64[np.ndarray, " d"]:
        """The median of each coordinate."""
        return np.array([known[len(known) // 2] for known in self.values])

    @cached_property
    def functions(self) -> Float64[np.ndarray, "rows d many"]:
        """The functions P_j(u), j = 1, 2, …, of each coordinate of each row."""
        # no sample has a row with a missing value
        x = np.nan_to_num(self.samples.x)
        result = np.empty((*x.shape, self._many))
        for each, known in enumerate(self.values):
            # the middle rank, so that equal values have equal ranks
            below = np.searchsorted(known, x[:, each], "left")
            rank = (below + np.searchsorted(known, x[:, each], "right")) / len(known) - 1
            result[:, each] = legvander(rank, self._many)[:, 1:]
        return result

    @cached_property
    def crosses(self) -> Float64[np.ndarray, "rows pairs"]:
        """The products of the first functions of two coordinates of a row."""
        one, two = np.array(self._pairs, dtype=int).reshape(-1, 2).T
        return np.asarray(self.functions[:, one, 0] * self.functions[:, two, 0])

    @cached_property
    def _pairs(self) -> list[tuple[int, int]]:
        """The pairs of coordinates of one token that are multiplied; none if there are too many."""
        count = self.samples.d * (self.samples.d - 1) // 2
        return [*combinations(range(self.samples.d), 2)] if count <= MOST["crosses"] else []

    @property
    def paired(self) -> bool:
        """Whether there are products of functions of different tokens: not of many coordinates."""
        return len(self.columns("pooled", "pairwise")) > 0

    @cached_property
    def _sums(self) -> Float64[np.ndarray, "rows_and_one functions"]:
        """Sums of the functions and of the products over all rows before each row."""
        made = self.functions.reshape(len(self.functions), -1)
        every = np.concatenate([made, self.crosses], axis=1)
        return np.concatenate([np.zeros((1, every.shape[1])), every.cumsum(0)])

    @property
    def _places(self) -> int:
        """The number of positions that have a constant of their own, beside the common one."""
        samples = self.samples
        return samples.places - 1 if samples.places <= MOST["places"] else 0

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The group of each column."""
        return tuple(group for group, _, _ in self._columns)

    @cached_property
    def column_lags(self) -> Int64[np.ndarray, " columns"]:
        """The lag of each column; 0 for what has none."""
        return np.array([lag for _, lag, _ in self._columns])

    def columns(self, *groups: Group) -> Int64[np.ndarray, " some"]:
        """Give the numbers of the columns of some groups.

        Args:
            groups: The groups.

        """
        return np.flatnonzero(np.isin(self.groups, groups))

    @cached_property
    def _columns(self) -> list[tuple[Group, int, str]]:
        """The group, the lag and the name of each column, in the order in which `of` makes them."""
        names = self.samples.inputs
        found: list[tuple[Group, int, str]] = [("one", 0, "1")] * (1 + self._places)
        for lag in self.lags:
            found += [("past" if lag else "now", int(lag), name) for name in names]
        found += [("curved", 0, name) for name in names for _ in range(self._many)]
        found += [
            ("curved", 0, f"{one} × {two}")
            for one, two in ((names[one], names[two]) for one, two in self._pairs)
            for _ in range(self._crossed**2)
        ]
        for lag in self.curved_lags[1:]:
            found += [("additive", int(lag), name) for name in names for _ in range(self._few)]
        found += [("mean", 0, f"mean of {name}") for name in names for _ in range(self._few)]
        found += [("mean", 0, "mean of a product")] * self.crosses.shape[1]
        keys = self.samples.d * self.pooled[2] + self.pooled[3]
        found += [("pooled", 0, "pooled")] * (self.queries * keys)
        count = len(self.product_lags) * self.samples.d
        # products of coordinates of one token are among the curved ones
        where = np.repeat(self.product_lags, self.samples.d)
        found += [
            ("pairwise", int(where[two]), "product")
            for one, two in combinations(range(count), 2)
            if where[one] != where[two]
        ]
        return found

    @property
    def _crossed(self) -> int:
        """The number of functions of each of two coordinates of the token now in products."""
        return 3 if self.samples.d <= 4 else 1

    def of(self, which: Int64[np.ndarray, " some"]) -> Float64[np.ndarray, "points columns"]:
        """Compute the features of some samples.

        Args:
            which: The numbers of the samples.

        Returns:
            One row for each token that has an output, sample by sample.

        """
        made = self.functions
        now = self._at(made, which, np.zeros(1, dtype=int))[:, 0]
        count = len(now)
        crossed = self._crossed
        parts = [np.ones((count, 1))]
        # the last position has the common constant alone
        place = np.tile(np.arange(self.samples.places), len(which))
        parts.append((place[:, None] == np.arange(self._places)).astype(float))
        parts.append(self._at(self.tokens, which, self.lags).reshape(count, -1))
        parts.append(now.reshape(count, -1))
        parts += [
            (now[:, one, :crossed, None] * now[:, two, None, :crossed]).reshape(count, -1)
            for one, two in self._pairs
        ]
        before = self._at(made[:, :, : self._few], which, self.curved_lags[1:])
        means, mean_crosses = self._means(which)
        parts += [before.reshape(count, -1), means[:, :, : self._few].reshape(count, -1)]
        parts.append(mean_crosses)
        cross = self._at(self.crosses, which, np.zeros(1, dtype=int))[:, 0]
        degree, pairs, key_degree, key_pairs = self.pooled
        query = np.concatenate([now[:, :, :degree].reshape(count, -1), cross[:, :pairs]], axis=1)
        key = np.concatenate(
            [means[:, :, :key_degree].reshape(count, -1), mean_crosses[:, :key_pairs]], axis=1
        )
        parts.append((query[:, :, None] * key[:, None, :]).reshape(count, -1))
        far = self._at(made[:, :, 0], which, self.product_lags)
        where = np.repeat(self.product_lags, self.samples.d)
        one, two = np.triu_indices(len(where), 1)
        apart = where[one] != where[two]
        flat = far.reshape(count, -1)
        parts.append(flat[:, one[apart]] * flat[:, two[apart]])
        return np.concatenate(parts, axis=1)

    def _at(
        self,
        rows: Float64[np.ndarray, "rows ..."],
        which: Int64[np.ndarray, " some"],
        lags: Int64[np.ndarray, " lags"],
    ) -> Float64[np.ndarray, "points lags ..."]:
        """The rows that lie so far back; zeros before the beginning of a sequence."""
        samples = self.samples
        first = samples.starts[which]
        if not samples.whole:
            return np.asarray(rows[first[:, None] + samples.length - 1 - lags])
        place = np.arange(samples.length)[:, None] - lags
        found = rows[first[:, None, None] + np.maximum(place, 0)]
        found[:, place < 0] = 0.0
        return np.asarray(found.reshape(len(which) * samples.length, len(lags), *rows.shape[1:]))

    def _means(
        self, which: Int64[np.ndarray, " some"]
    ) -> tuple[Float64[np.ndarray, "points d many"], Float64[np.ndarray, "points pairs"]]:
        """The means of the functions, and of the products, over all tokens of a sample."""
        first = self.samples.starts[which]
        mean = (self._sums[first + self.samples.length] - self._sums[first]) / self.samples.length
        mean = np.repeat(mean, self.samples.places, axis=0)
        pairs = self.crosses.shape[1]
        made = mean[:, : mean.shape[1] - pairs].reshape(-1, self.samples.d, self._many)
        return made, mean[:, mean.shape[1] - pairs :]


def sorted_values(
    x: Float64[np.ndarray, "rows d"],
) -> tuple[Float64[np.ndarray, " values"], ...]:
    """Sort the values of each coordinate, evenly thinned out where there are many.

    Args:
        x: The tokens.

    """
    found = []
    for each in range(x.shape[1]):
        known = np.sort(x[np.isfinite(x[:, each]), each])
        if len(known) > _KNOTS:
            known = known[np.linspace(0, len(known) - 1, _KNOTS).round().astype(int)]
        found.append(known)
    return tuple(found)


def spread_lags(length: int, most: int) -> Int64[np.ndarray, " lags"]:
    """Choose lags below a length: all of them, or some that become sparser further back.

    Args:
        length: The number of lags there are.
        most: The number of lags that may be chosen, at least 1.

    Returns:
        The lags in order: 0, with room for two also 1, and with room for three also the last.

    Examples:
        >>> spread_lags(4, 9).tolist(), spread_lags(100, 6).tolist()
        ([0, 1, 2, 3], [0, 1, 3, 10, 31, 99])

    """
    most = max(1, most)
    if most >= length:
        return np.arange(length)
    if most <= 2:
        return np.arange(most)
    chosen = np.arange(0)
    for count in range(most - 1, length * length):
        spaced = np.geomspace(1, length - 1, count).round().astype(int)
        found = np.unique(np.append(spaced, 0))
        if len(found) > most:
            break
        chosen = found
        if len(found) == most:
            break
    # where one more would be too many, the nearest lags fill what is left
    others = np.setdiff1d(np.arange(length), chosen)
    return np.sort(np.concatenate([chosen, others[: most - len(chosen)]]))
