"""What was looked at again in a folder: a small file, and the verdicts that follow from it.

`settled.json` says of each claim that was open which cells were given more seeds, and how wide
intervals are at each look. Together with the store it gives the same verdicts again. A look counts
when all of its jobs are finished; until then the verdict is that of the look before.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from attnrate.errors import StoreError
from attnrate.experiments.claims import Claim
from attnrate.experiments.contract import Conclusion, Results
from attnrate.experiments.replicas import Cell
from attnrate.files import write_whole
from attnrate.fitting.job import Job, Sized
from attnrate.statistics import at_level

FILE = "settled.json"
FORMAT = 1


@dataclass(frozen=True)
class Again:
    """A look at a claim after the first.

    Attributes:
        seeds: The number of seeds that its cells have.
        level: The level of all intervals.
        cells: The keys of the cells that have so many seeds; all others have those of the plan.

    """

    seeds: int
    level: float
    cells: tuple[str, ...]

    def further(self, cells: Mapping[str, Cell]) -> tuple[Sized[Job], ...]:
        """Its jobs beyond the plan."""
        return tuple(one for key in self.cells for one in cells[key].until(self.seeds))

    def planned(self, cells: Mapping[str, Cell]) -> bool:
        """Whether the plan still has all of its cells."""
        return all(key in cells for key in self.cells)


@dataclass(frozen=True)
class Settling:
    """A claim that was open, with all looks that were begun.

    Attributes:
        claim: The name of the claim.
        experiment: The name of its experiment.
        first: The number of seeds of the first look, that of the preset.
        looks: The later looks, each with more seeds than the one before.

    """

    claim: str
    experiment: str
    first: int
    looks: tuple[Again, ...]


@dataclass(frozen=True)
class _File:
    format: int
    claims: tuple[Settling, ...]


def load_settled(place: Path) -> tuple[Settling, ...]:
    """What was looked at again in a folder; () where nothing was. StoreError for a broken file."""
    path = place / FILE
    if not path.exists():
        return ()
    try:
        found = TypeAdapter(_File).validate_json(path.read_bytes())
    except (OSError, ValidationError) as problem:
        raise StoreError(
            f"what was settled cannot be read ({type(problem).__name__})",
            path,
            "Delete it: all claims are then as the preset leaves them, and can be settled again.",
        ) from problem
    if found.format != FORMAT:
        raise StoreError(
            f"what was settled has the format {found.format}, not {FORMAT}",
            path,
            "Use that version of attnrate.",
        )
    return found.claims


def save_settled(place: Path, settlings: Iterable[Settling]) -> None:
    """Write what was looked at again, the whole file or nothing of it."""
    ordered = sorted(settlings, key=lambda one: one.claim)
    text = json.dumps({"format": FORMAT, "claims": [asdict(one) for one in ordered]}, indent=1)
    write_whole(place / FILE, (text + "\n").encode())


def further_jobs(
    settlings: Iterable[Settling], cells: Mapping[str, Cell]
) -> tuple[Sized[Job], ...]:
    """All jobs beyond the plan that were begun, each once."""
    begun = {
        one.job.key: one
        for settling in settlings
        for look in settling.looks
        if look.planned(cells)
        for one in look.further(cells)
    }
    return tuple(begun.values())


@dataclass(frozen=True)
class Seen:
    """A claim as of the last look at it that is finished; None where only the first one is."""

    claim: Claim
    results: Results
    look: Again | None


def seen(
    settling: Settling,
    first: Claim,
    plan: Sequence[Job],
    cells: Mapping[str, Cell],
    finished: Callable[[Sequence[Job]], Results | None],
    conclude: Callable[[Results], Conclusion],
) -> Seen:
    """The verdict on a claim by the first finished look that decides, else by the last.

    Args:
        settling: The claim with its looks.
        first: The claim as the first look leaves it.
        plan: The jobs of the preset.
        cells: The cells of these.
        finished: Gives the results of jobs, None where one of them is not finished.
        conclude: The conclusion of the experiment.

    """
    found = Seen(first, finished(plan) or Results(), None)
    for look in settling.looks:
        if found.claim.verdict != "open" or not look.planned(cells):
            break
        results = finished([*plan, *(one.job for one in look.further(cells))])
        if results is None:
            break
        found = Seen(claim_at(settling.claim, results, look.level, conclude), results, look)
    if found.look is None:
        return found
    said = _said(found.claim, found.look)
    return replace(found, claim=replace(found.claim, evidence=said))


def claim_at(
    name: str, results: Results, level: float, conclude: Callable[[Results], Conclusion]
) -> Claim:
    """The claim of that name, concluded with intervals of a level."""
    with at_level(level):
        return next(one for one in conclude(results).claims if one.name == name)


def _said(claim: Claim, look: Again) -> str:
    """The evidence, with a sentence on the look that it is from."""
    return (
        f"{claim.evidence} Settled: looked at again with {look.seeds} seeds, with intervals of "
        f"{100 * look.level:.3g} % (docs/settling.md)."
    )
