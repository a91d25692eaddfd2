"""What a reproduction says on a terminal: verdicts as they are concluded, and ten lines at the end.

No line of these is cut or longer than 80 columns, unless a name or a path alone is longer.
"""

import shlex
import sys
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from attnrate.experiments.record import Record
from attnrate.figures.words import clean, duration
from attnrate.report.beside import Beside, Compared, compared
from attnrate.report.verdicts import VERDICTS

_WIDTH = 80
_LINES = 10
_NAMED = 3  # at most so many claims that differ are named
_SETTLE = "open: more seeds may decide; attnrate reproduce --settle says how many"
_ADVICE = "open: too few results to tell; attnrate reproduce --preset paper decides more"


def say_concluded(record: Record) -> None:
    """Write the verdicts of an experiment on stderr, above the live line if there is one."""
    sys.stderr.write("\n".join(concluded_lines(record)) + "\n")
    sys.stderr.flush()


def concluded_lines(record: Record) -> list[str]:
    """An experiment with its verdicts, and those of the full run where they are others."""
    took = f"{counted(len(record.claims), 'claim')}, {duration(record.seconds)}"
    lines = _wrapped(clean(f"{record.name}: {record.title} ({took})"), "  ")
    for one in compared(record.claims).claims:
        verdict = one.here.verdict
        full = one.full.verdict if one.full and one.full.verdict != verdict else ""
        said = f"{VERDICTS[verdict].sign} {verdict}" + (f" (full run: {full})" if full else "")
        lines += _wrapped(f"  {said}: {clean(one.here.statement)}", "    ")
    if record.failed is not None:
        lines.append(f"  ✗ {clean(record.name)} failed; the reason comes at the end")
    return lines


def closing_lines(records: Sequence[Record], page: Path) -> list[str]:
    """What a run ends with, in at most ten lines: its verdicts beside those of the full run."""
    both = compared([claim for record in records for claim in record.claims])
    here: Counter[str] = Counter(one.here.verdict for one in both.claims)
    full: Counter[str] = Counter(one.full.verdict for one in both.claims if one.full)
    head = f"{counted(len(records), 'experiment')}, {counted(len(both.claims), 'claim')}"
    lines = [f"{head:<36}{'full run':>10}{'this run':>10}"]
    for verdict, look in VERDICTS.items():
        if here[verdict] or full[verdict]:
            said = f"  {look.sign} {verdict}"
            lines.append(f"{said:<36}{full[verdict]:>10}{here[verdict]:>10}")
    lines += (comparison := _comparison(both))
    failed = [clean(record.name) for record in records if record.failed is not None]
    left = unfinished_line(records, page)
    if failed:
        lines.append(f"failed: {', '.join(failed)}")
    if left:
        lines.append(left)
    elif here["open"] and any(record.preset == "quick" for record in records):
        lines.append(_ADVICE)
    elif here["open"]:
        lines.append(_SETTLE)
    lines.append(f"the page: {page}")
    # with all six verdicts, and with jobs that failed beside some that are not finished
    return lines if len(lines) <= _LINES else [one for one in lines if one not in comparison]


def unfinished_line(records: Sequence[Record], page: Path) -> str:
    """How many jobs are not finished, and the command that goes on; "" if all are finished."""
    left = [record for record in records if record.unfinished]
    if not left:
        return ""
    jobs = sum(record.tasks for record in left)
    names = " ".join(record.name for record in left)
    options = f"--preset {left[0].preset} --out {shlex.quote(str(page.parent))}"
    unfinished = f"{sum(one.unfinished for one in left):,} of {counted(jobs, 'job')}"
    return f"not finished: {unfinished}; attnrate reproduce {names} {options} goes on"


def counted(count: int, noun: str) -> str:
    """A number of things, in words: "1 claim", "2 claims"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _comparison(both: Compared) -> list[str]:
    """How many claims both runs decide, and which of them differ."""
    same, differ = both.having("agrees"), both.having("differs")
    if not same and not differ:
        return []
    said = f"both runs decide {len(same) + len(differ)}: {len(same)} agree, {len(differ)} differ"
    named = f"{said} ({', '.join(_names(differ))})"
    if differ and len(named) <= _WIDTH and len(differ) <= _NAMED:
        return [named]
    return [f"{said}; the page says which" if differ else said]


def _names(claims: Sequence[Beside]) -> list[str]:
    return [clean(one.here.name) for one in claims]


def _wrapped(text: str, indent: str) -> list[str]:
    """The text in lines of at most 80 columns, all but the first with this indentation."""
    return textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_on_hyphens=False)
