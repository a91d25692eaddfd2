"""Writing a compressed model, and opening it again in a fresh process before it is called done."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from attnrate.compress.compress import projections_of
from attnrate.compress.export_llama import export_llama
from attnrate.compress.export_onnx import export_onnx
from attnrate.compress.fold import path_of
from attnrate.compress.generation import write_generation
from attnrate.compress.modules.llama import ThinLlamaAttention
from attnrate.compress.modules.maps import maps_of
from attnrate.compress.modules.normed import ThinNormedAttention, normed_parts
from attnrate.compress.opened import (
    FORMAT,
    OWN,
    SETTINGS,
    WEIGHTS,
    ContentShape,
    LinearShape,
    plain,
)
from attnrate.compress.result import Compressed, Format
from attnrate.compress.trial import change, outputs
from attnrate.compress.written import copy_tokenizer, run_fresh, write_checked, write_config
from attnrate.errors import InputError, StoreError
from attnrate.files import write_whole
from attnrate.progress import QUIET, Progress
from attnrate.spectra.batches import Batch

Tensor = torch.Tensor
_OPEN = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
from pathlib import Path
torch.set_num_threads(1)
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from attnrate.compress.opened import open_folder
from attnrate.compress.trial import outputs
given = load_file(sys.argv[3])
batch = given[""] if "" in given else given
made = outputs(open_folder(Path(sys.argv[2])), [batch])[0]
save_file({"made": made.contiguous()}, sys.argv[4])
"""


def save_compressed(done: Compressed, folder: Path, format: Format) -> Path:
    """Write a compressed model into a new folder, open it in a fresh process, and compare.

    Args:
        done: The compressed model.
        folder: The folder; there must be nothing yet.
        format: How it is written.

    Returns:
        The folder.

    Raises:
        InputError: The folder exists, or the format cannot hold the model.
        ExportError: The files give other outputs; they are kept apart.
        StoreError: The files could not be written.

    """
    if folder.exists():
        raise InputError(
            "the folder of a compressed model must be new", str(folder), "Name another folder."
        )
    try:
        with Progress("writing the model and opening it again", after=QUIET):
            if format == "llama":
                _llama(done, folder)
            elif format == "onnx":
                export_onnx(done, folder)
            else:
                _own(done, folder)
    except (OSError, SafetensorError) as problem:
        said = getattr(problem, "strerror", None) or problem
        raise StoreError(
            f"the compressed model could not be written ({said})",
            folder,
            "Make room, or check who may write there, and save it again.",
        ) from problem
    return folder


def _own(done: Compressed, folder: Path) -> None:
    """Attnrate's own format."""
    settings = plain(_settings(done))
    write_checked(
        done.model,
        folder,
        lambda fresh: _write(done, settings, fresh),
        lambda fresh: difference(done.model, fresh, done.trial),
    )


def _write(done: Compressed, settings: Mapping[str, Any], folder: Path) -> None:
    tensors: dict[str, Tensor] = {}
    same: dict[str, str] = {}
    first: dict[tuple[int, tuple[int, ...]], str] = {}
    for name, value in done.model.state_dict(keep_vars=True).items():
        other = first.setdefault((id(value), tuple(value.shape)), name)
        if other == name:
            tensors[name] = value.detach().cpu().contiguous()
        else:
            same[name] = other
    said = json.dumps({**settings, "same": same}, indent=1) + "\n"
    write_whole(folder / SETTINGS, said.encode())
    save_file(tensors, folder / WEIGHTS, {"format": "pt"})
    # it makes files that only their owner reads
    (folder / WEIGHTS).chmod((folder / SETTINGS).stat().st_mode)
    write_config(done.model, folder)
    write_generation(done.model, folder)
    copy_tokenizer(done.folder, folder)


def difference(model: nn.Module, folder: Path, batch: Batch) -> float:
    """By how much the model of a folder, opened in a fresh process, differs on some inputs.

    Args:
        model: The model that was written.
        folder: The folder, in attnrate's own format.
        batch: The inputs.

    Returns:
        The size of the difference of outputs over their size.

    Raises:
        ExportError: The folder cannot be opened.

    """
    named = {"": batch} if isinstance(batch, Tensor) else batch
    with TemporaryDirectory() as place:
        given, made = Path(place) / "given", Path(place) / "made"
        save_file({n: x.detach().cpu().clone().contiguous() for n, x in named.items()}, given)
        home = str(Path(__file__).parents[2])
        run_fresh(_OPEN, (home, folder.absolute(), given, made))
        found = load_file(made)["made"]
    whole = outputs(model, [batch])
    return float("inf") if found.shape != whole[0].shape else change(whole, [found])


def _settings(done: Compressed) -> dict[str, Any]:
    """What is needed to build the thin model."""
    model: Any = done.model
    name: str = type(model).__name__
    if name in OWN and type(model) is OWN[name]:
        given: Any = model.settings
        config = {each.name: getattr(given, each.name) for each in fields(given)}
        library = "attnrate"
    elif is_transformers(model):
        config, library = dict(model.config.to_dict()), "transformers"
        config["model_type"] = model.config.model_type
        config.pop("_name_or_path", None)  # a place on this machine
    else:
        raise InputError(
            "only models of transformers and attnrate's own can be written, since a class of your "
            "own would have to come with its code",
            name,
            "Keep done.model.state_dict(), or put the thin layers into your class yourself.",
        )
    layers = {path_of(each.name): asdict(_shape(done, each.name)) for each in done.layers}
    return {
        "format": FORMAT,
        "made_by": dict(done.made_by),
        "library": library,
        "class": name,
        "config": config,
        "rotary": done.rotary,
        "layers": layers,
        "report": {
            "change_cut": done.change_cut,
            "change": done.change,
            **asdict(done.measured),
        },
    }


def is_transformers(model: nn.Module) -> bool:
    """Whether a model is of a class that the package transformers itself has."""
    there: Any = sys.modules.get("transformers")
    kind = type(model)
    return there is not None and getattr(there, kind.__name__, None) is kind


def _shape(done: Compressed, name: str) -> Any:
    """The sizes of a thin layer."""
    thin: Any = done.model.get_submodule(path_of(name))
    if isinstance(thin, ThinLlamaAttention):
        return thin.shape
    layer = next(each for each in done.layers if each.name == name)
    parts = projections_of(thin)
    output: Any = done.model.get_submodule(done.outputs[name])
    query, key, value = map(_linear, parts)
    maps = bool(maps_of(thin))
    made = layer.m_h if maps else layer.size  # by the parts of queries and keys
    return ContentShape(
        query,
        key,
        value,
        _linear(output),
        done.outputs[name],
        parts[0].out_features // made,
        parts[1].out_features // made,
        layer.size,
        layer.value_size,
        layer.m_h,
        maps,
    )


def _linear(part: Any) -> LinearShape:
    return LinearShape(part.in_features, part.out_features, part.bias is not None)


def require_llama(model: nn.Module) -> None:
    """Raise an InputError where a model, cut or not, is none that files of stock Llama can hold."""
    parts = [*model.named_modules()]
    if any(isinstance(x, ThinNormedAttention) or normed_parts(x) is not None for _, x in parts):
        raise InputError(
            'format="llama" has no norms of queries and keys, and no place for what projects them '
            "behind these, as in",
            type(model).__name__,
            'Save it in the format "attnrate".',
        )
    rotary = any(name.rpartition(".")[2] == "rotary_emb" for name, _ in parts)
    if not rotary or getattr(model, "lm_head", None) is None:
        raise InputError(
            'format="llama" is for rotary decoders with a language head, not for',
            type(model).__name__,
            'Save it in the format "attnrate", or open it with its language head '
            "(load_model(…, head=True)).",
        )


def _llama(done: Compressed, folder: Path) -> None:
    """Files of stock Llama."""
    model: Any = done.model
    require_llama(model)
    if isinstance(done.trial, Tensor) or "input_ids" not in done.trial:
        raise InputError(
            'format="llama" is compared on token ids, and the inputs have none',
            "a tensor" if isinstance(done.trial, Tensor) else [*done.trial],
            'Pass inputs with the entry "input_ids".',
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    from transformers.utils import logging

    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        export_llama(model, folder, done.trial["input_ids"])
    finally:
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
    copy_tokenizer(done.folder, folder)
