"""Where a model is opened: its device, its number format, and which weights stay on disk."""

import os
import shutil
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch
from torch import nn

from attnrate.errors import InputError
from attnrate.extras import is_installed, missing
from attnrate.files import safe_name
from attnrate.fitting.device import as_device

Precision: TypeAlias = Literal["auto", "float32", "bfloat16", "float16"]
DeviceMap: TypeAlias = Literal["auto"]
#: The share of the free memory of a device that weights may take; inputs need the rest
_SHARE = 0.9


@dataclass(frozen=True)
class Placement:
    """Where a model is to be opened.

    Attributes:
        device: The device on which it computes. "cuda" without a number stands for all GPUs where
            the layers are spread.
        dtype: The number format of its weights; None for that of the checkpoint.
        spread: Whether accelerate decides which layers are where.
        offload: The folder for weights that do not stay in memory; None keeps as many in memory as
            there is room for.

    """

    device: torch.device
    dtype: torch.dtype | None
    spread: bool = False
    offload: Path | None = None

    def options(self) -> dict[str, Any]:
        """The arguments of transformers' `from_pretrained` that spread the layers."""
        if not self.spread:
            return {}
        if self.offload is not None and self.device.type == "cpu":
            return {"device_map": {"": "disk"}}
        return {"device_map": "auto", "max_memory": self._memory()}

    def _memory(self) -> dict[int | str, int]:
        """How many bytes of weights each device may hold."""
        from accelerate.utils import get_max_memory  # type: ignore[import-untyped]

        free: dict[int | str, int] = get_max_memory()
        kind, number = self.device.type, self.device.index
        gpus = [key for key in free if isinstance(key, int) and number in (None, key)]
        allowed = ["cpu", *(gpus if kind == "cuda" else [kind])]
        found = {key: int(_SHARE * size) for key, size in free.items() if key in allowed}
        return found if self.offload is None else found | {"cpu": 0}


def as_placement(
    device: torch.device,
    dtype: Precision,
    device_map: DeviceMap | None,
    offload: Path | None,
) -> Placement:
    """The placement that was asked for; an InputError for what does not go together."""
    if offload is not None and device_map is None:
        raise InputError(
            "offload needs a device map, which leaves weights on disk",
            str(offload),
            'Pass device_map ("auto") as well.',
        )
    if device_map is not None and not is_installed("accelerate"):
        raise missing("accelerate", "hf", "a device map", device_map, "Leave device_map out")
    wanted = None if dtype == "auto" else getattr(torch, dtype)
    if wanted is not None:
        require_computes(device, wanted)
    if offload is not None:
        _require_writable(offload)
    return Placement(device, wanted, device_map is not None, offload)


def require_place(name: str, value: object) -> torch.device:
    """The device that `value` names; an InputError when torch cannot compute on it here.

    "auto" is a GPU if there is one, else Apple's GPU, else the CPU.
    """
    if value == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    found = as_device(value)
    if found.type == "meta":
        raise InputError(
            f"{name} must hold numbers, and {{value}} holds shapes alone", "meta", "Pass 'cpu'."
        )
    # as it was written: "cuda" without a number is all of them where layers are spread
    return torch.device(value) if isinstance(value, str | torch.device) else found


def require_folder(name: str, value: object) -> Path | None:
    """`value` as the path of a folder, or None; an InputError for anything else."""
    if value is None:
        return None
    if not isinstance(value, str | os.PathLike) or not str(value):
        raise InputError(f"{name} must be the path of a folder", value, "Pass a folder's path.")
    return Path(value).expanduser()


def require_computes(device: torch.device, dtype: torch.dtype) -> None:
    """Raise an InputError when a device cannot compute attention in a number format."""
    try:
        ones = torch.ones(2, 2, dtype=dtype, device=device)
        nn.functional.layer_norm((ones @ ones).softmax(-1), (2,))
    except (RuntimeError, TypeError) as problem:
        name = plain_name(dtype)
        raise InputError(
            f"the device {str(device)!r} cannot compute in the number format of this request, "
            f"{{value}} ({str(problem).strip().splitlines()[0][:120]})",
            name,
            "Pass dtype=float32, or another device.",
        ) from None


def plain_name(dtype: torch.dtype) -> str:
    """The name of a number format, as "float32"."""
    return str(dtype).removeprefix("torch.")


def own_folder(offload: Path, name: str) -> Path:
    """A new folder within `offload` for weights that have to be written anew for one model."""
    offload.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{safe_name(name)}-", dir=offload))


def remove_with(model: nn.Module, folder: Path) -> None:
    """Delete a folder when a model is no longer used or the program ends; an empty one now."""
    if any(folder.iterdir()):
        weakref.finalize(model, shutil.rmtree, folder, ignore_errors=True)
    else:
        folder.rmdir()


def _require_writable(folder: Path) -> None:
    """Raise an InputError when a folder cannot be made or written to; nothing is made yet."""
    place = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as problem:
        raise InputError(
            f"offload must be a folder that can be written to ({problem.strerror})",
            str(folder),
            "Pass another folder.",
        ) from None
