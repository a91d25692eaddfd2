"""What runs a task in a worker: a fit, or the function that the task's experiment names."""

from importlib import import_module
from typing import Any

from attnrate.errors import InputError
from attnrate.experiments import NAMES, module_of
from attnrate.experiments.experiment import MADE_BY
from attnrate.fitting import trial as fits
from attnrate.fitting.provenance import provenance
from attnrate.fitting.trial import trial_of


def run_task(settings: dict[str, Any]) -> dict[str, Any]:
    """Run a fit, or the work "module.name" of an experiment; plain values, with what made them."""
    work = settings["target"].get("work")
    if work is None:
        return fits.run_trial(settings)
    module, _, name = str(work).partition(".")
    if module not in [module_of(known) for known in NAMES]:
        raise InputError("the work is of no experiment", work, "Name it as module.name.")
    table = import_module(f"attnrate.experiments.{module}").WORK
    if name not in table:
        raise InputError("that experiment has no such work", work, f"It has {sorted(table)}.")
    values: dict[str, Any] = table[name](trial_of(settings))
    return {**values, MADE_BY: provenance()}


def prepare() -> None:
    """Load what tasks need before a worker's first one."""
    fits.prepare()
