"""How hard a function is for feed-forward networks: C_FF^(beta) of Eq. 13.

Eq. 13 leaves open which networks and which theorem. Each family here is one theorem of the
literature, with its exponent beta, its norm and its constant.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import factorial, log, pi
from typing import Annotated, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from jaxtyping import Float
from scipy import optimize

from attnrate.errors import InputError, require_callable, require_number, require_whole
from attnrate.settings import Count, by, checked
from attnrate.theory.fourier import fourier_moment
from attnrate.theory.panels import Array
from attnrate.theory.smooth import checked_interval, evaluate, sup_derivative, sup_derivatives

__all__ = [
    "FAMILIES",
    "Barron",
    "FamilyLike",
    "FeedForwardFamily",
    "Hoelder",
    "Interpolant",
    "KlusowskiBarron",
    "Sobolev",
    "fourier_moment",
    "hoelder_constant",
    "require_family",
]


def _require_interval(name: str, value: object) -> tuple[float, float]:
    """`value` as an interval (a, b) with a < b, or an InputError."""
    return checked_interval(value)


#: The norm of an error on an interval: the root mean square, or the largest absolute value
FunctionNorm = Literal["L2", "sup"]
#: A function of one variable, written with numpy: it takes an array and gives one value per entry
OneVariable = Annotated[Callable[[Array], npt.ArrayLike], by(require_callable)]
#: A Hölder exponent
HoelderExponent = Annotated[float, by(require_number, 0.0, 1.0)]
#: An interval (a, b) with a < b
Interval = Annotated[tuple[float, float], by(_require_interval)]


@runtime_checkable
class FeedForwardFamily(Protocol):
    """A family of networks with its theorem: what `complexity` and `jackson_bound` take.

    Eq. 13: networks with budget m_ff reach a function g to within complexity(g) / m_ff^beta. Any
    object with these members is a family, so that a theorem of one's own can be used.

    Attributes:
        name: The word for the family in results.
        beta: The exponent of Eq. 13.
        norm: The norm of the error: "sup", or "L2" for the root mean square over the interval.
        statement: The theorem in one sentence, with its source.
        certified: Whether the number is an upper bound as it stands; False where it holds up to
            an unknown constant, or where a part of it is measured.

    Examples:
        >>> family: ar.FeedForwardFamily = ar.Sobolev(order=3)
        >>> family.beta, family.certified
        (3.0, True)

    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def beta(self) -> float: ...  # noqa: D102
    @property
    def norm(self) -> FunctionNorm: ...  # noqa: D102
    @property
    def statement(self) -> str: ...  # noqa: D102
    @property
    def certified(self) -> bool: ...  # noqa: D102

    def complexity(self, g: OneVariable, interval: Interval = (0.0, 1.0)) -> float:
        """C_FF^(beta)(g) of a function of one variable.

        Args:
            g: A function that takes an array of numbers and gives one value for each.
            interval: Where g is approximated, (a, b).

        """
        ...

    def rate(self, g: OneVariable, m_ff: Count, interval: Interval = (0.0, 1.0)) -> float:
        """complexity(g) / m_ff^beta, the right-hand side of Eq. 13.

        Args:
            g: A function that takes an array of numbers and gives one value for each.
            m_ff: The budget of the networks, 1 or more.
            interval: Where g is approximated, (a, b).

        """
        return self.complexity(g, interval) / float(m_ff**self.beta)


class _Family(FeedForwardFamily):
    """The base of the families here: `complexity` checks its arguments, `_measured` computes."""

    @checked
    def complexity(self, g: OneVariable, interval: Interval = (0.0, 1.0)) -> float:
        """C_FF^(beta)(g) of a function of one variable.

        Args:
            g: A function that takes an array of numbers and gives one value for each.
            interval: Where g is approximated, (a, b).

        Returns:
            The complexity. An InputError says where g is not smooth enough for the theorem.

        """
        return self._measured(g, *interval)

    @checked
    def rate(self, g: OneVariable, m_ff: Count, interval: Interval = (0.0, 1.0)) -> float:
        """complexity(g) / m_ff^beta, the right-hand side of Eq. 13.

        Args:
            g: A function that takes an array of numbers and gives one value for each.
            m_ff: The budget of the networks, 1 or more.
            interval: Where g is approximated, (a, b).

        Returns:
            A bound on the error in the family's norm.

        """
        return self._loss(m_ff) * self._measured(g, *interval) / float(m_ff**self.beta)

    def _measured(self, g: OneVariable, a: float, b: float) -> float:
        """C_FF^(beta)(g) on (a, b), both checked."""
        raise NotImplementedError

    def _loss(self, m_ff: int) -> float:
        """A factor of the error that grows more slowly than any power of m_ff."""
        return 1.0


@dataclass(frozen=True)
class Interpolant(_Family):
    """Piecewise-linear interpolation at m_ff + 1 equispaced nodes: a ReLU network in closed form.

    sup |g - g^| <= (b-a)^2 / 8 * sup|g''| / m_ff^2. The supremum is a certified upper estimate, at
    most half a per cent above the truth, so the bound holds for the networks that `compile_target`
    makes. It needs a continuous g': at a kink g'' does not exist, and an InputError says where.

    Examples:
        >>> round(ar.Interpolant().complexity(lambda u: u**2), 2)  # sup|g''| / 8, with g'' = 2
        0.25

    """

    name = "interpolant"
    beta = 2.0
    norm = "sup"
    certified = True
    statement = (
        "The piecewise-linear interpolant of g at m+1 equispaced nodes, a ReLU network with m "
        "units, is within (b-a)^2 sup|g''| / (8 m^2) of g (de Boor, A Practical Guide to Splines, "
        "ch. III)."
    )

    def _measured(self, g: OneVariable, a: float, b: float) -> float:
        """(b-a)^2 / 8 * sup|g''|."""
        return (b - a) ** 2 / 8.0 * sup_derivative(g, 2, (a, b))


@dataclass(frozen=True)
class Barron(_Family):
    """One hidden layer of m_ff sigmoidal units: |g - g^| <= 2 r C_g / sqrt(m_ff) in L2.

    r is half the interval's length and C_g the first Fourier moment, bounded from above by
    `fourier_moment`. L2 is taken with respect to the uniform probability measure on the interval.

    Examples:
        >>> import numpy as np
        >>> wave = lambda u: np.sin(2 * np.pi * u)
        >>> ar.Barron().rate(wave, 400) / ar.Barron().rate(wave, 100)
        0.5

    """

    name = "barron"
    beta = 0.5
    norm = "L2"
    certified = True
    statement = (
        "m sigmoidal units reach g on a ball of radius r to within 2 r C_g / sqrt(m) in L2, C_g "
        "the integral of |omega| |g^(omega)| (Barron 1993, IEEE Trans. Inf. Theory 39, Theorem 1)."
    )

    def _measured(self, g: OneVariable, a: float, b: float) -> float:
        """2 r * integral |omega| |g^(omega)| d omega."""
        return (b - a) * fourier_moment(g, 1, (a, b))


@dataclass(frozen=True)
class KlusowskiBarron(_Family):
    """One hidden layer of m_ff ReLU units in d dimensions: v_{g,2} sqrt(d + log m) / m^(1/2 + 1/d).

    v_{g,2} is the second Fourier moment with the interval rescaled to [-1, 1]. The theorem has a
    universal constant, which the paper does not print, and a logarithm. For d = 1 both can be
    dropped, and the number is a true bound: |g''| <= v_{g,2}, so the interpolant on [-1, 1] has an
    error of at most v_{g,2} / (2 m^2) <= v_{g,2} / m^(3/2). For d > 1 `rate` keeps the factor
    sqrt(d + log m), and the number holds up to the universal constant (`certified` is False).

    Args:
        d: The dimension of the functions' arguments, 1 or more; it decides beta = 1/2 + 1/d.

    Examples:
        >>> ar.KlusowskiBarron().beta, ar.KlusowskiBarron(d=2).beta
        (1.5, 1.0)

    """

    d: int = 1
    name = "klusowski-barron"
    norm = "sup"

    def __post_init__(self) -> None:
        require_whole("d", self.d, 1)

    @property
    def beta(self) -> float:
        """The exponent of Eq. 13, 1/2 + 1/d."""
        return 0.5 + 1.0 / self.d

    @property
    def certified(self) -> bool:
        """True in one dimension; False in several, where an unknown constant is left out."""
        return self.d == 1

    @property
    def statement(self) -> str:
        """The theorem in one sentence, and what was done with its constant and its logarithm."""
        treated = "the constant is 1 and the logarithm drops for d = 1"
        loose = "up to the universal constant c"
        return (
            "m ReLU units reach g on [-1,1]^d to within c v_{g,2} sqrt(d + log m) m^(-1/2-1/d) in "
            "the sup norm (Klusowski & Barron 2018, IEEE Trans. Inf. Theory 64); "
            f"{treated if self.d == 1 else loose}."
        )

    def _measured(self, g: OneVariable, a: float, b: float) -> float:
        """v_{g,2} = r^2 * integral |omega|^2 |g^(omega)| d omega, r half the interval's length."""
        return ((b - a) / 2.0) ** 2 * fourier_moment(g, 2, (a, b))

    def _loss(self, m_ff: int) -> float:
        """sqrt(d + log m_ff), in more than one dimension."""
        return 1.0 if self.d == 1 else float((self.d + log(m_ff)) ** 0.5)


@dataclass(frozen=True)
class Sobolev(_Family):
    """Polynomials of degree < m_ff, as in Eq. 2: C = c * max_{1<=r<=order} |g^(r)|_inf.

    beta = order, and derivatives are rescaled to [-1, 1]. Jackson's theorem with Favard's constant,
    E_n(g) <= pi / (2(n+1)) E_{n-1}(g'), gives E_n(g) <= (pi/2)^k |g^(k)| / ((n+1) n ... (n-k+2))
    for n >= k-1. At n = m-1 and k = min(m, order) that is
    c = max_{1<=m<=order} (pi/2)^m m^order / m!, valid for every m >= 1: for m >= order the product
    is at least m^order order! / order^order. The paper leaves c unspecified. The supremum of a high
    derivative loses digits to rounding, so the order is limited to 6.

    Args:
        order: The number of derivatives that are used, from 1 to 6; beta is the same number.

    Examples:
        >>> ar.Sobolev(order=3).beta
        3.0

    """

    order: int = 2
    name = "sobolev"
    norm = "sup"
    certified = True
    statement = (
        "Polynomials of degree < m reach g on [-1,1] to within (pi/2)^k |g^(k)| / "
        "(m (m-1) ... (m-k+1)) in the sup norm (Jackson's theorem; Cheney, Introduction to "
        "Approximation Theory, ch. 4.6)."
    )

    def __post_init__(self) -> None:
        require_whole("order", self.order, 1, 6)

    @property
    def beta(self) -> float:
        """The order of differentiability."""
        return float(self.order)

    @property
    def constant(self) -> float:
        """c = max over 1 <= m <= order of (pi/2)^m m^order / m!."""
        orders = range(1, self.order + 1)
        return max((pi / 2) ** m * float(m) ** self.order / factorial(m) for m in orders)

    def _measured(self, g: OneVariable, a: float, b: float) -> float:
        """c * max_r ((b-a)/2)^r sup|g^(r)|."""
        sups = sup_derivatives(g, self.order, (a, b))
        return self.constant * max(((b - a) / 2.0) ** r * sups[r] for r in range(1, self.order + 1))


@dataclass(frozen=True)
class Hoelder(_Family):
    """Deep ReLU networks of width m_ff, for |g(x) - g(y)| <= lambda |x - y|^exponent.

    Shen, Yang & Zhang: width 16 (N+2) and depth 11 L + 18 reach g on [0, 1] to within
    131 lambda (N^2 L^2 log_3(N+2))^-exponent in L2. At fixed depth beta = 2 * exponent (the
    logarithm is dropped, being >= 1). N = floor(m_ff/16) - 2 is at least m_ff/64 from m_ff = 48 on;
    below, the network is a constant. So C = (b-a)^exponent lambda c with
    c = max(131 (64/L)^(2 exponent), 47^(2 exponent) 2^-exponent). The theorem needs a depth of at
    least 29, so it says nothing about the paper's networks of depth 3. lambda is measured, not
    certified.

    Args:
        exponent: The Hölder exponent, greater than 0 and at most 1; beta is twice as large.
        depth: The number of hidden layers, 29 or more.

    Examples:
        >>> ar.Hoelder(exponent=0.5).beta
        1.0

    """

    exponent: float = 1.0
    depth: int = 29
    name = "hoelder"
    norm = "L2"
    certified = False
    statement = (
        "ReLU networks of width 16(N+2) and depth 11L+18 reach a Hoelder function on [0,1] to "
        "within 131 lambda (N^2 L^2 log_3(N+2))^-exponent in L2 (Shen, Yang & Zhang 2022, J. Math. "
        "Pures Appl. 157, Theorem 1.1)."
    )

    def __post_init__(self) -> None:
        require_number("exponent", self.exponent, above=0.0, most=1.0)
        require_whole("depth", self.depth, 29)

    @property
    def beta(self) -> float:
        """Twice the Hölder exponent, at a fixed depth."""
        return 2.0 * self.exponent

    def _measured(self, g: OneVariable, a: float, b: float) -> float:
        """(b-a)^exponent * lambda * c, with the c of the class's docstring."""
        L = (self.depth - 18) // 11
        constant = max(131.0 * (64.0 / L) ** self.beta, 47.0**self.beta / 2.0**self.exponent)
        size = float((b - a) ** self.exponent) * hoelder_constant(g, self.exponent, (a, b))
        return size * float(constant)


@checked
def hoelder_constant(
    g: OneVariable, exponent: HoelderExponent = 1.0, interval: Interval = (0.0, 1.0)
) -> float:
    """sup |g(x) - g(y)| / |x - y|^exponent, measured: a lower estimate that converges to it.

    The largest quotient over many distances on a fine grid is the start of a local search.

    Args:
        g: A function that takes an array of numbers and gives one value for each.
        exponent: The Hölder exponent, greater than 0 and at most 1.
        interval: Where x and y lie, (a, b).

    Returns:
        The largest quotient found.

    Raises:
        InputError: If the quotient keeps growing as the grid is refined: it has no supremum.

    """
    a, b = interval
    found_on = [_largest_quotient(g, exponent, (a, b), n) for n in (2048, 16384, 131072)]
    (coarse, *_), (middle, *_), (fine, x, y) = found_on
    # a fine feature that the first grid misses makes the quotient grow once, not twice
    if middle > 1.05 * coarse + 1e-12 and fine > 1.05 * middle + 1e-12:
        raise InputError(
            f"g is not Hölder continuous with exponent {exponent} near u = {x:.6g}",
            fine,
            "Choose a smaller exponent.",
        )

    def negative(ends: Float[np.ndarray, " two"]) -> float:
        low, high = np.clip(np.sort(ends), a, b)
        if high - low < 1e-7 * (b - a):
            return 0.0
        values = evaluate(g, np.array([low, high]))
        return -float(abs(values[1] - values[0]) / (high - low) ** exponent)

    start = np.array([x, y])
    found = optimize.minimize(negative, start, method="Nelder-Mead", options={"xatol": 1e-9})
    return max(fine, -float(found.fun))


def _largest_quotient(
    g: OneVariable, exponent: float, interval: tuple[float, float], n: int
) -> tuple[float, float, float]:
    """The largest Hölder quotient of g over many distances on n + 1 points, with its two points."""
    a, b = interval
    u = np.linspace(a, b, n + 1)
    values = evaluate(g, u)
    best = (0.0, a, b)
    for lag in np.unique(np.geomspace(1, n, 160).astype(int)):
        steps = np.abs(values[lag:] - values[:-lag])
        i = int(np.argmax(steps))
        quotient = float(steps[i] / (u[i + lag] - u[i]) ** exponent)
        if quotient > best[0]:
            best = (quotient, float(u[i]), float(u[i + lag]))
    return best


FamilyName = Literal["interpolant", "barron", "klusowski-barron", "sobolev", "hoelder"]

FAMILIES: Mapping[str, FeedForwardFamily] = {
    each.name: each for each in (Interpolant(), Barron(), KlusowskiBarron(), Sobolev(), Hoelder())
}
"""The families by name, each with its default settings."""


def require_family(name: str, value: object) -> FeedForwardFamily:
    """The family that `value` names or is; an InputError when it is neither."""
    if isinstance(value, str) and value in FAMILIES:
        return FAMILIES[value]
    if isinstance(value, FeedForwardFamily) and not isinstance(value, type):
        return value
    listed = ", ".join(map(repr, FAMILIES))
    raise InputError(
        f"{name} is not known", value, f"Choose one of {listed}, or pass a FeedForwardFamily."
    )


#: A family of networks, by its name or as an object, as a parameter of `checked` functions
FamilyLike = Annotated[FamilyName | FeedForwardFamily, by(require_family)]
