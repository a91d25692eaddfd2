"""What experiments on real data share: training as a job, data that cannot be had, verdicts.

A job keeps its epochs under the cache until its outcome is stored: killed, it goes on at its last
epoch. Table 1's altered order is fine-tuned from weights of the same job, so that no job needs
another.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from torch import nn

from attnrate.data.registry import FetchError
from attnrate.experiments.claims import Claim, Verdict
from attnrate.experiments.contract import Conclusion, Missing, Results
from attnrate.figures.figure import Series
from attnrate.files import alone
from attnrate.progress import say
from attnrate.statistics import Interval, mean
from attnrate.training.checkpoint import ConfigurationError, training_folder
from attnrate.training.epochs import EpochRecipe, rounded

#: Attention, or a recurrent rival with about as many parameters
Kind = Literal["attention", "gru", "state-space"]

M = TypeVar("M", bound=nn.Module)
T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class Steps:
    """What a step of training is like.

    Fine-tuning begins at the step size lr · tuning_rate, or it would forget what it starts from.
    """

    optimizer: Literal["muon", "adamw"] = "muon"
    lr: float = 5e-3
    warmup: float = EpochRecipe.warmup
    weight_decay: float = EpochRecipe.weight_decay
    clip: float = EpochRecipe.clip
    tuning_rate: float = 0.3

    def over(self, epochs: int, seed: int, tuning: bool = False) -> EpochRecipe:
        """The recipe of a training, in one precision on every machine, so that results compare.

        `tuning` makes it one for fine-tuning.
        """
        return EpochRecipe(
            epochs=epochs,
            lr=self.lr * (self.tuning_rate if tuning else 1.0),
            warmup=self.warmup,
            weight_decay=self.weight_decay,
            clip=self.clip,
            optimizer=self.optimizer,
            precision="float32",
            seed=seed,
        )


#: The matrices of the rivals are not those that Muon is for
MUON, ADAMW = Steps(), Steps("adamw", 2e-3)


def steps_of(kind: Kind) -> Steps:
    """The steps with which models of this kind are trained."""
    return MUON if kind == "attention" else ADAMW


def with_epochs_kept(key: str, work: Callable[[Path], T]) -> T:
    """What the work comes to, with numbers rounded; it is given a folder for its checkpoints.

    The folder belongs to the job of this key and stays until the outcome is stored, so that no kill
    loses more than an epoch. Epochs that another version has trained with other settings are of no
    use, and are deleted. `Missing` is raised when the data cannot be had.
    """
    folder = training_folder(key)
    with alone(folder.with_suffix(".lock"), wait=True):
        try:
            return rounded(_with_own_epochs(work, folder))
        except FetchError as problem:
            raise Missing(str(problem)) from problem


def _with_own_epochs(work: Callable[[Path], T], folder: Path) -> T:
    try:
        return work(folder)
    except ConfigurationError as problem:
        say(f"epochs of an earlier version are deleted and trained again: {problem}")
        shutil.rmtree(folder)
        return work(folder)


def fine_tuned(
    trained: nn.Module,
    recipe: EpochRecipe,
    make: Callable[[bool], M],
    run: Callable[[M, EpochRecipe, str], T],
    as_it_is: Callable[[M], U],
) -> tuple[T, U, T]:
    """What comes of trained weights in both orders: "continued", "untuned" and "tuned".

    `make` makes a model of the altered order or of the original one. The original one is trained
    on, so that what is compared was trained for as long; the altered one is judged as it is, and
    after as much training. `run` trains a model by the recipe under a name, and judges it.
    """
    original, altered = make(False), make(True)
    for model in (original, altered):
        model.load_state_dict(trained.state_dict())
    continued = run(original, recipe, "continued")
    return continued, as_it_is(altered), run(altered, recipe, "tuned")


def unfinished(results: Results, claims: Sequence[Claim], data: str) -> Conclusion:
    """What is said when no model is finished: that `data` could not be had, where that is why."""
    if results.done or not results.missing:
        return Conclusion(("No model of this experiment is finished.",), claims=tuple(claims))
    why = results.missing[0]
    said = (f"The {data} could not be had: {why}",)
    return Conclusion(said, claims=tuple(_untestable(claim, why) for claim in claims))


def _untestable(claim: Claim, why: str) -> Claim:
    return Claim(
        claim.name,
        claim.place,
        claim.statement,
        claim.experiment,
        "not testable here",
        "no data.",
        correction=why,
    )


def gaps(results: Results) -> str:
    """A sentence about those jobs among others whose data could not be had, or nothing."""
    if not results.missing:
        return ""
    count = len(results.missing)
    return f" {count} of {len(results) + count} models are missing: {results.missing[0]}"


def at_most(found: Interval, limit: float) -> Verdict:
    """Whether a value is at most `limit`: its interval must lie on one side; without any, open."""
    return _verdict(found.high <= limit, found.low > limit)


def at_least(found: Interval, limit: float) -> Verdict:
    """Whether a value is at least `limit`: its interval must lie on one side; without any, open."""
    return _verdict(found.low >= limit, found.high < limit)


def below(found: Interval, limit: float) -> Verdict:
    """Whether a value is below `limit`, and not just there; without an interval, open."""
    return _verdict(found.high < limit, found.low > limit)


def _verdict(holds: bool, fails: bool) -> Verdict:
    return "holds" if holds else "does not hold" if fails else "open"


def over_seeds(
    label: str, x: Sequence[float], rows: Sequence[Sequence[float]], group: str | None = None
) -> Series:
    """A curve of the means of the rows, with bars from the least to the largest value."""
    return Series(
        label,
        tuple(x),
        tuple(mean(row).value for row in rows),
        tuple(min(row) for row in rows),
        tuple(max(row) for row in rows),
        group=group,
    )


def decided(claims: Sequence[Claim]) -> str:
    """The verdicts that a run came to, in one paragraph; the others are in the table above it."""
    told = [f"{c.statement} {c.verdict.capitalize()}: {c.evidence}" for c in claims]
    kept = [text for text, c in zip(told, claims, strict=True) if c.verdict != "open"]
    return " ".join(kept) or "This run is too small to decide any of the claims."
