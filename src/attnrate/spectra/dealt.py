"""Batches dealt to the workers of a Ray cluster, and their pieces in the order of the batches.

One worker runs on each machine with all of its cores, unless a number of workers is given. This
process measures the first batch itself, so that model, inputs and layers are known to be right
before anything is sent. Ray does the batches of a lost worker again.
"""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any, get_args

import torch

from attnrate.errors import AttnrateError, InputError, WorkerError
from attnrate.fitting.engines import cores
from attnrate.fitting.engines.cluster import RETRIES, Cluster
from attnrate.spectra.adapters import registered
from attnrate.spectra.batches import Batch, first_line
from attnrate.spectra.digest import formats_of
from attnrate.spectra.gather import Piece, piece_of
from attnrate.spectra.load import LoadedModel, ModelLike, module_of
from attnrate.spectra.picked import Picked
from attnrate.spectra.placement import Precision, plain_name
from attnrate.spectra.runners import Held, Work
from attnrate.spectra.worker import NO_MODEL, Answer, Source, measure

#: The most batches that a worker is given at once; it joins them, so that less is sent
_MOST = 8
#: Chunks on their way for each worker: one at work, one waiting, so that no worker waits
_AHEAD = 2
_LOOK_AGAIN = 2.0  # seconds after which the cluster may have another size


class Dealer:
    """Runs a model on a Ray cluster.

    Args:
        address: The address of the cluster; None for the one at RAY_ADDRESS, or one that is made
            on this machine.
        workers: The number of workers; None for one on each machine.

    """

    def __init__(self, address: str | None, workers: int | None) -> None:
        self._cluster = Cluster(address)
        self._workers = workers

    def session(self) -> AbstractContextManager[None]:
        """While it is open, Ray is connected."""
        return self._cluster.session(max(cores(), self._workers or 1))

    def pieces(self, work: Work, feed: Iterator[Held]) -> Iterator[Piece]:
        """What the batches say, in their order, from one to eight batches at a time."""
        if work.digest is None:
            raise InputError(
                "some weights of this {value} are not in memory, so that workers cannot be given "
                "the same model",
                type(module_of(work.model)).__name__,
                "Use the engine local, or open the model without weights on disk.",
            )
        done = 0
        if not work.gathered.order:
            for batch, held in islice(feed, 1):
                yield piece_of(work.watcher, batch, held, work.picked, ())
                done = 1
        left = None if work.left is None else work.left - done
        deal = _Deal(self._cluster.ray, work, self._workers, left)
        try:
            yield from deal.pieces(feed)
        finally:
            deal.cancel()


class _Deal:
    """One run: the chunks of batches that are with the workers, in their order."""

    def __init__(self, ray: Any, work: Work, workers: int | None, left: int | None) -> None:
        self._ray, self._work, self._workers = ray, work, workers
        self._left = left
        self._begun = 0
        self._running: deque[tuple[list[Held], Any]] = deque()
        self._threads = threads_of(self._cpus(), workers)
        self._looked, self._seats = -_LOOK_AGAIN, 1
        path, device, dtype = _opening(work.model)
        self._source = Source(
            digest=work.digest,
            formats=formats_of(module_of(work.model)),
            path=path,
            device=device,
            dtype=dtype,
            order=tuple(work.gathered.order),
            picked=_by_name(work.picked, work.gathered.order),
            memory=work.watcher.memory(),
            threads=self._threads,
        )
        on_gpu = any(value.is_cuda for value in module_of(work.model).parameters())
        self._task = ray.remote(
            num_cpus=self._threads,
            num_gpus=int(on_gpu),
            max_calls=0,  # the worker stays, and the model in it
            max_retries=RETRIES,
        )(measure)
        self._packed: list[Any] = []

    def pieces(self, feed: Iterator[Held]) -> Iterator[Piece]:
        """The pieces of all chunks."""
        while True:
            seats = self._look()
            while len(self._running) < _AHEAD * seats and (chunk := self._chunk(feed, seats)):
                self._running.append((chunk, self._begin(chunk)))
            if not self._running:
                return
            chunk, reference = self._running.popleft()
            answer = self._answer(reference)
            if answer == NO_MODEL:
                answer = self._answer(self._begin(chunk, with_model=True))
            if isinstance(answer, AttnrateError):
                raise answer
            assert isinstance(answer, Answer)  # a worker that was given the model has it
            self._work.watcher.remember(answer.memory)
            yield answer.piece()

    def cancel(self) -> None:
        """Stop what is still at work."""
        for _, reference in self._running:
            self._ray.cancel(reference, force=True)

    def _chunk(self, feed: Iterator[Held], seats: int) -> list[Held]:
        """The next batches for one worker: few at first, and few at the end, so that all work."""
        size = min(_MOST, 2 ** (self._begun // seats))
        if self._left is not None:
            size = max(1, min(size, self._left // (2 * seats)))
        chunk = [(_on_cpu(batch), held) for batch, held in islice(feed, size)]
        if self._left is not None:
            self._left -= len(chunk)
        self._begun += 1
        return chunk

    def _begin(self, chunk: list[Held], with_model: bool = False) -> Any:
        if (with_model or self._source.path is None) and not self._packed:
            self._packed = [self._put()]
        return self._task.remote(self._source, chunk, self._packed)

    def _put(self) -> Any:
        """Put the model and the user's own adapters into the store of Ray, for all workers."""
        model = module_of(self._work.model)
        try:
            return self._ray.put((model, registered()))
        except Exception as problem:  # whatever a user's model holds may refuse
            raise InputError(
                f"this {{value}} cannot be sent to the workers ({type(problem).__name__}: "
                f"{first_line(problem)})",
                type(model).__name__,
                "Use the engine local, or save the model in a folder and open it by load_model.",
            ) from problem

    def _answer(self, reference: Any) -> Answer | AttnrateError | str:
        try:
            found: Answer | AttnrateError | str = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as problem:
            cause = problem.cause if isinstance(problem.cause, Exception) else problem
            said = f"{type(cause).__name__}: {first_line(cause)}"
            lacks = " Install it on every machine." if isinstance(cause, ImportError) else ""
            raise WorkerError(
                f"the model failed in a worker of the Ray cluster ({said}).{lacks}"
            ) from cause
        except self._ray.exceptions.RayError as problem:
            raise WorkerError(
                f"Ray gave up on some batches after {RETRIES} more attempts "
                f"({first_line(problem)}). Take fewer inputs at a time or fewer workers, if memory "
                "is short."
            ) from problem
        return found

    def _look(self) -> int:
        """The number of workers that the cluster has room for now."""
        if time.monotonic() - self._looked >= _LOOK_AGAIN:
            room = _seats(self._cpus(), self._threads)
            self._seats = max(1, room if self._workers is None else min(room, self._workers))
            self._looked = time.monotonic()
        return self._seats

    def _cpus(self) -> list[int]:
        """The cores of each machine of the cluster."""
        alive = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        return [int(each.get("CPU", 0)) for each in alive]


def threads_of(cpus: Sequence[int], workers: int | None) -> int:
    """The threads of each worker on machines with these cores.

    Args:
        cpus: The cores of each machine.
        workers: The number of workers; None for one on each machine. On a machine with more cores
            than the smallest one, more than one worker then fits.

    Returns:
        As many threads as every worker can have, at least one.

    """
    there = [each for each in cpus if each >= 1] or [1]
    if workers is None:
        return min(there)
    threads = max(1, sum(there) // workers)
    while threads > 1 and _seats(there, threads) < workers:
        threads -= 1
    return threads


def _seats(cpus: Sequence[int], threads: int) -> int:
    """The number of workers with so many threads that machines with these cores have room for."""
    return sum(each // threads for each in cpus)


def _opening(model: ModelLike) -> tuple[str | None, str, Precision]:
    """Where workers may find the model, and the device and number format in which they open it.

    The path is None if they have to be given the model itself.
    """
    if not isinstance(model, LoadedModel) or registered():
        return None, "cpu", "float32"
    folder = model.folder.absolute()
    path = folder if model.gguf is None else folder / model.gguf
    for dtype in get_args(Precision):
        if dtype == plain_name(model.dtype):
            return str(path), model.device.type, dtype
    return None, model.device.type, "float32"


def _by_name(picked: Picked, order: Sequence[str]) -> Picked:
    """The layers that are asked for by name, because workers may see layers in another order."""
    if picked.asked is None:
        return picked
    return Picked(tuple(each if isinstance(each, str) else order[each] for each in picked.asked))


def _on_cpu(batch: Batch) -> Batch:
    """The batch in the memory of this machine, from where it is sent."""
    if isinstance(batch, torch.Tensor):
        return batch.cpu()
    return {name: value.cpu() for name, value in batch.items()}
