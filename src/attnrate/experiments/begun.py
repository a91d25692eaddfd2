"""Which experiments the finished jobs of a store belong to."""

from collections import Counter
from collections.abc import Collection, Mapping


def begun_in(
    done: Collection[str], keys: Mapping[str, Collection[str]], recorded: Collection[str]
) -> set[str]:
    """Name the experiments of which jobs are finished.

    A job that several experiments share does not say that one of them was begun, unless that one
    has a record, or no job of its own.

    Args:
        done: The keys of the finished jobs.
        keys: The keys of the jobs of every experiment, by its name.
        recorded: The names of the experiments that have a record.

    Returns:
        The names.

    """
    count = Counter(key for every in keys.values() for key in {*every})
    found = set()
    for name, every in keys.items():
        own = {key for key in every if count[key] == 1}
        if {*(every if name in recorded or not own else own)} & {*done}:
            found.add(name)
    return found
