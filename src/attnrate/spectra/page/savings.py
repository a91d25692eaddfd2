"""What smaller heads would save in keys, and what they would cost in attention."""

from collections.abc import Sequence
from dataclasses import dataclass

from attnrate.figures.figure import Cell, Table
from attnrate.figures.words import NOTHING, unbroken
from attnrate.spectra.advise import Advice
from attnrate.spectra.layer import LayerSpectra
from attnrate.spectra.measures import percent
from attnrate.spectra.needed import Losses, layer_losses, least_size, predicted
from attnrate.spectra.page.layers import keeps_keys
from attnrate.statistics import Interval

#: Bytes of a number in float16
BYTES = 2
#: The shares of attention that may move, beside the one that was asked for
TOLERANCES = (0.01, 0.02, 0.05, 0.1, 0.2)


@dataclass(frozen=True)
class Saving:
    """What heads of the size that a tolerance allows would save and cost.

    Attributes:
        tolerance: The share of any head's attention that may move.
        dimensions: The sum of the head sizes over layers.
        before: Bytes of the keys of one token in float16, as the heads are.
        after: Bytes of these keys with the smaller heads.
        worst: The predicted share that moves in the head that loses most.

    """

    tolerance: float
    dimensions: int
    before: int
    after: int
    worst: Interval

    @property
    def share(self) -> float:
        """The share of the bytes that is saved."""
        return 1 - self.after / self.before


@dataclass(frozen=True)
class Savings:
    """What is saved at several tolerances, among them the one of the advice.

    Attributes:
        asked: What the advice itself saves and costs.
        rows: What other tolerances save and cost, and the advice, least tolerance first.
        kept: Whether the keys that are counted are those of a key cache.
        left_out: The number of layers whose keys are not counted, because none are kept there.

    """

    asked: Saving
    rows: tuple[Saving, ...]
    kept: bool
    left_out: int


def savings_of(advice: Advice) -> Savings:
    """What the advice saves and costs, beside other tolerances."""
    layers = advice.profile.layers
    kept, counted = _counted(layers)
    losses = [predicted(layer, advice.profile.gauge) for layer in layers]
    worst = layer_losses(advice.profile)
    sizes = [layer.size for layer in advice.layers]
    asked = _saving(advice.tolerance, layers, counted, losses, sizes)
    rows = {advice.tolerance: asked}
    for tolerance in TOLERANCES:
        if all(abs(tolerance - own) > 1e-9 for own in rows):
            fit = [int(least_size(each.high, tolerance)) for each in worst]
            rows[tolerance] = _saving(tolerance, layers, counted, losses, fit)
    ordered = tuple(rows[tolerance] for tolerance in sorted(rows))
    return Savings(asked, ordered, kept, counted.count(False))


def _counted(layers: Sequence[LayerSpectra]) -> tuple[bool, list[bool]]:
    """Whether keys are kept, and the layers whose keys count: those that keep them, or else all."""
    kept = [keeps_keys(layer) for layer in layers]
    return (True, kept) if any(kept) else (False, [True] * len(layers))


def _saving(
    tolerance: float,
    layers: Sequence[LayerSpectra],
    counted: Sequence[bool],
    losses: Sequence[Losses],
    sizes: Sequence[int],
) -> Saving:
    before = after = 0
    for layer, counts, size in zip(layers, counted, sizes, strict=True):
        if counts:
            before += layer.groups * layer.m_h * BYTES
            after += layer.groups * size * BYTES
    ends = [
        (float(each.high[head, size]), float(each.value[head, size]), float(each.low[head, size]))
        for each, size in zip(losses, sizes, strict=True)
        for head in range(len(each.high))
    ]
    high, value, low = max(ends)
    return Saving(tolerance, sum(sizes), before, after, Interval(value, low, high, len(ends)))


def savings_words(found: Savings) -> list[str]:
    """What the advice saves and costs, in sentences."""
    asked = found.asked
    whose = "The key cache" if found.kept else "The keys of one token in all layers"
    each = " for each token" if found.kept else ""
    if found.left_out:
        said = "layer" if found.left_out == 1 else "layers"
        each += f" (without {found.left_out} {said} of cross attention or of an encoder)"
    if asked.after == asked.before:
        first = f"{whose} would stay at {asked.before:,} bytes{each} in float16."
    else:
        first = (
            f"{whose} would shrink from {asked.before:,} to {asked.after:,} bytes{each} in "
            f"float16: {asked.before - asked.after:,} bytes or {percent(asked.share)} less. "
            "The values stay as they are."
        )
    note = "No layer keeps keys from one token to the next, so this is not a cache that grows."
    moved = moved_words(asked.worst)
    cost = f"The head that loses most is predicted to move {moved} of its attention."
    return [first if found.kept else f"{first} {note}", cost]


def moved_words(moved: Interval) -> str:
    """A share of attention with its interval, in percent: "4.5 % [4.2, 4.9]"."""
    low, high = (f"{100 * end:.1f}" for end in (moved.low, moved.high))
    interval = "" if low == high else " " + unbroken(f"[{low}, {high}]")
    return unbroken(percent(moved.value)) + interval


def savings_table(found: Savings) -> Table:
    """The table of what each tolerance saves and costs."""
    rows: list[tuple[Cell, ...]] = []
    for each in found.rows:
        mark = " (this page)" if each is found.asked else ""
        rows.append(
            (
                unbroken(percent(each.tolerance)) + mark,
                each.dimensions,
                f"{each.after:,}",
                unbroken(percent(each.share)) if each.after < each.before else NOTHING,
                moved_words(each.worst),
            )
        )
    keys = "key cache" if found.kept else "keys"
    return Table(
        "Larger and smaller cuts",
        (
            "may move",
            "sum of sizes",
            f"{keys}, bytes per token",
            "saved",
            "worst head moves",
        ),
        tuple(rows),
        "Each row is a share of any head's attention that may move, with the smallest heads that "
        "keep to it and what is predicted to move in the head that loses most, in brackets its "
        "interval. Predictions held well up to about 5 %; beyond that, layers of real models have "
        "lost up to 1.6 times as much: advice.check(model, inputs) cuts the heads and measures.",
    )
