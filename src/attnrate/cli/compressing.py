"""The command compress."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from attnrate.cli.completing import words
from attnrate.cli.cut_sizes import GivenSizes
from attnrate.cli.inputs import GivenInputs
from attnrate.cli.measuring import Placing
from attnrate.cli.output import Command, JsonOption, app, json_rows, print_json
from attnrate.errors import (
    AttnrateError,
    InputError,
    require_choice,
    require_number,
    require_whole,
)
from attnrate.progress import Progress, say

if TYPE_CHECKING:
    from attnrate.compress.quality import Score
    from attnrate.compress.result import Compressed, Format
    from attnrate.compress.trained import Run
    from attnrate.spectra.batches import Inputs
    from attnrate.spectra.load import LoadedModel

_FORMATS: tuple["Format", ...] = ("attnrate", "llama", "onnx")


@app.command(
    cls=Command,
    epilog="Example: attnrate compress path/to/model --text notes.txt --out smaller --size 16",
)
def compress(
    model: Annotated[
        str,
        typer.Argument(
            help="A folder with a model in safetensors, or the id of a model on the Hugging Face "
            "hub.",
            metavar="MODEL",
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="Write the smaller model into this new folder.", metavar="DIR")
    ],
    text: Annotated[
        Path | None,
        typer.Option(
            help="Inputs to cut by: a file of running text in UTF-8, which is cut into pieces; or "
            "a table with one input per row (.jsonl, .json, .csv, .tsv, .parquet).",
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
    inputs: Annotated[
        Path | None,
        typer.Option(
            help="Inputs: arrays by the names of the model's arguments, such as input_ids; the "
            "first axis runs over inputs.",
            metavar="FILE.npz",
        ),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(help="The new size of queries and keys in all layers.", metavar="N"),
    ] = None,
    keep: Annotated[
        float | None,
        typer.Option(
            help="Instead of --size: the share of each head that stays, rounded to a multiple of 8 "
            "(default: 0.5).",
            metavar="X",
        ),
    ] = None,
    loss: Annotated[
        float | None,
        typer.Option(
            help="Instead: the most that the cut may change the output, as a share of its size; "
            "every size of every layer is measured, and the fewest bytes are taken.",
            metavar="X",
        ),
    ] = None,
    bytes: Annotated[
        int | None,
        typer.Option(
            help="Instead: the most bytes of keys and values per token, over all layers; the sizes "
            "that are measured to change least are taken.",
            metavar="N",
        ),
    ] = None,
    average: Annotated[
        float | None,
        typer.Option(
            help="Instead: the largest mean size over layers; the sizes that are measured to "
            "change least are taken.",
            metavar="N",
        ),
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(
            help="Instead: the sizes that are advised from this profile, a folder that attnrate "
            "profile --out has written.",
            metavar="DIR",
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="With --profile: the share of any head's attention that may move (default: 0.05).",
            metavar="X",
        ),
    ] = None,
    multiple_of: Annotated[
        int | None,
        typer.Option(
            help="The number of which new sizes are multiples; advised sizes are raised to it "
            "(default: 8, and 2 for heads below 16; any for --size and --profile).",
            metavar="N",
        ),
    ] = None,
    values: Annotated[
        bool, typer.Option("--values", help="Make values as small as the keys, too.")
    ] = False,
    repair: Annotated[
        int,
        typer.Option(help="Number of gradient steps that repair each layer.", metavar="N"),
    ] = 0,
    together: Annotated[
        int,
        typer.Option(
            help="Number of steps that then repair all layers together; not for rotary decoders.",
            metavar="N",
        ),
    ] = 0,
    format: Annotated[
        str,
        typer.Option(
            help="How it is written: attnrate is opened by load_model; llama by plain "
            "transformers, for rotary decoders and with --values; onnx by onnxruntime, for "
            "encoders and ViTs.",
            metavar="|".join(_FORMATS),
            autocompletion=words(*_FORMATS),
        ),
    ] = "attnrate",
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
            help="Largest number of inputs to take (default: 64, 512 for a folder of attnrate "
            "train, or no limit with --tokens).",
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
            help="Number format of the weights; auto is that of the checkpoint.",
            metavar="auto|float32|bfloat16|float16",
            autocompletion=words("auto", "float32", "bfloat16", "float16"),
        ),
    ] = "float32",
    timing: Annotated[
        float,
        typer.Option(
            help="Seconds in which times are measured, of the model whole and cut in turn; 0 "
            "leaves them out.",
            metavar="X",
        ),
    ] = 2.0,
    seed: Annotated[int, typer.Option(help="The seed of the repair.", metavar="N")] = 0,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Keep each repaired layer in this folder as soon as it is finished, and the steps "
            "of --together at every quarter: after an interruption, the same command goes on "
            "there. It is removed once the model is written (default: nothing is kept).",
            metavar="DIR",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make the heads of a trained model smaller, measure what that costs, and write the model.

    One input of five has no part in the cut. On these is measured, before and after, how good the
    model is (perplexity, or embeddings and their neighbours), how long it takes, and what keys in 8
    or 4 bits would cost instead. The folder is opened again in a fresh process and held against
    the model before the command says that it is done.

    A folder of attnrate train needs no inputs: they are taken from its training data. Its model is
    judged, before and after, by the accuracy or BLEU on the test data of the training. The data are
    fetched if need be.
    """
    given = GivenInputs(text, images, None, inputs, column, length, batch, limit, tokens, "a cut")
    own = None if given.named else _own_run(model)
    given.require_fitting(needed=own is None)
    # what can be refused is refused before the work
    written_as = require_choice("format", cast("Format", format), _FORMATS)
    if format == "llama" and not values:
        raise InputError(
            "--format llama needs values of the size of the keys, and --values is",
            values,
            "Pass --values.",
        )
    sizes = GivenSizes(size, keep, loss, bytes, average, multiple_of, profile, tolerance)
    sizes.require_fitting()
    for name, steps in (("repair", repair), ("together", together)):
        require_whole(name, steps, 0)
    if require_number("timing", timing) < 0:
        raise InputError("timing must be a number of seconds, at least 0", timing, "Pass timing=0.")
    if out.exists():
        raise InputError(
            "--out must be a new folder, and there is something", str(out), "Name another folder."
        )
    given.require_there()
    advice = sizes.advice()
    _require_resume(resume, out, repair, together)
    from attnrate.compress.compress import compress as compress_model
    from attnrate.compress.export_llama import require_llama
    from attnrate.compress.export_onnx import require_exportable
    from attnrate.compress.onnx_graph import require_packages

    if written_as == "onnx":
        require_packages()
    loaded = _open(model, Placing(device, dtype, None, None), written_as == "llama")
    if written_as == "onnx":
        require_exportable(loaded.model)
    elif written_as == "llama":
        require_llama(loaded.model)
    inputs_read, score = _data(given, own, loaded)
    with _kept(resume):
        done = compress_model(
            loaded,
            inputs_read,
            size=size,
            sizes=advice,
            keep=keep,
            loss=loss,
            bytes=bytes,
            average=average,
            multiple_of=multiple_of,
            values=values,
            repair=repair,
            together=together,
            shared="model" if format == "llama" else "head",
            metric=score,
            timing=timing,
            seed=seed,
            resume=resume,
        )
        done.save(out, format=written_as)
    _tell(done, out, as_json)


def _require_resume(resume: Path | None, out: Path, repair: int, together: int) -> None:
    """Raise an InputError for a folder of --resume in which nothing can be kept."""
    from attnrate.compress.resume import COMMAND, require_something
    from attnrate.spectra.resume import require_resume

    if resume is None:
        return
    require_resume("resume", resume, COMMAND)
    require_something(resume, repair, together)
    place = resume.absolute()
    if out.absolute() in (place, *place.parents):
        raise InputError(
            "resume must not be the folder of the smaller model or within it, since that must be "
            "new",
            str(resume),
            "Name another folder.",
        )


@contextmanager
def _kept(resume: Path | None) -> Iterator[None]:
    """Remove the folder of --resume at the end; an interruption says what is kept there."""
    from attnrate.compress.resume import forget

    try:
        yield
    except KeyboardInterrupt as stopped:
        if resume is None or not resume.exists():
            raise
        said = f"stopped; finished layers are kept in {resume}, the same command goes on"
        raise type(stopped)(said) from None
    if resume is not None and resume.exists():
        forget(resume)


def _own_run(source: str) -> "Run | None":
    """The run of `train` that has made the model; None for any other model."""
    from attnrate.compress.trained import run_of
    from attnrate.spectra.checkpoint import local_folder

    folder = local_folder(source)
    return None if folder is None else run_of(folder)


def _data(
    given: GivenInputs, own: "Run | None", loaded: "LoadedModel"
) -> "tuple[Inputs, Score | None]":
    """The inputs, those of the run where none were named, and the score of a model of `train`."""
    if own is not None:
        from attnrate.compress.trained import INPUTS

        limit = INPUTS if given.limit is None else given.limit
        found = own.data(loaded.model, limit, given.batch)
        return found.inputs, found.score
    inputs = given.read(loaded)
    try:
        own = _own_run(str(loaded.folder))
        return inputs, None if own is None else own.data(loaded.model).score
    except AttnrateError as problem:
        say(f"there will be no accuracy and no BLEU: {problem}")
        return inputs, None


def _open(source: str, placing: Placing, needs_head: bool = False) -> "LoadedModel":
    """Open a model with the head of its task, so that the smaller one does what the whole one did.

    A folder that lacks the weights of its head is opened without it, and a line on stderr says so;
    with `needs_head` it is refused.
    """
    from attnrate.spectra.checkpoint import local_folder
    from attnrate.spectra.pretrained import from_hub

    with Progress(f"opening {source}"):
        folder = local_folder(source)
        local = folder is not None
        folder = folder if folder is not None else from_hub(source)
        place = source if local else str(folder)
        head = _headed(folder)
        try:
            loaded = placing.open(place, head is not None)
        except InputError as problem:
            if head is None or needs_head:
                raise
            loaded = placing.open(place)
            typer.echo(
                f"opened without the head of {head}, so that the smaller model has none: {problem}",
                err=True,
            )
        return loaded if local else replace(loaded, name=source)


def _headed(folder: Path) -> str | None:
    """The class that config.json names, where it has a head that the bare model lacks."""
    from attnrate.spectra.checkpoint import read_json

    config = folder / "config.json"
    named = read_json(config).get("architectures") if config.is_file() else None
    if not isinstance(named, list) or not named or find_spec("transformers") is None:
        return None
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    bare = {
        name
        for own in MODEL_MAPPING_NAMES.values()
        for name in ((own,) if isinstance(own, str) else own)
    }
    return None if str(named[0]) in bare else str(named[0])


def _tell(done: "Compressed", out: Path, as_json: bool) -> None:
    """Print what was measured: sentences, or JSON."""
    if as_json:
        print_json(
            {
                "model": done.name,
                "summary": str(done),
                "pays": done.against is None,
                "report": json_rows(done.report),
                "curves": None if done.curves is None else json_rows(done.curves.to_frame()),
                "quality": json_rows(done.quality),
                "times": json_rows(done.times),
                "rivals": json_rows(done.rivals),
                "notes": list(done.measured.notes),
                "not_cut": list(done.left),
                "made_by": dict(done.made_by),
                "folder": str(out),
            }
        )
        return
    chosen = "" if done.curves is None else f"{done.curves}\n"
    typer.echo(f"{done}\n{chosen}the folder: {out}")
