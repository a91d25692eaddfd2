"""Pages with code as notebooks: a hook of the site, and a command that writes their outputs anew.

A page shows blocks of Python. A block of text that follows one directly is what it prints and what
its last line gives; a picture that follows it is what it draws. From the same Markdown:

- the site offers every guide as a notebook (mkdocs calls the functions `on_…`);
- the tests run each page as a notebook and compare (tests/test_guide.py);
- `python tools/notebooks.py` runs the pages and writes their texts and pictures as they are now.
"""

import base64
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import jupytext
from nbformat import NotebookNode
from nbformat.v4 import new_output

ROOT = Path(__file__).resolve().parents[1]
GUIDES = sorted((ROOT / "docs" / "guide").glob("*.md"))
#: Every page whose Python is run
PAGES = [*GUIDES, ROOT / "docs" / "index.md", ROOT / "README.md"]

#: The text that a block of Python prints, at the beginning of what follows the block
TEXT = re.compile(r"\A```text\n(.*?)```\n?", re.DOTALL)
#: The picture that a block of Python draws, at the same place
PICTURE = re.compile(r"\A!\[[^\]]*\]\(([\w.-]+\.png)\)\n?")
#: A link to another page of the documentation, which a notebook does not have beside it
LINK = re.compile(r"\[([^\]]+)\]\((?!\w+:)[^)]*\.md(?:#[^)]*)?\)")
#: A block of Python on a page, with the text that it prints, if it prints any
BLOCK = re.compile(r"^(```python\n.*?^```\n)(?:\n```text\n.*?^```\n)?", re.DOTALL | re.MULTILINE)
MEDIA_TYPE = "application/x-ipynb+json"
#: A block of commands, each after a dollar, with what they print
CONSOLE = re.compile(r"^```console\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


def notebook_of(page: str, folder: Path) -> NotebookNode:
    """A page as a notebook whose cells already have the outputs that the page shows.

    Args:
        page: The Markdown of the page.
        folder: Where its pictures are.

    """
    notebook = jupytext.reads(page, fmt="md")
    notebook.metadata["kernelspec"] = KERNEL
    before: NotebookNode | None = None
    for cell in notebook.cells:
        if cell.cell_type == "code":
            before = cell
        elif before is not None:
            cell.source = _with_outputs(before, cell.source, folder)
            before = None
        if cell.cell_type == "markdown":
            cell.source = LINK.sub(r"\1", cell.source)
    notebook.cells = [cell for cell in notebook.cells if cell.source]
    return notebook


def _with_outputs(code: NotebookNode, following: str, folder: Path) -> str:
    """Move the outputs at the beginning of the following text into the cell; the rest of it."""
    if text := TEXT.match(following):
        code.outputs.append(new_output("stream", name="stdout", text=text[1]))
        following = following[text.end() :].lstrip("\n")
    if picture := PICTURE.match(following):
        data = base64.b64encode((folder / picture[1]).read_bytes()).decode()
        code.outputs.append(new_output("display_data", {"image/png": data}))
        following = following[picture.end() :].lstrip("\n")
    return following


def executed(notebook: NotebookNode, folder: Path) -> NotebookNode:
    """The notebook after a real kernel has run all of its cells in a folder."""
    from nbclient import NotebookClient

    client = NotebookClient(
        notebook,
        timeout=600,
        resources={"metadata": {"path": str(folder)}},
        extra_arguments=["--log-level=ERROR"],
    )
    return client.execute()


def text_of(cell: NotebookNode) -> str:
    """What a cell prints and what its last line gives, as text."""
    parts = []
    for output in cell.outputs:
        if output.output_type == "stream" and output.name == "stdout":
            parts.append(output.text)
        elif output.output_type == "execute_result":
            parts.append(output.data["text/plain"] + "\n")
    return "".join(parts)


def rewritten(page: str, cells: list[NotebookNode]) -> str:
    """The page with the texts that its executed cells of code give."""
    outputs = iter([text_of(cell) for cell in cells if cell.cell_type == "code"])

    def block(found: re.Match[str]) -> str:
        output = next(outputs)
        return found[1] + (f"\n```text\n{output}```\n" if output else "")

    return BLOCK.sub(block, page)


def commands(page: str) -> list[tuple[str, str]]:
    """Each command that a page shows in a console, with its output there."""
    blocks = CONSOLE.findall(page)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [(command, output) for command, output in (part.split("\n", 1) for part in parts)]


def printed(output: str) -> str:
    """What a command prints, without space at the ends of lines."""
    return "".join(line.rstrip() + "\n" for line in output.rstrip().splitlines())


def _with_commands_run(page: str, folder: Path) -> str:
    """The page with what its commands print."""
    for command, output in commands(page):
        words = [sys.executable, "-m", "attnrate.cli", *shlex.split(command)[1:]]
        settings = {**os.environ, "COLUMNS": "100"}
        run = subprocess.run(words, cwd=folder, env=settings, capture_output=True, text=True)
        run.check_returncode()
        page = page.replace(f"$ {command}\n{output}", f"$ {command}\n{printed(run.stdout)}")
    return page


# ---- the hook of mkdocs


def on_files(files: Any, config: Any) -> Any:
    """Add a notebook beside every guide."""
    from mkdocs.structure.files import File

    for guide in GUIDES:
        notebook = notebook_of(guide.read_text(encoding="utf-8"), guide.parent)
        text = jupytext.writes(notebook, fmt="ipynb")
        place = guide.relative_to(config["docs_dir"]).with_suffix(".ipynb").as_posix()
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Put the link to its notebook under the title of a guide."""
    path = Path(page.file.abs_src_path or "")
    if path not in GUIDES:
        return markdown
    name = path.with_suffix(".ipynb").name
    title, rest = markdown.split("\n", 1)
    link = f'[Download as a notebook]({name}){{ .notebook download="{name}" }}'
    return f"{title}\n\n{link}\n{rest}"


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Put the notebook itself into its link.

    A browser saves what such a link holds. Where pages are opened from the disk, it would show a
    linked file as text.
    """
    path = Path(page.file.abs_src_path or "")
    if path not in GUIDES:
        return html
    file = files.get_file_from_path(Path(page.file.src_uri).with_suffix(".ipynb").as_posix())
    data = base64.b64encode(file.content_bytes).decode()
    return html.replace(f'href="{file.name}.ipynb"', f'href="data:{MEDIA_TYPE};base64,{data}"')


def main(names: list[str]) -> None:
    """Run the pages, or those whose path contains a name, and write what they show anew."""
    for page in PAGES:
        if names and not any(name in page.as_posix() for name in names):
            continue
        text = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            done = executed(notebook_of(text, page.parent), Path(folder))
            text = _with_commands_run(rewritten(text, done.cells), Path(folder))
            page.write_text(text, encoding="utf-8")
            for picture in Path(folder).glob("*.png"):
                (page.parent / picture.name).write_bytes(picture.read_bytes())
        print(page.relative_to(ROOT))


if __name__ == "__main__":
    main(sys.argv[1:])
