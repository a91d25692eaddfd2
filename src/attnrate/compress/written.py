"""Writing the folder of a model beside its place, and what is held against the model on the way.

A folder gets its name after its files were opened again and gave the outputs of the model. Files
that give others are kept apart, and of files that could not be written nothing is left.
"""

import json
import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from attnrate.compress.opened import DIFFERS, SETTINGS
from attnrate.errors import AttnrateError
from attnrate.files import write_whole
from attnrate.spectra.checkpoint import read_json

_LIMITS = {torch.float64: 1e-5, torch.float32: 1e-4}
_COARSE = 5e-2
_TOKENIZER = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.txt", "vocab.json", "merges.txt", "tokenizer.model", "spiece.model"),
    *("sentencepiece.bpe.model", "tekken.json", "chat_template.jinja", "chat_template.json"),
    *("preprocessor_config.json", "generation_config.json", "vocabulary.json"),
)


class ExportError(AttnrateError):
    """Files that were written and, opened again, do not hold the model."""


def write_checked(
    model: nn.Module,
    folder: Path,
    write: Callable[[Path], None],
    difference: Callable[[Path], float],
) -> None:
    """Write the files of a model, measure what they give, and only then give the folder its name.

    Args:
        model: The model.
        folder: The folder to make.
        write: Writes the files into a folder that is there and empty.
        difference: Opens them again and gives by how much their outputs differ from the model's,
            as a share of the outputs' size.

    Raises:
        ExportError: The outputs differ by more than rounding; the files are kept in a folder beside
            it whose name ends in ".differs", with a mark by which attnrate refuses to open them.

    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".attnrate-", dir=folder.parent) as beside:
        fresh = Path(beside) / "new"
        fresh.mkdir()
        write(fresh)
        far = difference(fresh)
        if not far <= limit_of(model):
            _mark(fresh / SETTINGS, far)
            kept = folder.with_name(f"{folder.name}.differs")
            if kept.exists():
                kept = Path(tempfile.mkdtemp(prefix=f"{kept.name}-", dir=folder.parent))
            fresh.replace(kept)
            raise ExportError(
                f"the files, opened again, give other outputs, by {far:.1e} of their size; they "
                f"are kept in {kept}"
            )
        fresh.replace(folder)


def limit_of(model: nn.Module) -> float:
    """The relative difference of outputs up to which files hold a model, by its number format."""
    return _LIMITS.get(next(model.parameters()).dtype, _COARSE)


def _mark(settings: Path, far: float) -> None:
    """Note in the settings of a folder, if it has some, that its files do not hold the model."""
    if settings.is_file():
        said = {**read_json(settings), DIFFERS: far if math.isfinite(far) else None}
        write_whole(settings, (json.dumps(said, indent=1) + "\n").encode())


def run_fresh(
    program: str,
    arguments: Sequence[str | Path],
    given: bytes = b"",
    alone: bool = False,
) -> bytes:
    """Run a program of Python in a process of its own.

    Args:
        program: Its text.
        arguments: What it finds in `sys.argv`.
        given: What it can read from its standard input.
        alone: Whether it sees neither the user's own packages nor the paths of the environment, so
            that only installed packages can be used.

    Returns:
        What it has written to its standard output.

    Raises:
        ExportError: It ended with an error; the message says which.

    """
    command = [sys.executable, "-I" if alone else "-P", "-c", program, *map(str, arguments)]
    ran = subprocess.run(command, input=given, capture_output=True, check=False)
    if ran.returncode:
        said = _exception(ran.stderr.decode(errors="replace")) or f"exit code {ran.returncode}"
        raise ExportError(f"the files cannot be opened again: {said}")
    return ran.stdout


def _exception(said: str) -> str:
    """The exception at the end of what Python writes, which may take several lines, as one."""
    lines = said.rpartition("Traceback (most recent call last)")[2].splitlines()[1:]
    first = next((i for i, line in enumerate(lines) if line[:1].strip()), 0)
    return " ".join(" ".join(lines[first:]).split())[:500]


def write_config(model: nn.Module, folder: Path) -> None:
    """Write the model's configuration, where tokenizers look for the kind of model.

    The place on this machine from which it was opened is left out.
    """
    config: Any = getattr(model, "config", None)
    if config is not None:
        said = json.loads(config.to_json_string(use_diff=False))
        said.pop("_name_or_path", None)
        write_whole(folder / "config.json", (json.dumps(said, indent=2) + "\n").encode())


def copy_tokenizer(original: Path | None, folder: Path) -> None:
    """Copy the files of the original's tokenizer; what the folder has already stays."""
    if original is None:
        return
    for name in _TOKENIZER:
        if (original / name).is_file() and not (folder / name).exists():
            shutil.copyfile(original / name, folder / name)
