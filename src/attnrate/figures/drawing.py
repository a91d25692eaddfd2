"""What `.plot()` returns: a matplotlib figure that notebooks show as a picture."""

from matplotlib.figure import Figure

from attnrate.shown import png


class Drawing(Figure):
    """The figure that `plot()` returns: one of matplotlib, which notebooks show as a picture.

    It is shown whether or not pyplot is in use, and has all methods of `matplotlib.figure.Figure`,
    as `savefig`.

    Examples:
        >>> drawing: ar.Drawing = ar.pod(lambda u, v: u * v, (0, 1)).plot()
        >>> drawing.savefig("spectrum.png")

    """

    def _repr_png_(self) -> bytes:
        return png(self)
