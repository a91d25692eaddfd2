"""The commands data weights and data text: real models and text, fetched and cached."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from attnrate.cli.output import JsonOption, app, print_json

data = typer.Typer(
    help="Fetch real models and text by name; verified, cached, never fetched twice.",
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
        entry = WEIGHTS[name]
        if as_json:
            print_json(
                {
                    "name": name,
                    "folder": str(folder),
                    "about": entry.about,
                    "licence": entry.licence,
                    "source": entry.source,
                }
            )
        else:
            typer.echo(str(folder))
        return
    rows = [
        {
            "name": entry.name,
            "about": entry.about,
            "licence": entry.licence,
            "source": entry.source,
            "download_mb": round(sum(package.size for package in entry.packages) / 1e6),
            "cached": folder_of(entry.name).is_dir(),
        }
        for entry in WEIGHTS.values()
    ]
    if as_json:
        print_json({"weights": rows})
        return
    table = Table("name", "model", "licence", "MB", "here")
    for row in rows:
        here = "yes" if row["cached"] else "no"
        table.add_row(
            str(row["name"]), str(row["about"]), str(row["licence"]), str(row["download_mb"]), here
        )
    Console().print(table)


@data.command("text", epilog="Example: attnrate data text --megabytes 5")
def text_command(
    megabytes: Annotated[int, typer.Option(help="How much of the source, 1 to 100 MB.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Print the path of a file of running English text, for calibration."""
    from attnrate.data.text import LICENCE, SOURCE, text

    file = text(megabytes)
    if as_json:
        print_json({"file": str(file), "source": SOURCE, "licence": LICENCE})
    else:
        typer.echo(str(file))
