"""The page of a profile: what its heads need, what a cut saves and costs, then head by head."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attnrate.figures.figure import Cell, Figure, Table
from attnrate.figures.shades import shade, shades_between
from attnrate.figures.style import SEQUENTIAL
from attnrate.figures.words import NOTHING, number, unbroken
from attnrate.files import safe_name
from attnrate.pages.facts import FIGURES, facts_of
from attnrate.pages.skeleton import Own, drawn, render
from attnrate.spectra.advise import Advice
from attnrate.spectra.measures import percent
from attnrate.spectra.page.heads import heads_data
from attnrate.spectra.page.layers import by_part, label_of
from attnrate.spectra.page.savings import savings_of, savings_table, savings_words
from attnrate.spectra.page.subject import Subject
from attnrate.spectra.page.words import INTRO, SECTIONS, answer, map_words, meanings
from attnrate.spectra.result import Profile
from attnrate.spectra.summary import summary

if TYPE_CHECKING:
    import pandas as pd

_PAGE = Own(
    "attnrate.spectra.page", "profile.html.j2", ("profile.css",), ("heads.js",), pictures=True
)
_NEEDED = "needed-map"
_TALL = 48  # layers; of more, the rows of the map are lower


def render_profile(subject: Subject, figures: Mapping[str, Figure]) -> str:
    """One HTML file that shows what the model's attention uses and what smaller heads would do.

    Args:
        subject: The profile and its advice.
        figures: The figures of `profile_figures`. Their files are expected in figures/.

    Returns:
        The page as HTML.

    """
    profile, advice = subject.profile, subject.advice
    pictures = {
        name: drawn(figure, f"{FIGURES}/{safe_name(name)}")
        for name, figure in figures.items()
        if name != _NEEDED
    }
    sections = [
        {"id": id_, "title": title, "paragraph": paragraph, "figures": shown}
        for id_, title, paragraph, names in SECTIONS
        if (shown := [pictures[name] for name in names if name in pictures])
    ]
    found = savings_of(advice)
    return render(
        _PAGE,
        data={"heads": heads_data(subject)},
        title=f"What the attention of {profile.model} uses",
        answer=answer(advice),
        notes=str(advice).splitlines()[1:],
        intro=INTRO,
        map=_map(subject),
        saving={"lines": savings_words(found), "table": savings_table(found)},
        facts=_facts(profile),
        summary=summary(profile, subject.heads).splitlines(),
        advice={"line": str(advice).splitlines()[0], "table": _advice_table(advice)},
        words=meanings(profile),
        layers=_layer_table(subject),
        sections=sections,
    )


def _map(subject: Subject) -> dict[str, Any]:
    """The map of the sizes that heads need, for the template: its parts, rows and cells."""
    profile, advice = subject.profile, subject.advice
    needed = iter(subject.needed.tolist())
    sizes = iter(advice.layers)
    parts = []
    for name, layers in by_part(profile):
        rows = []
        for layer in layers:
            own = [next(needed) for _ in range(layer.heads)]
            cells = [(shade(size, 0.0, float(layer.m_h)), size) for size in own]
            advised = next(sizes)
            rows.append(
                {
                    "label": label_of(layer),
                    "name": layer.name,
                    "cells": cells,
                    "size": f"{advised.size}/{layer.m_h}",
                }
            )
        parts.append({"name": name, "rows": rows})
    return {
        "parts": parts,
        "columns": max(layer.heads for layer in profile.layers),
        "tall": len(profile.layers) > _TALL,
        "words": map_words(advice),
        "shades": shades_between(SEQUENTIAL, 13),
        "file": f"{FIGURES}/{_NEEDED}",
    }


def _facts(profile: Profile) -> list[tuple[str, str]]:
    """What was profiled and what made the profile, as (name, value)."""
    tokens = profile.tokens
    return [
        ("model", profile.model),
        ("family", profile.family),
        ("gauge", profile.gauge),
        ("inputs", str(len(tokens))),
        ("tokens", str(int(tokens.sum()))),
        *facts_of([profile.made_by]),
    ]


def _layer_table(subject: Subject) -> Table:
    """The table of the page with one row per layer."""
    rows: list[tuple[Cell, ...]] = []
    for layer in subject.profile.layers:
        heads = subject.heads[subject.heads.layer == layer.number]
        laws = Counter(heads.law).most_common()
        rows.append(
            (
                label_of(layer),
                layer.kind,
                layer.heads,
                layer.m_h,
                _spread(heads.rank99),
                _spread(heads.rank999),
                _percent(heads, "weights_loss99"),
                _percent(heads, "output_loss99"),
                ", ".join(unbroken(f"{law} {count}") for law, count in laws),
                layer.name,
            )
        )
    columns = (
        *("layer", "kind", "heads", "m_h", "rank 99 %", "rank 99.9 %"),
        *("attention moved", "output changed", "laws of decay", "name"),
    )
    note = (
        "Ranks are medians over the heads of a layer, with the least and the largest in brackets; "
        "what moves and changes is the median of what a cut to 99 % does."
    )
    return Table("One row per layer", columns, tuple(rows), note)


def _spread(ranks: "pd.Series[int]") -> str:
    """The median of some ranks, with the least and the largest in brackets."""
    return unbroken(f"{number(float(ranks.median()))} [{ranks.min()}–{ranks.max()}]")


def _percent(heads: "pd.DataFrame", column: str) -> str:
    """The median of a column of shares in percent; a dash where the table does not have it."""
    return unbroken(percent(heads[column].median())) if column in heads else NOTHING


def _advice_table(advice: Advice) -> Table:
    """The table of the advice with one row per layer."""
    columns = (
        *("layer", "m_h", "size advised", "could be as small as"),
        *("predicted to move", "high end of its interval", "name"),
    )
    rows = tuple(
        (
            label_of(layer),
            row.m_h,
            row.size,
            row.low,
            unbroken(percent(row.predicted)),
            unbroken(percent(row.predicted_high)),
            row.name,
        )
        for layer, row in zip(advice.profile.layers, advice.layers, strict=True)
    )
    title = f"At most {percent(advice.tolerance)} of any head's attention moved"
    return Table(title, columns, rows)
