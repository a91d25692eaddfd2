"""Training one translator as a task: train, translate the test set, score it, fine-tune.

As in real_work, with sentences for images. BLEU is sacrebleu's, with its signature, on the
documented test set (messages of programs, no news: it does not compare with WMT's).
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from attnrate.data.registry import require_installed
from attnrate.data.translation import RULES, TESTS
from attnrate.experiments.real_work import (
    MOVED,
    completed,
    fine_tuned,
    history,
    recipe,
    recipe_of,
    with_data,
)
from attnrate.fitting.epochs import EpochRecipe, Training, evaluate, train_epochs
from attnrate.fitting.feed import Feed, Pairs, Parts, padded
from attnrate.fitting.fit import initial
from attnrate.fitting.trial import Trial
from attnrate.models.decoding import Translator, translate
from attnrate.models.rivals import translator_like
from attnrate.models.seq2seq import Seq2Seq, Seq2SeqSettings, seq2seq_settings

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


def translation_settings(kind: str = "attention", **changes: Any) -> dict[str, Any]:
    """What a task is told: as `image_settings` of real_work, and what the data are.

    An epoch is made of `parts` checkpoints; `epochs` and `tuned` are counted in such parts.
    """
    first = {
        "kind": kind,
        "model": {},
        "recipe": recipe_of(kind),
        "packages": "all",
        "rules": RULES,
        "vocabulary": 8000,
        "longest": 60,
        "tests": TESTS,
        "batch": 2048,
        "smoothing": 0.1,
        "parts": 8,
        "altered": False,
        "moved": MOVED,
        "epochs": 16,
        "tuned": 0,
        "beams": 1,
    }
    return completed("sentences", first, changes, seq2seq_settings)


def translation_work(trial: Trial) -> dict[str, Any]:
    """One translator, as `settings` of the trial say."""
    asked = trial.target["text"]

    def work(folder: Path) -> dict[str, Any]:
        data = sentences(asked["packages"], asked["vocabulary"], asked["longest"], asked["tests"])
        return train_on(data, asked, trial.seed, folder)

    return with_data(trial, work)


def train_on(data: Sentences, asked: Mapping[str, Any], seed: int, folder: Path) -> dict[str, Any]:
    """Train, score and fine-tune; plain values."""
    sizes = seq2seq_settings(**{**asked["model"], "vocabulary": data.vocabulary.size})

    def make(altered: bool) -> Translator:
        return _model(asked, replace(sizes, moved=asked["moved"]) if altered else sizes, seed)

    def run(model: Translator, plan: EpochRecipe, way: str) -> Training:
        sizes = asked["batch"], asked["parts"]
        smoothing = asked["smoothing"]
        return trained_on(data, model, *sizes, plan, folder / way, smoothing=smoothing)

    model = make(asked["altered"])
    done = run(model, recipe(asked, asked["epochs"], seed), "first")
    values = {
        **judged(done, data, asked["beams"]),
        "parameters": model.parameter_count(),
        "pairs": len(data.train),
        "tests": len(data.test),
        "documented": data.documented,
    }
    if asked["tuned"]:

        def tune(model: Translator, gentle: EpochRecipe, way: str) -> dict[str, Any]:
            return judged(run(model, gentle, way), data, asked["beams"])

        def as_it_is(model: Translator) -> dict[str, Any]:
            return scored(model, data, asked["beams"])

        values |= fine_tuned(asked, seed, done.model, make, as_it_is, tune)
    return values


def _model(asked: Mapping[str, Any], sizes: Seq2SeqSettings, seed: int) -> Translator:
    make = Seq2Seq if asked["kind"] == "attention" else translator_like
    return cast(Translator, initial(lambda: make(sizes), seed))


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
    feed = cast(Feed, Parts(cast(Feed, whole), parts))
    return train_epochs(model, feed, recipe, folder=folder, progress=progress, device=device)


def judged(done: Training, data: Sentences, beams: int) -> dict[str, Any]:
    """As `scored`, with the time and the epochs."""
    model = cast(Translator, done.model)
    return {
        **scored(model, data, beams),
        "seconds": done.seconds,
        "epochs": history(done),
    }


def scored(model: Translator, data: Sentences, beams: int) -> dict[str, Any]:
    """BLEU over the test set with its interval over sentences, the signature, samples, the loss.

    "moved" is the same over those sentences that the altered order moves: shorter ones stay as they
    are, and would hide what it does to the others. The loss, of German given word by word, also
    tells models apart that are too weak for BLEU.
    """
    found = translations(model, data, beams)
    wanted = [german for _, german in data.test_texts]
    step = max(1, len(found) // _SAMPLES)
    rows = zip(data.test_texts, found, strict=True)
    samples = [[english, german, ours[:_LONGEST_SHOWN]] for (english, german), ours in rows]
    # the end of a sentence is a token, too
    longer = [place for place, (words, _) in enumerate(data.test) if len(words) + 1 > MOVED]
    return {
        **bleu(found, wanted),
        "test_loss": _loss(model, data.test),
        "moved": {
            **bleu([found[place] for place in longer], [wanted[place] for place in longer]),
            "test_loss": _loss(model, [data.test[place] for place in longer]),
            "count": len(longer),
        },
        "samples": samples[::step][:_SAMPLES],
    }


def _loss(model: Translator, pairs: Sequence[tuple[Sentence, Sentence]]) -> float:
    """Cross entropy a token."""
    if not pairs:
        return math.nan
    sources, targets = zip(*pairs, strict=True)
    most = max(_TOKENS_AT_ONCE, max(len(a) + len(b) + 2 for a, b in pairs))
    feed = Pairs(sources, targets, model.specials, most, shuffle=False)
    return evaluate(model, cast(Feed, feed))[0]


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


def bleu(found: Sequence[str], wanted: Sequence[str]) -> dict[str, Any]:
    """sacrebleu's corpus BLEU, half of its 95 % interval (bootstrap), and its signature."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU()
    score = metric.corpus_score(list(found), [list(wanted)], n_bootstrap=_RESAMPLED)
    signature = str(metric.get_signature())
    told = json.loads(score.format(signature=signature, is_json=True))
    # left out by sacrebleu where nothing at all is right
    half = float(told.get("confidence_var", 0.0))
    return {"bleu": float(score.score), "bleu_half": half, "signature": signature}
