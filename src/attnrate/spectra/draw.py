"""Violins of singular values over inputs, as in the paper's Fig. 2."""

from typing import TYPE_CHECKING

import numpy as np

from attnrate.spectra.result import Profile

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN = 32


def violins(profile: Profile, layer: object, head: object) -> "Figure":
    """Each singular value's distribution over inputs, with the pooled spectrum drawn across."""
    from matplotlib.figure import Figure

    sigma, pooled = profile.sigma(layer, head), profile.pooled(layer, head)
    count = min(_SHOWN, sigma.shape[1])
    places = np.arange(1, count + 1)
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    if len(sigma) > 1:
        axes.violinplot(sigma[:, :count], places, widths=0.8, showextrema=False, showmedians=True)
    else:
        axes.plot(places, sigma[0, :count], "o", label="the one input")
    axes.plot(places, pooled[:count], "k--", linewidth=1, label="all inputs together")
    axes.set(
        xlabel="k",
        ylabel="σ_k of the logits / √(T S)",
        title=f"{profile.model}, {profile.layer(layer).name}, head {head}: {len(sigma)} inputs",
    )
    axes.legend()
    return figure
