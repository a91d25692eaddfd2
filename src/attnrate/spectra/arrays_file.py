"""A file of arrays and facts: safetensors with JSON in its metadata; written whole, read warily."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from attnrate.errors import InputError
from attnrate.files import replaced
from attnrate.spectra.checkpoint import opened
from attnrate.spectra.packed import BrokenError, Facts, Packed

Array = np.ndarray
FORMAT = 1
_FACTS = "attnrate"
_TYPES = ("F16", "F32", "F64", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64", "BOOL")


def write_packed(path: Path, kind: str, facts: Mapping[str, Any], packed: Packed) -> None:
    """Write arrays and facts into a file, whole or not at all.

    Args:
        path: The file; one that is there is replaced.
        kind: What the file holds, in one word, for `read_packed` to check.
        facts: Plain values of JSON.
        packed: The arrays.

    """
    from safetensors.numpy import save_file

    said = {"kind": kind, "format": FORMAT, "same": packed.same, **facts}
    with replaced(path) as beside:
        save_file(packed.arrays, beside, {_FACTS: json.dumps(said, allow_nan=False)})


def read_packed(path: Path, kind: str) -> tuple[Facts, dict[str, Array]]:
    """The facts and the arrays of a file that `write_packed` has written.

    Args:
        path: The file. A link that leads out of its folder is refused.
        kind: What the file must hold.

    Returns:
        The facts, and all arrays by name; those of the same content are one array.

    Raises:
        BrokenError: The file is of another kind, or does not hold what it says.
        InputError: The file is damaged, or of another format.

    """
    if path.resolve().parent != path.parent.resolve():
        raise BrokenError("it is a link that leads out of its folder")
    damaged = f"{path.name} is truncated or damaged"
    with opened(path, damaged) as file:
        facts = _facts(file.metadata())
        types = {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
    if facts.get("kind") != kind:
        raise BrokenError(f"it holds no {kind} of attnrate")
    if facts.get("format") != FORMAT:
        raise InputError(
            f"{path.name} has another format than this version of attnrate knows",
            facts.get("format"),
            "Use the version of attnrate that wrote it.",
        )
    strange = [name for name, said in types.items() if said not in _TYPES]
    if strange:
        raise BrokenError(f"the array {strange[0]} has the type {types[strange[0]]}")
    try:
        with opened(path, damaged) as file:
            # copies, because the file may change or go away
            arrays = {name: np.array(file.get_tensor(name).numpy()) for name in types}
    except MemoryError:
        raise BrokenError("it is larger than the memory of this machine") from None
    return facts, arrays | _others(facts.get("same"), arrays)


def _facts(metadata: Mapping[str, str] | None) -> Facts:
    try:
        found = json.loads((metadata or {}).get(_FACTS, "{}"))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BrokenError("its facts cannot be read")
    return found


def _others(same: object, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays that have the content of another one, by name."""
    if not isinstance(same, dict) or not all(isinstance(each, str) for each in same.values()):
        raise BrokenError("it does not say which arrays are the same")
    lost = [name for name in same.values() if name not in arrays]
    if lost:
        raise BrokenError(f"the array {lost[0]} is missing")
    return {name: arrays[other] for name, other in same.items()}
