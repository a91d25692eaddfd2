"""Moments of a Fourier representation of a function of several variables, on boxes and unions.

The size of a frequency is |ω|_B = sup_{x∈B} |ω·(x - x_0)| = Σ_i |ω_i| L_i / 2, for B the smallest
box around the domain, x_0 its centre and L_i its sides (Barron 1993, sec. III). It has no unit:
rescaling the box leaves the moments alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from jaxtyping import Complex, Float

from attnrate.errors import InputError
from attnrate.theory.domain import Region
from attnrate.theory.fourier import PERIODS, TOLERANCE
from attnrate.theory.panels import Array
from attnrate.theory.variables import Function, hull_sides, values_at

#: Frequencies per axis of an extension, and points per axis of the series, by dimension. The
#: largest of them take 0.4 million values of g in two variables and 2 million in three.
_TERMS = {1: (4, 8, 16, 32, 64, 128), 2: (4, 8, 16, 32, 64), 3: (4, 8, 16)}
_SERIES = {1: (64, 512, 4096), 2: (16, 64, 256, 1024), 3: (8, 16, 32, 64, 128)}
#: Points inside the domain at which every representation is tested, besides the corners
_TESTED = 1000
_CUT = 1e-13


def box_moment(g: Function, order: int, region: Region) -> float:
    """The moment ∫ |ω|_B^order |g^(ω)| dω of a Fourier representation of g on a region.

    As in one variable, every representation Σ_k c_k e^{iω_k·x} that agrees with g on the region
    bounds the infimum over all extensions: the Fourier series where g is periodic on a box, and
    tensor extensions to longer periods. The smallest moment of those that agree with g at
    scattered points and the corners is returned; an InputError says when none does.
    """
    tested = np.concatenate([region.draw(_TESTED, np.random.default_rng(31)), _corners(region)])
    values = values_at(g, tested)
    scale = float(np.max(np.abs(values)))
    if scale == 0.0:
        return 0.0
    asked = _Asked(g, order, region, tested, values, scale)
    best = asked.of_series() if all(len(axis) == 1 for axis in region.axes) else float("inf")
    for terms in _TERMS[region.d]:
        met = np.isfinite(best)
        best = min(best, asked.of_extensions(terms))
        # One size beyond the first that agrees with g: more terms may find a smoother extension.
        if met:
            break
    if not np.isfinite(best):
        raise InputError(
            f"no Fourier representation of g on {region.axes} with a moment of order {order} was "
            f"found, with at most {_TERMS[region.d][-1]} frequencies per variable",
            region.axes,
            "g has a kink or a jump, or oscillates too fast; use 'hoelder', or a smaller domain.",
        )
    return best


def _corners(region: Region) -> Float[Array, "n d"]:
    ends = [[t for interval in axis for t in interval] for axis in region.axes]
    return np.stack(np.meshgrid(*ends, indexing="ij"), axis=-1).reshape(-1, region.d)


@dataclass(frozen=True, eq=False)
class _Asked:
    """The moment to compute, and the points at which representations are tested."""

    g: Function
    order: int
    region: Region
    tested: Float[Array, "n d"]
    values: Float[Array, " n"]
    scale: float

    @property
    def low(self) -> Float[Array, " d"]:
        """The lower corner."""
        return np.array([axis[0][0] for axis in self.region.axes])

    def moment(self, c: Complex[Array, "..."], omegas: Sequence[Array], least: float) -> float:
        """Σ |c| |ω|_B^order over the coefficients above `least`; infinite where g is missed."""
        waves = [
            np.exp(1j * (self.tested[:, i] - self.low[i])[:, None] * omega)
            for i, omega in enumerate(omegas)
        ]
        tried = np.tensordot(waves[0], c, axes=(1, 0))
        for wave in waves[1:]:
            tried = np.einsum("nk...,nk->n...", tried, wave)
        if float(np.max(np.abs(np.real(tried) - self.values))) > TOLERANCE * self.scale:
            return float("inf")
        halves = hull_sides(self.region) / 2
        sizes = [half * np.abs(omega) for half, omega in zip(halves, omegas, strict=True)]
        size = np.asarray(reduce(np.add.outer, sizes))
        strength = np.where(np.abs(c) > least, np.abs(c), 0.0)
        return float(np.sum(strength * size**self.order))

    def of_series(self) -> float:
        """The moment of the Fourier series on the box; infinite when it has not converged."""
        d, sides = self.region.d, hull_sides(self.region)
        if not self._periodic(sides):
            return float("inf")
        for n in _SERIES[d]:
            axes = [a + side * np.arange(n) / n for a, side in zip(self.low, sides, strict=True)]
            mesh = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d)
            c = np.fft.fftn(values_at(self.g, mesh).reshape([n] * d)) / n**d
            counted = np.fft.fftfreq(n, 1.0 / n)
            far = np.abs(counted) > 3 * n // 8
            high = [np.max(np.abs(np.compress(far, c, axis=i))) for i in range(d)]
            if max(high) <= 1e-13 * self.scale:
                # only the frequencies that occur, so that testing costs little
                used = [np.flatnonzero(np.abs(np.moveaxis(c, i, 0)).reshape(n, -1).max(axis=1)
                        > 1e-14 * self.scale) for i in range(d)]  # fmt: skip
                kept = c[np.ix_(*used)]
                omegas = [
                    2 * np.pi * counted[k] / side for k, side in zip(used, sides, strict=True)
                ]
                return self.moment(kept, omegas, 1e-14 * self.scale)
        return float("inf")

    def _periodic(self, sides: Float[Array, " d"]) -> bool:
        """Whether g agrees at opposite points of the box's faces."""
        for i, side in enumerate(sides):
            face = self.tested[:64].copy()
            face[:, i] = self.low[i]
            there = values_at(self.g, face)
            face[:, i] = self.low[i] + side
            gap = float(np.max(np.abs(there - values_at(self.g, face))))
            if gap > TOLERANCE * self.scale:
                return False
        return True

    def of_extensions(self, terms: int) -> float:
        """The least moment of extensions with `terms` frequencies per axis, over their periods."""
        angles = np.pi * (np.arange(5 * terms) + 0.5) / (5 * terms)
        axes = [
            np.concatenate([(a + b) / 2 + (b - a) / 2 * np.cos(angles) for a, b in axis])
            for axis in self.region.axes
        ]
        mesh = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, self.region.d)
        sampled = values_at(self.g, mesh).reshape([len(axis) for axis in axes])
        return min(self._of_extension(share, terms, axes, sampled) for share in PERIODS)

    def _of_extension(
        self, share: float, terms: int, axes: Sequence[Array], sampled: Array
    ) -> float:
        """The moment of the extension with period share * L_i along every axis."""
        factors, omegas, to_waves = [], [], []
        for low, side, at in zip(self.low, hull_sides(self.region), axes, strict=True):
            omega = 2.0 * np.pi * np.arange(terms + 1) / (share * side)
            phase = (at - low)[:, None] * omega
            # Columns are divided by their frequency, so that least norms prefer low ones.
            weight = np.concatenate([np.maximum(omega, omega[1]), omega[1:]])
            weight = (weight / omega[1]) ** max(self.order, 1)
            design = np.concatenate([np.cos(phase), np.sin(phase[:, 1:])], axis=1) / weight
            factors.append(np.linalg.svd(design, full_matrices=False))
            omegas.append(np.concatenate([-omega[:0:-1], omega]))
            to_waves.append(_waves(terms) / weight)
        # the least-squares problem of a tensor product, whose singular values are products
        core = sampled
        for i, (U, _, _) in enumerate(factors):
            core = _along(U.T, core, i)
        singular = np.asarray(reduce(np.multiply.outer, [s for _, s, _ in factors]))
        small = singular <= _CUT * singular.max()
        c = np.where(small, 0.0, core / np.where(small, 1.0, singular)).astype(complex)
        for i, (_, _, Vt) in enumerate(factors):
            c = _along(to_waves[i] @ Vt.T, c, i)
        return self.moment(c, omegas, 0.0)


def _along(matrix: Array, values: Array, axis: int) -> Array:
    return np.asarray(np.moveaxis(np.tensordot(matrix, values, axes=(1, axis)), 0, axis))


def _waves(terms: int) -> Complex[Array, "waves columns"]:
    """The matrix from coefficients of cos(kt) and sin(kt) to those of e^{ikt}, k = -terms, …."""
    found = np.zeros((2 * terms + 1, 2 * terms + 1), dtype=complex)
    found[terms, 0] = 1.0
    for k in range(1, terms + 1):
        found[terms + k, k] = found[terms - k, k] = 0.5
        found[terms + k, terms + k] = -0.5j
        found[terms - k, terms + k] = 0.5j
    return found
