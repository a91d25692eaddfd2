"""What a worker of a Ray cluster does for a profile: holds the model once, and measures batches."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from attnrate.errors import AttnrateError
from attnrate.spectra.digest import formats_of, weights_digest
from attnrate.spectra.gather import Gathered, Piece, piece_of
from attnrate.spectra.load import load_model
from attnrate.spectra.packed import Facts, Packed, unpack
from attnrate.spectra.picked import Picked
from attnrate.spectra.placement import Precision
from attnrate.spectra.runners import Held
from attnrate.spectra.watching.watcher import Memory, Watcher

#: Tells the driver that a worker cannot open the model from files and needs the model itself
NO_MODEL = "no model"


@dataclass(frozen=True)
class Source:
    """Where a worker finds the model of a run, and what it needs to know of it.

    Attributes:
        digest: The digest of the model's weights, by which files are known to hold it.
        formats: Its number formats and devices, in which files have to be opened as well.
        path: A folder or file with the model, if it was opened from one.
        device: The kind of device on which workers open it.
        dtype: The number format in which they open it.
        order: The names of the layers that ran on the first batch.
        picked: The layers that are asked for, by name.
        memory: What the first batch has shown.
        threads: The number of threads that a worker uses.
        run: A name of the run; a worker opens the model once for each.

    """

    digest: str | None
    formats: list[str]
    path: str | None
    device: str
    dtype: Precision
    order: tuple[str, ...]
    picked: Picked
    memory: Memory
    threads: int
    run: str = field(default_factory=lambda: uuid.uuid4().hex)


@dataclass(frozen=True)
class Answer:
    """What a worker found out, as plain values and arrays.

    Attributes:
        batches: The number of batches.
        order: The names of all layers in the order in which they ran.
        facts: The facts of the layers.
        arrays: The arrays of the layers.
        same: The names of arrays that have the content of another one.
        memory: What the worker's watcher has found out.

    """

    batches: int
    order: tuple[str, ...]
    facts: list[Facts]
    arrays: Mapping[str, np.ndarray]
    same: Mapping[str, str]
    memory: Memory

    def piece(self) -> Piece:
        """The layers, in memory of this process (Ray lends arrays to read from)."""
        own = {name: np.array(array) for name, array in self.arrays.items()}
        shared = {name: own[other] for name, other in self.same.items()}
        return Piece(self.batches, self.order, unpack(self.facts, own | shared))


#: The watcher of the model of the run at work here, by the name of the run
_AT_WORK: dict[str, Watcher] = {}


def measure(
    source: Source, chunk: Sequence[Held], packed: Sequence[Any]
) -> Answer | AttnrateError | str:
    """Measure some batches, in a worker.

    Args:
        source: Where the model is.
        chunk: The batches, one after another.
        packed: A reference to the model itself and the user's own adapters in the store of Ray, or
            nothing.

    Returns:
        What was found; an error that is about the request; or NO_MODEL.

    """
    torch.set_num_threads(source.threads)
    try:
        watcher = _watcher(source, packed)
        if watcher is None:
            return NO_MODEL
        gathered = Gathered(Piece(order=source.order))
        for batch, held in chunk:
            gathered.add(piece_of(watcher, batch, held, source.picked, gathered.order))
    except AttnrateError as problem:
        return problem
    piece, kept = gathered.piece(), Packed()
    facts = kept.layers(piece.layers)
    return Answer(piece.batches, piece.order, facts, kept.arrays, kept.same, watcher.memory())


def _watcher(source: Source, packed: Sequence[Any]) -> Watcher | None:
    """The watcher of the run's model, which is opened if this worker has not held it yet."""
    if source.run not in _AT_WORK:
        model = _opened(source) if not packed else _fetched(packed[0])
        if model is None:
            return None
        _AT_WORK.clear()  # one model is in memory at a time
        _AT_WORK[source.run] = Watcher(model)
        _AT_WORK[source.run].remember(source.memory)
    return _AT_WORK[source.run]


def _opened(source: Source) -> nn.Module | None:
    """The model from its files, if they are on this machine too and hold the same weights."""
    if source.path is None or not Path(source.path).exists():
        return None
    try:
        model = load_model(source.path, device=source.device, dtype=source.dtype).model
    except AttnrateError:  # the driver sends the model, or fails itself
        return None
    same = (weights_digest(model), formats_of(model)) == (source.digest, source.formats)
    return model if same else None


def _fetched(reference: Any) -> nn.Module:
    import ray

    from attnrate.spectra.adapters import register, registered, unregister

    model, adapters = ray.get(reference)
    for adapter in registered():
        unregister(adapter)
    for adapter in reversed(adapters):
        register(adapter)
    result: nn.Module = model
    return result
