"""The command profile."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from attnrate.cli.output import JsonOption, app, busy, print_json
from attnrate.errors import InputError, require_choice, require_none, require_whole

if TYPE_CHECKING:
    import pandas as pd

    from attnrate.spectra.advise import Advice
    from attnrate.spectra.load import Loaded
    from attnrate.spectra.read import Batches
    from attnrate.spectra.result import Profile


@app.command(
    epilog="Example: attnrate profile path/to/model --text notes.txt --out profile-of-model",
)
def profile(
    context: typer.Context,
    model: Annotated[
        str, typer.Argument(help="A folder with safetensors or GGUF, or a hub id.", metavar="MODEL")
    ],
    text: Annotated[Path | None, typer.Option(help="Running text, UTF-8.", metavar="FILE")] = None,
    images: Annotated[Path | None, typer.Option(help="A folder of images.", metavar="DIR")] = None,
    inputs: Annotated[
        Path | None, typer.Option(help="Arrays by the model's argument names.", metavar="FILE.npz")
    ] = None,
    weights_only: Annotated[
        bool, typer.Option("--weights-only", help="No inputs: the spectra of W_QᵀW_K.")
    ] = False,
    layers: Annotated[
        str | None, typer.Option(help="Numbers or names, with commas; all.", metavar="0,5,…")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the page, figures and tables.", metavar="DIR")
    ] = None,
    gauge: Annotated[
        str, typer.Option(help="softmax: leave out what softmax cannot see; none.")
    ] = "softmax",
    length: Annotated[int | None, typer.Option(help="Tokens of a piece of text.")] = None,
    batch: Annotated[int, typer.Option(help="Inputs at a time.")] = 8,
    limit: Annotated[int, typer.Option(help="Most inputs.")] = 64,
    cut_inputs: Annotated[
        int, typer.Option(help="Inputs on which cuts are measured; 0: none.")
    ] = 8,
    tolerance: Annotated[
        float | None, typer.Option(help="Share of attention that smaller heads may move; 0.05.")
    ] = None,
    budget: Annotated[
        int | None, typer.Option(help="Instead: the sum of head sizes over layers.")
    ] = None,
    heads: Annotated[
        int | None, typer.Option(help="With --weights-only, where no config.json tells it.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """What a trained model's attention uses, head by head, and how small its heads could be."""
    given = {"--text": text, "--images": images, "--inputs": inputs}
    if weights_only:
        _require_unused(context, "--weights-only", keep=("model", "weights_only", "heads"))
        _weights_only(model, heads, as_json)
        return
    _require_one(given)
    if heads is not None:
        raise InputError("--heads is for --weights-only", heads, "Leave it out.")
    if text is None and length is not None:
        raise InputError("--length is for --text", length, "Leave it out.")
    from attnrate.report.profile_page import check_folder, write_profile
    from attnrate.spectra.adapters import adapter_for
    from attnrate.spectra.advise import advise, goal
    from attnrate.spectra.load import load
    from attnrate.spectra.profile import chosen_sites
    from attnrate.spectra.profile import profile as run
    from attnrate.spectra.result import GAUGES

    # what can be refused is refused before the work
    goal(budget, tolerance)
    require_choice("gauge", gauge, GAUGES)
    require_whole("cut_inputs", cut_inputs, 0)
    if out is not None:
        check_folder(out)
    with busy(f"opening {model}"):
        loaded = load(model)
        asked = None if layers is None else _layers(layers)
        sites = chosen_sites(adapter_for(loaded.model)[1], asked)
        if budget is not None:
            require_whole("budget", budget, len(sites))
        read = _read(loaded, given, length, batch, limit)
    with _ticking(read, cut_inputs > 0) as going:
        found = run(
            loaded.model,
            going,
            gauge,
            layers=asked,
            cut_inputs=cut_inputs,
            name=loaded.name,
        )
    advice = advise(found, budget, tolerance=tolerance)
    page = None
    if out is not None:
        with busy("writing the page"):
            page = write_profile(found, out, advice)
    _tell(found, advice, page, as_json)


def _require_one(given: dict[str, Path | None]) -> None:
    named = [option for option, value in given.items() if value is not None]
    if len(named) != 1:
        raise InputError(
            "a profile needs inputs of one kind",
            named or "none",
            "Pass --text FILE, --images DIR or --inputs FILE.npz; or --weights-only.",
        )


def _read(
    loaded: "Loaded", given: dict[str, Path | None], length: int | None, batch: int, limit: int
) -> "Batches":
    from attnrate.spectra.read import read_arrays, read_images, read_text

    if given["--images"] is not None:
        return read_images(loaded, given["--images"], batch, limit)
    if given["--inputs"] is not None:
        return read_arrays(loaded.model, given["--inputs"], batch, limit)
    most = 512 if loaded.longest is None else min(512, loaded.longest)
    return read_text(loaded, given["--text"], most if length is None else length, batch, limit)


def _layers(text: str) -> list[int | str]:
    found: list[int | str] = []
    for word in filter(None, map(str.strip, text.split(","))):
        try:
            found.append(int(word))
        except ValueError:
            found.append(word)
    return found


@contextmanager
def _ticking(read: "Batches", cuts: bool) -> Iterator[Iterator[Any]]:
    """The batches with a bar that moves as they are taken; on a terminal only."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("spectra", total=len(read))

        def batches() -> Iterator[Any]:
            for each in read:
                yield each
                bar.advance(task)
            if cuts:
                bar.update(task, description="cutting heads", total=None)

        yield batches()


def _tell(found: "Profile", advice: "Advice", page: Path | None, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "model": found.model,
                "family": found.family,
                "summary": str(found),
                "advice": str(advice),
                "sizes": _rows(advice.to_frame()),
                "heads": _rows(found.to_frame()),
                "made_by": dict(found.made_by),
                "page": None if page is None else str(page),
            }
        )
        return
    Console().print(_table(found, advice))
    typer.echo(f"{found}\n{advice}")
    if page is not None:
        typer.echo(f"the page: {page}")


def _table(found: "Profile", advice: "Advice") -> Table:
    table = Table(title="Dimensions that a head needs: the median over heads (least to most)")
    table.add_column("layer")
    for name in ("m_h", "99 % of energy", "99.9 %", "moved at 99 %", "advised"):
        table.add_column(name, justify="right", no_wrap=True)
    heads = found.to_frame()
    for row in advice.layers:
        of = heads[heads.layer == row.layer]
        moved = f"{of.weights_loss99.median():.1%}" if "weights_loss99" in of else "–"
        kind = found.layer(row.layer).kind
        table.add_row(
            f"{row.layer}" if kind == "self" else f"{row.layer} {kind}",
            str(row.m_h),
            _spread(of.rank99),
            _spread(of.rank999),
            moved,
            f"{row.size} ({row.low})" if row.low != row.size else str(row.size),
        )
    return table


def _spread(values: "pd.Series[Any]") -> str:
    return f"{values.median():g} ({values.min()} to {values.max()})"


def _rows(frame: "pd.DataFrame") -> list[dict[str, Any]]:
    """A row each with None where a number is not finite, which JSON does not know."""
    finite = frame.replace([math.inf, -math.inf], math.nan).astype(object)
    rows = finite.where(finite.notna(), None).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in rows]


def _require_unused(context: typer.Context, by: str, keep: tuple[str, ...]) -> None:
    """An InputError that names the options which were given and would do nothing."""
    named = [
        f"--{name.replace('_', '-')}"
        for name in context.params
        if name not in (*keep, "as_json")
        and getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    ]
    said = f"{by} takes no inputs and writes no page; these would do nothing"
    require_none(said, named, "Leave them out.")


def _weights_only(model: str, heads: int | None, as_json: bool) -> None:
    from attnrate.spectra.weights_only import weight_spectra

    with busy(f"reading {model}"):
        found = weight_spectra(model, heads)
    if as_json:
        print_json({"summary": str(found), "heads": _rows(found.to_frame())})
    else:
        typer.echo(str(found))
