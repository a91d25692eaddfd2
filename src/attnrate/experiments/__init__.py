"""The paper's figures, tables and questions as experiments, and the running of them.

- `contract.py` says what an experiment is: jobs with typed settings and typed outcomes, a plan of
  them, and what is concluded from those that are finished
- `paper/` has the experiments, one file each, found by being there
- `kits/` has what several of them share
- `claims.py` has claims and the rules of verdicts
- `run.py` runs all jobs as one sweep, each by `run_job` in a worker, and concludes
- `record.py` keeps conclusions as JSON
"""

from collections import Counter
from functools import cache

from attnrate.errors import InputError, hint
from attnrate.experiments import paper
from attnrate.experiments.contract import Experiment
from attnrate.found import modules_of


@cache
def experiments() -> dict[str, Experiment]:
    """All experiments of the files of `paper/` by name, in the order of the page."""
    files = modules_of(paper.__name__)
    found = [one for file in files for one in vars(file).values() if isinstance(one, Experiment)]
    twice = [name for name, count in Counter(one.name for one in found).items() if count > 1]
    if twice:
        raise TypeError(f"two experiments have the name {twice[0]!r}; rename one of them")
    return {one.name: one for one in sorted(found, key=lambda one: one.order)}


def names() -> tuple[str, ...]:
    """The names of all experiments, in the order of the page."""
    return tuple(experiments())


def load(name: object) -> Experiment:
    """The experiment of that name, or that has a part of that name; InputError for another."""
    if isinstance(name, str):
        for one in experiments().values():
            if name.replace("_", "-") == one.name or name in one.parts:
                return one
    raise InputError("there is no such experiment", name, hint(str(name), names()))
