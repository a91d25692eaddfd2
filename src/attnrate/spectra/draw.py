"""Violins of singular values over inputs, as in the paper's Fig. 2."""

from typing import TYPE_CHECKING

from attnrate.figures.figure import Figure, Series, Violins, violin_values
from attnrate.spectra.result import Profile

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

_SHOWN = 32


def violins(profile: Profile, layer: object, head: object) -> "Drawing":
    """Each singular value's distribution over inputs, with the pooled spectrum drawn across."""
    from attnrate.figures.draw import draw

    sigma, pooled = profile.sigma(layer, head), profile.pooled(layer, head)
    values = sigma.T[:_SHOWN].tolist()
    places = tuple(float(k) for k in range(1, len(values) + 1))
    line = tuple(pooled[: len(places)].tolist())
    panel = Violins(
        f"{profile.layer(layer).name}, head {head}: {len(sigma)} inputs",
        "k",
        "σ_k of the logits / √(T S)",
        "σ_k over the inputs",
        places,
        tuple(map(violin_values, values)),
        (Series("all inputs together", places, line, style="theory"),),
    )
    return draw(Figure("violins", profile.model, "", (panel,)))
