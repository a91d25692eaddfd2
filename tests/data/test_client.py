"""A package client ends with the process that asked for it, however that ended."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from attnrate.data import client

PROGRAM = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-I", sys.argv[1], sys.executable, "-c",
    "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(60)"],
    stdin=subprocess.PIPE)
time.sleep(60)
"""


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at processes in /proc")
def test_kill_9_of_the_parent_ends_the_client(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PROGRAM, client.__file__], cwd=tmp_path)
    written, give_up = tmp_path / "pid", time.monotonic() + 30
    while not (written.exists() and written.read_text()):
        assert time.monotonic() < give_up
        time.sleep(0.01)
    place = Path("/proc") / written.read_text()
    assert place.exists()
    parent.kill()
    parent.wait()
    while place.exists() and "Z" not in (place / "stat").read_text().rpartition(")")[2][:3]:
        assert time.monotonic() < give_up, "the client outlives the process that it works for"
        time.sleep(0.02)


def test_the_exit_code_is_the_clients() -> None:
    words = [sys.executable, "-I", client.__file__, sys.executable, "-c", "raise SystemExit(7)"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as running:  # its input stays open
        assert running.wait(30) == 7
