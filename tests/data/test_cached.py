"""What is in the cache: read without a lock, made when it is missing or broken, never deleted for
a disk or a memory that fails."""

import errno
import threading

import pytest

from attnrate.data.cached import OutdatedError, opened_or_made
from attnrate.data.registry import FetchError

LOCKS = pytest.mark.parametrize("lock", [None, "toy"])


def writes(text="made"):
    return lambda made: made.write_text(text)


def put(place, text):
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


def as_number(place):
    return int(place.read_text())


@LOCKS
def test_what_is_missing_is_made_and_what_is_there_is_opened(cache, lock):
    place = cache / "new" / "toy.txt"
    assert opened_or_made(place, as_number, writes("7"), "toy", 1, lock) == 7
    assert opened_or_made(place, as_number, writes("8"), "toy", 1, lock) == 7


def test_reading_needs_no_lock(cache):
    place = cache / "toy.txt"
    put(place, "7")
    assert opened_or_made(place, as_number, writes(), "toy", 1, "toy") == 7
    assert [each.name for each in cache.iterdir()] == ["toy.txt"]


@LOCKS
def test_what_is_broken_is_deleted_and_made_again(cache, capsys, lock):
    place = cache / "toy.txt"
    put(place, "seven")
    gone = []

    def fill(made):
        gone.append(not place.exists())
        made.write_text("8")

    assert opened_or_made(place, as_number, fill, "toy", 1, lock) == 8
    assert gone == [True]
    assert "toy in the cache was corrupt and has been deleted" in capsys.readouterr().err


def test_a_folder_that_is_broken_goes_as_a_whole(cache):
    put(cache / "toy" / "part", "")

    def fill(made):
        made.mkdir()
        (made / "other").write_text("made")

    def other(place):
        return (place / "other").read_text()

    assert opened_or_made(cache / "toy", other, fill, "toy", 1, "toy") == "made"
    assert [each.name for each in (cache / "toy").iterdir()] == ["other"]


@LOCKS
def test_what_is_not_complete_is_never_there_and_leaves_nothing(cache, lock):
    def fill(made):
        made.write_text("7")
        (made.parent / "other").write_text("on the way")
        assert not (cache / "toy.txt").exists()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        opened_or_made(cache / "toy.txt", as_number, fill, "toy", 1, lock)
    assert [each.name for each in cache.iterdir()] == (["toy.lock"] if lock else [])


def test_of_two_that_want_the_same_folder_the_first_makes_it_and_the_other_finds_it(cache):
    begun, found = threading.Event(), []

    def fill(made):
        begun.set()
        made.mkdir()
        (made / "file").write_text(threading.current_thread().name)

    def get():
        found.append(
            opened_or_made(
                cache / "toy", lambda it: (it / "file").read_text(), fill, "toy", 1, "toy"
            )
        )

    threads = [threading.Thread(target=get, name=name) for name in ("first", "second")]
    threads[0].start()
    assert begun.wait(10)
    threads[1].start()
    for thread in threads:
        thread.join(10)
    assert found == ["first", "first"]


@pytest.mark.parametrize("code", [errno.ENOMEM, errno.EIO])
def test_a_machine_that_fails_deletes_nothing(cache, code):
    place = cache / "toy.txt"
    put(place, "made")

    def fails(place):
        raise OSError(code, "fails")

    with pytest.raises(FetchError, match=r"toy in the cache cannot be read \(fails\).*toy\.txt"):
        opened_or_made(place, fails, writes(), "toy", 1, "toy")
    assert place.exists()


def outdated(place):
    if place.read_text() == "old":
        raise OutdatedError("is old")
    return place.read_text()


def test_what_is_outdated_is_kept_until_its_successor_is_there(cache, capsys):
    place = cache / "toy.txt"
    put(place, "old")

    def fails(made):
        raise FetchError("no network", place)

    with pytest.raises(FetchError, match="no network"):
        opened_or_made(place, outdated, fails, "toy", 1, "toy")
    assert place.read_text() == "old"
    assert opened_or_made(place, outdated, writes("new"), "toy", 1, "toy") == "new"
    assert "toy in the cache is old and is made again" in capsys.readouterr().err
    assert sorted(each.name for each in cache.iterdir()) == ["toy.lock", "toy.txt"]


def test_a_run_that_was_killed_while_making_a_successor_loses_nothing(cache):
    put(cache / "toy.txt-before", "7")
    place = cache / "toy.txt"
    assert opened_or_made(place, as_number, writes("8"), "toy", 1, "toy") == 7
