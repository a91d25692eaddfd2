"""Names of a report's files."""

import re
from collections.abc import Iterable


def safe_name(name: str) -> str:
    """The name without anything that has a meaning in a path, a URL or HTML."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip(".") or "-"


def safe_names(names: Iterable[str]) -> list[str]:
    """Safe names that all differ, even without regard to case; one that was there gets a number."""
    taken: set[str] = set()
    found = []
    for name in names:
        safe, count = safe_name(name), 1
        while safe.lower() in taken:
            count += 1
            safe = f"{safe_name(name)}-{count}"
        taken.add(safe.lower())
        found.append(safe)
    return found
