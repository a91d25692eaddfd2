"""The page of an answer: the verdict, the ladder with the models, the reasons, then each stage."""

from collections.abc import Sequence

from attnrate.choose.page.tables import TABLES, heads_table, ladder_table, race_table
from attnrate.choose.page.words import drift_words, facts, kernel_words, meanings, take
from attnrate.choose.result import Choice
from attnrate.choose.saved import ANSWER, MODEL
from attnrate.choose.verdict import MEANING
from attnrate.figures.figure import Figure
from attnrate.figures.words import duration
from attnrate.files import safe_name
from attnrate.pages.facts import FIGURES
from attnrate.pages.skeleton import Own, drawn, render

_PAGE = Own("attnrate.choose.page", "choose.html.j2", ("choose.css",), pictures=True)


def render_choice(choice: Choice, figures: Sequence[Figure]) -> str:
    """Make one HTML file that shows an answer.

    Args:
        choice: The answer.
        figures: Its figures. Their files are expected in figures/.

    Returns:
        The page as HTML.

    """
    about = choice.about
    parts = choice.ladder, choice.race, choice.heads, choice.kernel
    files = [name for name, part in zip(TABLES, parts, strict=True) if part is not None]
    return render(
        _PAGE,
        title=MEANING[choice.verdict].rstrip("."),
        source=about.source,
        answer=take(choice),
        pictures={each.name: drawn(each, f"{FIGURES}/{safe_name(each.name)}") for each in figures},
        because=[_sentence(line) for line in choice.because],
        ladder=None if choice.ladder is None else ladder_table(choice.ladder),
        race=None if choice.race is None else race_table(choice.race),
        heads=None if choice.heads is None else heads_table(choice.heads),
        kernel=None if choice.kernel is None else kernel_words(choice.kernel),
        said=[_sentence(line) for line in about.said],
        drift=None if choice.ladder is None else drift_words(choice.ladder),
        facts=facts(about, duration(choice.seconds)),
        words=meanings(choice),
        files=[*files, ANSWER],
        model=None if choice.model is None else MODEL,
        shape=f"(N, {about.window}, {len(about.inputs)})",
        framed=not about.whole,
    )


def _sentence(line: str) -> str:
    """A line as a sentence: with a capital, a full stop, and numbers that keep their per cent."""
    whole = line[:1].upper() + line[1:] + ("" if line.endswith((".", "?", "!")) else ".")
    return whole.replace(" %", "\u00a0%")
