"""The layers of a model, gathered from pieces that were measured batch by batch, here or elsewhere.

A layer's number is its place among all layers in the order in which they first ran. Pieces that
were measured elsewhere cannot know it, so they carry the names of the layers that they saw, and
layers are numbered when the pieces are put together.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from attnrate.spectra.batches import Batch
from attnrate.spectra.capture import Call, Site
from attnrate.spectra.collect import layer_of
from attnrate.spectra.layer import Collected, LayerSpectra
from attnrate.spectra.picked import Picked
from attnrate.spectra.watching.watcher import Watcher


@dataclass(frozen=True)
class Piece:
    """What some batches say about the layers of a model.

    Attributes:
        batches: The number of batches.
        order: The names of all layers, those that were not asked for too, in the order in which
            they first ran.
        layers: The layers that were asked for, on these batches.

    """

    batches: int = 0
    order: tuple[str, ...] = ()
    layers: tuple[LayerSpectra, ...] = ()


def piece_of(
    watcher: Watcher, batch: Batch, held: list[int], picked: Picked, order: Iterable[str]
) -> Piece:
    """What one batch says about the layers of a model.

    Args:
        watcher: The model.
        batch: The inputs.
        held: The numbers of the inputs that have no part in making cuts.
        picked: The layers that are asked for.
        order: The names of the layers that ran on earlier batches.

    Returns:
        A piece to be gathered.

    """
    numbers = {name: number for number, name in enumerate(order)}
    found: list[LayerSpectra] = []

    def see(site: Site, call: Call) -> None:
        number = numbers.setdefault(site.name, len(numbers))
        if picked.has(number, site.name):
            found.append(layer_of(number, site, call, batch, held, watcher.model))

    watcher.see(batch, see)
    return Piece(1, tuple(numbers), tuple(found))


class Gathered:
    """All pieces so far.

    Attributes:
        batches: The number of batches in them.
        order: The names of all layers in the order in which they first ran.
        whole: Whether every piece was added as a whole; False while one is being added, and after
            an interruption in that moment.

    """

    def __init__(self, first: Piece | None = None) -> None:
        self.batches = 0
        self.order: list[str] = []
        self.whole = True
        self._layers: dict[str, Collected] = {}
        if first is not None:
            self.add(first)

    def add(self, piece: Piece) -> None:
        """Add what later batches say."""
        self.whole = False
        self.batches += piece.batches
        known = {*self.order}
        self.order += [name for name in piece.order if name not in known]
        for layer in piece.layers:
            if layer.name in self._layers:
                self._layers[layer.name].add(layer)
            else:
                self._layers[layer.name] = Collected(layer)
        self.whole = True

    def piece(self) -> Piece:
        """All batches so far as one piece, with the layers in their order."""
        numbers = {name: number for number, name in enumerate(self.order)}
        done = (each.done() for each in self._layers.values())
        numbered = (replace(layer, number=numbers[layer.name]) for layer in done)
        layers = sorted(numbered, key=lambda layer: layer.number)
        return Piece(self.batches, tuple(self.order), tuple(layers))
