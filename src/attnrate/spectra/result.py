"""What a profile says: the spectra of every layer and head as arrays, a table, words, figures."""

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from jaxtyping import Float, Int

from attnrate.errors import InputError, require_whole
from attnrate.figures.figure import Figure
from attnrate.settings import Natural, by, checked
from attnrate.shown import Shown
from attnrate.spectra.drawn import ranks_figure, violins
from attnrate.spectra.layer import LayerSpectra, Stage
from attnrate.spectra.measures import (
    SHARES,
    law_columns,
    rank_columns,
    rank_of,
    share_name,
    stable_rank,
)
from attnrate.spectra.parts import parts_of
from attnrate.spectra.watching.unseen import Unseen
from attnrate.theory.decay import Decay, fit_decay
from attnrate.words import Gauge, require_gauge

if TYPE_CHECKING:
    import pandas as pd

    from attnrate.figures.drawing import Drawing
    from attnrate.spectra.advise import Advice

Array = np.ndarray
#: The columns of a profile's table that a notebook shows
_FIRST_COLUMNS = ("layer", "head", "m_h", "rank99", "rank999", "stable_rank", "law")


def require_layer(name: str, value: object) -> int | str:
    """`value` as the number or the name of a layer; an InputError when it is neither."""
    return value if isinstance(value, str) else require_whole(name, value, 0)


def _require_own_gauge(name: str, value: object) -> Gauge | Literal["own"]:
    return "own" if value == "own" else require_gauge(name, value)


Layer = Annotated[int | str, by(require_layer)]
OwnGauge = Annotated[Gauge | Literal["own"] | None, by(_require_own_gauge)]


@dataclass(frozen=True, repr=False)
class Profile(Shown):
    """What the attention heads of a model use, measured over some inputs.

    Layers are given by their number or their name; heads are query heads and count from 0.

    Attributes:
        model: The name of the model.
        family: What kind of model it is: the model type of transformers, or the class.
        gauge: The gauge of all numbers that do not say otherwise.
        layers: The spectra of each profiled layer.
        made_by: Versions, git state and machine, for the record.
        unseen: What looks like attention and is not part of the profile, with the reason.
        digest: A digest of the model's weights, by which profiles of one model are known to belong
            together; None where some weights were not in memory.

    Examples:
        >>> import torch
        >>> model = ar.Transformer(2, 1, n=8, m_h=4, heads=2)
        >>> found = ar.profile(model, torch.rand(4, 16, 2), name="mine")
        >>> print(str(found).splitlines()[0])
        mine: 1 attention layer, 2 heads of size 4; 4 inputs of 16 tokens.
        >>> found.sigma(layer=0, head=1).shape  # each input's singular values
        (4, 4)
        >>> list(found.to_frame().columns)[:6]
        ['layer', 'name', 'kind', 'part', 'head', 'm_h']
        >>> found.save("my-profile").name  # a page to look at
        'index.html'

    """

    model: str
    family: str
    gauge: Gauge
    layers: tuple[LayerSpectra, ...]
    made_by: Mapping[str, str | bool | None]
    unseen: tuple[Unseen, ...] = ()
    digest: str | None = None

    @property
    def tokens(self) -> Int[Array, " inputs"]:
        """The number of tokens in each input, padding left out, in the first layer."""
        return self.layers[0].tokens

    @functools.cached_property
    def parts(self) -> dict[str, str]:
        """The part of the model that each layer belongs to, by the layer's name."""
        return parts_of([layer.name for layer in self.layers])

    @checked
    def sigma(
        self, layer: Layer, head: Natural, stage: Stage = "logits", gauge: OwnGauge = "own"
    ) -> Float[Array, "inputs m_h"]:
        """The singular values of each input's logits, divided by √(T S), largest first.

        The logits are the T×S matrix that goes into softmax: after rotation, norms and scaling,
        without masks, biases and padding. Divided by √(T S), their singular values estimate those
        of the coupling that the head has learned, whatever the lengths of the inputs.

        Args:
            layer: The number or the name of a layer.
            head: The number of a query head.
            stage: "plain" for the logits before the rotary embedding; without one both are equal.
            gauge: "softmax" takes the mean of each row out, which softmax does not see; "none"
                leaves it in; "own" stands for the profile's own gauge.

        Returns:
            One row of m_h singular values per input.

        Raises:
            InputError: There is no such layer or head, or the model's family does not show queries
                and keys before the rotation.

        """
        spectra, index, key = self._at(layer, head, stage, gauge)
        return np.asarray(spectra.sigma[key][:, index])

    @checked
    def pooled(
        self, layer: Layer, head: Natural, stage: Stage = "logits", gauge: OwnGauge = "own"
    ) -> Float[Array, " m_h"]:
        """The singular values of the logits of all tokens of all inputs against each other.

        This is the POD of the coupling that the head has learned, under the law of the tokens. It
        decides the size of a head, because one head serves all inputs.

        Args:
            layer: The number or the name of a layer.
            head: The number of a query head.
            stage: "plain" for the logits before the rotary embedding; without one both are equal.
            gauge: "softmax" takes the mean of each row out, which softmax does not see; "none"
                leaves it in; "own" stands for the profile's own gauge.

        Returns:
            The m_h singular values, largest first.

        """
        spectra, index, key = self._at(layer, head, stage, gauge)
        return np.asarray(spectra.pooled[key][index])

    @checked
    def bias(self, layer: Layer, head: Natural) -> Float[Array, " k"] | None:
        """The singular values of a head's position bias, divided by √(T S).

        Args:
            layer: The number or the name of a layer.
            head: The number of a query head.

        Returns:
            The singular values with the rows' means taken out, largest first; None for a layer
            without a position bias.

        """
        spectra, index, _ = self._at(layer, head, "logits", "own")
        return None if spectra.bias is None else np.asarray(self._bias_spectra[spectra.name][index])

    @functools.cached_property
    def _bias_spectra(self) -> dict[str, Float[Array, "heads k"]]:
        """The spectra of all position biases, by the names of their layers."""
        # layers may share one bias in memory, whose spectra are then computed once
        found: dict[int, Float[Array, "heads k"]] = {}
        of: dict[str, Float[Array, "heads k"]] = {}
        for layer in self.layers:
            if layer.bias is None:
                continue
            if layer.bias.ctypes.data not in found:
                centred = layer.bias.astype(float)
                centred -= centred.mean(-1, keepdims=True)
                size = np.sqrt(centred.shape[-1] * centred.shape[-2])
                found[layer.bias.ctypes.data] = np.linalg.svd(centred, compute_uv=False) / size
            of[layer.name] = found[layer.bias.ctypes.data]
        return of

    @checked
    def decay(self, layer: Layer, head: Natural) -> Decay:
        """The law by which a head's pooled spectrum falls.

        Args:
            layer: The number or the name of a layer.
            head: The number of a query head.

        Returns:
            The result of `fit_decay`.

        """
        return _decay(tuple(float(value) for value in self.pooled(layer, head)))

    def to_frame(self) -> "pd.DataFrame":
        """The profile as a table with one row per head; docs/profile.md explains the columns.

        Returns:
            A pandas DataFrame.

        """
        import pandas as pd

        rows = [self._row(layer, head) for layer in self.layers for head in range(layer.heads)]
        return pd.DataFrame(rows)

    def plot(self, layer: int | str = 0, head: int = 0) -> "Drawing":
        """Draw each singular value of a head over the inputs as a violin, as in the paper's Fig. 2.

        Args:
            layer: The number or the name of a layer.
            head: The number of a query head.

        Returns:
            A matplotlib figure that notebooks show.

        """
        from attnrate.figures.draw import draw

        name = self.layer(layer).name
        title = f"{name}, head {head}: {len(self.tokens)} inputs"
        return draw(Figure("violins", self.model, "", (violins(self, layer, head, title),)))

    def plot_ranks(self) -> "Drawing":
        """Draw how many dimensions hold 99 % of each head's energy, as a map of layers × heads.

        Returns:
            A matplotlib figure that notebooks show.

        """
        from attnrate.figures.draw import draw

        return draw(ranks_figure(self))

    def join(self, *others: "Profile") -> "Profile":
        """The profile of all inputs of several profiles of one model.

        Moments are sums, so the joined profile is that of one run on all inputs: pooled spectra and
        moments differ by rounding alone, the spectra of single inputs are put one after another.
        So are the measured cuts, each of which was made from the moments of its own profile.

        Args:
            *others: Profiles of the same model on other inputs, with the same layers and gauge.

        Returns:
            A profile with the model's name and the numbers of the layers of this one.

        Raises:
            InputError: A profile is of another model, of other layers or of another gauge; the
                message says what differs.

        Examples:
            >>> import torch
            >>> model = ar.Transformer(2, 1, n=8, m_h=4)
            >>> one, two = (ar.profile(model, torch.rand(4, 16, 2)) for _ in range(2))
            >>> len(one.join(two).tokens)
            8

        """
        from attnrate.spectra.joined import joined

        return joined(self, others)

    def save(
        self,
        folder: str | os.PathLike[str],
        advice: "Advice | None" = None,
        *,
        page: bool = True,
    ) -> Path:
        """Write a page about the profile, with its figures and numbers as files beside it.

        The page begins with the sizes that the heads need and what smaller heads would save and
        cost; then it shows head by head. It is one file that loads nothing from the network. Either
        all files are written or none: index.html, figures/, heads.csv, profile.json, and
        moments.safetensors, from which `load_profile` opens the profile again.

        Args:
            folder: A folder that is new or empty, or that an earlier call has written.
            advice: What `advise` returned for this profile; the page shows its tolerance or budget.
                None stands for `advise(profile)`.
            page: False writes moments.safetensors alone, which is quicker.

        Returns:
            The path of the page, or of moments.safetensors without a page.

        Raises:
            InputError: The folder has something else in it or cannot be written, the advice is of
                another profile, or the extra `report` is not installed.

        """
        if not page:
            from attnrate.spectra.saved import save_data

            return save_data(self, folder)
        from attnrate.spectra.page.write import write_profile

        return write_profile(self, folder, advice)

    def __str__(self) -> str:
        from attnrate.spectra.summary import summary

        return summary(self, self.to_frame())

    def _table(self) -> "pd.DataFrame":
        return self.to_frame()[[*_FIRST_COLUMNS]]

    def _figure(self) -> "Drawing":
        return self.plot_ranks()

    def _row(self, layer: LayerSpectra, head: int) -> dict[str, Any]:
        number = layer.number
        sigma, pooled = self.sigma(number, head), self.pooled(number, head)
        ranks = rank_of(sigma, SHARES[0])
        row: dict[str, Any] = {
            "layer": number,
            "name": layer.name,
            "kind": layer.kind,
            "part": self.parts[layer.name],
            "head": head,
            "m_h": layer.m_h,
            "sigma_1": float(pooled[0]),
            "stable_rank": float(stable_rank(pooled)),
            "stable_rank_input": float(np.median(stable_rank(sigma))),
            **rank_columns(pooled),
            "rank99_input": float(np.median(ranks)),
            "rank99_input_low": float(np.quantile(ranks, 0.05)),
            "rank99_input_high": float(np.quantile(ranks, 0.95)),
            **rank_columns(self.pooled(number, head, "plain"), "_plain"),
            **rank_columns(self.pooled(number, head, gauge="none"), "_ungauged"),
            **law_columns(self.decay(number, head)),
        }
        for share, loss in layer.cuts.items():
            name = share_name(share)
            row[f"weights_loss{name}"] = float(loss.weights[:, head].mean())
            row[f"output_loss{name}"] = float(loss.output[:, head].mean())
        bias = self.bias(number, head)
        if bias is not None:
            row["bias_rms"] = float(np.sqrt(np.square(bias).sum()))
            row["bias_rank99"] = int(rank_of(bias, SHARES[0]))
        return row

    def _at(
        self, layer: int | str, head: int, stage: Stage, gauge: Gauge | Literal["own"] | None
    ) -> tuple[LayerSpectra, int, tuple[Stage, Gauge]]:
        spectra = self.layer(layer)
        index = require_whole("head", head, 0, spectra.heads - 1)
        shown = self.gauge if gauge == "own" else require_gauge("gauge", gauge)
        key: tuple[Stage, Gauge] = (stage if spectra.rotary else "logits", shown)
        if key not in spectra.sigma:
            raise InputError(
                f"queries and keys of {spectra.name} before the rotation were not seen",
                stage,
                "Ask for 'logits'.",
            )
        return spectra, index, key

    @checked
    def layer(self, layer: Layer) -> LayerSpectra:
        """The spectra of one layer.

        Args:
            layer: The number or the name of the layer.

        Returns:
            Its spectra as arrays, for all heads.

        """
        named = isinstance(layer, str)
        known = {each.name if named else each.number: each for each in self.layers}
        if layer not in known:
            what = "no layer has this name" if named else "no profiled layer has this number"
            raise InputError(what, layer, f"Known: {', '.join(map(str, known))}.")
        return known[layer]


@functools.lru_cache(maxsize=4096)
def _decay(sigma: tuple[float, ...]) -> Decay:
    return fit_decay(np.array(sigma))
