"""Spectra drawn from known laws, and how often `fit_decay` says of them what is true.

The tests of intervals (`test_decay_coverage.py`, few spectra a cell) and the benchmark that
certifies them (`benchmarks/certify.py decay`, the whole table) draw their spectra here.

A *cell* is a law with its true parameter, a number of values and a kind of noise. A *decoy* is a
spectrum that follows none of the laws, although it may look like one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special, stats

from attnrate.theory.decay import Decay, fit_decay

Spectrum = np.ndarray
Floor = Literal["none", "sum", "root of squares"]

SIZES = (30, 100, 300)
NOISES = (0.02, 0.1, 0.3)
LEVEL = 0.95
Named = Literal["power", "exponential", "superexponential"]
LIMITS = (0.92, 0.98)
"""Between these the share of 95 % intervals that hold the truth has to lie."""
DOUBT = 0.01
"""A cell fails when its count has less than this probability for every coverage within LIMITS."""
RECOGNISED = 0.90
"""At least this share of superexponential spectra with 2 % noise must be recognised."""
REFUSED = 0.90
"""At least this share of the spectra of a decoy must be refused."""


@dataclass(frozen=True)
class Cell:
    """A law, its true parameter, and how the spectra that follow it are made noisy.

    sigma_k = law(k), joined with `floor` by `joined` ("sum": law + floor; "root of squares":
    (law² + floor²)^½), times exp(noise · z_k), then sorted. z is standard normal, independent for
    `correlation` 0 and otherwise autoregressive along k with that correlation of neighbours. The
    law is (k + shift)^-parameter, e^{-parameter k} or, superexponential, I_k(shift)^parameter with
    the modified Bessel function itself, not the form that is fitted.
    """

    kind: str
    law: Named
    parameter: float
    n: int
    noise: float
    shift: float = 0.0
    correlation: float = 0.0
    floor: float = 0.0
    joined: Floor = "none"

    @property
    def name(self) -> str:
        """What is drawn, in a few words."""
        if self.law == "power":
            k = "k" if self.shift == 0 else f"(k{self.shift:+g})"
            text = f"{k}^-{self.parameter:g}"
        elif self.law == "superexponential":
            text = f"I_k({self.shift:g})^{self.parameter:g}"
        else:
            text = f"exp(-{self.parameter:g} k)"
        if self.joined != "none":
            sign = "+" if self.joined == "sum" else "⊕"
            text += f" {sign} {self.floor:g}"
        along = "" if self.correlation == 0 else f" AR({self.correlation:g})"
        return f"{text}, n={self.n}, {self.noise:.0%}{along}"

    def draw(self, rng: np.random.Generator) -> Spectrum:
        """One noisy spectrum, descending."""
        k = np.arange(1.0, self.n + 1.0)
        if self.law == "power":
            sigma = (k + self.shift) ** -self.parameter
        elif self.law == "superexponential":
            # Scaled by e^-z, a constant, because I_k(z) itself overflows for large z.
            sigma = special.ive(k, self.shift) ** self.parameter
        else:
            sigma = np.exp(-self.parameter * k)
        if self.joined == "sum":
            sigma = sigma + self.floor
        elif self.joined == "root of squares":
            sigma = np.hypot(sigma, self.floor)
        z = rng.standard_normal(self.n)
        for i in range(1, self.n if self.correlation else 0):
            z[i] = self.correlation * z[i - 1] + np.sqrt(1 - self.correlation**2) * z[i]
        return np.sort(sigma * np.exp(self.noise * z))[::-1]


@dataclass(frozen=True)
class Decoy:
    """A spectrum that is to be refused: `draw` makes one."""

    kind: str
    name: str
    draw: Callable[[np.random.Generator], Spectrum]


@dataclass(frozen=True)
class Score:
    """How many of `drawn` spectra of a cell got their law, and in how many its interval held."""

    cell: Cell
    drawn: int
    recognised: int
    held: int

    @property
    def recognition(self) -> float:
        """Share of the spectra that got their law."""
        return self.recognised / self.drawn

    @property
    def coverage(self) -> float:
        """Share of the recognised spectra whose interval holds the true parameter."""
        return self.held / self.recognised if self.recognised else float("nan")

    @property
    def compatible(self) -> bool:
        """Whether a coverage within LIMITS explains the count, DOUBT allowed for chance."""
        low, high = LIMITS
        too_few = stats.binom.cdf(self.held, self.recognised, low)
        too_many = stats.binom.sf(self.held - 1, self.recognised, high)
        return bool(min(too_few, too_many) >= DOUBT)


@dataclass(frozen=True)
class Refusal:
    """How many of `drawn` spectra of a decoy were refused, and for how many values were too few."""

    decoy: Decoy
    drawn: int
    refused: int
    too_few: int

    @property
    def share(self) -> float:
        """Share of refused spectra."""
        return self.refused / self.drawn

    @property
    def compatible(self) -> bool:
        """Whether a share of REFUSED explains the count, DOUBT allowed for chance."""
        return bool(stats.binom.cdf(self.refused, self.drawn, REFUSED) >= DOUBT)


def noise_cells(sizes: Sequence[int] = SIZES, noises: Sequence[float] = NOISES) -> list[Cell]:
    """Power laws, two of them shifted, and exponentials, with independent noise."""
    laws: list[tuple[Named, float, float]] = [
        ("power", 0.5, 0.0),
        ("power", 1.0, 0.0),
        ("power", 2.0, 0.0),
        ("power", 1.0, 1.0),
        ("power", 2.0, -0.5),
        ("exponential", 0.1, 0.0),
        ("exponential", 0.3, 0.0),
    ]
    return [
        Cell("noise", law, parameter, n, noise, shift)
        for law, parameter, shift in laws
        for n in sizes
        for noise in noises
    ]


def correlated_cells(sizes: Sequence[int] = SIZES) -> list[Cell]:
    """Laws whose noise of 10 % is correlated along k, 0.8 between neighbours."""
    laws: list[tuple[Named, float]] = [
        ("power", 0.5),
        ("power", 1.0),
        ("power", 2.0),
        ("exponential", 0.1),
        ("exponential", 0.3),
    ]
    return [
        Cell("correlated", law, parameter, n, 0.1, correlation=0.8)
        for law, parameter in laws
        for n in sizes
    ]


def floor_cells(sizes: Sequence[int] = SIZES) -> list[Cell]:
    """Laws that a floor of 1e-3 lifts, joined either way, with noise of 2 %."""
    laws: list[tuple[Named, float]] = [
        ("power", 1.0),
        ("power", 2.0),
        ("exponential", 0.1),
        ("exponential", 0.3),
    ]
    joins: tuple[Floor, ...] = ("sum", "root of squares")
    return [
        Cell("floor", law, parameter, n, 0.02, floor=1e-3, joined=joined)
        for law, parameter in laws
        for joined in joins
        for n in sizes
    ]


def superexponential_cells() -> list[Cell]:
    """Bessel functions, about as Gaussian couplings have them, as far as rounding lets see.

    These are to be recognised; their order has no interval.
    """
    return [
        Cell("superexponential", "superexponential", 1.0, n, noise, shift=z)
        for z, n in ((1.0, 12), (10.0, 25), (30.0, 40))
        for noise in (0.02, 0.1)
    ]


def decoys(sizes: Sequence[int] = SIZES, noise: float = 0.02) -> list[Decoy]:
    """Log-periodic power laws, a stretched exponential, and uniform random numbers."""
    found = []
    for n in sizes:
        k = np.arange(1.0, n + 1.0)
        for c in (0.5, 1.0):
            wave = (1 + 0.2 * np.cos(2 * np.pi * c * np.log(k))) / k
            text = f"(1 + 0.2 cos(2π {c:g} log k)) / k, n={n}, {noise:.0%}"
            found.append(Decoy("log-periodic", text, _noisy(wave, noise)))
        text = f"exp(-2 k^0.2), n={n}, {noise:.0%}"
        found.append(Decoy("stretched", text, _noisy(np.exp(-2 * k**0.2), noise)))
    found += [Decoy("random", f"uniform numbers, n={n}", _uniform(n)) for n in (8, 16, 30, 100)]
    return found


def score(cell: Cell, count: int, seed: int = 0) -> Score:
    """Fits `count` spectra of a cell."""
    fits = [fit_decay(cell.draw(rng), LEVEL) for rng in _generators(cell.name, count, seed)]
    named = [fit for fit in fits if fit.law == cell.law]
    held = sum(_holds(fit, cell.parameter) for fit in named)
    return Score(cell, count, len(named), held)


def pooled(scores: Sequence[Score]) -> Score:
    """The counts of several cells together, under the first one's name."""
    drawn = sum(score.drawn for score in scores)
    recognised = sum(score.recognised for score in scores)
    return Score(scores[0].cell, drawn, recognised, sum(score.held for score in scores))


def refusal(decoy: Decoy, count: int, seed: int = 0) -> Refusal:
    """Fits `count` spectra of a decoy."""
    fits = [fit_decay(decoy.draw(rng), LEVEL) for rng in _generators(decoy.name, count, seed)]
    refused = [fit for fit in fits if fit.law == "none"]
    few = sum(fit.reason.startswith("too few values to tell") for fit in refused)
    return Refusal(decoy, count, len(refused), few)


def _holds(fit: Decay, value: float) -> bool:
    return fit.interval is not None and fit.interval[0] <= value <= fit.interval[1]


def _generators(name: str, count: int, seed: int) -> list[np.random.Generator]:
    """A generator a spectrum, from the cell's name, so that no cell depends on its neighbours."""
    root = np.random.SeedSequence([seed, *name.encode()])
    return [np.random.default_rng(child) for child in root.spawn(count)]


def _noisy(sigma: Spectrum, noise: float) -> Callable[[np.random.Generator], Spectrum]:
    def draw(rng: np.random.Generator) -> Spectrum:
        return np.sort(sigma * np.exp(noise * rng.standard_normal(sigma.size)))[::-1]

    return draw


def _uniform(n: int) -> Callable[[np.random.Generator], Spectrum]:
    return lambda rng: np.sort(rng.random(n))[::-1]
