"""Writing a compressed model, and opening it again in a fresh process before it is called done."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from attnrate.compress.compress import projections_of
from attnrate.compress.export_llama import ExportError, export_llama
from attnrate.compress.fold import path_of
from attnrate.compress.generation import write_generation
from attnrate.compress.modules.llama import ThinLlamaAttention
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
from attnrate.errors import InputError, StoreError
from attnrate.files import write_whole
from attnrate.progress import QUIET, Progress
from attnrate.spectra.batches import Batch

Tensor = torch.Tensor
#: The relative difference of outputs up to which the files hold the model
_LIMITS = {torch.float64: 1e-5, torch.float32: 1e-4}
_COARSE = 5e-2
_TOKENIZER = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.txt", "vocab.json", "merges.txt", "tokenizer.model", "spiece.model"),
    *("sentencepiece.bpe.model", "tekken.json", "chat_template.jinja", "chat_template.json"),
    *("preprocessor_config.json", "generation_config.json"),
)
_OPEN = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
from pathlib import Path
torch.set_num_threads(1)
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
            else:
                _own(done, folder)
    except OSError as problem:
        raise StoreError(
            f"the compressed model could not be written ({problem.strerror or problem})",
            folder,
            "Make room, or check who may write there, and save it again.",
        ) from problem
    return folder


def _own(done: Compressed, folder: Path) -> None:
    """Attnrate's own format."""
    settings = plain(_settings(done))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".attnrate-", dir=folder.parent) as beside:
        fresh = Path(beside) / "new"
        fresh.mkdir()
        _write(done, settings, fresh)
        far = difference(done.model, fresh, done.trial)
        dtype = next(done.model.parameters()).dtype
        if not far <= _LIMITS.get(dtype, _COARSE):
            kept = folder.with_name(f"{folder.name}.differs")
            if kept.exists():
                kept = Path(tempfile.mkdtemp(prefix=f"{kept.name}-", dir=folder.parent))
            fresh.replace(kept)
            raise ExportError(
                f"the files, opened again, give other outputs, by {far:.1e} of their size; they "
                f"are kept in {kept}"
            )
        fresh.replace(folder)


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
    config: Any = getattr(done.model, "config", None)
    if config is not None:  # tokenizers look there for the kind of model
        write_whole(folder / "config.json", config.to_json_string(use_diff=False).encode())
    write_generation(done.model, folder)
    _copy_tokenizer(done, folder)


def _copy_tokenizer(done: Compressed, folder: Path) -> None:
    """The files of the original's tokenizer; what the folder has already stays."""
    if done.folder is None:
        return
    for name in _TOKENIZER:
        if (done.folder / name).is_file() and not (folder / name).exists():
            shutil.copyfile(done.folder / name, folder / name)


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
        command = [sys.executable, "-c", _OPEN, home, *map(str, (folder.absolute(), given, made))]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
        if ran.returncode:
            last = ran.stderr.strip().splitlines()[-1:] or ["no message"]
            raise ExportError(f"the files cannot be opened again: {last[0]}")
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
        "report": {"change_cut": done.change_cut, "change": done.change},
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
    return ContentShape(
        query,
        key,
        value,
        _linear(output),
        done.outputs[name],
        parts[0].out_features // layer.size,
        parts[1].out_features // layer.size,
        layer.size,
        layer.value_size,
        layer.m_h,
    )


def _linear(part: Any) -> LinearShape:
    return LinearShape(part.in_features, part.out_features, part.bias is not None)


def _llama(done: Compressed, folder: Path) -> None:
    """Files of stock Llama."""
    model: Any = done.model
    if not done.rotary or getattr(model, "lm_head", None) is None:
        raise InputError(
            'format="llama" is for rotary decoders with a language head, not for',
            type(model).__name__,
            'Save it in the format "attnrate", or open it with its language head '
            "(load_model(…, head=True)).",
        )
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
    _copy_tokenizer(done, folder)
