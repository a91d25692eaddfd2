"""Repairing a cut layer by layer: gradient steps on X and Y against what the whole heads gave.

The loss of a layer is that of its output: ‖Σ_h (A'_h - A_h) V_h W_O,h‖² over the tokens, so that
heads may make up for each other. Steps are taken in whitened coordinates, in which queries and keys
have unit second moments: X = Q^-½ X̃ and Y = K^-½ Ỹ. In others Adam diverges, because directions of
queries differ in size a thousandfold. A part of the inputs is held out; what is returned is the
best on that part, the start among the candidates, so that a repair never makes a layer worse there.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float

from attnrate.compress.content import Factors, balanced, roots
from attnrate.compress.held import Held
from attnrate.compress.how_far import At, one_by_one, unseen
from attnrate.compress.moments import Moments

Tensor = torch.Tensor
_QUERIES = 32  # of each input, in a step
_INPUTS = 12  # in a step
_RATE = 0.03  # of Adam, for numbers of size one
_LOOKS = 5  # measurements on the inputs held out during a repair
_HELD_OUT = 4  # every fourth input is held out


@dataclass(frozen=True)
class Repaired:
    """What a repair of a layer came to.

    Attributes:
        factors: The cut after the repair.
        before: The relative change of the layer's output by the cut to begin with, on inputs held
            out.
        after: The relative change of the layer's output on these inputs after the repair; never
            more than `before`.
        seconds: The time that this thread of the processor took for them.

    """

    factors: Factors
    before: float
    after: float
    seconds: float

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> "Repaired":
        """A repair from what its method `tensors` gave."""
        before, after, seconds = tensors["numbers"].tolist()
        factors = Factors(tensors["X"], tensors["Y"])
        return cls(factors, before, after, seconds)

    def tensors(self) -> dict[str, Tensor]:
        """All of it as tensors by name, to be kept in a file."""
        made = torch.tensor([self.before, self.after, self.seconds], dtype=torch.float64)
        return {"X": self.factors.X, "Y": self.factors.Y, "numbers": made}


def output_error(
    held: Held, W_O: Float[Tensor, "heads m_v n"], cuts: Sequence[Factors]
) -> list[float]:
    """The relative change of a layer's output under each of some cuts.

    Args:
        held: The calls of the layer.
        W_O: Its output projection.
        cuts: Cuts of its queries and keys.

    Returns:
        The root of Σ ‖o' - o‖² / Σ ‖o - ō‖² over the tokens, for each cut.

    """
    flat = W_O.flatten(0, 1).float()
    value = held.spread(held.value)
    thin = [_thin(held, each) for each in cuts]
    wrong = torch.zeros(len(cuts), dtype=torch.float64)
    whole = []
    with torch.no_grad():
        for rows in held.blocks():
            seen = held.counted[:, rows]
            own = _mixed(held, held.query, held.spread(held.key), value, rows)
            whole.append((own @ flat)[seen > 0])
            for number, (query, key) in enumerate(thin):
                change = (_mixed(held, query, key, value, rows) - own) @ flat
                wrong[number] += float((change.square().sum(-1) * seen).sum())
    o = torch.cat(whole).double()
    size = float((o - o.mean(0)).square().sum().clamp(min=1e-300))
    return [math.sqrt(each / size) for each in wrong.tolist()]


def repair(
    held: Held,
    moments: Moments,
    W_O: Float[Tensor, "heads m_v n"],
    start: Factors,
    steps: int = 200,
    seed: int = 0,
    at: At = unseen,
) -> Repaired:
    """Repair the cut of a layer's queries and keys by gradient steps.

    Args:
        held: The calls of the layer on calibration inputs.
        moments: The moments of the layer, for the coordinates.
        W_O: The output projection of the layer.
        start: The cut to begin with.
        steps: The number of steps.
        seed: The seed of the queries that each step looks at.
        at: Where progress is shown.

    Returns:
        The best cut on the inputs held out, and what it came to.

    """
    began = time.thread_time()
    away = [i for i in range(held.inputs) if i % _HELD_OUT == _HELD_OUT - 1] or [held.inputs - 1]
    own = [i for i in range(held.inputs) if i not in away] or away
    test, train = held.pick(away), held.pick(own)
    before = output_error(test, W_O, [start])[0]
    found, least = start, before
    if start.size == start.X.shape[1]:
        return Repaired(start, before, before, time.thread_time() - began)
    q_root, q_inverse = (x.float() for x in whitening(moments.query))
    k_root, k_inverse = (x.float() for x in whitening(moments.gauge))
    query = (train.query @ q_inverse).contiguous()
    key = (train.key @ k_inverse).contiguous()
    scale_q, scale_k = (float(n.clamp(min=1)) ** 0.5 for n in (moments.queries, moments.keys))
    X = (q_root @ start.X.float() / scale_q).requires_grad_()
    Y = (k_root @ start.Y.float() / scale_k).requires_grad_()
    query, key = query * scale_q, key * scale_k
    with torch.no_grad():
        value, keys = train.spread(train.value), train.spread(train.key)
        target = torch.cat(
            [_mixed(train, train.query, keys, value, rows) for rows in train.blocks()], 1
        )
    flat = W_O.flatten(0, 1).float()
    size = (target @ flat).flatten(0, 1).var(0).sum().clamp(min=1e-30)
    search = torch.optim.Adam([X, Y], lr=_RATE, betas=(0.9, 0.99))
    drawn = torch.Generator().manual_seed(seed)
    look = max(1, steps // _LOOKS)
    for step in one_by_one(range(1, steps + 1), "step", at):
        search.param_groups[0]["lr"] = _RATE * rate(step, steps)
        rows = torch.randperm(target.shape[1], generator=drawn)[:_QUERIES]
        some = torch.randperm(train.inputs, generator=drawn)[:_INPUTS].tolist()
        part = train.pick(some)
        thin_key = part.spread(key[some] @ Y)
        weights = part.weights(query[some][:, :, rows] @ X, thin_key, rows)
        mixed = (weights @ part.spread(part.value)).transpose(1, 2).flatten(2)
        change = (mixed - target[some][:, rows]) @ flat
        loss = (change.square().sum(-1) * part.counted[:, rows]).mean() / size
        search.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        search.step()
        if step % look == 0 or step == steps:
            made = Factors(
                (q_inverse @ X.detach() * scale_q).double(),
                (k_inverse @ Y.detach() * scale_k).double(),
            )
            error = output_error(test, W_O, [made])[0]
            if error < least:
                found, least = balanced(made, moments), error
    return Repaired(found, before, least, time.thread_time() - began)


def whitening(gram: Float[Tensor, "*many m m"]) -> tuple[Tensor, Tensor]:
    """The root of second moments and its inverse, where directions too small to matter are raised.

    Without that a direction that inputs hardly take would be blown up a millionfold.
    """
    size = gram.diagonal(dim1=-2, dim2=-1).mean(-1)
    more = (1e-6 * size).clamp(min=torch.finfo(gram.dtype).tiny)[..., None, None]
    return roots(gram + more * torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device))


def rate(step: int, steps: int) -> float:
    """The share of the learning rate in a step: a short rise, then a cosine down to nothing."""
    rise = max(1, steps // 20)
    return min(1.0, step / rise) * 0.5 * (1 + math.cos(math.pi * (step - 1) / steps))


def _thin(held: Held, cut: Factors) -> tuple[Tensor, Tensor]:
    X, Y = cut.X, cut.Y
    return (held.query.double() @ X).float(), held.spread((held.key.double() @ Y).float())


def _mixed(held: Held, query: Tensor, key: Tensor, value: Tensor, rows: slice) -> Tensor:
    """What the heads give for some queries, side by side: (inputs, t, heads · m_v)."""
    made: Tensor = held.weights(query[:, :, rows], key, rows) @ value
    return made.transpose(1, 2).flatten(2)
