"""What runs a job in a worker: a fit, or the work of an experiment."""

from attnrate.errors import InputError
from attnrate.experiments import names
from attnrate.experiments.contract import MADE_BY, MISSING, Missing, Work, from_plain, to_plain
from attnrate.fitting import trial as fits
from attnrate.fitting.job import Plain
from attnrate.fitting.provenance import provenance


def run_job(settings: Plain) -> Plain:
    """Run a fit, or the work "EXPERIMENT.NAME" of an experiment; with what made the outcome."""
    work = settings["target"].get("work")
    if work is None:
        return fits.run_trial(settings)
    job = from_plain(_kind(str(work)), {**settings["target"], "seed": settings["seed"]})
    try:
        values = to_plain(job.run())
    except Missing as why:
        values = {MISSING: str(why)}
    return {**values, MADE_BY: provenance()}


def _kind(work: str) -> type[Work]:
    experiment = work.partition(".")[0]
    if experiment.replace("_", "-") not in names():
        raise InputError("the work is of no experiment", work, "Name it as EXPERIMENT.NAME.")
    if work not in Work.kinds:
        known = sorted(name for name in Work.kinds if name.startswith(f"{experiment}."))
        raise InputError("that experiment has no such work", work, f"It has {known}.")
    return Work.kinds[work]


def prepare() -> None:
    """Load what jobs need before a worker's first one."""
    fits.prepare()
