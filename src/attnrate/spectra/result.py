"""What a profile says: spectra of every layer and head, as arrays, as a table and in words."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from jaxtyping import Float, Int

from attnrate.errors import InputError, require_choice, require_whole
from attnrate.spectra.cut import Loss
from attnrate.spectra.estimate import Gram
from attnrate.spectra.measures import law_columns, rank_of, stable_rank
from attnrate.theory.decay import DecayFit, fit_decay

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Stage = Literal["logits", "plain"]
Gauge = Literal["softmax", "none"]
Array = np.ndarray
GAUGES: tuple[Gauge, ...] = ("softmax", "none")
SHARES = (0.99, 0.999)
"""Shares of the energy at which heads are cut."""


@dataclass(frozen=True)
class LayerSpectra:
    """The spectra of one attention layer, by stage and gauge.

    `sigma` has (inputs, heads, m_h), `pooled` (heads, m_h). `query` and `key` are the second
    moments of queries and keys from which cuts are made: of all inputs but those on which cuts are
    measured. `cuts` has for each share of the energy the ranks that hold it and what a cut to them
    does. `bias` is the position bias of the longest input, (heads, T, S). `number` counts the
    model's attention layers from 0 in the order in which they run, also those not profiled.
    """

    number: int
    name: str
    kind: str
    heads: int
    groups: int
    m_h: int
    rotary: bool
    scale: float
    sigma: Mapping[tuple[Stage, Gauge], Float[Array, "inputs heads m_h"]] = field(repr=False)
    pooled: Mapping[tuple[Stage, Gauge], Float[Array, "heads m_h"]] = field(repr=False)
    query: Gram = field(repr=False)
    key: Gram = field(repr=False)
    cuts: Mapping[float, tuple[Int[Array, " heads"], Loss]] = field(repr=False)
    bias: Float[Array, "heads T S"] | None = field(repr=False, default=None)


@dataclass(frozen=True)
class Profile:
    """The spectra of a model's attention over some inputs. `str` sums it up.

    `tokens` has the number of tokens of each input that are no padding (queries of the first
    layer). A layer is given by its number or its name, heads are query heads.
    """

    model: str
    family: str
    gauge: Gauge
    layers: tuple[LayerSpectra, ...]
    tokens: Int[Array, " inputs"]
    made_by: Mapping[str, Any]

    def sigma(
        self, layer: object, head: object, stage: object = "logits", gauge: object = None
    ) -> Float[Array, "inputs m_h"]:
        """σ_k of each input's logits over √(T S), largest first.

        The logits are the T×S matrix that goes into softmax: after rotation, norms and scaling,
        without masks, biases and padding. "plain" is before the rotation, the same where there is
        none. With the gauge "softmax" the rows' means are taken out, which softmax does not see;
        None means the profile's own gauge.
        """
        spectra, index, key = self._at(layer, head, stage, gauge)
        return np.asarray(spectra.sigma[key][:, index])

    def pooled(
        self, layer: object, head: object, stage: object = "logits", gauge: object = None
    ) -> Float[Array, " m_h"]:
        """The same for all tokens of all inputs against each other: one POD of ρ̂."""
        spectra, index, key = self._at(layer, head, stage, gauge)
        return np.asarray(spectra.pooled[key][index])

    def bias(self, layer: object, head: object) -> Float[Array, " k"] | None:
        """σ_k of the position bias alone, rows' means out, over √(T S); None without a bias."""
        spectra, index, _ = self._at(layer, head, "logits", None)
        if spectra.bias is None:
            return None
        return np.asarray(self._bias_spectra[spectra.bias.ctypes.data][index])

    @functools.cached_property
    def _bias_spectra(self) -> dict[int, Float[Array, "heads k"]]:
        """Spectra of all position biases by their places in memory: layers may share one."""
        found = {}
        for layer in self.layers:
            if layer.bias is not None and layer.bias.ctypes.data not in found:
                centred = layer.bias.astype(float)
                centred -= centred.mean(-1, keepdims=True)
                size = np.sqrt(centred.shape[-1] * centred.shape[-2])
                sigma = np.linalg.svd(centred, compute_uv=False) / size
                found[layer.bias.ctypes.data] = sigma
        return found

    def decay(self, layer: object, head: object) -> DecayFit:
        """The law of the pooled spectrum, or "none"."""
        return _decay(tuple(float(value) for value in self.pooled(layer, head)))

    def to_frame(self) -> "pd.DataFrame":
        """A row a head; the columns are told in docs/profile.md."""
        import pandas as pd

        rows = [self._row(layer, head) for layer in self.layers for head in range(layer.heads)]
        return pd.DataFrame(rows)

    def plot(self, layer: object = 0, head: object = 0) -> "Figure":
        """Violins of each singular value over the inputs, as in the paper's Fig. 2."""
        from attnrate.figures.draw import draw
        from attnrate.figures.figure import Figure
        from attnrate.spectra.draw import violins

        name = self.layer(layer).name
        title = f"{name}, head {head}: {len(self.tokens)} inputs"
        return draw(Figure("violins", self.model, "", (violins(self, layer, head, title),)))

    def __str__(self) -> str:
        from attnrate.spectra.words import summary

        return summary(self)

    def _row(self, layer: LayerSpectra, head: int) -> dict[str, Any]:
        number = layer.number
        sigma, pooled = self.sigma(number, head), self.pooled(number, head)
        plain = self.pooled(number, head, "plain")
        none = self.pooled(number, head, gauge="none")
        ranks = rank_of(sigma, SHARES[0])
        row: dict[str, Any] = {
            "layer": number,
            "name": layer.name,
            "kind": layer.kind,
            "head": head,
            "m_h": layer.m_h,
            "sigma_1": float(pooled[0]),
            "stable_rank": float(stable_rank(pooled)),
            "stable_rank_input": float(np.median(stable_rank(sigma))),
            "rank99": int(rank_of(pooled, SHARES[0])),
            "rank999": int(rank_of(pooled, SHARES[1])),
            "rank99_input": float(np.median(ranks)),
            "rank99_input_low": float(np.quantile(ranks, 0.05)),
            "rank99_input_high": float(np.quantile(ranks, 0.95)),
            "rank99_plain": int(rank_of(plain, SHARES[0])),
            "rank999_plain": int(rank_of(plain, SHARES[1])),
            "rank99_ungauged": int(rank_of(none, SHARES[0])),
            "rank999_ungauged": int(rank_of(none, SHARES[1])),
            **law_columns(self.decay(number, head)),
        }
        for share, (_, loss) in layer.cuts.items():
            word = f"{share * 100:g}".replace(".", "")
            row[f"weights_loss{word}"] = float(loss.weights[:, head].mean())
            row[f"output_loss{word}"] = float(loss.output[:, head].mean())
        bias = self.bias(number, head)
        if bias is not None:
            row["bias_rms"] = float(np.sqrt(np.square(bias).sum()))
            row["bias_rank99"] = int(rank_of(bias, SHARES[0]))
        return row

    def _at(
        self, layer: object, head: object, stage: object, gauge: object
    ) -> tuple[LayerSpectra, int, tuple[Stage, Gauge]]:
        spectra = self.layer(layer)
        index = require_whole("head", head, 0, spectra.heads - 1)
        require_choice("stage", stage, ("logits", "plain"))
        chosen = self.gauge if gauge is None else gauge
        require_choice("gauge", chosen, GAUGES)
        shown = cast(Stage, stage) if spectra.rotary else "logits"
        return spectra, index, (shown, cast(Gauge, chosen))

    def layer(self, layer: object) -> LayerSpectra:
        """A layer by its number or its name."""
        if isinstance(layer, str):
            known = {each.name: each for each in self.layers}
            if layer not in known:
                raise InputError("no layer has this name", layer, f"Known: {', '.join(known)}.")
            return known[layer]
        number = require_whole("layer", layer, 0)
        for each in self.layers:
            if each.number == number:
                return each
        numbers = ", ".join(str(each.number) for each in self.layers)
        raise InputError("no profiled layer has this number", layer, f"Known: {numbers}.")


@functools.lru_cache(maxsize=4096)
def _decay(sigma: tuple[float, ...]) -> DecayFit:
    return fit_decay(np.array(sigma))
