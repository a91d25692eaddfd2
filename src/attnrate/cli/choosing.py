"""The command choose."""

import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnrate.cli.completing import words
from attnrate.cli.output import (
    Command,
    EngineOption,
    JsonOption,
    WorkersOption,
    app,
    print_json,
    print_table,
)
from attnrate.figures.words import cell, duration, with_interval

if TYPE_CHECKING:
    from attnrate.choose.result import Choice
    from attnrate.statistics import Interval

_STAGES = ("ladder", "race", "heads")
#: Columns of a terminal that text is broken to at least
_NARROWEST = 40


@app.command(
    cls=Command, epilog="Example: attnrate choose load.csv --target load --horizon 24 --out answer"
)
def choose(
    data: Annotated[
        str,
        typer.Argument(
            help="A table with one row for each moment (.csv, .tsv, .parquet), or arrays x and y "
            "(.npz) of shape (N, T, d) and (N, T, k).",
            metavar="FILE",
        ),
    ],
    target: Annotated[
        list[str] | None,
        typer.Option(
            help="The column that is wanted (default: y or target). Can be given several times.",
            metavar="NAME",
        ),
    ] = None,
    horizon: Annotated[
        int,
        typer.Option(
            help="How many values of the target are wanted, from its past and the other columns. "
            "0: the value at the same time, from the other columns alone.",
            metavar="H",
        ),
    ] = 1,
    window: Annotated[
        int | None,
        typer.Option(
            help="Rows that are looked at (default: some days or weeks, or 16 to 168).",
            metavar="W",
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            help="The column of times (default: ds, timestamp, date, time or datetime).",
            metavar="COLUMN",
        ),
    ] = None,
    id: Annotated[
        str | None,
        typer.Option(
            help="The column that names the series (default: unique_id or item_id).",
            metavar="COLUMN",
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(help="A column to leave out. Can be given several times.", metavar="NAME"),
    ] = None,
    resample: Annotated[
        str | None,
        typer.Option(help="Average rows over this step of time, such as 1h or 1D.", metavar="STEP"),
    ] = None,
    stage: Annotated[
        str,
        typer.Option(
            help="How far to go. ladder: seconds, without training. race: models with equally "
            "many parameters. heads: how large the heads must be.",
            metavar="|".join(_STAGES),
            autocompletion=words(*_STAGES),
        ),
    ] = "heads",
    minutes: Annotated[
        float,
        typer.Option(
            help="About how many minutes the race and the heads may take on two cores.",
            metavar="X",
        ),
    ] = 5.0,
    seeds: Annotated[int, typer.Option(help="Number of seeds of each fit.", metavar="N")] = 3,
    folds: Annotated[
        int, typer.Option(help="Number of stretches that are held out in turn.", metavar="N")
    ] = 3,
    seed: Annotated[int, typer.Option(help="The first seed.", metavar="N")] = 0,
    full: Annotated[
        bool, typer.Option("--full", help="Run the race whatever the ladder says.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write a page with figures, tables and the fitted model into this folder.",
            metavar="DIR",
        ),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            help="Keep finished fits in this SQLite file, so that the same command goes on after "
            "an interruption (default: DIR.fits.sqlite beside the folder of --out, removed once "
            "the page is written).",
            metavar="FILE",
        ),
    ] = None,
    engine: EngineOption = "local",
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell whether your data need a Transformer, and how large its heads must be.

    First a ladder, without training: what the best map of each class leaves of the variance, from
    a constant to sums of functions of pairs of tokens. Where a map that is not linear may be
    better, a race of a linear map, convolutions, a GRU, a state-space model, a Transformer, and a
    Transformer on patches follows, with equally many parameters. Where a Transformer is as good as
    the best, its heads are made smaller as long as the error stays.
    """
    from attnrate.choose.choose import choose as choose_model

    if out is not None:
        from attnrate.choose.page.write import check_folder

        check_folder(out)
    with _kept(out, store) as place:
        found = choose_model(
            data,
            target=target or None,
            horizon=horizon,
            window=window,
            time=time,
            id=id,
            ignore=tuple(ignore or ()),
            resample=resample,
            stage=stage,  # type: ignore[arg-type]  # `choose` says which words it knows
            minutes=minutes,
            seeds=seeds,
            folds=folds,
            seed=seed,
            full=full,
            engine=engine,
            store=place,
            workers=workers,
        )
        page = None if out is None else found.save(out)
    if page is not None and store is None and place is not None and found.race is not None:
        _remove(place)  # the page is written; what no race has opened may be a file of another kind
    if as_json:
        print_json(found.to_plain() | {"page": None if page is None else str(page)})
    else:
        _tell(found, page)


@contextmanager
def _kept(out: Path | None, store: Path | None) -> Iterator[Path | None]:
    """The file of finished fits: the one named, or one beside the page."""
    place = store
    if store is None and out is not None:
        whole = out.resolve()
        place = whole.with_name(f"{whole.name or 'choose'}.fits.sqlite")
    try:
        yield place
    except KeyboardInterrupt as stopped:
        if place is None or not place.exists():
            raise
        said = f"stopped; finished fits are kept in {place}, the same command goes on"
        raise type(stopped)(said) from None


def _remove(place: Path) -> None:
    """Remove a store with what SQLite keeps beside it."""
    for left in (place, *(place.with_name(place.name + end) for end in ("-wal", "-shm"))):
        left.unlink(missing_ok=True)


def _tell(found: "Choice", page: Path | None) -> None:
    """Print the verdict with its reasons, what was found of the data, and the tables."""
    first, *lines = str(found).splitlines()
    _print_wrapped(first, *lines, *(f"- {sentence}" for sentence in found.about.said))
    if found.ladder is not None:
        rows = [
            [rung.name, *map(_per_cent, (rung.lower.low, rung.upper.value, rung.upper.high))]
            for rung in found.ladder.rungs
        ]
        title = "% of the variance that each class leaves"
        print_table(["class", "at least", "held out", "at most"], rows, title)
    if found.race is not None:
        racers = [
            [
                racer.name,
                _interval(racer.share),
                cell(racer.ratio),
                "yes" if racer.tied else "no",
                f"{racer.seconds:.2g}",
            ]
            for racer in found.race.racers
        ]
        title = "% of the variance that each model of the race leaves"
        print_table(["model", "left [95 %]", "ratio", "tied", "s/fit"], racers, title)
    if found.heads is not None:
        sizes = [
            [str(size.m_h), cell(size.parameters), cell(size.ratio), "yes" if size.enough else "no"]
            for size in found.heads.sizes
        ]
        largest = f"beside m_h = {found.heads.sizes[-1].m_h}"
        title = f"error of the {found.heads.name} by head size"
        print_table(["m_h", "parameters", largest, "enough?"], sizes, title)
    where = "" if page is None else f" · {page}"
    typer.echo(f"{duration(found.seconds)}{where}")


def _interval(share: "Interval") -> str:
    return with_interval(*(100 * each for each in (share.value, share.low, share.high)))


def _per_cent(share: float) -> str:
    return cell(100 * share)


def _print_wrapped(*lines: str) -> None:
    """Print lines; a terminal gets them broken between words, what reads a pipe gets them whole."""
    terminal = sys.stdout.isatty()
    width = max(_NARROWEST, shutil.get_terminal_size().columns)
    for line in lines:
        mark = "  " if line.startswith("- ") else ""
        typer.echo(
            textwrap.fill(
                line, width, subsequent_indent=mark, break_long_words=False, break_on_hyphens=False
            )
            if terminal
            else line
        )
