"""The paper from one call: run the experiments, judge their claims, write the page."""

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnrate.errors import InputError, hint
from attnrate.experiments.claims import Claim
from attnrate.experiments.record import Record
from attnrate.experiments.run import (
    FolderLike,
    NamesLike,
    PresetLike,
    conclude_folder,
    open_folder,
    records_in,
    require_names,
    run_experiments,
)
from attnrate.experiments.settle import Ending, HoursLike, Told, settle_experiments
from attnrate.pages.facts import PAGE
from attnrate.pages.skeleton import require_extra
from attnrate.report.page import write_report
from attnrate.report.settling import ending_lines, say_looked, say_open
from attnrate.report.terminal import counted, say_concluded, unfinished_line
from attnrate.report.verdicts import VERDICTS
from attnrate.settings import Count, Switch, checked
from attnrate.shown import Shown

if TYPE_CHECKING:
    import pandas as pd

    from attnrate.figures.drawing import Drawing


@dataclass(frozen=True, repr=False)
class Agreement(Shown):
    """How far two reproductions come to the same verdicts.

    Attributes:
        same: The number of claims that the first decides and on which the second agrees.
        of: The number of claims that the first decides and the second has too. Claims that the
            first leaves open do not count, because it does not cover them, nor do those that are
            not testable here, because it takes no run to see that.
        different: Each claim with two verdicts: "NAME: VERDICT / VERDICT".

    Examples:
        >>> print(ar.Agreement(same=1, of=2, different=("fig1-slope: holds / open",)))
        the same verdict in 1 of 2 claims that this one decides
          fig1-slope: holds / open

    """

    same: int
    of: int
    different: tuple[str, ...]

    def to_plain(self) -> dict[str, int | list[str]]:
        """The agreement as JSON values."""
        return {"same": self.same, "of": self.of, "different": [*self.different]}

    def __str__(self) -> str:
        said = f"the same verdict in {self.same} of {self.of} claims that this one decides"
        return "\n  ".join([said, *self.different])


@dataclass(frozen=True, repr=False)
class Reproduction(Shown):
    """What a reproduction found: a verdict on every claim, with figures and a page.

    Attributes:
        records: One record per experiment, with what it concluded.
        page: The HTML file that shows all of it.

    Examples:
        >>> done = ar.reproduce("propositions", workers=1, progress=False)
        >>> found = ar.Reproduction.read("reproduction-quick")
        >>> found.agreement(done)
        the same verdict in 8 of 8 claims that this one decides
        >>> found.to_frame()[["name", "verdict"]].iloc[0].tolist()
        ['propositions-equivariance', 'holds']

    """

    records: tuple[Record, ...]
    page: Path

    @classmethod
    @checked
    def read(cls, folder: FolderLike) -> "Reproduction":
        """Read the reproduction in a folder as it was last written.

        Args:
            folder: A folder that `reproduce` has made, such as docs/reproduction.

        """
        place, _ = open_folder(folder)
        return cls(tuple(records_in(place)), place / PAGE)

    @classmethod
    @checked
    def report(cls, folder: FolderLike) -> "Reproduction":
        """Conclude again from what is finished in a folder, and write its figures and page anew.

        Args:
            folder: A folder that `reproduce` has made. Nothing is run.

        """
        return cls._written(conclude_folder(folder))

    @classmethod
    def _written(cls, place: Path) -> "Reproduction":
        """Write the page of the records in a folder."""
        records = tuple(records_in(place))
        return cls(records, write_report(records, place))

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Every claim that was tested."""
        return tuple(claim for record in self.records for claim in record.claims)

    @property
    def failed(self) -> tuple[Record, ...]:
        """The records of the experiments in which something failed."""
        return tuple(record for record in self.records if record.failed is not None)

    @property
    def figures(self) -> tuple[str, ...]:
        """The names of all figures, which `plot` takes."""
        return tuple(self._drawn())

    def to_frame(self) -> "pd.DataFrame":
        """One row per claim: its name, its verdict, the number that decides and its interval."""
        import pandas as pd

        columns = ["name", "verdict", "value", "low", "high", "statement", "place", "experiment"]
        rows = [asdict(claim) for claim in self.claims]
        return pd.DataFrame(rows, columns=[*columns, "evidence", "correction"])

    def plot(self, figure: str) -> "Drawing":
        """Draw one of the figures.

        Args:
            figure: The name of a figure, one of `figures`.

        """
        from attnrate.figures.draw import draw

        drawn = self._drawn()
        if figure not in drawn:
            raise InputError("there is no figure {value}", figure, hint(str(figure), drawn))
        return draw(drawn[figure])

    def agreement(self, other: "Reproduction") -> Agreement:
        """How far another reproduction comes to the same verdicts.

        Args:
            other: Another reproduction. Claims that only one of the two has do not count.

        """
        theirs = {claim.name: claim.verdict for claim in other.claims}
        common = [claim for claim in self.claims if claim.name in theirs]
        decided = [claim for claim in common if claim.verdict not in ("open", "not testable here")]
        different = tuple(
            f"{claim.name}: {claim.verdict} / {theirs[claim.name]}"
            for claim in common
            if claim.verdict != theirs[claim.name]
        )
        agreed = [claim for claim in decided if claim.verdict == theirs[claim.name]]
        return Agreement(len(agreed), len(decided), different)

    def __str__(self) -> str:
        verdicts = [claim.verdict for claim in self.claims]
        counts = ", ".join(f"{v}: {verdicts.count(v)}" for v in VERDICTS if v in verdicts)
        experiments, claims = (
            counted(len(self.records), "experiment"),
            counted(len(verdicts), "claim"),
        )
        lines = [f"{experiments}, {claims}" + (f"; {counts}" if counts else "")]
        lines += [f"failed: {record.name}" for record in self.failed]
        lines += filter(None, [unfinished_line(self.records, self.page)])
        return "\n".join([*lines, f"the page: {self.page}"])

    def _table(self) -> "pd.DataFrame":
        return self.to_frame()[["name", "verdict", "value", "low", "high"]]

    def _drawn(self) -> dict[str, Any]:
        """Every figure by its name."""
        figures = (figure for record in self.records for figure in record.conclusion.figures)
        return {figure.name: figure for figure in figures}


@checked
def reproduce(
    names: NamesLike = (),
    preset: PresetLike = "quick",
    out: FolderLike | None = None,
    engine: str = "local",
    workers: Count | None = None,
    progress: Switch | None = None,
) -> Reproduction:
    """Run the experiments, judge each claim, and write figures, claims and a page into a folder.

    The experiments are the paper's figures and tables, and questions of our own about its theory.
    Every finished job is kept at once: called again after an interruption, it goes on.

    Args:
        names: The name of an experiment, or several: "fig1", ["table2", "mixing-rank"]. The
            default is all of them.
        preset: "quick" runs every experiment in small, in about ten minutes on two cores; "paper"
            runs the full grids with 5 seeds, in about nine hours.
        out: The folder for results, figures and page: a new one, an empty one, or one of an
            earlier call with the same preset. The default is reproduction-PRESET.
        engine: Where jobs run: "local", one process per core; "ray", the cluster at RAY_ADDRESS or
            one on this machine; or the address "ray://HOST:PORT" of a cluster.
        workers: The number of jobs that run at a time; the default is one per core.
        progress: None shows a live line on a terminal, and the verdicts of each experiment as soon
            as it is concluded; True also prints lines elsewhere; False shows nothing.

    Returns:
        The verdicts, with the records of all experiments in the folder and the page. An experiment
        that fails does not stop the others: `failed` has it.

    Raises:
        InputError: If a name or the preset is not known, or if the folder is somebody else's.

    Examples:
        >>> done = ar.reproduce("propositions", workers=1, progress=False)
        >>> print(done)
        1 experiment, 8 claims; holds: 3, holds when corrected: 4, does not hold: 1
        the page: reproduction-quick/index.html

    """
    require_extra()
    # asked now: while the live line is drawn, stderr is another
    shown = progress or (progress is None and sys.stderr.isatty())
    said = say_concluded if shown else None
    place = run_experiments(names, preset, out, engine, workers, progress, said)
    return Reproduction._written(place)


@dataclass(frozen=True, repr=False)
class SettledClaim(Shown):
    """A claim that the first look left open, and how settling has ended for it.

    Attributes:
        claim: The claim as it is now.
        ending: "decided"; "futile", where it would need more seeds than are worth it;
            "undecidable", where it stays open however many seeds there are; "all looks made";
            "out of time"; "failed", where a job of its look failed; "not finished", where jobs of
            the preset are not; or "can be settled", where no time was given.
        seeds: The number of seeds that its fits have now.
        needed: About how many seeds would decide it if its estimate and spread stay as they are;
            None if that is not known, or no number would.
        seconds: The time of its next look on one core, where there was no time for it; else 0.

    Examples:
        >>> claim = ar.Claim("fig1-half", "Sec. 5.1", "Twice the head size halves the error.",
        ...                  "fig1", "holds", "ratio", 0.41, 0.38, 0.45)
        >>> ar.SettledClaim(claim, "decided", seeds=12, needed=None, seconds=0.0)
        fig1-half: holds, with 12 seeds

    """

    claim: Claim
    ending: Ending
    seeds: int
    needed: float | None
    seconds: float

    def to_plain(self) -> dict[str, Any]:
        """The claim and how it has ended as JSON values."""
        return {**asdict(self), "claim": self.claim.to_plain()}

    def __str__(self) -> str:
        return ending_lines([self])[0]


@dataclass(frozen=True, repr=False)
class Settlement(Shown):
    """What settling came to: the reproduction as it is now, and the claims that were open.

    Attributes:
        reproduction: The verdicts of the folder, with its page.
        claims: Every claim that the first look left open.

    Examples:
        >>> done = ar.reproduce("propositions", workers=1, progress=False)
        >>> ar.settle(out=done.page.parent, progress=False)
        no claim is open

    """

    reproduction: Reproduction
    claims: tuple[SettledClaim, ...]

    @property
    def decided(self) -> tuple[SettledClaim, ...]:
        """The claims that later looks have decided."""
        return tuple(one for one in self.claims if one.ending == "decided")

    @property
    def failed(self) -> tuple[SettledClaim, ...]:
        """The claims of which a job failed."""
        return tuple(one for one in self.claims if one.ending == "failed")

    def to_frame(self) -> "pd.DataFrame":
        """One row per claim: its name, its verdict, how it ended, its seeds and those needed."""
        import pandas as pd

        rows = [
            (one.claim.name, one.claim.verdict, one.ending, one.seeds, one.needed)
            for one in self.claims
        ]
        return pd.DataFrame(rows, columns=["name", "verdict", "ending", "seeds", "needed"])

    def __str__(self) -> str:
        return "\n".join(ending_lines(self.claims))

    def _table(self) -> "pd.DataFrame":
        return self.to_frame()


@checked
def settle(
    names: NamesLike = (),
    out: FolderLike = Path("reproduction-quick"),
    hours: HoursLike | None = None,
    engine: str = "local",
    workers: Count | None = None,
    progress: Switch | None = None,
) -> Settlement:
    """Give the open claims of a reproduction more seeds, until they are decided.

    Work is spent only on claims that are open, and only on the fits that they rest on. They are
    looked at again with 5, 8, 12, 18, 27 and 40 seeds, as far as they have fewer, the widest
    interval against its limit first. Intervals are so much wider that a claim gets a wrong verdict
    with a probability of 5 % at most, all looks together. A claim is given up where the present
    estimate and spread would need very many seeds. Called again after an interruption, it goes on.

    Args:
        names: The name of an experiment, or several. The default is all of them.
        out: A folder that `reproduce` has made, with its results.
        hours: The time to spend. A look is begun only if it ends in time by what such fits have
            taken. 0 runs nothing and says what would be done; the default is no limit.
        engine: Where jobs run, as for `reproduce`.
        workers: The number of jobs that run at a time; the default is one per core.
        progress: None shows what happens on a terminal; True also prints lines elsewhere; False
            shows nothing.

    Returns:
        How it has ended for every claim that was open. If no look was made, the folder is as it
        was.

    Raises:
        InputError: If the folder is not one of `reproduce`, or has no results.

    Examples:
        >>> done = ar.reproduce("propositions", workers=1, progress=False)
        >>> ar.settle("propositions", done.page.parent, hours=0.5, progress=False).decided
        ()

    """
    require_extra()
    place, _ = open_folder(out)
    shown = progress or (progress is None and sys.stderr.isatty())
    told = Told(say_open, say_looked) if shown else None
    chosen = require_names("names", names)  # a default is not checked, and () stands for all
    ended = settle_experiments(chosen, place, hours, engine, workers, progress, told)
    claims = tuple(
        SettledClaim(
            one.open.claim,
            "can be settled" if hours == 0 and one.ending == "out of time" else one.ending,
            one.open.seeds,
            one.open.needed,
            one.open.seconds,
        )
        for one in ended
    )
    if any(one.now for one in ended):
        return Settlement(Reproduction._written(place), claims)
    return Settlement(Reproduction.read(place), claims)
