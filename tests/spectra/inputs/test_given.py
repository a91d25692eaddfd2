"""Inputs from Python: whatever people have, `profile` runs the model on the same numbers."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset
from word_models import TEMPLATE, word_bert

import attnrate as ar
from attnrate.errors import InputError
from attnrate.spectra.batches import batches, count_of
from attnrate.spectra.inputs.given import as_batches

datasets = pytest.importorskip("datasets")
TEXTS = [" ".join(f"w{(3 * number + step) % 30}" for step in range(4)) for number in range(12)]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    torch.manual_seed(0)
    return word_bert(tmp_path_factory.mktemp("bert"), TEMPLATE)


@pytest.fixture(scope="module")
def ids(bert):
    return torch.tensor(bert.tokenizer()(TEXTS)["input_ids"])


def sigma(model, inputs):
    return ar.profile(model, inputs, cut_inputs=0).sigma(0, 0)


KINDS = {
    "a list of strings": lambda: TEXTS,
    "a tuple of strings": lambda: tuple(TEXTS),
    "a generator of strings": lambda: (text for text in TEXTS),
    "a column of a data frame": lambda: pd.DataFrame({"text": TEXTS})["text"],
    "rows": lambda: [{"text": text} for text in TEXTS],
    "records of a data frame": lambda: pd.DataFrame({"text": TEXTS}).to_dict("records"),
    "a dataset": lambda: datasets.Dataset.from_dict({"text": TEXTS}),
    "a stream": lambda: datasets.Dataset.from_dict({"text": TEXTS}).to_iterable_dataset(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_profile_of_texts_is_that_of_their_token_ids(bert, ids, kind):
    expected = sigma(bert, {"input_ids": ids, "attention_mask": torch.ones_like(ids)})
    np.testing.assert_array_equal(sigma(bert, KINDS[kind]()), expected)


TOKENS = {
    "rows of a tokenizer": lambda tokenizer, ids: [tokenizer(text) for text in TEXTS],
    "batches": lambda tokenizer, ids: [{"input_ids": ids[:8]}, {"input_ids": ids[8:]}],
    "a generator of batches": lambda tokenizer, ids: ({"input_ids": one} for one in ids.split(8)),
    "a loader of dictionaries": lambda tokenizer, ids: DataLoader(
        [{"input_ids": one} for one in ids], batch_size=8
    ),
    "a loader of tensors": lambda tokenizer, ids: DataLoader(ids, batch_size=8),
    "a loader of single entries": lambda tokenizer, ids: DataLoader(TensorDataset(ids), 8),
    "a loader of a dataset": lambda tokenizer, ids: DataLoader(
        datasets.Dataset.from_dict({"input_ids": ids.tolist()}).with_format("torch"), batch_size=8
    ),
}


@pytest.mark.parametrize("kind", TOKENS)
def test_a_profile_of_token_ids_is_the_same_in_every_form(bert, ids, kind):
    given = TOKENS[kind](bert.tokenizer(), ids)
    np.testing.assert_allclose(sigma(bert.model, given), sigma(bert.model, ids), rtol=1e-6)


def test_chats_are_inputs_too(bert):
    chats = [[{"role": "user", "content": text}] for text in TEXTS]
    written = torch.tensor([[2, 5, *ids, 3] for ids in bert.tokenizer()(TEXTS)["input_ids"]])
    written = torch.cat([written[:, :2], written[:, 3:-2], written[:, -1:]], 1)  # one [CLS] … [SEP]
    np.testing.assert_array_equal(sigma(bert, chats), sigma(bert, written))
    np.testing.assert_array_equal(sigma(bert, iter(chats)), sigma(bert, written))


def test_advice_is_checked_on_texts(bert):
    advice = ar.advise(ar.profile(bert, TEXTS, cut_inputs=0), tolerance=0.5)
    ids = torch.tensor(bert.tokenizer()(TEXTS[:4])["input_ids"])
    of_texts, of_ids = advice.check(bert, iter(TEXTS[:4])), advice.check(bert, ids)
    assert of_texts.output.value == of_ids.output.value


X = torch.randn(12, 7, 2, generator=torch.Generator().manual_seed(0))


def test_of_a_pair_the_first_entry_is_the_input_of_a_model_with_one_argument():
    model = ar.Transformer(2, 1)
    labels = torch.arange(12)
    pairs = DataLoader(TensorDataset(X, labels), batch_size=5)
    assert count_of(as_batches(model, pairs)) == 3
    np.testing.assert_allclose(sigma(model, pairs), sigma(model, X), rtol=1e-6)
    np.testing.assert_allclose(sigma(model, [(X, labels)]), sigma(model, X), rtol=1e-6)


def test_of_a_pair_nothing_is_guessed_for_a_model_with_several_arguments(bert, ids):
    pairs = [(ids, torch.ones_like(ids))]
    for given in (pairs, iter(pairs), DataLoader(TensorDataset(ids, ids), 4)):
        with pytest.raises(InputError, match=r"tuple.*Pass dictionaries by name.*input_ids, att"):
            sigma(bert, given)


class Endless(IterableDataset):
    def __iter__(self):
        for one in X:
            yield one, 1


def test_a_loader_that_does_not_know_its_length(bert):
    model = ar.Transformer(2, 1)
    loader = DataLoader(Endless(), batch_size=5)
    assert count_of(as_batches(model, loader)) is None
    np.testing.assert_allclose(sigma(model, loader), sigma(model, X), rtol=1e-6)


def test_a_stream_is_not_begun_before_its_time(bert):
    taken = []

    def source():
        for text in TEXTS:
            taken.append(text)
            yield text

    stream = as_batches(bert, source())
    assert taken == []
    assert sum(len(batch["input_ids"]) for batch in stream) == 12


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ("w1 w2", r"inputs must be a list of texts, and not one text or path.*Pass \[text\]"),
        (b"w1", "not one text"),
        ([{"role": "user", "content": "w1"}], r"not one chat.*Pass \[chat\]"),
        (3, "no kind that a model takes"),
        ([], "there are no inputs"),
        (iter([]), "there are no inputs.*once"),
        (["w1", ""], "text 1 .* is empty"),
        (iter([["w1", "w2"]]), "inputs are lists of strings.*one by one"),
        (iter([[]]), "inputs must be a tensor"),
        (pd.DataFrame({"text": TEXTS}), r"is a data frame.*frame\[\"text\"\]"),
        (datasets.DatasetDict({"train": datasets.Dataset.from_dict({"text": ["w1"]})}),
         r"several splits: \['train'\].*inputs\['train'\]"),
        (DataLoader(TEXTS, batch_size=2), "lists of strings.*DataLoader"),
        (DataLoader([{"text": "w1"}] * 2, batch_size=2), "text of row 0 .* no string.*DataLoader"),
        (DataLoader([{"text": "w1", "input_ids": torch.arange(3)}] * 2, batch_size=2),
         "input_ids of row 0 .* one axis.*DataLoader must hold tensors alone"),
    ],
)  # fmt: skip
def test_inputs_that_cannot_be(bert, given, match):
    with pytest.raises(InputError, match=match):
        sigma(bert, given)


def test_texts_for_a_torch_module_are_refused_with_the_ways_out(bert):
    for given in (TEXTS, iter(TEXTS)):
        with pytest.raises(InputError, match=r"ar\.load_model.*ar\.read_texts.*token ids"):
            sigma(bert.model, given)


def test_batches_with_other_entries_than_the_first_are_named(bert, ids):
    first, mask = {"input_ids": ids}, torch.ones_like(ids)
    changed = [
        ([first, first, {"input_ids": ids, "attention_mask": mask}], "batch 2 .*adds attention_ma"),
        ([{**first, "attention_mask": mask}, first], "batch 1 .*lacks attention_mask"),
        ([first, {"ids": ids}], "batch 1 .*lacks input_ids and adds ids"),
        ([first, ids], "batch 1 .*lacks input_ids"),
        ([ids, first], "batch 1 .*adds input_ids"),
    ]
    for given, match in changed:
        with pytest.raises(InputError, match=match):
            sigma(bert, given)
        with pytest.raises(InputError, match=match):
            sigma(bert, iter(given))


def test_changed_entries_of_a_list_are_seen_before_the_work(ids):
    given = batches([{"input_ids": ids}, {"ids": ids}])
    with pytest.raises(InputError, match="batch 1"):
        next(given)


def test_batches_that_break_off_are_counted(bert, ids):
    def source():
        yield {"input_ids": ids}
        raise OSError("no more")

    with pytest.raises(
        InputError, match=r"broke off after 1 batches \(OSError: no more\)"
    ) as caught:
        sigma(bert, source())
    assert isinstance(caught.value.__cause__, OSError)


class Squares(Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, number):
        return X[number]


def test_a_map_style_dataset_needs_a_loader():
    with pytest.raises(InputError, match="no kind that a model takes"):
        sigma(ar.Transformer(2, 1), Squares())
    assert sigma(ar.Transformer(2, 1), DataLoader(Squares(), 2)).shape[0] == 3
