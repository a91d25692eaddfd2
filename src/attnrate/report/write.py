"""A report as files: figures for papers, the claims as JSON, the page."""

import json
from collections.abc import Sequence
from pathlib import Path

from attnrate.errors import InputError
from attnrate.experiments.record import Record
from attnrate.figures.draw import save_figure
from attnrate.files import safe_name, write_whole
from attnrate.folders import make_folder
from attnrate.report.markdown import claims_table
from attnrate.report.page import FIGURES, render_page

#: The page of a folder
PAGE = "index.html"
TITLE = "How large attention has to be"


def write_report(records: Sequence[Record], folder: Path, title: str = TITLE) -> Path:
    """Write figures/*.png and *.svg, claims.json, claims.md and index.html, which is returned.

    Each file is written whole or not at all; the page comes last, when all it links to is there.
    """
    figures = [figure for record in records for figure in record.conclusion.figures]
    names = [safe_name(figure.name).lower() for figure in figures]
    for figure, name in zip(figures, names, strict=True):
        if names.count(name) > 1:
            raise InputError(
                "two figures have the same file", figure.name, "Give each a name of its own."
            )
    make_folder(folder / FIGURES)
    for figure in figures:
        save_figure(figure, folder / FIGURES)
    claims = [claim.to_plain() for record in records for claim in record.claims]
    text = json.dumps(claims, indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(folder / "claims.json", (text + "\n").encode())
    write_whole(folder / "claims.md", claims_table(records).encode())
    page = folder / PAGE
    write_whole(page, render_page(records, title).encode())
    return page
