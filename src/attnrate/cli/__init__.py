"""The command line: one thin layer over the package. Heavy imports wait for the command.

Exit codes: 0 done, 1 the work failed, 2 the request was wrong.
"""

import sys
from typing import Annotated

import typer

import attnrate
from attnrate.cli import data, fitting, profiling, reproduction, theory, training
from attnrate.cli.output import app
from attnrate.errors import AttnrateError, InputError

__all__ = ["app", "data", "fitting", "main", "profiling", "reproduction", "theory", "training"]


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"attnrate {attnrate.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Say which version this is.", callback=_version)
    ] = False,
) -> None:
    """The command itself takes no options but --version."""


def main() -> None:
    """Run the command line; what attnrate raises on purpose is a message, not a traceback."""
    try:
        app()
    except InputError as problem:
        typer.echo(f"attnrate: {problem}", err=True)
        sys.exit(2)
    except AttnrateError as problem:
        typer.echo(f"attnrate: {problem}", err=True)
        sys.exit(1)
