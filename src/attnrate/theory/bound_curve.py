"""Theorem 4.1 over the head size: the bound as proved and as printed, and the compiled error."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from attnrate.errors import InputError, require_whole
from attnrate.progress import QUIET, Progress
from attnrate.settings import Count, Switch, by, checked
from attnrate.shown import Shown
from attnrate.targets import ErrorEstimate, error_of
from attnrate.targets.couplings import Exponent
from attnrate.theory.basis import SoftmaxTarget
from attnrate.theory.bounds import Bound, jackson_bound
from attnrate.theory.compile import Networks, compile_target
from attnrate.theory.complexity import ESTIMATED
from attnrate.theory.feedforward import FamilyLike
from attnrate.words import GaugeLike, NormLike

if TYPE_CHECKING:
    import pandas as pd

    from attnrate.figures.drawing import Drawing
    from attnrate.figures.figure import Figure


def _require_sizes(name: str, values: object) -> tuple[int, ...]:
    """`values` as head sizes, or an InputError that names the first that is none."""
    if not isinstance(values, Sequence) or isinstance(values, str | bytes) or not values:
        raise InputError(f"{name} must be a list of head sizes", values, "Pass e.g. (1, 2, 4, 8).")
    return tuple(require_whole(f"{name}[{i}]", one, 1) for i, one in enumerate(values))


#: Head sizes, one or more
Sizes = Annotated[Sequence[int], by(_require_sizes)]


@dataclass(frozen=True, repr=False)
class BoundCurve(Shown):
    """Bounds of Theorem 4.1 for several head sizes, as proved and as printed.

    Attributes:
        target: The name of the target.
        rigorous: The bound as proved, one for each head size.
        printed: Eq. 17 as it stands, one for each head size.
        compiled: The measured errors of the compiled Transformers; None if they were not asked for.

    Examples:
        >>> curve = ar.bound_curve(ar.spectral_target(alpha=2.0, rank=6), (1, 2, 4))
        >>> curve
        Theorem 4.1 for spectral α=2.0 r=6, mse
         m_h  rigorous  printed  trivial
           1  0.3747    724.1    1
           2  0.08673   90.51    1
           4  0.01034   11.31    1
          trivial: an error that any model within the range of f reaches
        >>> list(curve.to_frame()["m_h"])
        [1, 2, 4]

    """

    target: str
    rigorous: tuple[Bound, ...]
    printed: tuple[Bound, ...]
    compiled: tuple[ErrorEstimate, ...] | None = None

    def to_frame(self) -> "pd.DataFrame":
        """One row for each head size.

        Returns:
            The columns m_h, m_ff, rigorous (the bound as proved), rank_term and feedforward_term
            (its two terms), printed (Eq. 17), trivial (the error that needs no bound); with
            compiled models also compiled and standard_error (the measured error).

        """
        import pandas as pd

        frame = pd.DataFrame(
            {
                "m_h": [one.m_h for one in self.rigorous],
                "m_ff": [one.m_ff for one in self.rigorous],
                "rigorous": [one.value for one in self.rigorous],
                "rank_term": [one.rank_term for one in self.rigorous],
                "feedforward_term": [one.feedforward_term for one in self.rigorous],
                "printed": [one.value for one in self.printed],
                "trivial": [one.trivial for one in self.rigorous],
            }
        )
        if self.compiled is not None:
            frame["compiled"] = [one.value for one in self.compiled]
            frame["standard_error"] = [one.standard_error for one in self.compiled]
        return frame

    def plot(self) -> "Drawing":
        """Draw the bounds, and the errors of compiled Transformers, against the head size.

        Returns:
            A matplotlib figure, which notebooks show as a picture.

        """
        from attnrate.figures.draw import draw

        return draw(self._drawn())

    def _drawn(self) -> "Figure":
        from attnrate.figures.figure import Curves, Figure, Line, Series

        sizes = tuple(one.m_h for one in self.rigorous)
        series = [
            Series("bound as proved", sizes, tuple(one.value for one in self.rigorous)),
            Series(
                "bound as printed (Eq. 17)",
                sizes,
                tuple(one.value for one in self.printed),
                style="theory",
            ),
        ]
        if self.compiled is not None:
            values = tuple(one.value for one in self.compiled)
            spread = tuple(2 * one.standard_error for one in self.compiled)
            low, high = (
                tuple(v + sign * s for v, s in zip(values, spread, strict=True)) for sign in (-1, 1)
            )
            series.append(Series("compiled Transformer", sizes, values, low, high))
        first = self.rigorous[0]
        panel = Curves(
            "",
            "head size m_h",
            {"mse": "mean squared error", "l1": "E Σ_t |H_t - Ĥ_t|"}[first.norm],
            tuple(series),
            x_scale="log",
            y_scale="log",
            lines=(Line("error that any model reaches", y=first.trivial),),
        )
        units = "" if first.m_ff is None else f", m_ff = {first.m_ff}"
        return Figure("bound", f"Theorem 4.1: {self.target}{units}", "", (panel,))

    def _text(self) -> str:
        first = self.rigorous[0]
        units = "" if first.m_ff is None else f", m_ff = {first.m_ff}"
        lines = [f"Theorem 4.1 for {self.target}, {first.norm}{units}"]
        lines.append("  trivial: an error that any model within the range of f reaches")
        if first.estimated:
            lines.append(f"  {ESTIMATED}")
        return "\n".join(lines)

    def __str__(self) -> str:
        frame = self.to_frame()
        shown = ["m_h", "rigorous", "printed", "trivial"]
        shown += ["compiled"] if self.compiled is not None else []
        heading, *remarks = self._text().splitlines()
        rows = [[f"{value:.4g}" for value in row] for row in frame[shown].to_numpy()]
        widths = [max(map(len, column)) for column in zip(shown, *rows, strict=True)]
        lines = [heading]
        for head, *rest in (shown, *rows):
            cells = [head.rjust(widths[0] + 1)]
            cells += [cell.ljust(width) for cell, width in zip(rest, widths[1:], strict=True)]
            lines.append("  ".join(cells).rstrip())
        return "\n".join([*lines, *remarks])

    def _table(self) -> "pd.DataFrame":
        return self.to_frame().dropna(axis="columns", how="all")  # m_ff of exact components

    def _figure(self) -> "Drawing":
        return self.plot()


@checked
def bound_curve(
    target: SoftmaxTarget,
    m_h: Sizes = (1, 2, 4, 8),
    m_ff: Count | None = None,
    norm: NormLike = "mse",
    *,
    alpha: Exponent | None = None,
    family: FamilyLike = "interpolant",
    gauge: GaugeLike = "softmax",
    compiled: Switch = False,
) -> BoundCurve:
    """Theorem 4.1 for several head sizes: the bound as proved, Eq. 17, and what a model attains.

    Args:
        target: A target of the form of Eq. 8, with softmax.
        m_h: The head sizes, each 1 or more.
        m_ff: The number of hidden units per component; None (the default) for exact components.
        norm: "mse" for E mean_t |H_t - Ĥ_t|², "l1" for E Σ_t |H_t - Ĥ_t|.
        alpha: The exponent of C1 in Eq. 17, greater than 1/2. By default the slope of the spectrum
            in log-log, but at least 0.51.
        family: The feed-forward networks of Eq. 17; see `complexity`.
        gauge: "softmax" takes the mean over v out of the coupling, which softmax cannot see;
            "none" (or None) leaves it in.
        compiled: Whether to compile a Transformer for each head size (`compile_target`) and to
            measure its error on 4096 fresh sequences.

    Returns:
        The bounds as a result that shows itself as a table, with `to_frame()` and `plot()`.

    Raises:
        InputError: If an argument is wrong, or the target has no such bound (see `jackson_bound`).

    Examples:
        >>> curve = ar.bound_curve(ar.spectral_target(alpha=2.0, rank=6), (1, 3), compiled=True)
        >>> frame = curve.to_frame()
        >>> bool((frame["compiled"] <= frame["rigorous"]).all())
        True

    """
    rigorous, printed, errors = [], [], []
    with Progress(after=QUIET) as shown:
        for done, size in enumerate(m_h):
            shown.at(f"bounding {target.name}: m_h = {size}", done / len(m_h))
            rigorous.append(jackson_bound(target, size, m_ff, norm, gauge=gauge))
            printed.append(
                jackson_bound(
                    target, size, m_ff, norm, "printed", alpha=alpha, family=family, gauge=gauge
                )
            )
            if compiled:
                shown.at(f"measuring the compiled Transformer: m_h = {size}", done / len(m_h))
                how: Networks = "auto" if m_ff is None else "interpolant"
                model = compile_target(target, size, m_ff, gauge=gauge, networks=how)
                errors.append(error_of(model, target, norm=norm))
    name = target.name or "a target"
    return BoundCurve(name, tuple(rigorous), tuple(printed), tuple(errors) if compiled else None)
