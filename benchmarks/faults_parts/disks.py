"""Full and read-only disks for each command: real file systems of a few hundred kilobytes.

Each command runs on a disk that is full before it begins, on one that fills up on the way, and on
one that may not be written, and prints into /dev/full. A full disk that gets room lets the same
command finish. Mounting needs root; without it these cases are named as not tried.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from faults_parts import works
from faults_parts.processes import Ended, run
from faults_parts.tally import Seen, judged
from faults_parts.works import WORKS, Work

#: A disk on which each command begins, and which is too small for all that it writes
_SMALL = {"sweep": "64k", "reproduce": "128k", "train": "2m", "profile": "64k", "data": "600k"}
_LARGE = "64m"
_TOOLS = ("/usr/sbin", "/sbin", "/usr/bin", "/bin")


def run_all(place: Path, only: int | None, tell: Callable[[Seen], None]) -> list[str]:
    """Try every command on every disk; return what could not be tried."""
    shared = place / "shared"
    if not shared.exists():
        works.made_up_cifar10(shared)
        works.toy_debian(place / "programs", place / "shop")
    (place / "disks").mkdir()
    left_out = []
    can_mount = _can_mount(place)
    if not can_mount:
        left_out.append("disks: full and read-only file systems, which need leave to mount")
    if not Path("/dev/full").exists():
        left_out.append("disks: output to /dev/full, which is not here")
    number = 0
    for work in WORKS:
        cases: list[Callable[[], Iterator[Seen]]] = []
        if can_mount:
            cases += [
                lambda work=work: _full(work, "full at once", _LARGE, True, place, shared),
                lambda work=work: _full(work, "fills up", _SMALL[work.name], False, place, shared),
                lambda work=work: _read_only(work, place, shared),
            ]
        if Path("/dev/full").exists():
            cases.append(lambda work=work: _no_output(work, place, shared))
        for case in cases:
            for seen in case():
                if only is None or number == only:
                    tell(Seen(**{**vars(seen), "number": number}))
                number += 1
    return left_out


def _full(
    work: Work, what: str, size: str, ballast: bool, place: Path, shared: Path
) -> Iterator[Seen]:
    with _disk(place / "disks" / f"{work.name}-{what.split()[0]}", size) as folder:
        words = work.words(folder)
        if ballast:
            _fill(folder / "ballast")
        ended = run(words, folder, _environment(work, folder, shared))
        before = work.finished(folder)
        yield _seen(work, what, ended, (1, 2), set(), set())
        (folder / "ballast").unlink(missing_ok=True)
        _mount("-o", f"remount,size={_LARGE}", str(folder))
        again = run(words, folder, _environment(work, folder, shared))
        after = work.finished(folder)
        yield _seen(work, f"{what}, then room", again, (0,), {*before.items()}, {*after.items()})


def _read_only(work: Work, place: Path, shared: Path) -> Iterator[Seen]:
    with _disk(place / "disks" / f"{work.name}-read", _LARGE) as folder:
        words = work.words(folder)
        _mount("-o", "remount,ro", str(folder))
        ended = run(words, folder, _environment(work, folder, shared))
        yield _seen(work, "read-only", ended, (1, 2), set(), set())
        _mount("-o", "remount,rw", str(folder))
        run(words, folder, _environment(work, folder, shared))
        _mount("-o", "remount,ro", str(folder))
        ended = run(words, folder, _environment(work, folder, shared))
        # all is there: a command may read it, or say that it cannot write
        yield _seen(work, "read-only, finished before", ended, (0, 1, 2), set(), set())


def _no_output(work: Work, place: Path, shared: Path) -> Iterator[Seen]:
    folder = place / "disks" / f"{work.name}-output"
    folder.mkdir()
    words = work.words(folder)
    ended = run(words, folder, works.environment(work, folder, shared), out="/dev/full")
    yield _seen(work, "prints into /dev/full", ended, (1,), set(), set())


def _environment(work: Work, folder: Path, shared: Path) -> dict[str, str]:
    return works.environment(work, folder, shared)


def _seen(
    work: Work,
    what: str,
    ended: Ended,
    allowed: tuple[int, ...],
    before: set[tuple[str, str]],
    after: set[tuple[str, str]],
) -> Seen:
    faults = [*judged(ended.code, ended.err, allowed)]
    if ended.left:
        faults.append("left running")
    if before - after:
        faults.append("lost")
    said = ended.err[-2500:] if faults else ""
    return Seen("disks", work.name, 0, what, ended.code, tuple(faults), said, ended.seconds)


@contextmanager
def _disk(folder: Path, size: str) -> Iterator[Path]:
    folder.mkdir(parents=True)
    _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        subprocess.run([_tool("umount"), "-l", str(folder)], check=True)


def _mount(*words: str) -> None:
    subprocess.run([_tool("mount"), *words], check=True, capture_output=True)


def _tool(name: str) -> str:
    return shutil.which(name, path=os.pathsep.join(_TOOLS)) or name


def _can_mount(place: Path) -> bool:
    try:
        with _disk(place / "disks" / "try", "64k"):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


def _fill(path: Path) -> None:
    try:
        with path.open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)
    except OSError:
        return
