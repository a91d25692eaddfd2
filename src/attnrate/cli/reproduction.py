"""The commands reproduce and report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnrate.cli.completing import EXPERIMENTS, words
from attnrate.cli.output import (
    Command,
    EngineOption,
    JsonOption,
    WorkersOption,
    app,
    fail,
    print_json,
)
from attnrate.errors import InputError

if TYPE_CHECKING:
    from attnrate.reproduction import Agreement, Reproduction


class Reproducing(Command):
    """A command that works on the folder of a reproduction."""

    kept = "finished jobs are kept, the same command goes on"


@app.command(
    cls=Reproducing, epilog="Example: attnrate reproduce fig1 table2 --preset quick --out results"
)
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help=f"Names of experiments: {', '.join(EXPERIMENTS)} (default: all).",
            metavar="NAMES…",
            autocompletion=words(*EXPERIMENTS),
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="quick: every experiment in small, about 8 minutes on two cores. paper: the full "
            "grids with 5 seeds, about 17 hours. Default: quick.",
            metavar="quick|paper",
            autocompletion=words("quick", "paper"),
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for results and page (default: reproduction-PRESET).", metavar="DIR"
        ),
    ] = None,
    settle: Annotated[
        bool,
        typer.Option(
            "--settle",
            help="Give the open claims of a finished run more seeds until they are decided; "
            "as attnrate reproduce --settle --hours 1.5 --out reproduction-paper.",
        ),
    ] = False,
    hours: Annotated[
        float | None,
        typer.Option(
            help="With --settle: the hours to spend; 0 only says what would be done. Default: "
            "until nothing is left to do.",
            metavar="H",
        ),
    ] = None,
    engine: EngineOption = "local",
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run the experiments, judge each claim, and write a page with the verdicts.

    The experiments are the paper's figures and tables, and questions of our own about its theory.
    What is finished is kept: after an interruption, the same command goes on.
    """
    from attnrate.experiments.run import require_preset
    from attnrate.reproduction import reproduce as run

    size = require_preset("preset", preset or "quick")
    if settle:
        place = _to_settle(out or Path(f"reproduction-{size}"), preset)
        _settle(names or [], place, hours, engine, workers, as_json)
        return
    if hours is not None:
        raise InputError(
            "--hours limits the time of --settle alone", hours, "Add --settle, or leave it out."
        )
    # their verdicts have been said as each experiment was concluded
    _tell(run(names or (), size, out, engine, workers, progress=True), as_json, again=False)


@app.command(cls=Reproducing, epilog="Example: attnrate report reproduction-quick")
def report(
    folder: Annotated[
        Path, typer.Argument(help="A folder that attnrate reproduce has made.", metavar="DIR")
    ],
    against: Annotated[
        Path | None,
        typer.Option(help="Compare the verdicts with those of another such folder.", metavar="DIR"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the page of a reproduction again from what is finished; nothing is run."""
    from attnrate.reproduction import Reproduction

    other = None if against is None else Reproduction.read(against)
    if other is not None and not other.claims:
        raise InputError(
            "the folder {value} of --against has no verdicts",
            str(against),
            "Run attnrate report on it first.",
        )
    done = Reproduction.report(folder)
    _tell(done, as_json, None if other is None else done.agreement(other))


def _to_settle(place: Path, preset: str | None) -> Path:
    """The folder that is to be settled; InputError if it has another preset than was asked for."""
    from attnrate.experiments.run import open_folder

    there = open_folder(place)[1]
    if preset is not None and preset != there:
        raise InputError(
            f"the folder {{value}} holds the results of the preset {there!r}",
            str(place),
            f"Leave out --preset, or name a folder of {preset!r} by --out.",
        )
    return place


def _settle(
    names: list[str],
    place: Path,
    hours: float | None,
    engine: str,
    workers: int | None,
    as_json: bool,
) -> None:
    """Settle the open claims, and print how it has ended for each; exit code 1 if a job failed."""
    from attnrate.reproduction import settle as run

    done = run(names, place, hours, engine, workers, progress=True)
    if as_json:
        page = str(done.reproduction.page)
        print_json({"page": page, "claims": [one.to_plain() for one in done.claims]})
    else:
        typer.echo(str(done))
        typer.echo(f"the page: {done.reproduction.page}")
    if done.failed:
        names = [one.claim.name for one in done.failed]
        fail(f"jobs of {', '.join(names)} failed; the same command tries them again", 1)


def _tell(
    done: "Reproduction",
    as_json: bool,
    compared: "Agreement | None" = None,
    again: bool = True,
) -> None:
    """Print what was found, and how far another run agrees; exit code 1 if an experiment failed.

    `again` prints every verdict; what was found ends with at most ten lines in any case.
    """
    from attnrate.report.terminal import closing_lines
    from attnrate.report.verdicts import print_failures, print_verdicts

    if as_json:
        told = {
            "page": str(done.page),
            "claims": [claim.to_plain() for claim in done.claims],
            "failed": {record.name: record.failed for record in done.failed},
            "unfinished": {one.name: one.unfinished for one in done.records if one.unfinished},
        }
        if compared is not None:
            told["agreement"] = compared.to_plain()
        print_json(told)
    else:
        if again:
            print_verdicts(done.records)
        print_failures(done.records)
        if compared is not None:
            typer.echo(str(compared))
        typer.echo("\n".join(closing_lines(done.records, done.page)))
    if done.failed:
        fail(f"failed: {', '.join(record.name for record in done.failed)}; the page says why", 1)
