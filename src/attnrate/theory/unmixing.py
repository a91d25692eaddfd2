"""What undoes a filter: its roots, its inverse as a convolution and as a linear RNN, and floors.

Write θ(w) = Σ_s θ(s) w^-s = θ(0) Π_i (1 - r_i/w). The causal inverse 1/θ(w) = Σ_s g(s) w^-s always
exists on finite sequences; g(s) decays if all roots have |r_i| < 1 (minimum phase), and grows with
max |r_i|^s otherwise. As a convolution it needs as many taps as a sequence has tokens. As a linear
RNN it needs only as many states as θ has lags, because x(t) = (z(t) - Σ_{s≥1} θ(s) x(t-s)) / θ(0).
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Complex128

from attnrate.errors import InputError, require_whole
from attnrate.models.hybrid import CausalFilter
from attnrate.models.recurrent import LinearRNN
from attnrate.targets.checks import require_vector


def roots(theta: Sequence[float]) -> Complex128[np.ndarray, " roots"]:
    """The roots r_i of a filter, θ(w) = θ(0) Π_i (1 - r_i/w).

    Args:
        theta: θ(0), θ(1), ..., with θ(0) ≠ 0.

    Returns:
        The roots, as many as θ has lags.

    Raises:
        InputError: If θ is no such filter.

    """
    return np.roots(_filter(theta)).astype(complex)


def minimum_phase(theta: Sequence[float]) -> bool:
    """Whether all roots lie within the unit circle, so that the causal inverse decays."""
    return bool((np.abs(roots(theta)) < 1).all())


def inverse_filter(theta: Sequence[float], taps: int) -> tuple[float, ...]:
    """The first terms g(0), g(1), ... of the causal inverse, with (g∗θ)(s) = 1 for s = 0, else 0.

    Args:
        theta: θ(0), θ(1), ..., with θ(0) ≠ 0.
        taps: The number of terms.

    Returns:
        The terms. With as many as a sequence has tokens, g∗(θ∗x) = x.

    """
    values, terms = _filter(theta), list[float]()
    for s in range(require_whole("taps", taps, 1)):
        known = sum(weight * terms[s - j] for j, weight in enumerate(values[: s + 1]) if j)
        terms.append((float(s == 0) - known) / values[0])
    return tuple(terms)


def inverse_rnn(theta: Sequence[float]) -> LinearRNN:
    """The linear RNN of Eq. 72-73 that undoes θ exactly: its state is x(t), x(t-1), ...

    Args:
        theta: θ(0), θ(1), ..., with θ(0) ≠ 0.

    Returns:
        A model in float64 without offsets, with as many states as θ has lags, and one at least.

    """
    values = torch.tensor(_filter(theta), dtype=torch.float64)
    states = max(1, len(values) - 1)
    first = torch.eye(states, dtype=torch.float64)[0]
    with torch.random.fork_rng(devices=[]):
        model = LinearRNN(1, 1, hidden=states, bias=False).double()
    with torch.no_grad():
        model.W.copy_(torch.eye(states, dtype=torch.float64).roll(1, 0))
        model.W[0] = 0.0
        model.W[0, : len(values) - 1] = -values[1:] / values[0]
        model.U.copy_(first[:, None] / values[0])
        model.c.copy_(first[None])
    return model


def filter_layer(theta: Sequence[float]) -> CausalFilter:
    """The convolution of scalars with θ, as a layer of a hybrid in float64.

    Args:
        theta: θ(0), θ(1), ...

    Returns:
        The layer, with as many taps as θ has entries.

    """
    values = require_vector("theta", theta)
    with torch.random.fork_rng(devices=[]):
        layer = CausalFilter(1, 1, values.size).double()
    with torch.no_grad():
        layer.K.copy_(torch.from_numpy(values)[:, None, None])
    return layer


def left_by_taps(theta: Sequence[float], taps: int) -> float:
    """The share of a token's variance that the best causal convolution of θ∗x leaves.

    For independent tokens of equal variance, away from the start of a sequence, this is
    min_g Σ_s (δ(s) - (g∗θ)(s))² over all g with `taps` terms. It falls to `unrecoverable`.

    Args:
        theta: θ(0), θ(1), ..., with θ(0) ≠ 0.
        taps: The number of terms of g.

    Returns:
        The share, from 0 to 1.

    """
    values = _filter(theta)
    mixing = np.zeros((require_whole("taps", taps, 1) + values.size - 1, taps))
    for tap in range(taps):
        mixing[tap : tap + values.size, tap] = values
    wanted = np.eye(len(mixing))[0]
    found = np.linalg.lstsq(mixing, wanted, rcond=None)[0]
    return float(np.square(mixing @ found - wanted).sum())


def unrecoverable(theta: Sequence[float]) -> float:
    """The share of a token's variance that no causal convolution of θ∗x recovers.

    It is 1 - Π_{|r_i|>1} |r_i|^-2 (Szegő and Kolmogorov), so 0 exactly for minimum phase, as for
    roots on the circle.

    Args:
        theta: θ(0), θ(1), ..., with θ(0) ≠ 0.

    Returns:
        The share, from 0 to 1.

    """
    outside = np.abs(roots(theta))
    return float(1 - np.prod(outside[outside > 1] ** -2.0))


def _filter(theta: Sequence[float]) -> np.ndarray:
    values = require_vector("theta", theta)
    if values[0] == 0:
        raise InputError(
            "theta[0] must not be 0, or no causal filter undoes it",
            values[0],
            "Leave out the zeros at the beginning.",
        )
    return values
