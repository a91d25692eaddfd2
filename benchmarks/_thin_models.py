"""The models of compress_thin.py: whole ones and thin ones, trained alike, kept with their scores.

The ViTs are those of Fig. 3 and the translators those of Table 1 (the preset `paper`), with the
same seeds, so that a score can be held against the record of the reproduction.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from attnrate.experiments.kits import images as image_kit
from attnrate.experiments.paper import table1
from attnrate.fitting.fit import initial
from attnrate.fitting.store import Store
from attnrate.models.seq2seq import Seq2Seq
from attnrate.models.vit import ViT
from attnrate.spectra.batches import Batch
from attnrate.training import images, sentences
from attnrate.training.feed import Pairs, normalised
from attnrate.training.images import Photographs
from attnrate.training.sentences import Sentences

#: The reproduction's own results
STORE = Path(__file__).resolve().parents[1] / "docs" / "reproduction" / "trials.sqlite"
Scores = dict[str, float]
#: Calibration inputs, and how many images or tokens of them are in a batch
INPUTS, IMAGES, TOKENS = 512, 64, 2048


@dataclass(frozen=True)
class Trained:
    """A model with what it reached on its test data, and the seconds of its training."""

    model: nn.Module
    scores: Scores
    seconds: float


@dataclass(frozen=True)
class Task:
    """A kind of model: how one is made, trained and judged, and the score that counts.

    Attributes:
        name: Its name.
        score: The score that counts; larger is better.
        whole: The head size of the whole model.
        calibration: Inputs of its training data, without labels.
        make: The model of a head size and a seed, untrained.
        train: Trains it, with checkpoints in a folder; the seconds it took.
        judge: Its scores.
        record: What the reproduction has on record for a head size and a seed; None if nothing.

    """

    name: str
    score: str
    whole: int
    calibration: Sequence[Batch]
    make: Callable[[int, int], nn.Module]
    train: Callable[[nn.Module, int, Path], float]
    judge: Callable[[nn.Module], Scores]
    record: Callable[[int, int], float | None] = lambda _m_h, _seed: None

    def thin(self, m_h: int, seed: int, work: Path) -> float:
        """The score of a model trained with small heads: on record, or trained here."""
        known = self.record(m_h, seed)
        return self.trained(m_h, seed, work).scores[self.score] if known is None else known

    def trained(self, m_h: int, seed: int, work: Path) -> Trained:
        """The trained model, from its files where it was trained before."""
        place = work / f"{self.name}-{m_h}-{seed}"
        weights, said = place / "model.safetensors", place / "scores.json"
        model = self.make(m_h, seed)
        if not said.exists():
            place.mkdir(parents=True, exist_ok=True)
            seconds = self.train(model, seed, place / "epochs")
            scores = self.judge(model)
            save_file({n: x.contiguous() for n, x in model.state_dict().items()}, weights)
            said.write_text(json.dumps({"scores": scores, "seconds": seconds}))
            print(f"{place.name}: {scores}, trained in {seconds:.0f} s", flush=True)
        model.load_state_dict(load_file(weights))
        facts: dict[str, Any] = json.loads(said.read_text())
        return Trained(model.eval(), facts["scores"], facts["seconds"])


def _error_on_record(m_h: int, seed: int) -> float | None:
    """The test error of Fig. 3 in the committed store."""
    tuned = image_kit.TUNED if m_h == image_kit.PRESETS["paper"].sizes[-1] else 0
    job = image_kit.image_job("paper", m_h, seed, tuned=tuned, profiled=True).job
    with TemporaryDirectory() as place:  # a store is not opened in a folder that git watches
        file = shutil.copy(STORE, place)
        with Store(file, writable=False) as store:
            found = store.finished([job])
    return float(found[0].result["test_error"]) if found else None


def vit_task(data: Photographs) -> Task:
    """The ViT of Fig. 3 on CIFAR-10; only m_h differs, values keep their size."""
    run = image_kit.PRESETS["paper"].settings

    def make(m_h: int, seed: int) -> nn.Module:
        return initial(lambda: ViT(replace(run.model, m_h=m_h)), seed)

    def train(model: nn.Module, seed: int, folder: Path) -> float:
        recipe = replace(run.recipe.over(run.epochs, seed), threads=1)
        done = images.train_on_images(data, model, recipe, folder, batch=run.batch, progress=False)
        return done.seconds

    def judge(model: nn.Module) -> Scores:
        found = images.judge_images(model, data, run.judged)
        return {"accuracy": 1 - found.test_error, "test_loss": found.test_loss}

    every = len(data.train_images) // INPUTS
    given = normalised(data.train_images[::every][:INPUTS])
    own = [given[i : i + IMAGES] for i in range(0, INPUTS, IMAGES)]

    def record(m_h: int, seed: int) -> float | None:
        error = _error_on_record(m_h, seed)
        return None if error is None else 1 - error

    return Task("vit", "accuracy", 64, own, make, train, judge, record)


def translator_task(data: Sentences) -> Task:
    """The translator of Table 1; only m_h differs, values keep their size."""
    run = table1.PRESETS["paper"]
    whole = replace(run.model, vocabulary=data.vocabulary.size, m_v=run.model.m_h)

    def make(m_h: int, seed: int) -> nn.Module:
        return initial(lambda: Seq2Seq(replace(whole, m_h=m_h)), seed)

    def train(model: nn.Module, seed: int, folder: Path) -> float:
        recipe = replace(run.recipe.over(run.epochs, seed), threads=1)
        done = sentences.train_on_sentences(
            data,
            model,
            recipe,
            folder,
            tokens=run.batch,
            parts=run.parts,
            smoothing=run.smoothing,
            progress=False,
        )
        return done.seconds

    def judge(model: nn.Module) -> Scores:
        found = sentences.score_translations(model, data, run.beams)
        return {"bleu": found.bleu, "test_loss": float(found.test_loss or torch.nan)}

    sources, targets = zip(*data.train[:: len(data.train) // INPUTS][:INPUTS], strict=True)
    specials = Seq2Seq(whole).specials
    pairs = Pairs(sources, targets, specials, TOKENS)  # shuffled, since the last are held out
    own = [{"source": source, "target": target} for source, target in pairs.batches(0)]
    return Task("translator", "bleu", whole.m_h, own, make, train, judge)
