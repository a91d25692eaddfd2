"""Who claims a trial: a process of this machine, and whether it still lives."""

import os
import platform
from pathlib import Path


def myself() -> str:
    """This process: host, process number, and when it was born (numbers are used again)."""
    return f"{platform.node()}/{os.getpid()}/{_born(os.getpid())}"


def alive(owner: str) -> bool:
    """Whether the process still lives, as far as this machine can tell.

    A store serves one machine at a time (SQLite's WAL needs its memory), so a claim from another
    host is from the past. Where the system cannot tell, the claim is void: the worst that follows
    is a trial that runs twice and is counted once.
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
    """Linux: the time of birth in clock ticks. Elsewhere unknown, the number has to do."""
    try:
        stat = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "unknown"
    # The second field is the program's name in brackets, which may itself contain any character.
    state, *fields = stat.rpartition(")")[2].split()
    return "dead" if state in "ZX" else fields[18]
