"""The pages with Python run as notebooks, print what they show, and draw the pictures they show."""

import ast
import copy
import re
import shlex
import sys
from pathlib import Path

import pytest
from nbformat import NotebookNode

from attnrate.data.series import file_of

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from warm_commands import attnrate  # noqa: E402

import notebooks  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def comparable(text: str) -> str:
    """A text without what differs between machines.

    Numbers below 1e-9 are rounding errors, and the last digits of a large number of evaluations
    depend on them: a search for kinks ends a step sooner or later.
    """
    text = re.sub(r"\b(\d+),\d{3},\d{3} evaluations", r"\1 million evaluations", text)
    return re.sub(r"\d(\.\d+)?e-(09|[1-9]\d)\b", "0", text)


def code_of(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def pictures(cell: NotebookNode) -> int:
    """The number of pictures among the outputs of a cell, besides those of shown results."""
    return sum(
        "image/png" in output.get("data", {}) and "text/html" not in output["data"]
        for output in cell.outputs
    )


def warned(cell: NotebookNode) -> list[str]:
    return [output.text for output in cell.outputs if output.get("name") == "stderr"]


def test_there_are_five_tutorials() -> None:
    assert [page.name[:2] for page in notebooks.GUIDES] == ["1-", "2-", "3-", "4-", "5-"]


@pytest.mark.slow
@pytest.mark.parametrize("page", notebooks.PAGES, ids=lambda page: page.stem)
def test_a_page_runs_as_a_notebook_and_shows_what_comes_out(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r'sample_series\("(.*?)"', text):
        if not file_of(name).is_file():
            pytest.skip(f"tests fetch nothing: attnrate data series {name}")
    shown = code_of(notebooks.notebook_of(text, page.parent))
    # every block of text on the page belongs to a cell, so that none goes unchecked
    assert text.count("```text") == sum(bool(notebooks.text_of(cell)) for cell in shown)
    run = code_of(notebooks.executed(notebooks.notebook_of(text, page.parent), tmp_path))
    assert [comparable(text) for text in map(notebooks.text_of, run)] == [
        comparable(text) for text in map(notebooks.text_of, shown)
    ]
    assert [pictures(cell) for cell in run] == [pictures(cell) for cell in shown]
    assert [warned(cell) for cell in run if warned(cell)] == []
    for cell in run:
        for output in cell.outputs:
            if output.output_type == "execute_result":
                assert "<img" in output.data["text/html"], "a result shows its table and figure"
    for name in re.findall(r'savefig\("(.*?)"', text):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
        assert (page.parent / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("page", notebooks.GUIDES, ids=lambda page: page.stem)
def test_a_guide_draws_a_picture(page: Path) -> None:
    cells = code_of(notebooks.notebook_of(page.read_text(encoding="utf-8"), page.parent))
    assert sum(pictures(cell) for cell in cells) >= 1


@pytest.mark.parametrize("page", notebooks.GUIDES, ids=lambda page: page.stem)
def test_a_notebook_has_all_words_and_code_of_its_page(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    cells = notebooks.notebook_of(text, page.parent).cells
    words = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert "```" not in words
    assert not re.search(r"\]\((?!\w+:)", words), (
        "a file that was downloaded has no pages beside it"
    )
    prose = re.sub(r"^```.*?^```\n|^!\[[^\n]*\n", "", text, flags=re.DOTALL | re.MULTILINE)
    assert words.split() == re.sub(r"\[([^\]]+)\]\((?!\w+:)[^)]*\)", r"\1", prose).split()
    for cell in cells:
        if cell.cell_type == "code":
            assert cell.source in text
            ast.parse(cell.source)


def test_a_page_is_rewritten_with_what_its_cells_give() -> None:
    page = "# A\n\n```python\nprint(1)\n```\n\n```text\n0\n```\n\nb\n\n```python\nx = 2\n```\n"
    notebook = notebooks.notebook_of(page, ROOT)
    assert notebooks.rewritten(page, notebook.cells) == page
    run = copy.deepcopy(notebook)
    code_of(run)[0].outputs[0].text = "1\n"
    assert notebooks.rewritten(page, run.cells) == page.replace("0", "1")


SHOWN = [
    (page, *one)
    for page in notebooks.PAGES
    for one in notebooks.commands(page.read_text(encoding="utf-8"))
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "command", "output"), SHOWN, ids=[f"{page.stem}: {one}" for page, one, _ in SHOWN]
)
def test_a_command_prints_what_its_page_shows(
    page: Path, command: str, output: str, tmp_path: Path
) -> None:
    name, *words = shlex.split(command)
    assert name == "attnrate"
    ended = attnrate(*words, folder=tmp_path, settings={"COLUMNS": "100"})
    assert ended.returncode == 0, ended.stderr
    assert comparable(notebooks.printed(ended.stdout)) == comparable(output)
