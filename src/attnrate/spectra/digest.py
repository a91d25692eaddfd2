"""Short names of weights and of inputs, by which a model or a batch is known again."""

import hashlib

import numpy as np
import torch
from torch import nn

from attnrate.spectra.batches import Batch

Tensor = torch.Tensor
#: The values of each parameter that are looked at, spread evenly over it
_VALUES = 64


def weights_digest(model: nn.Module) -> str | None:
    """A digest of a model's parameters: their names, their shapes and some values of each.

    Only about 64 values of each parameter are looked at, as float64, so that it takes milliseconds
    and does not depend on the number format in which weights are held, unless that rounds them.

    Args:
        model: The model.

    Returns:
        64 hexadecimal digits; None where some weights are not in memory, or in a format of their
        own that shows no values.

    """
    found = hashlib.sha256()
    for name, value in model.named_parameters():
        if value.is_meta or nn.parameter.is_lazy(value):
            return None
        found.update(f"{name!r} {tuple(value.shape)}\n".encode("utf-8", "replace"))
        try:
            found.update(_some_values(value.detach()))
        except (NotImplementedError, RuntimeError, TypeError):
            return None
    return found.hexdigest()


def _some_values(parameter: Tensor) -> bytes:
    flat = parameter.reshape(-1)
    if not len(flat):
        return b""
    places = np.linspace(0, len(flat) - 1, min(_VALUES, len(flat))).round().astype(np.int64)
    picked = flat[torch.from_numpy(places).to(flat.device)].cpu()
    wide = torch.view_as_real(picked) if picked.is_complex() else picked
    return wide.to(torch.float64).numpy().tobytes()


def formats_of(model: nn.Module) -> list[str]:
    """The number formats of a model's parameters and the kinds of devices that hold them."""
    return sorted({f"{value.dtype} {value.device.type}" for value in model.parameters()})


def batch_digest(batch: Batch, held: list[int]) -> bytes:
    """A digest of all numbers of a batch, and of which inputs are held out: 32 bytes."""
    found = hashlib.sha256(repr(held).encode())
    named = {"": batch} if isinstance(batch, Tensor) else batch
    for name in sorted(named):
        value = named[name].detach().cpu().contiguous()
        found.update(f"{name!r} {value.dtype} {tuple(value.shape)}\n".encode("utf-8", "replace"))
        found.update(value.view(-1).view(torch.uint8).numpy().data)
    return found.digest()
