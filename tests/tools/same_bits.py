"""Whether two results are the same, bit for bit, in every field; and where they differ."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """The paths of all fields in which two things differ, in type, shape or any bit."""
    if type(one) is not type(other) and not (
        isinstance(one, Mapping) and isinstance(other, Mapping)
    ):
        return [path]
    if isinstance(one, torch.Tensor):
        return differences(one.numpy(), other.numpy(), path)
    if isinstance(one, np.ndarray):
        alike = one.dtype == other.dtype and one.shape == other.shape
        return [] if alike and one.tobytes() == other.tobytes() else [path]
    if is_dataclass(one):
        pairs = [(f.name, getattr(one, f.name), getattr(other, f.name)) for f in fields(one)]
        return [found for name, *two in pairs for found in differences(*two, f"{path}.{name}")]
    if isinstance(one, Mapping):
        if list(one) != list(other):
            return [path]
        return [at for name in one for at in differences(one[name], other[name], f"{path}[{name}]")]
    if isinstance(one, tuple | list):
        if len(one) != len(other):
            return [path]
        pairs = [(str(place), *two) for place, two in enumerate(zip(one, other, strict=True))]
        return [at for place, *two in pairs for at in differences(*two, f"{path}[{place}]")]
    return [] if one == other else [path]
