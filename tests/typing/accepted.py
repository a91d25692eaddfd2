"""What people write, and what a strict type checker must accept.

`make check` runs mypy and basedpyright over this file; nothing here is run.
"""

from pathlib import Path
from typing import assert_type

import datasets
import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
import transformers

import attnrate as ar

Array = npt.NDArray[np.float64]


# ---- her own coupling, in numpy or in torch, as a matrix, on any domain


def own_coupling(u: Array, v: Array) -> Array:
    return np.exp(-np.abs(u - v))


def own_coupling_in_torch(u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.exp(-(u - v).abs())


class Bilinear(torch.nn.Module):
    def forward(self, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return u * v


spectrum = ar.pod(own_coupling, (0, 1), gauge="softmax")
assert_type(spectrum, ar.Pod)
ar.pod(own_coupling_in_torch, (0.0, 1.0), (0.0, 2.0), gauge=None, rtol=1e-8)
ar.pod(lambda u, v: u * v, ar.union((0, 1), (2, 3)))
ar.pod(Bilinear(), ar.Samples(np.linspace(0.0, 1.0, 50)))
ar.pod(np.minimum, [(0, 1)])
ar.pod(lambda u, v: (u * v).sum(-1), ar.box((0, 1), (0, 1)), max_rank=4)
ar.pod(np.eye(4))
ar.pod(ar.spectral_coupling(1.0, 6), (0, 1))
ar.pod(ar.spectral_target(alpha=1.0, rank=3).rho, (0, 1)).sigma.round(3)
first: float = float(spectrum.sigma[0])
tail: float = spectrum.tail(3)
spectra: pd.DataFrame = spectrum.to_frame()
spectrum.plot().savefig("spectrum.png")
law: str = spectrum.decay().law
assert_type(ar.fit_decay([1.0, 0.5, 0.25]), ar.Decay)
gauge: ar.Gauge = "softmax"
norm: ar.Norm = "l1"


# ---- her own target and law of the inputs


def doubled(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


def drawn(n: int, length: int, seed: int) -> Array:
    return np.random.default_rng(seed).beta(2.0, 5.0, size=(n, length, 1))


target = ar.AttentionTarget(
    doubled, doubled, own_coupling, length=8, inputs=ar.SampledInputs(drawn, low=0.0, high=1.0)
)
ar.AttentionTarget(doubled, doubled, own_coupling_in_torch, 8, ar.GaussianInputs(0.0, 2.0))
x: torch.Tensor = target.sample(8, seed=0)
y: torch.Tensor = target(x)
reversed_target: ar.Target = target.permuted([7, 6, 5, 4, 3, 2, 1, 0])
mixed_target: ar.Target = target.mixed([0.5, 0.5])


class Shifted(ar.Target):
    """y(t) = x(t - 1)."""

    def __init__(self, length: int) -> None:
        self.length, self.inputs, self.out, self.name = length, ar.UniformInputs(), 1, "shifted"

    def evaluate(self, x: torch.Tensor) -> torch.Tensor:
        return torch.roll(x, 1, dims=1)


class Coins:
    """A law of her own, as the reference shows it."""

    d, low, high = 1, (0.0,), (1.0,)

    def draw(self, n: int, length: int, generator: torch.Generator) -> torch.Tensor:
        return torch.randint(0, 2, (n, length, 1), generator=generator).double()


class IndependentCoins(ar.IndependentInputs):
    low, high, mean, variance = (0.0,), (1.0,), (0.5,), (0.25,)

    def draw(self, n: int, length: int, generator: torch.Generator) -> torch.Tensor:
        return torch.randint(0, 2, (n, length, 1), generator=generator).double()


class Uniform(ar.IndependentInputs):
    """A law whose box is given to its constructor."""

    def __init__(self, width: float) -> None:
        self.low, self.high = (0.0,), (width,)
        self.mean, self.variance = (width / 2,), (width**2 / 12,)

    def draw(self, n: int, length: int, generator: torch.Generator) -> torch.Tensor:
        return self.high[0] * torch.rand(n, length, 1, generator=generator, dtype=torch.float64)


laws: list[ar.InputLaw] = [Coins(), IndependentCoins(), Uniform(2.0), ar.UniformInputs()]
ar.linear_target("exponential", 3, Coins())
ar.AttentionTarget(doubled, doubled, own_coupling, 8, IndependentCoins())


# ---- bounds, compiled models


bound = ar.jackson_bound(target, 3, norm=norm)
assert_type(bound, ar.Bound)
value: float = bound.value
compiled = ar.compile_target(target, m_h=3)
assert_type(compiled, ar.Transformer)
assert_type(compiled(x), torch.Tensor)
assert_type(compiled.coupling()(x, x), torch.Tensor)
assert_type(ar.complexity(target, gauge=gauge), ar.Complexity)


# ---- fits, brackets, sweeps


def own_model() -> torch.nn.Module:
    return ar.LinearRNN(1, 1, hidden=16)


def own_kind(slope: float, length: int = 16) -> ar.Target:
    return Shifted(length)


fitted = ar.fit(Shifted(16), own_model, "strong", seed=1, steps=100, lr=1e-3)
assert_type(fitted, ar.Fit)
error: float = fitted.error
model: torch.nn.Module = fitted.model


class Small(torch.nn.Module):
    """A model of her own, with a part of her own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.inner(x)
        return y


def small() -> Small:
    return Small()


def size_of(fit: ar.Fit) -> int:
    return sum(one.numel() for one in fit.model.parameters())


kept: ar.Fit[Small] = ar.fit(target, Small())
assert_type(ar.fit(target, Small).model, Small)
assert_type(ar.fit(target, small, steps=10).model.inner, torch.nn.Linear)
assert_type(ar.fit(target, lambda: ar.LinearRNN(1, 1)).model, ar.LinearRNN)
assert_type(ar.fit(target, ar.Transformer(1, 1, m_h=4)).model, ar.Transformer)
size_of(ar.fit(target, Small()))
found = ar.bracket(target, m_h=3, steps=100)
assert_type(found, ar.Bracket)
best: tuple[float, float] = (found.lower, found.upper)
ar.fit(target, ar.Transformer(1, 1, m_h=4), recipe=ar.Recipe(name="mine", steps=10))
trials = ar.sweep(
    {
        "target": {"kind": own_kind, "slope": 2.0},
        "model": {"kind": "transformer"},
        "grid": {"model.m_h": [1, 2], "seed": [0, 1]},
    },
    store="mine.sqlite",
    workers=2,
)
assert_type(trials, ar.SweepResult)
table: pd.DataFrame = trials.to_frame()


def best_row(rows: tuple[ar.Finished, ...]) -> ar.Finished:
    return min(rows, key=lambda row: row.seconds)


def message_of(row: ar.Failed) -> str:
    return row.error


def saved(drawing: ar.Drawing) -> None:
    drawing.savefig("drawing.png")


best_row(trials.finished)
failures: list[str] = [message_of(row) for row in trials.failed]
saved(trials.plot())
saved(spectrum.plot())


# ---- profiles


profile = ar.profile(compiled, x, layers=[0], cut_inputs=4)
assert_type(profile, ar.Profile)
ar.profile(torch.nn.TransformerEncoderLayer(8, 2, batch_first=True), [x, x])
ar.profile(compiled, {"x": x}, gauge=None)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x), batch_size=2)
ar.profile(compiled, loader)
ar.profile(compiled, (batch for batch in (x, x)))
loaded = ar.load_model("path/to/model")
texts: list[str] = ["a text", "another"]
chats = [[{"role": "user", "content": "Hello!"}], [{"role": "user", "content": "Bye."}]]
rows = [{"title": "a", "body": "a text"}, {"title": "b", "body": "another"}]
reviews = datasets.Dataset.from_dict({"body": texts})
ar.profile(loaded, texts)
ar.profile(loaded, chats)
ar.profile(loaded, (text for text in texts))
ar.profile(loaded, reviews)
ar.profile(loaded, reviews.to_iterable_dataset())
tokenizer = transformers.AutoTokenizer.from_pretrained("path/to/model")
ar.profile(loaded, [tokenizer(text) for text in texts])
fast = transformers.PreTrainedTokenizerFast.from_pretrained("path/to/model")
read = ar.read_texts(loaded.model, rows, column="body", tokens=1000, tokenizer=fast)
assert_type(read, ar.Batches | ar.BatchStream)
ar.profile(loaded, read)
ar.profile(loaded, ar.read_table(loaded, "rows.jsonl", "body", limit=8))
ar.profile(loaded, ar.read_sound(loaded, "recordings"))


def profiled(inputs: ar.Inputs, more: ar.Texts) -> list[ar.Profile]:
    return [ar.profile(loaded, inputs), ar.profile(loaded, more)]


advice = ar.advise(profile, tolerance=0.05)
assert_type(advice, ar.Advice)
sizes: list[int] = [layer.size for layer in advice.layers]


def loss(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    made: torch.Tensor = model(**batch)
    return made.mean((1, 2))


checked = advice.check(compiled, {"x": x}, metric=loss)
if checked.metric is not None:
    assert_type(checked.metric.change, ar.Interval)
advice.check(compiled, x, lambda model, batch: 0.5)
compared = ar.compare(profile, profile, layers={"last": 0})
assert_type(compared, ar.Comparison)
verdicts: list[str] = [head.verdict for head in compared.heads]
saved(compared.plot())
assert_type(profile.save("page", advice), Path)
assert_type(advice.by_head(), pd.DataFrame)

try:
    ar.pod(own_coupling, (1, 0))
except ar.InputError as problem:
    message: str = str(problem)


# ---- data of her own: is attention needed?

answer = ar.choose(pd.read_csv("load.csv"), target="load", horizon=24, window=168)
assert_type(answer, ar.Choice)
ar.choose("load.csv", target=["load", "price"], stage="ladder", minutes=1, progress=False)
ar.choose(Path("load.parquet"), time="hour", id="house", ignore=["key"], resample="1h")
ar.choose(np.zeros((100, 8, 2)), np.zeros((100, 8, 1)), seeds=5, engine="ray", store="fits.sqlite")
ar.choose(torch.zeros(100, 8, 2), torch.zeros(100, 8, 1))
ladder: ar.Ladder | None = answer.ladder
if answer.race is not None and answer.race.best is not None:
    beside_best: float = answer.race.best.ratio
    racers: tuple[ar.Racer, ...] = answer.race.racers
if answer.kernel is not None:
    reach: int = answer.kernel.reach
predicted: Array = answer.predict(pd.read_csv("load.csv"))
written: Path = answer.save("answer")
assert_type(ar.load_choice("answer"), ar.SavedChoice)
