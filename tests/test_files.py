"""Files are written whole or not at all; a place belongs to one process at a time."""

import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from attnrate.errors import StoreError
from attnrate.files import alone, replaced, write_whole


def test_a_file_is_written_as_a_whole_with_ordinary_rights(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_whole(path, b"first")
    write_whole(path, b"second")
    assert path.read_bytes() == b"second"
    assert [one.name for one in tmp_path.iterdir()] == ["result.json"]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_what_fails_on_the_way_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_whole(path, b"first")

    def fail() -> None:
        with replaced(path) as beside:
            beside.write_bytes(b"half")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert path.read_bytes() == b"first"
    assert [one.name for one in tmp_path.iterdir()] == ["result.json"]


def test_two_that_write_the_same_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    with replaced(path) as one, replaced(path) as two:
        assert one != two
        one.write_bytes(b"one")
        two.write_bytes(b"two")
    assert path.read_bytes() == b"one"  # which ended last
    assert [each.name for each in tmp_path.iterdir()] == ["result.json"]


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        StoreError, match=r"could not be written.*nowhere.*run the same command again"
    ):
        write_whole(tmp_path / "nowhere" / "result.json", b"data")


def test_only_one_process_gets_past_a_lock_and_a_killed_one_leaves_it(tmp_path: Path) -> None:
    lock = tmp_path / "here" / ".lock"
    with alone(lock, wait=False):
        asked = multiprocessing.get_context("spawn").Process(target=_try, args=(lock,))
        asked.start()
        asked.join()
        assert asked.exitcode == 7
    killed = multiprocessing.get_context("spawn").Process(target=_kill_within, args=(lock,))
    killed.start()
    killed.join()
    assert killed.exitcode == -9
    with alone(lock, wait=False):
        pass


def _try(lock: Path) -> None:
    try:
        with alone(lock, wait=False):
            os._exit(0)
    except StoreError as problem:
        os._exit(7 if "another process" in str(problem) else 1)


def _kill_within(lock: Path) -> None:
    with alone(lock, wait=False):
        os.kill(os.getpid(), 9)


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_lock_is_never_taken_through_a_link(link, tmp_path):
    own = tmp_path / "thesis"
    own.write_bytes(b"years of work")
    link(own, tmp_path / ".lock")
    with pytest.raises(StoreError, match="link"), alone(tmp_path / ".lock", wait=False):
        pass
    assert own.read_bytes() == b"years of work"


def test_a_lock_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="lock"), alone(tmp_path / "file" / ".lock", wait=False):
        pass
