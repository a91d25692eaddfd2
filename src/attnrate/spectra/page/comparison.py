"""The page of a comparison of two profiles and the files beside it: maps, heads.csv, JSON."""

import json
from pathlib import Path
from typing import Any

from attnrate.figures.draw import save_figure
from attnrate.figures.figure import Cell, Figure, Table
from attnrate.figures.words import change_words, signed
from attnrate.folders import filled_at_once, look_at
from attnrate.pages.facts import FIGURES, PAGE, facts_of
from attnrate.pages.skeleton import Own, drawn, render, require_extra
from attnrate.spectra.comparison import VERDICTS, Comparison, HeadChange
from attnrate.spectra.drawn import changes_figure
from attnrate.spectra.measures import counted

COMMAND = "profile --against"
_PAGE = Own("attnrate.spectra.page", "comparison.html.j2", pictures=True)
#: Heads in the table of those that changed; all of them are in heads.csv
_MOST_ROWS = 40
_INTRO = (
    "A head of attention compares tokens by vectors of m_h numbers. Does it use more or fewer of "
    "these dimensions than the same head of another model? This page answers it for every head "
    "that both models have, with intervals over the inputs."
)
_WORDS = (
    (
        "Rank for 99 %",
        "How many of the largest singular values of a head's logits together hold 99 % of their "
        "energy. Each input has such a rank, and so have all inputs together.",
    ),
    (
        "Change",
        "The mean of the rank over inputs after, less that before, with the interval that holds "
        "the true mean with 95 % confidence, for this head by itself.",
    ),
    (
        "Gained, lost",
        "The mean rank changed by more than half a dimension. With many heads some would seem to "
        "change by chance: Benjamini and Hochberg's rule keeps the share of these among the heads "
        "that are called gained or lost at 5 % on average.",
    ),
    ("Same", "The interval of the change lies within one dimension of none."),
    ("Open", "Neither: these inputs cannot tell. More inputs may."),
    (
        "Tail",
        "The root mean square of the logits beyond the rank that held 99 % of the energy before: "
        "what a head of that size would leave out, before and after.",
    ),
)


def write_comparison(found: Comparison, folder: object) -> Path:
    """Write index.html, figures/, heads.csv and comparison.json; return the path of index.html.

    The folder must be new, empty, or one that an earlier call has made. Either all files are
    written or none.
    """
    place = look_at(folder, COMMAND)[0]
    figure = changes_figure(found)
    page = render_comparison(found, figure)
    frame = found.to_frame()
    plain = json.dumps(comparison_to_plain(found), ensure_ascii=False, allow_nan=False)
    with filled_at_once(place, COMMAND) as fresh:
        (fresh / FIGURES).mkdir()
        save_figure(figure, fresh / FIGURES)
        table = frame.to_csv(index=False, lineterminator="\n")
        (fresh / "heads.csv").write_bytes(table.encode())
        (fresh / "comparison.json").write_bytes((plain + "\n").encode())
        (fresh / PAGE).write_bytes(page.encode())
    return place / PAGE


def check_folder(folder: object) -> None:
    """Raise the InputError now that `write_comparison` would raise later; touch nothing."""
    look_at(folder, COMMAND)
    require_extra(plots=False)


def comparison_to_plain(found: Comparison) -> dict[str, Any]:
    """The comparison as JSON values: words, counts, a row per head, and what was left out."""
    heads = found.to_frame().to_json(orient="records", double_precision=12)
    return {
        "before": found.before.model,
        "after": found.after.model,
        "gauge": found.after.gauge,
        "paired": found.paired,
        "summary": str(found),
        "counts": dict(found.counts),
        "heads": json.loads(heads),
        "unmatched": [vars(one) for one in found.unmatched],
        "made_by": {"before": dict(found.before.made_by), "after": dict(found.after.made_by)},
    }


def render_comparison(found: Comparison, figure: Figure) -> str:
    """One HTML file that shows the comparison; the files of its figure lie in figures/."""
    return render(
        _PAGE,
        title=f"{found.after.model} against {found.before.model}",
        intro=_INTRO,
        facts=_facts(found),
        summary=str(found).splitlines(),
        map=drawn(figure, f"{FIGURES}/{figure.name}"),
        changed=_changed(found),
        layers=_layers(found),
        unmatched=[str(one) for one in found.unmatched],
        words=_WORDS,
    )


def _facts(found: Comparison) -> list[tuple[str, str]]:
    """What was compared and what made the profiles, as (name, value)."""
    one, two = (str(len(each.tokens)) for each in (found.before, found.after))
    return [
        ("before", found.before.model),
        ("after", found.after.model),
        ("gauge", found.after.gauge),
        ("inputs", f"{one}, the same for both" if found.paired else f"{one} before, {two} after"),
        *facts_of([found.before.made_by, found.after.made_by]),
    ]


def _changed(found: Comparison) -> Table | None:
    """The table of the heads that gained or lost rank, the largest change first."""
    heads = [one for one in found.heads if one.verdict in ("gained", "lost")]
    heads.sort(key=lambda one: -abs(one.rank99.change.value))
    if not heads:
        return None
    columns = (
        *("layer", "head", "verdict", "rank before", "rank after"),
        *("change per input", "change of stable rank", "change of tail"),
    )
    shown = f", the {_MOST_ROWS} that changed most" if len(heads) > _MOST_ROWS else ""
    note = (
        "Ranks are those for 99 % of the energy of all inputs together. The last three columns are "
        "changes of the mean over inputs with their 95 % intervals."
    )
    title = f"{counted(len(heads), 'head')} that gained or lost rank{shown}"
    return Table(title, columns, tuple(map(_head_row, heads[:_MOST_ROWS])), note)


def _head_row(one: HeadChange) -> tuple[Cell, ...]:
    return (
        one.layer,
        one.head,
        one.verdict,
        int(one.rank99.before),
        int(one.rank99.after),
        change_words(one.rank99.change),
        change_words(one.stable_rank.change),
        change_words(one.tail.change),
    )


def _layers(found: Comparison) -> Table:
    """The table with one row per layer after."""
    rows: list[tuple[Cell, ...]] = []
    for layer in found.after.layers:
        heads = [one for one in found.heads if one.layer == layer.number]
        if not heads:
            continue
        counts = [sum(one.verdict == verdict for one in heads) for verdict in VERDICTS]
        changes = sorted(one.rank99.change.value for one in heads)
        ends = " to ".join(signed(changes[place], "+.2g") for place in (0, -1))
        rows.append((layer.number, layer.name, heads[0].name_before, len(heads), *counts, ends))
    columns = (
        *("layer", "name after", "name before", "heads", *VERDICTS),
        "change of the rank per input",
    )
    return Table("One row per layer", columns, tuple(rows))
