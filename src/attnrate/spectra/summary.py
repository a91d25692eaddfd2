"""A profile in a few lines, to quote."""

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from attnrate.spectra.measures import (
    SHARES,
    counted,
    law_counts,
    percent,
    rank_words,
    share_name,
    uses_all,
)
from attnrate.spectra.result import Profile

if TYPE_CHECKING:
    import pandas as pd


def summary(profile: Profile, frame: "pd.DataFrame") -> str:
    """The profile in a few lines; `frame` is its table of heads."""
    lines = [_head(profile), *_where(profile), *(_share(frame, share) for share in SHARES)]
    lines.append(_gauge(profile, frame))
    if any(layer.rotary for layer in profile.layers):
        lines.append(
            "Before the rotary embedding the median head needs "
            f"{counted(frame.rank99_plain.median(), 'dimension')} for 99 %, after it "
            f"{frame.rank99.median():g}."
        )
    if "bias_rms" in frame:
        size = (frame.bias_rms**2).mean() ** 0.5
        pooled = [layer.pooled["logits", profile.gauge] for layer in profile.layers]
        logits = np.sqrt(np.concatenate([np.square(each).sum(-1) for each in pooled]).mean())
        lines.append(
            f"The position bias is not part of these numbers: its root mean square is {size:.3g}, "
            f"that of the logits {logits:.3g}."
        )
    return "\n".join([*lines, law_counts(frame, "pooled spectra")])


def _head(profile: Profile) -> str:
    heads = sum(layer.heads for layer in profile.layers)
    sizes = sorted({layer.m_h for layer in profile.layers})
    tokens = profile.tokens
    span = f"{tokens.min()}" if tokens.min() == tokens.max() else f"{tokens.min()}-{tokens.max()}"
    return (
        f"{profile.model}: {counted(len(profile.layers), 'attention layer')}, "
        f"{counted(heads, 'head')} of size "
        f"{' and '.join(map(str, sizes))}; {counted(len(tokens), 'input')} of {span} tokens."
    )


def _where(profile: Profile) -> list[str]:
    """Sentences on the parts of the model, on modules that run several times, and on the unseen."""
    said = []
    parts = Counter(profile.parts.values())
    if len(parts) > 1:
        counts = (f"{part or 'the rest'} ({counted(n, 'layer')})" for part, n in parts.items())
        said.append(f"Parts: {', '.join(counts)}.")
    again = sorted({layer.name.split("#")[0] for layer in profile.layers if layer.run > 1})
    if again:
        names = ", ".join(again[:3]) + (f" and {len(again) - 3} more" if len(again) > 3 else "")
        said.append(
            f"Modules that run several times in a pass: {names}. Each run is a layer of its own; "
            f"the second is called {again[0]}#2."
        )
    if profile.unseen:
        said.append("Not part of the profile: " + "; ".join(map(str, profile.unseen)) + ".")
    return said


def _share(frame: "pd.DataFrame", share: float) -> str:
    said, name = rank_words(frame, share, "the logits' energy"), share_name(share)
    if f"weights_loss{name}" not in frame or uses_all(frame, share):
        return said + "."
    weights, output = frame[f"weights_loss{name}"], frame[f"output_loss{name}"]
    return said + (
        f"; cut there, it moves {_spread(weights)} of its attention and changes its output by "
        f"{_spread(output)}."
    )


def _spread(shares: "pd.Series[float]") -> str:
    """The median of shares in percent, with the least and the largest unless they are equal."""
    median, *ends = (percent(each) for each in (shares.median(), shares.min(), shares.max()))
    return median if ends[0] == ends[1] else f"{median} ({ends[0]} to {ends[1]})"


def _gauge(profile: Profile, frame: "pd.DataFrame") -> str:
    if profile.gauge == "none":
        return "The rows' means, which softmax does not see, were left in."
    return (
        "What softmax does not see (the mean of each row of logits) is taken out; with it, 99 % of "
        f"the energy lies in {counted(frame.rank99_ungauged.median(), 'dimension')} in the median "
        "head."
    )
