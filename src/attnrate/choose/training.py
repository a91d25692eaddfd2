"""Training a contender on samples: the same recipe for all, best weights on a watched part.

SOAP with warm-up, cosine decay and clipping. A run that diverges begins again with a third of the
step size, twice at most. Steps are given and never seconds, so that the same call gives the same
weights.
"""

import copy
import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float32, Int64
from torch import nn

from attnrate.choose.contender import Shape, contender
from attnrate.choose.contenders.linear import LinearMap
from attnrate.choose.folds import Fold
from attnrate.choose.judging import Judged, judged, memory_of, spectra_of
from attnrate.choose.least_squares import solve
from attnrate.choose.predictor import Make, Predictor, Scales
from attnrate.choose.samples import Samples
from attnrate.errors import InputError
from attnrate.fitting.device import torch_threads

Tensor = torch.Tensor

#: Increase it when the same settings come to give other weights: it is part of a job's settings
RECIPE = 1
#: The share of the training part by which weights and ridges are chosen
_WATCHED = 0.15
#: Watched samples at most; more of them would cost more than they tell
_WATCHED_AT_MOST = 1024
_LOOKS, _WARM, _CLIP, _DECAY = 16, 0.1, 1.0, 1e-2
#: How often a run that diverged begins again, and the factor of its step size
_RETRIES, _SMALLER = 2, 1 / 3
#: A watched error above this many variances of the outputs is that of a model that diverged
_EXPLODED = 1e4
_EVALUATED = 1024


@dataclass(frozen=True, eq=False)
class Fitted:
    """A contender after its training.

    Attributes:
        predictor: The model in units of the data; None if it diverged.
        parameters: The number of its parameters.
        seconds: The seconds of processor time of its training, in one thread, those of runs that
            diverged included.
        steps: The number of steps; 0 for a model that is solved.
        rate: The step size of the last run, or the ridge of a model that is solved.
        watched: The error on the watched samples in scaled units; None if it diverged.

    """

    predictor: Predictor | None
    parameters: int
    seconds: float
    steps: int
    rate: float
    watched: float | None


@dataclass(frozen=True)
class Raced:
    """How a contender did on one fold with one seed, as a store keeps it.

    Attributes:
        status: "done", or "diverged" for a model without finite errors.
        parameters: The number of its parameters.
        seconds: The seconds of processor time of training, in one thread.
        steps: The number of steps.
        rate: The step size of the last run, or the ridge of a model that is solved.
        memory: An estimate of the bytes that training takes: parameters, their gradients and
            moments, and what one batch saves for its gradients.
        judged: What it does on the held-out samples; None if it diverged.
        spectra: For models with heads, the singular values of the logits of each layer.

    """

    status: Literal["done", "diverged"]
    parameters: int
    seconds: float
    steps: int
    rate: float
    memory: int
    judged: Judged | None
    spectra: tuple[tuple[float, ...], ...] = ()


def train_on(
    samples: Samples,
    fold: Fold,
    name: str,
    size: int,
    seed: int,
    steps: int,
    batch: int = 64,
    m_h: int | None = None,
) -> Raced:
    """Train a contender on a fold and judge it on what the fold holds out.

    Args:
        samples: The samples.
        fold: What is learned from and what is held out.
        name: The name of the contender.
        size: Its size, as `Contender.size` gives it.
        seed: The seed of its first weights and of its batches.
        steps: The number of steps; a linear map has none.
        batch: The number of samples in a step.
        m_h: The head size. Default: that of the race.

    Returns:
        What it did; a model that diverged is a result and no error.

    """
    fitted = fit_on(samples, fold.train, name, size, seed, steps, batch, m_h)
    shape = Shape.of(samples)
    make = Make(name, shape, size, m_h or contender(name).m_h)
    found: Judged | None = None
    spectra: tuple[tuple[float, ...], ...] = ()
    with torch_threads(1):
        if fitted.predictor is not None:
            found = judged(samples, fold.held, fitted.predictor)
        if fitted.predictor is not None and found is not None and make.m_h:
            spectra = spectra_of(samples, fold.held, fitted.predictor)
    return Raced(
        "diverged" if found is None else "done",
        fitted.parameters,
        fitted.seconds,
        fitted.steps,
        fitted.rate,
        memory_of(make, batch),
        found,
        spectra,
    )


def fit_on(
    samples: Samples,
    train: Int64[np.ndarray, " train"],
    name: str,
    size: int,
    seed: int,
    steps: int,
    batch: int = 64,
    m_h: int | None = None,
    division: int | None = None,
) -> Fitted:
    """Train a contender on some samples, of which a part is watched and not learned from.

    Args:
        samples: The samples.
        train: The numbers of the samples that it may see.
        name: The name of the contender.
        size: Its size, as `Contender.size` gives it.
        seed: The seed of its first weights and of its batches.
        steps: The number of steps; a linear map has none.
        batch: The number of samples in a step.
        m_h: The head size. Default: that of the race.
        division: The seed by which a panel is parted. Default: the seed.

    Raises:
        InputError: If there are too few samples to learn from and to watch.

    """
    kind = contender(name)
    learned, watched = parted(samples, train, seed if division is None else division)
    scales = Scales.of(samples, learned)
    make = Make(name, Shape.of(samples), size, m_h or kind.m_h)
    if not kind.solved:
        import_optimizer()
    begun = time.process_time()
    with torch_threads(1), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = make.model()
        parameters = sum(each.numel() for each in model.parameters())
        if isinstance(model, LinearMap):
            run, steps = _Run(model, *solve(model, samples, scales, learned, watched)), 0
        else:
            data = _Data(samples, scales, learned, watched, batch, seed)
            run = _best(data, model, kind.rate, steps)
    seconds = time.process_time() - begun
    finite = math.isfinite(run.watched)
    predictor = Predictor(make, scales, run.model).eval() if finite else None
    return Fitted(predictor, parameters, seconds, steps, run.rate, run.watched if finite else None)


def parted(
    samples: Samples, train: Int64[np.ndarray, " train"], seed: int
) -> tuple[Int64[np.ndarray, " learned"], Int64[np.ndarray, " watched"]]:
    """Part samples into those that are learned from and those that are watched.

    Of a series the last ones are watched, and none that shares a row's time with them is learned
    from. Of a panel random sequences are watched.

    Args:
        samples: The samples.
        train: The numbers of those that are parted.
        seed: The seed by which a panel is parted.

    Raises:
        InputError: If too few would be learned from.

    """
    count = max(1, round(_WATCHED * len(train)))
    if samples.whole:
        order = np.random.default_rng(seed).permutation(train)
        learned, watched = np.sort(order[count:]), np.sort(order[:count])
    else:
        first, last = samples.moments()
        ends = last[train]
        late = ends >= np.sort(ends)[-count] if len(train) > count else np.zeros(len(train), bool)
        watched = train[late]
        begin = first[watched].min() if len(watched) else -np.inf
        learned = train[~late & (ends < begin)]
    if len(learned) < 2 or not len(watched):
        raise InputError(
            "there are too few samples to train a model and to watch it",
            len(train),
            "Pass more rows, or a shorter window.",
        )
    return learned, watched


@dataclass(frozen=True, eq=False)
class _Run:
    """A model with the weights that were best on the watched samples, and that error."""

    model: nn.Module
    watched: float
    rate: float


class _Data:
    """Scaled samples as tensors: random batches of those learned from, and the watched ones."""

    def __init__(
        self,
        samples: Samples,
        scales: Scales,
        learned: Int64[np.ndarray, " learned"],
        watched: Int64[np.ndarray, " watched"],
        batch: int,
        seed: int,
    ) -> None:
        self.samples, self.scales, self.seed = samples, scales, seed
        self.rows = scales.rows(samples.x)
        self.starts = torch.from_numpy(samples.starts)
        self.inside = torch.arange(samples.length)
        self.learned, self.batch = learned, min(batch, len(learned))
        evenly = np.linspace(0, len(watched) - 1, min(len(watched), _WATCHED_AT_MOST))
        self.watched = watched[np.unique(evenly.round().astype(int))]
        self.truth = self.wanted(self.watched)

    def tokens(self, which: Int64[np.ndarray, " some"]) -> Float32[Tensor, "some length d"]:
        return self.rows[self.starts[torch.from_numpy(which)][:, None] + self.inside]

    def wanted(self, which: Int64[np.ndarray, " some"]) -> Float32[Tensor, "some places out"]:
        return self.scales.wanted(self.samples.truth(which))

    def batches(self, steps: int) -> Iterator[Int64[np.ndarray, " batch"]]:
        """Give `steps` batches; each sample once before any of them comes again."""
        drawn = np.random.default_rng([self.seed, 1])
        order = drawn.permutation(self.learned)
        at = 0
        for _ in range(steps):
            if at + self.batch > len(order):
                order = np.concatenate([order[at:], drawn.permutation(self.learned)])
                at = 0
            yield order[at : at + self.batch]
            at += self.batch

    def error(self, model: nn.Module) -> float:
        """The mean squared error on the watched samples, a sum over the outputs."""
        total = 0.0
        with torch.no_grad():
            for first in range(0, len(self.watched), _EVALUATED):
                part = slice(first, first + _EVALUATED)
                found = model(self.tokens(self.watched[part]))
                total += float((found - self.truth[part]).square().sum())
        return total / (len(self.watched) * self.samples.places)


def _best(data: _Data, model: nn.Module, rate: float, steps: int) -> _Run:
    """Train; a run that diverged begins again with smaller steps."""
    start = copy.deepcopy(model.state_dict())
    run = _run(data, model, start, rate, steps)
    for _ in range(_RETRIES):
        if math.isfinite(run.watched):
            break
        rate *= _SMALLER
        run = _run(data, model, start, rate, steps)
    return run


def _run(data: _Data, model: nn.Module, start: dict[str, Tensor], rate: float, steps: int) -> _Run:
    """Train from the start; keep the weights that were best on the watched samples."""
    model.load_state_dict(start)
    optimizer = _optimizer(model, rate)
    warm, every = max(1, round(_WARM * steps)), max(1, steps // _LOOKS)
    lowest, kept = math.inf, start
    exploded = _EXPLODED * data.samples.out
    for step, which in enumerate(data.batches(steps), start=1):
        falling = 0.5 * (1 + math.cos(math.pi * max(0, step - warm) / max(1, steps - warm + 1)))
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, step / warm) * falling
        loss = nn.functional.mse_loss(model(data.tokens(which)), data.wanted(which))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), _CLIP)
        try:
            optimizer.step()
        # SOAP decomposes what it has of the gradients, and fails when they are not finite
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
            return _Run(model, math.inf, rate)
        if step % every and step < steps:
            continue
        error = data.error(model)
        if not error <= exploded:
            return _Run(model, math.inf, rate)
        if error < lowest:
            lowest, kept = error, copy.deepcopy(model.state_dict())
    model.load_state_dict(kept)
    return _Run(model, lowest, rate)


def import_optimizer() -> None:
    """Import SOAP, which takes a second or more."""
    with warnings.catch_warnings():
        # it imports transformers, which asks for ipywidgets in a notebook, where we need none
        warnings.filterwarnings("ignore", message="IProgress not found")
        import pytorch_optimizer  # noqa: F401


def _optimizer(model: nn.Module, rate: float) -> torch.optim.Optimizer:
    """SOAP, which at equal time left less error than AdamW with the best of three step sizes."""
    import_optimizer()
    from pytorch_optimizer import SOAP

    return SOAP(
        model.parameters(),
        lr=rate,
        betas=(0.95, 0.95),
        weight_decay=_DECAY,
        precondition_frequency=10,
    )
