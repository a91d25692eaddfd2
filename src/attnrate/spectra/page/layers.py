"""What a page says of layers: their labels, the parts of a model, and whether they keep keys."""

from itertools import groupby

from attnrate.spectra.layer import LayerSpectra
from attnrate.spectra.result import Profile


def label_of(layer: LayerSpectra) -> str:
    """The word that stands for a layer in maps and lists: its number, and its run from 2 on."""
    return f"{layer.number}·{layer.run}" if layer.run > 1 else str(layer.number)


def keeps_keys(layer: LayerSpectra) -> bool:
    """Whether a model that generates keeps the keys of each new token in this layer.

    It does in causal self attention. Cross attention and encoders have all keys from the start.
    """
    return layer.causal and layer.kind == "self"


def by_part(profile: Profile) -> list[tuple[str, list[LayerSpectra]]]:
    """The layers of a profile in their order, by the parts of the model."""
    found = groupby(profile.layers, key=lambda layer: profile.parts[layer.name])
    return [(part, [*layers]) for part, layers in found]
