"""Inputs of a model as batches, and running the model on them without changing it."""

import inspect
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from torch import nn

from attnrate.errors import AttnrateError, InputError
from attnrate.models.decoding import Translator
from attnrate.spectra.inputs.kinds import Texts, Values, require_not_single
from attnrate.spectra.offloaded import device_of, weights

Tensor = torch.Tensor
Batch: TypeAlias = Mapping[str, Tensor] | Tensor
"""Some inputs of a model: tensors by the names of its arguments, or the tensor that is its only
argument. The first axis of each tensor counts the inputs."""

BatchLike: TypeAlias = Mapping[str, Values] | Values
Inputs: TypeAlias = BatchLike | Iterable[BatchLike] | Iterable[Sequence[Values]] | Texts
"""Inputs on which a model is run: batches, or texts that become batches.

- A batch is a dictionary of tensors or numpy arrays by the names of the model's arguments (what a
  tokenizer of transformers returns), or a single tensor or array for a model with one argument. The
  first axis of each counts the inputs.
- Several batches are a list, a DataLoader, a generator or what `read_text` and its like return;
  each batch is used once, in its turn, and all have the same names. Of a batch (x, label) the first
  entry is taken if the model takes one argument; with several arguments, name them.
- `Texts` are strings, chats, or rows of a dataset, which go through `read_texts`. They need the
  tokenizer of a model that `load_model` has opened.
"""

_SHARED = ("mask", "src_mask", "tgt_mask", "memory_mask", "attn_mask")
# What a batch of text may come with: pictures and sound of all inputs, one after another
_PACKED = re.compile("pixel|image|video|audio|input_features|feature_attention")
_MAIN = ("input_ids", "inputs_embeds", "decoder_input_ids")
_WAY_OUT = (
    "Pass a tensor, a dictionary of tensors by the names of the model's arguments, batches of "
    "either one after another, or texts."
)


def require_inputs(name: str, inputs: object) -> Inputs:
    """`inputs` itself, or an InputError when it cannot be inputs of any model."""
    require_not_single(name, inputs)
    if not isinstance(inputs, Iterable):
        raise InputError(f"{name} are of no kind that a model takes", inputs, _WAY_OUT)
    return inputs


def count_of(inputs: Inputs) -> int | None:
    """The number of batches in `inputs`; None where it is known only at the end."""
    if isinstance(inputs, Mapping | Tensor | np.ndarray):
        return 1
    return operator.length_hint(inputs) or None


def batches(inputs: Inputs) -> Iterator[Batch]:
    """The batches of `inputs` as tensors, one after another.

    An InputError when there are none, when their source breaks off, and when a batch has other
    entries than the first.
    """
    if isinstance(inputs, Mapping | Tensor | np.ndarray):
        yield _batch(inputs)
        return
    names: list[str] | None = None
    if isinstance(inputs, Sequence):  # all can be seen before the work begins
        for number, each in enumerate(inputs):
            names = _same_names(names, each, number)
    rest, done = iter(inputs), 0
    while True:
        try:
            given = next(rest)
        except StopIteration:
            break
        except (AttnrateError, MemoryError):
            raise
        except Exception as problem:
            said = f"{type(problem).__name__}: {first_line(problem)}"
            raise InputError(
                f"the inputs broke off after {{value}} batches ({said})",
                done,
                "Repair their source.",
            ) from problem
        names = _same_names(names, given, done)
        yield _batch(given)
        done += 1
    if not done:
        way_out = "Pass at least one batch; a generator gives its batches once, so make it anew."
        raise InputError("there are no inputs", 0, way_out)


def _same_names(names: list[str] | None, batch: object, number: int) -> list[str]:
    """The names of a batch's entries, none for a tensor; an InputError where they have changed."""
    found = [str(name) for name in batch] if isinstance(batch, Mapping) else []
    if names is not None and {*found} != {*names}:
        said = {"lacks": [*{*names} - {*found}], "adds": [*{*found} - {*names}]}
        shown = " and ".join(f"{word} {', '.join(sorted(s))}" for word, s in said.items() if s)
        raise InputError(
            f"batch {number} (the first is 0) has other entries than the first: it {shown}",
            found or "a tensor without a name",
            "Give all batches the same entries.",
        )
    return found if names is None else names


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
        bad &= value != -torch.inf  # a mask that is added to the logits hides tokens by -inf
    if bool(bad.any()):
        place = bad.nonzero()[0].tolist()
        raise InputError(
            f"{name} has values that are not finite",
            f"{value[tuple(place)].item()} at {place}",
            "Leave such inputs out.",
        )
    return value


def require_module(model: object) -> nn.Module:
    """`model` itself, or an InputError when it is no torch module."""
    if not isinstance(model, nn.Module):
        raise InputError(
            "a model must be a torch.nn.Module",
            type(model).__name__,
            "Open a folder or a hub id with attnrate.load_model first.",
        )
    return model


def not_finite(model: nn.Module) -> list[str]:
    """The names of the model's weights that hold nan or inf; those on disk are read one by one."""
    found = []
    for name, value in weights(model):
        if not is_finite(value):
            found.append(name)
        del value  # before the next one is read
    return found


def is_finite(tensor: Tensor) -> bool:
    """Whether all numbers of a tensor are finite.

    Only the least and the largest number are looked at, because nan and inf show in them; so no
    second tensor of the same size is made.
    """
    values = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    if values.is_floating_point() and values.itemsize == 1:  # formats of 8 bits have no order
        values = values.to(torch.bfloat16)
    return not values.numel() or bool(torch.isfinite(torch.stack(torch.aminmax(values))).all())


def size(batch: Batch) -> int:
    """The number of inputs in a batch; an entry with one row serves all inputs."""
    if isinstance(batch, Tensor):
        return int(batch.shape[0])
    own = {name: value for name, value in batch.items() if not _for_all(name, value)}
    if any(name in own for name in _MAIN):
        own = {name: value for name, value in own.items() if not _PACKED.match(name)} or own
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


def is_separable(batch: Batch) -> bool:
    """Whether the inputs of a batch can be taken apart: all of its entries have one row for each.

    Pictures of several inputs that are packed into one long sequence cannot.
    """
    if isinstance(batch, Tensor):
        return True
    whole = size(batch)
    rows = (value.shape[0] for name, value in batch.items() if not _for_all(name, value))
    return all(one in (1, whole) for one in rows)


def pick(batch: Batch, inputs: list[int]) -> Batch:
    """The batch of those inputs whose numbers are given; the whole batch where that is all."""
    if isinstance(batch, Tensor):
        return batch[inputs]
    whole = size(batch)
    if len(inputs) == whole:
        return batch
    return {
        name: value if value.shape[0] == 1 < whole or _for_all(name, value) else value[inputs]
        for name, value in batch.items()
    }


def kept(batch: Batch, stream: str | None) -> Tensor | None:
    """Which tokens of a batch are no padding, as (inputs, T).

    `stream` is the name of the mask in the batch. None means that every token counts.
    """
    if stream is None or isinstance(batch, Tensor) or stream not in batch:
        return None
    mask = batch[stream]
    if mask.dim() == 4:
        # a token is padding if no query may attend to it
        seen = mask > torch.finfo(mask.dtype).min / 2 if mask.is_floating_point() else mask.bool()
        return seen.flatten(1, 2).any(1)
    return mask.bool() if mask.dim() == 2 else None


def words(model: Translator, batch: Mapping[str, Tensor], side: str) -> Tensor | None:
    """Which tokens of a translator's source or target are no padding; None without that entry."""
    return None if side not in batch else batch[side] != model.specials.pad


def padding(model: nn.Module, batch: Batch, shape: tuple[int, ...]) -> Tensor | None:
    """Which tokens of an output of that shape (inputs, T) are no padding; None where all count.

    A model with a decoder gives something for each token of that, whatever the length of the other
    sequence. A `Translator` knows padding by the number of its token.
    """
    named = [] if isinstance(batch, Tensor) else [*batch]
    decodes = any(name.startswith("decoder_") for name in named)
    if isinstance(model, Translator) and not isinstance(batch, Tensor):
        found = words(model, batch, "target")
    else:
        found = kept(batch, "decoder_attention_mask" if decodes else "attention_mask")
    return found if found is not None and tuple(found.shape) == shape else None


def run(model: nn.Module, batch: Batch) -> Any:
    """The model's output for a batch, computed on the model's device and without a cache of keys.

    A model that draws random numbers in evaluation (MAE drops patches) draws the same ones in every
    run. The state of the caller's generator is restored afterwards.
    """
    given: dict[str, Tensor] = {"inputs": batch} if isinstance(batch, Tensor) else dict(batch)
    there: dict[str, Any] = dict(cast(Mapping[str, Tensor], placed(model, given)))
    _check_length(model, there)
    takes = inspect.signature(model.forward).parameters
    if not isinstance(batch, Tensor) and "use_cache" in takes and "use_cache" not in there:
        there["use_cache"] = False
    try:
        with same_random_numbers(device_of(model)):
            return model(there["inputs"]) if isinstance(batch, Tensor) else model(**there)
    except AttnrateError:
        raise
    except (TypeError, ValueError, IndexError, RuntimeError) as problem:
        if isinstance(problem, torch.OutOfMemoryError) or "allocate memory" in str(problem):
            raise NotEnoughMemoryError(
                f"there is not enough memory for a batch of {size(batch)} inputs "
                f"({first_line(problem)}). Take fewer at a time."
            ) from problem
        raise InputError(
            f"the model could not be run on these inputs ({first_line(problem)}); their shapes",
            {name: tuple(value.shape) for name, value in given.items()},
            f"It takes {', '.join(takes)}.",
        ) from problem


class NotEnoughMemoryError(AttnrateError):
    """A batch needs more memory than the device has."""


def first_line(problem: Exception) -> str:
    """The first line of an exception's message, or the name of its class if it has no message."""
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]


def placed(model: nn.Module, batch: Batch) -> Batch:
    """The batch on the device on which a model computes.

    For a model of half precision, numbers of the batch come in that format, as its weights do.
    """
    device, half = device_of(model), _half(model)

    def there(value: Tensor) -> Tensor:
        return value.to(device, half if value.is_floating_point() else None)

    if isinstance(batch, Tensor):
        return there(batch)
    return {name: there(value) for name, value in batch.items()}


def _half(model: nn.Module) -> torch.dtype | None:
    """The number format of a model of half precision, by its first weight; None for any other."""
    first = next((p.dtype for p in model.parameters() if p.is_floating_point()), None)
    return first if first in (torch.bfloat16, torch.float16) else None


@contextmanager
def same_random_numbers(device: torch.device) -> Iterator[None]:
    """While it is open, torch draws the same random numbers each time; then those of the caller."""
    cuda = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        torch.default_generator.manual_seed(0)
        if cuda:
            torch.cuda.manual_seed(0)
        yield


def longest(model: nn.Module) -> int | None:
    """The number of learned positions of a model, which limits its tokens; None without any."""
    for name, part in model.named_modules():
        if name.rpartition(".")[2] in ("position_embeddings", "wpe") and isinstance(
            part, nn.Embedding
        ):
            # RoBERTa and MPNet count positions from the one after their padding index.
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


@contextmanager
def at_rest(model: nn.Module) -> Iterator[None]:
    """While it is open, the model is in evaluation mode and without gradients.

    Afterwards each part of the model is in the mode in which it was before.
    """
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, training in modes:
            part.training = training
