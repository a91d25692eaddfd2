"""Running text from a file: cut into pieces in order, spread over the file, nothing made up."""

import gzip

import pytest
import torch
from word_models import VOCABULARY, WORDS, save_tokenizer, word_bert, words_of

from attnrate.errors import InputError
from attnrate.spectra.inputs.running import _text, read_text
from attnrate.spectra.load import LoadedModel, load_model

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return word_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(" ".join(WORDS))
    return path


def test_text_is_cut_into_pieces_in_order_and_nothing_is_lost(bert, text):
    batches = read_text(bert, text, length=10, batch=3, short="pad")
    assert words_of(batches) == WORDS
    assert (len(batches), batches.inputs) == (2, 4)
    first, last = batches
    assert first["input_ids"].shape == (3, 10)
    assert first["input_ids"][:, 0].tolist() == [2, 2, 2]
    assert first["attention_mask"].all()
    # 30 words: three pieces of 8 and one of 6
    assert last["attention_mask"].sum() == 8
    assert words_of(batches) == words_of(batches)


def test_the_last_short_piece_is_dropped_unless_it_is_the_only_one(bert, text):
    assert words_of(read_text(bert, text, length=10)) == WORDS[:24]
    text.write_text("w1 w2")
    assert words_of(read_text(bert, text, length=10)) == ["w1", "w2"]


def test_padding_is_hidden_from_the_model(bert, text):
    whole, part = read_text(bert, text, length=16, batch=2, short="pad"), None
    for batch in whole:
        part = batch
    count = int(part["attention_mask"][-1].sum())
    with torch.no_grad():
        padded = bert.model(**part).last_hidden_state[-1, :count]
        alone = bert.model(input_ids=part["input_ids"][-1:, :count]).last_hidden_state[0]
    torch.testing.assert_close(padded, alone)


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_a_limit_spreads_the_pieces_over_the_file(bert, tmp_path, limit):
    path = tmp_path / "long.txt"
    said = WORDS * 200
    path.write_text(" ".join(said))
    found = list(read_text(bert, path, length=10, batch=1, limit=limit))
    assert len(found) == limit
    starts = []
    for piece in found:
        words = words_of([piece])
        assert len(words) == 8
        first = WORDS.index(words[0])
        assert words == (WORDS * 2)[first : first + 8]  # a stretch of the text as it stands
        starts.append(words)
    assert starts[0] == WORDS[:8]


def test_pieces_of_a_short_file_are_spread_too(bert, tmp_path):
    path = tmp_path / "short.txt"
    path.write_text(" ".join(WORDS))
    assert words_of(read_text(bert, path, length=10, limit=2)) == WORDS[:8] + WORDS[16:24]


def test_a_limit_is_reached_even_if_words_are_far_apart(bert, tmp_path):
    path = tmp_path / "sparse.txt"
    path.write_text((" " * 500).join(WORDS))
    found = words_of(read_text(bert, path, length=5, limit=4))
    assert len(found) == 12
    assert found[:3] == WORDS[:3]


def test_characters_of_several_bytes_may_lie_across_a_start(bert, tmp_path):
    path = tmp_path / "wide.txt"
    path.write_text("w1 äöü€🙂 w2 " * 500, encoding="utf-8")
    for limit in range(1, 12):
        assert read_text(bert, path, length=10, limit=limit).inputs == limit


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"length": 17}, "at most 16 tokens"),
        ({"length": 1}, "length"),
        ({"length": "8"}, "length"),
        ({"batch": 0}, "batch"),
        ({"limit": 0}, "limit"),
        ({"short": "keep"}, "short"),
    ],
)
def test_text_options_that_cannot_be(bert, text, options, match):
    with pytest.raises(InputError, match=match):
        read_text(bert, text, **({"length": 10} | options))


def test_text_that_is_none(bert, tmp_path):
    path = tmp_path / "f.txt"
    for missing in (path, tmp_path, None, 3):
        with pytest.raises(InputError, match="no such file"):
            read_text(bert, missing, length=8)
    for data, match in ((b"", "empty"), (b" \n ", "no text"), (b"\xff\xfe\x00", "UTF-8")):
        path.write_bytes(data)
        with pytest.raises(InputError, match=match):
            read_text(bert, path, length=8)


def test_tokens_that_the_model_does_not_know(bert, text):
    config = transformers.BertConfig(
        vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2
    )
    smaller = LoadedModel(transformers.BertModel(config), "smaller", bert.folder, None)
    with pytest.raises(InputError, match=r"outside the vocabulary.*0 to 8"):
        read_text(smaller, text, length=8)


def test_text_without_spaces_is_not_thrown_away(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("語" * 1000, encoding="utf-8")
    assert len(_text(path, 300, 300)) == 100
    path.write_text("wor ld\nnext " * 100, encoding="utf-8")
    assert _text(path, 1, 30).startswith("ld")


def test_a_budget_of_tokens_takes_as_many_pieces_as_hold_it(bert, tmp_path):
    path = tmp_path / "long.txt"
    path.write_text(" ".join(WORDS * 20))
    for tokens, pieces in ((1, 1), (10, 1), (11, 2), (40, 4)):
        found = read_text(bert, path, length=10, tokens=tokens)
        assert (found.inputs, found.tokens) == (pieces, 10 * pieces)
        assert str(found).endswith(f"{10 * pieces} tokens")
    assert read_text(bert, path, length=10, tokens=40, limit=3).inputs == 3
    assert read_text(bert, path, length=10, tokens=40, limit=5).inputs == 4


def test_the_tokens_of_a_summary_are_those_that_are_no_padding(bert, text):
    found = read_text(bert, text, length=16, short="pad")
    assert found.tokens == sum(int(batch["attention_mask"].sum()) for batch in found)


@pytest.mark.parametrize("name", ["rows.txt", "rows.md", "rows", "rows.log"])
@pytest.mark.parametrize(
    "data",
    [
        '{"text": "w1 w2"}\n{"text": "w3"}\n',
        '\n\n  {"a \\"quoted\\" name" : 1}',
        '[{"text": "w1 w2"}]',
        '[\n  {\n    "text": "w1 w2"\n  }\n]',
        '\ufeff{"text": "' + "w1 " * 100_000 + '"}',
    ],
)
def test_json_is_never_read_as_prose(bert, tmp_path, name, data):
    path = tmp_path / name
    path.write_text(data, encoding="utf-8")
    with pytest.raises(InputError, match=r"holds JSON.*\.jsonl"):
        read_text(bert, path)


@pytest.mark.parametrize("ending", ["jsonl", "json", "csv", "TSV", "parquet", "jsonl.gz"])
def test_tables_are_no_running_text(bert, tmp_path, ending):
    path = tmp_path / f"rows.{ending}"
    path.write_text("w1 w2")
    with pytest.raises(InputError, match=r"is a table.*ar\.read_table"):
        read_text(bert, path)


@pytest.mark.parametrize("data", ["{w1} w2", '{"w1" w2', "[w1] w2", '["w1", "w2"] w3'])
def test_prose_may_begin_with_a_bracket(bert, tmp_path, data):
    path = tmp_path / "text.txt"
    path.write_text(data)
    assert read_text(bert, path).inputs == 1


def test_compressed_text_is_the_same_text(bert, text, tmp_path):
    packed = tmp_path / "text.txt.gz"
    packed.write_bytes(gzip.compress(text.read_bytes()))
    for options in ({"short": "pad"}, {"limit": 2}):
        assert words_of(read_text(bert, packed, 10, **options)) == words_of(
            read_text(bert, text, 10, **options)
        )
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(InputError, match="breaks off"):
        read_text(bert, packed)


def test_the_decoder_of_a_model_with_an_encoder_reads_the_text_one_token_later(tmp_path):
    config = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2,
        decoder_start_token_id=0,
    )  # fmt: skip
    transformers.T5Model(config).save_pretrained(tmp_path)
    save_tokenizer(tmp_path)
    loaded = load_model(tmp_path)
    path = tmp_path / "words.txt"
    path.write_text("w1 w2 w3")
    (batch,) = read_text(loaded, path)
    assert batch["input_ids"].tolist() == [[2, 6, 7, 8, 3]]
    assert batch["decoder_input_ids"].tolist() == [[0, 2, 6, 7, 8]]
    loaded.model(**batch)
    loaded.model.config.decoder_start_token_id = loaded.model.config.pad_token_id = None
    with pytest.raises(InputError, match="decoder_start_token_id"):
        read_text(loaded, path)
