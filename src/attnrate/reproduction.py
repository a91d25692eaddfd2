"""The paper from one call: run the experiments, write the page."""

from dataclasses import dataclass
from pathlib import Path

from attnrate.experiments.claims import Claim
from attnrate.experiments.record import Record
from attnrate.experiments.run import conclude_folder, open_folder, records_in, run_experiments
from attnrate.report.page import PAGE, write_report
from attnrate.report.skeleton import require_extra
from attnrate.report.verdicts import VERDICTS


@dataclass(frozen=True)
class Reproduction:
    """What was run and found; `page` is the HTML file."""

    records: tuple[Record, ...]
    page: Path

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Every claim that was tested."""
        return tuple(claim for record in self.records for claim in record.claims)

    @property
    def failed(self) -> tuple[Record, ...]:
        """The experiments of which something failed."""
        return tuple(record for record in self.records if record.failed is not None)

    def __str__(self) -> str:
        verdicts = [claim.verdict for claim in self.claims]
        counts = ", ".join(f"{v}: {verdicts.count(v)}" for v in VERDICTS if v in verdicts)
        lines = [f"{len(self.records)} experiments, {len(verdicts)} claims; {counts}"]
        lines += [f"failed: {record.name}" for record in self.failed]
        return "\n".join([*lines, f"the page: {self.page}"])


def reproduce(
    names: object = (),
    preset: object = "quick",
    out: object = None,
    engine: object = "local",
    workers: object = None,
    progress: bool | None = None,
) -> Reproduction:
    """Run the experiments of the paper (all, or those named) and write figures, claims and page.

    preset="quick" takes minutes on two cores, "paper" hours: the full grids with 5 seeds. `out` is
    a folder, reproduction-PRESET if None. What is finished is kept at once; called again after an
    interruption, it goes on. `engine` and `workers` are those of `sweep`.
    """
    require_extra()
    return _written(run_experiments(names, preset, out, engine, workers, progress))


def report(folder: object) -> Reproduction:
    """Conclude again from the finished trials of a folder and write figures, claims and page."""
    return _written(conclude_folder(folder))


def read(folder: object) -> Reproduction:
    """The reproduction in a folder as it was last written, such as the one in docs/."""
    place, _ = open_folder(folder)
    return Reproduction(tuple(records_in(place)), place / PAGE)


def _written(place: Path) -> Reproduction:
    records = tuple(records_in(place))
    return Reproduction(records, write_report(records, place))


def agreement(one: Reproduction, other: Reproduction) -> tuple[int, int, list[str]]:
    """In how many of the claims that `one` decides `other` agrees, of how many, and the others.

    Claims that `one` leaves open are listed but not counted: it does not cover them. Nor are those
    that are not testable: that they are not takes no run to see.
    """
    theirs = {claim.name: claim.verdict for claim in other.claims}
    common = [claim for claim in one.claims if claim.name in theirs]
    decided = [claim for claim in common if claim.verdict not in ("open", "not testable here")]
    different = [
        f"{claim.name}: {claim.verdict} / {theirs[claim.name]}"
        for claim in common
        if claim.verdict != theirs[claim.name]
    ]
    agreed = [claim for claim in decided if claim.verdict == theirs[claim.name]]
    return len(agreed), len(decided), different
