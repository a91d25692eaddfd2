"""The command profile."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnrate.cli.completing import ENGINES, MATCHES, words
from attnrate.cli.inputs import GivenInputs
from attnrate.cli.measuring import Measuring, Placing
from attnrate.cli.output import Command, JsonOption, app, json_rows, print_json, print_table
from attnrate.errors import AccuracyWarning, InputError, require_choice, require_whole
from attnrate.progress import Progress
from attnrate.words import GAUGES, require_gauge

if TYPE_CHECKING:
    import pandas as pd

    from attnrate.spectra.advise import Advice
    from attnrate.spectra.matching import Match
    from attnrate.spectra.result import Profile


@app.command(
    cls=Command,
    epilog="Example: attnrate profile path/to/model --text notes.txt --out profile-of-model",
)
def profile(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            help="A folder with a model in safetensors or GGUF, or the id of a model on the "
            "Hugging Face hub.",
            metavar="MODEL",
        ),
    ],
    text: Annotated[
        Path | None,
        typer.Option(
            help="Inputs: a file of running text in UTF-8, which is cut into pieces; or a table "
            "with one input per row (.jsonl, .json, .csv, .tsv, .parquet).",
            metavar="FILE",
        ),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(
            help="With a table: the column that holds the texts or chats (default: text, or "
            "messages).",
            metavar="NAME",
        ),
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="Inputs: a folder of images.", metavar="DIR")
    ] = None,
    sound: Annotated[
        Path | None,
        typer.Option(
            help="Inputs: a folder of recordings (.wav; .flac, .ogg and .mp3 with the package "
            "soundfile).",
            metavar="DIR",
        ),
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option(
            help="Inputs: arrays by the names of the model's arguments, such as input_ids; the "
            "first axis runs over inputs.",
            metavar="FILE.npz",
        ),
    ] = None,
    weights_only: Annotated[
        bool,
        typer.Option(
            "--weights-only",
            help="Take no inputs: print the spectra of W_QᵀW_K of all layers instead of those of "
            "logits. Only --heads, --layout and --json go with it.",
        ),
    ] = False,
    layers: Annotated[
        str | None,
        typer.Option(
            help="Layers by number or name, with commas between them (default: all).",
            metavar="0,5,…",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write a page with figures and tables into this folder (default: none).",
            metavar="DIR",
        ),
    ] = None,
    gauge: Annotated[
        str,
        typer.Option(
            help="softmax leaves out what softmax cannot see (a number added to all logits of a "
            "query); none takes the logits as they are.",
            metavar="|".join(GAUGES),
            autocompletion=words(*GAUGES),
        ),
    ] = "softmax",
    length: Annotated[
        int | None,
        typer.Option(
            help="With --text: tokens per input (default: 512, or the most that the model takes).",
            metavar="N",
        ),
    ] = None,
    batch: Annotated[int, typer.Option(help="Number of inputs at a time.", metavar="N")] = 8,
    limit: Annotated[
        int | None,
        typer.Option(
            help="Largest number of inputs to take (default: 64, or no limit with --tokens).",
            metavar="N",
        ),
    ] = None,
    tokens: Annotated[
        str | None,
        typer.Option(
            help="With --text: number of tokens to take, as 5000, 200k or 1M, the last input "
            "whole. With --limit, whichever ends first.",
            metavar="N",
        ),
    ] = None,
    cut_inputs: Annotated[
        int,
        typer.Option(
            help="Number of inputs on which the effect of smaller heads is measured; 0 measures "
            "none.",
            metavar="N",
        ),
    ] = 8,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="Advise the smallest heads that move at most this share of any head's attention "
            "(default: 0.05).",
            metavar="SHARE",
        ),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            help="Instead of --tolerance: advise head sizes that add up to this number over the "
            "layers.",
            metavar="N",
        ),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            help="Where the model computes; auto is a GPU if there is one. Also cuda:1, …",
            metavar="cpu|cuda|mps|auto",
            autocompletion=words("cpu", "cuda", "mps", "auto"),
        ),
    ] = "cpu",
    dtype: Annotated[
        str,
        typer.Option(
            help="Number format of the weights; auto is that of the checkpoint. Spectra are "
            "computed in float64 in any case.",
            metavar="auto|float32|bfloat16|float16",
            autocompletion=words("auto", "float32", "bfloat16", "float16"),
        ),
    ] = "float32",
    device_map: Annotated[
        str | None,
        typer.Option(
            help="With auto, layers are spread over GPUs, memory and disk, for a model that does "
            "not fit on the device (default: all on the device).",
            metavar="auto",
            autocompletion=words("auto"),
        ),
    ] = None,
    offload: Annotated[
        Path | None,
        typer.Option(
            help="With --device-map: leave weights on disk, and read each block when it runs. "
            "What has to be written anew goes into this folder, for as long as the command runs.",
            metavar="DIR",
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            help="Another model, the one before: say which heads of MODEL gained or lost rank "
            "against it, on the same inputs, instead of advising sizes.",
            metavar="MODEL",
        ),
    ] = None,
    match: Annotated[
        str,
        typer.Option(
            help="With --against: name compares layers of one name, depth those of one relative "
            "depth.",
            metavar="|".join(MATCHES),
            autocompletion=words(*MATCHES),
        ),
    ] = "name",
    adapter: Annotated[
        str | None,
        typer.Option(
            help="An adapter of your own for attention that is not found by itself: a class in a "
            "module of the current folder or of an installed package.",
            metavar="MODULE:CLASS",
        ),
    ] = None,
    heads: Annotated[
        int | None,
        typer.Option(
            help="With --weights-only: heads per layer, where no config.json says it.", metavar="N"
        ),
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option(
            help="With --weights-only: how queries, keys and values lie in tensors that hold all "
            "three, where neither config.json nor the tensors' names say it: all queries, then all "
            "keys (stacked), or head by head (interleaved).",
            metavar="stacked|interleaved",
            autocompletion=words("stacked", "interleaved"),
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Keep finished batches in this folder: after an interruption, the same command "
            "goes on there (default: nothing is kept).",
            metavar="DIR",
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="Where the model runs: local (this process), ray, or the address "
            "ray://HOST:PORT of a Ray cluster.",
            metavar="ENGINE",
            autocompletion=words(*ENGINES),
        ),
    ] = "local",
    workers: Annotated[
        int | None,
        typer.Option(
            help="With --engine ray: number of processes that hold the model (default: one on "
            "each machine).",
            metavar="N",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure what a trained model's attention uses, head by head, and advise smaller heads.

    The table has the dimensions that hold 99 % and 99.9 % of the energy of each head's logits, the
    share of attention that moves when a head is cut to the former, and the size that is advised; in
    brackets the least size that could do, where the measurements leave that open.
    """
    if weights_only:
        said = "--weights-only looks at all layers, takes no inputs and only prints"
        _require_unused(context, said, {"model", "weights_only", *_OF_WEIGHTS})
        _weights_only(model, heads, layout, as_json)
        return
    for name in _OF_WEIGHTS:
        if context.params[name] is not None:
            said = f"--{name} is for --weights-only"
            raise InputError(said, context.params[name], f"Leave --{name} out.")
    given = GivenInputs(text, images, sound, inputs, column, length, batch, limit, tokens)
    given.require_fitting()
    from attnrate.spectra.adapters import adapter_of
    from attnrate.spectra.advise import goal
    from attnrate.spectra.picked import Picked
    from attnrate.spectra.resume import require_resume

    # what can be refused is refused before the work
    goal(budget, tolerance)
    modulo = require_gauge("gauge", gauge)
    require_whole("cut_inputs", cut_inputs, 0)
    require_resume("resume", resume)
    asked = None if layers is None else _layers(layers)
    Picked.of(asked)
    placing = Placing(device, dtype, device_map, offload)
    measuring = Measuring(given, placing, modulo, asked, cut_inputs, resume, engine, workers)
    if against is not None:
        said = "--against compares ranks, advises no sizes and keeps nothing"
        useless = {"tolerance", "budget", "cut_inputs", "resume"}
        _require_unused(context, said, {*context.params} - useless)
        way: Match = require_choice("match", match, MATCHES)
        with adapter_of(adapter):
            _compare(against, model, measuring, way, out, as_json)
        return
    if match != "name":
        raise InputError("--match is for --against", match, "Leave --match out.")
    with adapter_of(adapter):
        _profile(model, measuring, (budget, tolerance), out, as_json)


def _profile(
    model: str,
    measuring: Measuring,
    wanted: tuple[int | None, float | None],
    out: Path | None,
    as_json: bool,
) -> None:
    """Profile a model, advise sizes within a budget or a tolerance, and print or write both."""
    from attnrate.spectra.advise import advise
    from attnrate.spectra.page.write import check_folder

    if out is not None:
        check_folder(out)
    with measuring.session():
        found = measuring.profile(*measuring.open(model))
    advice = advise(found, wanted[0], tolerance=wanted[1])
    page = None
    if out is not None:
        with Progress("writing the page"):
            page = found.save(out, advice)
    _tell(found, advice, page, as_json)


def _compare(
    before: str,
    after: str,
    measuring: Measuring,
    match: "Match",
    out: Path | None,
    as_json: bool,
) -> None:
    """Compare two models on the same inputs, and print or write what is found."""
    from attnrate.cli.comparing import compare_models, require_there, tell_comparison
    from attnrate.spectra.page.comparison import check_folder

    if out is not None:
        check_folder(out)
    for source in (before, after):
        require_there(source)
    with measuring.session():
        found = compare_models(before, after, measuring, match)
    page = None if out is None else found.save(out)
    tell_comparison(found, page, as_json)


def _layers(text: str) -> list[int | str]:
    """The layers of --layers: whole numbers as numbers, other words as names."""
    found: list[int | str] = []
    for word in filter(None, map(str.strip, text.split(","))):
        try:
            found.append(int(word))
        except ValueError:
            found.append(word)
    return found


def _tell(found: "Profile", advice: "Advice", page: Path | None, as_json: bool) -> None:
    """Print the profile and the advice: a table with one row per layer and text, or JSON."""
    if as_json:
        print_json(
            {
                "model": found.model,
                "family": found.family,
                "summary": str(found),
                "advice": str(advice),
                "sizes": json_rows(advice.to_frame()),
                "heads": json_rows(found.to_frame()),
                "made_by": dict(found.made_by),
                "page": None if page is None else str(page),
            }
        )
        return
    print_table(_COLUMNS, _table_rows(found, advice), _TITLE)
    typer.echo(f"{found}\n{advice}")
    if page is not None:
        typer.echo(f"the page: {page}")


#: The options that only --weights-only has
_OF_WEIGHTS = ("heads", "layout")
_TITLE = (
    "Dimensions that a head needs: the median over heads (least to most); "
    "advised: the head size (the least that could do)"
)
_COLUMNS = ("layer", "m_h", "99 % of energy", "99.9 %", "moved at 99 %", "advised")


def _table_rows(found: "Profile", advice: "Advice") -> list[tuple[str, ...]]:
    """The cells of `_COLUMNS`, one row per layer."""
    heads = found.to_frame()
    rows: list[tuple[str, ...]] = []
    for row in advice.layers:
        of = heads[heads.layer == row.layer]
        moved = f"{100 * of.weights_loss99.median():.1f} %" if "weights_loss99" in of else "–"
        kind = found.layer(row.layer).kind
        rows.append(
            (
                f"{row.layer}" if kind == "self" else f"{row.layer} {kind}",
                str(row.m_h),
                _spread(of.rank99),
                _spread(of.rank999),
                moved,
                f"{row.size} ({row.low})" if row.low != row.size else str(row.size),
            )
        )
    return rows


def _spread(values: "pd.Series[Any]") -> str:
    """The median of some ranks, with the least and the largest in brackets."""
    return f"{values.median():g} ({values.min()} to {values.max()})"


def _require_unused(context: typer.Context, said: str, keep: set[str]) -> None:
    """Raise an InputError that names the options which were given and would do nothing."""
    named = [
        f"--{name.replace('_', '-')}"
        for name in context.params
        if name not in keep | {"as_json"}
        and getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    ]
    if named:
        what = f"{said}, so it does not go with {{value}}"
        raise InputError(what, " and ".join(named), "Leave them out.")


def _weights_only(model: str, heads: int | None, layout: str | None, as_json: bool) -> None:
    """Print the spectra of the weights of a model."""
    from attnrate.spectra.weights_only import require_layout, weight_spectra

    asked = require_layout("--layout", layout)
    with Progress(f"reading {model}"), warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)  # said below, in the result
        found = weight_spectra(model, heads, asked)
    if as_json:
        left = dict(found.left_out)
        rows = json_rows(found.to_frame())
        print_json({"summary": str(found), "heads": rows, "left_out": left})
    else:
        typer.echo(str(found))
