"""From spectra to head sizes: how small each layer's heads could be.

A cut to rank r leaves out logits of root mean square tail(r). To first order softmax turns an error
e of the logits into a total variation of ½ E_A |e - E_A e|, E_A the mean under the attention
weights, so the loss is c · tail(r) with a factor c of the head, ½ at most if attention looks at
typical keys. c is taken from the cuts that the profile has measured, with its interval over inputs.
A head without measured cuts gets c = ½, and the advice says so. `needed.py` computes it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from torch import nn

from attnrate.errors import InputError, require_whole
from attnrate.settings import by, checked
from attnrate.shown import Shown
from attnrate.spectra.batches import Inputs, require_inputs
from attnrate.spectra.below import CutOptions, compressed_as
from attnrate.spectra.check import Checked, Metric, check_cut, require_metric
from attnrate.spectra.drawn import sizes_figure
from attnrate.spectra.layer import LayerSpectra
from attnrate.spectra.load import ModelLike, require_model
from attnrate.spectra.measures import percent
from attnrate.spectra.needed import Losses, layer_losses, least_size, predicted
from attnrate.spectra.result import Profile

if TYPE_CHECKING:
    import pandas as pd

    from attnrate.figures.drawing import Drawing
    from attnrate.spectra.below import Compressed

TOLERANCE = 0.05
_TOKENS_PER_DIMENSION = 10


@dataclass(frozen=True)
class LayerAdvice:
    """The head size that is advised for one layer.

    Attributes:
        layer: The number of the layer.
        name: The path of the layer within the model.
        m_h: The head size as it is.
        size: The advised head size: the least at which the upper end of the interval of the
            predicted loss is within the tolerance.
        low: The least head size at which the lower end of that interval is within the tolerance.
        predicted: The predicted loss at `size`, of the head that loses most.
        predicted_high: The upper end of its interval.

    Examples:
        >>> import torch
        >>> found = ar.profile(ar.Transformer(2, 1, n=8, m_h=4), torch.rand(8, 16, 2))
        >>> first = ar.advise(found, tolerance=0.5).layers[0]
        >>> (first.layer, first.name, first.m_h, first.size)
        (0, 'last', 4, 1)

    """

    layer: int
    name: str
    m_h: int
    size: int
    low: int
    predicted: float
    predicted_high: float


@dataclass(frozen=True, repr=False)
class Advice(Shown):
    """How small the heads of each layer could be; `advise` makes it from a profile.

    Attributes:
        model: The name of the model.
        tolerance: The share of any head's attention that the smaller heads may move.
        budget: The largest sum of head sizes over layers, if one was given.
        layers: The head size of each layer.
        measured: Whether the profile has measured a cut of every head. The loss of a head without
            one is estimated as ½ · tail(r), half of the root mean square of the logits that a cut
            to rank r leaves out.
        rotary: Whether some layer has a rotary embedding. The weights of its heads can only be cut
            pair by pair.
        profile: The profile that the advice is made from.

    Examples:
        >>> import torch
        >>> model = ar.Transformer(2, 1, n=8, m_h=4)
        >>> found = ar.profile(model, torch.rand(8, 16, 2), name="mine")
        >>> advice = ar.advise(found, tolerance=0.5)
        >>> print(str(advice).splitlines()[0])
        mine: heads of size 1 (layer by layer, now 4) would move at most 50.0 % of any head's
        attention: 1 of 4 dimensions.
        >>> advice.to_frame()[["layer", "m_h", "size"]].to_dict("records")
        [{'layer': 0, 'm_h': 4, 'size': 1}]

    """

    model: str
    tolerance: float
    budget: int | None
    layers: tuple[LayerAdvice, ...]
    measured: bool
    rotary: bool
    profile: Profile

    @property
    def total(self) -> int:
        """The sum of the advised head sizes over layers."""
        return sum(layer.size for layer in self.layers)

    def to_frame(self) -> "pd.DataFrame":
        """The advice as a table with one row per layer.

        Returns:
            A pandas DataFrame with the fields of `LayerAdvice` as columns.

        """
        import pandas as pd

        return pd.DataFrame([vars(layer) for layer in self.layers])

    def by_head(self) -> "pd.DataFrame":
        """What each head alone would need, as a table with one row per head.

        Returns:
            A pandas DataFrame. `needed` is the least size at which the upper end of the interval of
            the head's predicted loss is within the tolerance; the largest in a layer (in all runs
            of a module that runs several times) is the size that is advised for it, `size`.
            `predicted` is the head's loss at that size, with the interval from `predicted_low` to
            `predicted_high`.

        """
        import pandas as pd

        rows = []
        for layer, spectra in zip(self.layers, self.profile.layers, strict=True):
            losses = predicted(spectra, self.profile.gauge)
            needed = least_size(losses.high, self.tolerance)
            for head in range(spectra.heads):
                rows.append(
                    {
                        "layer": layer.layer,
                        "head": head,
                        "m_h": layer.m_h,
                        "size": layer.size,
                        "needed": int(needed[head]),
                        "predicted": float(losses.value[head, layer.size]),
                        "predicted_low": float(losses.low[head, layer.size]),
                        "predicted_high": float(losses.high[head, layer.size]),
                    }
                )
        return pd.DataFrame(rows)

    def plot(self) -> "Drawing":
        """Draw the head sizes of each layer, as they are and as advised.

        Returns:
            A matplotlib figure that notebooks show.

        """
        from attnrate.figures.draw import draw

        return draw(sizes_figure(self))

    def _table(self) -> "pd.DataFrame":
        return self.to_frame()

    def _figure(self) -> "Drawing":
        return self.plot()

    @checked
    def check(
        self,
        model: Annotated[ModelLike, by(require_model)],
        inputs: Annotated[Inputs, by(require_inputs)],
        metric: Annotated[Metric | None, by(require_metric)] = None,
    ) -> Checked:
        """Cut the heads of a model as advised, and measure what that does.

        The model itself is not changed: its queries are cut while it runs.

        Args:
            model: The model that was profiled.
            inputs: Inputs as `profile` takes them, best such that the profile has not seen.
            metric: What you judge the model by, such as its loss or its accuracy: a function of the
                model and a batch. It runs the model and returns one number for each input of the
                batch, or one number for the whole batch. It is called twice for each batch, with
                the heads whole and with those of all layers cut.

        Returns:
            How much attention moves in each layer, how much the model's output changes, and the
            metric with heads whole and cut.

        Raises:
            InputError: The model lacks layers that were profiled, or has heads of another number or
                size there; or the metric gives nan or no number, or does not run the model.

        """
        sizes = [layer.size for layer in self.layers]
        return check_cut(self.profile, sizes, self.tolerance, model, inputs, metric)

    def apply(
        self,
        model: ModelLike,
        inputs: Inputs,
        *,
        multiple_of: int | None = None,
        values: bool = False,
        repair: int = 0,
        together: int = 0,
        shared: Literal["head", "layer", "model"] = "head",
        metric: Callable[[nn.Module], float] | None = None,
        timing: float = 2.0,
        seed: int = 0,
        resume: str | PathLike[str] | None = None,
        progress: bool | None = None,
    ) -> "Compressed":
        """Cut the weights of a model to the advised sizes.

        It is `compress(model, inputs, sizes=advice)`, which says what can be cut and how.

        Args:
            model: The model that was profiled; it is not changed.
            inputs: Calibration inputs, as `profile` takes them.
            multiple_of: The number to whose multiples advised sizes are raised; kernels like 8. By
                default they stay as they are.
            values: Whether values become as small as the keys, too.
            repair: The number of steps by which each layer is repaired.
            together: The number of steps by which all layers are then repaired together.
            shared: For rotary layers, who has one set of pairs: a "head", a "layer" or the "model".
            metric: A function of the torch module that gives a number, such as an accuracy.
            timing: About how many seconds times are measured; 0 leaves them out.
            seed: The seed of the repair.
            resume: A folder in which what is finished of the repair is kept, to go on after a kill.
            progress: True writes plain lines where there is no terminal; False shows nothing.

        Returns:
            The smaller model with its report; `save` writes it.

        Raises:
            InputError: The model's weights cannot be cut to these sizes; the message says why.

        """
        options = CutOptions(
            multiple_of=multiple_of,
            values=values,
            repair=repair,
            together=together,
            shared=shared,
            metric=metric,
            timing=timing,
            seed=seed,
            resume=resume,
            progress=progress,
        )
        return compressed_as(self, model, inputs, options)

    def __str__(self) -> str:
        before = sum(layer.m_h for layer in self.layers)
        sizes = ", ".join(str(layer.size) for layer in self.layers)
        now = " and ".join(map(str, sorted({layer.m_h for layer in self.layers})))
        least = sum(layer.low for layer in self.layers)
        fewer = f"; it could be as few as {least}" if least < self.total else ""
        asked = "" if self.budget is None else f"within a budget of {self.budget} "
        lines = [
            f"{self.model}: {asked}heads of size {sizes} (layer by layer, now {now}) would move at "
            f"most {percent(self.tolerance)} of any head's attention: {self.total} of {before} "
            f"dimensions{fewer}."
        ]
        scarce = min(self.profile.layers, key=lambda layer: _tokens(layer) / layer.m_h)
        if _tokens(scarce) < _TOKENS_PER_DIMENSION * scarce.m_h:
            lines.append(
                f"Only {_tokens(scarce)} tokens made the cuts of {scarce.name}, fewer than "
                f"{_TOKENS_PER_DIMENSION} for each of {scarce.m_h} dimensions: profile more inputs "
                "before believing this."
            )
        if not self.measured:
            lines.append(
                "No cut was measured in some heads. Their loss is estimated as half of the root "
                "mean square of the logits that are cut off (docs/profile.md, 'Advice')."
            )
        if self.rotary:
            lines.append(
                "Behind a rotary embedding this is what the logits need. Weights can only be cut "
                "pair by pair there, which costs more: apply measures how much."
            )
        return "\n".join(lines)


def _require_profile(name: str, value: object) -> Profile:
    if not isinstance(value, Profile):
        raise InputError("advise needs a profile", type(value).__name__, "Call profile first.")
    return value


def _require_budget(name: str, value: object) -> int | None:
    return None if value is None else require_whole(name, value, 1)


def _require_tolerance(name: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise InputError(f"{name} must be a share between 0 and 1", value, "Pass e.g. 0.05.")
    return float(value)


@checked
def advise(
    profile: Annotated[Profile, by(_require_profile)],
    budget: Annotated[int | None, by(_require_budget)] = None,
    *,
    tolerance: Annotated[float | None, by(_require_tolerance)] = None,
) -> Advice:
    """Say how small the heads of each layer could be.

    The loss of a head is the share of its attention that a cut moves: the total variation of its
    attention weights, mean over queries and inputs. The size of a layer is that of the head which
    needs most. It is the least size whose predicted loss, at the upper end of its interval, is
    within the tolerance.

    Args:
        profile: What `profile` returned.
        budget: The largest sum of head sizes over layers. The advice is then the sizes within the
            budget whose worst loss is least.
        tolerance: The share of any head's attention that may move, between 0 and 1; 0.05 by
            default. Only one of `budget` and `tolerance` can be given.

    Returns:
        The head sizes with their predicted losses; `check` cuts a model as advised.

    Raises:
        InputError: Both goals were given, or the budget is less than one dimension per layer.

    Examples:
        >>> import torch
        >>> model = ar.Transformer(2, 1, n=8, m_h=4, layers=2)
        >>> found = ar.profile(model, torch.rand(8, 16, 2))
        >>> ar.advise(found, budget=3).total
        3

    """
    asked, chosen = goal(budget, tolerance)
    predictions = layer_losses(profile)
    if asked is not None:
        require_whole("budget", asked, len(predictions))
        chosen = _least_tolerance(predictions, asked)
    rows = []
    for layer, worst in zip(profile.layers, predictions, strict=True):
        size, least = (int(least_size(end, chosen)) for end in (worst.high, worst.low))
        ends = float(worst.value[size]), float(worst.high[size])
        rows.append(LayerAdvice(layer.number, layer.name, layer.m_h, size, least, *ends))
    return Advice(
        profile.model,
        chosen,
        asked,
        tuple(rows),
        all(bool(worst.measured) for worst in predictions),
        any(layer.rotary for layer in profile.layers),
        profile,
    )


def goal(budget: object, tolerance: object) -> tuple[int | None, float]:
    """The budget, if one is given, and the tolerance; an InputError when both are given."""
    if budget is not None and tolerance is not None:
        raise InputError(
            "only one of budget and tolerance can be given", (budget, tolerance), "Leave one out."
        )
    share = _require_tolerance("tolerance", tolerance)
    return _require_budget("budget", budget), TOLERANCE if share is None else share


def _tokens(layer: LayerSpectra) -> int:
    """The number of queries or keys, whichever is smaller, that a layer's cuts are made from."""
    return int(min(layer.query.count.min(), layer.key.count.min()))


def _least_tolerance(layers: Sequence[Losses], budget: int) -> float:
    """The least worst loss that head sizes with this sum can have."""
    losses = np.unique(np.concatenate([layer.high[1:] for layer in layers]))
    for tolerance in losses:
        if sum(int(least_size(layer.high, tolerance)) for layer in layers) <= budget:
            return float(tolerance)
    return float(losses[-1])
