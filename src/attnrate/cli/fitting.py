"""The commands fit, bracket and sweep."""

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnrate.cli.output import EngineOption, JsonOption, WorkersOption, app, fail, print_json
from attnrate.cli.stopping import STOPPED
from attnrate.errors import InputError
from attnrate.progress import Progress

if TYPE_CHECKING:
    from attnrate.fitting.bracket import Bracket
    from attnrate.fitting.fit import Fit
    from attnrate.fitting.train import Look
    from attnrate.fitting.trial import Trial

SettingsArgument = Annotated[
    list[str], typer.Argument(help="target.…, model.…, recipe.…, seed.", metavar="NAME=VALUE…")
]
ThreadsOption = Annotated[int, typer.Option(help="Threads of this process.")]


@app.command(
    epilog="Example: attnrate fit target.kind=spectral target.alpha=1 target.rank=6 "
    "model.kind=transformer model.m_h=6 recipe.steps=800",
)
def fit(
    settings: SettingsArgument, threads: ThreadsOption = 1, as_json: JsonOption = False
) -> None:
    """Train one model on one target, with the settings of a sweep, and measure its error."""
    trial = _one_trial(settings)
    from attnrate.fitting.build import build
    from attnrate.fitting.fit import fit as train

    target, make_model, recipe = build(trial)
    with Progress("training", 0.0, lasting=True) as shown:
        watch = functools.partial(_show, shown, recipe.steps, recipe.starts, "training")
        done = train(target, make_model, recipe, trial.seed, threads, watch=watch)
    _tell(trial, done, as_json)
    if done.diverged:
        fail(f"every attempt diverged, the last with lr {done.learning_rate:.1e}", 1)


@app.command(
    epilog="Example: attnrate bracket target.kind=spectral target.alpha=1 target.rank=6 "
    "model.kind=transformer model.m_h=6 recipe.steps=800 recipe.starts=3",
)
def bracket(
    settings: SettingsArgument, threads: ThreadsOption = 1, as_json: JsonOption = False
) -> None:
    """Bracket the best error of a model on a target: a floor <= best <= the least that was found.

    The model is trained; where the proof's construction fits into it, that is tried too.
    """
    trial = _one_trial(settings)
    from attnrate.fitting.bracket import TRAINED
    from attnrate.fitting.bracket import bracket as find
    from attnrate.fitting.build import build

    target, make_model, recipe = build(trial)
    with Progress(TRAINED, 0.0, lasting=True) as shown:

        def watch(part: str, look: "Look") -> None:
            _show(shown, recipe.steps, recipe.starts if part == TRAINED else 1, part, look)

        seeds = [trial.seed]
        found = find(target, make_model, recipe=recipe, seeds=seeds, threads=threads, watch=watch)
    _tell(trial, found, as_json)


@app.command(epilog="Example: attnrate sweep spec.toml --store results.sqlite --export results.csv")
def sweep(
    spec: Annotated[Path, typer.Argument(help="The sweep, a TOML file.", metavar="SPEC.toml")],
    store: Annotated[Path | None, typer.Option(help="SQLite file; beside the spec.")] = None,
    engine: EngineOption = "local",
    workers: WorkersOption = None,
    status: Annotated[bool, typer.Option("--status", help="Only say how far it is.")] = False,
    export: Annotated[Path | None, typer.Option(help="Write the table: .csv, .parquet.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Run every trial of a grid; what is finished is kept, and run again it does the rest."""
    from attnrate.fitting.sweep import run_from_cli

    try:
        result = run_from_cli(spec, store, engine, workers, status, export)
    except KeyboardInterrupt as stopped:
        fail(str(stopped) or "stopped", STOPPED)
    if as_json:
        print_json(result.summary)
    else:
        typer.echo(str(result))
    if export is not None and not result.finished:
        typer.echo(f"attnrate: nothing is finished yet, {export} was not written", err=True)
    if result.failed and not status:
        fail("some trials failed; the same command tries them again", 1)


def _tell(trial: "Trial", found: "Fit | Bracket", as_json: bool) -> None:
    """What was found for the trial, in words or as JSON with all that it depends on."""
    from attnrate.fitting.provenance import provenance

    if as_json:
        print_json({"settings": trial.settings, **found.summary, "provenance": provenance()})
    else:
        typer.echo(str(found))


def _one_trial(pairs: list[str]) -> "Trial":
    """The trial that the settings describe; a grid of several is for `sweep`."""
    from attnrate.fitting.spec import load_spec
    from attnrate.fitting.trial import tables_of

    table = tables_of(pairs)
    if "grid" in table:
        raise InputError("a grid is for attnrate sweep", table["grid"], "Give one value of each.")
    (trial,) = load_spec(table).trials
    return trial


def _show(shown: Progress, steps: int, starts: int, part: str, look: "Look") -> None:
    """Show a look at the fit of that part, which has so many steps from each of its starts."""
    share = (look.start * steps + look.step) / (steps * starts)
    shown.at(f"{part} · error {look.error:.2e}", share)
