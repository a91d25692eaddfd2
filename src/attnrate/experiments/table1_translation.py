"""Table 1 on translation: BLEU with sentences in their order, and with the first ten tokens moved.

English to German, messages of programs, on the documented test set of data/translation.py, scored
by sacrebleu. The paper has WMT 2014 and the base model of Vaswani et al.; ours is smaller than the
`cpu` preset, because there are eight of them, and sees every pair once. Sentences of ten tokens and
fewer, about half, stay as they are, so that the verdicts go by the BLEU of the longer ones; that of
all stands beside it. A GRU translator of the same size, without attention, is there as well; the
paper has none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from attnrate.experiments.experiment import (
    Conclusion,
    Experiment,
    Preset,
    Result,
    Task,
    other_work,
    select,
)
from attnrate.experiments.real_translation import translation_settings, translation_work
from attnrate.experiments.table1 import WAYS, Half, conclusion, learning
from attnrate.figures.figure import Table

MODEL, RIVAL = "Transformer", "GRU"
#: Tokens a second on one core while the other is as busy; in one pass over the pairs; and what is
#: paid besides training
_SPEED = {"attention": 2400.0, "gru": 2400.0}
_TOKENS, _BESIDES = 2.5e6, 60.0
_MODEL = {"width": 192, "layers": 2, "heads": 4, "m_h": 48, "m_ff": 384}
_BATCH, _PARTS, _EPOCHS, _TUNED = 1024, 8, 8, 2
SEEDS = {"original": 3, "scratch": 3, "rival": 1}
_QUICK: dict[str, Any] = {
    "packages": "small",
    "vocabulary": 1000,
    "longest": 30,
    "tests": 40,
    "batch": 1024,
    "parts": 2,
    "epochs": 2,
    "model": {"width": 64, "layers": 1, "heads": 2, "m_h": 16, "m_ff": 128},
}
_QUICK_SECONDS = 8.0
_WORD = 40  # letters of a word that are shown; what has not been learned does not end
_CANNOT = (
    "WMT 2014 and the paper's training cannot be had here; ours are messages of programs, whose "
    "scores do not compare, only their change."
)
_BEFOREHAND = (
    " Nothing promises that it does: where sentences differ in length, moving ten tokens to the "
    "end is another permutation for every length, which positions cannot undo for all at once."
)
_TRAINED = (
    " All models have seen every pair once, but for what fine-tuning or training on adds; it may "
    "be otherwise after more training."
)


def score(values: Mapping[str, Any]) -> float:
    """BLEU of the sentences that the altered order moves, from 0 to 100."""
    return float(values["moved"]["bleu"])


HALF = Half(
    "table1-translation",
    "translation",
    "BLEU of sentences of more than ten tokens",
    "BLEU",
    score,
    MODEL,
    (RIVAL,),
    (26.85, 25.91),
    5.0,
    _CANNOT,
    _BEFOREHAND,
    _TRAINED,
)


def tasks(preset: Preset) -> list[Task]:
    """Originals with their fine-tuning, altered from scratch, rivals in both orders."""
    seeds = dict.fromkeys(SEEDS, 1) if preset == "quick" else SEEDS
    made = [_task(preset, "attention", seed) for seed in range(seeds["original"])]
    made += [_task(preset, "attention", seed, altered=True) for seed in range(seeds["scratch"])]
    for seed in range(seeds["rival"]):
        made += [_task(preset, "gru", seed), _task(preset, "gru", seed, altered=True)]
    return made


def _task(preset: Preset, kind: str, seed: int, altered: bool = False) -> Task:
    changes: dict[str, Any] = {
        "parts": _PARTS,
        "epochs": _EPOCHS,
        "batch": _BATCH,
        "model": _MODEL,
    }
    tuned = _TUNED if kind == "attention" and not altered else 0
    if preset == "quick":
        changes, tuned = _QUICK, min(tuned, 1)
    asked = translation_settings(kind, altered=altered, tuned=tuned, **changes)
    passes = (asked["epochs"] + 2 * asked["tuned"]) / asked["parts"]
    cost = _BESIDES * (3 if asked["tuned"] else 1) + passes * _TOKENS / _SPEED[kind]
    label = {"model": MODEL if kind == "attention" else RIVAL, "altered": altered, "seed": seed}
    return other_work(
        "table1_translation.text",
        {"text": asked},
        label,
        seed,
        _QUICK_SECONDS if preset == "quick" else cost,
    )


def conclude(results: Sequence[Result]) -> Conclusion:
    """BLEU by order, and some translations to look at."""
    done = [one for one in results if "bleu" in one.values]
    if not done:
        return conclusion(results, HALF)
    values = done[0].values
    known = "the documented test set" if values["documented"] else "not the documented test set"
    note = f"{values['moved']['count']} of {values['tests']} test sentences, {known}."
    said = conclusion(results, HALF, (_whole(done), _samples(done)), note)
    curves = learning(results, HALF, "loss", "training loss", "part of the training")
    return replace(said, figures=(*said.figures, *curves))


def _by_way(one: Result) -> dict[str, Any]:
    first = "scratch" if one.label["altered"] else "original"
    return {first: one.values, **{way: one.values[way] for way in WAYS if way in one.values}}


def _whole(done: Sequence[Result]) -> Table:
    """BLEU of all test sentences, with sacrebleu's interval over sentences."""
    rows = []
    for one in done:
        for way, values in _by_way(one).items():
            both = (values, values["moved"])
            cells = [f"{each['bleu']:.2f} ± {each['bleu_half']:.2f}" for each in both]
            rows.append((one.label["model"], WAYS[way], one.label["seed"], *cells))
    return Table(
        "BLEU of every model",
        ("model", "order", "seed", "all test sentences", "those that are moved"),
        tuple(rows),
        f"sacrebleu {done[0].values['signature']}; ± is its 95 % interval over sentences.",
    )


def _samples(done: Sequence[Result]) -> Table:
    """The same test sentences by the models of seed 0, one below the other."""
    known = {one.label["seed"] for one in done}
    shown = select(done, seed=min(known))
    rows: list[tuple[str, str]] = []
    for place, (english, german, _) in enumerate(shown[0].values["samples"]):
        rows += [("English", english), ("German of the program", german)]
        for one in shown:
            for way, values in _by_way(one).items():
                if one.label["model"] == MODEL or way == "original":
                    words = values["samples"][place][2].split()
                    cut = [word if len(word) <= _WORD else word[:_WORD] + "…" for word in words]
                    rows.append((f"{one.label['model']}, {WAYS[way]}", " ".join(cut)))
    return Table(
        f"Translations of test sentences, seed {min(known)}",
        ("by", "text"),
        tuple(rows),
        "Evenly spread over the test set, not chosen; long ones are cut.",
    )


WORK = {"text": translation_work}
EXPERIMENT = Experiment(
    "table1-translation",
    "Translation with its words reordered",
    "Sec. 6.1, Table 1",
    tasks,
    conclude,
)
