"""Sentences for people about their data: what was counted, left out and assumed, and faults."""

import numpy as np

from attnrate.choose.cells import counted, ignoring
from attnrate.choose.columns import Table
from attnrate.choose.leaks import find_leaks
from attnrate.choose.samples import Samples
from attnrate.choose.windows import Windows, apart

#: Windows that do not overlap, and sequences of a panel, that an answer needs
_WINDOWS, _SEQUENCES = 8, 50
#: Variances of wanted columns that differ by more than this factor are said to
_UNLIKE = 4.0
#: The share of the windows below which those left are said to be few
_FEW = 0.25


def of_leaks(table: Table, length: int, horizon: int) -> tuple[list[str], list[str]]:
    """Faults of covariates that give the target away, and sentences about harmless copies of it."""
    forbidden = 1 if horizon else 0
    faults, said = [], []
    for leak in find_leaks(
        table.values,
        table.first,
        table.targets,
        table.covariates,
        length + horizon,
        forbidden,
    ):
        what = f"column {leak.column!r} is the target {leak.target!r} {leak.when}"
        what += f" (correlation {leak.correlation:.6f})"
        if leak.shift >= forbidden:
            faults.append(f"{what}: leave it out by {ignoring(leak.column)}")
        elif horizon:
            said.append(f"{what}, which the window holds already")
        else:
            said.append(what)
    return faults, said


def of_constants(table: Table) -> list[str]:
    """Faults of targets that never change."""
    faults = []
    for name, values in zip(table.targets, table.values.T, strict=False):
        there = values[~np.isnan(values)]
        if there.size and there.min() == there.max():
            faults.append(
                f"the target {name!r} is {there[0]:g} in all rows: nothing can be learned"
            )
    return faults


def of_size(samples: Samples, series: int) -> list[str]:
    """Faults of samples of which there are too few for an answer.

    Args:
        samples: The samples.
        series: The number of series that they are windows of.

    """
    if samples.whole:
        if samples.count >= _SEQUENCES:
            return []
        return [
            f"there are too few data: {samples.count:,} sequences, and an answer needs at least "
            f"{_SEQUENCES}, because some are held out to try what was learned from the others"
        ]
    count = apart(*samples.moments(), _WINDOWS)
    if count >= _WINDOWS:
        return []
    rows = samples.reach
    inside = " in the time of all series together" if series > 1 else ""
    return [
        f"there are too few data: window + horizon = {rows:,} rows fit one after another without "
        f"overlap only {counted(count, 'time')}{inside}, and an answer needs at least {_WINDOWS}, "
        f"which is {_WINDOWS * rows:,} rows without gaps; give more rows, or a smaller window"
    ]


def of_scales(samples: Samples) -> list[str]:
    """Say which of several wanted columns counts most, because errors are in their own units.

    Args:
        samples: The samples.

    """
    if len(samples.outputs) < 2:
        return []
    spread = np.nanvar(samples.y, axis=0)
    if not spread.max() > _UNLIKE * spread.min():
        return []
    most = int(spread.argmax())
    return [
        f"errors are in the units of the data, so that {samples.outputs[most]!r} makes up "
        f"{spread[most] / spread.sum():.1%} of the variance that is wanted; divide each target by "
        "its standard deviation if all should count alike"
    ]


def of_missing(table: Table) -> list[str]:
    """Say how many values are missing in which column."""
    counts = np.isnan(table.values).sum(axis=0)
    listed = [
        f"{count:,} in {name!r}" for name, count in zip(table.names, counts, strict=True) if count
    ]
    return [f"missing values: {', '.join(listed)}; none is filled in"] if listed else []


def of_windows(found: Windows) -> list[str]:
    """Say how many windows are left out, and why."""
    reasons = {"they cross a gap in time": found.gaps, "of missing values": found.missing}
    because = [f"{count:,} because {why}" for why, count in reasons.items() if count]
    if not because:
        return []
    count = found.gaps + found.missing
    line = f"{count:,} of {found.count:,} windows are left out"
    line += f": {', '.join(because)}" if len(because) > 1 else because[0][len(f"{count:,}") :]
    kept = len(found.starts) / found.count
    if kept < _FEW:
        line += (
            f". Only {kept:.1%} are kept, so the answer is about these alone: a smaller window, or "
            "leaving out the column with most missing values, keeps more"
        )
    return [line]


def of_task(samples: Samples, table: Table, why: str) -> str:
    """Say what is found from what."""
    targets = " and ".join(map(repr, table.targets))
    count = len(table.covariates)
    others = f"{count} covariate{'s' * (count != 1)}: {', '.join(map(repr, table.covariates[:8]))}"
    others += ", ..." if count > 8 else ""
    rows = f"{samples.length:,} row{'s' * (samples.length != 1)}"
    if not samples.horizon:
        line = f"wanted: {targets} at each row, from that row and those before it, {rows} in all"
        return f"{line}{why}, of {others}"
    ahead = "the next value" if samples.horizon == 1 else f"the next {samples.horizon:,} values"
    own = "its" if len(table.targets) == 1 else "their"
    line = f"wanted: {ahead} of {targets}, from {own} last {rows}{why}"
    return line + (f" and those of {others}" if count else "")
