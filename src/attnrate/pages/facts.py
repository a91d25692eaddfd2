"""What every page begins with and lies in: the names of its files, and what made its numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

#: The page of a folder
PAGE = "index.html"
#: The folder of the figures, beside the page
FIGURES = "figures"


def facts_of(made: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """What made the results, as (name, values): each value once, and only the last time."""
    facts: dict[str, dict[str, None]] = {}
    for one in made:
        for name, value in _flat(one):
            facts.setdefault(name, {})[value] = None
    if "finished" in facts:
        facts["finished"] = {max(facts["finished"]): None}
    if "git_commit" in facts:
        changed = facts.pop("git_changed", {"False": None})
        mark = " with changes" if "True" in changed else ""
        facts["commit"] = {commit[:10] + mark: None for commit in facts.pop("git_commit")}
    return [(name, ", ".join(values)) for name, values in facts.items()]


def _flat(provenance: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The (name, value) pairs of nested tables and lists; empty values are left out."""
    found = []
    for name, value in provenance.items():
        if isinstance(value, Mapping):
            found += _flat(value)
        elif isinstance(value, list):
            found += [pair for each in value for pair in _flat({name: each})]
        elif value not in (None, ""):
            found.append((str(name), str(value)))
    return found
