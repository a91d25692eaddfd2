"""Records: what was concluded is read again, and a file that is none is said."""

import json
from pathlib import Path

import pytest

from attnrate.errors import InputError, StoreError
from attnrate.experiments.record import Record, load_record, record_to_plain, save_record

RECORD = Record("propositions", "a title", "Sec. 3", "quick", 2, 1, 1.5, {"commit": "abc"})


def test_what_was_saved_is_read_again(tmp_path: Path) -> None:
    save_record(RECORD, tmp_path / "a.json")
    assert load_record(tmp_path / "a.json") == RECORD


@pytest.mark.parametrize(
    "changes",
    [{"figures": 5}, {"claims": [1]}, {"tables": None}, {"paragraphs": None}, {"unknown": 1}],
)
def test_a_record_with_something_else_in_it_is_refused(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(record_to_plain(RECORD) | changes))
    with pytest.raises(StoreError, match="cannot be read"):
        load_record(path)


@pytest.mark.parametrize("text", ["", "[]", "5", "no json", "[" * 50_000, '"\\ud800'])
def test_a_file_that_is_no_record_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(StoreError, match=r"(?s)cannot be read.*report writes it again"):
        load_record(path)


def test_a_record_that_is_a_folder_or_of_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        load_record(tmp_path)
    path = tmp_path / "a.json"
    path.write_text('{"format": 99}')
    with pytest.raises(InputError, match="format"):
        load_record(path)
