"""What people write by mistake, and what a strict type checker must refuse; nothing here is run.

Every mistake carries a `type: ignore` with the code of its error. mypy's warn_unused_ignores, part
of strict, fails as soon as one of them is accepted.
"""

import torch

import attnrate as ar

target = ar.spectral_target(alpha=1.0, rank=6)

ar.pod("nonsense", 3, gauge=7)  # type: ignore[call-overload]
ar.pod(lambda u, v: u * v, (0, 1), gauge="hardmax")  # type: ignore[call-overload]
ar.pod(lambda u, v: u * v)  # type: ignore[call-overload]
ar.pod(lambda u: u, (0, 1))  # type: ignore[arg-type]
ar.jackson_bound("target", 3)  # type: ignore[arg-type]
ar.jackson_bound(target, 3, norm="l2")  # type: ignore[arg-type]
ar.jackson_bound(target, "3")  # type: ignore[arg-type]
ar.fit(target, "transformer")  # type: ignore[arg-type]
ar.fit([1.0, 2.0], ar.LinearRNN(1, 1))  # type: ignore[arg-type]
ar.fit(target, ar.LinearRNN(1, 1), stepz=100)  # type: ignore[call-arg]
ar.fit(target, ar.LinearRNN(1, 1), steps="many")  # type: ignore[arg-type]
print(ar.fit(target, ar.LinearRNN(1, 1)).model.no_such_part.weight)  # type: ignore[union-attr]
gru: ar.Fit[ar.GRU] = ar.fit(target, ar.LinearRNN(1, 1))  # type: ignore[arg-type]
ar.bracket(target, m_h="3")  # type: ignore[arg-type]
ar.sweep(3)  # type: ignore[arg-type]
ar.profile("a model", target.sample(8, 0))  # type: ignore[arg-type]
ar.profile(ar.LinearRNN(1, 1), target.sample(8, 0), gauge="soft")  # type: ignore[arg-type]
ar.profile(ar.LinearRNN(1, 1), 3)  # type: ignore[arg-type]
ar.profile(ar.LinearRNN(1, 1), [1, 2, 3])  # type: ignore[arg-type]
ar.read_texts(ar.LinearRNN(1, 1), [b"bytes"])  # type: ignore[arg-type]
ar.read_texts(ar.LinearRNN(1, 1), ["a text"], tokens="200k")  # type: ignore[arg-type]
ar.read_texts(ar.LinearRNN(1, 1), ["a text"], tokenizer="bert")  # type: ignore[arg-type]
ar.advise(target)  # type: ignore[arg-type]
ar.profile(ar.LinearRNN(1, 1), target.sample(8, 0)).save("page", 0.05)  # type: ignore[arg-type]
ar.reproduce(preset="fast")  # type: ignore[arg-type]
ar.train("mnist")  # type: ignore[arg-type]
ar.choose("load.csv", stage="races")  # type: ignore[arg-type]
ar.choose("load.csv", horizon="24")  # type: ignore[arg-type]
target.sample("8", 0)  # type: ignore[arg-type]
target.permuted("reversed")  # type: ignore[arg-type]
ar.spectral_target(alpha="1", rank=6)  # type: ignore[arg-type]
ar.Transformer(1, 1, m_h=None)  # type: ignore[arg-type]
print(ar.no_such_name)  # type: ignore[attr-defined]


class Boxless:
    """A law without a box."""

    d = 1

    def draw(self, n: int, length: int, generator: torch.Generator) -> torch.Tensor:
        return torch.rand(n, length, 1, generator=generator, dtype=torch.float64)


class Worded(ar.IndependentInputs):
    """A law whose box is a word."""

    low = "zero"  # type: ignore[assignment]


ar.linear_target("exponential", 3, Boxless())  # type: ignore[arg-type]
