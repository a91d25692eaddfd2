"""Models that translate: pairs of sentences, training on them, and the BLEU of translations.

BLEU is that of sacrebleu, with its signature, on the documented test set of data/translation.py.
The sentences are messages of programs, so that it cannot be compared with BLEU on WMT's news.
"""

import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, Protocol, runtime_checkable

import torch

from attnrate.data.registry import require_installed
from attnrate.data.translation import TESTS
from attnrate.models.decoding import Translator, translate
from attnrate.progress import QUIET, Progress
from attnrate.settings import Count, checked
from attnrate.targets.alter import MOVED
from attnrate.training.epochs import EpochRecipe, evaluate, train_epochs
from attnrate.training.feed import Pairs, Parts, padded
from attnrate.training.history import Training

Sentence = list[int]
_SAMPLES = 8
_AT_ONCE = 64  # sentences that are translated together
_TOKENS_AT_ONCE = 2048
_RESAMPLED = 500
_CODED_AT_ONCE = 4096  # pairs
_LONGEST_SHOWN = 160  # characters: a translator that has learned little does not end its sentences


@runtime_checkable
class Words(Protocol):
    """A vocabulary, as translating needs it."""

    @property
    def size(self) -> int:
        """The number of its tokens."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token numbers."""


@dataclass(frozen=True, eq=False)
class Sentences:
    """Pairs of an English and a German sentence, as token numbers.

    Attributes:
        train: The pairs to train on.
        test: The pairs to test with.
        test_texts: The pairs to test with, as text.
        vocabulary: Turns token numbers into text.
        documented: Whether the test set is the documented one of Debian 12, so that scores on it
            can be compared with the documented scores.

    Examples:
        >>> class Letters:
        ...     size = 12
        ...
        ...     def decode(self, ids):
        ...         return " ".join("abcdefghijkl"[number] for number in ids)
        >>> pairs, texts = (([3, 4, 5], [5, 4, 3]),) * 8, (("d e f", "f e d"),) * 8
        >>> data = ar.Sentences(pairs, pairs, texts, Letters(), documented=False)
        >>> data
        8 training and 8 test pairs, 12 tokens

    """

    train: tuple[tuple[Sentence, Sentence], ...]
    test: tuple[tuple[Sentence, Sentence], ...]
    test_texts: tuple[tuple[str, str], ...]
    vocabulary: Words
    documented: bool

    def __repr__(self) -> str:
        counts = f"{len(self.train):,} training and {len(self.test):,} test pairs"
        return f"{counts}, {self.vocabulary.size:,} tokens"


@dataclass(frozen=True, kw_only=True)
class Bleu:
    """The BLEU of some translations.

    Attributes:
        bleu: The score, from 0 to 100.
        bleu_half: Half of the width of its 95 % interval over sentences.
        signature: How sacrebleu has computed it.

    """

    bleu: float
    bleu_half: float
    signature: str


@dataclass(frozen=True, kw_only=True)
class MovedScores(Bleu):
    """The scores of a translator over the sentences that Table 1's altered order changes.

    Attributes:
        bleu: The score, from 0 to 100; nan if there are no such sentences.
        bleu_half: Half of the width of its 95 % interval over sentences.
        signature: How sacrebleu has computed it.
        test_loss: The mean cross entropy per token; None if there are no such sentences.
        count: The number of such sentences.

    """

    test_loss: float | None = None
    count: int


@dataclass(frozen=True, kw_only=True)
class TextScores(Bleu):
    """How well a model translates the test sentences.

    Attributes:
        bleu: The score of its translations, from 0 to 100.
        bleu_half: Half of the width of its 95 % interval over sentences.
        signature: How sacrebleu has computed it.
        test_loss: The mean cross entropy per token when the German sentence is given word by word.
            It tells models apart that are too weak for BLEU.
        moved: The scores over the sentences of more than ten tokens. Table 1's altered order
            changes only these.
        samples: Some sentences: English, German, and the model's translation.

    Examples:
        >>> class Letters:
        ...     size = 12
        ...
        ...     def decode(self, ids):
        ...         return " ".join("abcdefghijkl"[number] for number in ids)
        >>> pairs, texts = (([3, 4, 5], [5, 4, 3]),) * 8, (("d e f", "f e d"),) * 8
        >>> data = ar.Sentences(pairs, pairs, texts, Letters(), documented=False)
        >>> from attnrate.models.seq2seq import Seq2Seq
        >>> model = Seq2Seq(vocabulary=12, width=16, layers=1)
        >>> scores = ar.score_translations(model, data)
        >>> 0 <= scores.bleu <= 100
        True

    """

    test_loss: float | None = None
    moved: MovedScores
    samples: tuple[tuple[str, str, str], ...]


@checked
def sentences(
    packages: Literal["all", "small"] = "all",
    tokens: Count = 8000,
    longest: Count = 60,
    tests: Count = TESTS,
) -> Sentences:
    """English sentences with their German translations, from messages of free programs.

    They are fetched, cleaned and split when first needed (480 MB for all). The packages that scores
    need are asked for first, and not after an hour of training.

    Args:
        packages: "all" for 90,000 pairs, "small" for a few thousand from a few packages.
        tokens: The size of the vocabulary, which is learned from the training pairs.
        longest: The largest number of tokens per sentence; longer training pairs are left out.
        tests: The largest number of test pairs, spread evenly over the test set.

    Returns:
        Training and test pairs as token numbers.

    Raises:
        FetchError: The sentences are not in the cache and cannot be fetched, or a package is
            missing.

    Examples:
        >>> ar.sentences("all", tests=100)
        88,... training and 100 test pairs, 8,000 tokens

    """
    require_installed("sacrebleu", "score translations", "BLEU")
    from attnrate.data.bpe import vocabulary
    from attnrate.data.translation import translation

    data = translation(packages)
    words = vocabulary(data, tokens)
    said = "turning sentences into tokens"
    kept: list[tuple[Sentence, Sentence]] = []
    with Progress(said, after=QUIET) as line:
        for start in range(0, len(data.train), _CODED_AT_ONCE):
            sides = zip(*data.train[start : start + _CODED_AT_ONCE], strict=True)
            coded = zip(*(words.encode_all(side) for side in sides), strict=True)
            kept += [pair for pair in coded if max(map(len, pair)) <= longest]
            line.at(said, min(1.0, (start + _CODED_AT_ONCE) / len(data.train)))
    count = min(tests, len(data.test))
    shown = tuple(data.test[place * len(data.test) // count] for place in range(count))
    test = tuple(
        (words.encode(english)[: 2 * longest], words.encode(german)) for english, german in shown
    )
    return Sentences(tuple(kept), test, shown, words, data.documented)


def train_on_sentences(
    data: Sentences,
    model: Translator,
    recipe: EpochRecipe,
    folder: str | os.PathLike[str] | None = None,
    *,
    tokens: int = 2048,
    parts: int = 1,
    smoothing: float = 0.1,
    device: str | torch.device = "cpu",
    progress: bool | None = None,
) -> Training:
    """Train any model that translates.

    Args:
        data: The pairs of sentences.
        model: A `Seq2Seq` or another `Translator`. It is trained itself, not a copy of it.
        recipe: How to train.
        folder: Where a checkpoint is written after every epoch. A run that finds checkpoints there
            goes on from the last one. None keeps no checkpoints.
        tokens: The largest number of tokens in a batch, of both sides together.
        parts: The number of epochs that make one pass over the pairs.
        smoothing: The share of label smoothing in the loss, from 0 to 1.
        device: Where to train, as torch names it.
        progress: True writes a line per epoch where there is no terminal; False shows nothing. By
            default a terminal shows a live line.

    Returns:
        The model, its epochs, and how it was computed.

    Examples:
        >>> class Letters:
        ...     size = 12
        ...
        ...     def decode(self, ids):
        ...         return " ".join("abcdefghijkl"[number] for number in ids)
        >>> pairs, texts = (([3, 4, 5], [5, 4, 3]),) * 8, (("d e f", "f e d"),) * 8
        >>> data = ar.Sentences(pairs, pairs, texts, Letters(), documented=False)
        >>> from attnrate.models.seq2seq import Seq2Seq
        >>> model = Seq2Seq(vocabulary=12, width=16, layers=1)
        >>> len(ar.train_on_sentences(data, model, ar.EpochRecipe(epochs=1)).epochs)
        1

    """
    sources, targets = zip(*data.train, strict=True)
    whole = Pairs(sources, targets, model.specials, tokens, smoothing=smoothing, seed=recipe.seed)
    feed = Parts(whole, parts)
    return train_epochs(model, feed, recipe, folder=folder, progress=progress, device=device)


def score_translations(model: Translator, data: Sentences, beams: int = 1) -> TextScores:
    """Translate all test sentences and score the translations.

    Args:
        model: A `Seq2Seq` or another `Translator`.
        data: The sentences.
        beams: The number of candidates that are kept for each sentence while it is translated.

    Returns:
        BLEU and loss, and some translations to read.

    Examples:
        >>> class Letters:
        ...     size = 12
        ...
        ...     def decode(self, ids):
        ...         return " ".join("abcdefghijkl"[number] for number in ids)
        >>> pairs, texts = (([3, 4, 5], [5, 4, 3]),) * 8, (("d e f", "f e d"),) * 8
        >>> data = ar.Sentences(pairs, pairs, texts, Letters(), documented=False)
        >>> from attnrate.models.seq2seq import Seq2Seq
        >>> model = Seq2Seq(vocabulary=12, width=16, layers=1)
        >>> len(ar.score_translations(model, data).samples)
        8

    """
    found = translations(model, data, beams)
    wanted = [german for _, german in data.test_texts]
    step = max(1, len(found) // _SAMPLES)
    rows = zip(data.test_texts, found, strict=True)
    samples = [(english, german, ours[:_LONGEST_SHOWN]) for (english, german), ours in rows]
    # the end of a sentence counts as a token
    longer = [place for place, (words, _) in enumerate(data.test) if len(words) + 1 > MOVED]
    of_longer = bleu([found[place] for place in longer], [wanted[place] for place in longer])
    return TextScores(
        **asdict(bleu(found, wanted)),
        test_loss=_loss(model, data.test),
        moved=MovedScores(
            **asdict(of_longer),
            test_loss=_loss(model, [data.test[place] for place in longer]),
            count=len(longer),
        ),
        samples=tuple(samples[::step][:_SAMPLES]),
    )


def _loss(model: Translator, pairs: Sequence[tuple[Sentence, Sentence]]) -> float | None:
    """The mean cross entropy per token; None if there are no pairs."""
    if not pairs:
        return None
    sources, targets = zip(*pairs, strict=True)
    most = max(_TOKENS_AT_ONCE, max(len(a) + len(b) + 2 for a, b in pairs))
    return evaluate(model, Pairs(sources, targets, model.specials, most, shuffle=False))[0]


@torch.no_grad()
def sentence_losses(
    model: Translator, pairs: Sequence[tuple[Sentence, Sentence]]
) -> tuple[float, ...]:
    """The cross entropy of each German sentence, summed over its tokens and its end, in nats."""
    special, device, training = model.specials, next(model.parameters()).device, model.training
    order = sorted(range(len(pairs)), key=lambda i: [*map(len, pairs[i])])
    found = [0.0] * len(order)
    model.eval()
    for start in range(0, len(order), _AT_ONCE):
        chosen = order[start : start + _AT_ONCE]
        source = padded([[*pairs[i][0], special.end] for i in chosen], special.pad)
        rows = [[special.begin, *pairs[i][1], special.end] for i in chosen]
        target = padded(rows, special.pad).to(device)
        logits = model(source.to(device), target[:, :-1])
        each = torch.nn.functional.cross_entropy(
            logits.mT, target[:, 1:], ignore_index=special.pad, reduction="none"
        )
        for i, loss in zip(chosen, each.sum(1).tolist(), strict=True):
            found[i] = loss
    model.train(training)
    return tuple(found)


def translations(model: Translator, data: Sentences, beams: int) -> list[str]:
    """The translations of all test sentences; those of similar length are translated together."""
    special, device = model.specials, next(model.parameters()).device
    order = sorted(range(len(data.test)), key=lambda i: len(data.test[i][0]))
    found = [""] * len(order)
    with Progress("translating", after=QUIET) as line:
        for start in range(0, len(order), _AT_ONCE):
            chosen = order[start : start + _AT_ONCE]
            rows = [[*data.test[i][0], special.end] for i in chosen]
            source = padded(rows, special.pad).to(device)
            for i, words in zip(chosen, translate(model, source, beams), strict=True):
                found[i] = data.vocabulary.decode(words)
            done = start + len(chosen)
            line.at(f"{done} of {len(order)} sentences translated", done / len(order))
    return found


def bleu(found: Sequence[str], wanted: Sequence[str]) -> Bleu:
    """The corpus BLEU of sacrebleu, with an interval by its bootstrap over sentences.

    Without any sentences the score is nan.
    """
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU()
    if not found:
        return Bleu(bleu=math.nan, bleu_half=math.nan, signature="")
    score = metric.corpus_score(list(found), [list(wanted)], n_bootstrap=_RESAMPLED)
    signature = str(metric.get_signature())
    plain = json.loads(score.format(signature=signature, is_json=True))
    # sacrebleu leaves it out where nothing at all is right
    half = float(plain.get("confidence_var", 0.0))
    return Bleu(bleu=float(score.score), bleu_half=half, signature=signature)
