"""The paper's figures, tables and questions as experiments, and the running of them.

`contract.py` says what an experiment is; `paper/` has them, one file each, found by being there;
`kits/` has what several share. `claims.py` has claims and the rules of verdicts. `run.py` runs all
jobs as one sweep, each by `run_job` in a worker, and concludes; `record.py` keeps conclusions.
"""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from attnrate.errors import InputError, hint
from attnrate.experiments import paper
from attnrate.experiments.contract import Experiment


@cache
def modules() -> tuple[str, ...]:
    """The files of `paper/`; that of mixing-rank is mixing_rank."""
    return tuple(sorted(found.name for found in iter_modules(paper.__path__)))


@cache
def names() -> tuple[str, ...]:
    """The names of all experiments, in the order of the page."""
    every = [_experiment(module) for module in modules()]
    return tuple(one.name for one in sorted(every, key=lambda one: one.order))


def load(name: object) -> Experiment:
    """The experiment of that name, or that has a part of that name; InputError for another."""
    if isinstance(name, str):
        if name.replace("-", "_") in modules():
            return _experiment(name.replace("-", "_"))
        for module in modules():
            if name in _experiment(module).parts:
                return _experiment(module)
    raise InputError("there is no such experiment", name, hint(str(name), names()))


def _experiment(module: str) -> Experiment:
    found: Experiment = import_module(f"{paper.__name__}.{module}").EXPERIMENT
    return found
