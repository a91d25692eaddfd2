"""The folder of a model on disk: its config.json, its safetensors files, and what is refused."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnrate.errors import InputError, require_none

_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".msgpack", ".h5")
_CONVERT = (
    "Convert it where you trust its origin: safetensors.torch.save_file("
    "torch.load(FILE, map_location='cpu', weights_only=True), 'model.safetensors')."
)
#: The way out where a model cannot be run
WITHOUT_RUNNING = (
    "Its weights can be looked at without running it: --weights-only, in Python weight_spectra."
)
_INDEX = "model.safetensors.index.json"
_WHOLE = "model.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """The config.json of a model's folder, and which file holds each of its tensors."""

    config: dict[str, Any] = field(repr=False)
    place_of: dict[str, Path] = field(repr=False)


def require_source(name: str, value: object) -> str | os.PathLike[str]:
    """`value` itself, or an InputError when it cannot be the path or the name of a model."""
    if not isinstance(value, str | os.PathLike) or not str(value).strip():
        raise InputError(
            "a model is named by its folder", value, "Pass the path of a folder with config.json."
        )
    return value


def local_folder(source: str | os.PathLike[str]) -> Path | None:
    """The local folder that `source` names, or None if there is nothing of that name.

    The path of a weights file stands for its folder. A pickled file is refused.
    """
    path = Path(source).expanduser()
    try:
        if path.is_dir():
            return path
        if not path.exists():
            return None
    except (OSError, ValueError):
        return None
    if path.suffix in (".gguf", ".safetensors"):
        return path.parent
    if path.suffix in _PICKLED:
        raise _pickled(path)
    raise InputError("that file is no model", str(path), "Pass a folder with config.json.")


def gguf_file(source: str | os.PathLike[str], folder: Path) -> Path | None:
    """The .gguf file that `source` names, or the only one of a folder without safetensors files.

    None if there is no such file; an InputError if the folder has several.
    """
    path = Path(source).expanduser()
    if path.suffix == ".gguf" and path.is_file():
        return path
    found = sorted(folder.glob("*.gguf"))
    if not found or (folder / _WHOLE).exists() or (folder / _INDEX).exists():
        return None
    if len(found) > 1:
        names = [file.name for file in found]
        raise InputError("the folder has several .gguf files", names, "Pass the path of one file.")
    return found[0]


def open_checkpoint(folder: Path, need_config: bool = True) -> Checkpoint:
    """Read the config.json of a folder and find the file of each tensor.

    An InputError says which file is missing or broken. A model that is to be built from its
    config.json (`need_config`) is refused if it asks to run code of its own.
    """
    path = folder / "config.json"
    if need_config and not path.is_file():
        also = f" {WITHOUT_RUNNING}" if any(folder.glob("*.safetensors")) else ""
        raise InputError(
            "the folder has no config.json",
            str(folder),
            f"It has {_listing(folder)}. Pass the folder that save_pretrained wrote.{also}",
        )
    config = read_json(path) if path.exists() else {}
    if need_config and config.get("auto_map"):
        raise InputError(
            "the model asks to run code of its own (auto_map in config.json)",
            config["auto_map"],
            "attnrate runs no code of a checkpoint. Build the model yourself and profile the "
            f"live torch.nn.Module. {WITHOUT_RUNNING}",
        )
    return Checkpoint(config, _places(folder))


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file; an InputError if the file holds none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise InputError(
            f"{path.name} cannot be read ({problem})", str(path), "Copy it once more."
        ) from None
    if not isinstance(found, dict):
        raise InputError(f"{path.name} holds no settings", found, "Copy it once more.")
    return found


def _places(folder: Path) -> dict[str, Path]:
    index = folder / _INDEX
    if index.is_file():
        return _sharded(folder, index)
    found = (
        [folder / _WHOLE] if (folder / _WHOLE).is_file() else sorted(folder.glob("*.safetensors"))
    )
    if not found:
        for path in sorted(folder.iterdir()):
            if path.suffix in _PICKLED:
                raise _pickled(path)
        raise InputError(
            "the folder has no safetensors file", str(folder), f"It has {_listing(folder)}."
        )
    if len(found) > 1:
        names = [path.name for path in found]
        raise InputError(
            f"the folder has several safetensors files and no {_INDEX}",
            names,
            "Copy the index as well, or leave one file there.",
        )
    return dict.fromkeys(_tensors(found[0]), found[0])


def _sharded(folder: Path, index: Path) -> dict[str, Path]:
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(file, str) for file in names.values()):
        raise InputError(f"{_INDEX} has no weight_map", str(index), "Copy it once more.")
    files = {file: folder / file for file in sorted(set(names.values()))}
    outside = [name for name in files if not name or "\0" in name or Path(name).name != name]
    require_none(f"{_INDEX} names files elsewhere", outside, "Copy the folder once more.")
    missing = [name for name, path in files.items() if not path.is_file()]
    said = f"{len(missing)} of {len(files)} files of the checkpoint are missing"
    require_none(said, missing, f"Copy them into {folder}.")
    held = {name: _tensors(path) for name, path in files.items()}
    absent = [tensor for tensor, file in names.items() if tensor not in held[file]]
    said = "tensors that the index names are not in their files"
    require_none(said, absent, "Copy them once more.")
    return {tensor: files[file] for tensor, file in names.items()}


def _tensors(path: Path) -> frozenset[str]:
    """The names of the tensors in a safetensors file."""
    with opened(path, "a safetensors file is truncated or corrupt") as file:
        return frozenset(file.keys())


@contextmanager
def opened(path: Path, problem: str) -> Iterator[Any]:
    """Open a safetensors file for reading.

    Whatever goes wrong, on opening or while the file is read, becomes an InputError that begins
    with `problem`.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError, ValueError, RuntimeError) as reason:
        raise InputError(
            f"{problem} ({reason})", str(path), "Download or copy it once more."
        ) from None


def _pickled(path: Path) -> InputError:
    return InputError(
        "pickled checkpoints are refused, as opening one can run any code", path.name, _CONVERT
    )


def _listing(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir())
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return (", ".join(names[:8]) + more) or "nothing in it"
