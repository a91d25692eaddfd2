"""Table 1 on CIFAR-10: accuracy with the patches in their order, and with the first ten moved.

The originals are the largest models of Fig. 3 (the same jobs), fine-tuned on the altered order;
others are trained on that order from scratch. A GRU of the same size, which reads the patches one
after the other, is beside them; the paper has none. `attnrate train cifar10` shows what a larger
model reaches in an hour.
"""

from attnrate.experiments.contract import Conclusion, Done, Experiment, Plan, Preset, Results
from attnrate.experiments.kits.images import (
    PRESETS,
    Image,
    ImageOutcome,
    Untuned,
    image_job,
    largest_jobs,
)
from attnrate.experiments.kits.orders import Half, Model, Way, by_way, conclusion
from attnrate.training.images import ImageErrors

VIT, RIVAL = "ViT", "GRU"
#: Seeds of the models that Fig. 3 does not have
SCRATCH_SEEDS, RIVAL_SEEDS = 3, 3
_CANNOT = (
    "The paper's ViT-B/16 has 86 million parameters, and its accuracy takes training on millions "
    "of other images before; neither can be had here."
)
_SYMMETRY = (
    " This could not be otherwise but by chance: learned positions and the mean of all tokens make "
    "both orders one problem, with the rows of the positions' start exchanged."
)
HALF = Half(
    "table1-cifar",
    data="CIFAR-10",
    score="accuracy",
    measure="accuracy",
    examples="images",
    curve="accuracy on some tests",
    epoch="epoch",
    attention=VIT,
    rivals=(RIVAL,),
    paper=(0.98, 0.96),
    learned=0.4,
    cannot=_CANNOT,
    beforehand=_SYMMETRY,
)


def plan(preset: Preset) -> Plan:
    """Originals of Fig. 3, altered from scratch, rivals in both orders."""
    m_h = PRESETS[preset].sizes[-1]
    scratch, rivals = (1, 1) if preset == "quick" else (SCRATCH_SEEDS, RIVAL_SEEDS)
    return [
        *largest_jobs(preset),
        *(image_job(preset, m_h, seed, altered=True) for seed in range(scratch)),
        *(
            image_job(preset, m_h, seed, kind="gru", altered=altered)
            for seed in range(rivals)
            for altered in (False, True)
        ),
    ]


def conclude(results: Results) -> Conclusion:
    """Accuracies by order, and how they grew over the epochs."""
    return conclusion(
        results,
        [_model(one) for one in results.of(Image, ImageOutcome)],
        HALF,
        note="Accuracies on the test images; the altered order moves the first ten patches to the "
        "end before positions are added.",
    )


def _model(one: Done[Image, ImageOutcome]) -> Model:
    asked, found = one.job.image, one.outcome
    ways: dict[Way, ImageErrors | Untuned] = by_way(
        asked.altered, found, found.continued, found.untuned, found.tuned
    )
    return Model(
        VIT if asked.kind == "attention" else RIVAL,
        asked.altered,
        one.job.seed,
        found.parameters,
        found.images,
        {way: 1 - errors.test_error for way, errors in ways.items()},
        tuple(each.test_accuracy for each in found.epochs if each.test_accuracy is not None),
        len(found.tuned.epochs) if found.tuned else 0,
    )


EXPERIMENT = Experiment(
    "table1-cifar",
    "CIFAR-10 with its patches reordered",
    "Sec. 6.1, Table 1",
    40,
    plan,
    conclude,
)
