"""The commands of attnrate data: real models, text, time series, images and sentence pairs."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnrate.cli.completing import series_names, weight_names
from attnrate.cli.output import (
    Command,
    Commands,
    JsonOption,
    WorkersOption,
    app,
    print_json,
    print_table,
)
from attnrate.errors import InputError, require_whole

if TYPE_CHECKING:
    from attnrate.data.series_table import Series
    from attnrate.data.weights import Weights


class Fetch(Command):
    """A command that fetches something into the cache."""

    kept = "the same command goes on with what was fetched whole"


data = typer.Typer(
    help="Fetch real models and data; each is verified, kept in a cache, and fetched once.",
    no_args_is_help=True,
    cls=Commands,
)
app.add_typer(data, name="data")


@data.command("weights", cls=Fetch, epilog="Example: attnrate data weights minilm")
def weights_command(
    name: Annotated[
        str | None,
        typer.Argument(
            help="The short name of a model (default: list all models).",
            metavar="NAME",
            autocompletion=weight_names,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Fetch a trained model and print its folder; without a name, list the models.

    The folder can be given to attnrate profile. A model that is in the cache is not fetched again.
    """
    from attnrate.data.weights import WEIGHTS, folder_of, model_weights

    if name is not None:
        folder = model_weights(name)
        _show(as_json, _about(WEIGHTS[name]) | {"folder": str(folder)}, str(folder))
        return
    rows = [
        _about(entry)
        | {
            "download_mb": round(sum(package.size for package in entry.packages) / 1e6),
            "cached": folder_of(entry.name).is_dir(),
        }
        for entry in WEIGHTS.values()
    ]
    if as_json:
        print_json({"weights": rows})
        return
    keys = ("name", "about", "licence", "download_mb")
    cells = [[*(str(row[key]) for key in keys), "yes" if row["cached"] else "no"] for row in rows]
    print_table(("name", "model", "licence", "MB", "in the cache"), cells)


def _about(entry: "Weights") -> dict[str, object]:
    """What a model is, as JSON values."""
    return {name: getattr(entry, name) for name in ("name", "about", "licence", "source")}


def _show(as_json: bool, values: dict[str, Any], *lines: str) -> None:
    """Print the values as one JSON object, or the lines for people."""
    if as_json:
        print_json(values)
        return
    for line in lines:
        typer.echo(line)


@data.command("text", cls=Fetch, epilog="Example: attnrate data text --megabytes 5")
def text_command(
    megabytes: Annotated[
        int,
        typer.Option(help="How much of the source to read, 1 to 100 megabytes.", metavar="MB"),
    ] = 10,
    as_json: JsonOption = False,
) -> None:
    """Fetch running English text, as inputs of a profile, and print the path of its file."""
    from attnrate.data.text import LICENCE, SOURCE, sample_text

    file = str(sample_text(megabytes))
    _show(as_json, {"file": file, "source": SOURCE, "licence": LICENCE}, file)


@data.command("series", cls=Fetch, epilog="Example: attnrate data series glucose")
def series_command(
    name: Annotated[
        str | None,
        typer.Argument(
            help="The short name of a series (default: list all series).",
            metavar="NAME",
            autocompletion=series_names,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Fetch a real time series and print the path of its CSV file; without a name, list all.

    Values are those of the package; what was made of them is printed as "changed". The last line is
    a command to try on the series.
    """
    from attnrate.data.series import file_of, sample_series, shape_of
    from attnrate.data.series_table import SERIES

    if name is None:
        entries = SERIES.values()
        rows = [_series(one) | {"cached": file_of(one.name).is_file()} for one in entries]
        lines = (f"{one.name:<16}{one.rows:>7,} x {one.columns:<3} {one.about}" for one in entries)
        _show(as_json, {"series": rows}, *lines)
        return
    file = sample_series(name)
    entry, shape = SERIES[name], shape_of(file)
    tried = ("attnrate", "choose", str(file), "--target", entry.target)
    command = shlex.join((*tried, "--horizon", str(entry.horizon), *entry.options))
    missing = ", ".join(f"{column} {count:,}" for column, count in shape.missing.items())
    values = _series(entry) | {
        "file": str(file),
        "rows": shape.rows,
        "columns": len(shape.columns),
        "column_names": shape.columns,
        "missing": shape.missing,
        "try": command,
    }
    _show(
        as_json,
        values,
        str(file),
        f"{shape.rows:,} rows x {len(shape.columns)} columns: {', '.join(shape.columns)}",
        f"missing: {missing or 'none'}",
        *(f"changed: {clause}" for clause in entry.changed),
        *(f"note: {clause}" for clause in entry.notes),
        f"source: {entry.source} ({entry.package.name} {entry.package.version})",
        f"licence: {entry.licence}",
        f"try: {command}",
    )


def _series(entry: "Series") -> dict[str, object]:
    """What a time series is, as JSON values."""
    told = ("name", "about", "rows", "columns", "target", "horizon", "source", "licence")
    return {name: getattr(entry, name) for name in (*told, "changed", "notes")} | {
        "package": f"{entry.package.name} {entry.package.version}",
        "download_mb": round(entry.package.size / 1e6),
    }


@data.command("cifar10", cls=Fetch, epilog="Example: attnrate data cifar10 --photos photos")
def cifar10_command(
    photos: Annotated[
        Path | None,
        typer.Option(help="Write test images as files into this new folder.", metavar="DIR"),
    ] = None,
    count: Annotated[
        int | None, typer.Option(help="With --photos: number of images (default: 64).", metavar="N")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Fetch CIFAR-10 (140 MB) and print its classes, or write test images as files."""
    from attnrate.data.cifar10 import LICENCE, SOURCE, TESTS, as_new_folder, cifar10

    if photos is None and count is not None:
        raise InputError("--count is for --photos", count, "Leave --count out.")
    if photos is not None:  # refused before anything is fetched
        as_new_folder(photos)
        count = require_whole("count", 64 if count is None else count, 1, TESTS)
    found = cifar10()
    written = None if photos is None else found.write_photos(photos, count)
    counts = {split: found.class_counts(split) for split in ("train", "test")}
    means = [round(mean, 2) for mean in found.channel_means]
    values = {
        "folder": str(found.folder),
        "source": SOURCE,
        "licence": LICENCE,
        "images": {split: sum(count.values()) for split, count in counts.items()},
        "class_counts": counts,
        "channel_means": means,
        "photos": None if written is None else str(written),
    }
    if written is not None:
        _show(as_json, values, str(written))
        return
    if as_json:
        print_json(values)
        return
    rows = [
        (name, f"{count:,}", f"{counts['test'][name]:,}") for name, count in counts["train"].items()
    ]
    print_table(("class", "train", "test"), rows)
    red, green, blue = means
    pixels = f"32 x 32 pixels; means of red, green, blue: {red}, {green}, {blue}"
    typer.echo(f"{pixels}\n{found.folder}")


@data.command("translation", cls=Fetch, epilog="Example: attnrate data translation")
def translation_command(
    only_names: Annotated[
        bool,
        typer.Option(
            "--names",
            help="Fetch nothing; print the names of the Debian packages that have the sentences.",
        ),
    ] = False,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fetch pairs of English and German sentences (480 MB) and print their numbers and samples."""
    from attnrate.data.translation import (
        LICENCE,
        SOURCE,
        SPLITS,
        package_names,
        translation,
        way_out,
    )

    if only_names:
        every = package_names()
        _show(as_json, {"packages": every}, *every)
        return
    found = translation(workers=workers)
    packages = found.manifest["packages"]
    # spread over the test set, the same ones every time
    samples = found.test[:: max(1, len(found.test) // 5)][:5]
    values = {
        "folder": str(found.folder),
        "source": SOURCE,
        "licence": LICENCE,
        "counts": found.counts,
        "messages": sum(package["messages"] for package in packages),
        "sha256": found.manifest["sha256"],
        "documented_test_set": found.documented,
        "packages": packages,
        "left_out": found.manifest["left_out"],
        "samples": samples,
    }
    here = {package["name"] for package in packages}
    if as_json:
        print_json(values)
        return
    rows = []
    for split, count in found.counts.items():
        names = [name for name in SPLITS[split] if name in here]
        listed = ", ".join(names) if len(names) < 10 else f"{len(names)} packages"
        rows.append((split, f"{count:,}", listed))
    print_table(("split", "pairs", "packages"), rows)
    for english, german in samples:
        typer.echo(f"{english}\n    {german}")
    if found.manifest["left_out"]:
        left_out = ", ".join(found.manifest["left_out"])
        typer.echo(
            f"Left out: {left_out}. --json gives the reasons. To try again, delete {found.folder}.",
            err=True,
        )
    if not found.documented:
        typer.echo(
            "The test set differs from the documented one, which is of Debian 12, so that scores "
            f"cannot be compared. {way_out()}",
            err=True,
        )
    typer.echo(str(found.folder))
