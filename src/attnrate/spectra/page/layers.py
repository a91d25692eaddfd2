"""What a page says of layers: their labels, the parts of a model, and whether they keep keys.

Parts, runs and causality are read where a profile has them, so that nothing else has to know.
"""

from collections.abc import Mapping
from itertools import groupby

from attnrate.spectra.result import LayerSpectra, Profile


def part_of(profile: Profile, layer: LayerSpectra) -> str:
    """The part of the model that a layer belongs to; "" where a profile does not name parts."""
    parts: Mapping[str, str] = getattr(profile, "parts", {})
    return parts.get(layer.name, "")


def label_of(layer: LayerSpectra) -> str:
    """The word that stands for a layer in maps and lists: its number, and its run from 2 on."""
    run = getattr(layer, "run", 1)
    return f"{layer.number}·{run}" if run > 1 else str(layer.number)


def keeps_keys(layer: LayerSpectra) -> bool | None:
    """Whether a model that generates keeps the keys of each new token in this layer.

    It does in causal self attention. Cross attention and encoders have all keys from the start.
    None where a profile does not say what is causal.
    """
    if layer.kind != "self":
        return False
    causal: bool | None = getattr(layer, "causal", None)
    return causal


def by_part(profile: Profile) -> list[tuple[str, list[LayerSpectra]]]:
    """The layers of a profile in their order, by the parts of the model."""
    found = groupby(profile.layers, key=lambda layer: part_of(profile, layer))
    return [(part, [*layers]) for part, layers in found]
