"""The page of a reproduction and the files beside it: figures for papers, and the claims.

The page opens with one figure, every verdict of this run below that of the full run, and with five
sentences. Then come the claims, grouped by experiment, with their evidence folded.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attnrate.errors import InputError
from attnrate.experiments.claims import Claim
from attnrate.experiments.record import Record
from attnrate.figures.draw import save_figure
from attnrate.figures.figure import Figure
from attnrate.files import safe_name, safe_names, write_whole
from attnrate.folders import make_folder
from attnrate.pages.facts import FIGURES, PAGE, facts_of
from attnrate.pages.skeleton import Own, render
from attnrate.report.beside import Beside, compared
from attnrate.report.sentences import SENTENCES
from attnrate.report.thin import pruned
from attnrate.report.verdicts import VERDICTS, about_open, about_unfinished, claims_table, evidence

INTRO = (
    "What the theory of Jiang & Li, “Approximation Rate of the Transformer Architecture for "
    "Sequence Modeling”, says about attention, tested by computation: here, and in a full run."
)
TITLE = "How large attention has to be"


def write_report(records: Sequence[Record], folder: Path) -> Path:
    """Write figures/*.png and *.svg, claims.json, claims.md and index.html; return index.html.

    Each file is written whole or not at all. The page comes last, when everything that it links to
    is there.
    """
    figures = [figure for record in records for figure in record.conclusion.figures]
    names = [safe_name(figure.name).lower() for figure in figures]
    for figure, name in zip(figures, names, strict=True):
        if names.count(name) > 1:
            raise InputError(
                "two figures have the name {value}", figure.name, "Give each a name of its own."
            )
    make_folder(folder / FIGURES)
    for figure in figures:
        save_figure(figure, folder / FIGURES)
    claims = [claim.to_plain() for record in records for claim in record.claims]
    text = json.dumps(claims, indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(folder / "claims.json", (text + "\n").encode())
    write_whole(folder / "claims.md", claims_table(records).encode())
    page = folder / PAGE
    write_whole(page, render_page(records).encode())
    return page


def render_page(records: Sequence[Record], title: str = TITLE) -> str:
    """One HTML file that shows what the experiments found; its figure files lie in figures/."""
    ids = safe_names(record.name for record in records)
    claims = [claim for record in records for claim in record.claims]
    beside = compared(claims)
    entries = [
        _entry(place, one) for place, one in zip(_claim_ids(claims), beside.claims, strict=True)
    ]
    figures: dict[str, Figure] = {}
    sections, begun = [], 0
    for place, record in zip(ids, records, strict=True):
        drawn = [_drawn(figure, figures) for figure in record.conclusion.figures]
        end = begun + len(record.claims)
        section = {"id": f"experiment-{place}", "record": record, "figures": drawn}
        sections.append({**section, "claims": entries[begun:end]})
        begun = end
    here: Counter[str] = Counter(claim.verdict for claim in claims)
    full: Counter[str] = Counter(one.full.verdict for one in beside.claims if one.full)
    return render(
        Own("attnrate.report", "page.html.j2", styles=("claims.css",)),
        figures,
        verdicts=VERDICTS,
        title=title,
        intro=INTRO,
        sections=sections,
        sentences=SENTENCES,
        compared=beside,
        counts=[(verdict, full[verdict], here[verdict]) for verdict in VERDICTS],
        about_open=about_open(records),
        about_unfinished=about_unfinished(records),
        failures=sum(record.failed is not None for record in records),
        facts=facts_of([{"preset": one.preset, **one.provenance} for one in records]),
    )


@dataclass(frozen=True)
class _Entry:
    """A claim on the page: its place, its verdicts in both runs, and their evidence in words."""

    id: str
    claim: Claim
    beside: Beside
    here: str
    full: str


def _entry(place: str, one: Beside) -> _Entry:
    full = "" if one.full is None else evidence(one.full)
    return _Entry(place, one.here, one, evidence(one.here), full)


@dataclass(frozen=True)
class _Drawn:
    """A figure on the page: the place where it is drawn, "" if it is only said in sentences."""

    id: str
    file: str
    title: str
    figure: Figure
    panels: int
    few: tuple[str, ...]


def _drawn(figure: Figure, figures: dict[str, Figure]) -> _Drawn:
    """A figure for the page; what plotly draws of it is added to `figures`."""
    kept, few = pruned(figure)
    spot = ""
    if kept is not None:
        spot = f"plot-{len(figures) + 1}"
        figures[spot] = kept
    shown = figure if kept is None else kept
    file = f"{FIGURES}/{safe_name(figure.name)}"
    return _Drawn(spot, file, figure.title, shown, len(shown.panels), few)


def _claim_ids(claims: Sequence[Claim]) -> list[str]:
    return [f"claim-{name}" for name in safe_names(claim.name for claim in claims)]
