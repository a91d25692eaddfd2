"""The sentence pairs of many packages: fetched in turn and, beside that, read by processes."""

import os
import sys
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
from attnrate.terminal import say

_PATIENCE = 3
_LACKING = "this release has no such package, and no file of it is among the downloads"
# so many bytes of packages take a second or two to read, and a process a tenth of it to start
_WORTH_A_PROCESS = 20_000_000
# fetched and not yet read; more would only fill the disk
_AHEAD = 8
# off a terminal, so many lines tell how far it is
_LINES = 10


@dataclass(frozen=True)
class Gathered:
    """What came of packages: the pairs of each, in their order, and why others have none."""

    pairs: dict[Package, Cleaned]
    left_out: dict[str, str]


#: Packages in the order in which they were begun, and what will be their pairs
Begun = dict[Package, "Future[Cleaned]"]


def gather(
    names: tuple[str, ...], held_out: Collection[str], remedy: str, workers: int | None = None
) -> Gathered:
    """The clean pairs of these Debian packages; what has come is kept, however this ends.

    A package that is broken is left out, unless it is among `held_out`, without which there would
    be no test set: then it is an ArchiveError. One that does not come is a FetchError in the end,
    since fewer pairs would be kept for good, and scores would not compare. `remedy` tells people
    how else to come by packages. `workers` is the number of processes that read; with 1, this one
    does it between downloads. None is for one a core, and for fewer where there is little to read.
    The pairs do not depend on it.
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
                # then the network, or the disk, need not be asked on
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
            f"packages could not be had ({failed[0].what})",
            failed[0].file,
            f"What has come is kept: run the same again. {failed[0].remedy}".strip(),
        )
    left_out = {name: _LACKING for name in names if name not in found}
    for package, problem in _problems(begun).items():
        left_out[package.name] = f"{problem.what}: {told(package.file, package.size)}"
    for name, reason in left_out.items():
        say(f"{name} is left out ({reason})")
    pairs = {package: each.result() for package, each in begun.items() if not each.exception()}
    return Gathered(pairs, left_out)


def told(file: str, size: int) -> str:
    """A package's file as the reason for leaving it out names it."""
    return f"{file}, {size} bytes"


def _worth(packages: Collection[Package]) -> int:
    """How many processes reading pays for: one a core, if there is enough to do for each."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    enough = sum(package.size for package in packages) // _WORTH_A_PROCESS
    return max(1, min(cores or 1, enough))


def _begin(package: Package, crew: Readers | None) -> "Future[Cleaned]":
    """Fetch a package, and have it read; without a crew it has been read when this returns."""
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
    """What packages that have ended came to, in the packages' order; a bug is raised as it is."""
    problems = {}
    for package, each in begun.items():
        problem = each.exception() if each.done() else None
        if isinstance(problem, FetchError):
            problems[package] = problem
        elif problem is not None:
            raise problem
    return problems


def _not_come(begun: Begun, held_out: Collection[str], remedy: str) -> list[FetchError]:
    """Problems of packages that may come another time, unlike those that came and are broken.

    One that is broken and held out is raised.
    """
    found = []
    for package, problem in _problems(begun).items():
        if not isinstance(problem, ArchiveError):
            found.append(problem)
        elif package.name in held_out:
            raise ArchiveError(problem.what, problem.file, remedy)
    return found


#: Shows how many packages have been fetched and how many read, and which is being fetched
Show = Callable[[int, int, str], None]


@contextmanager
def _shown(total: int) -> Iterator[Show]:
    """On a terminal, a line that tells how far it is; a download draws its bar below it."""
    if not sys.stderr.isatty():
        yield _lines(total)
        return
    from rich.console import Console
    from rich.control import Control
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.segment import ControlType

    console = Console(stderr=True)
    columns = (TextColumn("packages"), BarColumn(), MofNCompleteColumn())
    # printed and not started: two live displays at once are an error before rich 14.1
    bar = Progress(*columns, TextColumn("{task.description}"), console=console)
    task = bar.add_task("", total=total)
    above = Control((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2))
    drawn = False

    def show(fetched: int, read: int, name: str) -> None:
        nonlocal drawn
        if drawn:
            console.control(above)
        drawn = True
        what = f"fetched, {read} of {total} cleaned"
        bar.update(task, completed=fetched, description=f"{what}; {name}" if name else what)
        console.print(bar.get_renderable())

    yield show
    console.control(above)


def _lines(total: int) -> Show:
    """Off a terminal, a line for every tenth of many packages."""
    said = 0

    def show(fetched: int, read: int, name: str) -> None:
        nonlocal said
        part = _LINES * fetched // total
        if part > said and total > 2 * _LINES:
            said = part
            say(f"{fetched} of {total} packages fetched, {read} of them read and cleaned")

    return show
