"""The page of a reproduction and the files beside it: figures for papers, and the claims.

The page has the verdicts first, then one section per experiment.
"""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from attnrate.errors import InputError
from attnrate.experiments.record import Record
from attnrate.figures.draw import save_figure
from attnrate.figures.figure import Figure
from attnrate.files import safe_name, safe_names, write_whole
from attnrate.folders import make_folder
from attnrate.pages.facts import FIGURES, PAGE, facts_of
from attnrate.pages.skeleton import Own, render
from attnrate.report.verdicts import VERDICTS, about_open, about_unfinished, claims_table, evidence

INTRO = (
    "What the theory of Jiang & Li, “Approximation Rate of the Transformer Architecture for "
    "Sequence Modeling”, says about attention, tested by computation. Each claim below, of the "
    "paper or an answer to a question of our own, has a verdict, the number that decides it, and "
    "the experiment with its figures."
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
    claim_ids = iter(safe_names(claim.name for record in records for claim in record.claims))
    figures: dict[str, Figure] = {}
    sections = []
    for place, record in zip(ids, records, strict=True):
        drawn = []
        for figure in record.conclusion.figures:
            spot, file = f"plot-{len(figures) + 1}", f"{FIGURES}/{safe_name(figure.name)}"
            figures[spot] = figure
            panels = len(figure.panels)
            drawn.append({"id": spot, "file": file, "figure": figure, "panels": panels})
        claims = [
            {"id": f"claim-{next(claim_ids)}", "claim": claim, "evidence": evidence(claim)}
            for claim in record.claims
        ]
        section = {"id": f"experiment-{place}", "record": record}
        sections.append({**section, "claims": claims, "figures": drawn})
    found: Counter[str] = Counter(claim.verdict for record in records for claim in record.claims)
    return render(
        Own("attnrate.report", "page.html.j2"),
        figures,
        verdicts=VERDICTS,
        title=title,
        intro=INTRO,
        sections=sections,
        counts=[(verdict, found[verdict]) for verdict in VERDICTS],
        about_open=about_open(records),
        about_unfinished=about_unfinished(records),
        failures=sum(record.failed is not None for record in records),
        facts=facts_of([{"preset": one.preset, **one.provenance} for one in records]),
    )
