"""Records: what was concluded is read again, and a file that is none is said."""

import json
from pathlib import Path

import pytest

from attnrate.errors import InputError, StoreError
from attnrate.experiments.claims import Claim
from attnrate.experiments.record import (
    Record,
    load_record,
    record_from_plain,
    record_to_plain,
    save_record,
)

RECORD = Record("propositions", "a title", "Sec. 3", "quick", 2, 1, 1.5, {"commit": "abc"})
CLAIM = Claim("c", "Sec. 3", "so it is", "propositions", "holds", "a number", 1.0).to_plain()
SERIES = {"label": "s", "x": [1, 2.5], "y": [1.0, 3]}
PANEL = {
    **{"kind": "curves", "title": "p", "x_label": "x", "y_label": "y"},
    **{"series": [SERIES], "y_scale": "log", "lines": []},
}
FIGURE = {"name": "f", "title": "t", "caption": "c"}


def test_what_was_saved_is_read_again(tmp_path: Path) -> None:
    whole = record_from_plain(
        {
            **record_to_plain(RECORD),
            "claims": [CLAIM],
            "figures": [{**FIGURE, "panels": [PANEL]}],
            "tables": [{"title": "t", "columns": ["a"], "rows": [[1.5]], "note": ""}],
        }
    )
    for record in (RECORD, whole):
        save_record(record, tmp_path / "a.json")
        assert load_record(tmp_path / "a.json") == record


@pytest.mark.parametrize(
    "changes",
    [
        {"figures": 5},
        {"claims": [1]},
        {"tables": None},
        {"paragraphs": None},
        {"paragraphs": [5]},
        {"unknown": 1},
        {"name": [1]},
        {"title": None},
        {"seconds": "long"},
        {"tasks": True},
        {"finished": 10**400},
        {"provenance": []},
        {"failed": 5},
        {"claims": [{**CLAIM, "value": "large"}]},
        {"figures": [{**FIGURE, "panels": [{**PANEL, "title": 5}]}]},
        {"figures": [{**FIGURE, "panels": [{**PANEL, "y_scale": "cubic"}]}]},
        {"figures": [{**FIGURE, "panels": [{**PANEL, "series": [{**SERIES, "y": ["a"]}]}]}]},
        {"tables": [{"title": "t", "columns": ["a"], "rows": [[{}]], "note": ""}]},
    ],
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
