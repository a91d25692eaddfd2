"""What a model must be before its heads are cut: finite, in memory, on a device with float64."""

import torch
from torch import nn

from attnrate.errors import InputError, require_none
from attnrate.spectra import batches
from attnrate.spectra.batches import Batch, is_finite
from attnrate.spectra.check import output_of
from attnrate.spectra.offloaded import device_of, is_on_disk


def require_sound(model: nn.Module, batch: Batch) -> None:
    """Raise an InputError where a model cannot be cut whatever its layers are.

    Args:
        model: The model.
        batch: Some inputs, on which it is run once.

    Raises:
        InputError: Some weights are on disk, the device has no numbers in float64, or weights or
            outputs are not finite.

    """
    kind = type(model).__name__
    if is_on_disk(model):
        raise InputError(
            "a model some of whose weights are on disk cannot be cut, since new weights are made "
            "from those in memory",
            kind,
            "Open it without device_map and offload; dtype=bfloat16 takes half the memory.",
        )
    if device_of(model).type == "mps":
        raise InputError(
            "heads cannot be cut on Apple's GPU, which has no numbers in float64",
            "mps",
            "Pass device=cpu; a live module is moved by model.to('cpu').",
        )
    broken = batches.not_finite(model)
    require_none(
        f"{len(broken)} tensors of the model hold nan or inf, so that it cannot be cut",
        broken[:5],
        "Train or download the model again.",
    )
    with batches.at_rest(model), torch.no_grad():
        made = output_of(batches.run(model, batch))
    if not is_finite(made.detach()):
        raise InputError(
            "the outputs of this {value} hold nan or inf, so that no change of them can be "
            "measured",
            kind,
            "Look at the inputs, or open it in a wider number format (dtype=float32).",
        )
