"""Training one translator as a task: train, translate the test set, score it, fine-tune.

As in real_work, with sentences for images. BLEU is sacrebleu's, with its signature, on the
documented test set (messages of programs, no news: it does not compare with WMT's).
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

from attnrate.data.translation import RULES, TESTS
from attnrate.experiments.real_work import (
    completed,
    fine_tuned,
    history,
    recipe,
    recipe_of,
    with_data,
)
from attnrate.fitting.fit import initial
from attnrate.fitting.trial import Trial
from attnrate.models.decoding import Translator
from attnrate.models.rivals import translator_like
from attnrate.models.seq2seq import Seq2Seq, Seq2SeqSettings, seq2seq_settings
from attnrate.targets.alter import MOVED
from attnrate.training.epochs import EpochRecipe, Training
from attnrate.training.sentences import Sentences, scored, sentences, trained_on


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
        **_scored(done.model, data, asked["beams"]),
        "seconds": done.seconds,
        "epochs": history(done),
        "parameters": model.parameter_count(),
        "pairs": len(data.train),
        "tests": len(data.test),
        "documented": data.documented,
    }
    if asked["tuned"]:

        def tune(model: Translator, gentle: EpochRecipe, way: str) -> dict[str, Any]:
            done = run(model, gentle, way)
            scores = _scored(done.model, data, asked["beams"])
            return {**scores, "seconds": done.seconds, "epochs": history(done)}

        def as_it_is(model: Translator) -> dict[str, Any]:
            return _scored(model, data, asked["beams"])

        values |= fine_tuned(asked, seed, done.model, make, as_it_is, tune)
    return values


def _model(asked: Mapping[str, Any], sizes: Seq2SeqSettings, seed: int) -> Translator:
    make = Seq2Seq if asked["kind"] == "attention" else translator_like
    return cast(Translator, initial(lambda: make(sizes), seed))


def _scored(model: Any, data: Sentences, beams: int) -> dict[str, Any]:
    return asdict(scored(model, data, beams))
