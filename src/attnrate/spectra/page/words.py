"""The words of a profile's page, for readers who have not read the paper."""

from attnrate.spectra.advise import Advice
from attnrate.spectra.measures import percent
from attnrate.spectra.result import Profile

INTRO = (
    "A head of attention compares each token with each other token by vectors of m_h numbers. How "
    "many of these m_h dimensions does it use? This page answers it for every head, measured on "
    "real inputs: from the singular values of the matrix that goes into softmax."
)
#: Sections of the page: id, title, paragraph, the figures in it
SECTIONS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    (
        "spectra-of-heads",
        "How fast the singular values fall",
        "A head of size m_h makes logits of rank at most m_h. If their singular values fall fast, "
        "a smaller head makes nearly the same logits.",
        ("violins", "spectra"),
    ),
    (
        "ranks",
        "Which heads use how much",
        "One number sums up a spectrum: how many dimensions hold nearly all of the energy.",
        ("rank-map",),
    ),
    (
        "cuts",
        "What a smaller head would lose",
        "Energy is not accuracy: softmax can blow up a small change of the logits or swallow a "
        "large one. So the cut is made and its effect on the attention weights is measured.",
        ("loss-map",),
    ),
    (
        "positions",
        "What the rotary embedding changes",
        "What can be cut out of the weights is what lies before the rotation; what the logits need "
        "is what lies after it.",
        ("rotation",),
    ),
    (
        "gauge-of-softmax",
        "What softmax cannot see",
        "Spectra of raw logits can mislead: a large part of their energy may be numbers that "
        "softmax takes away again.",
        ("gauge",),
    ),
)


def answer(advice: Advice) -> str:
    """How large the heads are and how large they would have to be, in one sentence."""
    heads = sum(layer.heads for layer in advice.profile.layers)
    whose = f"The only head of {advice.model} has"
    if heads > 1:
        whose = f"The {heads:,} heads of {advice.model} have"
    now = _range([layer.m_h for layer in advice.layers])
    each = " each" if heads > 1 and len({layer.m_h for layer in advice.layers}) == 1 else ""
    has = f"{whose} {now} dimension{'' if now == '1' else 's'}{each}"
    within = f"if at most {percent(advice.tolerance)} of any head's attention may move"
    before = sum(layer.m_h for layer in advice.layers)
    if advice.total == before:
        nothing = "none of them can" if before > 1 else "it cannot"
        return f"{has}, and {nothing} be given away {within}."
    sizes = [layer.size for layer in advice.layers]
    by_layer = ", layer by layer," if len({*sizes}) > 1 else ""
    total = f" ({advice.total:,} of {before:,} over the layers)" if len(sizes) > 1 else ""
    return f"{has}; {_range(sizes)}{by_layer} would do {within}{total}."


def _range(sizes: list[int]) -> str:
    """The least and the largest of some sizes; one number where they are equal."""
    low, high = min(sizes), max(sizes)
    return str(low) if low == high else f"{low} to {high}"


def map_words(advice: Advice) -> str:
    """What the map of the heads shows, and how to use it."""
    return (
        "Each cell is a head. Its number, where there is room for one, is how many dimensions it "
        f"needs so that at most {percent(advice.tolerance)} of its attention moves, its shade is "
        "their share of the dimensions that it has. The heads of a layer share one size, so a "
        "layer needs what its largest head needs: the number at the end of its row, beside what it "
        "has."
    )


def meanings(profile: Profile) -> list[tuple[str, str]]:
    """The words of the page with their meanings; "rotary embedding" only where there is one."""
    shown = (
        "The numbers of this page are without it, unless they say otherwise."
        if profile.gauge == "softmax"
        else "The numbers of this page have it left in, unless they say otherwise."
    )
    found = [
        (
            "Logits",
            "The T × S matrix of a head that goes into softmax: queries against keys, after "
            "rotation, norms and scaling, without masks, position biases and padding.",
        ),
        (
            "σ_k",
            "The k-th singular value of the logits over √(T S), so that long and short inputs "
            "compare. The squares add up to the mean square of the logits: their energy.",
        ),
        (
            "Rank for 99 %",
            "How many of the largest singular values together hold 99 % of the energy. It is never "
            "more than m_h.",
        ),
        (
            "All inputs together",
            "The logits of all tokens of all inputs against each other. A smaller head has to "
            "serve them all, so this spectrum decides on its size; it falls more slowly than that "
            "of a single input.",
        ),
        (
            "Cut",
            "A head whose queries are projected to the best few dimensions, as a smaller head "
            "would have them. “Attention moved” is the share of attention weight that goes to "
            "other tokens than before (total variation), “output changed” the relative change of "
            "the head's output.",
        ),
        (
            "Gauge",
            "Softmax does not change when a number is added to all logits of one query, so this "
            f"part of the logits, the mean of each row, does nothing. {shown}",
        ),
        (
            "Law of decay",
            "How σ_k falls: as a power of k, exponentially, faster than that, or to zero after a "
            "finite rank. “None” means that none of these fits, which is common.",
        ),
    ]
    if any(layer.rotary for layer in profile.layers):
        found.append(
            (
                "Rotary embedding",
                "Queries and keys are turned by an angle that grows with their position, which "
                "makes logits depend on distance. It acts after the weights, on pairs of "
                "dimensions.",
            )
        )
    return found
