"""Records of cases, one per case, and the table of their counts."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass

#: What a case can do wrong, each a column of the table
FAULTS = (
    "traceback",
    "wrong exit code",
    "lost",
    "left running",
    "overwritten",
    "over time",
    "crashed",
)
#: Exit codes that attnrate may end with: done, failed, wrong request, stopped
ALLOWED = (0, 1, 2, 130)


@dataclass(frozen=True)
class Seen:
    """One case: what was done in words, how it ended, and what was wrong with that.

    `code` is the exit code, or minus the number of the signal that ended the process; None if
    it did not end. `said` is the end of the text on stderr, kept for cases with a fault.
    """

    part: str
    group: str
    number: int
    what: str
    code: int | None
    faults: tuple[str, ...] = ()
    said: str = ""
    seconds: float = 0.0

    def to_line(self) -> str:
        """The record as one line of JSON."""
        return json.dumps(asdict(self))


def from_line(line: str) -> Seen:
    """The inverse of `Seen.to_line`."""
    plain = json.loads(line)
    return Seen(**{**plain, "faults": tuple(plain["faults"])})


def judged(code: int | None, stderr: str, allowed: Iterable[int] = ALLOWED) -> tuple[str, ...]:
    """The faults that an exit code and the text on stderr show by themselves."""
    faults = []
    if "Traceback (most recent call last)" in stderr:
        faults.append("traceback")
    if code not in allowed:
        faults.append("wrong exit code")
    return tuple(faults)


def print_table(every: list[Seen]) -> None:
    """Counts by part and group: tried, by exit code, by fault."""
    codes = sorted({seen.code for seen in every}, key=lambda code: (code is None, code))
    heads = ["none" if code is None else str(code) for code in codes]
    short = ["traceb.", "code", "lost", "running", "overwr.", "time", "crash"]
    print(
        f"{'part':10} {'of':24} {'tried':>6} |"
        + "".join(f"{head:>6}" for head in heads)
        + " |"
        + "".join(f"{name:>8}" for name in short)
    )
    groups: dict[tuple[str, str], list[Seen]] = {}
    for seen in every:
        groups.setdefault((seen.part, seen.group), []).append(seen)
    rows = [*groups.items(), (("", "all"), every)]
    for (part, group), cases in rows:
        by_code = Counter(seen.code for seen in cases)
        faults = Counter(fault for seen in cases for fault in seen.faults)
        print(
            f"{part:10} {group:24} {len(cases):6} |"
            + "".join(f"{by_code[code]:6}" for code in codes)
            + " |"
            + "".join(f"{faults[fault]:8}" for fault in FAULTS)
        )
