"""Shapes written in types are checked at run time in every test (jaxtyping with beartype).

`on_a_terminal` is for tests of what people see while they wait.
"""

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# what tests of several rooms share
sys.path.insert(0, str(Path(__file__).parent / "tools"))

install_import_hook("attnrate", "cached_checks.checked").__enter__()

# Ray's client waits half a minute for a cluster that is not there; read when it is imported
os.environ.setdefault("RAY_CLIENT_INITIAL_CONNECTION_TIMEOUT_S", "1")
os.environ.setdefault("RAY_CLIENT_MAX_CONNECTION_TIMEOUT_S", "1")

settings.register_profile(
    "attnrate", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("attnrate")


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """A real Chromium; one for all tests of a process, in which Playwright can run only once."""
    from chromium import CHROMIUM
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # Inside containers Chromium has no sandbox of its own; it only shows our own files.
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], str]:
    """Call something while stderr is a terminal; what was written there."""
    if not hasattr(os, "openpty"):
        pytest.skip("this system has no pseudo-terminals")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")

    def run(work: Callable[[], object]) -> str:
        reader, writer = os.openpty()
        written = bytearray()

        def read() -> None:
            # at the end of the other side Linux gives an error
            with contextlib.suppress(OSError):
                while data := os.read(reader, 10_000):
                    written.extend(data)

        listening = threading.Thread(target=read)
        listening.start()
        with open(writer, "w", encoding="utf-8") as stream, monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", stream)
            work()
        listening.join(10)
        os.close(reader)
        return written.decode()

    return run
