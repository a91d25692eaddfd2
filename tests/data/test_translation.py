"""Sentence pairs: split by package, nothing in two splits, made once, the same every time."""

import gzip
import hashlib

import pytest

from attnrate.data import gather as gathering
from attnrate.data import registry
from attnrate.data import translation as here
from attnrate.data.catalogues import messages
from attnrate.data.registry import FetchError
from attnrate.data.translation import SMALL, SPLITS, translation
from attnrate.errors import InputError

THINGS = ("file", "Datei"), ("image", "Grafik"), ("song", "Ablage"), ("page", "Seite")
A = [(f"Could not open the {e}", f"Diese {d} konnte nicht geöffnet werden") for e, d in THINGS]
B = [(f"Please close the {e} first", f"Bitte die {d} zuerst schließen") for e, d in THINGS]
C = [(f"The {e} has been deleted", f"Diese {d} wurde gelöscht") for e, d in THINGS]
LABEL = ("File", "Datei")
SHARED = ("There is no more memory", "Es ist kein Speicher mehr frei")


@pytest.fixture
def market(shop, monkeypatch):
    """Three packages of four pairs each, some of which they share."""
    monkeypatch.setattr(
        here, "SPLITS", {"test": ("toy-a",), "validation": ("toy-b",), "train": ("toy-c", "toy-d")}
    )
    monkeypatch.setattr(here, "FEWEST_PAIRS", {"test": 4, "validation": 3, "train": 3})
    shop("toy-a", [*A, SHARED])
    shop("toy-b", [*B, SHARED, LABEL])
    shop("toy-c", [*C, (SHARED[0].upper() + "!", "Kein freier Speicher mehr da!"), LABEL])
    shop("toy-d", [C[0], ("Memory is used up entirely", SHARED[1])])
    return shop


def asked(shop):
    return (shop.folder / "asked").read_text().split()


def test_no_sentence_is_in_two_splits(market):
    found = translation()
    assert set(found.test) == {*A, SHARED}
    assert set(found.validation) == set(B)
    assert set(found.train) == set(C)
    assert found.counts == {"train": 4, "validation": 4, "test": 5}


def test_a_small_set_is_of_a_few_packages_in_the_same_splits(market, monkeypatch):
    monkeypatch.setattr(here, "SMALL", ("toy-a", "toy-b", "toy-c"))
    monkeypatch.setattr(here, "FEWEST_OF_SMALL", {"test": 4, "validation": 3, "train": 3})
    small = translation("small")
    assert sorted(asked(market)) == ["toy-a", "toy-b", "toy-c"]
    assert set(small.test) == {*A, SHARED}
    assert small.folder != translation().folder
    with pytest.raises(InputError, match="packages"):
        translation("tiny")


def test_the_small_packages_are_of_every_split():
    assert all(set(SMALL) & set(names) for names in SPLITS.values())
    assert set(SMALL) <= {name for names in SPLITS.values() for name in names}


def test_the_manifest_tells_what_was_used(market):
    digest = market("toy-c", C, version="2.0")
    (market.folder / "toy-c_1%3a1.0-1_all.deb").unlink()
    (market.folder / "toy-d_1%3a1.0-1_all.deb").unlink()
    found = translation()
    used = {package["name"]: package for package in found.manifest["packages"]}
    assert used["toy-c"] == {
        "name": "toy-c",
        "version": "2.0",
        "sha256": digest,
        "messages": 4,
        "pairs": 4,
    }
    assert list(found.manifest["left_out"]) == ["toy-d"]
    assert "no such package" in found.manifest["left_out"]["toy-d"]
    text = gzip.decompress((found.folder / "test.tsv.gz").read_bytes())
    assert hashlib.sha256(text).hexdigest() == found.manifest["sha256"]["test"]
    assert not found.documented


def test_pairs_are_made_once_and_the_same_again(market, cache, capsys):
    found = translation()
    fetched = asked(market)
    assert sorted(fetched) == ["toy-a", "toy-b", "toy-c", "toy-d"]
    assert translation() == found
    (found.folder / "train.tsv.gz").write_bytes(gzip.compress(b"other\tandere\n"))
    assert translation() == found
    assert "corrupt" in capsys.readouterr().err
    assert asked(market) == fetched


def test_a_run_that_was_stopped_goes_on_where_it_was(market, monkeypatch):
    def stop_at_c(package):
        if package.name == "toy-c":
            raise KeyboardInterrupt
        return messages(package)

    with monkeypatch.context() as patch:
        patch.setattr(gathering, "messages", stop_at_c)
        with pytest.raises(KeyboardInterrupt):
            translation()
    assert asked(market) == ["toy-a", "toy-b"]
    translation()
    assert asked(market) == ["toy-a", "toy-b", "toy-c", "toy-d"]


def test_too_few_pairs_are_refused(market, monkeypatch, cache):
    monkeypatch.setattr(here, "FEWEST_PAIRS", {"train": 5})
    with pytest.raises(
        FetchError, match=r"train needs 5 translation pairs.*4 pairs.*apt-get update"
    ):
        translation()
    assert not list((cache / "translation").glob("pairs*"))


def test_a_package_for_training_that_does_not_come_is_left_out_and_said(market, a_deb, capsys):
    a_deb(market.folder / "toy-d_1%3a1.0-1_all.deb", {"./usr/bin/x": b"no catalogue"})
    found = translation()
    assert list(found.manifest["left_out"]) == ["toy-d"]
    assert "toy-d is left out" in capsys.readouterr().err


def test_a_package_that_is_put_there_later_is_taken_in(market, cache, capsys):
    lacking = market.folder / "toy-c_1%3a1.0-1_all.deb"
    data = lacking.read_bytes()
    market("toy-d", C)
    lacking.unlink()
    before = translation()
    assert list(before.manifest["left_out"]) == ["toy-c"]
    (cache / "downloads").mkdir(exist_ok=True)
    (cache / "downloads" / lacking.name).write_bytes(data)
    after = translation()
    assert after.manifest["left_out"] == {}
    assert "made again" in capsys.readouterr().err
    assert translation().folder == after.folder
    assert "made again" not in capsys.readouterr().err


def test_a_broken_package_that_is_put_right_and_another_version_are_taken_in(
    market, cache, capsys, a_deb
):
    place = cache / "downloads"
    place.mkdir(parents=True)
    good = market.folder / "toy-d_1%3a1.0-1_all.deb"
    data = good.read_bytes()
    good.unlink()
    a_deb(place / good.name, {"./usr/bin/x": b"no catalogue"})
    assert list(translation().manifest["left_out"]) == ["toy-d"]
    assert list(translation().manifest["left_out"]) == ["toy-d"]
    assert "made again" not in capsys.readouterr().err
    (place / good.name).write_bytes(data)
    assert translation().manifest["left_out"] == {}
    for version in ("2.14.12-1", "2.14.9-1"):  # by their numbers and not by their letters
        market("toy-a", [*A, (f"It is version {version}", f"Das ist Version {version}")], version)
        name = f"toy-a_{version}_all.deb"
        (market.folder / name).rename(place / name)
    after = translation()
    assert {p["name"]: p["version"] for p in after.manifest["packages"]}["toy-a"] == "2.14.12-1"
    assert "is of toy-a 1:1.0-1, not of toy-a_2.14.12-1_all.deb, and is made again" in (
        capsys.readouterr().err
    )
    assert translation().folder == after.folder
    assert "made again" not in capsys.readouterr().err


def test_good_pairs_stay_when_better_ones_cannot_be_made(market, cache, monkeypatch):
    before = translation()
    place = cache / "downloads"
    place.mkdir(exist_ok=True)
    (place / "toy-a_2.0-1_all.deb").write_bytes(b"no package")
    with pytest.raises(FetchError, match=r"archive is broken.*translation --names"):
        translation()
    (place / "toy-a_2.0-1_all.deb").unlink()
    assert translation() == before


def test_a_network_that_fails_makes_no_smaller_set_and_what_came_is_kept(
    market, cache, monkeypatch
):
    (market.folder / "closed").touch()
    with pytest.raises(
        FetchError, match=r"at least 3 of 4 packages.*toy-a.*run the same command again"
    ):
        translation()
    assert asked(market) == ["toy-a", "toy-b", "toy-c"]
    assert not list((cache / "translation").glob("pairs*"))
    (market.folder / "closed").unlink()

    def flaky(package):
        if package.name == "toy-d":
            raise FetchError("no network", package.name)
        return messages(package)

    with monkeypatch.context() as patch:
        patch.setattr(gathering, "messages", flaky)
        with pytest.raises(FetchError, match=r"1 of 4 packages could not be fetched.*toy-d"):
            translation()
    assert translation().manifest["left_out"] == {}
    assert asked(market)[3:] == ["toy-a", "toy-b", "toy-c", "toy-d"]


def test_a_test_package_without_catalogues_is_an_error(market, a_deb):
    a_deb(market.folder / "toy-a_1%3a1.0-1_all.deb", {"./usr/bin/x": b"no catalogue"})
    with pytest.raises(FetchError, match=r"has no file.*translation --names"):
        translation()


def test_without_apt_the_way_out_is_told(market, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FetchError, match=r"apt is needed.*downloads"):
        translation()


def test_a_package_belongs_to_one_split():
    names = [name for split in SPLITS.values() for name in split]
    assert len(names) == len(set(names))


def test_without_polib_nothing_is_fetched(market, monkeypatch):
    monkeypatch.setattr(registry, "is_installed", lambda name: False)
    with pytest.raises(FetchError, match=r"polib is needed.*pip install .*'polib"):
        translation()
    assert not (market.folder / "asked").exists()


def test_a_terminal_shows_which_package_it_is_and_a_bar_of_each(market, on_a_terminal, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")  # wide enough for the whole name of a file
    said = on_a_terminal(translation)
    for number, name in enumerate(("toy-a", "toy-b", "toy-c", "toy-d")):
        assert f"{number}/4" in said
        assert name in said
    assert "toy-a_1%3a1.0-1_all.deb" in said
    assert "Traceback" not in said
