"""What is in the cache: read without a lock, made when it is missing or broken, never deleted for
a disk or a memory that fails."""

import errno

import pytest

from attnrate.data.cached import OutdatedError, opened_or_made
from attnrate.data.registry import FetchError


def made_of(place, text="made"):
    def make():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return text

    return make


def as_number(place):
    return int(place.read_text())


@pytest.mark.parametrize("lock", [None, "toy"])
def test_what_is_missing_is_made_and_what_is_there_is_opened(cache, lock):
    place = cache / "toy.txt"
    assert opened_or_made(place, as_number, made_of(place, "7"), "toy", lock) == "7"
    assert opened_or_made(place, as_number, made_of(place, "8"), "toy", lock) == 7


def test_reading_needs_no_lock(cache):
    place = cache / "toy.txt"
    made_of(place, "7")()
    assert opened_or_made(place, as_number, made_of(place), "toy", "toy") == 7
    assert [each.name for each in cache.iterdir()] == ["toy.txt"]


@pytest.mark.parametrize("lock", [None, "toy"])
def test_what_is_broken_is_deleted_and_made_again(cache, capsys, lock):
    place = cache / "toy.txt"
    made_of(place, "seven")()
    gone = []

    def make():
        gone.append(not place.exists())
        return 8

    assert opened_or_made(place, as_number, make, "toy", lock) == 8
    assert gone == [True]
    assert "toy in the cache was corrupt and has been deleted" in capsys.readouterr().err


def test_a_folder_that_is_broken_goes_as_a_whole(cache):
    (cache / "toy").mkdir(parents=True)
    (cache / "toy" / "part").touch()

    def missing(place):
        return (place / "other").read_text()

    assert opened_or_made(cache / "toy", missing, lambda: "made", "toy", "toy") == "made"
    assert not (cache / "toy").exists()


@pytest.mark.parametrize("code", [errno.ENOMEM, errno.EIO])
def test_a_machine_that_fails_deletes_nothing(cache, code):
    place = cache / "toy.txt"
    made_of(place)()

    def fails(place):
        raise OSError(code, "fails")

    with pytest.raises(FetchError, match=r"toy in the cache cannot be read \(fails\).*toy\.txt"):
        opened_or_made(place, fails, made_of(place), "toy", "toy")
    assert place.exists()


def outdated(place):
    if place.read_text() == "old":
        raise OutdatedError("is old")
    return place.read_text()


def test_what_is_outdated_is_kept_until_its_successor_is_there(cache, capsys):
    place = cache / "toy.txt"
    made_of(place, "old")()

    def fails():
        raise FetchError("no network", place)

    with pytest.raises(FetchError, match="no network"):
        opened_or_made(place, outdated, fails, "toy", "toy")
    assert place.read_text() == "old"
    assert opened_or_made(place, outdated, made_of(place, "new"), "toy", "toy") == "new"
    assert "toy in the cache is old and is made again" in capsys.readouterr().err
    assert sorted(each.name for each in cache.iterdir()) == ["toy.lock", "toy.txt"]


def test_a_run_that_was_killed_while_making_a_successor_loses_nothing(cache):
    (cache / "toy.txt-before").parent.mkdir(parents=True)
    (cache / "toy.txt-before").write_text("7")
    place = cache / "toy.txt"
    assert opened_or_made(place, as_number, made_of(place, "8"), "toy", "toy") == 7
