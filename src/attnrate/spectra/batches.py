"""Inputs as batches, and running a model on them as it stands."""

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from attnrate.errors import AttnrateError, InputError
from attnrate.spectra.capture import Adapter, Call, Edit, See, Site, require_call

Tensor = torch.Tensor
Batch = Mapping[str, Tensor] | Tensor
"""Tensors by the names of the model's arguments, or the model's one argument; inputs come first."""

_SHARED = ("mask", "src_mask", "tgt_mask", "memory_mask", "attn_mask")
_WAY_OUT = (
    "Pass a tensor, a dictionary of tensors by the names of the model's arguments, or batches of "
    "either one after another."
)


def batches(inputs: object) -> Iterator[Batch]:
    """One batch after another of what the user has given."""
    if isinstance(inputs, Mapping | Tensor | np.ndarray):
        yield _batch(inputs)
        return
    if isinstance(inputs, str | bytes) or not isinstance(inputs, Iterable):
        raise InputError("inputs are of no kind that a model takes", inputs, _WAY_OUT)
    found = False
    for each in inputs:
        found = True
        yield _batch(each)
    if not found:
        raise InputError("there are no inputs", inputs, _WAY_OUT)


def _batch(given: object) -> Batch:
    if isinstance(given, Mapping):
        named = {str(name): _tensor(value, str(name)) for name, value in given.items()}
        if not named:
            raise InputError("a batch has no entries", dict(given), _WAY_OUT)
        return named
    return _tensor(given, "inputs")


def _tensor(value: object, name: str) -> Tensor:
    if isinstance(value, np.ndarray) and value.dtype != object:
        value = torch.from_numpy(value)
    if not isinstance(value, Tensor):
        raise InputError(f"{name} must be a tensor", type(value).__name__, _WAY_OUT)
    if value.dim() == 0 or value.numel() == 0:
        raise InputError(f"{name} is empty, its shape", tuple(value.shape), _WAY_OUT)
    bad = ~torch.isfinite(value)
    if name.endswith("mask"):
        bad &= value != -torch.inf  # one that is added to logits hides by -inf
    if bool(bad.any()):
        place = bad.nonzero()[0].tolist()
        raise InputError(
            f"{name} has values that are not finite",
            f"{value[tuple(place)].item()} at {place}",
            "Leave such inputs out.",
        )
    return value


def require_module(model: object) -> nn.Module:
    """The model itself, or an InputError when it is none."""
    if not isinstance(model, nn.Module):
        raise InputError(
            "a model must be a torch.nn.Module",
            type(model).__name__,
            "For a folder or a hub id use `attnrate profile`, or load it first.",
        )
    return model


def not_finite(model: nn.Module) -> list[str]:
    """The names of the model's weights that hold nan or inf."""
    return [name for name, value in model.named_parameters() if not is_finite(value.detach())]


def is_finite(tensor: Tensor) -> bool:
    """Whether no number of a tensor is nan or inf.

    They survive in the extremes, so that nothing of the tensor's own size is made.
    """
    values = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return not values.numel() or bool(torch.isfinite(torch.stack(torch.aminmax(values))).all())


def size(batch: Batch) -> int:
    """How many inputs there are in a batch; entries of size 1 serve all of them."""
    if isinstance(batch, Tensor):
        return int(batch.shape[0])
    own = {name: value for name, value in batch.items() if not _for_all(name, value)}
    sizes = {name: int(value.shape[0]) for name, value in own.items()}
    most = max(sizes.values(), default=1)
    if any(one not in (1, most) for one in sizes.values()):
        raise InputError(
            "every entry of a batch needs the same number of inputs along its first axis",
            sizes,
            "Stack the inputs along it.",
        )
    return most


def _for_all(name: str, value: Tensor) -> bool:
    """Whether an entry is one of torch's masks (T, S), which all inputs share."""
    return name in _SHARED and value.dim() == 2


def pick(batch: Batch, inputs: list[int]) -> Batch:
    """Some inputs of a batch."""
    if isinstance(batch, Tensor):
        return batch[inputs]
    whole = size(batch)
    return {
        name: value if value.shape[0] == 1 < whole or _for_all(name, value) else value[inputs]
        for name, value in batch.items()
    }


def kept(batch: Batch, stream: str | None) -> Tensor | None:
    """Which tokens of a batch are no padding: (inputs, T), by the entry of that name."""
    if stream is None or isinstance(batch, Tensor) or stream not in batch:
        return None
    mask = batch[stream]
    if mask.dim() == 4:
        # a token that no query may look at is padding
        seen = mask > torch.finfo(mask.dtype).min / 2 if mask.is_floating_point() else mask.bool()
        return seen.flatten(1, 2).any(1)
    return mask.bool() if mask.dim() == 2 else None


def run(model: nn.Module, batch: Batch) -> Any:
    """What the model makes of a batch, on its own device and with no cache.

    Models that draw random numbers when they only look (MAE drops patches) draw the same ones in
    every run, and the caller's come back afterwards.
    """
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    given: dict[str, Tensor] = {"inputs": batch} if isinstance(batch, Tensor) else dict(batch)
    placed: dict[str, Any] = {name: value.to(device) for name, value in given.items()}
    _check_length(model, placed)
    takes = inspect.signature(model.forward).parameters
    if not isinstance(batch, Tensor) and "use_cache" in takes and "use_cache" not in placed:
        placed["use_cache"] = False
    try:
        with _same_random_numbers(device):
            return model(placed["inputs"]) if isinstance(batch, Tensor) else model(**placed)
    except AttnrateError:
        raise
    except (TypeError, ValueError, IndexError, RuntimeError) as problem:
        if isinstance(problem, torch.OutOfMemoryError) or "allocate memory" in str(problem):
            raise NotEnoughMemoryError(
                f"the memory does not suffice for a batch of {size(batch)} inputs "
                f"({first_line(problem)}). Take fewer at a time."
            ) from problem
        raise InputError(
            f"the model could not be run on these inputs ({first_line(problem)}); their shapes",
            {name: tuple(value.shape) for name, value in given.items()},
            f"It takes {', '.join(takes)}.",
        ) from problem


class NotEnoughMemoryError(AttnrateError):
    """A batch that is too large for the device."""


def first_line(problem: Exception) -> str:
    """The first line of what a library says of a problem, or else the name of its kind."""
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]


@contextmanager
def _same_random_numbers(device: torch.device) -> Iterator[None]:
    cuda = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        torch.default_generator.manual_seed(0)
        if cuda:
            torch.cuda.manual_seed(0)
        yield


def longest(model: nn.Module) -> int | None:
    """How many tokens a model with learned positions takes; None if there is no such limit."""
    for name, part in model.named_modules():
        if name.rpartition(".")[2] in ("position_embeddings", "wpe") and isinstance(
            part, nn.Embedding
        ):
            # RoBERTa and MPNet count positions from behind their padding index.
            first_used = 0 if part.padding_idx is None else part.padding_idx + 1
            return part.num_embeddings - first_used
    return None


def _check_length(model: nn.Module, named: Mapping[str, Tensor]) -> None:
    if "input_ids" not in named:
        return
    tokens, most = int(named["input_ids"].shape[-1]), longest(model)
    if most is not None and tokens > most:
        raise InputError(
            f"the inputs are longer than the model's {most} positions", tokens, "Cut them shorter."
        )


@dataclass(frozen=True)
class Watched:
    """A model with those of its attention layers that are looked at, and how."""

    model: nn.Module
    adapter: Adapter
    sites: Sequence[Site]

    def see(self, batch: Batch, see: See) -> set[str]:
        """Run the model at rest and hand over the first call of each site.

        Returns the names of those that were called once more.
        """
        seen: set[str] = set()
        repeated: set[str] = set()
        failed: list[Exception] = []

        def first(site: Site, call: Call) -> None:
            if site.name in seen:
                repeated.add(site.name)
                return
            seen.add(site.name)
            try:
                see(site, require_call(site, call))
            except Exception as problem:
                failed.append(problem)
                raise

        try:
            self.run(batch, first)
        except InputError:
            # what went wrong in looking is not the inputs' fault
            if failed:
                raise failed[0] from None
            raise
        return repeated

    def run(self, batch: Batch, see: See | None = None, edit: Edit | None = None) -> Any:
        """What the model gives at rest, while calls go to `see` and queries through `edit`."""
        with at_rest(self.model), self.adapter.watch(self.model, list(self.sites), see, edit):
            return run(self.model, batch)


@contextmanager
def at_rest(model: nn.Module) -> Iterator[None]:
    """In evaluation mode and without gradients; every part's own mode comes back afterwards."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, training in modes:
            part.training = training
