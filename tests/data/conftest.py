"""A toy Debian: packages with German catalogues, and the programs of apt that know them."""

import hashlib
import io
import os
import stat
import sys
import tarfile

import pytest

_APT_CACHE = """
for name in sys.argv[3:]:
    for file in sorted(shop.glob(name + "_*.deb")):
        version = file.stem.split("_")[1].replace("%3a", ":")
        data = file.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        print("Package:", name + "\\nVersion:", version + "\\nArchitecture: all")
        print("Description-en: toy\\n Field: more\\nSize:", len(data))
        print("SHA256:", digest + "\\n")
sys.exit(100)
"""
_APT_GET = """
name, version = sys.argv[-1].split("=")
file = name + "_" + version.replace(":", "%3a") + "_all.deb"
with (shop / "asked").open("a") as asked:
    asked.write(name + "\\n")
if (shop / "closed").exists():
    sys.exit("E: Failed to fetch " + name)
hold = shop / "hold"  # wait with this package, or with any, until the file is gone
while hold.exists() and hold.read_text() in ("", name):
    time.sleep(0.02)
pathlib.Path(file).write_bytes((shop / file).read_bytes())
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNRATE_CACHE", str(tmp_path))
    return tmp_path / "attnrate-cache"


@pytest.fixture
def a_deb():
    """Write a Debian package with these files."""

    def write(path, files, packing="xz"):
        tape = io.BytesIO()
        with tarfile.open(fileobj=tape, mode=f"w:{packing}") as tar:
            for name, data in files.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
        members = {
            "debian-binary": b"2.0\n",
            "control.tar": b"odd",
            f"data.tar{'.' + packing if packing else ''}": tape.getvalue(),
        }
        with path.open("wb") as out:
            out.write(b"!<arch>\n")
            for name, data in members.items():
                out.write(f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode())
                out.write(data + b"\n" * (len(data) % 2))

    return write


@pytest.fixture
def shop(tmp_path, monkeypatch, cache, a_deb):
    """Put a package of that name with these messages on sale; apt is all that is on PATH."""
    polib = pytest.importorskip("polib")
    folder = tmp_path / "shop"
    programs = tmp_path / "programs"
    for made in (folder, programs):
        made.mkdir()
    for name, body in (("apt-cache", _APT_CACHE), ("apt-get", _APT_GET)):
        path = programs / name
        head = f"import hashlib, pathlib, sys, time\nshop = pathlib.Path({str(folder)!r})"
        path.write_text(f"#!{sys.executable}\n{head}\n{body}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", os.fspath(programs))

    def offer(name, pairs, version="1:1.0-1"):
        catalogue = polib.POFile()
        catalogue.metadata = {"Content-Type": "text/plain; charset=utf-8"}
        for english, german in pairs:
            many = isinstance(english, tuple)
            catalogue.append(
                polib.POEntry(
                    msgid=english[0],
                    msgid_plural=english[1],
                    msgstr_plural={0: german[0], 1: german[1]},
                )
                if many
                else polib.POEntry(msgid=english, msgstr=german)
            )
        files = {f"./usr/share/locale/de/LC_MESSAGES/{name}.mo": catalogue.to_binary()}
        files |= {"./usr/share/locale/fr/LC_MESSAGES/x.mo": b"other", "./usr/bin/x": b"code"}
        path = folder / f"{name}_{version.replace(':', '%3a')}_all.deb"
        a_deb(path, files)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    offer.folder = folder
    return offer
