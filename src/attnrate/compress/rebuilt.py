"""Whether layers that are put together from the parts that were found do what the model's own do.

Which part makes what is found by comparing numbers, and thin modules are written for families. So
both are tried: all layers at their full size must leave the model's output as it is.
"""

from dataclasses import replace

from torch import nn

from attnrate.compress.fold import ThinLayer, places
from attnrate.compress.modules.llama import change_by
from attnrate.compress.projections import Found, Refusal
from attnrate.spectra.batches import Batch


def require_rebuilt(model: nn.Module, found: Found, batch: Batch) -> Found:
    """Take out the layers that, rebuilt at full size, change the model's output.

    Layers that are cut behind their norms are not tried here: they have a check of their own.

    Args:
        model: The model.
        found: Its layers whose projections are known.
        batch: The inputs on which it is tried.

    Returns:
        The layers that are the same, and all others with the reason. In all but odd models these
        are the layers that were found, and the model runs twice.

    Raises:
        InputError: There is no thin module for the family of a layer.

    """
    parts = {name: places(model, ThinLayer(own)) for name, own in found.projections.items()}
    tried = {n: own for n, own in parts.items() if not found.projections[n].behind}
    every = {path: part for own in tried.values() for path, part in own.items()}
    if not every or change_by(model, every, batch) is None:
        return found
    wrong = {name: change_by(model, own, batch) for name, own in tried.items()}
    lost = [
        Refusal(name, f"put together from its parts it changes the output by {far:.1e} of its size")
        for name, far in wrong.items()
        if far is not None
    ]
    away = {each.name for each in lost}
    kept = {name: own for name, own in found.projections.items() if name not in away}
    return replace(found, projections=kept, refused=(*found.refused, *lost))
