"""What commands share: the application, options, messages, exit codes."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from attnrate.errors import InputError
from attnrate.files import replaced

if TYPE_CHECKING:
    from matplotlib.figure import Figure

app = typer.Typer(
    name="attnrate",
    help="How large attention has to be: spectra, bounds, fits, and the paper reproduced.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
_PLOTS = (".png", ".svg", ".pdf")

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, for machines.")]
EngineOption = Annotated[str, typer.Option(help="local, ray, or a ray:// address.")]
WorkersOption = Annotated[int | None, typer.Option(help="Processes; one a core.")]


def check_plot(path: Path | None) -> None:
    """Refuse a file that cannot be drawn before the long work, not after it."""
    if path is None:
        return
    if path.suffix.lower() not in _PLOTS:
        raise InputError("--plot does not know that kind of file", str(path), "Use .png or .svg.")
    if not path.absolute().parent.is_dir():
        raise InputError("--plot needs a folder that exists", str(path.parent), "Create it first.")


def save(figure: "Figure", path: Path) -> None:
    """Draw a figure into a file and say so."""
    try:
        # never through a link, and the file that was there stays if the disk is full
        with replaced(path) as beside:
            figure.savefig(beside, dpi=150, format=path.suffix[1:].lower())
    except OSError as problem:
        fail(f"could not write {path}: {problem.strerror}", 1)
    Console(stderr=True).print(f"drew {path}", highlight=False, markup=False)


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on one line."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    # a file's name may hold bytes that are no text, which only the escapes of JSON can carry
    typer.echo(text if text.isprintable() or _encodes(text) else json.dumps(value, allow_nan=False))


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def fail(message: str, code: int) -> NoReturn:
    """End the command with a message and that exit code."""
    typer.echo(f"attnrate: {message}", err=True)
    raise typer.Exit(code)
