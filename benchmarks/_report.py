"""The end of every benchmark: its requirements, each met or not, the machine, and a file of it all.

A script of this folder must move the folder behind Python's own in sys.path before it imports this
module, because profile.py in this folder would otherwise hide Python's module of that name.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any


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
    """Print the facts of the machine in one line, and return them by name; see `facts_of`."""
    facts = facts_of(*libraries, **more)
    print("\n" + ", ".join(f"{name}: {value}" for name, value in facts.items()), flush=True)
    return facts


def facts_of(*libraries: str, **more: object) -> dict[str, object]:
    """Processor, date and versions by name.

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
    return facts


def finding(
    measured: Mapping[str, object],
    requirements: Mapping[str, bool],
    begun: float,
    facts: Mapping[str, object],
) -> dict[str, Any]:
    """What a run has found, for its file.

    `measured` are tables by name, as "rows"; `requirements` are texts with whether they are met;
    `begun` is the time.perf_counter() of the beginning. It gives the "seconds" of this run, without
    those of earlier runs from which it goes on.
    """
    seconds = round(time.perf_counter() - begun, 1)
    own = {"requirements": dict(requirements), "seconds": seconds, "machine": dict(facts)}
    return {**measured, **own}


def out_file(path: str) -> Path:
    """The file that a run writes at its end, as a type of argparse: its folder must be there."""
    file = Path(path)
    if not file.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"make the folder of {path} first")
    return file


def write(file: Path, found: Mapping[str, object]) -> None:
    """Write what was found as JSON, the whole file or nothing of it."""
    from attnrate.files import write_whole

    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    write_whole(file, text.encode("utf-8"))


class Parts:
    """What the parts of a benchmark have found, in a file that is written after each of them.

    The parts that other runs have written stay in it. Without a file nothing is kept.
    """

    def __init__(self, file: Path | None) -> None:
        """A ValueError says what to do if there is a file that is none of parts."""
        self.file = file
        self.found = self._read()

    def _read(self) -> dict[str, dict[str, Any]]:
        if self.file is None or not self.file.exists():
            return {}
        try:
            return dict(json.loads(self.file.read_text(encoding="utf-8"))["parts"])
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise ValueError(
                f"{self.file} has no parts of a benchmark in it: move it away, or name another file"
            ) from problem

    def add(self, name: str, found: Mapping[str, Any]) -> None:
        """Put in what a part has found, and write the file."""
        # read again: another run may have put in another part
        self.found = {**self._read(), name: dict(found)}
        if self.file is not None:
            write(self.file, {"parts": self.found})
