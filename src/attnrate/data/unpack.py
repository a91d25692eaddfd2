"""Taking files out of archives: only wanted ones, and only into one folder."""

import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, cast

from attnrate.data.registry import ArchiveError, require_installed

_AR = b"!<arch>\n"
#: The largest number of bytes that is unpacked; no archive here holds a tenth of it
MOST = 8 << 30
# gzip and zstd raise an OSError without a number for what they cannot read
_BROKEN = (zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError)


def unpack(
    archive: Path, into: Path, below: str = "", wanted: tuple[str, ...] = ("*",)
) -> list[Path]:
    """Take files out of a zip file, a wheel, a tar file of any compression or a Debian package.

    Links are left out. A name that would lead out of `into` is an ArchiveError, and so are more
    than MOST bytes.

    Args:
        archive: The archive.
        into: The folder to write to.
        below: The folder of the archive whose files are taken; names count from there.
        wanted: Patterns of the names of files to take.

    Returns:
        The paths of the written files.

    """
    made, left = [], MOST
    try:
        for name, opened in _files(archive):
            if not name.startswith(below):
                continue
            rest = name.removeprefix(below)
            if not any(fnmatchcase(rest, pattern) for pattern in wanted):
                continue
            place = into / _inside(rest, archive)
            place.parent.mkdir(parents=True, exist_ok=True)
            with opened() as packed, place.open("wb") as out:
                while chunk := packed.read(1 << 20):
                    left -= len(chunk)
                    if left < 0:
                        raise ArchiveError(
                            f"an archive holds more than {MOST >> 30} GB", archive.name
                        )
                    out.write(chunk)
            made.append(place)
    except _BROKEN as problem:
        if getattr(problem, "errno", None) is not None:
            raise  # the disk is at fault, not the archive
        why = str(problem).partition("\n")[0].rstrip(":")
        raise ArchiveError(f"an archive is broken ({why})", archive.name) from None
    if not made:
        raise ArchiveError(f"an archive has no file {below}{'|'.join(wanted)}", archive.name)
    return made


def _inside(name: str, archive: Path) -> PurePosixPath:
    path = PurePosixPath(name)
    # a backslash or a colon separates names on other systems
    if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or not path.parts:
        raise ArchiveError(f"an archive has a file with an unsafe name, {name!r}", archive.name)
    return path


def _files(archive: Path) -> Iterator[tuple[str, Callable[[], IO[bytes]]]]:
    """The names of an archive's regular files, each with a function that opens the file."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for member in packed.infolist():
                # the topmost bits are the Unix kind of file; other systems leave them empty
                if not member.is_dir() and member.external_attr >> 28 in (0, 0o10):
                    yield member.filename, partial(packed.open, member)
        return
    with _tape(archive) as tape:
        for entry in tape:
            if entry.isfile():
                yield entry.name, cast(Callable[[], IO[bytes]], partial(tape.extractfile, entry))


def _tape(archive: Path) -> tarfile.TarFile:
    with archive.open("rb") as file:
        if file.read(len(_AR)) != _AR:
            return tarfile.open(archive)
        # a Debian package: an ar archive whose member data.tar.* has the files
        while len(header := file.read(60)) == 60:
            name, size = header[:16].decode("ascii", "replace").strip(" /"), header[48:58]
            if not size.strip().isdigit() or header[58:] != b"`\n":
                raise tarfile.ReadError("a member of the package has no size")
            if name.startswith("data.tar"):
                data = io.BytesIO(file.read(int(size)))
                if not name.endswith(".zst"):
                    return tarfile.open(fileobj=data)
                # Ubuntu's packages are in zstd, which Python has from 3.14 on
                require_installed("pyarrow", "open a package in zstd", archive.name)
                from pyarrow import input_stream

                return tarfile.open(fileobj=input_stream(data, compression="zstd"), mode="r|")
            file.seek(int(size) + int(size) % 2, os.SEEK_CUR)
    raise tarfile.ReadError("the package has no member data.tar")
