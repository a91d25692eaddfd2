"""The end of every benchmark: its requirements, each met or not, and the machine it ran on.

A script of this folder must move the folder behind Python's own in sys.path before it imports this
module, because profile.py in this folder would otherwise hide Python's module of that name.
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
    """Print every requirement with its text; return whether all of them are met."""
    for what, met in requirements.items():
        require(met, what)
    return all(requirements.values())


def cpu_model() -> str:
    """The name of the processor as the system reports it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def machine(*libraries: str, **more: object) -> dict[str, object]:
    """Print processor, date and versions in one line, and return them by name.

    `libraries` are modules whose versions matter; `more` adds further facts, such as the number
    of threads.
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
