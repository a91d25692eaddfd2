"""The tutorials run, print what they show, and draw the figures they show."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).resolve().parents[1] / "docs" / "guide"
PAGES = sorted(GUIDE.glob("*.md"))
#: A block of code, and the text block that follows it directly, if there is one
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
IMAGE = re.compile(r"!\[[^\]]+\]\(([^)]+)\)")
#: Printed after each block; no tutorial prints it
END = "\x1e"


def run(page: Path, folder: Path) -> list[str]:
    """What each block of a page prints, all blocks run in order as one script."""
    blocks = [code for code, _ in BLOCK.findall(page.read_text(encoding="utf-8"))]
    script = folder / "page.py"
    script.write_text("".join(f'{code}print("\\x1e", end="")\n' for code in blocks), "utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", script.name],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split(END)[:-1]


def test_there_are_three_tutorials() -> None:
    assert [page.name[:2] for page in PAGES] == ["1-", "2-", "3-"]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_prints_what_it_shows_and_draws_its_figures(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    shown = [output for _, output in BLOCK.findall(text)]
    assert text.count("```text") == sum(bool(output) for output in shown)
    assert run(page, tmp_path) == shown
    images = IMAGE.findall(text)
    assert images
    for name in images:
        assert (GUIDE / name).read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
