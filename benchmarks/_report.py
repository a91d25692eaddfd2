"""What every benchmark ends with: its requirements, each met or not, and the machine it ran on.

A script of this folder first puts the folder behind Python's own, as a neighbour is called
profile.py, which must not stand for Python's module of that name; then it imports this one.
"""

import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path


def require(met: bool, what: str) -> None:
    """Print whether a requirement is met."""
    print(f"{'PASS' if met else 'FAIL'}  {what}", flush=True)


def all_required(requirements: Mapping[str, bool]) -> bool:
    """Print every requirement, by its text; whether all of them are met."""
    for what, met in requirements.items():
        require(met, what)
    return all(requirements.values())


def cpu_model() -> str:
    """The processor's name as the system tells it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def machine(*libraries: str, **more: object) -> dict[str, object]:
    """Print processor, date and versions, in one line, and give them back by name.

    `libraries` are modules whose versions matter; `more` is what else there is to say, such as the
    number of threads.
    """
    facts: dict[str, object] = {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        **more,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
    }
    # imported here, as some scripts set threads before anything imports numpy
    facts |= {name: str(import_module(name).__version__) for name in (*libraries, "attnrate")}
    print("\n" + ", ".join(f"{name}: {value}" for name, value in facts.items()), flush=True)
    return facts
