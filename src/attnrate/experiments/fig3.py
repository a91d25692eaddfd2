"""Fig. 3: a ViT's spectra and its error on CIFAR-10 as the head size m_h grows.

The paper has a ViT-B/16. Here thirty models are trained for this figure and Table 1, so each is
small and sees the images a few times only: its errors are larger, and what is compared is how they
depend on m_h. Values have one size (m_v = 32) in every model: m_h bounds the rank of the logits and
nothing else. The size is what the time for all of them allows; that it is the best one for that
time is not claimed. Fig. 2, which asks what trained heads are like, trains them for longer.
"""

from collections.abc import Sequence
from typing import Any

from attnrate.experiments import fig3_claims
from attnrate.experiments.experiment import (
    Conclusion,
    Experiment,
    Preset,
    Result,
    Task,
    other_work,
)
from attnrate.experiments.real_work import image_settings, image_work

#: Images a second on one core while the other is as busy, and what is to be paid besides training
_SPEED, _BESIDES = 400.0, 35.0
_MODEL = {"width": 64, "layers": 4, "m_ff": 128, "m_v": 32}
_BATCH = 64
_QUICK_MODEL = {"width": 64, "layers": 2, "m_ff": 128, "m_v": 16}
_QUICK_SIZES, _SIZES = (1, 4, 16), (1, 2, 4, 8, 16, 32, 64)
_TRAIN, _TEST = 50_000, 10_000
_QUICK_TRAIN, _QUICK_TEST = 1_500, 1_000
_QUICK_SECONDS = 7.0
_PROFILED, _QUICK_PROFILED = 1_000, 200
EPOCHS, TUNED = 3, 1
SEEDS = 3


def quick_task(label: dict[str, Any], seed: int = 0, **changes: Any) -> Task:
    """A small model on a few images: what can be had in seconds."""
    model = {**_QUICK_MODEL, **changes.pop("model", {})}
    asked = image_settings(epochs=2, batch=32, rival_layers=2, model=model, **changes)
    return _task(asked, _QUICK_TRAIN, _QUICK_TEST, label, seed, _QUICK_SECONDS)


def full_task(label: dict[str, Any], seed: int = 0, **changes: Any) -> Task:
    """A small model on all images."""
    model = {**_MODEL, **changes.pop("model", {})}
    asked = image_settings(**{"epochs": EPOCHS, **changes}, batch=_BATCH, model=model)
    judged = 3 if asked["tuned"] else 1
    cost = _BESIDES * judged + _TRAIN * (asked["epochs"] + 2 * asked["tuned"]) / _SPEED
    return _task(asked, _TRAIN, _TEST, label, seed, cost)


def _task(
    asked: dict[str, Any], train: int, test: int, label: dict[str, Any], seed: int, cost: float
) -> Task:
    settings = {"image": asked, "train": train, "test": test}
    return other_work("fig3.image", settings, {**label, "seed": seed}, seed, cost)


def largest_tasks(preset: Preset) -> list[Task]:
    """The largest models of the sweep, which are fine-tuned on the altered order, too."""
    quick = preset == "quick"
    make, m_h = (quick_task, _QUICK_SIZES[-1]) if quick else (full_task, _SIZES[-1])
    return [
        make(
            {"m_h": m_h},
            seed,
            model={"m_h": m_h},
            tuned=TUNED,
            profiled=_QUICK_PROFILED if quick else _PROFILED,
        )
        for seed in range(1 if quick else SEEDS)
    ]


def tasks_beside(**changes: Any) -> list[Task]:
    """Models of the largest head size that differ in these settings alone."""
    model = {"m_h": _SIZES[-1]}
    return [
        full_task(model, seed, model=model, profiled=_PROFILED, **changes) for seed in range(SEEDS)
    ]


def tasks(preset: Preset) -> list[Task]:
    """A model for every m_h and seed."""
    quick = preset == "quick"
    make, sizes = (quick_task, _QUICK_SIZES) if quick else (full_task, _SIZES)
    smaller = [
        make(
            {"m_h": m_h}, seed, model={"m_h": m_h}, profiled=_QUICK_PROFILED if quick else _PROFILED
        )
        for seed in range(1 if quick else SEEDS)
        for m_h in sizes[:-1]
    ]
    return smaller + largest_tasks(preset)


def conclude(results: Sequence[Result]) -> Conclusion:
    """Distances between spectra, the law of the errors, and whether one tells the other."""
    return fig3_claims.conclusion(results)


WORK = {"image": image_work}
EXPERIMENT = Experiment(
    "fig3", "Spectra and error of a ViT against the head size", "Sec. 5.2, Fig. 3", tasks, conclude
)
