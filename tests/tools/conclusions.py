"""Helpers for tests of experiments: made-up fits, and conclusions that survive their record."""

import json
from typing import Any

from attnrate.experiments.contract import Conclusion, Done, Experiment, Fit, FitOutcome, Results
from attnrate.experiments.kits.cells import RECIPES, CellFit
from attnrate.experiments.record import Record, record_from_plain, record_to_plain
from attnrate.fitting.trial import Trial

#: What a made-up fit would have run: conclusions do not look at it
_ANY = Trial({}, {}, {}, 0)


def fitted(label: object, error: float | None, **values: Any) -> Done[Fit[Any], FitOutcome]:
    """A finished fit with that label and error."""
    return Done(Fit(label, _ANY), FitOutcome(error, **values))


def concluded(experiment: Experiment, done: list[Done[Any, Any]]) -> Conclusion:
    """The conclusion of the experiment; its record must survive JSON unchanged."""
    said = experiment.conclude(Results(done))
    survives_json(said)
    return said


def verdicts(experiment: Experiment, found: Results) -> dict[str, str]:
    """The verdict of every claim that the experiment makes of these results."""
    return {claim.name: claim.verdict for claim in experiment.conclude(found).claims}


def survives_json(said: Conclusion) -> Record:
    """The record of a conclusion after a round trip through JSON, which must not change it."""
    record = Record("name", "title", "place", "paper", 1, 1, 1.0, {}, said)
    text = json.dumps(record_to_plain(record), allow_nan=False)
    again = record_from_plain(json.loads(text))
    assert json.dumps(record_to_plain(again)) == text
    return again


def cell_fit(label: CellFit, error: float | None) -> Done[Fit[CellFit], FitOutcome]:
    """A finished fit of a cell; its settings do not matter."""
    return fitted(label, error)


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
