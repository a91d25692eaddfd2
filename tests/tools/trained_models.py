"""Made-up outcomes of models on real data, and what an experiment concludes from them."""

import json
from typing import Any

import torch

from attnrate.experiments import load
from attnrate.experiments.contract import (
    Conclusion,
    Done,
    Outcome,
    Results,
    from_plain,
    to_plain,
)
from attnrate.experiments.kits.images import FirstHead, ImageOutcome, ImageRun, Spectra, Untuned
from attnrate.experiments.kits.real import TextOutcome, TextRun
from attnrate.experiments.record import Record, record_from_plain, record_to_plain
from attnrate.training.history import EpochSummary, rounded
from attnrate.training.images import ImageErrors
from attnrate.training.sentences import MovedScores, TextScores


def concluded(name: str, done: list[Done], *missing: str) -> Conclusion:
    """The conclusion, whose record survives JSON and whose words have no NaN."""
    said = load(name).conclude(Results(done, missing))
    record = Record(name, "", "", "paper", 1, 1, 0.0, {}, said)
    plain = json.loads(json.dumps(record_to_plain(record), allow_nan=False))
    assert record_to_plain(record_from_plain(plain)) == plain
    cells = [str(cell) for table in said.tables for row in table.rows for cell in row]
    captions = [figure.caption for figure in said.figures]
    evidence = [claim.evidence for claim in said.claims]
    assert "nan" not in " ".join([*said.paragraphs, *evidence, *captions, *cells])
    return said


def epochs(count: int, accuracy: float = 0.5, loss: float = 1.0) -> tuple[EpochSummary, ...]:
    """This number of made-up epochs, all alike."""
    return (EpochSummary(loss, accuracy, loss, accuracy, 1.0),) * count


def image_run(share: float, count: int = 1) -> ImageRun:
    """A model that classifies this share of the images correctly."""
    errors = ImageErrors(train_error=1 - share, test_error=1 - share, train_loss=1.0, test_loss=1.0)
    return ImageRun(**vars(errors), seconds=1.0, epochs=epochs(count, share))


def image_outcome(share: float, ways: tuple[float, float, float] | None = None) -> ImageOutcome:
    """The outcome of a model of images; `ways` are the shares continued, untuned and tuned."""
    found = ImageOutcome(**vars(image_run(share)), parameters=10, images=100, tests=10)
    if ways is None:
        return found
    continued, untuned, tuned = ways
    more = {"continued": image_run(continued), "untuned": Untuned(1 - untuned)}
    return ImageOutcome(**{**vars(found), **more, "tuned": image_run(tuned)})


def text_scores(share: float) -> TextScores:
    """A translator with this share of the best score."""
    half = {"bleu": 20 * share, "bleu_half": 0.5, "signature": "nrefs:1|v:2"}
    return TextScores(**half, moved=MovedScores(**half, count=7), samples=(("a", "b", "c"),))


def text_run(share: float) -> TextRun:
    """A translator with this share of the best score, after two epochs."""
    long = (*epochs(1, loss=5.0), *epochs(1, loss=4.0 - share))
    return TextRun(**vars(text_scores(share)), seconds=1.0, epochs=long)


def text_outcome(share: float, ways: tuple[float, float, float] | None = None) -> TextOutcome:
    """The outcome of a translator; `ways` are the shares continued, untuned and tuned."""
    about = {"parameters": 10, "pairs": 100, "tests": 9, "documented": True}
    found = TextOutcome(**vars(text_run(share)), **about)
    if ways is None:
        return found
    continued, untuned, tuned = ways
    more = {"continued": text_run(continued), "untuned": text_scores(untuned)}
    return TextOutcome(**{**vars(found), **more, "tuned": text_run(tuned)})


def spectra(head: FirstHead, layers: int, **changes: object) -> Spectra:
    """Spectra of two heads per layer, all equal to this one."""
    mean = tuple(float(sum(group) / len(group)) for group in zip(*head.groups, strict=True))
    ranks = ((2.0, 2.0),) * layers
    given = {
        "first": head,
        "last": head,
        "all": ((head.values,) * 2,) * layers,
        "mean": ((mean,) * 2,) * layers,
        "gauged": ((mean,) * 2,) * layers,
        "rank99": ranks,
        "rank99_gauged": ranks,
        "untrained_rank99": ranks,
        "untrained_last": (1.0,) * len(mean),
    }
    return Spectra(**{**given, **changes})


def same(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
    """Whether two models have the same weights, bit for bit."""
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def without_times(value: Any) -> Any:
    """Plain values without durations."""
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if k != "seconds"}
    return [without_times(v) for v in value] if isinstance(value, list) else value


def kept(outcome: Outcome) -> Any:
    """The outcome after it was rounded, stored as JSON and read again."""
    plain = to_plain(rounded(outcome))
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    return from_plain(type(outcome), plain)
