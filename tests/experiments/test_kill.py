"""A reproduction that is killed goes on where it was, and leaves nothing behind."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest


def finished(store: Path) -> dict[str, str]:
    """The finished trials by key, with the moment at which each was finished."""
    if not store.exists():
        return {}
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as opened:
        try:
            return dict(opened.execute("SELECT key, finished FROM trial"))
        except sqlite3.OperationalError:  # not made yet
            return {}


def started(folder: Path) -> subprocess.Popen[bytes]:
    words = ["reproduce", "mixing-rank", "--preset", "quick", "--out", str(folder)]
    return subprocess.Popen(
        [sys.executable, "-m", "attnrate.cli", *words, "--workers", "1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def children(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in listed]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks at processes in /proc")
def test_a_killed_reproduction_resumes(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    store = folder / "trials.sqlite"
    first = started(folder)
    while not finished(store) and first.poll() is None:
        time.sleep(0.02)
    workers = children(first.pid)
    first.send_signal(signal.SIGKILL)
    first.wait()
    before = finished(store)
    assert before

    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < deadline, "a worker outlives the process that it works for"
        time.sleep(0.1)
    before = finished(store)  # a worker may have handed in what it had at hand

    second = started(folder)
    assert second.wait(timeout=300) == 0
    after = finished(store)
    assert len(after) > len(before), "the first run was finished before it was killed"
    assert {key: after[key] for key in before} == before
    assert (folder / "index.html").exists()
    assert not [path for path in folder.iterdir() if path.name.startswith((".", "tmp"))]
