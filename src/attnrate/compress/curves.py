"""What was measured before sizes were chosen: how much each layer's size changes the output."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnrate.figures.figure import Curves, Figure, Series, Style
from attnrate.shown import Shown
from attnrate.spectra.measures import counted, percent

if TYPE_CHECKING:
    import pandas as pd

    from attnrate.figures.drawing import Drawing

MODEL = "model"
_MOST_LINES = 8  # of sizes in a figure


@dataclass(frozen=True)
class SizePoint:
    """A size that was tried.

    Attributes:
        part: The layer that was cut while all others were whole; "model" for all layers at once.
        size: The size of its queries and keys; of the model their sum over layers.
        bytes: The bytes of its keys and values per token.
        change: By how much the output of the model changes, as a share of its size.
        chosen: Whether it was taken.

    Examples:
        >>> import torch
        >>> model = ar.ViT(image=8, patch=2, width=16, layers=2, heads=2, m_h=8, classes=3)
        >>> done = ar.compress(model, torch.randn(40, 3, 8, 8), average=4)
        >>> first = done.curves.points[0]
        >>> first.part, first.size, first.bytes
        ('layers.0.attention', 2, 80)

    """

    part: str
    size: int
    bytes: int
    change: float
    chosen: bool


@dataclass(frozen=True, repr=False)
class SizeCurves(Shown):
    """The measured curves from which sizes were chosen; `compress` keeps them as `curves`.

    Attributes:
        model: The name of the model.
        target: What the sizes were to reach, such as "loss=0.05".
        points: Every size that was tried: of each layer alone, then of all layers at once.
        inputs: The number of calibration inputs on which layers were cut alone.
        inputs_together: The number of those on which all layers were cut at once.

    Examples:
        >>> import torch
        >>> model = ar.ViT(image=8, patch=2, width=16, layers=2, heads=2, m_h=8, classes=3)
        >>> done = ar.compress(model, torch.randn(40, 3, 8, 8), loss=0.5)
        >>> list(done.curves.to_frame().columns)
        ['part', 'size', 'bytes', 'change', 'chosen']
        >>> print(done.curves)
        Sizes ... (layer by layer) for loss=0.5: ...

    """

    model: str
    target: str
    points: tuple[SizePoint, ...]
    inputs: int
    inputs_together: int

    def to_frame(self) -> "pd.DataFrame":
        """The points as a table with one row for each.

        Returns:
            A pandas DataFrame with the fields of `SizePoint` as columns.

        """
        import pandas as pd

        return pd.DataFrame([vars(point) for point in self.points])

    def plot(self) -> "Drawing":
        """Draw how much each size changes the output, and the sizes that were chosen.

        Returns:
            A matplotlib figure that notebooks show.

        """
        from attnrate.figures.draw import draw

        return draw(curves_figure(self))

    @property
    def change(self) -> float:
        """By how much the chosen sizes change the output when all layers are cut at once."""
        return next(each.change for each in self.points if each.part == MODEL and each.chosen)

    def _table(self) -> "pd.DataFrame":
        return self.to_frame()

    def _figure(self) -> "Drawing":
        return self.plot()

    def __str__(self) -> str:
        taken = [each for each in self.points if each.chosen]
        layers = [each for each in taken if each.part != MODEL]
        whole = next(each for each in taken if each.part == MODEL)
        sizes = ", ".join(str(each.size) for each in layers)
        own = f"Sizes {sizes} (layer by layer)" if layers else "One size for all layers"
        said = (
            f"{own} for {self.target}: {whole.bytes:,} bytes of keys and values per token. All "
            f"layers cut at once change the output by {percent(whole.change)} of its size, "
            f"measured on {counted(self.inputs_together, 'calibration input')}"
        )
        if not layers:
            return f"{said}."
        sum_of = sum(each.change**2 for each in layers) ** 0.5
        return (
            f"{said}; the root of the sum of squares of their changes alone is "
            f"{percent(sum_of)}, on {counted(self.inputs, 'input')}."
        )


def curves_figure(curves: SizeCurves) -> Figure:
    """The change by each size over layers with the sizes that were chosen; or over one size."""
    title = f"{curves.model}: sizes for {curves.target}"
    layers = [*dict.fromkeys(each.part for each in curves.points if each.part != MODEL)]
    together = sorted((each for each in curves.points if each.part == MODEL), key=lambda x: x.bytes)
    alone = [each for each in curves.points if each.part != MODEL]
    panels = []
    if layers:
        sizes = sorted({each.size for each in alone})
        every = -(-len(sizes) // _MOST_LINES)
        lines = []
        for size in sizes[::every]:
            own = [(layers.index(x.part), x.change) for x in alone if x.size == size]
            lines.append(_line(f"size {size}", own))
        what = "change of the output, this layer alone"
        panels.append(Curves("one layer cut at a time", "layer", what, tuple(lines), y_scale="log"))
        chosen = [(layers.index(x.part), float(x.size)) for x in alone if x.chosen]
        whole = [
            (number, float(max(x.size for x in alone if x.part == layer)))
            for number, layer in enumerate(layers)
        ]
        two = (_line("now", whole, "theory"), _line("chosen", chosen))
        panels.append(Curves("sizes", "layer", "head size m_h", two))
    if len(together) > 1:
        tried = _line("tried", [(x.bytes, x.change) for x in together])
        taken = _line("chosen", [(x.bytes, x.change) for x in together if x.chosen], "paper")
        what = "change of the output"
        name = "all layers cut at once"
        panels.append(Curves(name, "bytes per token", what, (tried, taken), y_scale="log"))
    caption = (
        "How much the output of the model changes when one layer alone has a smaller size, and "
        "the sizes that were chosen by it. Changes of zero, of whole heads, are not drawn."
    )
    return Figure("curves", title, caption, tuple(panels))


def _line(label: str, points: list[tuple[int, float]], style: Style = "measured") -> Series:
    """A series through points; on a logarithmic axis a change of zero has no place."""
    there = [(x, y) for x, y in points if y > 0]
    return Series(label, tuple(float(x) for x, _ in there), tuple(y for _, y in there), style=style)
