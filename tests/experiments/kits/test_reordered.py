"""Translators in altered orders: what a place tells of a position, and a job on made-up pairs."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from trained_models import kept

from attnrate.experiments.kits.reordered import (
    ReorderedSettings,
    fitting,
    lengths_of,
    meeting,
    relabelled,
    train_reordered,
    unknown,
)
from attnrate.fitting.fit import initial
from attnrate.models.placed import PlacedSeq2Seq, PlacedSettings
from attnrate.training.sentences import Sentences, sentence_losses

SIZES = PlacedSettings(width=16, layers=1, heads=2, m_h=8, m_ff=16, longest=16)
MOVED = replace(SIZES, moved=10, over="sentence")
PADDED = replace(SIZES, moved=10, over="padded")
ASKED = ReorderedSettings(model=SIZES, batch=256, longest=15, parts=2, epochs=4)


class Words:
    size = 12

    def decode(self, ids):
        return " ".join("abcdefghijkl"[i] for i in ids)


@pytest.fixture(scope="module")
def copies() -> Sentences:
    random = np.random.default_rng(0)
    rows = [random.integers(3, 12, n).tolist() for n in [*random.integers(4, 16, 60), 11, 11, 20]]
    texts = tuple((Words().decode(row), Words().decode(row)) for row in rows[40:])
    pairs = tuple((row, row) for row in rows)
    return Sentences(pairs[:60], pairs[40:], texts, Words(), False)


def counts(*lengths: int) -> list[int]:
    return np.bincount(lengths, minlength=17).tolist()


def test_positions_that_meet_at_a_place_are_counted():
    # of 11 tokens the one at s goes to s + 1, of 12 to s + 2, modulo the length: both have the
    # 10th at place 0, and only one of them has a token at place 11; at 1 to 10 two positions meet
    meets = meeting(counts(11, 12), MOVED)
    assert meets.sum() == 23
    assert meets[0, 10] == 2
    assert meets[1].nonzero().flatten().tolist() == [0, 11]
    assert meets[5].nonzero().flatten().tolist() == [3, 4]
    assert meets[11].nonzero().flatten().tolist() == [9]
    assert unknown(meets) == pytest.approx(10 / 23)


def test_one_permutation_and_one_length_leave_no_position_unknown():
    assert unknown(meeting(counts(11, 12, 12, 16), PADDED)) == 0
    assert unknown(meeting(counts(14, 14), MOVED)) == 0
    # sentences of at most ten tokens stay as they are
    assert torch.equal(meeting(counts(5, 10), MOVED), meeting(counts(5, 10), SIZES))


def test_a_relabelled_table_has_the_mean_of_the_positions_that_meet():
    table = torch.randn(16, 4, dtype=torch.float64)
    found = relabelled(table, meeting(counts(11, 12, 12, 12), MOVED))
    assert torch.equal(found[0], table[10])
    torch.testing.assert_close(found[5], (table[4] + 3 * table[3]) / 4)
    padded = relabelled(table, meeting(counts(16), PADDED))
    assert torch.equal(padded, table[[*range(10, 16), *range(10)]])


def test_pairs_of_one_length_are_chosen_and_short_or_long_tests_left_out(copies):
    every = fitting(copies, ASKED)
    assert every.train == copies.train
    assert {len(source) > 9 for source, _ in every.test} == {True}
    assert max(len(source) for source, _ in every.test) <= 15
    assert len(every.test) == len(every.test_texts)
    single = fitting(copies, replace(ASKED, only=12))
    assert {len(source) for source, _ in (*single.train, *single.test)} == {11}
    assert lengths_of(single, 16) == tuple(counts(*[12] * len(single.train)))


@pytest.mark.parametrize("model", [SIZES, replace(PADDED, positions="learned")])
def test_a_translator_is_trained_and_scored(copies, tmp_path, model):
    asked = replace(ASKED, model=model)
    found = kept(train_reordered(copies, asked, 0, tmp_path))
    judged = fitting(copies, asked)
    assert found.words == tuple(len(target) + 1 for _, target in judged.test)
    assert len(found.losses) == found.tests == len(judged.test)
    untrained = initial(lambda: PlacedSeq2Seq(replace(model, vocabulary=12)), 0)
    assert sum(found.losses) < sum(sentence_losses(untrained, judged.test))
    assert (found.untuned is None) == bool(model.moved)
    assert found.untuned != pytest.approx(sum(found.losses) / sum(found.words), rel=1e-4)
    assert found.lengths == lengths_of(copies, 16)
    assert len(found.epochs) == 4
