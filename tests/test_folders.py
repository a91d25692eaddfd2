"""Output folders: filled as a whole or left as they were, and never somebody else's."""

from pathlib import Path

import pytest

from attnrate.errors import InputError
from attnrate.folders import (
    MARK,
    filled_at_once,
    look_at,
    make_folder,
    read_mark,
    write_mark,
)


def test_a_new_folder_appears_when_all_is_written(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b"
    with filled_at_once(place, "profile") as fresh:
        (fresh / "page.html").write_text("whole", encoding="utf-8")
        assert not (tmp_path / "a").exists()
    assert {one.name for one in place.iterdir()} == {MARK, "page.html"}
    assert [one.name for one in tmp_path.iterdir()] == ["a"]
    assert read_mark(place, "profile")["made_by"] == "attnrate profile"


def test_what_fails_changes_nothing(tmp_path: Path) -> None:
    with filled_at_once(tmp_path, "profile") as fresh:
        (fresh / "page.html").write_text("first", encoding="utf-8")

    def fail() -> None:
        with filled_at_once(tmp_path, "profile") as fresh:
            (fresh / "page.html").write_text("half", encoding="utf-8")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == "first"
    assert {one.name for one in tmp_path.iterdir()} == {MARK, "page.html"}


def test_new_and_empty_folders_have_no_mark_and_are_not_touched(tmp_path: Path) -> None:
    assert look_at(tmp_path / "new", "profile") == (tmp_path / "new", None)
    assert look_at(str(tmp_path), "profile") == (tmp_path, None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "no json", "[" * 50_000, '{"made_by": "attnrate reproduce"}']
)
def test_a_mark_of_anything_else_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / MARK).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="not made by attnrate profile"):
        look_at(tmp_path, "profile")


def test_another_format_is_refused(tmp_path: Path) -> None:
    write_mark(tmp_path, "profile", {"format": 99})
    with pytest.raises(InputError, match="99"):
        look_at(tmp_path, "profile")


def test_a_folder_with_what_a_killed_run_left_is_still_new(tmp_path):
    (tmp_path / ".attnrate-abc").mkdir()
    (tmp_path / ".attnrate.json.xyz").touch()
    assert look_at(tmp_path, "profile") == (tmp_path, None)


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "figures").write_text("mine")
    with pytest.raises(InputError, match="figures"):
        make_folder(tmp_path / "figures")
    with pytest.raises(InputError, match="deeper"):
        make_folder(tmp_path / "figures" / "deeper")
    assert (tmp_path / "figures").read_text() == "mine"
