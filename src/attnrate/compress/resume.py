"""What is finished of a repair, in a folder, so that a killed run can be gone on with.

Each layer has a file of its own, written whole when its repair ends; so has the state of the steps
that all layers take together, at each look at the inputs held out. The mark of the folder says what
was asked for, and every file has a digest of that, so that no other run is mixed in.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType

import numpy as np
import torch
from torch import nn

from attnrate.errors import InputError, StoreError
from attnrate.files import alone, safe_names
from attnrate.fitting.provenance import provenance
from attnrate.folders import MARK, Mark, look_at, write_mark
from attnrate.spectra.arrays_file import read_packed, write_packed
from attnrate.spectra.batches import Batch
from attnrate.spectra.digest import batch_digest, formats_of, weights_digest
from attnrate.spectra.packed import BrokenError, Facts, Packed
from attnrate.spectra.resume import ANOTHER_FOLDER, remove_folder, require_same

Tensor = torch.Tensor
COMMAND = "compress --resume"
_LOCK, _KIND, _END = "state.lock", "repair", ".safetensors"
_WITHOUT = "Move it away, and its part is done again; or name another folder."
_WORDS = {
    "model": "a model of another class",
    "digest": "a model with other weights",
    "formats": "a model in another number format or on another device",
    "inputs": "other inputs",
    "repair": "another number of steps for each layer (repair)",
    "seed": "another seed",
    "shared": "other pairs in common (shared)",
    "attnrate": "another version of attnrate",
    "torch": "another version of torch",
}


def require_something(resume: Path | None, repair: int, together: int) -> None:
    """Raise an InputError where a folder is to keep a repair, and there is none."""
    if resume is not None and not repair and not together:
        raise InputError(
            "resume keeps what is finished of a repair, and there is none for {value}",
            str(resume),
            "Pass repair=200, or together=100.",
        )


class Repairs:
    """The finished parts of a repair, kept in a folder.

    Open it as a context, and call `begin` before the rest. At the end of the context the files
    stay, since the smaller model has not been written yet; `forget` removes them. A folder in which
    nothing was kept is removed.

    Args:
        folder: The folder; None keeps nothing.
        request: What determines the repair beside sizes, as plain values of JSON by name.

    """

    def __init__(self, folder: Path | None, request: Facts) -> None:
        self._folder, self._request = folder, request
        self._files: dict[str, str] = {}
        self._key = ""
        self._lock: AbstractContextManager[None] = nullcontext()

    @classmethod
    def of(
        cls,
        folder: Path | None,
        model: nn.Module,
        given: Sequence[Batch],
        steps: int,
        seed: int,
        shared: str,
    ) -> "Repairs":
        """Where the repair of a model is kept.

        Args:
            folder: The folder; None keeps nothing.
            model: The model.
            given: The inputs by which it is cut.
            steps: The number of steps for each layer.
            seed: The seed.
            shared: Who has one set of pairs.

        """
        if folder is None:
            return NOWHERE
        made_by = provenance()
        request = {
            "model": type(model).__name__,
            "digest": weights_digest(model),
            "formats": formats_of(model),
            "inputs": hashlib.sha256(b"".join(batch_digest(x, []) for x in given)).hexdigest(),
            "repair": steps,
            "seed": seed,
            "shared": shared,
            "attnrate": made_by["attnrate"],
            "torch": made_by["torch"],
        }
        return cls(folder, request)

    def __enter__(self) -> "Repairs":
        if self._folder is not None:
            _, mark = look_at(self._folder, COMMAND)
            if mark is None:
                write_mark(self._folder, COMMAND, {})
            lock = alone(self._folder / _LOCK, wait=False)
            lock.__enter__()
            self._lock = lock
            try:
                _remove(_unfinished(self._folder))
                if _finished(self._folder):
                    self._require_request(self._folder)
            except BaseException:
                lock.__exit__(None, None, None)
                raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._folder is None:
            return
        is_empty = not _finished(self._folder)
        if is_empty:
            _remove([self._folder / MARK])
        self._lock.__exit__(None, None, None)
        if is_empty:
            remove_folder(self._folder, _LOCK)

    def begin(self, sizes: Mapping[str, int]) -> None:
        """Begin or go on with the repair of a cut.

        Args:
            sizes: The size of queries and keys of each layer.

        Raises:
            InputError: The folder is of a run with other sizes, or has a file that no run with this
                request has written.

        """
        folder = self._folder
        if folder is None:
            return
        safe = dict(zip(sizes, safe_names(sizes), strict=True))
        self._files = {name: f"layer-{each}{_END}" for name, each in safe.items()}
        asked = {"request": self._request, "sizes": dict(sizes)}
        self._key = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
        finished = _finished(folder)
        if finished:
            _require_sizes(_mark(folder).get("sizes"), sizes, folder)
        else:
            write_mark(folder, COMMAND, asked)
        for path in finished:
            self._read(path)

    def recall(self, name: str, like: Mapping[str, Tensor]) -> dict[str, Tensor] | None:
        """What an earlier run has finished.

        Args:
            name: The name of a layer; or another name, for what is not of one layer.
            like: Tensors with the shapes, types and devices of those that were kept.

        Returns:
            The tensors by name; None where there are none.

        Raises:
            InputError: The file does not hold what it should.

        """
        if self._folder is None or not (path := self._path(self._folder, name)).exists():
            return None
        arrays = self._read(path)
        found = {word: torch.from_numpy(array) for word, array in arrays.items()}
        if _shapes(found) != _shapes(like):
            raise _strange(path, "its tensors have other shapes")
        # copies, because those of the same content are one array
        return {word: found[word].to(x.device, copy=True) for word, x in like.items()}

    def keep(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Keep what is finished, in a file that is written whole or not at all.

        Args:
            name: The name of a layer; or another name, for what is not of one layer.
            tensors: The tensors by name.

        Raises:
            StoreError: The file cannot be written.

        """
        if self._folder is None:
            return
        packed = Packed()
        for word, x in tensors.items():
            packed.put(word, x.detach().cpu().numpy())
        try:
            facts = {"request": self._key, "name": name}
            write_packed(self._path(self._folder, name), _KIND, facts, packed)
        except OSError as problem:
            raise StoreError(
                f"what is finished could not be written ({problem.strerror or problem})",
                self._folder,
                "Make room, or check who may write there, and run the same command again.",
            ) from problem

    def _path(self, folder: Path, name: str) -> Path:
        return folder / self._files.get(name, f"{name}{_END}")

    def _read(self, path: Path) -> dict[str, np.ndarray]:
        """The arrays of a file of this request; an InputError for any other file."""
        try:
            facts, arrays = read_packed(path, _KIND)
        except BrokenError as problem:
            raise _strange(path, str(problem)) from None
        except InputError as problem:
            raise InputError(problem.what, problem.value, _WITHOUT) from None
        if facts.get("request") != self._key:
            raise _strange(path, "it is of another request")
        name = facts.get("name")
        if not isinstance(name, str) or self._path(path.parent, name) != path:
            raise _strange(path, "it has the name of another file")
        return arrays

    def _require_request(self, folder: Path) -> None:
        """Raise an InputError where the folder is of another request."""
        try:
            require_same(_mark(folder).get("request"), self._request, _WORDS)
        except BrokenError as problem:
            raise _strange(folder / MARK, str(problem)) from None


NOWHERE = Repairs(None, {})
"""Keeps nothing."""


def forget(folder: Path) -> None:
    """Remove what a run has kept, after its model was written.

    The folder goes, too, unless something else is in it, or another process is at work there.
    """
    try:
        with alone(folder / _LOCK, wait=False):
            _remove([*_finished(folder), folder / MARK])
    except StoreError:
        return
    remove_folder(folder, _LOCK)


def _finished(folder: Path) -> list[Path]:
    """The files of what is finished."""
    return sorted(folder.glob(f"*{_END}"))


def _unfinished(folder: Path) -> list[Path]:
    """The files that a killed run was writing."""
    return sorted(folder.glob(f".*{_END}.*"))


def _remove(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _mark(folder: Path) -> Mark:
    return look_at(folder, COMMAND)[1] or {}


def _require_sizes(theirs: object, sizes: Mapping[str, int], folder: Path) -> None:
    """Raise an InputError where the sizes of the interrupted run were others."""
    if not isinstance(theirs, dict):
        raise _strange(folder / MARK, "it does not say the sizes")
    names = dict.fromkeys([*theirs, *sizes])
    others = {name: theirs.get(name) for name in names if theirs.get(name) != sizes.get(name)}
    if others:
        raise InputError(
            "the interrupted run in this folder was of other sizes", others, ANOTHER_FOLDER
        )


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[torch.dtype, torch.Size]]:
    return {name: (x.dtype, x.shape) for name, x in tensors.items()}


def _strange(path: Path, why: str) -> InputError:
    return InputError(
        f"{path.name} is not what a run with this request has left ({why})", str(path), _WITHOUT
    )
