"""The tables of an answer: as CSV files beside the page, and in words on it."""

from typing import TYPE_CHECKING

from attnrate.choose.contender import contender
from attnrate.choose.heads import Heads
from attnrate.choose.ladder import Ladder
from attnrate.choose.race import Race, Racer
from attnrate.choose.result import Choice
from attnrate.choose.verdict import share
from attnrate.figures.figure import Cell, Table
from attnrate.figures.words import NOTHING, number, unbroken, with_interval
from attnrate.statistics import Interval

if TYPE_CHECKING:
    import pandas as pd

#: The names of all CSV files that an answer can have
TABLES = ("ladder.csv", "race.csv", "heads.csv", "kernel.csv")


def csv_of(choice: Choice) -> dict[str, str]:
    """Give the tables of an answer as CSV, by the names of their files.

    Args:
        choice: The answer.

    """
    parts = choice.ladder, choice.race, choice.heads, choice.kernel
    return {
        name: _csv(part.to_frame())
        for name, part in zip(TABLES, parts, strict=True)
        if part is not None
    }


def _csv(frame: "pd.DataFrame") -> str:
    return frame.to_csv(index=False, lineterminator="\n")


def ladder_table(ladder: Ladder) -> Table:
    """Give the table of the classes, from the poorest to the richest.

    Args:
        ladder: The ladder.

    """
    rows = tuple(
        (
            rung.name,
            rung.words,
            rung.features,
            number(rung.lower.low),
            number(rung.upper.value),
            number(rung.upper.high),
        )
        for rung in ladder.rungs
    )
    columns = (
        *("class", "what it is", "coefficients"),
        *("left at least", "left of what was held out", "at most"),
    )
    return Table("Shares of the variance left by the best map of each class", columns, rows)


def race_table(race: Race) -> Table:
    """Give the table of the models of a race, the best first.

    Args:
        race: The race.

    """
    columns = (
        *("model", "parameters", "left of the variance", "error beside the best"),
        *("as good", "diverged", "seconds to train", "seconds for 1,000 samples"),
        "memory to train, MB",
    )
    note = (
        f"{_counted(race.folds, 'stretch', 'stretches')} held out in turn, "
        f"{_counted(race.seeds, 'seed', 'seeds')} for each model that is trained, "
        f"{race.steps:,} steps a fit. Seconds are those of one core of the machine that ran it; "
        "memory is an estimate without the data."
    )
    return Table("Models of the race", columns, tuple(map(_racer, race.racers)), note)


def _racer(each: Racer) -> tuple[Cell, ...]:
    part = unbroken(share(each.share)) if each.mse.known else NOTHING
    return (
        each.title,
        each.parameters,
        part,
        number(each.ratio),
        "yes" if each.tied else "no",
        f"{each.diverged} of {each.fits}",
        number(each.seconds),
        number(each.inference),
        number(each.memory / 1e6),
    )


def heads_table(heads: Heads) -> Table:
    """Give the table of the head sizes, the smallest first.

    Args:
        heads: The head sizes.

    """
    largest = heads.sizes[-1].m_h
    columns = (
        *("m_h", "parameters", f"error beside m_h = {largest}", "surely at most"),
        *("difference of the error", "enough", "diverged fits"),
    )
    rows = tuple(
        (
            each.m_h,
            each.parameters,
            number(each.ratio),
            number(each.ratio_high),
            _interval(each.difference),
            "yes" if each.enough else "no",
            each.diverged,
        )
        for each in heads.sizes
    )
    title = f"Head sizes: {contender(heads.name).title}"
    return Table(title, columns, rows, "Differences are in units of the data, squared.")


def _interval(part: Interval) -> str:
    return unbroken(with_interval(part.value, part.low, part.high))


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
