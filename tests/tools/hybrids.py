"""Made-up results of the experiment `hybrids`: exact answers, fits, and models of images."""

from attnrate.experiments.contract import Done
from attnrate.experiments.kits.hybrids import (
    Exact,
    ExactOutcome,
    Trained,
    TrainedOutcome,
    Undone,
)
from attnrate.experiments.kits.images import ImageOutcome, image_job
from attnrate.experiments.kits.stems import StemOutcome, stem_jobs
from attnrate.experiments.paper.hybrids import COUNTS

#: λ of a target that is mixed wholly
WHOLE = 1.0


def exact(seed, oracle=1e-30, recurrence=1e-20, left=1e-3, never=0.9):
    """Exact answers with these errors, where mixing to λ = 0.3 misses 0.2 and to 1 misses 0.9."""
    stable = Undone(0.5, recurrence, (left,) * len(COUNTS), 0.0)
    unstable = Undone(2.0, recurrence, (0.95,) * len(COUNTS), never)
    outcome = ExactOutcome((0.1, 0.02, oracle), stable, unstable, 12, (0.2, 0.9))
    return Done(Exact(taps=COUNTS, strengths=(0.3, WHOLE), seed=seed), outcome)


def trained(case, model, seed, error, m_h=6, strength=WHOLE):
    """A fit with that error over the variance."""
    job = Trained(
        case=case, model=model, m_h=m_h, width=64, recipe={}, strength=strength, seed=seed
    )
    return Done(job, TrainedOutcome(error=error))


def viewed(plain, stem):
    """Three models of images with and without a stem, with about these accuracies."""
    made = []
    for job in stem_jobs("paper"):
        seed = job.job.seed
        accuracy = {"train_error": 0.3, "train_loss": 1.0, "test_loss": 1.0}
        ran = {"seconds": 1.0, "epochs": (), "parameters": 175_000, "tests": 10_000}
        found = StemOutcome(test_error=1 - stem - 0.004 * seed, **accuracy, **ran)
        other = ImageOutcome(test_error=1 - plain - 0.001 * seed, **accuracy, **ran, images=50_000)
        made += [Done(job.job, found), Done(image_job("paper", 64, seed).job, other)]
    return made
