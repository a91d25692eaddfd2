"""Table 1 on CIFAR-10: accuracy with the patches in their order, and with the first ten moved.

The originals are the largest models of Fig. 3 (same tasks), fine-tuned on the altered order; others
are trained on that order from scratch. A GRU of the same size, which reads the patches one after
the other, is beside them; the paper has none. What the preset reaches in an hour: `train cifar10`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from attnrate.experiments import fig3
from attnrate.experiments.experiment import Conclusion, Experiment, Preset, Result, Task
from attnrate.experiments.table1 import Half, conclusion, learning

VIT, RIVAL = "ViT", "GRU"
#: Seeds of the models that Fig. 3 does not have
SEEDS = {"scratch": 3, "rival": 3}
_CANNOT = (
    "The paper's ViT-B/16 has 86 million parameters, and its accuracy takes training on millions "
    "of other images before; neither can be had here."
)

_SYMMETRY = (
    " This could not be otherwise but by chance: learned positions and the mean of all tokens make "
    "both orders one problem, with the rows of the positions' start exchanged."
)


def accuracy(values: Mapping[str, Any]) -> float:
    """The share of test images that are told right."""
    return 1 - float(values["test_error"])


HALF = Half(
    "table1-cifar",
    "CIFAR-10",
    "accuracy",
    "accuracy",
    accuracy,
    VIT,
    (RIVAL,),
    (0.98, 0.96),
    0.4,
    _CANNOT,
    _SYMMETRY,
)


def tasks(preset: Preset) -> list[Task]:
    """Originals of Fig. 3, altered from scratch, rivals in both orders."""
    quick = preset == "quick"
    make = fig3.quick_task if quick else fig3.full_task
    originals = fig3.largest_tasks(preset)
    sizes = {"m_h": originals[0].label["m_h"]}
    seeds = dict.fromkeys(SEEDS, 1) if quick else SEEDS
    made = [replace(task, label=_label(VIT, task.trial.seed)) for task in originals]
    made += [
        make(_label(VIT, seed, True), seed, model=sizes, altered=True)
        for seed in range(seeds["scratch"])
    ]
    for seed in range(seeds["rival"]):
        rival: dict[str, Any] = {"kind": "gru", "model": sizes}
        for altered in (False, True):
            made.append(make(_label(RIVAL, seed, altered), seed, altered=altered, **rival))
    return made


def _label(model: str, seed: int, altered: bool = False) -> dict[str, Any]:
    return {"model": model, "altered": altered, "seed": seed}


def conclude(results: Sequence[Result]) -> Conclusion:
    """Accuracies by order, and how they grew over the epochs."""
    said = conclusion(
        results,
        HALF,
        note="Accuracies on the test images; the altered order moves the first ten patches to the "
        "end before positions are added.",
    )
    curves = learning(results, HALF, "test_accuracy", "accuracy on some tests", "epoch")
    return replace(said, figures=(*said.figures, *curves))


WORK: dict[str, Any] = {}
EXPERIMENT = Experiment(
    "table1-cifar", "CIFAR-10 with its patches reordered", "Sec. 6.1, Table 1", tasks, conclude
)
