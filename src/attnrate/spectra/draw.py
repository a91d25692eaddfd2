"""Spectra of a head as figures in plain data: violins over the inputs, as in the paper's Fig. 2."""

import math

import numpy as np

from attnrate.figures.figure import Series, Style, Violins, violin_values
from attnrate.spectra.result import Profile
from attnrate.theory.decay_result import SMOOTH

MOST_VIOLINS = 32
#: Smaller values, as shares of the largest, are rounding of a float32 model and are not drawn
ROUNDING = 1e-6


def violins(profile: Profile, layer: object, head: object, title: str) -> Violins:
    """Each σ_k of a head over the inputs, its pooled spectrum and the law that fits that.

    A head of many dimensions has a violin at every so manieth k.
    """
    sigma = profile.sigma(layer, head).astype(float)
    pooled = profile.pooled(layer, head).astype(float)
    law = profile.decay(layer, head)
    places = range(1, sigma.shape[1] + 1, stride(sigma.shape[1]))
    least = ROUNDING * max(float(sigma.max()), float(pooled.max()))
    lines = [line("all inputs together", pooled, least)]
    if law.law in SMOOTH and law.used is not None:
        k = np.arange(law.used[0], law.used[1] + 1, dtype=float)
        fitted = tuple(law.predict(k).tolist())
        lines.append(Series("law of decay", tuple(k.tolist()), fitted, style="theory"))
    return Violins(
        title,
        "k",
        "σ_k of the logits / √(T S)",
        "σ_k over the inputs",
        tuple(float(k) for k in places),
        tuple(violin_values(_seen(sigma[:, k - 1], least)) for k in places),
        tuple(lines),
        "log",
    )


def stride(size: int) -> int:
    """Which k of a head of that size have a violin: one in so many."""
    return math.ceil(size / MOST_VIOLINS)


def line(label: str, sigma: np.ndarray, least: float, style: Style = "measured") -> Series:
    """A spectrum over k, with nothing where values are at most `least`."""
    places = tuple(float(k) for k in range(1, len(sigma) + 1))
    return Series(label, places, tuple(_seen(sigma, least)), style=style)


def _seen(sigma: np.ndarray, least: float) -> list[float]:
    """The values with nan for those that are rounding."""
    return [float(value) if value > least else math.nan for value in sigma]
