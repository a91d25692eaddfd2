"""Opening a trained model from a folder or a hub: whole, finite, and without code of its own."""

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import torch
from torch import nn

from attnrate.errors import InputError, require_none
from attnrate.progress import QUIET, Progress
from attnrate.settings import Switch, by, checked
from attnrate.shown import Shown
from attnrate.spectra.batches import first_line, longest, not_finite, require_module
from attnrate.spectra.below import holds_compressed, open_compressed
from attnrate.spectra.checkpoint import gguf_file, local_folder, open_checkpoint, require_source
from attnrate.spectra.offloaded import (
    device_of,
    hold_by_blocks,
    is_on_disk,
    return_free_memory,
)
from attnrate.spectra.placement import (
    DeviceMap,
    Placement,
    Precision,
    as_placement,
    plain_name,
    require_folder,
    require_place,
)
from attnrate.spectra.pretrained import from_gguf, from_hub, from_safetensors, opening
from attnrate.training.checkpoint import holds_model, read_model

_TOKENIZERS = (
    *("tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model", "spiece.model"),
    *("sentencepiece.bpe.model", "tekken.json"),
)
_NO_TOKENIZER = "Put its tokenizer.json there, or pass token ids in an .npz file."


@dataclass(frozen=True, repr=False)
class LoadedModel(Shown):
    """A model opened from files, with what is needed to make inputs for it.

    Attributes:
        model: The torch module in evaluation mode, without the head of its task unless that was
            asked for.
        name: The name of its folder, or its id on the hub.
        folder: The folder with its files.
        longest: The largest number of tokens that it takes; None if there is no such limit.
        gguf: The name of its .gguf file; None if its weights are in safetensors files.

    Examples:
        >>> from transformers import BertConfig, BertModel
        >>> sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3}
        >>> BertModel(BertConfig(**sizes, vocab_size=50)).save_pretrained("tiny-bert")
        >>> loaded = ar.load_model("tiny-bert")
        >>> loaded
        tiny-bert: BertModel with ... parameters in float32 on cpu, from tiny-bert, at most ...
        >>> loaded.device, loaded.dtype
        (device(type='cpu'), torch.float32)

    """

    model: nn.Module
    name: str
    folder: Path
    longest: int | None
    gguf: str | None = None

    def __str__(self) -> str:
        count = sum(parameter.numel() for parameter in self.model.parameters())
        kind = type(self.model).__name__
        disk = " with weights on disk" if is_on_disk(self.model) else ""
        most = "" if self.longest is None else f", at most {self.longest:,} tokens"
        return (
            f"{self.name}: {kind} with {count:,} parameters in {plain_name(self.dtype)} on "
            f"{self.device}{disk}, from {self.folder}{most}"
        )

    @property
    def device(self) -> torch.device:
        """The device on which the model computes, also where its weights are on disk."""
        return device_of(self.model)

    @property
    def dtype(self) -> torch.dtype:
        """The number format in which the model computes: that of most of its numbers."""
        counts: Counter[torch.dtype] = Counter()
        for parameter in self.model.parameters():
            if parameter.is_floating_point():
                counts[parameter.dtype] += parameter.numel()
        return max(counts, key=counts.__getitem__, default=torch.float32)

    def tokenizer(self) -> Any:
        """The tokenizer of the model's folder.

        Returns:
            A tokenizer of transformers.

        Raises:
            InputError: The folder has no tokenizer, or none that transformers can open.

        """
        asked = {} if self.gguf is None else {"gguf_file": self.gguf}
        # without these files transformers makes an empty tokenizer for some families
        held = [name for name in _TOKENIZERS if (self.folder / name).is_file()]
        if not held and self.gguf is None:
            raise InputError("the model's folder has no tokenizer", str(self.folder), _NO_TOKENIZER)
        what = "the model's folder has no tokenizer that can be used"
        with opening(self.folder, what, _NO_TOKENIZER) as transformers:
            return transformers.AutoTokenizer.from_pretrained(
                self.folder, trust_remote_code=False, local_files_only=True, **asked
            )


ModelLike: TypeAlias = nn.Module | LoadedModel


def module_of(model: ModelLike) -> nn.Module:
    """The torch module of a model, whether it was opened by `load_model` or made by the user."""
    return model.model if isinstance(model, LoadedModel) else model


def require_model(name: str, value: object) -> ModelLike:
    """`value` itself, or an InputError when it is neither a torch module nor an opened model."""
    return value if isinstance(value, LoadedModel) else require_module(value)


@checked
def load_model(
    source: Annotated[str | os.PathLike[str], by(require_source)],
    *,
    device: Annotated[str | torch.device, by(require_place)] = "cpu",
    dtype: Precision = "float32",
    device_map: DeviceMap | None = None,
    offload: Annotated[str | os.PathLike[str] | None, by(require_folder)] = None,
    head: Switch = False,
) -> LoadedModel:
    """Open a trained model from a folder or from the Hugging Face hub.

    The folder has config.json and safetensors files, or one .gguf file, or it is a folder of
    `train` or of `Compressed.save`. Most need the package transformers. Nothing of the model's own
    code is run: pickled checkpoints and models that bring code are refused. So are models with
    tensors that are missing, which transformers would fill with random numbers, or not finite.

    Quantised checkpoints are opened by the package with which they were made. bitsandbytes needs a
    GPU; the numbers of a .gguf file are unpacked.

    Args:
        source: The path of the folder or of a weights file in it, or the id of a model on the hub,
            such as "sentence-transformers/all-MiniLM-L6-v2".
        device: Where the model computes: "cpu", "cuda", "cuda:1", "mps", or "auto" for a GPU if
            there is one.
        dtype: The number format of the weights. "auto" is that of the checkpoint: what its
            config.json says, or else the format of its first tensor; float32 for a .gguf file.
            Moments and spectra of a profile are computed in float64 in any case.
        device_map: "auto" lets the package accelerate spread the layers over the memory of the
            device (all GPUs if it is "cuda" or "auto"), then of the CPU, then the disk. None puts
            all weights on the device.
        offload: A folder, with `device_map`: weights that do not fit on a GPU stay on disk, on the
            CPU all weights. Each part is read when it runs and forgotten afterwards, so that a
            checkpoint can be larger than memory. Tensors are read from the checkpoint itself; only
            those that transformers has to change are written to the folder, and deleted when the
            model is no longer used.
        head: Whether the model is opened with the head of its task, as the class that config.json
            names: a language model then has `generate`. Attention needs no head, and checkpoints
            often come without. Folders of `train` and of `Compressed.save` always have what they
            were written with.

    Returns:
        The model with its name, its folder and its tokenizer, for `profile` and `read_text`.

    Raises:
        InputError: There is no such model, it is not whole, it cannot be opened safely, or this
            machine has no such device or cannot compute in that number format.

    Examples:
        >>> from transformers import BertConfig, BertModel
        >>> sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3}
        >>> BertModel(BertConfig(**sizes, vocab_size=50)).save_pretrained("tiny-bert")
        >>> ar.load_model("tiny-bert").longest
        512
        >>> ar.load_model("tiny-bert", device_map="auto", offload="on-disk")
        tiny-bert: BertModel with ... parameters in float32 on cpu with weights on disk, from ...

    """
    place = None if offload is None else Path(offload)
    placement = as_placement(torch.device(device), dtype, device_map, place)
    folder = local_folder(source)
    name = str(source) if folder is None else folder.resolve().name
    with Progress(f"opening {name}", after=QUIET):
        if folder is None:
            folder = from_hub(str(source))
        gguf = gguf_file(source, folder)
        if holds_model(folder):
            _require_together(placement, "a folder of attnrate train", folder)
            model = read_model(folder).to(placement.dtype or torch.float32)
        elif holds_compressed(folder):
            _require_together(placement, "a compressed model", folder)
            model = open_compressed(folder)
            model = model if placement.dtype is None else model.to(placement.dtype)
        elif gguf is None:
            model = from_safetensors(folder, open_checkpoint(folder), placement, head)
        else:
            _require_together(placement, "a .gguf file", gguf)
            model = from_gguf(gguf, placement.dtype or torch.float32)
        model = _on_device(model, placement)
        bad = not_finite(model)
    again = "Train or download the model again."
    narrow = "float16 ends at 65504: pass dtype=bfloat16 or dtype=float32."
    said = f"{len(bad)} tensors of the model hold nan or inf"
    require_none(said, bad[:5], narrow if placement.dtype is torch.float16 else again)
    return LoadedModel(
        model.eval(), name, folder, longest_of(model), None if gguf is None else gguf.name
    )


def _require_together(placement: Placement, what: str, path: Path) -> None:
    """Raise an InputError when the layers of a model that is read whole are to be spread."""
    if placement.spread:
        raise InputError(
            f"{what} is read into memory as a whole, so it does not go with a device map",
            str(path),
            "Leave out device_map and offload, or convert it to safetensors files.",
        )


def _on_device(model: nn.Module, placement: Placement) -> nn.Module:
    """The model on its device; where accelerate has spread it, it stays where it is."""
    if placement.spread:
        if is_on_disk(model):
            hold_by_blocks(model)
            return_free_memory(model)
        return model
    if getattr(model, "hf_quantizer", None) is not None:
        return model  # was opened there
    try:
        return model.to(placement.device)
    except torch.OutOfMemoryError as problem:
        raise InputError(
            f"the model does not fit into the memory of the device ({first_line(problem)})",
            str(placement.device),
            'Pass device_map ("auto"), which leaves some layers elsewhere, or dtype=bfloat16.',
        ) from None


def longest_of(model: nn.Module) -> int | None:
    """The largest number of tokens that a model takes, or None if there is no limit.

    It is the number of learned positions, or else what the model's config says.
    """
    learned = longest(model)
    config: Any = getattr(model, "config", None)
    if learned is not None or config is None:
        return learned
    text = config.get_text_config(decoder=True)
    for key in ("max_position_embeddings", "max_target_positions", "n_positions"):
        value = getattr(text, key, None)
        if isinstance(value, int):
            return value
    return None
