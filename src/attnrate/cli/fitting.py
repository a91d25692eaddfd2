"""The commands fit, bracket and sweep."""

import inspect
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnrate.cli import completing
from attnrate.cli.output import (
    Command,
    EngineOption,
    JsonOption,
    PlotOption,
    WorkersOption,
    app,
    check_plot,
    fail,
    json_rows,
    print_json,
    save,
)
from attnrate.errors import AttnrateError, InputError

if TYPE_CHECKING:
    from attnrate.fitting.bracket import Bracket
    from attnrate.fitting.fit import Fit
    from attnrate.fitting.trial import Trial

_NOT_BOTH = "Leave out one of them."


class Trainer(Command):
    """A command that takes settings as words NAME=VALUE."""

    kept = "nothing was kept (attnrate sweep keeps every fit that is finished)"

    def advice(self, problem: Any, words: Sequence[str]) -> str:
        """Say how a setting is written that was given as an option."""
        option = getattr(problem, "option_name", None)
        if option is None or option in ("--threads", "--plot"):
            return ""
        problem.possibilities = None
        name = option.lstrip("-").partition("=")[0].replace("-", "_")
        after = words[words.index(option) + 1 :] if option in words else []
        value = after[0] if after and not after[0].startswith("-") else "…"
        part = "recipe." if name in completing.recipe_names() else ""
        part = "model." if name in ("m_h", "m_ff") else part
        return f"Settings are words without dashes: {part}{name}={value}"


SettingsArgument = Annotated[
    list[str],
    typer.Argument(
        help="Settings: target.kind=…, model.kind=… with the settings of each kind; "
        "recipe.steps=… and other settings of the training; seed=…. "
        f"Targets: {', '.join(completing.TARGET_KINDS)}. "
        f"Models: {', '.join(completing.MODEL_KINDS)}. Either can be MODULE:NAME, a function of "
        "your own. The settings of each kind are on the page “Fits and sweeps”, docs/fitting.md.",
        metavar="NAME=VALUE…",
        autocompletion=completing.settings,
    ),
]
ThreadsOption = Annotated[
    int, typer.Option(help="Number of threads that torch may use.", metavar="N")
]


@app.command(
    cls=Trainer,
    epilog="Example: attnrate fit target.kind=spectral target.alpha=1 target.rank=6 "
    "model.kind=transformer model.m_h=6 recipe.steps=800",
)
def fit(
    settings: SettingsArgument,
    threads: ThreadsOption = 1,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Train one model on one target and measure its error on fresh inputs.

    The model itself is not kept: from Python, `attnrate.fit` returns it.
    """
    check_plot(plot)
    with _own_failures(settings):
        trial = _one_trial(settings)
        from attnrate.fitting.build import build
        from attnrate.fitting.fit import fit as train

        target, make_model, recipe = build(trial)
        done = train(target, make_model, recipe, trial.seed, threads)
    if plot is not None:
        save(done.plot(), plot)
    _tell(trial, done, as_json)
    if done.diverged:
        fail(f"every attempt diverged, the last with lr {done.learning_rate:.1e}", 1)


@app.command(
    cls=Trainer,
    epilog="Example: attnrate bracket target.kind=spectral target.alpha=1 target.rank=6 "
    "model.kind=transformer model.m_h=6 recipe.steps=800 recipe.starts=3",
)
def bracket(
    settings: SettingsArgument,
    threads: ThreadsOption = 1,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bracket the best error that a model can have on a target: lower <= best <= upper.

    The upper end is the smallest error that was found: of the trained model and, where the
    Transformer of the proof fits into the model, of that one, as it is and after training. The
    lower end is the best error of any model of the kind, where it is known, and otherwise 0.
    """
    check_plot(plot)
    with _own_failures(settings):
        trial = _one_trial(settings)
        from attnrate.fitting.bracket import bracket as find
        from attnrate.fitting.build import build

        target, make_model, recipe = build(trial)
        found = find(target, make_model, recipe=recipe, seeds=[trial.seed], threads=threads)
    if plot is not None:
        save(found.plot(), plot)
    _tell(trial, found, as_json)


class Sweeping(Command):
    """The command sweep."""

    kept = "finished trials are kept, the same command goes on"


@app.command(
    cls=Sweeping, epilog="Example: attnrate sweep spec.toml --export results.csv --plot errors.png"
)
def sweep(
    spec: Annotated[
        Path,
        typer.Argument(
            help="A TOML file with the tables target, model and recipe, and a grid of the "
            "settings that vary.",
            metavar="SPEC.toml",
        ),
    ],
    store: Annotated[
        Path | None,
        typer.Option(
            help="The file that keeps the results (default: SPEC.sqlite, beside the spec).",
            metavar="FILE.sqlite",
        ),
    ] = None,
    engine: EngineOption = "local",
    workers: WorkersOption = None,
    status: Annotated[
        bool,
        typer.Option("--status", help="Run nothing; say how many trials are finished."),
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option(help="Write one row per trial into this file.", metavar="FILE.csv|.parquet"),
    ] = None,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run every trial of a grid and print the mean error of each combination, with its interval.

    Each trial is kept in the store as soon as it is finished. After an interruption, the same
    command runs what is left; after a change of the grid, it runs what is new.
    """
    from attnrate.fitting.records import Status
    from attnrate.fitting.sweep import run_from_cli

    check_plot(plot)
    if status and plot is not None:
        raise InputError("--plot draws a sweep that was run, not a --status", str(plot), _NOT_BOTH)
    result = run_from_cli(spec, store, engine, workers, status, export)
    if plot is not None and result.finished and not isinstance(result, Status):
        save(result.plot(), plot)
    if as_json:
        means = {} if isinstance(result, Status) else {"means": json_rows(result.means())}
        print_json({**result.summary, **means})
    else:
        typer.echo(str(result))
    unwritten = [str(path) for path in (export, plot) if path is not None]
    if export is not None and result.finished:
        typer.echo(f"wrote {export}", err=True)
    if unwritten and not result.finished:
        names = " and ".join(unwritten)
        said = "was" if len(unwritten) == 1 else "were"
        typer.echo(f"attnrate: nothing is finished yet, {names} {said} not written", err=True)
    if not as_json and result.finished and export is None and plot is None and not status:
        typer.echo(
            "Every trial as a table: --export FILE.csv. The errors as a figure: --plot FILE.png."
        )
    if result.failed and not status:
        fail("some trials failed; the same command tries them again", 1)


def _tell(trial: "Trial", found: "Fit | Bracket", as_json: bool) -> None:
    """Print what was found for the trial: as text, or as JSON with its settings and versions."""
    from attnrate.fitting.provenance import provenance

    if as_json:
        print_json({"settings": trial.settings, **found.summary, "provenance": provenance()})
    else:
        typer.echo(str(found))


def _one_trial(pairs: list[str]) -> "Trial":
    """The trial that the settings describe; InputError for a grid, which describes several."""
    from attnrate.fitting.spec import load_spec
    from attnrate.fitting.trial import tables_of

    for word in pairs:
        if word.lower().endswith(".toml") and "=" not in word:
            raise InputError(
                "a TOML file is for attnrate sweep",
                word,
                f"Run attnrate sweep {word}; or write settings as NAME=VALUE.",
            )
    table = tables_of(pairs)
    if "grid" in table:
        raise InputError(
            "a grid is for attnrate sweep", table["grid"], "Give each setting one value."
        )
    (trial,) = load_spec(table).trials
    return trial


@contextmanager
def _own_failures(pairs: Sequence[str]) -> Iterator[None]:
    """Tell an error of the user's own code by the lines of that code, without those of ours.

    Args:
        pairs: The settings; MODULE:NAME in those of a kind says which code is the user's.

    """
    words = dict(pair.partition("=")[::2] for pair in pairs)
    own = [name for name in ("target.kind", "model.kind") if ":" in words.get(name, "")]
    try:
        yield
    except (AttnrateError, OSError, MemoryError):
        raise
    except Exception as problem:
        frames = traceback.extract_tb(problem.__traceback__)
        called = {name: _lines_of(words[name]) for name in own}
        files = {file for file, _ in called.values()}
        theirs = [frame for frame in frames if frame.filename in files]
        if not theirs:
            raise
        # both kinds may be of one file
        ran = [
            f"{name} = {words[name]}"
            for name, (file, lines) in called.items()
            if any(frame.filename == file and frame.lineno in lines for frame in theirs)
        ]
        who = " and ".join(ran) or f"your code in {Path(theirs[-1].filename).name}"
        said = "".join(traceback.format_exception_only(problem)).rstrip()
        lines = "".join(traceback.format_list(theirs)).rstrip()
        fail(f"{who} failed: {said}\n{lines}", 1)


def _lines_of(word: str) -> tuple[str | None, range]:
    """The file of MODULE:NAME and its lines there; no lines where they cannot be found."""
    module, _, name = word.partition(":")
    loaded = sys.modules.get(module)
    file = getattr(loaded, "__file__", None)
    try:
        source, first = inspect.getsourcelines(getattr(loaded, name, None))  # type: ignore[arg-type]
    except (OSError, TypeError):
        return file, range(0)
    return file, range(first, first + len(source))
