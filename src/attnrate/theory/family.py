"""What a family of feed-forward networks is, and the base of those in `feedforward.py`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from attnrate.errors import InputError, require_whole
from attnrate.settings import Count, by, checked
from attnrate.theory.domain import Interval as Pair
from attnrate.theory.domain import Region
from attnrate.theory.hoelder import Interval, OneVariable
from attnrate.theory.variables import MOST_VARIABLES, as_region

F = TypeVar("F", bound="Family")
#: The norm of an error: the root mean square, or the largest absolute value
FunctionNorm = Literal["L2", "sup"]
#: What a domain is given as: an interval, a box as a list of pairs, or a region
RegionLike: TypeAlias = Region | Pair | Sequence[Pair]
#: A domain in one to three variables, as a parameter of `checked` functions
OnRegion = Annotated[RegionLike, by(as_region)]


@runtime_checkable
class FeedForwardFamily(Protocol):
    """A family of networks with its theorem: what `complexity` and `jackson_bound` take.

    Eq. 13: networks with budget m_ff reach a function g to within complexity(g) / m_ff^beta. Any
    object with these members is a family, so that a theorem of one's own can be used. If it also
    has a method `in_dimension(d)` that gives the family for functions of d variables, it is used
    for targets in two and three dimensions too: its `complexity` is then given a `box` or `union`
    as the domain, and a function of points with a last axis of d coordinates.

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


@runtime_checkable
class _OfSeveralVariables(FeedForwardFamily, Protocol):
    """A family that has a version for functions of several variables."""

    def in_dimension(self, d: int) -> "_OfSeveralVariables": ...

    def complexity(self, g: OneVariable, domain: RegionLike = (0.0, 1.0)) -> float: ...


class Family(FeedForwardFamily):
    """The base of the families here: `complexity` checks its arguments, `_measured` computes."""

    #: The most variables of the functions
    d: int = 1

    @checked
    def complexity(self, g: OneVariable, domain: OnRegion = (0.0, 1.0)) -> float:
        """C_FF^(beta)(g) of a function of one to three variables.

        Args:
            g: A function that takes an array of numbers and gives one value for each; in several
                variables an array of points with a last axis of d coordinates.
            domain: Where g is approximated: (a, b), a `box`, a `union`, or a box with unions as
                sides.

        Returns:
            The complexity. An InputError says where g is not smooth enough for the theorem.

        """
        region = self._region(domain)
        interval = _one_interval(region)
        return self._on(g, region) if interval is None else self._measured(g, *interval)

    @checked
    def rate(self, g: OneVariable, m_ff: Count, domain: OnRegion = (0.0, 1.0)) -> float:
        """complexity(g) / m_ff^beta, the right-hand side of Eq. 13.

        Args:
            g: A function that takes an array of numbers and gives one value for each; in several
                variables an array of points with a last axis of d coordinates.
            m_ff: The budget of the networks, 1 or more.
            domain: Where g is approximated: (a, b), a `box`, a `union`, or a box with unions as
                sides.

        Returns:
            A bound on the error in the family's norm.

        """
        region = self._region(domain)
        interval = _one_interval(region)
        if interval is None:
            return self._rate_on(g, m_ff, region)
        return self._loss(m_ff) * self._measured(g, *interval) / float(m_ff**self.beta)

    def in_dimension(self: F, d: int) -> F:
        """This family for functions of at most d variables.

        Args:
            d: The number of variables, from 1 to 3.

        Returns:
            The family itself where it already takes as many, else another with its other settings.

        """
        wanted = require_whole("d", d, 1, MOST_VARIABLES)
        settings: dict[str, Any] = {"d": wanted}
        return self if wanted <= self.d else replace(self, **settings)  # type: ignore[type-var]

    def _region(self, domain: RegionLike) -> Region:
        """The domain as a region, with no more coordinates than the family takes."""
        region = as_region("domain", domain)
        if region.d > self.d:
            name = type(self).__name__
            raise InputError(
                f"{name}(d={self.d}) is for functions of at most {self.d} variables; the domain "
                "has {value} coordinates",
                region.d,
                f"Pass {name}(d={region.d}).",
            )
        return region

    def _measured(self, g: OneVariable, a: float, b: float) -> float:
        """C_FF^(beta)(g) on (a, b), both checked."""
        raise NotImplementedError

    def _on(self, g: OneVariable, region: Region) -> float:
        """C_FF^(beta)(g) on a box or union, checked."""
        raise NotImplementedError

    def _rate_on(self, g: OneVariable, m_ff: int, region: Region) -> float:
        """The bound on the error of m_ff units on a box or union."""
        return self._loss(m_ff) * self._on(g, region) / float(m_ff**self.beta)

    def _loss(self, m_ff: int) -> float:
        """A factor of the error that grows more slowly than any power of m_ff."""
        return 1.0


def _one_interval(region: Region) -> Pair | None:
    """The interval that the region is, or None for a box or a union."""
    return region.axes[0][0] if region.d == 1 and len(region.axes[0]) == 1 else None


def for_variables(family: FeedForwardFamily, d: int) -> FeedForwardFamily:
    """The version of a family for functions of d variables; the family itself if it has none."""
    return family.in_dimension(d) if isinstance(family, _OfSeveralVariables) else family


def complexity_on(family: FeedForwardFamily, g: OneVariable, region: Region) -> float:
    """C_FF of g; an InputError where the family is for functions of one variable and g is not."""
    interval = _one_interval(region)
    if interval is not None:
        return float(family.complexity(g, interval))
    if not isinstance(family, _OfSeveralVariables):
        raise InputError(
            f"the family {family.name!r} is for functions on one interval; the domain is {{value}}",
            region,
            "Give it a method in_dimension(d), or take one of the families of attnrate.",
        )
    return float(family.complexity(g, region))
