"""What a profile says: spectra of every layer and head as arrays, a table, words and violins."""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float, Int

from attnrate.errors import InputError, require_choice, require_whole
from attnrate.figures.figure import Figure, Series, Style, Violins, violin_values
from attnrate.spectra.cut import Loss, Projection, projection
from attnrate.spectra.estimate import Gram
from attnrate.spectra.measures import (
    SHARES,
    law_columns,
    law_counts,
    rank_columns,
    rank_of,
    rank_words,
    share_name,
    stable_rank,
)
from attnrate.theory.decay import DecayFit, fit_decay
from attnrate.theory.decay_result import SMOOTH

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Drawing

Stage = Literal["logits", "plain"]
Gauge = Literal["softmax", "none"]
Array = np.ndarray
STAGES: tuple[Stage, ...] = ("logits", "plain")
GAUGES: tuple[Gauge, ...] = ("softmax", "none")
MOST_VIOLINS = 32
#: Smaller values, as shares of the largest, are rounding of a float32 model and are not drawn
ROUNDING = 1e-6


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

    def cut_to(self, ranks: Sequence[int], gauge: Gauge) -> Projection:
        """P of every head that cuts the layer's heads to these ranks: q' = Pᵀ q."""
        return projection(self.query, self.key, ranks, gauge == "softmax")


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
        """σ_k of the logits of all tokens of all inputs against each other: one POD of ρ̂."""
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
        """A row a head; docs/profile.md says what the columns are."""
        import pandas as pd

        rows = [self._row(layer, head) for layer in self.layers for head in range(layer.heads)]
        return pd.DataFrame(rows)

    def plot(self, layer: object = 0, head: object = 0) -> "Drawing":
        """Violins of each singular value over the inputs, as in the paper's Fig. 2."""
        from attnrate.figures.draw import draw

        name = self.layer(layer).name
        title = f"{name}, head {head}: {len(self.tokens)} inputs"
        return draw(Figure("violins", self.model, "", (violins(self, layer, head, title),)))

    def __str__(self) -> str:
        return _summary(self)

    def _row(self, layer: LayerSpectra, head: int) -> dict[str, Any]:
        number = layer.number
        sigma, pooled = self.sigma(number, head), self.pooled(number, head)
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
            **rank_columns(pooled),
            "rank99_input": float(np.median(ranks)),
            "rank99_input_low": float(np.quantile(ranks, 0.05)),
            "rank99_input_high": float(np.quantile(ranks, 0.95)),
            **rank_columns(self.pooled(number, head, "plain"), "_plain"),
            **rank_columns(self.pooled(number, head, gauge="none"), "_ungauged"),
            **law_columns(self.decay(number, head)),
        }
        for share, (_, loss) in layer.cuts.items():
            name = share_name(share)
            row[f"weights_loss{name}"] = float(loss.weights[:, head].mean())
            row[f"output_loss{name}"] = float(loss.output[:, head].mean())
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
        asked = require_choice("stage", stage, STAGES)
        shown = require_choice("gauge", self.gauge if gauge is None else gauge, GAUGES)
        key: tuple[Stage, Gauge] = (asked if spectra.rotary else "logits", shown)
        if key not in spectra.sigma:
            raise InputError(
                f"the adapter of {self.family} does not show queries and keys before the rotation",
                stage,
                "Ask for 'logits'.",
            )
        return spectra, index, key

    def layer(self, layer: object) -> LayerSpectra:
        """A layer by its number or its name."""
        named = isinstance(layer, str)
        asked = layer if named else require_whole("layer", layer, 0)
        known = {each.name if named else each.number: each for each in self.layers}
        if asked not in known:
            what = "no layer has this name" if named else "no profiled layer has this number"
            raise InputError(what, layer, f"Known: {', '.join(map(str, known))}.")
        return known[asked]


@functools.lru_cache(maxsize=4096)
def _decay(sigma: tuple[float, ...]) -> DecayFit:
    return fit_decay(np.array(sigma))


def _summary(profile: Profile) -> str:
    """What the profile says, in a few lines."""
    frame = profile.to_frame()
    lines = [_head(profile), *(_share(frame, share) for share in SHARES)]
    lines.append(_gauge(profile, frame))
    if any(layer.rotary for layer in profile.layers):
        lines.append(
            f"Before the rotary embedding the median head needs {frame.rank99_plain.median():g} "
            f"dimensions for 99 %, after it {frame.rank99.median():g}."
        )
    if "bias_rms" in frame:
        size = (frame.bias_rms**2).mean() ** 0.5
        pooled = [layer.pooled["logits", profile.gauge] for layer in profile.layers]
        logits = np.sqrt(np.concatenate([np.square(each).sum(-1) for each in pooled]).mean())
        lines.append(
            f"The position bias is apart from these: its root mean square is {size:.3g}, that of "
            f"the logits {logits:.3g}."
        )
    return "\n".join([*lines, law_counts(frame, "pooled spectra")])


def _head(profile: Profile) -> str:
    heads = sum(layer.heads for layer in profile.layers)
    sizes = sorted({layer.m_h for layer in profile.layers})
    tokens = profile.tokens
    span = f"{tokens.min()}" if tokens.min() == tokens.max() else f"{tokens.min()}-{tokens.max()}"
    return (
        f"{profile.model}: {len(profile.layers)} attention layers, {heads} heads of size "
        f"{' and '.join(map(str, sizes))}; {len(tokens)} inputs of {span} tokens."
    )


def _share(frame: "pd.DataFrame", share: float) -> str:
    said, name = rank_words(frame, share, "the logits' energy"), share_name(share)
    if f"weights_loss{name}" not in frame:
        return said + "."
    weights, output = frame[f"weights_loss{name}"], frame[f"output_loss{name}"]
    return said + (
        f"; cut there, it moves {weights.median():.1%} of its attention ({weights.min():.1%} to "
        f"{weights.max():.1%}) and changes its output by {output.median():.1%} "
        f"({output.min():.1%} to {output.max():.1%})."
    )


def _gauge(profile: Profile, frame: "pd.DataFrame") -> str:
    if profile.gauge == "none":
        return "Rows' means, which softmax does not see, were left in."
    return (
        "What softmax does not see (rows' means) is taken out; with it, 99 % take "
        f"{frame.rank99_ungauged.median():g} dimensions."
    )


def violins(profile: Profile, layer: object, head: object, title: str) -> Violins:
    """Each σ_k of a head over the inputs, its pooled spectrum and the law that fits that.

    A head of many dimensions has violins at one k in `stride` only, so that they can be read.
    """
    sigma = profile.sigma(layer, head).astype(float)
    pooled = profile.pooled(layer, head).astype(float)
    law = profile.decay(layer, head)
    places = range(1, sigma.shape[1] + 1, stride(sigma.shape[1]))
    least = ROUNDING * max(float(sigma.max()), float(pooled.max()))
    lines = [line("all inputs together", pooled, least)]
    if law.law in SMOOTH and law.used is not None:
        k = np.arange(law.used[0], law.used[1] + 1, dtype=float)
        fitted = tuple(law.predict(k).tolist())
        lines.append(Series("law of decay", tuple(k.tolist()), fitted, style="theory"))
    return Violins(
        title,
        "k",
        "σ_k of the logits / √(T S)",
        "σ_k over the inputs",
        tuple(float(k) for k in places),
        tuple(violin_values(_seen(sigma[:, k - 1], least)) for k in places),
        tuple(lines),
        "log",
    )


def stride(size: int) -> int:
    """How far apart the k are that have a violin, for a head of that size."""
    return math.ceil(size / MOST_VIOLINS)


def line(label: str, sigma: np.ndarray, least: float, style: Style = "measured") -> Series:
    """A spectrum over k, with nothing where values are at most `least`."""
    places = tuple(float(k) for k in range(1, len(sigma) + 1))
    return Series(label, places, tuple(_seen(sigma, least)), style=style)


def _seen(sigma: np.ndarray, least: float) -> list[float]:
    """The values with nan for those that are rounding."""
    return [float(value) if value > least else math.nan for value in sigma]
