"""Where the batches of a profile are run: in this process, or on a Ray cluster."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from attnrate.errors import InputError, require_whole
from attnrate.fitting.engines import require_engine
from attnrate.spectra.batches import Batch
from attnrate.spectra.gather import Gathered, Piece, piece_of
from attnrate.spectra.load import ModelLike
from attnrate.spectra.picked import Picked
from attnrate.spectra.watching.watcher import Watcher

Held: TypeAlias = tuple[Batch, list[int]]
"""A batch, and the numbers of its inputs that have no part in making cuts."""


@dataclass(frozen=True)
class Work:
    """What is to be measured on each batch.

    Attributes:
        model: The model.
        digest: The digest of its weights.
        watcher: The watcher of the model in this process.
        picked: The layers that are asked for.
        gathered: The pieces so far. Whoever takes pieces adds each of them here before the next.
        left: The number of batches that are left; None if it is not known.

    """

    model: ModelLike
    digest: str | None
    watcher: Watcher
    picked: Picked
    gathered: Gathered
    left: int | None


@runtime_checkable
class Runner(Protocol):
    """Runs a model on batches somewhere."""

    def session(self) -> AbstractContextManager[None]:
        """What has to be open while `pieces` is used."""

    def pieces(self, work: Work, feed: Iterator[Held]) -> Iterator[Piece]:
        """What the batches say, in their order; a piece may be of several batches."""


class Here:
    """Runs the model in this process, one batch after another."""

    def session(self) -> AbstractContextManager[None]:
        """Nothing has to be open."""
        return nullcontext()

    def pieces(self, work: Work, feed: Iterator[Held]) -> Iterator[Piece]:
        """What each batch says."""
        for batch, held in feed:
            yield piece_of(work.watcher, batch, held, work.picked, work.gathered.order)


def runner_of(engine: object, workers: object = None) -> Runner:
    """The runner that the name of an engine means: "local", "ray", or the address of a cluster."""
    count = None if workers is None else require_whole("workers", workers, 1)
    name = require_engine("engine", engine)
    if name == "local":
        if count is not None:
            raise InputError(
                "workers is for the engine ray; the engine local runs the model in this process",
                count,
                "Leave out workers, or use the engine ray.",
            )
        return Here()
    from attnrate.spectra.dealt import Dealer

    return Dealer(None if name == "ray" else name, count)
