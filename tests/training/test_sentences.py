"""Scores of translators: the loss of every sentence by itself, and BLEU."""

import math

import numpy as np
import pytest
import torch

from attnrate.models.seq2seq import Seq2Seq
from attnrate.training.sentences import (
    Sentences,
    bleu,
    score_translations,
    sentence_losses,
)


class Words:
    size = 12

    def decode(self, ids):
        return " ".join("abcdefghijkl"[i] for i in ids)


def test_the_loss_of_a_translator_is_that_of_one_sentence_at_a_time():
    random = np.random.default_rng(0)
    rows = [random.integers(3, 12, n).tolist() for n in random.integers(4, 16, 12)]
    texts = tuple((Words().decode(row), Words().decode(row)) for row in rows)
    pairs = tuple((row, row) for row in rows)
    model = Seq2Seq(width=16, layers=1, heads=2, m_h=8, m_ff=16, vocabulary=12).eval()
    special, total, count = model.specials, 0.0, 0
    for english, german in pairs:
        source = torch.tensor([[*english, special.end]])
        target = torch.tensor([[special.begin, *german, special.end]])
        with torch.no_grad():
            logits = model.read_out(model.states(source, target[:, :-1]))[0].double()
        total -= logits.log_softmax(-1).gather(1, target[0, 1:, None]).sum().item()
        count += len(german) + 1
    found = score_translations(model, Sentences(pairs, pairs, texts, Words(), False), beams=1)
    assert found.test_loss == pytest.approx(total / count, rel=1e-5)
    assert model.training is False


def test_bleu_is_that_of_sacrebleu():
    text = ["the quick brown fox jumps over the dog", "a second sentence of some words here"]
    assert bleu(text, text).bleu == pytest.approx(100.0)
    assert bleu(["x y z u v"] * 2, text).bleu == pytest.approx(0.0, abs=1e-6)


def test_without_sentences_that_the_altered_order_moves_there_is_no_score_of_them():
    pairs = (([3, 4, 5], [5, 4, 3]),) * 3
    data = Sentences(pairs, pairs, (("d e f", "f e d"),) * 3, Words(), False)
    model = Seq2Seq(width=16, layers=1, heads=2, m_h=8, m_ff=16, vocabulary=12).eval()
    found = score_translations(model, data)
    assert found.moved.count == 0
    assert found.moved.test_loss is None
    assert math.isnan(found.moved.bleu)
    assert 0 <= found.bleu <= 100


def test_the_losses_of_sentences_add_up_to_the_loss_per_token():
    random = np.random.default_rng(1)
    rows = [random.integers(3, 12, n).tolist() for n in random.integers(4, 16, 70)]
    pairs = tuple((row, row[:3]) for row in rows)
    model = Seq2Seq(width=16, layers=1, heads=2, m_h=8, m_ff=16, vocabulary=12).train()
    losses = sentence_losses(model, pairs)
    assert model.training
    # by itself, without padding
    assert sentence_losses(model, pairs[7:8])[0] == pytest.approx(losses[7], rel=1e-5)
    texts = (("a", "a"),) * 70
    found = score_translations(model, Sentences(pairs, pairs, texts, Words(), False))
    assert sum(losses) / (4 * 70) == pytest.approx(found.test_loss, rel=1e-5)
