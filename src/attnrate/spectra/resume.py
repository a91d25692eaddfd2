"""The state of a profile that is being made, in a folder, so that a killed run can be gone on with.

One file, replaced as a whole, holds what the finished batches say and a digest of each of them.
The next run makes the same batches anew and compares them, so that nothing is counted twice and no
other inputs are mixed in.
"""

import os
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError
from torch import nn

from attnrate.errors import InputError, StoreError
from attnrate.files import alone
from attnrate.folders import MARK, look_at, write_mark
from attnrate.spectra.arrays_file import read_packed, write_packed
from attnrate.spectra.batches import Batch
from attnrate.spectra.digest import batch_digest, formats_of
from attnrate.spectra.gather import Gathered, Piece
from attnrate.spectra.packed import BrokenError, Facts, Packed, unpack
from attnrate.spectra.picked import Picked
from attnrate.spectra.watching.watcher import Memory, Watcher

COMMAND = "profile --resume"
#: Seconds of work between two writings, at least
EVERY = 10.0
#: How many times as long as a writing took the work before the next one lasts, at least
RARELY = 20.0
_STATE, _LOCK = "state.safetensors", "state.lock"
_KIND = "state"
_DIGESTS = "batches"
ANOTHER_FOLDER = "Repeat that request, or name another folder to begin anew."
#: What differs from an interrupted run, by the entries of a request
_WORDS = {
    "model": "a model of another class",
    "digest": "a model with other weights",
    "formats": "a model in another number format or on another device",
    "layers": "other layers",
    "cut_inputs": "another number of inputs for cuts (cut_inputs)",
}


def require_resume(name: str, value: object, command: str = COMMAND) -> Path | None:
    """`value` as the folder of a state, or None; an InputError for a folder of something else.

    Args:
        name: The name of the parameter, for messages.
        value: The value.
        command: The command whose state the folder may hold.

    """
    if value is None:
        return None
    if not isinstance(value, str | os.PathLike) or not str(value):
        raise InputError(f"{name} must be the path of a folder", value, "Pass a folder's path.")
    return look_at(value, command)[0]


def require_same(theirs: object, ours: Facts, words: Mapping[str, str]) -> None:
    """Refuse the state of another request.

    Args:
        theirs: The request of the interrupted run, as its folder says.
        ours: The request of now.
        words: What differs where an entry does, as a message says it.

    Raises:
        InputError: The requests differ; the message says in what.
        BrokenError: What the folder says is no request.

    """
    if not isinstance(theirs, dict) or theirs.keys() != ours.keys():
        raise BrokenError("it does not say what was asked for")
    for name, value in ours.items():
        if theirs[name] != value:
            said = f"the interrupted run in this folder was of {words[name]}"
            raise InputError(said, _said(name, theirs[name]), ANOTHER_FOLDER)


def remove_folder(folder: Path, lock: str) -> None:
    """Remove the lock and the folder; if something else has come into the folder, it stays."""
    try:
        (folder / lock).unlink(missing_ok=True)
        folder.rmdir()
    except OSError:
        return


class State:
    """What is finished of a profile, kept in a folder.

    Open it as a context. If the work ends, the folder is removed; if it is interrupted, what is
    finished stays there for the next run.

    Args:
        folder: The folder; None keeps nothing.
        model: The model.
        digest: The digest of its weights.
        picked: The layers that are asked for.
        cut_inputs: The number of inputs on which cuts are to be measured.

    Attributes:
        gathered: All that is finished.

    """

    def __init__(
        self,
        folder: Path | None,
        model: nn.Module,
        digest: str | None,
        picked: Picked,
        cut_inputs: int,
    ) -> None:
        self._folder = folder
        asked = None if picked.asked is None else list(picked.asked)
        self._request: Facts = {
            "model": type(model).__name__,
            "digest": digest,
            "formats": formats_of(model),
            "layers": asked,
            "cut_inputs": cut_inputs,
        }
        self._watcher: Watcher | None = None
        self._digests: list[bytes] = []
        self._finished: list[bytes] = []
        self.gathered = Gathered()
        self._written = 0
        self._since = time.monotonic()
        self._wait = EVERY
        self._lock: AbstractContextManager[None] = nullcontext()

    def __enter__(self) -> "State":
        if self._folder is not None:
            _, mark = look_at(self._folder, COMMAND)
            if mark is None:
                write_mark(self._folder, COMMAND, {})
            self._lock = alone(self._folder / _LOCK, wait=False)
            self._lock.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._folder is None:
            return
        over = kind is None
        try:
            if not over and self.gathered.whole:
                self.keep()
            over = over or not (self._folder / _STATE).exists()
            if over:
                (self._folder / _STATE).unlink(missing_ok=True)
                (self._folder / MARK).unlink(missing_ok=True)
        finally:
            self._lock.__exit__(None, None, None)
        if over:
            remove_folder(self._folder, _LOCK)

    def recall(self, watcher: Watcher) -> None:
        """Read what an interrupted run has left, and let the watcher know what that run has seen.

        An InputError says what differs where that run was of another model or request.
        """
        self._watcher = watcher
        if self._folder is None or not (self._folder / _STATE).exists():
            return
        try:
            facts, arrays = read_packed(self._folder / _STATE, _KIND)
            require_same(facts.get("request"), self._request, _WORDS)
            piece, self._finished = _piece(facts, arrays), _digests(arrays)
            if piece.batches != len(self._finished):
                raise BrokenError("it does not count its batches")
            watcher.remember(_memory(facts.get("memory")))
        except BrokenError as problem:
            raise InputError(
                f"{_STATE} is not what an interrupted run has left ({problem})",
                str(self._folder),
                "Delete it to begin anew, or name another folder.",
            ) from None
        self.gathered = Gathered(piece)
        self._written = piece.batches

    def is_finished(self, batch: Batch, held: list[int]) -> bool:
        """Whether the next batch is part of what an interrupted run has finished.

        Args:
            batch: The next batch, in the order of the inputs.
            held: The numbers of its inputs that have no part in making cuts.

        Returns:
            True for a batch that need not be run again.

        Raises:
            InputError: The interrupted run had another batch in this place.

        """
        if self._folder is None:
            return False
        number = len(self._digests)
        self._digests.append(batch_digest(batch, held))
        if number >= len(self._finished):
            return False
        if self._digests[-1] != self._finished[number]:
            raise InputError(
                "the inputs differ from those of the interrupted run, first in batch {value}, "
                "counted from 1",
                number + 1,
                ANOTHER_FOLDER,
            )
        return True

    def check_end(self) -> None:
        """Raise an InputError when the inputs end before those of the interrupted run did."""
        if len(self._digests) < len(self._finished):
            raise InputError(
                f"the inputs end earlier than those of the interrupted run, of which "
                f"{len(self._finished)} batches are finished; batches now",
                len(self._digests),
                ANOTHER_FOLDER,
            )

    def add(self, piece: Piece) -> None:
        """Add a finished piece, and write the state if the last writing was long enough ago."""
        self.gathered.add(piece)
        if self._folder is not None and time.monotonic() - self._since >= self._wait:
            self._write(self._folder)

    def keep(self) -> None:
        """Write the state now, unless nothing has been added."""
        if self._folder is not None and self.gathered.batches > self._written:
            self._write(self._folder)

    def _write(self, folder: Path) -> None:
        start = time.monotonic()
        piece, packed = self.gathered.piece(), Packed()
        digests = b"".join(self._digests[: piece.batches])
        packed.put(_DIGESTS, np.frombuffer(digests, np.uint8).reshape(-1, 32))
        memory = Memory() if self._watcher is None else self._watcher.memory()
        facts = {
            "request": self._request,
            "count": piece.batches,
            "order": list(piece.order),
            "memory": asdict(memory),
            "layers": packed.layers(piece.layers),
        }
        try:
            write_packed(folder / _STATE, _KIND, facts, packed)
        except OSError as problem:
            raise StoreError(
                f"the state of the profile could not be written ({problem.strerror or problem})",
                folder,
                "Make room, or check who may write there, and run the same command again.",
            ) from problem
        self._written = piece.batches
        self._since = time.monotonic()
        self._wait = max(EVERY, RARELY * (self._since - start))


def _said(name: str, value: Any) -> Any:
    """A part of a request as an error shows it."""
    if name in ("digest", "inputs") and isinstance(value, str):
        return value[:12]
    return "all" if name == "layers" and value is None else value


def _piece(facts: Facts, arrays: dict[str, Any]) -> Piece:
    order, count = facts.get("order"), facts.get("count")
    layers = unpack(facts.get("layers"), arrays)
    if not isinstance(order, list) or not all(isinstance(name, str) for name in order):
        raise BrokenError("it does not say which layers ran")
    if type(count) is not int or not {layer.name for layer in layers} <= {*order}:
        raise BrokenError("its layers are not those that ran")
    return Piece(count, tuple(order), layers)


def _digests(arrays: dict[str, Any]) -> list[bytes]:
    found = arrays.get(_DIGESTS)
    if found is None or found.dtype != np.uint8 or found.ndim != 2 or found.shape[1] != 32:
        raise BrokenError("it does not say which batches are finished")
    return [row.tobytes() for row in found]


def _memory(value: object) -> Memory:
    try:
        return TypeAdapter(Memory).validate_python(value)
    except ValidationError as problem:
        raise BrokenError("it does not say what was seen") from problem
