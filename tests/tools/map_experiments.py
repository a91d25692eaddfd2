"""Finished fits of the attention experiments, run for two steps, and what is concluded of them."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from attnrate.experiments import load
from attnrate.experiments.contract import Conclusion, Done, Results
from attnrate.experiments.kits import maps
from attnrate.experiments.record import Record, record_from_plain, record_to_plain
from attnrate.experiments.run import results_of, run_job
from attnrate.fitting.records import Finished

Fits = Sequence[Done[Any, Any]]


@cache
def worked(name: str) -> Fits:
    """Every fit of seed 0 of the paper preset, run for two steps and measured on few inputs.

    They are as a worker makes them and a store keeps them. A process of tests runs them once.
    """
    jobs = [tiny(one.job) for one in load(name).plan("paper") if one.job.seed == 0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maps, "SEQUENCES", 256)
        kept = {job.key: json.dumps(run_job(job.settings), allow_nan=False) for job in jobs}
    rows = {
        job.key: Finished(job.key, job.settings, json.loads(kept[job.key]), 1.0, "here", "now")
        for job in jobs
    }
    return results_of(jobs, rows).done


def tiny(job: maps.MapFit) -> maps.MapFit:
    return replace(job, recipe={**job.recipe, "steps": 2, "batch": 8})


def concluded(name: str, fits: Fits) -> Conclusion:
    said = load(name).conclude(Results(fits))
    record = Record(name, "", "", "paper", 1, 1, 0.0, {}, said)
    plain = json.loads(json.dumps(record_to_plain(record), allow_nan=False))
    assert record_to_plain(record_from_plain(plain)) == plain
    return said


def verdicts(name: str, fits: Fits) -> dict[str, str]:
    return {claim.name: claim.verdict for claim in concluded(name, fits).claims}


def changed(fits: Fits, case: str | None = None, **changes: object) -> Fits:
    """The fits, of one case if it is named, with fields replaced; dicts do so within a field."""
    return [
        Done(one.job, _replaced(one.outcome, changes)) if case in (None, one.job.case) else one
        for one in fits
    ]


def _replaced(value: Any, changes: dict[str, Any]) -> Any:
    new = {
        name: _replaced(getattr(value, name), change) if isinstance(change, dict) else change
        for name, change in changes.items()
    }
    return replace(value, **new)


def of_seed(fits: Fits, seed: int) -> Fits:
    return [Done(replace(one.job, seed=seed), one.outcome) for one in fits]


def words_of(said: Conclusion) -> str:
    claims = [claim.evidence + claim.correction for claim in said.claims]
    cells = [str(cell) for table in said.tables for row in table.rows for cell in row]
    captions = [figure.caption for figure in said.figures]
    return " ".join([*said.paragraphs, *claims, *cells, *captions])
