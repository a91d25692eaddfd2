"""Thin layers of any size, one at a time or all at once, to try what a size changes.

What is needed of the calibration inputs is gathered once; each layer's cut to a size is made once.
The thin parts are built when they are tried, and then dropped.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import nn

from attnrate.compress.calibration import Calibration, calibrate
from attnrate.compress.choice import choose, closed_forms
from attnrate.compress.content import Factors
from attnrate.compress.fold import ThinLayer, places
from attnrate.compress.how_far import LOOKING, At, one_by_one, unseen
from attnrate.compress.modules.llama import replaced, require_same, thinned
from attnrate.compress.modules.rotary_layers import attention_layers
from attnrate.compress.projections import Found
from attnrate.compress.rotary import PairCut, Shared, dropped, with_pairs
from attnrate.compress.rotary_moments import Felt, gather
from attnrate.compress.rotary_run import value_cut_of
from attnrate.compress.rotary_values import ValueCut
from attnrate.compress.trial import output, relative
from attnrate.compress.values import ValueFactors, value_cut
from attnrate.progress import Progress
from attnrate.spectra import batches
from attnrate.spectra.batches import Batch
from attnrate.spectra.watching.watcher import Watcher

Tensor = torch.Tensor
K = TypeVar("K", bound=Hashable)
Parts = Mapping[str, nn.Module]
"""Thin parts by the paths of what they stand in place of."""


@dataclass(frozen=True)
class ContentCutter:
    """Thin layers of heads that know no positions.

    Attributes:
        model: The whole model.
        known: What is known of it from calibration inputs.
        values: Whether values become as small as the keys.

    """

    model: nn.Module
    known: Calibration
    values: bool
    _cuts: dict[tuple[str, int], Factors] = field(default_factory=dict, repr=False)
    _value_cuts: dict[tuple[str, int], ValueFactors] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        model: nn.Module,
        given: Sequence[Batch],
        values: bool,
        at: At = unseen,
        found: Found | None = None,
    ) -> "ContentCutter":
        """Look at the calibration inputs; `at` shows how far that is."""
        return cls(model, calibrate(model, given, at=at, found=found), values)

    def alone(self, name: str, size: int) -> Parts:
        """One layer cut by the closed form that changes its own output least."""
        if (name, size) not in self._cuts:
            forms = closed_forms(self.known, name, size)
            self._cuts[name, size] = forms.cuts[forms.best]
        return places(self.model, self._thin(name, self._cuts[name, size]))

    def together(self, sizes: Mapping[str, int]) -> Parts:
        """All layers cut by the forms that `choose` takes."""
        found: dict[str, nn.Module] = {}
        for name, cut in choose(self.known, sizes).factors.items():
            found |= places(self.model, self._thin(name, cut))
        return found

    def _thin(self, name: str, cut: Factors) -> ThinLayer:
        own = self.known.found.projections[name]
        if not self.values:
            return ThinLayer(own, cut)
        size = min(cut.size, own.value.features.shape[1])
        if (name, size) not in self._value_cuts:
            made = value_cut(self.known.moments[name], own.output.weight, size)
            self._value_cuts[name, size] = made
        return ThinLayer(own, cut, self._value_cuts[name, size])


@dataclass(frozen=True)
class RotaryCutter:
    """Thin layers of heads with a rotary embedding.

    Attributes:
        model: The whole model.
        felt: What its layers feel of their pairs on calibration inputs.
        values: Whether values become as small as the keys.
        shared: Who has one set of pairs.

    """

    model: nn.Module
    felt: Mapping[str, Felt]
    values: bool
    shared: Shared
    _orders: dict[str, list[Tensor]] = field(default_factory=dict, repr=False)
    _cuts: dict[tuple[str, int], tuple[PairCut, ValueCut | None]] = field(
        default_factory=dict, repr=False
    )

    @classmethod
    def of(
        cls,
        model: nn.Module,
        given: Sequence[Batch],
        values: bool,
        shared: Shared,
        at: At = unseen,
    ) -> "RotaryCutter":
        """Look at the calibration inputs; `at` shows how far that is."""
        require_same(model, given[0])
        seen = one_by_one(given, LOOKING, at)
        return cls(model, gather(Watcher(model), seen), values, shared)

    def alone(self, name: str, size: int) -> Parts:
        """One layer without the pairs that elimination drops first."""
        if (name, size) not in self._cuts:
            self._cuts[name, size] = self._cut(name, size)
        return {name: thinned(self.model.get_submodule(name), *self._cuts[name, size])}

    def together(self, sizes: Mapping[str, int]) -> Parts:
        """All layers; they are cut as each of them is alone."""
        return {
            path: x for name, size in sizes.items() for path, x in self.alone(name, size).items()
        }

    def _cut(self, name: str, size: int) -> tuple[PairCut, ValueCut | None]:
        own, layer = self.felt[name], self.model.get_submodule(name)
        half = own.weights.shape[-1] // 2
        pairs = torch.stack([_kept(order, half, size // 2) for order in self._order(name)])
        cut = with_pairs(own.weights, pairs.expand(own.groups, -1))
        m_v = own.attended.mean.shape[-1]
        return cut, value_cut_of(layer, own, min(size, m_v)) if self.values else None

    def _order(self, name: str) -> list[Tensor]:
        """In which order the pairs of a layer are dropped, down to one, for each set of pairs."""
        if self.shared == "model":
            if not self._orders:
                layers = attention_layers(self.model)
                every = torch.cat([self.felt[each].weights for each in layers if each in self.felt])
                self._orders[""] = [dropped(every, 1)]
            return self._orders[""]
        if name not in self._orders:
            own = self.felt[name]
            heads = len(own.weights) if self.shared == "layer" else len(own.weights) // own.groups
            by_set = own.weights.reshape(-1, heads, *own.weights.shape[1:])
            self._orders[name] = [dropped(gamma, 1) for gamma in by_set]
        return self._orders[name]


def _kept(order: Tensor, pairs: int, count: int) -> Tensor:
    """The pairs that are left when `count` of them are."""
    there = torch.ones(pairs, dtype=torch.bool)
    there[order[: pairs - count]] = False
    return there.nonzero()[:, 0]


def changes(
    model: nn.Module,
    given: Sequence[Batch],
    cuts: Mapping[K, Callable[[], Parts]],
    shown: Progress,
    said: str,
) -> dict[K, float]:
    """The relative change of a model's output by each of several cuts.

    Args:
        model: The whole model; it is whole again afterwards.
        given: The inputs to measure on.
        cuts: What makes the thin parts of each cut.
        shown: Where progress is shown.
        said: What is done, for that.

    Returns:
        The root of Σ ‖change‖² / Σ ‖output‖² for each cut, over all inputs.

    """
    wrong, size = dict.fromkeys(cuts, 0.0), 0.0
    done, steps = 0, len(given) * len(cuts)
    with batches.at_rest(model):
        for batch in given:
            whole = output(model, batch).float()
            size += float(whole.double().square().sum())
            for key, make in cuts.items():
                with replaced(model, make()):
                    made = output(model, batch).float()
                wrong[key] += float((made - whole).double().square().sum())
                done += 1
                shown.at(f"{said}: {done} of {steps}", done / steps)
    return {key: relative(each, size) for key, each in wrong.items()}
