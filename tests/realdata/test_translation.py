"""The translation pairs of this machine's Debian: as many as promised, German, without a leak."""

import hashlib
from contextlib import closing
from pathlib import Path

import pytest

from attnrate.data.bpe import vocabulary
from attnrate.data.catalogues import available, messages
from attnrate.data.clean import cleaned, key
from attnrate.data.readers import Readers
from attnrate.data.translation import (
    DOCUMENTED_TEST,
    FEWEST_PAIRS,
    TEST,
    TESTS,
    split_by_package,
    translation,
)
from attnrate.training.sentences import sentences

pytestmark = pytest.mark.realdata
COMMAND = "attnrate data translation"


@pytest.fixture(scope="module")
def data(real):
    pytest.importorskip("polib")
    return real(COMMAND, translation)


def test_there_are_enough_pairs_and_all_are_of_the_promised_length(data):
    assert all(data.counts[split] >= fewest for split, fewest in FEWEST_PAIRS.items())
    for pairs in (data.train, data.validation, data.test):
        assert all(4 <= len(english.split()) <= 60 for english, _ in pairs)
        articles = sum("die" in german.casefold().split() for _, german in pairs)
        assert articles > 0.1 * len(pairs)


def test_on_debian_12_the_test_set_is_the_documented_one(data, real):
    release = Path("/etc/os-release")
    if not release.is_file() or "bookworm" not in release.read_text(encoding="utf-8"):
        pytest.skip("another system than Debian 12: its packages may be of other versions")
    assert data.documented
    assert data.counts["test"] == TESTS
    # not only of what the cache has: by the rules of today, from the packages
    packages = available(TEST).values()
    pairs = {package: cleaned(real(COMMAND, messages, package)) for package in packages}
    made = split_by_package(pairs)[0]["test"]
    text = "".join(f"{english}\t{german}\n" for english, german in made)
    assert hashlib.sha256(text.encode()).hexdigest() == DOCUMENTED_TEST


def test_processes_make_the_same_test_set(data, real):
    """The oracle is the test above, which makes it in this process."""
    packages = list(available(TEST).values())
    for package in packages:
        real(COMMAND, messages, package)  # in the cache, or the processes would fetch them
    with closing(Readers(2)) as crew:
        read = [crew.read(package) for package in packages]
        pairs = {package: each.result() for package, each in zip(packages, read, strict=True)}
    assert tuple(split_by_package(pairs)[0]["test"]) == data.test


def test_sentences_are_coded_cut_and_spread_over_the_test_set(data):
    pytest.importorskip("tokenizers")
    found = sentences("all", 8000, 20, 100)
    assert 0 < len(found.train) < len(data.train)
    assert max(len(side) for pair in found.train for side in pair) == 20
    assert len(found.test) == len(found.test_texts) == 100
    assert found.test_texts[0] == data.test[0]
    assert found.test_texts[50] == data.test[50 * len(data.test) // 100]
    assert found.vocabulary.decode(found.test[0][0]) == data.test[0][0]


def test_nothing_of_the_test_set_was_seen_before(data):
    for side in (0, 1):
        test, validation, train = (
            {key(pair[side]) for pair in pairs}
            for pairs in (data.test, data.validation, data.train)
        )
        assert not test & validation
        assert not (test | validation) & train


def test_held_out_sentences_take_few_tokens_and_come_back(data):
    pytest.importorskip("tokenizers")
    words = vocabulary(data)
    assert words.size == 8000
    ids = [words.encode(german) for _, german in data.test]
    assert [words.decode(line) for line in ids] == [german for _, german in data.test]
    assert sum(map(len, ids)) < 2.5 * sum(len(german.split()) for _, german in data.test)
