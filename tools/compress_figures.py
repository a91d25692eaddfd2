"""The figures of docs/compress, drawn from what the benchmarks of cuts have measured.

    python tools/compress_figures.py [FOLDER]

FOLDER, by default docs/compress, holds the files that benchmarks write by --out, and gets a picture
for each of them: content.json of benchmarks/compress.py, rotary.json of compress_rotary.py and
thin.json of compress_thin.py. A file that is not there is skipped.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attnrate.figures.draw import save_figure
from attnrate.figures.figure import Curves, Figure, Line, Scale, Series
from attnrate.statistics import mean

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "compress"
#: How models are written
MODELS = {"minilm": "MiniLM", "mpnet": "MPNet"}
#: Of the cuts of others, those among the best so many of any model and size are shown
BEST = 2
RIVALS, OURS = "rivals", "ours"
#: The ways of benchmarks/compress_rotary.py, as the legend has them, and whose they are
ROTARY = {
    "pairs by norm": ("pairs by norm", RIVALS),
    "PCA across key heads": ("PCA across key heads", RIVALS),
    "no refit": ("ours, elimination alone", OURS),
    "refit": ("ours, with refit", OURS),
    "refit, outputs": ("ours, with refit by outputs", OURS),
    "one set for all layers": ("ours, one set for all layers", OURS),
    "repair": ("ours, with refit and repair", OURS),
}
#: The tasks of benchmarks/compress_thin.py: a title and what its scores are
TASKS = {
    "vit": ("ViT on CIFAR-10, queries and keys 64 → 8", "accuracy on test images"),
    "translator": ("translator, queries and keys 48 → 8", "BLEU on test sentences"),
}
THIN = "trained thin"
#: The ways of benchmarks/compress_thin.py, in the order of the figure
WAYS = (THIN, "cut", "cut, each layer repaired", "cut, then all layers together", "whole")
_FAR_APART = 10  # values that differ by more than this factor stand on a logarithmic axis


def content(found: Mapping[str, Any]) -> Figure:
    """The change of the output by each way: our cuts beside the best of others."""
    groups: dict[str, dict[str, float]] = {}
    ours: dict[str, None] = {}
    for part in found["parts"].values():
        for row in part["rows"]:
            name = MODELS.get(row["model"], row["model"])
            group = groups.setdefault(f"{name}, {row['whole']} → {row['size']}", {})
            group[row["way"]] = row["change"]
            if row["by"] == "ours":
                ours[row["way"]] = None
    best: dict[str, None] = {}
    for group in groups.values():
        rivals = sorted((way for way in group if way not in ours), key=lambda way: group[way])
        best |= dict.fromkeys(rivals[:BEST])
    panel = Curves(
        "",
        "model, dimensions of queries and keys",
        "change of the output on texts held out, as a share of its size",
        (
            *(_over(groups, way, way, RIVALS) for way in best),
            *(_over(groups, way, way, OURS) for way in ours),
        ),
        ticks=tuple(groups),
    )
    caption = "Queries and keys of all layers cut at once; less is better."
    return Figure("content", "Queries and keys cut: change of the output", caption, (panel,))


def _over(groups: Mapping[str, Mapping[str, float]], way: str, label: str, by: str) -> Series:
    """What was measured of a way, over the groups that have it."""
    there = [(float(place), own[way]) for place, own in enumerate(groups.values()) if way in own]
    return Series(label, tuple(x for x, _ in there), tuple(y for _, y in there), group=by)


def rotary(found: Mapping[str, Any]) -> Figure:
    """The growth of perplexity by the pairs that are kept, for each way that leaves values."""
    groups: dict[str, dict[str, float]] = {}
    for row in found["rows"]:
        # the whole model grows by nothing, and stock Llama also loses dimensions of values
        if row["way"] in ROTARY:
            group = groups.setdefault(f"{row['kept']} of {row['pairs']}", {})
            group[row["way"]] = 100 * row["growth"]
    growths = [growth for group in groups.values() for growth in group.values()]
    panel = Curves(
        "",
        "pairs of queries and keys that are kept",
        "growth of perplexity on text held out, %",
        tuple(
            _over(groups, way, label, by)
            for way, (label, by) in ROTARY.items()
            if any(way in group for group in groups.values())
        ),
        y_scale=_scale(growths),
        ticks=tuple(groups),
    )
    caption = "Perplexity of SmolLM2-135M after pairs were dropped from its keys; less is better."
    return Figure("rotary", "SmolLM2-135M: growth of perplexity", caption, (panel,))


def _scale(values: Sequence[float]) -> Scale:
    """A logarithmic axis for values that are far apart, unless one of them has no place on it."""
    apart = bool(values) and min(values) > 0 and max(values) > _FAR_APART * min(values)
    return "log" if apart else "linear"


def thin(found: Mapping[str, Any]) -> Figure:
    """The scores of models trained thin, cut thin and whole: means with intervals over seeds."""
    panels = []
    for task, rows in found["scores"].items():
        title, what = TASKS.get(task, (task, "score"))
        shown = {way: mean(rows[way]) for way in WAYS if way in rows}
        means = [*shown.values()]
        line = Series(
            "mean over seeds with 95 % interval",
            tuple(float(place) for place in range(len(means))),
            tuple(each.value for each in means),
            tuple(each.low for each in means),
            tuple(each.high for each in means),
        )
        known = (Line("mean of those trained thin", y=shown[THIN].value),) if THIN in shown else ()
        panels.append(Curves(title, "", what, (line,), lines=known, ticks=tuple(shown)))
    caption = "The same head size by training from scratch and by cutting; more is better."
    return Figure("thin", "Trained thin or cut thin", caption, tuple(panels))


#: The figure of each file
FIGURES: dict[str, Callable[[Mapping[str, Any]], Figure]] = {
    "content.json": content,
    "rotary.json": rotary,
    "thin.json": thin,
}


def draw_all(folder: Path) -> list[Path]:
    """Draw the figure of each file that is in a folder, beside it.

    Args:
        folder: Where the files are.

    Returns:
        The pictures that were drawn.

    Raises:
        ValueError: A file has something else in it.

    """
    drawn = []
    for name, figure_of in FIGURES.items():
        file = folder / name
        if not file.exists():
            print(f"{name} is not in {folder}: no figure of it")
            continue
        try:
            figure = figure_of(json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, LookupError, TypeError, AttributeError) as problem:
            raise ValueError(
                f"{file} is not what the benchmark writes by --out ({problem!r}): write it again"
            ) from problem
        picture, vectors = save_figure(figure, folder)
        vectors.unlink()  # pages show the picture
        print(f"drew {picture}")
        drawn.append(picture)
    return drawn


def main() -> None:
    """Draw the figures of the folder that is asked for."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, metavar="FOLDER")
    asked = parser.parse_args()
    try:
        draw_all(asked.folder)
    except ValueError as problem:
        parser.error(str(problem))


if __name__ == "__main__":
    main()
