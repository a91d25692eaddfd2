"""The command train."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnrate.cli.completing import words
from attnrate.cli.output import Command, JsonOption, app, fail, print_json
from attnrate.cli.stopping import STOPPED

if TYPE_CHECKING:
    from attnrate.training.train import Trained


@app.command(cls=Command, epilog="Example: attnrate train cifar10 --m-h 16 --out small-heads")
def train(
    task: Annotated[
        str,
        typer.Argument(
            help="cifar10: a ViT that classifies images. translation: a translator from English "
            "to German.",
            metavar="TASK",
            autocompletion=words("cifar10", "translation"),
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the model (default: the name of the task).", metavar="DIR"),
    ] = None,
    preset: Annotated[
        str,
        typer.Option(
            help="Size of the model. cpu: small enough for two cores. paper: the size of the "
            "paper, for a GPU.",
            metavar="cpu|paper",
            autocompletion=words("cpu", "paper"),
        ),
    ] = "cpu",
    m_h: Annotated[
        int | None, typer.Option(help="Head size (default: that of the preset).", metavar="N")
    ] = None,
    altered: Annotated[
        bool,
        typer.Option(
            "--altered",
            help="Train on the altered order of Table 1: the first ten tokens come last.",
        ),
    ] = False,
    epochs: Annotated[
        int | None,
        typer.Option(
            help="Number of passes over the data (default: 15 for cifar10, 4 for translation).",
            metavar="N",
        ),
    ] = None,
    lr: Annotated[
        float | None, typer.Option(help="Largest step size (default: 0.005).", metavar="X")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            help="Use only this many training examples and as many tests, to try something out "
            "(default: all).",
            metavar="N",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Seed of the first weights and of the batches.", metavar="N")
    ] = 0,
    threads: Annotated[
        int | None, typer.Option(help="Number of threads (default: one per core).", metavar="N")
    ] = None,
    precision: Annotated[
        str,
        typer.Option(
            help="Number format of the training; auto takes the faster one on this machine.",
            metavar="auto|float32|bfloat16",
            autocompletion=words("auto", "float32", "bfloat16"),
        ),
    ] = "auto",
    device: Annotated[
        str,
        typer.Option(
            help="Where to train: cpu, cuda, cuda:1, mps, …",
            metavar="DEVICE",
            autocompletion=words("cpu", "cuda", "mps"),
        ),
    ] = "cpu",
    as_json: JsonOption = False,
) -> None:
    """Train a ViT on CIFAR-10 or a translator from English to German, with any head size.

    The data are fetched if need be. After an interruption, the same command goes on at the last
    whole epoch.
    """
    from attnrate.training.train import train as run

    try:
        done = run(
            task,  # type: ignore[arg-type]  # `train` says which words it knows
            out,
            preset=preset,  # type: ignore[arg-type]
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
    """Print the scores of the trained model, where it is, and how long it took."""
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
