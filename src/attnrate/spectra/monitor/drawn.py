"""The numbers of a monitor over the steps of a training, as a figure."""

from collections.abc import Sequence

import numpy as np

from attnrate.figures.figure import Curves, Figure, Series
from attnrate.spectra.monitor.record import LayerRecord

#: With more layers than this, some that lie evenly between the first and the last are drawn
MOST_LAYERS = 6
LABELS = {
    "rank99": "dimensions for 99 % of the energy",
    "stable_rank": "stable rank",
    "tail": "tail of the logits",
    "sigma_1": "σ_1 of the logits / √(T S)",
}


def steps_figure(model: str, layers: Sequence[Sequence[LayerRecord]], measure: str) -> Figure:
    """A panel with one curve per layer: the median over heads, from the least to the largest.

    Args:
        model: The name of the model.
        layers: The records of each layer, in the order of the steps.
        measure: The name of a measure of heads.

    Returns:
        The figure as plain data.

    """
    panel = Curves(
        f"median over heads, least to largest; {_counted(layers)}",
        "step",
        LABELS[measure],
        tuple(_series(layer, measure) for layer in layers),
    )
    return Figure("monitor", f"{model}: attention over training", "", (panel,))


def spread(layers: Sequence[Sequence[LayerRecord]]) -> list[Sequence[LayerRecord]]:
    """At most `MOST_LAYERS` of the layers, from the first to the last."""
    if len(layers) <= MOST_LAYERS:
        return [*layers]
    places = np.linspace(0, len(layers) - 1, MOST_LAYERS).round().astype(int)
    return [layers[place] for place in places]


def _counted(layers: Sequence[Sequence[LayerRecord]]) -> str:
    return "1 layer" if len(layers) == 1 else f"{len(layers)} layers"


def _series(records: Sequence[LayerRecord], measure: str) -> Series:
    values = [getattr(record, measure) for record in records]
    first = records[0]
    return Series(
        f"{first.layer}: {first.name}",
        tuple(record.step for record in records),
        tuple(float(np.median(each)) for each in values),
        tuple(float(each.min()) for each in values),
        tuple(float(each.max()) for each in values),
    )
