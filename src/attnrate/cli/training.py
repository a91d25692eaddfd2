"""The command train."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnrate.cli.output import JsonOption, app, fail, print_json
from attnrate.cli.stopping import STOPPED

if TYPE_CHECKING:
    from attnrate.training.train import Trained


@app.command(epilog="Example: attnrate train cifar10 --m-h 16 --out small-heads")
def train(
    task: Annotated[str, typer.Argument(help="cifar10 or translation.", metavar="TASK")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the model; TASK.", metavar="DIR")
    ] = None,
    preset: Annotated[
        str, typer.Option(help="cpu: for two cores; paper: its full size, for a GPU.")
    ] = "cpu",
    m_h: Annotated[int | None, typer.Option(help="Head size; the preset's.")] = None,
    altered: Annotated[
        bool, typer.Option("--altered", help="Table 1's order: the first ten tokens come last.")
    ] = False,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data; 15 or 4.")] = None,
    lr: Annotated[float | None, typer.Option(help="Step size; 0.005.")] = None,
    limit: Annotated[
        int | None, typer.Option(help="So many examples and tests at most, to try things.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of weights and batches.")] = 0,
    threads: Annotated[int | None, typer.Option(help="Threads of torch; all cores.")] = None,
    precision: Annotated[
        str, typer.Option(help="float32, bfloat16, or auto: what is faster here.")
    ] = "auto",
    device: Annotated[str, typer.Option(help="cpu, cuda, …")] = "cpu",
    as_json: JsonOption = False,
) -> None:
    """Train a ViT on CIFAR-10 or a translator from English to German, with any head size.

    After an interruption the same command goes on at the last epoch.
    """
    from attnrate.training.train import train as run

    try:
        done = run(
            task,  # type: ignore[arg-type]  # `train` says which words it knows
            out,
            preset=preset,
            m_h=m_h,
            altered=altered,
            epochs=epochs,
            lr=lr,
            limit=limit,
            seed=seed,
            threads=threads,
            precision=precision,  # type: ignore[arg-type]
            device=device,
            progress=True,
        )
    except KeyboardInterrupt:
        fail("stopped; the same command goes on at the last whole epoch", STOPPED)
    if as_json:
        print_json(
            {
                "task": done.task,
                "folder": str(done.folder),
                "scores": asdict(done.scores),
                "epochs": len(done.epochs),
                "seconds": done.seconds,
            }
        )
    else:
        _tell(done)


def _tell(done: "Trained") -> None:
    from attnrate.training.train import ImageScores

    scores, count = done.scores, len(done.epochs)
    if isinstance(scores, ImageScores):
        typer.echo(
            f"test accuracy {100 * (1 - scores.test_error):.1f} % on {scores.tests:,} images"
        )
    else:
        table = Table()
        for name in ("English", "German of the program", "ours"):
            table.add_column(name, overflow="fold")
        for row in scores.samples:
            table.add_row(*map(Text, row))
        Console().print(table)
        known = "the documented" if scores.documented else "another"
        typer.echo(
            f"BLEU {scores.bleu:.2f} ± {scores.bleu_half:.2f} on {scores.tests:,} "
            f"sentences of {known} test set; {scores.signature}"
        )
    typer.echo(
        f"{count} epoch{'s' if count > 1 else ''} in {done.seconds / 60:.1f} min, "
        f"{done.seconds / count:.0f} s each; {done.folder / 'model.safetensors'}"
    )
