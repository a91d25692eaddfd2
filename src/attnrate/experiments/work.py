"""What runs a job in a worker: a fit, or the work of an experiment."""

from typing import Any

from attnrate.errors import InputError
from attnrate.experiments import NAMES, load_module, module_of
from attnrate.experiments.contract import Missing, Work, from_plain, to_plain
from attnrate.experiments.experiment import MADE_BY, MISSING
from attnrate.fitting import trial as fits
from attnrate.fitting.job import Plain
from attnrate.fitting.provenance import provenance
from attnrate.fitting.trial import trial_of


def run_job(settings: Plain) -> Plain:
    """Run a fit, or the work "EXPERIMENT.NAME" of an experiment; with what made the outcome."""
    work = settings["target"].get("work")
    if work is None:
        return fits.run_trial(settings)
    module = str(work).partition(".")[0]
    if module not in [module_of(name) for name in NAMES]:
        raise InputError("the work is of no experiment", work, "Name it as EXPERIMENT.NAME.")
    return {**_outcome(str(work), module, settings), MADE_BY: provenance()}


def _outcome(work: str, module: str, settings: Plain) -> Plain:
    table: dict[str, Any] = getattr(load_module(module), "WORK", {})
    if work.partition(".")[2] in table:
        return dict(table[work.partition(".")[2]](trial_of(settings)))
    if work not in Work.kinds:
        known = sorted(name for name in Work.kinds if name.startswith(f"{module}."))
        raise InputError("that experiment has no such work", work, f"It has {known}.")
    job = from_plain(Work.kinds[work], {**settings["target"], "seed": settings["seed"]})
    try:
        return to_plain(job.run())
    except Missing as why:
        return {MISSING: str(why)}


def prepare() -> None:
    """Load what jobs need before a worker's first one."""
    fits.prepare()
