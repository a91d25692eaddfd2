"""Position encodings at work: linear targets written into Eq. 5, and models for another order.

Statement. Let y = M x with M >= 0 invertible and tokens in [0, 1]. With a learned or sinusoidal
encoding, or with the shift of Eq. 7, the target is of the form of Eq. 5 with n = m_v = τ + 1,
m_h = τ, and networks of one hidden layer with m_ff <= 2τ.

Proof. 1. One coordinate of the encoded token lies in an interval of its own for each position: that
   is Eq. 7, and the other two encodings contain it, with a small multiple of x added to a
   coordinate in which all positions differ.
2. So a piecewise-linear f̂ gives (x, e_s), with a bend at each end of an interval.
3. W_Q e_t is the row t of log M, and W_K e_s = e_s. The weights are A[t, s] = M[t, s] / c(t) with
   c(t) = Σ_s M[t, s]. The query counts by its position only.
4. The values (x(s), A⁻¹[s, ·]) have the mean (y(t) / c(t), e_t), and
   F̂(P, o) = Σ_j relu(c(j) P - B (1 - o_j)) with B = max c is y(t).  QED

The inputs in the order p have the matrix M[:, p], which is as good: every such target and every
order of it has a model of the same size, made from another by a permutation of columns of W_K and
W_V (`reordered`). This is Prop. 6.2 where it holds exactly, with equal singular values.
"""

import copy
from typing import Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Float64
from torch import nn

from attnrate.errors import InputError
from attnrate.models import RelativeTransformer, Transformer, feed_forward
from attnrate.models.positions import IntervalShift, LearnedPosition, SinusoidalPosition
from attnrate.targets import LinearTarget, UniformInputs
from attnrate.targets.checks import Permutation, as_permutation
from attnrate.theory.compile import interpolant, knots

Tensor = torch.Tensor
#: The models whose encodings are compared
Encoded: TypeAlias = Transformer | RelativeTransformer
#: Encodings by which a token says where it stands
Absolute = Literal["learned", "sinusoidal", "shift"]
Intervals = tuple[tuple[float, float], ...]
#: The least logit: e^-60 is no weight in float64 beside one of 1 / τ
_LEAST = -60.0
#: Beyond this condition number the pooled values do not say which position asks
_MOST_CONDITION = 1e10


def compile_linear(target: LinearTarget, position: Absolute) -> Transformer:
    """The Transformer of Eq. 5 with this encoding that is a linear target up to rounding.

    Args:
        target: A linear target with an invertible matrix M >= 0, and tokens in [0, 1].
        position: The position encoding.

    Returns:
        The Transformer, in float64.

    Raises:
        InputError: If the matrix or the law of the inputs is another one.

    """
    M, length = _required(target), target.length
    n = length + 1
    # modules are created with random weights; every one of them is overwritten below
    with torch.random.fork_rng(devices=[]):
        F_hat = feed_forward(n, 1, length, depth=1).double()
        model = Transformer(
            1,
            1,
            n=n,
            m_h=length,
            m_v=n,
            position=position,
            length=length,
            f_hat=nn.Identity(),
            F_hat=F_hat,
        ).double()
        model.f_hat = _split(model)
    c = torch.tensor(M.sum(1))
    with np.errstate(divide="ignore"):
        logits = torch.tensor(np.maximum(np.log(M / M.sum(1, keepdims=True)), _LEAST))
    weights = logits.softmax(-1)
    gate, bias, last, constant = F_hat.parameters()
    B = float(c.max())
    with torch.no_grad():
        for each in (model.W_Q.weight, model.W_K.weight, model.W_V.weight, constant):
            each.zero_()
        model.W_Q.weight[:, 1:] = logits.mT
        model.W_K.weight[:, 1:] = torch.eye(length)
        model.W_V.weight[0, 0] = 1.0
        model.W_V.weight[1:, 1:] = torch.linalg.inv(weights).mT
        gate[:, 0] = c
        gate[:, 1:] = B * torch.eye(length, dtype=torch.float64)
        bias.fill_(-B)
        last.fill_(1.0)
    return model


def reordered(model: Transformer, p: Permutation) -> Transformer:
    """The compiled Transformer for inputs in the order p: Ĥ~(x∘p) = Ĥ(x), as Prop. 6.2 asks.

    Outputs stay where they are. This is possible because in a compiled model the query counts by
    its position only: keys and values of position j become those of position p(j).

    Args:
        model: A Transformer of `compile_linear`.
        p: The permutation.

    Returns:
        A copy, with columns of W_K and W_V in another order.

    """
    order = as_permutation(p, model.n - 1)
    made = copy.deepcopy(model)
    columns = [0, *(1 + j for j in order)]
    with torch.no_grad():
        for each in (made.W_K, made.W_V):
            each.weight.copy_(each.weight[:, columns])
    return made


def relabelled(model: Encoded, p: Permutation) -> Encoded:
    """A Transformer for inputs and outputs in the order p: Ĥ~(x∘p) = Ĥ(x)∘p, for any weights.

    With learned positions e~(j) = e(p(j)) is all. With the shift of Eq. 7, f̂ is preceded by the
    piecewise-linear map that moves the interval of j to that of p(j): one more hidden layer with
    2τ - 1 units, whose slopes in the gaps grow with the jumps of p.

    Relative positions are a function of t - s, and remain one only where p(t) - p(s) depends on
    t - s: where p changes nothing, or reverses time. For reversed time rotary positions are turned
    the other way round, by another sign of the second coordinate of each pair in W_Q and W_K. ALiBi
    counts |t - s|, so that a model is its own twin.

    Args:
        model: A Transformer with learned positions or the shift, made for sequences of its length,
            or with relative positions.
        p: The permutation.

    Returns:
        A copy.

    Raises:
        InputError: If it has another encoding, or p is neither the reversal nor the identity for
            relative positions.

    """
    made = copy.deepcopy(model)
    if isinstance(made, RelativeTransformer):
        return _backwards(made, as_permutation(p, None))
    position = made.position
    if isinstance(position, LearnedPosition):
        order = as_permutation(p, position.e.shape[0])
        with torch.no_grad():
            position.e.copy_(position.e[list(order)])
        return made
    if not isinstance(position, IntervalShift):
        raise InputError(
            "only learned positions, the shift of Eq. 7 and relative positions can be relabelled",
            type(position).__name__,
            'Use position="learned" or "shift".',
        )
    if position.d != 1:
        raise InputError("tokens must be scalars to be moved between intervals; d", position.d)
    intervals = position.intervals
    order = as_permutation(p, len(intervals))
    moved = torch.tensor([intervals[j] for j in order], dtype=torch.float64).reshape(-1, 1)
    units = 2 * len(intervals) - 1
    before = interpolant(knots(intervals, units), moved, units).to(made.W_Q.weight.dtype)
    made.f_hat = nn.Sequential(before, made.f_hat)
    return made


def _backwards(model: RelativeTransformer, p: tuple[int, ...]) -> RelativeTransformer:
    """The model itself, changed for the order p."""
    identity = tuple(range(len(p)))
    if p not in (identity, identity[::-1]):
        raise InputError(
            "relative positions can be relabelled for the reversal of time only",
            p,
            "Pass the positions in falling order.",
        )
    if p != identity and model.relative == "rotary":
        with torch.no_grad():
            for each in (model.W_Q, model.W_K):
                each.weight[model.m_h // 2 :].neg_()
    return model


def _required(target: LinearTarget) -> Float64[np.ndarray, "length length"]:
    """The matrix of a target that can be compiled, or an InputError."""
    if not isinstance(target.inputs, UniformInputs) or target.inputs != UniformInputs():
        raise InputError("tokens must be uniform on [0, 1]", target.inputs)
    M = target.matrix
    if M.min() < 0:
        raise InputError("attention weights are positive; least entry of the matrix", M.min())
    found = np.linalg.cond(M)
    if not found < _MOST_CONDITION:
        raise InputError(
            f"the matrix must have a condition number below {_MOST_CONDITION:g}",
            float(found),
            "The pooled values must say which position asks.",
        )
    return M


def _split(model: Transformer) -> nn.Sequential:
    """f̂: the encoded token -> (x, e_s), piecewise linear in one of its coordinates.

    A learned encoding and the matrix of a sinusoidal one are set so that this coordinate lies in an
    interval of its own for each position.
    """
    position = model.position
    coordinate, length = 0, model.n - 1
    if isinstance(position, IntervalShift):
        ends = torch.tensor(position.intervals, dtype=torch.float64)
    else:
        assert isinstance(position, LearnedPosition | SinusoidalPosition)
        with torch.no_grad():
            position.A.weight.zero_()
            if isinstance(position, LearnedPosition):
                scale, starts = 1.0, 2.0 * torch.arange(length, dtype=torch.float64)
                position.e.zero_()
                position.e[:, 0] = starts
            else:
                table = position(torch.zeros(1, length, 1, dtype=torch.float64))[0]
                apart = table.sort(0).values.diff(dim=0).amin(0)
                coordinate = int(apart.argmax())
                scale, starts = float(apart[coordinate]) / 2, table[:, coordinate]
            position.A.weight[coordinate, 0] = scale
        ends = torch.stack([starts, starts + scale], -1)
    by_place = ends[:, 0].argsort().tolist()
    intervals: Intervals = tuple((float(a), float(b)) for a, b in ends[by_place])
    units = 2 * length - 1
    hot = torch.eye(length, dtype=torch.float64)[by_place].repeat_interleave(2, 0)
    x = torch.tensor([0.0, 1.0], dtype=torch.float64).repeat(length)[:, None]
    piecewise = interpolant(knots(intervals, units), torch.cat([x, hot], -1), units)
    network = feed_forward(position.features, model.n, units, depth=1).double()
    with torch.no_grad():
        for into, value in zip(network.parameters(), piecewise.parameters(), strict=True):
            into.zero_()
            if into.shape == value.shape:
                into.copy_(value)
            else:
                into[:, coordinate] = value[:, 0]
    return network
