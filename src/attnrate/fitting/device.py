"""The device that a model is trained on: the CPU unless another is asked for."""

import torch

from attnrate.errors import InputError


def as_device(device: object) -> torch.device:
    """The device of that name, if it is in this machine."""
    try:
        found = torch.empty(0, device=device)  # type: ignore[call-overload]
    except (RuntimeError, TypeError, AssertionError) as problem:
        raise InputError(
            "device is not known to torch, or not in this machine", device, "Pass 'cpu' or 'cuda'."
        ) from problem
    return torch.device(found.device)
