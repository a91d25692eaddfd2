"""The figures of a profile as plain data: violins as in Fig. 2, spectra, maps of layers × heads."""

import math
from typing import TYPE_CHECKING

import numpy as np

from attnrate.figures.figure import Curves, Figure, Series, Violins
from attnrate.figures.words import number, with_interval
from attnrate.spectra.drawn import ROUNDING, head_map, line, stride, violins
from attnrate.spectra.layer import LayerSpectra
from attnrate.spectra.measures import SHARES, percent, rank_of
from attnrate.spectra.page.subject import Subject
from attnrate.spectra.result import Profile
from attnrate.theory.decay import Decay

if TYPE_CHECKING:
    import pandas as pd


def profile_figures(subject: Subject) -> dict[str, Figure]:
    """The figures of a profile and its advice by name.

    Those of measured cuts and of a rotary embedding are there only where the profile has any.
    """
    profile, frame = subject.profile, subject.heads
    found = [_needed_map(subject), _violins(profile), _spectra(profile), _rank_map(profile, frame)]
    if "weights_loss99" in frame:
        found.append(_loss_map(profile, frame))
    if any(layer.rotary for layer in profile.layers):
        found.append(_rotation(profile, frame))
    found.append(_gauge(profile, frame))
    return {figure.name: figure for figure in found}


def law_words(law: Decay) -> str:
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
    """The figure of the singular values of the first head, in the first and in the last layer."""
    chosen = [profile.layers[place] for place in sorted({0, len(profile.layers) - 1})]
    strides = sorted({stride(layer.m_h) for layer in chosen})
    words = " or ".join(map(str, strides))
    few = f" To be read at all, only one value in {words} has a violin." if words != "1" else ""
    inputs = _inputs(len(profile.tokens))
    return Figure(
        "violins",
        "Singular values over the inputs",
        f"Each violin is the distribution of one singular value σ_k over {inputs}, on a "
        "logarithmic scale; where it is wide, many inputs lie. Narrow violins say that the rank of "
        "a head belongs to the head and not to the input. The line with markers is the spectrum "
        "of all inputs together, the dashed one the law of decay that fits it, if one does." + few,
        tuple(_first_head(profile, layer) for layer in chosen),
    )


def _first_head(profile: Profile, layer: LayerSpectra) -> Violins:
    """The violins of the first head of a layer, with its law of decay in the title."""
    law = law_words(profile.decay(layer.number, 0))
    return violins(profile, layer.number, 0, f"layer {layer.number}, head 0: {law}")


def _spectra(profile: Profile) -> Figure:
    """The figure of the spectra of all heads, in the first, the middle and the last layer."""
    count = len(profile.layers)
    panels = []
    for place in sorted({0, count // 2, count - 1}):
        layer = profile.layers[place]
        heads = layer.pooled["logits", profile.gauge].astype(float)
        shares = np.array([one / one[0] if one[0] > 0 else np.nan * one for one in heads])
        middle = np.array([np.median(_finite(column)) for column in shares.T])
        lines = [line("one head", one, ROUNDING, "faint") for one in shares]
        panels.append(
            Curves(
                f"layer {layer.number}: {_heads(len(heads))}",
                "k",
                "σ_k / σ_1",
                (*lines, line("median of the heads", middle, ROUNDING)),
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


def _needed_map(subject: Subject) -> Figure:
    """The figure of the sizes that heads need, in dimensions and as shares of those they have."""
    profile, needed = subject.profile, subject.needed
    most = max(layer.m_h for layer in profile.layers)
    share = 100 * needed / subject.heads.m_h
    return Figure(
        "needed-map",
        "How large each head has to be",
        f"The least size at which a head moves at most {percent(subject.advice.tolerance)} of its "
        "attention, by the upper end of what is predicted, and that size as a share of the "
        "dimensions that the head has.",
        (
            head_map(profile, needed, "dimensions needed", "dimensions", 0, most),
            head_map(profile, share, "share of those present", "% of m_h", 0, 100),
        ),
    )


def _rank_map(profile: Profile, frame: "pd.DataFrame") -> Figure:
    """The figure of the ranks that hold 99 % and 99.9 % of the energy, as layers × heads."""
    most = max(layer.m_h for layer in profile.layers)
    sizes = " and ".join(str(size) for size in sorted({layer.m_h for layer in profile.layers}))
    return Figure(
        "rank-map",
        "How many dimensions each head uses",
        "The least rank that holds 99 % or 99.9 % of the energy of a head's logits, over "
        f"{_inputs(len(profile.tokens))} taken together. A head has {sizes} dimensions; a faint "
        "cell is a head that uses few of them.",
        tuple(
            head_map(profile, frame[column], f"{share} of the energy", "dimensions", 0, most)
            for column, share in (("rank99", "99 %"), ("rank999", "99.9 %"))
        ),
    )


def _loss_map(profile: Profile, frame: "pd.DataFrame") -> Figure:
    """The figure of what a cut to 99 % of the energy does, as layers × heads."""
    inputs = next(len(cut.weights) for layer in profile.layers for cut in layer.cuts.values())
    return Figure(
        "loss-map",
        "What a cut to 99 % of the energy does",
        "Each head was cut for real to the rank of the map above, each layer by itself, and "
        f"compared with the whole head, mean over {_inputs(inputs)}. “Attention moved” is how much "
        "of the attention goes to other tokens than before, “output changed” how much the head's "
        "output differs. A strong cell is a head whose small singular values matter.",
        (
            head_map(profile, 100 * frame.weights_loss99, "attention moved", "% of attention", 0),
            head_map(profile, 100 * frame.output_loss99, "output changed", "% of the output", 0),
        ),
    )


def _rotation(profile: Profile, frame: "pd.DataFrame") -> Figure:
    """The figure of ranks before and after the rotary embedding."""
    rotary = [layer.number for layer in profile.layers if layer.rotary]
    return _compared(
        profile,
        frame[frame.layer.isin(rotary)],
        "rotation",
        "Before and after the rotary embedding",
        "The rotary embedding turns queries and keys by their positions, so that a head's logits "
        "can need more dimensions after it than before, or fewer. The curves are the rank that "
        "holds 99 % of the energy, median over the heads of a layer; the map says what the "
        "rotation adds to each head or takes from it.",
        {"before the rotation": "rank99_plain", "after it": "rank99"},
        "after − before",
    )


def _gauge(profile: Profile, frame: "pd.DataFrame") -> Figure:
    """The figure of ranks with and without what softmax cannot see."""
    gauged = [
        int(rank)
        for layer in profile.layers
        for rank in rank_of(layer.pooled["logits", "softmax"], SHARES[0])
    ]
    return _compared(
        profile,
        frame.assign(gauged=gauged),
        "gauge",
        "With and without what softmax cannot see",
        "Softmax does not see a number that is added to all logits of one query: the gauge. The "
        "curves are the rank that holds 99 % of the energy, median over the heads of a layer, with "
        "these numbers taken out and left in. Where they are left in and the rank is lower, they "
        "are much of the energy and hide what attention uses. The map says how many dimensions "
        "each head seems to need more or fewer.",
        {"taken out": "gauged", "left in": "rank99_ungauged"},
        "left in − taken out",
    )


def _compared(
    profile: Profile,
    frame: "pd.DataFrame",
    name: str,
    title: str,
    caption: str,
    columns: dict[str, str],
    difference: str,
) -> Figure:
    """A figure of two columns of ranks: their medians layer by layer, and a map of second − first.

    `columns` are the names of the two columns by their labels. Zero is in the middle of the map's
    colours.
    """
    one, other = columns.values()
    medians = frame.groupby("layer")[[one, other]].median().astype(float)
    places = tuple(float(layer) for layer in medians.index)
    series = tuple(
        Series(label, places, tuple(medians[column].tolist())) for label, column in columns.items()
    )
    apart = frame[other] - frame[one]
    most = max(1, int(apart.abs().max()))
    return Figure(
        name,
        title,
        f"{caption} {_inputs(len(profile.tokens)).capitalize()}.",
        (
            Curves("median of the heads", "layer", "rank for 99 % of the energy", series),
            head_map(profile, apart, difference, "dimensions", -most, most),
        ),
    )


def _finite(values: np.ndarray) -> np.ndarray:
    """The finite ones among the values; one nan where there are none."""
    kept = values[np.isfinite(values)]
    return kept if len(kept) else np.array([math.nan])


def _inputs(count: int) -> str:
    return "1 input" if count == 1 else f"{count} inputs"


def _heads(count: int) -> str:
    return "1 head" if count == 1 else f"{count} heads"
