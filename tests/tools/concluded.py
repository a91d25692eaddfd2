"""What tests of experiments share: verdicts, records that survive JSON, made-up fits of cells."""

import json

from attnrate.experiments.contract import Conclusion, Done, Experiment, Fit, FitOutcome, Results
from attnrate.experiments.kits.cells import RECIPES, CellFit
from attnrate.experiments.record import Record, record_from_plain, record_to_plain
from attnrate.fitting.trial import Trial


def verdicts(experiment: Experiment, found: Results) -> dict[str, str]:
    """The verdict of every claim that the experiment makes of these results."""
    return {claim.name: claim.verdict for claim in experiment.conclude(found).claims}


def survives_json(said: Conclusion) -> Record:
    """The record of a conclusion after JSON and back, which must give that JSON again."""
    record = Record("name", "title", "place", "paper", 1, 1, 1.0, {}, said)
    text = json.dumps(record_to_plain(record), allow_nan=False)
    again = record_from_plain(json.loads(text))
    assert json.dumps(record_to_plain(again)) == text
    return again


def cell_fit(label: CellFit, error: float | None) -> Done[Fit[CellFit], FitOutcome]:
    """A finished fit of a cell; its settings do not matter."""
    return Done(Fit(label, Trial({}, {})), FitOutcome(error))


def cell_fits(
    errors: dict[tuple[str, str], float], seeds: int = 3, step: float = 0.02, paper: float = 1.0
) -> Results:
    """Fits of cells (model, target) with these errors.

    Every seed's error differs from the one before by the share `step`; that of the recipe paper
    is `paper` times the strong one's.
    """
    return Results(
        [
            cell_fit(
                CellFit(model, target, recipe, seed),
                error * (1 + step * seed) * (paper if recipe == "paper" else 1),
            )
            for (model, target), error in errors.items()
            for recipe in RECIPES
            for seed in range(seeds)
        ]
    )
