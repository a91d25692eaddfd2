"""Sizes from measured curves: the least change within a budget, or the fewest bytes for a change.

Each layer is cut alone to each of its candidate sizes, and the change of the model's output is
measured on some calibration inputs. `allocate` finds the sizes with the least sum of squares for
all budgets at once. What all layers change when they are cut at once is measured again: for a
budget, of these sizes and of one size for all layers, and the better is taken; for a change, by
bisection along the front on all calibration inputs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from torch import nn

from attnrate.compress.allocate import Front, Options, front
from attnrate.compress.calibration import Calibration, some
from attnrate.compress.curves import MODEL, SizeCurves, SizePoint
from attnrate.compress.cutters import ContentCutter, RotaryCutter, changes
from attnrate.compress.how_far import At
from attnrate.compress.projections import Found
from attnrate.compress.rotary import Shared
from attnrate.compress.rotary_moments import Felt
from attnrate.compress.sizes import Wanted, Whole, candidates
from attnrate.errors import InputError
from attnrate.progress import Progress
from attnrate.spectra import batches
from attnrate.spectra.batches import Batch
from attnrate.spectra.measures import percent

_TRIED = 8  # inputs on which layers are cut alone


@dataclass(frozen=True)
class Plan:
    """The sizes to cut to, with what was learned on the way.

    Attributes:
        sizes: The size of queries and keys of each layer.
        curves: The measured curves; None where sizes were given.
        calibration: What is known of content heads, if anything was measured.
        felt: What is known of rotary heads, if anything was measured.

    """

    sizes: Mapping[str, int]
    curves: SizeCurves | None = None
    calibration: Calibration | None = field(default=None, repr=False)
    felt: Mapping[str, Felt] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Grid:
    """The sizes that may be taken, by parts: each layer, or all layers with one size.

    Attributes:
        layers: The layers as they are.
        sizes: The candidates of each part.
        values: Whether values are cut, too.
        one: Whether all layers have one size.

    """

    layers: Mapping[str, Whole]
    sizes: Mapping[str, tuple[int, ...]]
    values: bool
    one: bool

    @classmethod
    def of(cls, layers: Mapping[str, Whole], wanted: Wanted, values: bool, one: bool) -> "Grid":
        """The candidates: multiples, and the whole size."""
        wanted.require_multiple(layers)
        own = {name: candidates(each, wanted.multiple_of) for name, each in layers.items()}
        if one:
            shared = {*own[next(iter(own))]}.intersection(*own.values())
            own = {MODEL: tuple(sorted(shared))}
        return cls(layers, own, values, one)

    def by_layer(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The sizes of layers, from those of parts."""
        return dict.fromkeys(self.layers, sizes[MODEL]) if self.one else dict(sizes)

    def bytes(self, sizes: Mapping[str, int]) -> int:
        """The bytes of keys and values per token of layers with these sizes."""
        return sum(self.layers[name].bytes(size, self.values) for name, size in sizes.items())

    def bytes_of(self, part: str, size: int) -> int:
        """The bytes of a part."""
        return self.bytes(self.by_layer({part: size}))

    def cost(self, part: str, size: int, by_size: bool) -> int:
        """What a size of a part costs: bytes, or the sum of sizes over its layers."""
        return sum(self.by_layer({part: size}).values()) if by_size else self.bytes_of(part, size)

    @property
    def whole(self) -> int:
        """The bytes of the layers as they are."""
        return sum(own.bytes(own.m_h, False) for own in self.layers.values())

    @property
    def largest(self) -> int:
        """The largest size that is smaller than a head, or the least there is."""
        most = max(own.m_h for own in self.layers.values())
        every = {size for own in self.sizes.values() for size in own}
        return max((size for size in every if size < most), default=min(every, default=1))


def require_target(wanted: Wanted, layers: Mapping[str, Whole], values: bool, one: bool) -> Grid:
    """The candidates for a target; an InputError where no sizes can be within its budget."""
    grid, target = Grid.of(layers, wanted, values, one), wanted.target
    if not all(grid.sizes.values()):
        raise InputError(
            "no size fits the heads of all layers", [own.m_h for own in layers.values()][:5]
        )
    least = sum(grid.bytes_of(part, own[0]) for part, own in grid.sizes.items())
    if least >= grid.whole:
        raise InputError(
            "there is no smaller size for these heads, in multiples of",
            wanted.multiple_of,
            "Pass a smaller multiple_of.",
        )
    if target.bytes is not None and not least <= target.bytes <= grid.whole:
        low = target.bytes < least
        raise InputError(
            f"bytes must be from {least}, the least that these heads can be cut to, to "
            f"{grid.whole}, what they take as they are",
            target.bytes,
            f"Pass bytes={least} or more{_ways_out(wanted, values)}."
            if low
            else f"Pass bytes={grid.whole} or fewer.",
        )
    if target.average is not None:
        count = len(layers)
        low_mean, high_mean = (
            sum(grid.cost(part, own[end], True) for part, own in grid.sizes.items()) / count
            for end in (0, -1)
        )
        if not low_mean <= target.average <= high_mean:
            raise InputError(
                f"average must be from {low_mean:g}, the least mean size that these heads can be "
                f"cut to, to {high_mean:g}",
                target.average,
                f"Pass average={low_mean if target.average < low_mean else high_mean:g}.",
            )
    return grid


def _ways_out(wanted: Wanted, values: bool) -> str:
    """What else makes fewer bytes possible."""
    ways = [", or cut the values, too"] * (not values)
    ways += [", or take a smaller multiple"] * (wanted.multiple_of != 1)
    return "".join(ways)


def cutter_of(
    model: nn.Module,
    given: Sequence[Batch],
    found: Found | None,
    values: bool,
    shared: Shared,
    at: At,
) -> ContentCutter | RotaryCutter:
    """What makes thin layers of a model, after a look at the calibration inputs.

    Args:
        model: The model, which stays as it is.
        given: Calibration inputs.
        found: Where its layers make queries, keys, values and outputs; None where heads turn in
            pairs.
        values: Whether values become as small as the keys.
        shared: For rotary layers, who has one set of pairs.
        at: Where progress is shown.

    Returns:
        The maker of thin layers.

    """
    if found is None:
        return RotaryCutter.of(model, given, values, shared, at)
    return ContentCutter.of(model, given, values, at, found)


def planned(
    name: str,
    given: Sequence[Batch],
    cutter: ContentCutter | RotaryCutter,
    grid: Grid,
    wanted: Wanted,
    shown: Progress,
) -> Plan:
    """Choose sizes by measurement.

    Args:
        name: The name of the model.
        given: Calibration inputs.
        cutter: What makes thin layers of the model.
        grid: The candidates.
        wanted: What was asked for.
        shown: Where progress is shown.

    Returns:
        The sizes, the curves, and what is known from the calibration inputs.

    Raises:
        InputError: No sizes reach the target; the message says what is the least.

    """
    loss = wanted.target.loss
    # with one size for all layers, what is measured first is the model as it will be cut
    tried = given if grid.one and loss is not None else some(given, _TRIED)
    search = _Search(cutter, grid, shown)
    alone = search.alone(tried)
    by_size = wanted.target.average is not None
    made = front(
        [
            Options(
                own,
                tuple(grid.cost(part, size, by_size) for size in own),
                tuple(alone[part, size] for size in own),
            )
            for part, own in grid.sizes.items()
        ]
    )
    if loss is not None:
        together = given
        taken = search.reached(made, loss, given)
    else:
        together = tried
        budget = wanted.target.bytes
        if wanted.target.average is not None:
            # a mean such as 9.2 times 5 layers is 46 but for rounding
            budget = int(wanted.target.average * len(grid.layers) + 1e-9)
        assert budget is not None
        taken = search.best(made, budget, by_size, tried)
    curves = SizeCurves(
        name,
        str(wanted.target),
        (*search.points_alone(alone, taken), *search.points_together(taken)),
        _inputs(tried),
        _inputs(together),
    )
    sizes = grid.by_layer(taken)
    if isinstance(cutter, RotaryCutter):
        return Plan(sizes, curves, felt=cutter.felt)
    return Plan(sizes, curves, calibration=cutter.known)


@dataclass(frozen=True)
class _Search:
    """The measurements of a search, each made once."""

    cutter: ContentCutter | RotaryCutter
    grid: Grid
    shown: Progress
    _together: dict[tuple[int, ...], float] = field(default_factory=dict)

    def alone(self, given: Sequence[Batch]) -> dict[tuple[str, int], float]:
        """The change of the output when one part alone has a size."""
        grid = self.grid

        def make(part: str, size: int) -> Callable[[], Mapping[str, nn.Module]]:
            if grid.one:
                return lambda: self.cutter.together(grid.by_layer({part: size}))
            return lambda: self.cutter.alone(part, size)

        def is_whole(part: str, size: int) -> bool:
            own = grid.by_layer({part: size})
            return grid.bytes(own) == sum(
                grid.layers[n].bytes(grid.layers[n].m_h, False) for n in own
            )

        pairs = [(part, size) for part, own in grid.sizes.items() for size in own]
        cuts = {pair: make(*pair) for pair in pairs if not is_whole(*pair)}
        found = changes(self.cutter.model, given, cuts, self.shown, "measuring sizes")
        if grid.one:
            self._together.update({(size,): change for (_, size), change in found.items()})
        return {pair: found.get(pair, 0.0) for pair in pairs}

    def change(self, sizes: Mapping[str, int], given: Sequence[Batch]) -> float:
        """The change of the output when all layers are cut at once."""
        key = tuple(sizes.values())
        if key not in self._together:
            cuts = {key: lambda: self.cutter.together(self.grid.by_layer(sizes))}
            said = "measuring all layers at once"
            self._together.update(changes(self.cutter.model, given, cuts, self.shown, said))
        return self._together[key]

    def best(
        self, made: Front, budget: int, by_size: bool, given: Sequence[Batch]
    ) -> dict[str, int]:
        """The sizes within a budget: those of the front, or one size if that is measured better."""
        grid = self.grid
        ways = [dict(zip(grid.sizes, made.sizes(made.within(budget)), strict=True))]
        same = {*grid.sizes[next(iter(grid.sizes))]}.intersection(*grid.sizes.values())
        for size in sorted(same, reverse=True):
            if sum(grid.cost(part, size, by_size) for part in grid.sizes) <= budget:
                ways.append(dict.fromkeys(grid.sizes, size))
                break
        return min(ways, key=lambda sizes: self.change(sizes, given))

    def reached(self, made: Front, loss: float, given: Sequence[Batch]) -> dict[str, int]:
        """The sizes of fewest bytes on the front whose measured change is within a loss."""
        grid = self.grid
        points = [dict(zip(grid.sizes, made.sizes(n), strict=True)) for n in range(len(made.costs))]
        points = [each for each in points if grid.bytes(grid.by_layer(each)) < grid.whole]
        low, high = 0, len(points)
        while low < high:
            middle = (low + high) // 2
            if self.change(points[middle], given) <= loss:
                high = middle
            else:
                low = middle + 1
        if low == len(points):
            least = min(self._together.values(), default=0.0)
            raise InputError(
                "no cut that saves anything changes the output so little; the least change that "
                f"was measured is {least:.3g} ({percent(least)})",
                loss,
                f"Pass loss={_above(least):g}, a smaller multiple_of, or keep the model as it is.",
            )
        return points[low]

    def points_alone(
        self, alone: Mapping[tuple[str, int], float], taken: Mapping[str, int]
    ) -> list[SizePoint]:
        """The record of what each layer changes alone."""
        return [
            SizePoint(part, size, self.grid.bytes_of(part, size), change, taken[part] == size)
            for (part, size), change in alone.items()
            if not self.grid.one
        ]

    def points_together(self, taken: Mapping[str, int]) -> list[SizePoint]:
        """The record of what all layers change at once."""
        found = []
        for key, change in self._together.items():
            sizes = dict(zip(self.grid.sizes, key, strict=True))
            layers = self.grid.by_layer(sizes)
            chosen = sizes == dict(taken)
            point = (sum(layers.values()), self.grid.bytes(layers), change, chosen)
            found.append(SizePoint(MODEL, *point))
        return found


def _above(change: float) -> float:
    """The next number of two digits above a change."""
    step = 10.0 ** (int(f"{change:e}".split("e")[1]) - 1)
    return round((int(change / step) + 1) * step, 12)


def _inputs(given: Sequence[Batch]) -> int:
    return sum(batches.size(batch) for batch in given)
