"""One file a figure, table or question of the paper: settings, tasks, conclusion, claims."""

from importlib import import_module
from typing import Any

from attnrate.errors import InputError, hint
from attnrate.experiments.contract import Experiment
from attnrate.experiments.experiment import OldExperiment

#: The experiments in the order of the page; the module of mixing-rank is mixing_rank.
NAMES = (
    "fig1",
    "fig2",
    "fig3",
    "table1-cifar",
    "table1-translation",
    "table2",
    "table3",
    "fig4",
    "fig5",
    "fig6",
    "mixing-rank",
    "gravity",
    "ordering",
    "mff",
    "open-questions",
    "propositions",
)
#: Names of parts, which come with the whole
PARTS = {"fig3a": "fig3", "fig3b": "fig3"}


def load(name: object) -> Experiment | OldExperiment:
    """The experiment of that name; InputError with the nearest names for another."""
    name = PARTS.get(name, name) if isinstance(name, str) else name
    if not isinstance(name, str) or name not in NAMES:
        raise InputError("there is no such experiment", name, hint(str(name), NAMES))
    found: Experiment | OldExperiment = load_module(module_of(name)).EXPERIMENT
    return found


def load_module(module: str) -> Any:
    """The module of an experiment."""
    try:
        return import_module(f"attnrate.experiments.paper.{module}")
    except ModuleNotFoundError as problem:
        if problem.name != f"attnrate.experiments.paper.{module}":
            raise
        return import_module(f"attnrate.experiments.{module}")


def module_of(name: str) -> str:
    """The module in which an experiment lives."""
    return name.replace("-", "_")
