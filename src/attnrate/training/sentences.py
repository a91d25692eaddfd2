"""Models that translate: pairs of sentences, training on them, and the BLEU of translations.

BLEU is sacrebleu's, with its signature, on the documented test set of data/translation.py (messages
of programs, no news: it does not compare with WMT's).
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from attnrate.data.registry import require_installed
from attnrate.models.decoding import Translator, translate
from attnrate.targets.alter import MOVED
from attnrate.training.epochs import EpochRecipe, Training, evaluate, train_epochs
from attnrate.training.feed import Pairs, Parts, padded

Sentence = list[int]
_SAMPLES = 8
_AT_ONCE = 64  # sentences that are translated together
_TOKENS_AT_ONCE = 2048
_RESAMPLED = 500
_LONGEST_SHOWN = 160  # characters: a translator that has not learned does not end


@dataclass(frozen=True, eq=False)
class Sentences:
    """Token numbers of both sides; tests also as text, which `vocabulary` makes of numbers."""

    train: tuple[tuple[Sentence, Sentence], ...]
    test: tuple[tuple[Sentence, Sentence], ...]
    test_texts: tuple[tuple[str, str], ...]
    vocabulary: Any
    documented: bool


@dataclass(frozen=True, kw_only=True)
class Bleu:
    """BLEU from 0 to 100, half of its 95 % interval over sentences, and how it was computed."""

    bleu: float
    bleu_half: float
    signature: str


@dataclass(frozen=True, kw_only=True)
class MovedScores(Bleu):
    """Scores over those `count` sentences that Table 1's order moves; no loss if there are none."""

    test_loss: float | None = None
    count: int


@dataclass(frozen=True, kw_only=True)
class TextScores(Bleu):
    """How good a translator is over all test sentences.

    The loss, of German given word by word, also tells models apart that are too weak for BLEU.
    Sentences that Table 1's order leaves as they are would hide what it does to the others, so
    these have scores of their own, `moved`. Rows of `samples` are English, German, and ours.
    """

    test_loss: float | None = None
    moved: MovedScores
    samples: tuple[tuple[str, str, str], ...]


def sentences(packages: str, tokens: int, longest: int, tests: int) -> Sentences:
    """Training pairs of at most `longest` tokens a side, and test pairs evenly spread.

    What is needed to score them is asked for at once, and not after an hour of training.
    """
    require_installed("sacrebleu", "score translations", "BLEU")
    from attnrate.data.bpe import vocabulary
    from attnrate.data.translation import translation

    data = translation(packages)
    words = vocabulary(data, tokens)
    coded = ((words.encode(english), words.encode(german)) for english, german in data.train)
    kept = tuple(pair for pair in coded if max(map(len, pair)) <= longest)
    count = min(tests, len(data.test))
    shown = tuple(data.test[place * len(data.test) // count] for place in range(count))
    test = tuple(
        (words.encode(english)[: 2 * longest], words.encode(german)) for english, german in shown
    )
    return Sentences(kept, test, shown, words, data.documented)


def trained_on(
    data: Sentences,
    model: Translator,
    batch: int,
    parts: int,
    recipe: EpochRecipe,
    folder: Path,
    progress: bool | None = False,
    device: object = "cpu",
    smoothing: float = 0.1,
) -> Training:
    """Train on the pairs, a part of them an epoch."""
    sources, targets = zip(*data.train, strict=True)
    whole = Pairs(sources, targets, model.specials, batch, smoothing=smoothing, seed=recipe.seed)
    feed = Parts(whole, parts)
    return train_epochs(model, feed, recipe, folder=folder, progress=progress, device=device)


def scored(model: Translator, data: Sentences, beams: int) -> TextScores:
    """Translate all test sentences, each with `beams` candidates at a time, and score them."""
    found = translations(model, data, beams)
    wanted = [german for _, german in data.test_texts]
    step = max(1, len(found) // _SAMPLES)
    rows = zip(data.test_texts, found, strict=True)
    samples = [(english, german, ours[:_LONGEST_SHOWN]) for (english, german), ours in rows]
    # the end of a sentence is a token, too
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
    """Cross entropy a token; None without pairs."""
    if not pairs:
        return None
    sources, targets = zip(*pairs, strict=True)
    most = max(_TOKENS_AT_ONCE, max(len(a) + len(b) + 2 for a, b in pairs))
    return evaluate(model, Pairs(sources, targets, model.specials, most, shuffle=False))[0]


def translations(model: Translator, data: Sentences, beams: int) -> list[str]:
    """The texts for all test sentences; those of like length are translated together."""
    special, device = model.specials, next(model.parameters()).device
    order = sorted(range(len(data.test)), key=lambda i: len(data.test[i][0]))
    found = [""] * len(order)
    for start in range(0, len(order), _AT_ONCE):
        chosen = order[start : start + _AT_ONCE]
        source = padded([[*data.test[i][0], special.end] for i in chosen], special.pad).to(device)
        for i, words in zip(chosen, translate(model, source, beams), strict=True):
            found[i] = data.vocabulary.decode(words)
    return found


def bleu(found: Sequence[str], wanted: Sequence[str]) -> Bleu:
    """sacrebleu's corpus BLEU, with its bootstrap over sentences."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU()
    score = metric.corpus_score(list(found), [list(wanted)], n_bootstrap=_RESAMPLED)
    signature = str(metric.get_signature())
    told = json.loads(score.format(signature=signature, is_json=True))
    # left out by sacrebleu where nothing at all is right
    half = float(told.get("confidence_var", 0.0))
    return Bleu(bleu=float(score.score), bleu_half=half, signature=signature)
