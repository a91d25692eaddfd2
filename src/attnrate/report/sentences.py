"""The five sentences with which the page opens: what holds, what does not, what to take away.

They are written by hand, from the full run. Each names the claims that it rests on and the verdicts
that these must have; a test compares them with the full run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from attnrate.experiments.claims import Verdict
from attnrate.report.beside import Beside


@dataclass(frozen=True)
class Sentence:
    """A sentence, two words on what it is about, and the verdicts that it rests on, by claim."""

    about: str
    text: str
    rests_on: Mapping[str, Verdict]

    def here(self, claims: Sequence[Beside]) -> str:
        """What this run has of these claims: how many agree, differ, or are open or not run."""
        found = [one for one in claims if one.here.name in self.rests_on]
        counts = {
            "agree": sum(one.agreement == "agrees" for one in found),
            "differ": sum(one.agreement == "differs" for one in found),
            "open": sum(one.here.verdict == "open" for one in found),
            "not run": len(self.rests_on) - len(found),
        }
        return ", ".join(f"{count} {words}" for words, count in counts.items() if count)


SENTENCES = (
    Sentence(
        "What holds",
        "The error falls as the head size m_h grows, it is larger for targets of higher rank r, "
        "and from m_h = r on a Transformer without error can be written down.",
        {
            "fig1-falls": "holds",
            "fig1-grows-with-rank": "holds",
            "fig1-perfect-beyond-rank": "holds",
        },
    ),
    Sentence(
        "What does not",
        "The rate is not that of the singular values: neither constructed nor trained Transformers "
        "have the claimed exponents, and training is better than the truncated POD.",
        {
            "fig1-construction-rate-0.55": "does not hold",
            "fig1-construction-rate-1": "does not hold",
            "fig1-trained-rate-0.55": "does not hold",
            "fig1-trained-rate-1": "does not hold",
            "fig1-pod-sets-error": "does not hold",
        },
    ),
    Sentence(
        "Order",
        "Another order of the inputs hurts the RNN and not the Transformer where weights depend on "
        "positions only; where they depend on values, as in gravity, it hurts the Transformer too, "
        "and so it does in our translations.",
        {
            "table2-rnn-ordering": "holds",
            "table2-transformer-ordering": "holds",
            "table3-transformer-ordering": "holds",
            "gravity-order": "does not hold",
            "table1-translation-from-scratch": "does not hold",
        },
    ),
    Sentence(
        "Mixing",
        "Mixing the inputs over time can raise the rank of the coupling ρ, but hurts neither the "
        "RNN nor the Transformer: the paper's tenfold error is that of its optimiser.",
        {
            "mixing-rank-random-filters": "holds",
            "table2-rnn-mixing": "holds",
            "table2-transformer-mixing": "does not hold",
        },
    ),
    Sentence(
        "To take away",
        "Give a head the rank that its task needs: from there on its size is not what limits the "
        "error. And read a graph off attention only where F̂ is linear or the values are held, for "
        "otherwise a small error does not mean right links.",
        {
            "fig1-perfect-beyond-rank": "holds",
            "fig4-links": "holds when corrected",
            "fig5-masses": "holds when corrected",
            "propositions-b-1-3": "does not hold",
        },
    ),
)
