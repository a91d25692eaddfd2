"""Texts in memory: each string, chat or row is one input, and what cannot be read is named."""

from itertools import chain, cycle, islice

import numpy as np
import pytest
import torch
from word_models import TEMPLATE, WORDS, save_tokenizer, word_bert, words_of

import attnrate as ar
from attnrate.errors import InputError
from attnrate.spectra.inputs.texts import read_texts

transformers = pytest.importorskip("transformers")
TEXTS = ["w1 w2 w3", "w4", "w5 w6 w7 w8 w9"]
IDS = [[2, 6, 7, 8, 3], [2, 9, 3], [2, 10, 11, 12, 13, 14, 3]]
CHAT = [{"role": "user", "content": "w7"}, {"role": "assistant", "content": "w8 w9"}]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return word_bert(tmp_path_factory.mktemp("bert"), TEMPLATE)


def pieces(batches):
    """The token ids of each input, without what fills them up on the right."""
    return [
        ids[mask > 0].tolist()
        for batch in batches
        for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)
    ]


def test_each_string_is_one_input_filled_up_on_the_right(bert):
    found = read_texts(bert, TEXTS, batch=2)
    assert pieces(found) == IDS
    assert str(found) == "3 inputs in 2 batches, 15 tokens"
    first, last = found
    assert first["input_ids"].tolist() == [[2, 6, 7, 8, 3], [2, 9, 3, 0, 0]]
    assert first["attention_mask"].tolist() == [[1] * 5, [1, 1, 1, 0, 0]]
    assert last["input_ids"].dtype == torch.int64
    assert last["attention_mask"].all()


def test_a_long_text_is_cut_off_and_keeps_its_special_tokens(bert):
    assert pieces(read_texts(bert, [" ".join(WORDS)], length=6)) == [[2, 5, 6, 7, 8, 3]]
    assert read_texts(bert, [" ".join(WORDS)]).tokens == 16  # the model's positions


@pytest.mark.parametrize("gap", [" ", " " * 90, " " * 200])
def test_of_a_long_text_only_the_beginning_is_tokenised_if_that_is_enough(bert, gap, monkeypatch):
    text = gap.join(WORDS * 40)
    whole = bert.tokenizer()(text, truncation=True, max_length=8)["input_ids"]
    seen = []

    def watched(text, **options):
        seen.append(max(map(len, text)))
        return tokenizer(text, **options)

    tokenizer = bert.tokenizer()
    (piece,) = pieces(read_texts(bert.model, [text], length=8, tokenizer=watched))
    assert piece == whole
    assert (max(seen) == len(text)) == (gap != " ")


def test_a_tokenizer_that_keeps_the_end_of_a_text_sees_all_of_it(bert, tmp_path):
    tokenizer = save_tokenizer(tmp_path)
    tokenizer.truncation_side = "left"
    text = " ".join(WORDS * 100)
    (piece,) = pieces(read_texts(bert.model, [text], length=4, tokenizer=tokenizer))
    assert piece == [2, 33, 34, 3]


@pytest.mark.parametrize(
    ("names", "filler"),
    [({}, 0), ({"pad_token": None, "eos_token": "[MASK]"}, 4), ({"pad_token": None}, 0)],
)
def test_a_tokenizer_without_a_padding_token_will_do(tmp_path, names, filler):
    (batch,) = read_texts(word_bert(tmp_path, **names), ["w1 w2", "w3"])
    assert batch["input_ids"].tolist() == [[2, 6, 7, 3], [2, 8, 3, filler]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]


def test_what_fills_up_changes_nothing_that_the_model_says_of_the_text(bert):
    (batch,) = read_texts(bert, TEXTS)
    with torch.no_grad():
        together = bert.model(**batch).last_hidden_state[1, :3]
        alone = bert.model(input_ids=torch.tensor([IDS[1]])).last_hidden_state[0]
    torch.testing.assert_close(together, alone)


def test_a_chat_is_written_by_the_template_without_further_special_tokens(bert):
    # [CLS] w0 w7 w1 w8 w9 [SEP]
    written = [2, 5, 12, 6, 13, 14, 3]
    assert pieces(read_texts(bert, [CHAT, CHAT[:1]])) == [written, [2, 5, 12, 3]]
    assert pieces(read_texts(bert, [{"id": 7, "messages": CHAT}])) == [written]
    assert pieces(read_texts(bert, [{"talk": tuple(CHAT)}], column="talk")) == [written]
    mixed = [{"text": "w1"}, {"text": CHAT}, {"text": "w2"}]
    assert pieces(read_texts(bert, mixed)) == [[2, 6, 3], written, [2, 7, 3]]


def test_rows_are_read_from_the_column_that_was_named_or_is_usual(bert):
    rows = [{"text": text, "title": f"w{number}"} for number, text in enumerate(TEXTS)]
    assert pieces(read_texts(bert, rows)) == IDS
    assert pieces(read_texts(bert, rows, column="title")) == [[2, 5, 3], [2, 6, 3], [2, 7, 3]]
    both = [{"messages": CHAT, "text": "w1"}]
    assert pieces(read_texts(bert, both)) == [[2, 6, 3]]


def test_rows_of_token_ids_are_taken_as_they_are(bert):
    rows = [{"input_ids": ids, "label": 1, "text": "w0"} for ids in IDS]
    assert pieces(read_texts(bert, rows)) == IDS
    assert pieces(read_texts(bert.model, rows)) == IDS  # no tokenizer is needed
    assert pieces(read_texts(bert, rows, column="text")) == [[2, 5, 3]] * 3
    assert pieces(read_texts(bert, rows, length=2)) == [ids[:2] for ids in IDS]
    arrays = [{"input_ids": np.array(IDS[0])}, {"input_ids": torch.tensor(IDS[1])}]
    assert pieces(read_texts(bert, arrays)) == IDS[:2]


def test_masks_and_segments_of_rows_are_filled_up_with_zeros(bert):
    rows = [
        {"input_ids": ids, "attention_mask": [1] * (len(ids) - 1) + [0], "token_type_ids": ids}
        for ids in ([5, 6, 7], [8, 9])
    ]
    found = read_texts(bert, rows)
    (batch,) = found
    assert batch["attention_mask"].tolist() == [[1, 1, 0], [1, 0, 0]]
    assert batch["token_type_ids"].tolist() == [[5, 6, 7], [8, 9, 0]]
    assert found.tokens == 3


def test_rows_of_other_numbers_are_stacked():
    rows = [{"x": [[0.0, 1.0], [2.0, 3.0]], "label": number} for number in range(3)]
    found = read_texts(ar.Transformer(2, 1), rows)
    (batch,) = found
    assert batch["x"].shape == (3, 2, 2)
    assert str(found) == "3 inputs in 1 batch"
    with pytest.raises(InputError, match="x has several shapes in one batch"):
        list(read_texts(ar.Transformer(2, 1), iter([*rows, {"x": [[0.0, 1.0]]}])))
    with pytest.raises(InputError, match=r"tokens counts token ids.*limit"):
        read_texts(ar.Transformer(2, 1), rows, tokens=3)


@pytest.mark.parametrize(
    ("tokens", "inputs", "given"), [(1, 1, 5), (5, 1, 5), (6, 2, 8), (8, 2, 8), (16, 4, 20)]
)
def test_a_budget_of_tokens_ends_an_endless_stream(bert, tokens, inputs, given):
    found = read_texts(bert, cycle(TEXTS), tokens=tokens, batch=2)
    assert (found.inputs, found.tokens) == (inputs, given)
    assert given == sum(int(batch["attention_mask"].sum()) for batch in found)


def test_of_a_limit_and_a_budget_the_first_to_be_reached_ends(bert):
    assert read_texts(bert, cycle(TEXTS), tokens=16, limit=3).inputs == 3
    assert read_texts(bert, cycle(TEXTS), tokens=16, limit=9).inputs == 4
    assert read_texts(bert, TEXTS, tokens=1000).tokens == 15  # all there is


def test_a_stream_is_read_as_it_comes(bert):
    taken = []

    def source():
        for number in range(100):
            taken.append(number)
            yield "w1"

    stream = read_texts(bert, source(), batch=4)
    assert (str(stream), taken) == ("batches of 4 inputs, read as they come", [])
    next(iter(stream))
    assert len(taken) == 4


def test_a_generator_that_was_used_up_says_so(bert):
    stream = read_texts(bert, (text for text in TEXTS))
    assert pieces(stream) == IDS
    with pytest.raises(InputError, match=r"no texts.*only once"):
        list(stream)


def test_a_source_that_breaks_off_is_named_with_what_came(bert):
    def source():
        yield from TEXTS
        raise ConnectionError("the line is dead")

    said = r"broke off after 3 of them \(ConnectionError: the line is dead\).*limit=3"
    for broken in (
        lambda: read_texts(bert, source(), limit=9),
        lambda: [*read_texts(bert, source())],
    ):
        with pytest.raises(InputError, match=said) as caught:
            broken()
        assert isinstance(caught.value.__cause__, ConnectionError)
    assert pieces(read_texts(bert, source(), limit=3)) == IDS


@pytest.mark.parametrize(
    ("texts", "match"),
    [
        ([], "there are no texts"),
        (["w1", ""], r"text 1 \(the first is 0\) is empty"),
        (["w1", " \n"], "text 1 .* is empty"),
        (["w1", None], "text 1 .* is no string: got None"),
        (["w1", 3], "text 1 .* is no string: got 3"),
        (["w1", b"w2"], "text 1 .* is no string: got 'bytes'"),
        ([{"text": "w1"}, {"text": None}], "text of row 1 .* is no string"),
        ([{"text": "w1"}, {"text": ["w1", "w2"]}], "row 1 .* no string.*One row is one input"),
        ([{"text": "w1"}, {"title": "w1"}], "row 1 .* has no column 'text'.*Known: title"),
        ([{"text": "w1"}, "w2"], "row 1 .* has no columns"),
        ([{"body": "w1", "id": 3}], r"no column is named text or messages.*\['body', 'id'\]"),
        ([{"from": "user"}], "no column is named text"),
        ([[{"from": "user", "value": "w1"}]], "messages without a role"),
        ([[CHAT[0], {"content": "w1"}]], "messages without a role"),
        ([{"messages": []}], "messages without a role, or none"),
        ([{"input_ids": [1, 2]}, {"input_ids": []}], "input_ids of row 1 .* holds no numbers"),
        ([{"input_ids": ["w1"]}], "input_ids of row 0 .* holds no numbers"),
        ([{"input_ids": [[1, 2], [3]]}], "input_ids of row 0 .* holds no numbers"),
        ([{"input_ids": [[1, 2], [3, 4]]}], "whole numbers along one axis.*A row is one input"),
        ([{"input_ids": [0.5]}], "whole numbers along one axis"),
        ([{"input_ids": [35]}], "outside the vocabulary.*0 to 34"),
        ([{"input_ids": [1] * 17}], "longer than the model's positions, which are at most 16"),
        ([{"input_ids": [1, 2], "attention_mask": [0, 0]}], "all of the input is padding"),
        ("w1 w2", r"must be a list of texts.*Pass \[text\]"),
        (CHAT, r"must be a list of chats.*Pass \[chat\]"),
        (3, "cannot be gone through"),
    ],
)
def test_texts_that_cannot_be(bert, texts, match):
    # an iterator, because the tests' checker of types would refuse a wrong list by itself
    given = iter(texts) if isinstance(texts, list) and texts is not CHAT else texts
    with pytest.raises(InputError, match=match):
        read_texts(bert, given, limit=100)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"length": 17}, "at most 16 tokens"),
        ({"length": 1}, "length"),
        ({"batch": 0}, "batch"),
        ({"limit": 0}, "limit"),
        ({"tokens": 0}, "tokens"),
        ({"tokens": "200k"}, "tokens"),
        ({"column": "text"}, "the texts have no columns"),
        ({"column": 3}, "column"),
        ({"tokenizer": "bert"}, "tokenizer must be a function"),
    ],
)
def test_options_that_cannot_be(bert, options, match):
    with pytest.raises(InputError, match=match):
        read_texts(bert, TEXTS, **options)


def test_a_column_that_is_not_there_is_named_with_those_that_are(bert):
    rows = [{"text": "w1", "title": "w2"}]
    with pytest.raises(InputError, match=r"no column 'txt'.*'text'.*Known: text, title"):
        read_texts(bert, rows, column="txt")


def test_a_torch_module_needs_a_tokenizer(bert, tmp_path):
    with pytest.raises(InputError, match=r"BertModel.*ar\.load_model.*tokenizer=.*token ids"):
        read_texts(bert.model, TEXTS)
    tokenizer = save_tokenizer(tmp_path)
    assert pieces(read_texts(bert.model, TEXTS, tokenizer=tokenizer)) == IDS


def test_a_tokenizer_of_ones_own_is_called_like_those_of_transformers(bert):
    def letters(text, *, add_special_tokens, truncation, max_length):
        assert add_special_tokens
        assert truncation
        return {"input_ids": [[ord(letter) - 97 for letter in one][:max_length] for one in text]}

    assert pieces(read_texts(bert.model, ["abc", "dd"], tokenizer=letters)) == [[0, 1, 2], [3, 3]]
    with pytest.raises(InputError, match=r"text 1 .* has no token"):
        read_texts(bert.model, ["a", "b" * 3], tokenizer=lambda text, **_: {"input_ids": [[1], []]})
    with pytest.raises(InputError, match=r"tokenizer cannot read the texts \(KeyError"):
        read_texts(bert.model, ["a"], tokenizer=lambda text, **_: {})


def test_chats_need_a_chat_template(tmp_path):
    with pytest.raises(
        InputError, match="chats need a chat template, which the tokenizer does not have"
    ):
        read_texts(word_bert(tmp_path), [CHAT])


def test_what_a_chat_template_refuses_is_said(tmp_path):
    refusing = "{{ raise_exception('roles must alternate') }}"
    with pytest.raises(InputError, match=r"cannot write text 0 .*roles must alternate"):
        read_texts(word_bert(tmp_path, refusing), [CHAT])


class Bare(torch.nn.Module):
    """A language model that takes token ids and no mask."""

    def forward(self, input_ids):
        return input_ids


def test_a_model_without_a_mask_takes_texts_of_one_length(bert):
    options = {"tokenizer": bert.tokenizer()}
    (batch,) = read_texts(Bare(), ["w1 w2", "w3 w4"], **options)
    assert [*batch] == ["input_ids"]
    assert len([*read_texts(Bare(), TEXTS, batch=1, **options)]) == 3
    with pytest.raises(InputError, match=r"takes no attention_mask.*batch=1"):
        list(read_texts(Bare(), TEXTS, **options))


datasets = pytest.importorskip("datasets")


@pytest.fixture(scope="module")
def rows():
    return datasets.Dataset.from_dict({"text": TEXTS, "id": [*range(3)]})


def test_a_dataset_is_read_like_its_rows(bert, rows):
    found = read_texts(bert, rows)
    assert (found.inputs, pieces(found)) == (3, IDS)
    stream = read_texts(bert, rows.to_iterable_dataset())
    assert pieces(stream) == IDS
    assert pieces(stream) == IDS  # a dataset can be gone through again
    assert read_texts(bert, rows.to_iterable_dataset(), limit=2).inputs == 2


def test_only_the_columns_that_are_read_are_decoded(bert, rows):
    asked = []

    class Narrowed:
        column_names = ("text", "image")

        def select_columns(self, names):
            asked.append(names)
            return rows.select_columns(names)

        def __iter__(self):
            raise AssertionError("all columns were read")

    assert pieces(read_texts(bert, Narrowed())) == IDS
    assert asked == [["text"]]


def test_a_tokenised_dataset_needs_no_tokenizer(bert, rows):
    tokenizer = bert.tokenizer()
    made = datasets.Dataset.from_list([{**row, **tokenizer(row["text"])} for row in rows])
    for one in (made, made.with_format("torch"), made.with_format("numpy")):
        assert pieces(read_texts(bert.model, one)) == IDS
    assert pieces(read_texts(bert.model, made.to_iterable_dataset())) == IDS


def test_a_dataset_whose_columns_only_its_rows_name(bert):
    def made():
        yield from ({"text": text} for text in TEXTS)

    mapped = datasets.IterableDataset.from_generator(made).map(lambda row: row)
    assert mapped.column_names is None
    assert pieces(read_texts(bert, mapped)) == IDS
    with pytest.raises(InputError, match=r"no column 'body'.*Known: text"):
        list(read_texts(bert, mapped, column="body"))


def test_a_dataset_without_the_column_is_refused_before_it_is_read(bert, rows):
    with pytest.raises(InputError, match=r"no column 'body'.*Known: id, text"):
        read_texts(bert, rows.to_iterable_dataset(), column="body")
    with pytest.raises(InputError, match=r"no column is named text or messages.*\['id'\]"):
        read_texts(bert, rows.select_columns(["id"]))


def test_words_come_in_the_order_of_the_texts(bert):
    texts = [" ".join(WORDS[start : start + 3]) for start in range(0, 30, 3)]
    found = read_texts(bert, texts, batch=4)
    assert words_of(found) == list(chain.from_iterable(text.split() for text in texts))
    assert words_of(islice(found, 1)) == WORDS[:12]
