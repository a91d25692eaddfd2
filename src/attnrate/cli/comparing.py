"""What `attnrate profile --against` does: two models on the same inputs, and what it prints."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from attnrate.cli.output import print_json, print_table
from attnrate.figures.words import signed

if TYPE_CHECKING:
    from attnrate.cli.measuring import Measuring
    from attnrate.spectra.comparison import Comparison
    from attnrate.spectra.matching import Match
    from attnrate.spectra.result import Profile

_TITLE = "Dimensions for 99 % of the energy: heads that changed, and the change per input"
_COLUMNS = ("layer", "heads", "gained", "lost", "same", "open", "change (least to most)")


def require_there(source: str) -> None:
    """Raise an InputError now if the files of a model are not there or not whole, as far as seen.

    The model of --against is opened after the work on the first one: both may not fit into memory.
    """
    from attnrate.spectra.checkpoint import gguf_file, local_folder, open_checkpoint
    from attnrate.training.checkpoint import holds_model

    folder = local_folder(source)
    if folder is not None and gguf_file(source, folder) is None and not holds_model(folder):
        open_checkpoint(folder)


def compare_models(before: str, after: str, measuring: "Measuring", match: "Match") -> "Comparison":
    """Profile two models, one after the other, and compare them.

    Args:
        before: The folder or the hub id of the first model.
        after: The folder or the hub id of the second model.
        measuring: How both are opened and profiled.
        match: How layers belong together.

    Returns:
        The comparison.

    """
    from attnrate.spectra.compare import compare

    def profiled(source: str, known: str | None) -> "Profile":
        loaded, inputs = measuring.open(source)
        # two folders of one name are told apart by their paths
        name = source if loaded.name == known else loaded.name
        return measuring.profile(loaded, inputs, name, cut_inputs=0)

    new = profiled(after, None)
    return compare(profiled(before, new.model), new, match=match)


def tell_comparison(found: "Comparison", page: Path | None, as_json: bool) -> None:
    """Print a comparison: a table with one row per layer and its sentences, or JSON."""
    from attnrate.spectra.page.comparison import comparison_to_plain

    if as_json:
        print_json(comparison_to_plain(found) | {"page": None if page is None else str(page)})
        return
    print_table(_COLUMNS, _rows(found), _TITLE)
    typer.echo(str(found))
    if page is not None:
        typer.echo(f"the page: {page}")


def _rows(found: "Comparison") -> list[tuple[str, ...]]:
    """The cells of `_COLUMNS`, one row per layer that is compared."""
    from attnrate.spectra.comparison import VERDICTS

    rows: list[tuple[str, ...]] = []
    for layer in found.after.layers:
        heads = [one for one in found.heads if one.layer == layer.number]
        if heads:
            counts = (str(sum(one.verdict == each for one in heads)) for each in VERDICTS)
            changes = [one.rank99.change.value for one in heads]
            ends = (signed(each, "+.2g") for each in (min(changes), max(changes)))
            rows.append((str(layer.number), str(len(heads)), *counts, " to ".join(ends)))
    return rows
