"""What commands share: the application, common options, tables, messages and exit codes."""

import inspect
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from attnrate.cli.completing import ENGINES, words
from attnrate.cli.stopping import STOPPED
from attnrate.errors import InputError
from attnrate.files import replaced
from attnrate.shown import fits

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


#: What typer raises for words that it cannot understand; it has no public name for it
UsageError: Any = typer.BadParameter.__base__


class Command(TyperCommand):
    """A command, whose help and messages speak of its options as they are typed.

    Arguments and switches are shown without a type, and paragraphs of help without line breaks.
    """

    #: What the message of an interruption says after "stopped"
    kept = "nothing was kept"

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.help = _flowed(self.help or "")

    def get_params(self, ctx: Any) -> list[Any]:
        """The arguments and options, with no type beside arguments and switches."""
        return _without_types(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line: a name in brackets can be left out."""
        named = [one for one in self.get_params(ctx) if one.param_type_name == "argument"]
        shown = [one.metavar if one.required else f"[{one.metavar}]" for one in named]
        return ["[OPTIONS]", *shown]

    def advice(self, problem: Any, words: Sequence[str]) -> str:
        """What to do about words that cannot be understood; "" where nothing is known."""
        return ""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of the command line."""
        words = [*args]
        try:
            return super().parse_args(ctx, args)
        except UsageError as problem:
            advice = self.advice(problem, words) or _example(problem, self)
            said = problem.message
            if advice:
                problem.message = f"{said.rstrip('.')}. {advice}" if said else advice
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except InputError as problem:
            problem.args = (_with_options(str(problem), self.get_params(ctx)),)
            raise
        except KeyboardInterrupt as stopped:
            if str(stopped):
                raise
            raise type(stopped)(f"stopped; {self.kept}") from None


class Commands(TyperGroup):
    """A group of commands, in our order.

    A command that is interrupted says what it has kept, and ends with the exit code 130.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """The options of the group, with no type beside a switch."""
        return _without_types(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands: those of `_ORDER` first."""
        known = super().list_commands(ctx)
        first = [name for name in _ORDER if name in known]
        return first + [name for name in known if name not in first]

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stopped:
            fail(str(stopped) or "stopped", STOPPED)


def _flowed(text: str) -> str:
    """A docstring whose paragraphs are one line each, for the terminal to wrap."""
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n"))


def _without_types(params: list[Any]) -> list[Any]:
    """The parameters, after taking the type, as <bool> or <str>, from switches and arguments."""
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
        if param.param_type_name == "argument":
            param.display_type_rich = _no_type
    return params


def _no_type(ctx: Any) -> None:
    """Show no type beside an argument."""


def _with_options(text: str, params: Sequence[Any]) -> str:
    """A message about parameters of Python as one about options: --max-rank 1, not max_rank=1."""
    for param in params:
        if param.param_type_name == "option" and param.name:
            # --lr is in a recipe, --m-h is a list
            name, option = rf"(?:recipe\.)?{re.escape(param.name)}(?:\[\d+\])?", param.opts[0]
            text = re.sub(rf"^{name}(?= )", option, text)
            text = re.sub(rf"(?<=[ (]){name}=(?=[\w.-])", f"{option} ", text)
            text = re.sub(rf"\b((?:Pass|Set|Give|Leave out) ){name}(?=[ .])", rf"\1{option}", text)
    return text


def _example(problem: Any, command: TyperCommand) -> str:
    """How an option with several values is written, where they could not be read."""
    name = getattr(problem, "option_name", None)
    for param in command.params:
        if param.nargs > 1 and (name in param.opts or getattr(problem, "param", None) is param):
            return f"Write {param.opts[0]} {param.metavar}: two numbers with a space between them."
    return ""


app = typer.Typer(
    name="attnrate",
    cls=Commands,
    help="How large attention has to be: spectra, bounds, fits, profiles, and the paper "
    "reproduced.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
#: The order of the commands: theory, fits, trained models, the paper
_ORDER = (
    "pod",
    "bound",
    "fit",
    "bracket",
    "sweep",
    "profile",
    "compress",
    "choose",
    "train",
    "data",
    "reproduce",
)
_PLOTS = (".png", ".svg", ".pdf")

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
EngineOption = Annotated[
    str,
    typer.Option(
        help="Where jobs run: local (processes of this machine), ray, or the address "
        "ray://HOST:PORT of a Ray cluster.",
        metavar="ENGINE",
        autocompletion=words(*ENGINES),
    ),
]
WorkersOption = Annotated[
    int | None, typer.Option(help="Number of processes (default: one per core).", metavar="N")
]
PlotOption = Annotated[
    Path | None,
    typer.Option(help="Draw the result into this .png, .svg or .pdf file.", metavar="FILE"),
]


def check_plot(path: Path | None) -> None:
    """Refuse a file that cannot be drawn before the long work, not after it."""
    if path is None:
        return
    if path.suffix.lower() not in _PLOTS:
        raise InputError(
            "--plot cannot draw into {value}: the kind of file is not known",
            str(path),
            "End the name in .png, .svg or .pdf.",
        )
    if not path.absolute().parent.is_dir():
        raise InputError(
            "--plot needs a folder that exists, and {value} does not", str(path.parent), "Make it."
        )


def save(figure: "Figure", path: Path) -> None:
    """Draw a figure into a file and say so."""
    try:
        # never through a link, and the file that was there stays if the disk is full
        with replaced(path) as beside:
            figure.savefig(beside, dpi=150, format=path.suffix[1:].lower())
    except OSError as problem:
        fail(f"could not write {path}: {problem.strerror}", 1)
    Console(stderr=True).print(f"drew {path}", highlight=False, markup=False, soft_wrap=True)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print a table; where it is wider than the terminal, print each row as a list of its cells.

    So no number is ever cut. Text is shown as it is: nothing in it is markup.
    """
    console = Console()
    table = Table(title=Text(title) if title else None)
    for place, name in enumerate(columns):
        table.add_column(Text(name), no_wrap=True, justify="right" if place else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    if fits(table, console):
        console.print(table)
        return
    wide = max(map(len, columns))
    lines = [title] if title else []
    for row in rows:
        lines += ["", *(f"{name:<{wide}}  {cell}" for name, cell in zip(columns, row, strict=True))]
    typer.echo("\n".join(lines))


def print_lines(*lines: str) -> None:
    """Print text as it is: in whole lines that the terminal wraps, without colours or markup."""
    console = Console()
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object on one line."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    # a file's name may hold bytes that are no text, which only the escapes of JSON can carry
    typer.echo(text if text.isprintable() or _encodes(text) else json.dumps(value, allow_nan=False))


def json_rows(frame: "pd.DataFrame") -> list[dict[str, Any]]:
    """The rows of a table for JSON: None stands for a number that is not finite."""
    finite = frame.replace([math.inf, -math.inf], math.nan).astype(object)
    rows = finite.where(finite.notna(), None).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in rows]


def _encodes(text: str) -> bool:
    """Whether a text can be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def fail(message: str, code: int) -> NoReturn:
    """End the command with a message and that exit code."""
    typer.echo(f"attnrate: {message}", err=True)
    raise typer.Exit(code)
