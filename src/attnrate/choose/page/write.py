"""The files of an answer: its page, figures, tables, the answer as JSON, and the fitted winner."""

import json
from pathlib import Path

from attnrate.choose.drawn import figures_of
from attnrate.choose.page.render import render_choice
from attnrate.choose.page.tables import TABLES, csv_of
from attnrate.choose.result import Choice
from attnrate.choose.saved import ANSWER, COMMAND, MODEL, kept_of
from attnrate.figures.draw import save_figure
from attnrate.folders import filled_at_once, look_at
from attnrate.pages.facts import FIGURES, PAGE
from attnrate.pages.skeleton import require_extra


def write(choice: Choice, folder: Path) -> Path:
    """Write index.html and the files beside it: figures, tables, choose.json and the model.

    The folder must be new, empty, or one that an earlier call has made. Either all files are
    written or none.

    Args:
        choice: The answer.
        folder: The folder.

    Returns:
        The path of index.html.

    Raises:
        InputError: The folder holds something else, or cannot be written.
        StoreError: The disk is full.

    """
    place = look_at(folder, COMMAND)[0]
    require_extra(plots=False)
    figures = figures_of(choice)
    page = render_choice(choice, figures)
    plain = json.dumps(choice.to_plain() | kept_of(choice), ensure_ascii=False, allow_nan=False)
    texts = {**csv_of(choice), ANSWER: plain + "\n", PAGE: page}
    with filled_at_once(place, COMMAND) as fresh:
        (fresh / FIGURES).mkdir()
        for figure in figures:
            save_figure(figure, fresh / FIGURES)
        for name, text in texts.items():
            # names of files and columns may hold bytes that are no text
            (fresh / name).write_bytes(text.encode(errors="replace"))
        if choice.model is not None:
            choice.model.save(fresh / MODEL)
        # what an earlier answer had and this one has not would be taken for its own
        for name in {*TABLES, MODEL} - {each.name for each in fresh.iterdir()}:
            if (place / name).is_file():
                (place / name).unlink()
    return place / PAGE


def check_folder(folder: str | Path) -> None:
    """Raise the InputError now that `write` would raise after the work; touch nothing.

    Args:
        folder: The folder.

    """
    look_at(folder, COMMAND)
    require_extra(plots=False)
