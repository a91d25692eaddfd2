"""The figures of a profile as plain data: violins as in Fig. 2, spectra, maps of layers × heads."""

import math
from typing import TYPE_CHECKING

import numpy as np

from attnrate.figures.figure import Curves, Figure, Matrix, Number, Series, Style, Violins
from attnrate.figures.figure import violin_values as few
from attnrate.figures.words import number, with_interval
from attnrate.spectra.measures import rank_of
from attnrate.spectra.result import SHARES, LayerSpectra, Profile
from attnrate.theory.decay import DecayFit
from attnrate.theory.decay_result import SMOOTH

if TYPE_CHECKING:
    import pandas as pd

MOST_VIOLINS = 32
#: Smaller values, as shares of the largest, are rounding of a float32 model and are not drawn
ROUNDING = 1e-6
_SIGMA = "σ_k of the logits / √(T S)"


def profile_figures(profile: Profile) -> dict[str, Figure]:
    """The figures by name; those of cuts or of the rotation only where there are any."""
    frame = profile.to_frame()
    found = [_violins(profile), _spectra(profile), _rank_map(profile, frame)]
    if "weights_loss99" in frame:
        found.append(_loss_map(profile, frame))
    if any(layer.rotary for layer in profile.layers):
        found.append(_rotation(profile, frame))
    found.append(_gauge(profile, frame))
    return {figure.name: figure for figure in found}


def law_words(law: DecayFit) -> str:
    """A law of decay in a few words, with its interval where it has one."""
    low, high = law.interval or (None, None)
    if law.law == "power":
        return f"σ_k ~ k^−α, α = {with_interval(law.alpha, low, high)}"
    if law.law == "exponential":
        return f"σ_k ~ e^(−βk), β = {with_interval(law.rate, low, high)}"
    if law.law == "superexponential":
        return f"σ_k ~ e^(−γ k log k), γ = {number(law.order)}"
    return f"rank {law.rank}" if law.law == "finite rank" else "no law of decay fits"


def _violins(profile: Profile) -> Figure:
    """The first head of the first layer, as in the paper, and that of the last."""
    chosen = [profile.layers[place] for place in sorted({0, len(profile.layers) - 1})]
    inputs = len(profile.tokens)
    return Figure(
        "violins",
        "Singular values over the inputs",
        f"Each violin is the distribution of one singular value σ_k over {_inputs(inputs)}, on a "
        "logarithmic scale; where it is wide, many inputs lie. Narrow violins say that the rank of "
        "a head belongs to the head and not to the input. The line with markers is the spectrum "
        "of all inputs together, the dashed one the law of decay that fits it, if one does."
        + _stride_words(chosen),
        tuple(_violin_panel(profile, layer) for layer in chosen),
    )


def _violin_panel(profile: Profile, layer: LayerSpectra) -> Violins:
    sigma = profile.sigma(layer.number, 0).astype(float)
    pooled = profile.pooled(layer.number, 0).astype(float)
    law = profile.decay(layer.number, 0)
    places = _places(sigma.shape[1])
    least = ROUNDING * max(float(sigma.max()), float(pooled.max()))
    lines = [_line("all inputs together", pooled, least)]
    if law.law in SMOOTH and law.used is not None:
        k = np.arange(law.used[0], law.used[1] + 1, dtype=float)
        fitted = tuple(law.predict(k).tolist())
        lines.append(Series("law of decay", tuple(k.tolist()), fitted, style="theory"))
    return Violins(
        f"layer {layer.number}, head 0: {law_words(law)}",
        "k",
        _SIGMA,
        "σ_k over the inputs",
        tuple(float(k) for k in places),
        tuple(few(_seen(sigma[:, k - 1], least)) for k in places),
        tuple(lines),
        "log",
    )


def _places(size: int) -> list[int]:
    """Which k have a violin: all, or every so many."""
    return list(range(1, size + 1, math.ceil(size / MOST_VIOLINS)))


def _stride_words(chosen: list[LayerSpectra]) -> str:
    strides = {math.ceil(layer.m_h / MOST_VIOLINS) for layer in chosen}
    if strides == {1}:
        return ""
    words = " or ".join(str(stride) for stride in sorted(strides))
    return f" To be read at all, only one value in {words} has a violin."


def _spectra(profile: Profile) -> Figure:
    """All heads of the first, the middle and the last layer."""
    count = len(profile.layers)
    panels = []
    for place in sorted({0, count // 2, count - 1}):
        layer = profile.layers[place]
        heads = layer.pooled["logits", profile.gauge].astype(float)
        shares = np.array([one / one[0] if one[0] > 0 else np.nan * one for one in heads])
        middle = np.array([np.median(_finite(column)) for column in shares.T])
        lines = [_line("one head", one, ROUNDING, "faint") for one in shares]
        panels.append(
            Curves(
                f"layer {layer.number}: {_heads(len(heads))}",
                "k",
                "σ_k / σ_1",
                (*lines, _line("median of the heads", middle, ROUNDING)),
                y_scale="log",
            )
        )
    return Figure(
        "spectra",
        "Spectra of all heads",
        f"Each thin line is a head: its singular values over {_inputs(len(profile.tokens))} taken "
        "together, as shares of its largest. The faster a line falls, the fewer dimensions the "
        "head uses; lines far apart say that heads of one layer need different sizes.",
        tuple(panels),
    )


def _rank_map(profile: Profile, frame: "pd.DataFrame") -> Figure:
    most = max(layer.m_h for layer in profile.layers)
    sizes = " and ".join(str(size) for size in sorted({layer.m_h for layer in profile.layers}))
    return Figure(
        "rank-map",
        "How many dimensions each head uses",
        "The least rank that holds 99 % or 99.9 % of the energy of a head's logits, over "
        f"{_inputs(len(profile.tokens))} taken together. A head has {sizes} dimensions; a faint "
        "cell is a head that uses few of them.",
        tuple(
            _map(profile, frame[column], f"{share} of the energy", "dimensions", 0, most)
            for column, share in (("rank99", "99 %"), ("rank999", "99.9 %"))
        ),
    )


def _loss_map(profile: Profile, frame: "pd.DataFrame") -> Figure:
    inputs = next(len(cut[1].weights) for layer in profile.layers for cut in layer.cuts.values())
    return Figure(
        "loss-map",
        "What a cut to 99 % of the energy does",
        "Each head was cut for real to the rank of the map above, each layer by itself, and "
        f"compared with the whole head, mean over {_inputs(inputs)}. “Attention moved” is how much "
        "of the attention goes to other tokens than before, “output changed” how much the head's "
        "output differs. A strong cell is a head whose small singular values matter.",
        (
            _map(profile, 100 * frame.weights_loss99, "attention moved", "% of attention", 0),
            _map(profile, 100 * frame.output_loss99, "output changed", "% of the output", 0),
        ),
    )


def _rotation(profile: Profile, frame: "pd.DataFrame") -> Figure:
    rotary = [layer.number for layer in profile.layers if layer.rotary]
    shown = frame[frame.layer.isin(rotary)]
    return Figure(
        "rotation",
        "Before and after the rotary embedding",
        "The rotary embedding turns queries and keys by their positions, so that a head's logits "
        "can need more dimensions after it than before, or fewer. The curves are the rank that "
        "holds 99 % of the energy, median over the heads of a layer; the map says what the "
        "rotation adds to each head or takes from it. "
        f"{_inputs(len(profile.tokens)).capitalize()}.",
        (
            _by_layer(shown, {"before the rotation": "rank99_plain", "after it": "rank99"}),
            _difference(profile, shown.rank99 - shown.rank99_plain, "after − before"),
        ),
    )


def _gauge(profile: Profile, frame: "pd.DataFrame") -> Figure:
    softmax = frame.rank99 if profile.gauge == "softmax" else _gauged(profile)
    both = frame.assign(gauged=softmax)
    return Figure(
        "gauge",
        "With and without what softmax cannot see",
        "Softmax does not see a number that is added to all logits of one query: the gauge. The "
        "curves are the rank that holds 99 % of the energy, median over the heads of a layer, with "
        "these numbers taken out and left in. Where they are left in and the rank is lower, they "
        "are much of the energy and hide what attention uses. The map says how many dimensions "
        f"each head seems to need more or fewer. {_inputs(len(profile.tokens)).capitalize()}.",
        (
            _by_layer(both, {"taken out": "gauged", "left in": "rank99_ungauged"}),
            _difference(profile, both.rank99_ungauged - both.gauged, "left in − taken out"),
        ),
    )


def _gauged(profile: Profile) -> list[int]:
    """The ranks with the gauge, for a profile that is shown without."""
    return [
        int(rank)
        for layer in profile.layers
        for rank in rank_of(layer.pooled["logits", "softmax"], SHARES[0])
    ]


def _map(
    profile: Profile,
    column: "pd.Series[float]",
    title: str,
    label: str,
    low: Number | None = None,
    high: Number | None = None,
) -> Matrix:
    """A row a layer; nan where a layer has no such head, or no value."""
    most = max(layer.heads for layer in profile.layers)
    known = dict(zip(column.index, column.tolist(), strict=True))
    rows: list[tuple[Number, ...]] = []
    before = 0
    for layer in profile.layers:
        heads = range(before, before + layer.heads)
        before += layer.heads
        values = [known.get(head, math.nan) for head in heads]
        rows.append((*values, *[math.nan] * (most - layer.heads)))
    names = tuple(layer.name for layer in profile.layers)
    numbers = tuple(layer.number for layer in profile.layers)
    return Matrix(title, "head", "layer", tuple(rows), low, high, label, names, numbers)


def _difference(profile: Profile, column: "pd.Series[float]", title: str) -> Matrix:
    """A map in which nothing is in the middle of the colours, whatever the signs."""
    most = max(1, int(column.abs().max()))
    return _map(profile, column, title, "dimensions", -most, most)


def _by_layer(frame: "pd.DataFrame", columns: dict[str, str]) -> Curves:
    medians = frame.groupby("layer")[list(columns.values())].median().astype(float)
    places = tuple(float(layer) for layer in medians.index)
    series = [
        Series(label, places, tuple(medians[column].tolist())) for label, column in columns.items()
    ]
    return Curves("median of the heads", "layer", "rank for 99 % of the energy", tuple(series))


def _line(label: str, sigma: np.ndarray, least: float, style: Style = "measured") -> Series:
    places = tuple(float(k) for k in range(1, len(sigma) + 1))
    return Series(label, places, tuple(_seen(sigma, least)), style=style)


def _seen(sigma: np.ndarray, least: float) -> list[float]:
    """The values with nan for those that are rounding."""
    return [float(value) if value > least else math.nan for value in sigma]


def _finite(values: np.ndarray) -> np.ndarray:
    kept = values[np.isfinite(values)]
    return kept if len(kept) else np.array([math.nan])


def _inputs(count: int) -> str:
    return "1 input" if count == 1 else f"{count} inputs"


def _heads(count: int) -> str:
    return "1 head" if count == 1 else f"{count} heads"
