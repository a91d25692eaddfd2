"""The commands reproduce and report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnrate.cli.output import EngineOption, JsonOption, WorkersOption, app, fail, print_json
from attnrate.cli.stopping import STOPPED
from attnrate.errors import InputError

if TYPE_CHECKING:
    from attnrate.reproduction import Reproduction


@app.command(epilog="Example: attnrate reproduce fig1 table2 --preset quick --out results")
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Experiments; all if none.", metavar="NAMES…")
    ] = None,
    preset: Annotated[
        str, typer.Option(help="quick: minutes; paper: the full grids, hours.")
    ] = "quick",
    out: Annotated[
        Path | None, typer.Option(help="Folder; reproduction-PRESET.", metavar="DIR")
    ] = None,
    engine: EngineOption = "local",
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run the paper's experiments, say which of its claims hold, and write a page about it.

    What is finished is kept: after an interruption the same command goes on.
    """
    from attnrate.reproduction import reproduce as run

    try:
        done = run(names or (), preset, out, engine, workers, progress=True)
    except KeyboardInterrupt as stopped:
        fail(str(stopped) or "stopped", STOPPED)
    _tell(done, as_json)


@app.command(epilog="Example: attnrate report reproduction-quick")
def report(
    folder: Annotated[
        Path, typer.Argument(help="A folder that reproduce has made.", metavar="DIR")
    ],
    against: Annotated[
        Path | None, typer.Option(help="Compare the verdicts with those of another folder.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the page of a reproduction again from what is finished, running nothing."""
    from attnrate.reproduction import agreement, read
    from attnrate.reproduction import report as write

    other = None if against is None else read(against)
    if other is not None and not other.claims:
        raise InputError(
            "--against names a folder without verdicts", str(against), "Run attnrate report on it."
        )
    done = write(folder)
    _tell(done, as_json, None if other is None else agreement(done, other))


def _tell(
    done: "Reproduction", as_json: bool, compared: tuple[int, int, list[str]] | None = None
) -> None:
    """Print what was found, and how far another run agrees; exit code 1 if an experiment failed."""
    from attnrate.report.verdicts import print_verdicts

    if as_json:
        told = {
            "page": str(done.page),
            "claims": [claim.to_plain() for claim in done.claims],
            "failed": {record.name: record.failed for record in done.failed},
        }
        if compared is not None:
            told["agreement"] = dict(zip(("same", "of", "different"), compared, strict=True))
        print_json(told)
    else:
        print_verdicts(done.records)
        typer.echo(str(done))
        if compared is not None:
            same, common, different = compared
            said = f"the same verdict in {same} of {common} claims that this one decides"
            typer.echo("\n  ".join([said, *different]))
    if done.failed:
        fail(f"failed: {', '.join(record.name for record in done.failed)}; the page says why", 1)
