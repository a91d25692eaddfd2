"""Models whose weights are not in memory: where they compute, and their weights one at a time.

accelerate can leave the weights of a model on disk. Between two runs the parameters of such parts
are on torch's device "meta", which has shapes and no numbers. A hook reads the weights of each part
just before the part runs, and forgets them just after.
"""

import ctypes
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from attnrate.errors import InputError

Tensor = torch.Tensor
#: Parts outside all blocks with at most this many bytes of weights stay in memory
_SMALL = 2**24
#: glibc's number of the setting, in bytes, and its values: ours, and what glibc itself rises to
_MMAP_THRESHOLD = -3
_LARGE, _USUAL = 2**20, 2**25
#: A function that reads one weight from disk
_Reader = Callable[[], Tensor]


def device_of(model: nn.Module) -> torch.device:
    """The device on which a model takes its inputs.

    An InputError when some of its weights have never been loaded: they are on the device "meta",
    and no hook of accelerate reads them from disk.
    """
    first = next((value.device for value in model.parameters()), torch.device("cpu"))
    if not any(value.is_meta for value in model.parameters()):
        return first
    stored = _stored(model)
    lacking = [name for name, value in model.named_parameters() if value.is_meta]
    lacking = [name for name in lacking if name not in stored]
    if lacking:
        raise InputError(
            f"this model is on no device (meta): {len(lacking)} of its weights have shapes but no "
            "numbers, the first ones",
            lacking[:3],
            "Load its weights, for instance with attnrate.load_model.",
        )
    places = (hook.execution_device for part in model.modules() for hook in _hooks(part))
    return torch.device(next(place for place in places if place is not None))


def is_on_disk(model: nn.Module) -> bool:
    """Whether some weights of a model are on disk and are read when they are needed."""
    return bool(_stored(model))


def weights(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The weights of a model by name; those on disk are read one at a time."""
    stored = _stored(model)
    for name, value in model.named_parameters():
        yield name, stored[name]() if name in stored else value.detach()


def hold_by_blocks(model: nn.Module) -> None:
    """Let the weights of each block be read together, and keep small ones outside in memory.

    accelerate reads the weights of each module when that module is called. Some modules use weights
    of their parts without calling these: torch.nn.MultiheadAttention, the relative positions of
    DeBERTa. They would have no numbers.
    """
    from accelerate.hooks import (  # type: ignore[import-untyped]
        AlignDevicesHook,
        add_hook_to_module,
        remove_hook_from_module,
    )

    for block in _blocks(model):
        stored = _stored(block)
        hooks = [hook for part in block.modules() for hook in _hooks(part) if hook.offload]
        if hooks and len(stored) == sum(1 for _ in block.parameters()):
            remove_hook_from_module(block, recurse=True)
            whole = AlignDevicesHook(
                execution_device=hooks[0].execution_device,
                offload=True,
                weights_map=_Read(stored),
                place_submodules=True,
                skip_keys=hooks[0].skip_keys,
            )
            add_hook_to_module(block, whole)
    _keep_small_parts(model)


def return_free_memory(model: nn.Module) -> None:
    """Let large blocks of memory go back to the system as soon as they are free, while it runs.

    The allocator of the C library keeps freed blocks of up to 32 MB to itself, in pieces that often
    do not fit again. For MPNet that can be more than its weights (benchmarks/profile.py memory).
    Where the library has no such setting, nothing is changed.
    """
    keep = _setting_of_blocks()
    if keep is None:
        return
    model.register_forward_pre_hook(lambda *_: keep(_LARGE))
    model.register_forward_hook(lambda *_: keep(_USUAL), always_call=True)


class _Read(Mapping[str, Tensor]):
    """The weights of a block by their names within it, each read from disk when it is asked for."""

    def __init__(self, stored: dict[str, _Reader]) -> None:
        self._stored = stored

    def __getitem__(self, name: str) -> Tensor:
        return self._stored[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)


def _blocks(model: nn.Module) -> Iterator[nn.Module]:
    """The layers of a model, which are read as a whole: the outermost ones where they are nested.

    They are what transformers says must not be split, and the members of lists of modules.
    """
    whole = getattr(model, "_no_split_modules", None) or ()
    found: list[str] = []
    for place, part in model.named_modules():
        parent = model.get_submodule(place.rpartition(".")[0])
        listed = isinstance(parent, nn.ModuleList) or type(part).__name__ in whole
        if place and listed and not any(place.startswith(f"{one}.") for one in found):
            found.append(place)
            yield part


def _keep_small_parts(model: nn.Module) -> None:
    """Read those parts outside all blocks into memory whose weights are small."""
    made: dict[int, nn.Parameter] = {}
    for part in model.modules():
        for hook in _hooks(part):
            held = dict(part.named_parameters(recurse=False))
            size = sum(value.nbytes for value in held.values())
            if not hook.offload or hook.place_submodules or size > _SMALL:
                continue
            for name, value in held.items():
                if id(value) not in made:  # one tensor may be a weight of several parts
                    read = hook.weights_map[name].to(hook.execution_device)
                    made[id(value)] = nn.Parameter(read, requires_grad=False)
                part.register_parameter(name, made[id(value)])
            hook.offload = False


def _setting_of_blocks() -> Callable[[int], None] | None:
    """A function that sets from which size on freed blocks go back to the system at once.

    None where the C library has none: only glibc does.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return None

    def keep(size: int) -> None:
        mallopt(ctypes.c_int(_MMAP_THRESHOLD), ctypes.c_int(size))

    return keep


def _hooks(part: nn.Module) -> list[Any]:
    """The hooks by which accelerate moves the weights of a part; mostly none or one."""
    hook = getattr(part, "_hf_hook", None)
    found = getattr(hook, "hooks", (hook,))
    return [each for each in found if hasattr(each, "execution_device")]


def _stored(model: nn.Module) -> dict[str, _Reader]:
    """Those weights of a model that are not in memory, by their names: how each is read."""
    found: dict[str, _Reader] = {}
    for place, part in model.named_modules():
        for hook in _hooks(part):
            if not hook.offload:
                continue
            for key, value in part.named_parameters(recurse=hook.place_submodules):
                if value.is_meta:
                    found[f"{place}.{key}" if place else key] = partial(
                        hook.weights_map.__getitem__, key
                    )
    return found
