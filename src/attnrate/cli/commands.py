"""Every command put together: importing this module makes the application complete."""

from typing import Annotated

import typer

import attnrate
from attnrate.cli import data, fitting, profiling, reproduction, theory, training
from attnrate.cli.output import app

__all__ = ["app", "data", "fitting", "profiling", "reproduction", "theory", "training"]


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
