"""The shared vocabulary: of training pairs only, without loss, the same every time."""

import sys

import pytest

from attnrate.data.bpe import BEGIN, END, LEAST_SIZE, PAD, vocabulary
from attnrate.data.registry import FetchError
from attnrate.data.translation import Translation
from attnrate.errors import InputError

tokenizers = pytest.importorskip("tokenizers")


@pytest.fixture
def data(cache):
    pair = ("The window is open", "Das Fenster ist geöffnet")
    return Translation(
        (pair,) * 20, (), (("zzyzx",) * 2,) * 100, {"sha256": {"train": "abc"}}, cache
    )


def test_every_text_comes_back(data):
    words = vocabulary(data, 280)
    assert words.size == 280
    for text in ("The window", "Größe „x“ …", "日本語 🙂", "  two  spaces ", ""):
        ids = words.encode(text)
        assert all(END < number < 280 for number in ids)
        assert words.decode(ids) == text
        assert words.decode([BEGIN, *ids, END, PAD, PAD]) == text


def test_the_name_of_a_special_token_in_a_text_is_text(data):
    words = vocabulary(data, 280)
    assert not {PAD, BEGIN, END} & set(words.encode("a <pad> and <end>"))


def test_known_words_are_short_and_words_of_the_test_set_are_not_known(data):
    words = vocabulary(data, 290)
    assert len(words.encode("Fenster ist geöffnet")) < 8
    assert len(words.encode("zzyzx")) == 5


def test_it_is_trained_once_and_the_same_again(data, cache):
    first = vocabulary(data, 280)
    written = first.file.read_bytes()
    first.file.unlink()
    again = vocabulary(data, 280)
    assert again.file.read_bytes() == written
    when = again.file.stat().st_mtime_ns
    assert vocabulary(data, 280).file.stat().st_mtime_ns == when
    assert vocabulary(data, 270).file != first.file


def test_a_broken_file_is_deleted_and_said_and_made_again(data, capsys):
    file = vocabulary(data, 280).file
    written = file.read_bytes()
    file.write_text("{")
    assert vocabulary(data, 280).size == 280
    assert "a vocabulary in the cache was corrupt" in capsys.readouterr().err
    assert file.read_bytes() == written


@pytest.mark.parametrize("size", [LEAST_SIZE - 1, "8000", None, 1e4])
def test_sizes_that_cannot_be(data, size):
    with pytest.raises(InputError, match="size must be"):
        vocabulary(data, size)


@pytest.mark.parametrize("ids", [None, 3, "abc", [280], [-1], [[1]]])
def test_what_are_no_ids(data, ids):
    with pytest.raises(InputError, match="Ids are 0 to 279"):
        vocabulary(data, 280).decode(ids)


def test_what_is_no_text(data):
    with pytest.raises(InputError, match="Pass a str"):
        vocabulary(data, 280).encode(b"bytes")


def test_without_the_library_the_way_out_is_told(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(FetchError, match=r"tokenizers is needed.*pip install .*'tokenizers"):
        vocabulary(data, 280)
