"""How hard a function is for feed-forward networks: C_FF^(beta) of Eq. 13.

Eq. 13 leaves open which networks and which theorem. Each family here is one theorem of the
literature, with its exponent beta, its norm and its constant, for functions of one to three
variables on intervals, boxes and unions of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import factorial, log, pi, sqrt
from typing import Annotated, Literal

from attnrate.errors import InputError, require_number, require_whole
from attnrate.settings import by
from attnrate.theory.domain import Region
from attnrate.theory.family import Family, FeedForwardFamily
from attnrate.theory.fourier import fourier_moment
from attnrate.theory.fourier_boxes import box_moment
from attnrate.theory.hoelder import OneVariable, hoelder_constant, scaled_hoelder_constant
from attnrate.theory.simplices import cells_of, looseness
from attnrate.theory.smooth import sup_derivative, sup_derivatives
from attnrate.theory.smooth_boxes import sup_hessian, sup_partials
from attnrate.theory.variables import MOST_VARIABLES, boxes_of, hull_sides

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


@dataclass(frozen=True)
class Interpolant(Family):
    """Piecewise-linear interpolation on equispaced nodes: a ReLU network in closed form.

    One variable: sup |g - g^| <= (b-a)^2 / 8 * sup|g''| / m_ff^2 with m_ff + 1 nodes. Several:
    boxes are cut into n^d cells and these into simplices, on which g^ is linear, and
    sup |g - g^| <= d/8 * sup|S D²g S| / n^2 with the side lengths S of the box on the diagonal. The
    m_ff units of its two (d = 2) or three (d = 3) hidden layers allow n ~ m_ff^(1/d) cells, so that
    beta = 2/d; C_FF contains the largest m_ff^beta / n^2, and `rate` uses n itself. On a union each
    box has its own n^d cells.

    The supremum is a certified upper estimate, above the truth by at most half a per cent in one
    variable, 2 % in two and 11 % in three, so the bound holds for the networks that
    `compile_target` makes. It needs a continuous g': at a kink g'' does not exist, and an
    InputError says where.

    Args:
        d: The most variables of the functions, 1, 2 or 3; it decides beta.

    Examples:
        >>> round(ar.Interpolant().complexity(lambda u: u**2), 2)  # sup|g''| / 8, with g'' = 2
        0.25
        >>> product = lambda x: x[..., 0] * x[..., 1]  # |D²g| = 1, on 4 x 4 cells
        >>> round(ar.Interpolant(d=2).rate(product, 40, ar.box((0, 1), (0, 1))) * 4**2, 2)
        0.25

    """

    d: int = 1
    name = "interpolant"
    norm = "sup"
    certified = True

    def __post_init__(self) -> None:
        require_whole("d", self.d, 1, MOST_VARIABLES)

    @property
    def beta(self) -> float:
        """The exponent of Eq. 13, 2/d."""
        return 2.0 / self.d

    @property
    def statement(self) -> str:
        """The theorem in one sentence, with its source."""
        if self.d == 1:
            return (
                "The piecewise-linear interpolant of g at m+1 equispaced nodes, a ReLU network "
                "with m units, is within (b-a)^2 sup|g''| / (8 m^2) of g (de Boor, A Practical "
                "Guide to Splines, ch. III)."
            )
        return (
            "The piecewise-linear interpolant of g on Kuhn's triangulation of n^d cells, a ReLU "
            f"network with {self.d} hidden layers, is within d sup|S D²g S| / (8 n^2) of g, S the "
            "side lengths (Waldron 1998, SIAM J. Numer. Anal. 35, for simplices)."
        )

    def share(self, region: Region) -> float:
        """The largest m_ff^beta / n^2, by which C_FF exceeds n^2 times the bound on the error.

        Args:
            region: Where functions are approximated.

        Returns:
            The quotient: 1 on an interval, with d = 1.

        """
        return looseness(region, self.beta)

    def _measured(self, g: OneVariable, a: float, b: float) -> float:
        """(b-a)^2 / 8 * sup|g''|."""
        return (b - a) ** 2 / 8.0 * sup_derivative(g, 2, (a, b))

    def _on(self, g: OneVariable, region: Region) -> float:
        """The bound on the error with one cell, times the largest m_ff^beta / n^2."""
        return self.share(region) * self._curvature(g, region)

    def _rate_on(self, g: OneVariable, m_ff: int, region: Region) -> float:
        """The bound for the cells that m_ff units allow."""
        return self._curvature(g, region) / cells_of(region, m_ff) ** 2

    def _curvature(self, g: OneVariable, region: Region) -> float:
        """The largest d/8 * sup|S D²g S| over the boxes of the region."""
        if region.d == 1:
            return max(self._measured(g, *interval) for interval in region.axes[0])
        return region.d / 8.0 * max(sup_hessian(g, sides) for sides in boxes_of(region))


@dataclass(frozen=True)
class Barron(Family):
    """One hidden layer of m_ff sigmoidal units: |g - g^| <= 2 C_{g,B} / sqrt(m_ff) in L2.

    C_{g,B} is the first Fourier moment, with the size |ω|_B = Σ_i |ω_i| L_i / 2 of a frequency on
    the box B with sides L_i; in one variable it is half the interval's length times |ω|.
    `fourier_moment` bounds it from above. L2 is taken with respect to the uniform probability
    measure on the domain. The exponent does not depend on the number of variables.

    Examples:
        >>> import numpy as np
        >>> wave = lambda u: np.sin(2 * np.pi * u)
        >>> ar.Barron().rate(wave, 400) / ar.Barron().rate(wave, 100)
        0.5
        >>> plane = lambda x: np.cos(2 * np.pi * (x[..., 0] + x[..., 1]))
        >>> round(ar.Barron().complexity(plane, ar.box((0, 1), (0, 1))) / (4 * np.pi), 6)
        1.0

    """

    d = MOST_VARIABLES
    name = "barron"
    beta = 0.5
    norm = "L2"
    certified = True
    statement = (
        "m sigmoidal units reach g on a ball of radius r to within 2 r C_g / sqrt(m) in L2, C_g "
        "the integral of |omega| |g^(omega)| (Barron 1993, IEEE Trans. Inf. Theory 39, Theorem 1; "
        "on a box B with |omega|_B = sup |omega (x - x_0)| in place of r |omega|)."
    )

    def _measured(self, g: OneVariable, a: float, b: float) -> float:
        """2 r * integral |omega| |g^(omega)| d omega."""
        return (b - a) * fourier_moment(g, 1, (a, b))

    def _on(self, g: OneVariable, region: Region) -> float:
        """2 * integral |omega|_B |g^(omega)| d omega."""
        return 2.0 * box_moment(g, 1, region)


@dataclass(frozen=True)
class KlusowskiBarron(Family):
    """One hidden layer of m_ff ReLU units in d dimensions: v_{g,2} sqrt(d + log m) / m^(1/2 + 1/d).

    v_{g,2} is the second Fourier moment, of |ω|_1 with the box rescaled to [-1, 1]^d. The theorem
    has a universal constant, which the paper does not print, and a logarithm. For d = 1 both can be
    dropped, and the number is a true bound: |g''| <= v_{g,2}, so the interpolant on [-1, 1] has an
    error of at most v_{g,2} / (2 m^2) <= v_{g,2} / m^(3/2). For d > 1 `rate` keeps the factor
    sqrt(d + log m), and the number holds up to the universal constant (`certified` is False).

    Args:
        d: The dimension of the functions' arguments, 1 or more; it decides beta. C_FF is computed
            for functions of at most three variables.

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

    def _on(self, g: OneVariable, region: Region) -> float:
        """v_{g,2} = integral |omega|_B^2 |g^(omega)| d omega."""
        return box_moment(g, 2, region)

    def _loss(self, m_ff: int) -> float:
        """sqrt(d + log m_ff), in more than one dimension."""
        return 1.0 if self.d == 1 else float((self.d + log(m_ff)) ** 0.5)


@dataclass(frozen=True)
class Sobolev(Family):
    """Polynomials, as in Eq. 2: C = c * max_{1<=r<=order} |g^(r)|_inf, of degree < m_ff.

    beta = order, and derivatives are rescaled to [-1, 1]. Jackson's theorem with Favard's constant,
    E_n(g) <= pi / (2(n+1)) E_{n-1}(g'), gives E_n(g) <= (pi/2)^k |g^(k)| / ((n+1) n ... (n-k+2))
    for n >= k-1. At n = m-1 and k = min(m, order) that is
    c = max_{1<=m<=order} (pi/2)^m m^order / m!, valid for every m >= 1: for m >= order the product
    is at least m^order order! / order^order. The paper leaves c unspecified. The supremum of a high
    derivative loses digits to rounding, so the order is limited to 6.

    In d variables polynomials have degree < n in each, n^d <= m_ff coefficients, and
    beta = order/d. Interpolation at Chebyshev points in one variable after the other, each with a
    norm of at most Λ = 1 + (2/π) log n, is within Λ^(d-1) (1 + Λ) Σ_i E_{n-1}(g along x_i) of g.
    So C = c (2^d - 1)^(order/d) Σ_i max_r |∂_i^r g|_inf, where the second factor is for n as a
    whole number, and `rate` keeps the logarithms.

    Args:
        order: The number of derivatives that are used, from 1 to 6; beta is this number over d.
        d: The most variables of the functions, 1, 2 or 3.

    Examples:
        >>> ar.Sobolev(order=3).beta, ar.Sobolev(order=3, d=2).beta
        (3.0, 1.5)

    """

    order: int = 2
    d: int = 1
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
        require_whole("d", self.d, 1, MOST_VARIABLES)

    @property
    def beta(self) -> float:
        """The order of differentiability over the number of variables."""
        return float(self.order) / self.d

    @property
    def constant(self) -> float:
        """c = max over 1 <= m <= order of (pi/2)^m m^order / m!."""
        orders = range(1, self.order + 1)
        return max((pi / 2) ** m * float(m) ** self.order / factorial(m) for m in orders)

    def _measured(self, g: OneVariable, a: float, b: float) -> float:
        """c * max_r ((b-a)/2)^r sup|g^(r)|."""
        sups = sup_derivatives(g, self.order, (a, b))
        return self.constant * max(((b - a) / 2.0) ** r * sups[r] for r in range(1, self.order + 1))

    def _on(self, g: OneVariable, region: Region) -> float:
        """c (2^d - 1)^(order/d) Σ_i max_r (L_i/2)^r sup|∂_i^r g|."""
        boxes = boxes_of(region)
        if len(boxes) > 1:
            raise InputError(
                "polynomials are for one interval or box; the domain consists of {value}",
                len(boxes),
                "Take each by itself, or a family of networks such as 'interpolant'.",
            )
        sups = sup_partials(g, self.order, boxes[0])
        halves = [0.5**r for r in range(1, self.order + 1)]
        rounded = float((2**region.d - 1) ** (self.order / region.d))
        return self.constant * rounded * float((sups * halves).max(axis=1).sum())

    def _loss(self, m_ff: int) -> float:
        """Λ^(d-1) (1 + Λ), in more than one variable."""
        if self.d == 1:
            return 1.0
        n = max(n for n in range(1, int(m_ff ** (1 / self.d)) + 2) if n**self.d <= m_ff)
        largest = 1.0 + 2.0 / pi * log(n)
        return float(largest ** (self.d - 1)) * (1.0 + largest)


@dataclass(frozen=True)
class Hoelder(Family):
    """Deep ReLU networks of width m_ff, for |g(x) - g(y)| <= lambda |x - y|^exponent.

    Shen, Yang & Zhang: width 16 max(d N^(1/d), N+2) and depth 11 L + 18 reach g on [0, 1]^d to
    within 131 sqrt(d) lambda (N^2 L^2 log_3(N+2))^(-exponent/d) in L2. At fixed depth
    beta = 2 * exponent / d (the logarithm is dropped, being >= 1). For d <= 3 the width is
    16 (N+2), and N = floor(m_ff/16) - 2 is at least m_ff/64 from
    m_ff = 48 on; below, the network is a constant. So C = lambda c with
    c = max(131 sqrt(d) (64/L)^beta, 47^beta (sqrt(d)/2)^exponent), lambda that of the function
    rescaled to the unit cube: (b-a)^exponent lambda on an interval. The theorem needs a depth of at
    least 29, so it says nothing about the paper's networks of depth 3. lambda is measured, not
    certified. On a union g is extended to the box around it with the same lambda (McShane), and L2
    on the union is at most the root of the volumes' quotient times L2 on the box.

    Args:
        exponent: The Hölder exponent, greater than 0 and at most 1; beta is twice as large over d.
        depth: The number of hidden layers, 29 or more.
        d: The most variables of the functions, 1, 2 or 3.

    Examples:
        >>> ar.Hoelder(exponent=0.5).beta, ar.Hoelder(d=2).beta
        (1.0, 1.0)

    """

    exponent: float = 1.0
    depth: int = 29
    d: int = 1
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
        require_whole("d", self.d, 1, MOST_VARIABLES)

    @property
    def beta(self) -> float:
        """Twice the Hölder exponent over the number of variables, at a fixed depth."""
        return 2.0 * self.exponent / self.d

    def _measured(self, g: OneVariable, a: float, b: float) -> float:
        """(b-a)^exponent * lambda * c, with the c of the class's docstring."""
        size = float((b - a) ** self.exponent) * hoelder_constant(g, self.exponent, (a, b))
        return size * self._constant(1)

    def _on(self, g: OneVariable, region: Region) -> float:
        """lambda * c of the function on the unit cube, and the quotient of the volumes."""
        size = scaled_hoelder_constant(g, self.exponent, region)
        spread = sqrt(float(hull_sides(region).prod()) / region.volume)
        return spread * size * self._constant(region.d)

    def _constant(self, d: int) -> float:
        """The c of the class's docstring, for functions of d variables and this beta."""
        L = (self.depth - 18) // 11
        many = 131.0 * (64.0 / L) ** self.beta * sqrt(d)
        return float(max(many, 47.0**self.beta * (sqrt(d) / 2.0) ** self.exponent))


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
