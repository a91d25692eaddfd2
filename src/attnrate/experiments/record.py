"""The record of one experiment: what it concluded, from what, kept as JSON."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnrate.errors import InputError, StoreError
from attnrate.experiments.claims import Claim
from attnrate.experiments.contract import Conclusion
from attnrate.figures.figure import (
    figure_from_plain,
    figure_to_plain,
    table_from_plain,
    table_to_plain,
)
from attnrate.files import write_whole
from attnrate.shown import Shown
from attnrate.typed import require_types

FORMAT = 1
_EMPTY = Conclusion((), (), (), ())


@dataclass(frozen=True, repr=False)
class Record(Shown):
    """An experiment that was run: what it concluded, from how many jobs, and what made them.

    Attributes:
        name: The name of the experiment on the command line.
        title: What it is about.
        place: Where the paper has it.
        preset: "quick" or "paper".
        tasks: The number of its jobs (the name that records of 0.1.0 have for it).
        finished: The number of jobs that are finished.
        seconds: The time of all of them, on one core.
        provenance: The versions and commits that computed the jobs.
        conclusion: Its paragraphs, figures, tables and claims.
        failed: Why it has no conclusion, or what else went wrong; None where all went well.

    """

    name: str
    title: str
    place: str
    preset: str
    tasks: int
    finished: int
    seconds: float
    provenance: dict[str, Any]
    conclusion: Conclusion = _EMPTY
    failed: str | None = None

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The claims that it tests."""
        return self.conclusion.claims

    @property
    def unfinished(self) -> int:
        """The number of jobs that are not finished: not run yet, or failed."""
        return self.tasks - self.finished

    def __str__(self) -> str:
        said = f"{self.name} ({self.preset}): {self.finished} of {self.tasks} jobs finished"
        if self.failed is not None:
            return f"{said}; failed"
        return f"{said}; {len(self.claims)} claims, {len(self.conclusion.figures)} figures"


def record_to_plain(record: Record) -> dict[str, Any]:
    """The record as JSON values."""
    said = record.conclusion
    return {
        "format": FORMAT,
        **{key: value for key, value in vars(record).items() if key != "conclusion"},
        "paragraphs": list(said.paragraphs),
        "figures": [figure_to_plain(figure) for figure in said.figures],
        "tables": [table_to_plain(table) for table in said.tables],
        "claims": [claim.to_plain() for claim in said.claims],
    }


def record_from_plain(plain: dict[str, Any]) -> Record:
    """The record that these JSON values describe; InputError for a record of another format."""
    if plain.get("format") != FORMAT:
        raise InputError(
            f"a record has the format {{value}}, not {FORMAT}", plain.get("format"), "Run it again."
        )
    said = Conclusion(
        tuple(plain["paragraphs"]),
        tuple(figure_from_plain(figure) for figure in plain["figures"]),
        tuple(table_from_plain(table) for table in plain["tables"]),
        tuple(Claim(**claim) for claim in plain["claims"]),
    )
    whole = {"format", "paragraphs", "figures", "tables", "claims"}
    record = Record(**{key: value for key, value in plain.items() if key not in whole})
    return replace(record, conclusion=said)


def save_record(record: Record, path: Path) -> None:
    """Write the record to a file, whole or not at all."""
    text = json.dumps(record_to_plain(record), indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(path, (text + "\n").encode())


def load_record(path: Path) -> Record:
    """Read the record in a file; StoreError where it cannot be read."""
    try:
        record = record_from_plain(json.loads(path.read_text(encoding="utf-8")))
        require_types(record)
        return record
    except InputError:
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as problem:
        raise StoreError(
            f"a record cannot be read ({type(problem).__name__}: {problem})",
            path,
            "Delete it; attnrate report writes it again from the finished jobs.",
        ) from problem
