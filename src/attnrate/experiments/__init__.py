"""The paper's figures, tables and questions as experiments, and the running of them.

- `contract.py` says what an experiment is: jobs with typed settings and typed outcomes, a plan of
  them, and what is concluded from those that are finished
- `paper/` has the experiments, one file each, found by being there
- `kits/` has what several of them share
- `claims.py` has claims and the rules of verdicts
- `run.py` runs all jobs as one sweep, each by `run_job` in a worker, and concludes
- `record.py` keeps conclusions as JSON
- `settle.py` gives open claims more seeds: `looks.py` says when and how wide intervals are then,
  `replicas.py` which jobs can have more seeds, `survey.py` what would decide a claim, and
  `settled.py` keeps the looks
"""

from collections import Counter
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from attnrate.errors import InputError, hint
from attnrate.experiments import paper
from attnrate.experiments.contract import Conclusion, Experiment, Plan, Preset, Results

_LAST = 10_000  # the place on the page of a file that cannot be imported


@cache
def experiments() -> dict[str, Experiment]:
    """All experiments of the files of `paper/` by name, in the order of the page.

    A file that cannot be imported is an experiment that fails, with the reason; the others run.
    """
    files = [file.name for file in iter_modules(paper.__path__)]
    found = [one for file in files for one in _experiments_of(file)]
    twice = [name for name, count in Counter(one.name for one in found).items() if count > 1]
    if twice:
        raise TypeError(f"two experiments have the name {twice[0]!r}; rename one of them")
    return {one.name: one for one in sorted(found, key=lambda one: one.order)}


def _experiments_of(file: str) -> list[Experiment]:
    """The experiments of a file of `paper/`, or one in their place that fails."""
    try:
        module = import_module(f"{paper.__name__}.{file}")
    except Exception as problem:  # whatever an import can raise, a SyntaxError among it
        return [_broken(file, problem)]
    return [one for one in vars(module).values() if isinstance(one, Experiment)]


def _broken(file: str, problem: Exception) -> Experiment:
    """An experiment that stands for a file that cannot be imported, and fails with the reason."""

    def plan(preset: Preset) -> Plan:
        raise problem

    def conclude(results: Results) -> Conclusion:
        raise problem

    title = f"{file}.py, which cannot be imported"
    return Experiment(file.replace("_", "-"), title, f"{file}.py", _LAST, plan, conclude)


def names() -> tuple[str, ...]:
    """The names of all experiments, in the order of the page."""
    return tuple(experiments())


def load(name: object) -> Experiment:
    """The experiment of that name, or the one that has a part of that name.

    InputError, with the nearest name, where there is none.
    """
    if isinstance(name, str):
        for one in experiments().values():
            if name.replace("_", "-") == one.name or name in one.parts:
                return one
    raise InputError("there is no experiment {value}", name, hint(str(name), names()))
