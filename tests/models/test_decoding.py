"""Decoding: greedy and beam search against trying every translation; orders of sentences."""

import itertools
from typing import Any

import pytest
import torch

from attnrate.errors import InputError
from attnrate.models.decoding import (
    Specials,
    TextSettings,
    Translator,
    last_places,
    moved_to_end,
    translate,
)

Tensor = torch.Tensor
SETTINGS = TextSettings(vocabulary=10, longest=5)


class Table(Translator):
    """The next token depends on the last one and on the source's first one, by a table."""

    def __init__(self, seed: int, words: int = 3, sharp: float = 2.0) -> None:
        super().__init__()
        self.specials, self.longest = Specials(), 64
        random = torch.Generator().manual_seed(seed)
        size = words + 3
        self.logits = sharp * torch.randn(size, size, size, generator=random)

    def states(self, source: Tensor, target: Tensor) -> Tensor:
        return self.logits[source[:, :1], target]

    def read_out(self, states: Tensor) -> Tensor:
        return states.clone()

    def begin(self, source: Tensor) -> Any:
        return (source[:, 0],)

    def step(self, state: Any, tokens: Tensor) -> tuple[Tensor, Any]:
        return self.logits[state[0], tokens], state


def chance(model: Table, source: int, words: tuple[int, ...]) -> float:
    """log p of a whole translation with its end, among translations without pad and begin."""
    logits = model.logits[source].clone()
    logits[:, :2] = -torch.inf
    steps = logits.log_softmax(-1)
    return sum(float(steps[a, b]) for a, b in itertools.pairwise((1, *words, 2)))


def judged(model: Table, source: int, words: tuple[int, ...]) -> float:
    return chance(model, source, words) / ((5 + len(words) + 1) / 6) ** 0.6


@pytest.mark.parametrize("seed", range(5))
def test_a_wide_beam_finds_the_best_of_all_translations(seed: int) -> None:
    model = Table(seed)
    model.logits[..., 2] += 2.0  # ends come soon, so that the best is a short one
    every = [w for n in range(4) for w in itertools.product((3, 4, 5), repeat=n)]
    sources = torch.tensor([[3, 2], [5, 2]])
    found = translate(model, sources, beams=40, longest=4)
    for source, words in zip((3, 5), found, strict=True):
        best = max(every, key=lambda w, s=source: judged(model, s, w))
        assert judged(model, source, tuple(words)) == pytest.approx(judged(model, source, best))


@pytest.mark.parametrize("seed", range(5))
def test_greedy_takes_the_likeliest_word_each_time(seed: int) -> None:
    model = Table(seed)
    for source in (3, 4, 5):
        words, last = [], 1
        while len(words) < 14:
            logits = model.logits[source, last].clone()
            logits[:2] = -torch.inf
            last = int(logits.argmax())
            if last == 2:
                break
            words.append(last)
        assert translate(model, torch.tensor([[source, 2]])) == [words]


def test_sentences_of_a_batch_do_not_meet() -> None:
    model, sources = Table(7), torch.tensor([[3, 2], [4, 2], [5, 2]])
    alone = [translate(model, row[None], beams=3)[0] for row in sources]
    assert translate(model, sources, beams=3) == alone


def test_the_first_tokens_of_each_sentence_come_last() -> None:
    tokens = torch.tensor([[5, 6, 7, 8, 2], [5, 6, 2, 0, 0], [9, 2, 0, 0, 0]])
    last = last_places(tokens, SETTINGS)
    assert last.tolist() == [4, 2, 1]
    assert moved_to_end(tokens, last, 2).tolist() == [
        [7, 8, 2, 5, 6],
        [2, 5, 6, 0, 0],
        [9, 2, 0, 0, 0],
    ]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([[0, 0]], "every sentence must have a token"),
        ([[3, 0, 2]], "padding only after"),
        ([[3, 10]], r"must lie in 0 \.\.\. 9"),
        ([[1] * 6], "5 tokens at most"),
    ],
)
def test_wrong_sentences_are_told(rows: list[list[int]], said: str) -> None:
    with pytest.raises(InputError, match=said):
        last_places(torch.tensor(rows), SETTINGS)


def test_a_model_that_does_not_translate_is_told() -> None:
    with pytest.raises(InputError, match="does not translate"):
        translate(torch.nn.Linear(2, 2), torch.tensor([[3, 2]]))
    with pytest.raises(InputError, match="beams must be"):
        translate(Table(0), torch.tensor([[3, 2]]), beams=0)
