"""What a fitted contender does on held-out samples, and what it takes to run it."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import nn

from attnrate.choose.contender import contender
from attnrate.choose.folds import units
from attnrate.choose.predictor import Make, Predictor
from attnrate.choose.samples import Samples
from attnrate.models.attention import Heads

Tensor = torch.Tensor
#: A function from tokens to outputs, in units of the data
Forecast: TypeAlias = Callable[[Tensor], Tensor]

#: Samples that are predicted at once
_BATCH = 1024
#: Bundles of units at most, of which errors are kept; panels have a unit for each sequence
_BUNDLES = 400
#: Numbers that training keeps for each parameter: itself, its gradient, and two moments
_COPIES = 4
_LOOKED_AT = 512


@dataclass(frozen=True)
class Judged:
    """Errors on held-out samples.

    Attributes:
        mse: The squared error in units of the data: a sum over the coordinates of an output, the
            mean over samples and places.
        units: The bundle of independent units of each entry of `errors`, from `bundles`.
        errors: The mean error of each bundle.
        counts: The number of samples of each bundle.
        inference: Seconds of processor time that 1,000 samples take, in one thread.

    """

    mse: float
    units: tuple[int, ...]
    errors: tuple[float, ...]
    counts: tuple[int, ...]
    inference: float


def bundles(samples: Samples) -> Int64[np.ndarray, " samples"]:
    """Number the samples by bundles of units, few enough to keep an error of each.

    Args:
        samples: The samples.

    Returns:
        The bundle of each sample; a bundle has whole units, so that bundles are as independent.

    """
    found = units(samples)
    count = int(found.max()) + 1
    return found if count <= _BUNDLES else found * _BUNDLES // count


def judged(
    samples: Samples, held: Int64[np.ndarray, " held"], predictor: Forecast
) -> Judged | None:
    """Judge a model on held-out samples; none is left out.

    Args:
        samples: The samples.
        held: The numbers of those that are held out.
        predictor: The model, in units of the data.

    Returns:
        Its errors; None if one of them is not finite.

    """
    errors, seconds = np.empty(len(held)), 0.0
    with torch.no_grad():
        for first in range(0, len(held), _BATCH):
            part = slice(first, first + _BATCH)
            x, y = torch.from_numpy(samples.tokens(held[part])), samples.truth(held[part])
            begun = time.process_time()
            found = predictor(x)
            seconds += time.process_time() - begun
            errors[part] = np.square(found.numpy() - y).sum(-1).mean(-1)
    if not np.isfinite(errors).all():
        return None
    names, where = np.unique(bundles(samples)[held], return_inverse=True)
    counts = np.bincount(where)
    each = np.bincount(where, weights=errors) / counts
    return Judged(
        math.fsum(errors) / len(held),
        tuple(names.tolist()),
        tuple(each.tolist()),
        tuple(counts.tolist()),
        1000 * seconds / len(held),
    )


def constant_errors(
    samples: Samples, held: Int64[np.ndarray, " held"]
) -> tuple[Float64[np.ndarray, " bundles"], Int64[np.ndarray, " bundles"]]:
    """Give the squared deviations of held-out outputs from their own means, by bundle.

    Args:
        samples: The samples.
        held: The numbers of those that are held out.

    Returns:
        The mean of each bundle, in the order of `Judged.errors`, and the number of its samples; the
        mean over samples is the held-out variance.

    """
    y = samples.truth(held)
    errors = np.square(y - y.mean((0, 1))).sum(-1).mean(-1)
    _, where = np.unique(bundles(samples)[held], return_inverse=True)
    counts = np.bincount(where)
    return np.bincount(where, weights=errors) / counts, counts


def memory_of(make: Make, batch: int) -> int:
    """Estimate the bytes that training a model takes, apart from the data.

    Args:
        make: How the model is made.
        batch: The number of samples in a step.

    Returns:
        The bytes of the parameters with their gradients and moments, and of what one batch saves
        for its gradients; of a map that is solved, those of the moments of the features.

    """
    shape = make.shape
    if contender(make.name).solved:
        features = shape.length * shape.d
        return 8 * features * (2 * features + shape.out * (shape.length if shape.whole else 1))
    saved: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.random.fork_rng(devices=[]):
        model = make.model()
        x = torch.zeros(batch, shape.length, shape.d)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            model(x).square().sum()
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    numbers = sum(p.numel() * p.element_size() for p in model.parameters())
    return _COPIES * numbers + sum(size for place, size in saved.items() if place not in own)


def spectra_of(
    samples: Samples, held: Int64[np.ndarray, " held"], predictor: Predictor
) -> tuple[tuple[float, ...], ...]:
    """Measure the singular values of the logits of each layer, on held-out samples.

    Keys are centred over the sample, because softmax does not see what is added to all logits of a
    query (the gauge). With the queries' second moments A and those of the centred keys B, the
    squares of the singular values are the eigenvalues of A B, and their sum is the mean square of a
    logit of independent tokens.

    Args:
        samples: The samples.
        held: The numbers of those that are held out.
        predictor: A model with layers that have W_Q and W_K.

    Returns:
        The singular values of each layer, the largest first; the first layer first.

    """
    evenly = np.linspace(0, len(held) - 1, min(len(held), _LOOKED_AT)).round().astype(int)
    x = torch.from_numpy(samples.tokens(held[np.unique(evenly)]))
    seen: dict[str, Tensor] = {}
    hooks = [
        module.register_forward_hook(
            lambda _, __, output, name=name: seen.__setitem__(name, output.double())
        )
        for name, module in predictor.named_modules()
        if name.endswith((".W_Q", ".W_K"))
    ]
    with torch.no_grad():
        predictor(x)
    for hook in hooks:
        hook.remove()
    # the last layer's modules are the model's own, and so come before those of inner layers
    layers = sorted(name.removesuffix("W_Q") for name in seen if name.endswith("W_Q"))
    layers = [
        *(each for each in layers if ".inner." in each),
        *(each for each in layers if ".inner." not in each),
    ]
    return tuple(
        _singular(seen[f"{each}W_Q"], seen[f"{each}W_K"], _factor(predictor, each))
        for each in layers
    )


def _factor(predictor: nn.Module, layer: str) -> float:
    """What the logits of a layer are multiplied with."""
    rule = predictor.get_submodule(layer.removesuffix(".")).rule
    assert isinstance(rule, Heads)
    return rule.factor


def _singular(query: Tensor, key: Tensor, factor: float) -> tuple[float, ...]:
    keys = (key - key.mean(1, keepdim=True)).flatten(0, 1)
    queries = query.flatten(0, 1)
    # of triangular factors, since moments would square the smallest away
    left, right = torch.linalg.qr(queries)[1], torch.linalg.qr(keys)[1]
    size = factor / math.sqrt(len(queries) * len(keys))
    found = (torch.linalg.svdvals(left @ right.mT) * size).tolist()
    # where there are fewer queries than rows of a head, the rest is 0
    return (*found, *[0.0] * (query.shape[-1] - len(found)))
