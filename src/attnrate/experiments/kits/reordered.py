"""Jobs that train translators on sources in altered orders, and what an order does to positions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import torch
from jaxtyping import Float64

from attnrate.data.translation import RULES, TESTS
from attnrate.experiments.contract import Work
from attnrate.experiments.kits.real import (
    MOVED,
    MUON,
    ModelOutcome,
    Run,
    Steps,
    with_epochs_kept,
)
from attnrate.fitting.fit import initial
from attnrate.models.placed import PlacedSeq2Seq, PlacedSettings, altered_places
from attnrate.training import sentences
from attnrate.training.sentences import Sentences

Tensor = torch.Tensor


@dataclass(frozen=True, kw_only=True)
class ReorderedSettings:
    """Settings of a translator whose source is reordered, and of its training data.

    Attributes:
        model: The sizes, the order of the source and its positions; `moved` is 0 for the original
            order.
        only: The number of tokens of every source, its end among them; 0 for all lengths.
        recipe: The settings of training steps.
        vocabulary: The size of the vocabulary.
        rules: The version of the rules that clean the pairs.
        longest: The largest number of tokens of a sentence, without its end.
        tests: The number of test pairs.
        batch: The largest number of tokens in a batch.
        smoothing: The share of label smoothing.
        parts: The number of epochs that make one pass over the pairs.
        epochs: The number of epochs.

    """

    model: PlacedSettings
    only: int = 0
    recipe: Steps = MUON
    vocabulary: int = 4000
    rules: int = RULES
    longest: int = 60
    tests: int = TESTS
    batch: int = 1024
    smoothing: float = 0.1
    parts: int
    epochs: int


class ReorderedOutcome(Run, ModelOutcome, kw_only=True):
    """The scores of a translator on the test sentences of more than ten tokens.

    `losses` has the cross entropy of each of these sentences, summed over its tokens, and `words`
    how many these are. `untuned` is the mean loss per token if the same weights read Table 1's
    order; None for a model that was trained on an altered order. `lengths` counts the training
    sources with 0, 1, 2, ... tokens.
    """

    losses: tuple[float, ...]
    words: tuple[int, ...]
    bleu: float
    bleu_half: float
    signature: str
    untuned: float | None
    pairs: int
    lengths: tuple[int, ...]
    documented: bool


class Reordered(Work, work="translation_order.reordered"):
    """A job that trains one translator on a source in one order, and scores its translations."""

    text: ReorderedSettings

    def run(self) -> ReorderedOutcome:
        """Train and score the translator; finished epochs are kept."""
        asked = self.text
        wanted = asked.vocabulary, asked.longest, asked.tests
        return with_epochs_kept(
            self.key,
            lambda folder: train_reordered(
                sentences.sentences("all", *wanted), asked, self.seed, folder
            ),
        )


def train_reordered(
    data: Sentences, asked: ReorderedSettings, seed: int, folder: Path
) -> ReorderedOutcome:
    """Train and score a translator, with checkpoints in `folder`."""
    chosen = fitting(data, asked)
    sizes = replace(asked.model, vocabulary=data.vocabulary.size)
    model = cast(PlacedSeq2Seq, initial(lambda: PlacedSeq2Seq(sizes), seed))
    done = sentences.train_on_sentences(
        chosen,
        model,
        asked.recipe.over(asked.epochs, seed),
        folder,
        tokens=asked.batch,
        parts=asked.parts,
        smoothing=asked.smoothing,
        progress=False,
    )
    german = [text for _, text in chosen.test_texts]
    score = sentences.bleu(sentences.translations(model, chosen, 1), german)
    words = tuple(len(target) + 1 for _, target in chosen.test)
    untuned = None
    if not sizes.moved:
        other = PlacedSeq2Seq(replace(sizes, moved=MOVED, over="sentence"))
        other.load_state_dict(model.state_dict())
        untuned = sum(sentences.sentence_losses(other, chosen.test)) / sum(words)
    return ReorderedOutcome(
        losses=sentences.sentence_losses(model, chosen.test),
        words=words,
        bleu=score.bleu,
        bleu_half=score.bleu_half,
        signature=score.signature,
        untuned=untuned,
        pairs=len(chosen.train),
        lengths=lengths_of(chosen, sizes.longest),
        documented=data.documented,
        parameters=model.parameter_count(),
        tests=len(chosen.test),
        seconds=done.seconds,
        epochs=done.summaries,
    )


def fitting(data: Sentences, asked: ReorderedSettings) -> Sentences:
    """The pairs that are asked for: of one length, if so, and for tests those that are altered.

    The end of a sentence counts as a token. Test pairs that are longer than those of the training
    are left out, because learned positions know nothing of them.
    """

    def of_length(source: Sequence[int]) -> bool:
        return asked.only in (0, len(source) + 1)

    places = [
        place
        for place, (source, target) in enumerate(data.test)
        if of_length(source)
        and len(source) + 1 > MOVED
        and max(len(source), len(target)) <= asked.longest
    ]
    return replace(
        data,
        train=tuple(pair for pair in data.train if of_length(pair[0])),
        test=tuple(data.test[place] for place in places),
        test_texts=tuple(data.test_texts[place] for place in places),
    )


def lengths_of(data: Sentences, longest: int) -> tuple[int, ...]:
    """How many training sources have 0, 1, ..., `longest` tokens, their end among them."""
    found = torch.tensor([len(source) + 1 for source, _ in data.train])
    return tuple(torch.bincount(found, minlength=longest + 1).tolist())


def meeting(lengths: Sequence[int], settings: PlacedSettings) -> Float64[Tensor, "longest longest"]:
    """How often the token of each position stands at each place, one row a place.

    `lengths` counts the sentences with 0, 1, ..., `settings.longest` tokens, as
    `lengths_of` does. A row with one entry
    is a place that tells the position.
    """
    longest = settings.longest
    last, here = torch.arange(longest), torch.arange(longest)
    places = altered_places(last, longest, settings.moved, settings.over, longest)
    counts = torch.tensor(lengths[1:], dtype=torch.float64)[:, None] * (here <= last[:, None])
    found = torch.bincount((places * longest + here).flatten(), counts.flatten(), longest**2)
    return found.view(longest, longest)


def unknown(meets: Float64[Tensor, "longest longest"]) -> float:
    """The least share of tokens whose position is guessed wrongly from their place alone."""
    return float(1 - meets.amax(1).sum() / meets.sum())


def relabelled(
    table: Float64[Tensor, "longest width"], meets: Float64[Tensor, "longest longest"]
) -> Float64[Tensor, "longest width"]:
    """The table of places that gives each token, as far as possible, the row of its position.

    Where several positions meet, the row is their mean, which is the best in the mean square for
    rows that are independent.
    """
    share = meets / meets.sum(1, keepdim=True).clamp(min=1)
    return share @ table
