"""The figures of docs/choose, drawn from what the benchmark of `choose` has measured.

    python tools/choose_figures.py [FOLDER]

FOLDER, by default docs/choose, holds the files that benchmarks/choose.py writes by --out: sets.json
with the parts on drawn sets, and real.json with those on real series. A figure whose part is not
there is skipped.
"""

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attnrate.figures.draw import save_figure
from attnrate.figures.figure import Curves, Figure, Line, Series

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "choose"
#: The verdict that is right for each kind of drawn set of benchmarks/choose.py
RIGHT = {
    "nothing": "nothing",
    "memoryless": "memoryless",
    "filter": "linear",
    "permuted": "linear",
    "additive": "short-memory",
    "attention": "pairwise",
}
#: Errors beyond this stand on a logarithmic axis
_FAR = 3.0
#: How memories of drawn sets are written
MEMORY = {0.0: "independent tokens", 0.9: "tokens with correlation 0.9"}


def truths(part: Mapping[str, Any]) -> Figure:
    """The share of right verdicts against the noise, for each kind of truth."""
    panels = []
    noises = sorted({row["noise"] for row in part["rows"]})
    for memory, title in MEMORY.items():
        shares: dict[str, dict[float, float]] = {}
        for row in part["rows"]:
            if row["memory"] == memory:
                found = row["verdicts"]
                right = found.get(RIGHT[row["kind"]], 0) / sum(found.values())
                shares.setdefault(row["kind"], {})[row["noise"]] = 100 * right
        # beside each other, as most of them lie at 100 %
        wide = 0.6 / max(1, len(shares) - 1)
        series = tuple(
            Series(
                kind,
                tuple(place + wide * at - 0.3 for place, noise in enumerate(noises)),
                tuple(share[noise] for noise in noises),
            )
            for at, (kind, share) in enumerate(shares.items())
        )
        panels.append(
            Curves(
                title,
                "noise, as a multiple of the signal",
                "right verdicts, %",
                series,
                lines=(Line("required over all: 95 %", y=95),),
                ticks=tuple(f"{noise:g}" for noise in noises),
            )
        )
    caption = "Verdicts of the ladder on sets whose truth is known, by kind of truth."
    count = sum(sum(row["verdicts"].values()) for row in part["rows"])
    return Figure("truths", f"Right verdicts on {count} drawn sets", caption, tuple(panels))


def regret(part: Mapping[str, Any]) -> Figure:
    """The share of tasks within a regret, for each rule: the further up and left the better."""
    series = []
    for row in part["rows"]:
        errors = sorted(row["regrets"])
        count = len(errors)
        series.append(
            Series(
                f"{row['rule']} (median {row['median']:.3f})",
                tuple(errors),
                tuple(100 * (at + 1) / count for at in range(count)),
                group=row["rule"],
            )
        )
    panel = Curves(
        "",
        "error beside the best of the long race",
        "tasks with at most this, %",
        tuple(series),
        x_scale="log" if max(max(one.x) for one in series) > _FAR else "linear",
        lines=(Line("required of choose at 90 %: 1.10", x=1.10),),
    )
    caption = "Tasks with an answer; left and up is better."
    title = f"Regret on {part['tasks']} tasks of real series, by rule"
    return Figure("regret", title, caption, (panel,))


#: The figure of each part, with the file that the part is in
FIGURES: dict[tuple[str, str], Callable[[Mapping[str, Any]], Figure]] = {
    ("sets.json", "truths"): truths,
    ("real.json", "regret"): regret,
}


def draw_all(folder: Path) -> list[Path]:
    """Draw the figure of each part that is in a folder, beside its file.

    Args:
        folder: Where the files are.

    Returns:
        The pictures that were drawn.

    Raises:
        ValueError: A file has something else in it.

    """
    drawn = []
    for (name, part), figure_of in FIGURES.items():
        file = folder / name
        try:
            parts = json.loads(file.read_text(encoding="utf-8"))["parts"] if file.exists() else {}
            if part not in parts:
                print(f"{part} is not in {file}: no figure of it")
                continue
            figure = figure_of(parts[part])
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
