"""The process that claims a trial, and whether it still lives."""

import os
import platform
from pathlib import Path


def myself() -> str:
    """The name of this process: host, process number and time of birth (numbers are reused)."""
    return f"{platform.node()}/{os.getpid()}/{_born(os.getpid())}"


def alive(owner: str) -> bool:
    """Whether the process still lives, as far as this machine knows.

    A store serves one machine at a time (SQLite's WAL needs shared memory), so a claim from another
    host is an old one. Where the system does not know, the claim is void: at worst a trial runs
    twice and is counted once.
    """
    host, _, process = owner.partition("/")
    number, _, born = process.partition("/")
    if host != platform.node() or os.name != "posix" or not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it lives, and belongs to somebody else
    return _born(int(number)) == born


def _born(number: int) -> str:
    """The time of birth of a process in clock ticks on Linux; "unknown" elsewhere."""
    try:
        stat = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "unknown"
    # The second field is the program's name in brackets, which may itself contain any character.
    state, *fields = stat.rpartition(")")[2].split()
    return "dead" if state in "ZX" else fields[18]
