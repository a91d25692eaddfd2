"""Files of rows: the same rows from every kind of file, and what is broken is named."""

import csv
import gzip
import io
import json
import tracemalloc

import pytest
from word_models import TEMPLATE, word_bert

import attnrate.spectra.inputs.tables as tables
from attnrate.errors import InputError
from attnrate.spectra.inputs.files import table_kind
from attnrate.spectra.inputs.tables import TableFile, read_table

transformers = pytest.importorskip("transformers")
pq = pytest.importorskip("pyarrow.parquet")
ROWS = [
    {"id": 1, "text": "w1 w2, w3", "title": 'a "quoted" word'},
    {"id": 2, "text": "w4\nw5", "title": "ä€🙂"},
    {"id": 3, "text": "NA", "title": "null"},
]
CHAT = [{"role": "user", "content": "w7"}]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return word_bert(tmp_path_factory.mktemp("bert"), TEMPLATE)


def as_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def as_csv(rows, separator=","):
    text = io.StringIO()
    writer = csv.DictWriter(text, [*rows[0]], delimiter=separator)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def as_parquet(rows):
    import pyarrow as pa

    data = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), data, row_group_size=2)
    return data.getvalue()


KINDS = {
    "a.jsonl": as_lines,
    "a.ndjson": as_lines,
    "a.json": lambda rows: json.dumps(rows).encode(),
    "indented.json": lambda rows: json.dumps(rows, indent=2, ensure_ascii=False).encode(),
    "lines.json": as_lines,
    "a.csv": as_csv,
    "a.tsv": lambda rows: as_csv(rows, "\t"),
    "a.JSONL.gz": lambda rows: gzip.compress(as_lines(rows)),
    "a.csv.gz": lambda rows: gzip.compress(as_csv(rows)),
    "a.parquet": as_parquet,
    "of-windows.jsonl": lambda rows: b"\xef\xbb\xbf" + as_lines(rows).replace(b"\n", b"\r\n"),
    "of-windows.json": lambda rows: b"\xef\xbb\xbf" + json.dumps(rows).encode(),
    "of-windows.csv": lambda rows: b"\xef\xbb\xbf" + as_csv(rows),
}


def table(path):
    return TableFile(path, table_kind(path))


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_file_gives_the_rows_that_were_written(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(KINDS[name](ROWS))
    found = table(path)
    assert found.column_names == ["id", "text", "title"]
    for _ in range(2):  # a file can be read again
        assert [(row["text"], row["title"]) for row in found] == [
            (row["text"], row["title"]) for row in ROWS
        ]
    some = found.select_columns(["title"])
    assert [row["title"] for row in some] == [row["title"] for row in ROWS]


@pytest.mark.parametrize("name", KINDS)
def test_rows_are_inputs_of_their_own(bert, tmp_path, name):
    path = tmp_path / name
    path.write_bytes(KINDS[name](ROWS[:2]))
    found = read_table(bert, path, limit=10)
    (batch,) = found
    # "w2," is no word of the tokenizer
    assert batch["input_ids"].tolist() == [[2, 6, 1, 8, 3], [2, 9, 10, 3, 0]]
    assert str(found) == "2 inputs in 1 batch, 9 tokens"
    assert str(read_table(bert, path)) == "batches of 8 inputs, read as they come"
    assert sum(len(batch["input_ids"]) for batch in read_table(bert, path)) == 2
    assert read_table(bert, path, tokens=1).inputs == 1
    assert read_table(bert, path, column="title", limit=10, length=3).tokens == 6


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.parquet"])
def test_files_may_hold_chats_and_token_ids(bert, tmp_path, name):
    path = tmp_path / name
    path.write_bytes(KINDS[name]([{"id": 1, "messages": CHAT}]))
    (batch,) = read_table(bert, path)
    assert batch["input_ids"].tolist() == [[2, 5, 12, 3]]
    path.write_bytes(KINDS[name]([{"input_ids": [5, 6]}, {"input_ids": [7, 8]}]))
    (batch,) = read_table(bert.model, path)
    assert batch["input_ids"].tolist() == [[5, 6], [7, 8]]


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_rows_of_json_may_be_strings_or_chats_themselves(bert, tmp_path, name):
    path = tmp_path / name
    path.write_bytes(KINDS[name](["w1", "w2"]))
    assert read_table(bert, path, limit=9).tokens == 6
    path.write_bytes(as_lines([CHAT, CHAT]))
    if name == "a.jsonl":
        assert read_table(bert, path, limit=9).tokens == 8


BROKEN = {
    "cut.jsonl": (as_lines(ROWS)[:-9], "line 3 of the file is no JSON"),
    "prose.jsonl": (b"w1 w2\nw3\n", "line 1 of the file is no JSON"),
    "number.jsonl": (b'{"text": "w1"}\n3\n', r"line 2 of number\.jsonl is no row: got 3"),
    "deep.jsonl": (b"[" * 100_000, "line 1 of the file is no JSON"),
    "bytes.jsonl": (b'{"text": "\xff"}', "no text in UTF-8"),
    "cut.json": (json.dumps(ROWS).encode()[:-9], "entry 2 of the file is no JSON"),
    "open.json": (json.dumps(ROWS).encode()[:-1], "entry 2 of the file is no JSON"),
    "comma.json": (b'[{"text": "w1"} {"text": "w2"}]', "entry 0 .*no comma"),
    "trailing.json": (b'[{"text": "w1"},]', "entry 1 of the file is no JSON"),
    "more.json": (b'[{"text": "w1"}]\n[{"text": "w2"}]', "there is more after its end"),
    "object.json": (b'{\n "text": "w1"\n}', "line 1 of the file is no JSON"),
    "deep.json": (b"[" * 100_000, "entry 0 of the file is no JSON"),
    "empty.json": (b"[]", "there are no texts"),
    "blank.jsonl": (b"\n\n", "there are no texts"),
    "quote.csv": (b'text,id\n"w1,2\n', "no table.*EOF inside string"),
    "commas.csv": (b"id,text\n1,w1\n2,w2, w3\n", "no table.*Expected 2 fields in line 3, saw 3"),
    "all-commas.csv": (b"id,text\n1,w1, w2\n2,w2, w3\n", "more cells than there are columns"),
    "bytes.csv": (b"text\n\xff\xfe\n", "no text in UTF-8"),
    "blank.csv": (b"\n\n", "no table"),
    "header.csv": (b"text\n", "there are no texts"),
    "cell.csv": (b"text,id\nw1,1\n,2\n", "text of row 1 .* is empty"),
    "short.csv": (b"id,text\n1,w1\n2\n", "text of row 1 .* is empty"),
    "null.jsonl": (b'{"text": null}\n', "text of row 0 .* is no string: got None"),
    "cut.parquet": (as_parquet(ROWS)[:-9], "no whole Parquet"),
    "prose.parquet": (b"w1 w2", "no whole Parquet"),
    "number.parquet": (as_parquet([{"text": 3}]), "text of row 0 .* is no string: got 3"),
    "cut.jsonl.gz": (gzip.compress(as_lines(ROWS))[:-9], "broken or breaks off"),
    "plain.jsonl.gz": (as_lines(ROWS), "broken or breaks off"),
    "cut.csv.gz": (gzip.compress(as_csv(ROWS * 999))[:-99], "broken or breaks off"),
    "names.csv": (b"body,id\nw1,1\n", r"no column is named text.*\['body', 'id'\].*column=NAME"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_in_words(bert, tmp_path, name):
    data, match = BROKEN[name]
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(InputError, match=match):
        read_table(bert, path, limit=10_000)
    with pytest.raises(InputError, match=match):
        list(read_table(bert, path))


def test_files_that_are_no_tables(bert, tmp_path):
    (tmp_path / "a.txt").write_text("w1")
    with pytest.raises(InputError, match=r"no table.*\.parquet.*ar\.read_text"):
        read_table(bert, tmp_path / "a.txt")
    with pytest.raises(InputError, match="no such file"):
        read_table(bert, tmp_path / "a.jsonl")
    (tmp_path / "a.jsonl").touch()
    with pytest.raises(InputError, match="is empty"):
        read_table(bert, tmp_path / "a.jsonl")


def test_a_column_that_is_not_there_is_refused_before_anything_is_read(bert, tmp_path):
    for name, made in KINDS.items():
        (tmp_path / name).write_bytes(made(ROWS))
        with pytest.raises(InputError, match=r"no column 'txt'.*'text'.*Known: id, text, title"):
            read_table(bert, tmp_path / name, column="txt")


def test_entries_of_a_json_list_may_be_longer_than_what_is_read_at_a_time(tmp_path, monkeypatch):
    rows = [{"text": "w1 " * length} for length in (1, 50, 3, 900, 0)]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(rows, indent=1))
    for characters in (1, 7, 64):
        monkeypatch.setattr(tables, "_CHARACTERS", characters)
        assert [*table(path)] == rows


def test_a_row_without_an_end_is_not_read_into_the_memory(bert, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_LONGEST", 1000)
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "' + "w1 " * 1000)
    with pytest.raises(InputError, match="line 1 of the file is no JSON"):
        read_table(bert, path)
    path = tmp_path / "a.json"
    path.write_text('[{"text": "' + "w1 " * 100_000)
    with pytest.raises(InputError, match="entry 0 of the file is no JSON"):
        read_table(bert, path)


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv"])
def test_a_large_file_does_not_fill_the_memory(tmp_path, name):
    path = tmp_path / name
    row = {"id": 1, "text": "w1 " * 1600}
    path.write_bytes(KINDS[name]([row] * 2000))
    assert path.stat().st_size > 9_000_000
    rows = iter(table(path))
    next(rows)  # what is imported first does not count
    tracemalloc.start()
    try:
        assert sum(1 for _ in rows) == 1999
        assert tracemalloc.get_traced_memory()[1] < 4_500_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("groups", [500, 8000])
def test_parquet_is_read_a_few_rows_at_a_time_whatever_its_groups(tmp_path, groups):
    import pyarrow as pa

    path = tmp_path / "a.parquet"
    whole = pa.table({"text": ["w1 " * 400 + str(n) for n in range(8000)]})
    pq.write_table(whole, path, row_group_size=groups, compression="none", use_dictionary=False)
    assert path.stat().st_size > 9_000_000
    del whole
    before, most = pa.total_allocated_bytes(), 0
    for _ in table(path):
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 3_000_000


def test_parquet_without_pyarrow_says_what_to_install(bert, tmp_path, monkeypatch):
    import sys

    path = tmp_path / "a.parquet"
    path.write_bytes(as_parquet(ROWS))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"pyarrow, which is not installed.*pip install"):
        read_table(bert, path)
