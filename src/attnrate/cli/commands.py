"""The complete application: importing this module adds every command to it."""

import os
from typing import Annotated

import typer

import attnrate
from attnrate.cli import (
    choosing,
    compressing,
    data,
    fitting,
    profiling,
    reproduction,
    theory,
    training,
)
from attnrate.cli.completing import begin_value
from attnrate.cli.output import app

__all__ = [
    "app",
    "choosing",
    "compressing",
    "data",
    "fitting",
    "profiling",
    "reproduction",
    "theory",
    "training",
]


begin_value(os.environ)


def _version(asked: bool | None) -> None:
    """Print the version and end, where it was asked for."""
    if asked:
        typer.echo(f"attnrate {attnrate.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool | None,
        typer.Option("--version", help="Print the version and exit.", callback=_version),
    ] = None,
) -> None:
    """Take the options of attnrate itself, which come before the command."""
