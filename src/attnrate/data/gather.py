"""The sentence pairs of many packages, fetched one after another and read by other processes."""

import os
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass

from attnrate.data.catalogues import available, fetch_for_messages, messages
from attnrate.data.clean import Cleaned, cleaned
from attnrate.data.readers import Readers
from attnrate.data.registry import (
    ArchiveError,
    FetchError,
    Package,
    UnreachableError,
    apt_index,
    require_installed,
)
from attnrate.progress import Progress, say

_PATIENCE = 3
_LACKING = "this release has no such package, and no file of it is among the downloads"
# bytes of packages that take a second or two to read; a process takes a tenth of that to start
_WORTH_A_PROCESS = 20_000_000
# packages that are fetched and not yet read; more would only fill the disk
_AHEAD = 8
# the number of lines that report progress where there is no terminal
_LINES = 10


@dataclass(frozen=True)
class Gathered:
    """The pairs of each package, in the packages' order, and why other packages are left out."""

    pairs: dict[Package, Cleaned]
    left_out: dict[str, str]


#: Packages in the order in which they were begun, with the futures of their pairs
Begun = dict[Package, "Future[Cleaned]"]


def gather(
    names: tuple[str, ...], held_out: Collection[str], remedy: str, workers: int | None = None
) -> Gathered:
    """Fetch Debian packages and make clean pairs of their messages.

    What was fetched is kept, however this ends. A broken package is left out.

    Args:
        names: The packages.
        held_out: The packages of the test and validation sets, which cannot be left out: a broken
            one is an ArchiveError.
        remedy: How else to get packages, for the message of a FetchError.
        workers: The number of processes that read packages; with 1, this process reads them
            between downloads. By default one per core, and fewer if there is little to read. The
            pairs do not depend on it.

    Returns:
        The pairs of each package, and the reasons for those left out.

    Raises:
        FetchError: A package could not be fetched. With fewer pairs, scores could not be compared.

    """
    require_installed("polib", "read catalogues", "translation pairs")
    found = available(names)
    if not found:
        raise UnreachableError(
            "apt is needed to fetch translation pairs and is not here, or has no package lists",
            f"{names[0]} and {len(names) - 1} more packages",
            remedy,
        )
    begun: Begun = {}
    count = workers or _worth(found.values())
    helped = closing(Readers(count)) if count > 1 else nullcontext()
    try:
        with helped as crew, _shown(len(found)) as show:
            for package in found.values():
                show(len(begun), len(begun) - len(_unread(begun)), package.name)
                begun[package] = _begin(package, crew)
                while len(unread := _unread(begun)) > _AHEAD:
                    wait(unread, None, FIRST_COMPLETED)
                # after some failures the network or the disk is not asked again
                if len(_not_come(begun, held_out, remedy)) >= _PATIENCE:
                    break
            while unread := _unread(begun):
                show(len(begun), len(begun) - len(unread), "")
                wait(unread, None, FIRST_COMPLETED)
            show(len(begun), len(begun), "")
    finally:
        with suppress(OSError):
            apt_index().unlink()
    if failed := _not_come(begun, held_out, remedy)[:_PATIENCE]:
        raise type(failed[0])(
            f"{'at least ' if len(failed) == _PATIENCE else ''}{len(failed)} of {len(found)} "
            f"packages could not be fetched ({failed[0].what})",
            failed[0].file,
            f"What was fetched is kept: run the same command again. {failed[0].remedy}".strip(),
        )
    left_out = {name: _LACKING for name in names if name not in found}
    for package, problem in _problems(begun).items():
        left_out[package.name] = f"{problem.what}: {file_words(package.file, package.size)}"
    for name, reason in left_out.items():
        say(f"{name} is left out ({reason})")
    pairs = {package: each.result() for package, each in begun.items() if not each.exception()}
    return Gathered(pairs, left_out)


def file_words(file: str, size: int) -> str:
    """A package's file in the words of the reason for leaving it out."""
    return f"{file}, {size} bytes"


def _worth(packages: Collection[Package]) -> int:
    """The number of processes that are worth starting: one per core, if each has enough to do."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    enough = sum(package.size for package in packages) // _WORTH_A_PROCESS
    return max(1, min(cores or 1, enough))


def _begin(package: Package, crew: Readers | None) -> "Future[Cleaned]":
    """Fetch a package and have it read by the crew, or read it at once without a crew."""
    done: Future[Cleaned] = Future()
    try:
        if crew is not None:
            fetch_for_messages(package)
            return crew.read(package)
        done.set_result(cleaned(messages(package)))
    except FetchError as problem:
        done.set_exception(problem)
    return done


def _unread(begun: Begun) -> list["Future[Cleaned]"]:
    return [each for each in begun.values() if not each.done()]


def _problems(begun: Begun) -> dict[Package, FetchError]:
    """The FetchErrors of packages that are done, in their order; other errors are raised."""
    problems = {}
    for package, each in begun.items():
        problem = each.exception() if each.done() else None
        if isinstance(problem, FetchError):
            problems[package] = problem
        elif problem is not None:
            raise problem
    return problems


def _not_come(begun: Begun, held_out: Collection[str], remedy: str) -> list[FetchError]:
    """The errors of packages that did not come, unlike those that came and are broken.

    The error of a broken package that is held out is raised.
    """
    found = []
    for package, problem in _problems(begun).items():
        if not isinstance(problem, ArchiveError):
            found.append(problem)
        elif package.name in held_out:
            raise ArchiveError(problem.what, problem.file, remedy)
    return found


#: A function of the number of packages fetched, the number read, and the one being fetched
Show = Callable[[int, int, str], None]


@contextmanager
def _shown(total: int) -> Iterator[Show]:
    """Show progress: by a live line on a terminal, elsewhere by a line for every tenth."""
    shown_tenths = 0
    with Progress() as shown:

        def show(fetched: int, read: int, name: str) -> None:
            nonlocal shown_tenths
            what = f"{fetched}/{total} packages fetched, {read} of {total} cleaned"
            shown.at(f"{what}; {name}" if name else what, fetched / total)
            shown.mark()
            tenths = _LINES * fetched // total
            if tenths > shown_tenths and total > 2 * _LINES and not shown.live:
                shown_tenths = tenths
                say(f"{fetched} of {total} packages fetched, {read} of them read and cleaned")

        yield show
