"""A profile in sentences that can be quoted."""

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from attnrate.spectra.result import SHARES, Profile

if TYPE_CHECKING:
    import pandas as pd


def summary(profile: Profile) -> str:
    """What the profile says, in a few lines."""
    frame = profile.to_frame()
    lines = [_head(profile), *(_share(profile, frame, share) for share in SHARES)]
    lines.append(_gauge(profile, frame))
    if any(layer.rotary for layer in profile.layers):
        lines.append(
            f"Before the rotary embedding the median head needs {frame.rank99_plain.median():g} "
            f"dimensions for 99 %, after it {frame.rank99.median():g}."
        )
    if "bias_rms" in frame:
        size = (frame.bias_rms**2).mean() ** 0.5
        logits = _rms(profile)
        lines.append(
            f"The position bias is apart from these: its root mean square is {size:.3g}, that of "
            f"the logits {logits:.3g}."
        )
    laws = Counter(frame.law)
    told = ", ".join(f"{name} {count}" for name, count in laws.most_common())
    lines.append(f"Laws of decay of the {len(frame)} pooled spectra: {told}.")
    return "\n".join(lines)


def _head(profile: Profile) -> str:
    heads = sum(layer.heads for layer in profile.layers)
    sizes = sorted({layer.m_h for layer in profile.layers})
    tokens = profile.tokens
    span = f"{tokens.min()}" if tokens.min() == tokens.max() else f"{tokens.min()}-{tokens.max()}"
    return (
        f"{profile.model}: {len(profile.layers)} attention layers, {heads} heads of size "
        f"{' and '.join(map(str, sizes))}; {len(tokens)} inputs of {span} tokens."
    )


def _share(profile: Profile, frame: "pd.DataFrame", share: float) -> str:
    word = f"{share * 100:g}".replace(".", "")
    rank = frame[f"rank{word}"]
    told = (
        f"{share * 100:g} % of the logits' energy lies in {rank.median():g} dimensions in the "
        f"median head ({rank.min()} to {rank.max()})"
    )
    if f"weights_loss{word}" not in frame:
        return told + "."
    weights, output = frame[f"weights_loss{word}"], frame[f"output_loss{word}"]
    return told + (
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


def _rms(profile: Profile) -> float:
    squares = [np.square(layer.pooled["logits", profile.gauge]).sum(-1) for layer in profile.layers]
    return float(np.sqrt(np.concatenate(squares).mean()))
