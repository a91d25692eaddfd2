"""Debian packages by name, and the messages of their catalogues."""

import shutil

import pytest

from attnrate.data import registry
from attnrate.data import unpack as unpacking
from attnrate.data.catalogues import available, messages
from attnrate.data.registry import ArchiveError, FetchError
from attnrate.data.unpack import unpack

PAIRS = [("Zoom in", "Vergrößern"), ("About", "Über")]


def asked(shop):
    return (shop.folder / "asked").read_text().split()


@pytest.mark.parametrize("packing", ["", "gz", "xz"])
def test_a_package_is_opened_without_dpkg(a_deb, tmp_path, monkeypatch, packing):
    monkeypatch.setenv("PATH", "")
    a_deb(tmp_path / "a.deb", {"./usr/a/x.mo": b"odd", "./usr/b": b"no"}, packing)
    (made,) = unpack(tmp_path / "a.deb", tmp_path / "out", "./usr/", ("*.mo",))
    assert made == tmp_path / "out" / "a" / "x.mo"
    assert made.read_bytes() == b"odd"


def test_a_package_in_zstd_needs_a_library_and_no_program(a_deb, tmp_path, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    a_deb(tmp_path / "a.deb", {"./x": b"data", "./y": b"no"}, "")
    head, tape = (tmp_path / "a.deb").read_bytes().split(b"data.tar  ", 1)
    size, tape = int(tape[38:48]), tape[50:]
    packed = pyarrow.compress(tape[:size], codec="zstd", asbytes=True)

    def write(data):
        field = f"{'data.tar.zst':<48}{len(data):<10}`\n".encode()
        (tmp_path / "z.deb").write_bytes(head + field + data)

    write(packed)
    monkeypatch.setenv("PATH", "")
    (made,) = unpack(tmp_path / "z.deb", tmp_path / "out", "", ("./x",))
    assert made.read_bytes() == b"data"
    monkeypatch.setattr(unpacking, "MOST", 3)
    with pytest.raises(FetchError, match="holds more than"):
        unpack(tmp_path / "z.deb", tmp_path / "out")
    for broken in (packed[: len(packed) // 2], packed[:9] + b"other" + packed[14:], b"no zstd"):
        write(broken)
        with pytest.raises(ArchiveError, match="an archive is broken"):
            unpack(tmp_path / "z.deb", tmp_path / "out")
    monkeypatch.setattr(registry, "is_installed", lambda name: False)
    with pytest.raises(FetchError, match=r"pyarrow is needed.*pip install .*'polib"):
        unpack(tmp_path / "z.deb", tmp_path / "out")


def test_an_archive_that_grows_without_bound_is_refused(a_deb, tmp_path, monkeypatch):
    a_deb(tmp_path / "a.deb", {"./x": bytes(1000)}, "xz")
    monkeypatch.setattr(unpacking, "MOST", 999)
    with pytest.raises(FetchError, match="holds more than"):
        unpack(tmp_path / "a.deb", tmp_path / "out")


@pytest.mark.parametrize("data", [b"!<arch>\n", b"!<arch>\n" + b"x" * 60, b"!<arch>\nshort"])
def test_a_broken_package_is_an_error(tmp_path, data):
    (tmp_path / "a.deb").write_bytes(data)
    with pytest.raises(FetchError, match="broken"):
        unpack(tmp_path / "a.deb", tmp_path / "out")


def test_a_name_in_a_package_that_leads_out_is_an_error(a_deb, tmp_path):
    a_deb(tmp_path / "a.deb", {"./../../up": b"x"})
    with pytest.raises(FetchError, match="unsafe name"):
        unpack(tmp_path / "a.deb", tmp_path / "out")


def test_packages_come_with_version_and_checksum_of_the_lists(shop):
    digest = shop("toy", PAIRS)
    (toy,) = available(("toy", "unknown")).values()
    assert (toy.name, toy.version, toy.sha256) == ("toy", "1:1.0-1", digest)
    assert toy.file == "toy_1%3a1.0-1_all.deb"


def test_messages_are_fetched_once_and_the_package_is_not_kept(shop, cache):
    shop("toy", [*PAIRS, (("one file", "many files"), ("eine Datei", "viele Dateien"))])
    (toy,) = available(("toy",)).values()
    expected = [*PAIRS, ("one file", "eine Datei"), ("many files", "viele Dateien")]
    assert sorted(messages(toy)) == sorted(expected)
    assert messages(toy) == messages(toy)
    assert asked(shop) == ["toy"]
    assert not list((cache / "downloads").iterdir())


def test_messages_that_are_corrupt_in_the_cache_are_fetched_again(shop, cache, capsys):
    shop("toy", PAIRS)
    (toy,) = available(("toy",)).values()
    before = messages(toy)
    (kept,) = (cache / "translation" / "packages").iterdir()
    kept.write_bytes(kept.read_bytes()[:30])
    assert messages(toy) == before
    assert "corrupt" in capsys.readouterr().err
    assert asked(shop) == ["toy", "toy"]


def test_a_package_that_was_put_there_by_hand_needs_no_apt(shop, cache, monkeypatch):
    digest = shop("toy", PAIRS)
    monkeypatch.setenv("PATH", "")
    assert available(("toy",)) == {}
    (cache / "downloads").mkdir(parents=True)
    (file,) = shop.folder.glob("*.deb")
    shutil.copy(file, cache / "downloads")
    (toy,) = available(("toy",)).values()
    assert (toy.version, toy.sha256) == ("1:1.0-1", digest)
    assert sorted(messages(toy)) == sorted(PAIRS)
    # it could not be fetched again
    assert available(("toy",)) == {"toy": toy}


def test_a_broken_catalogue_is_an_error(a_deb, shop):
    a_deb(shop.folder / "toy_1.0_all.deb", {"./de/LC_MESSAGES/a.mo": b"nothing of the kind"})
    (toy,) = available(("toy",)).values()
    with pytest.raises(FetchError, match="catalogue is broken"):
        messages(toy)
