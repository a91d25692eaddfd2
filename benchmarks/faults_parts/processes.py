"""Commands as processes of their own: start them, watch them, kill them, find what they leave."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_PATIENCE = 20.0  # seconds for orphans to end by themselves, with other work on the machine
MOST = 240.0  # seconds that any of the commands may take


@dataclass(frozen=True)
class Ended:
    """How a process ended, what it said, and which processes it left.

    `seconds` are of the whole, `after` those from the disturbance on.
    """

    code: int | None
    out: str
    err: str
    left: list[int]
    seconds: float
    signalled: bool
    after: float


def run(
    words: list[str],
    folder: Path,
    environment: dict[str, str],
    disturb: Callable[["subprocess.Popen[bytes]"], bool] | None = None,
    out: str | None = None,
) -> Ended:
    """Run `attnrate WORDS` in the folder; `disturb` is called when it runs, and may kill it.

    It says whether it has. The process gets a session of its own, by which those that it starts are
    known. `out` is a file for its standard output, such as /dev/full.
    """
    logs = folder.with_name(f"{folder.name}.out"), folder.with_name(f"{folder.name}.err")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    begin = time.monotonic()
    with open(out or logs[0], "wb") as told, logs[1].open("wb") as complained:
        process = subprocess.Popen(
            [sys.executable, "-m", "attnrate.cli", *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=complained,
            start_new_session=True,
        )
    signal.signal(signal.SIGINT, before)
    signalled = disturb(process) if disturb is not None else False
    disturbed = time.monotonic()
    code: int | None
    try:
        code = process.wait(MOST)
    except subprocess.TimeoutExpired:
        code = None
        process.kill()
        process.wait()
    end = time.monotonic()
    left = _left(process.pid)
    text = "" if out else logs[0].read_text(errors="replace")
    said = logs[1].read_text(errors="replace")
    return Ended(code, text, said, left, end - begin, signalled, end - disturbed)


def took_over(process: "subprocess.Popen[bytes]") -> bool:
    """Wait until the command catches TERM; before that Python itself is still starting."""
    status = Path(f"/proc/{process.pid}/status")
    bit = 1 << (signal.SIGTERM - 1)
    while process.poll() is None:
        for line in status.read_text().splitlines() if status.exists() else ():
            if line.startswith("SigCgt:") and int(line.split()[1], 16) & bit:
                return True
        time.sleep(0.01)
    return False


def _left(session: int) -> list[int]:
    """Processes of the session that did not end by themselves; they are ended here."""
    give_up = time.monotonic() + _PATIENCE
    while found := _of_session(session):
        if time.monotonic() > give_up:
            for number in found:
                os.kill(number, signal.SIGKILL)
            return found
        time.sleep(0.05)
    return []


def _of_session(session: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] not in "ZX":
                found.append(int(entry.name))
    return found
