"""Targets that look back by a lag: y(t) = x(t-s), sharp or blurred, and the same ahead in time."""

from math import sqrt

import numpy as np
from jaxtyping import Float64
from scipy.special import gammaln, xlogy

from attnrate.errors import InputError
from attnrate.settings import Count, Natural, Switch, checked
from attnrate.targets.form import TARGETS, Length
from attnrate.targets.inputs import UniformInputs
from attnrate.targets.linear import LinearTarget, linear_target

#: Tokens of mean 0 and variance 1, so that no model has to learn a constant first
LAW = UniformInputs(-sqrt(3.0), sqrt(3.0))


@TARGETS.add("delay")
@checked
def delay_target(
    lag: Natural, states: Count | None = None, length: Length = 33, ahead: Switch = False
) -> LinearTarget:
    """Make the delay y(t) = x(t-s), or a smooth relative of it, for tokens uniform on [-√3, √3].

    The relative is y(t) = Σ_j ρ(j) x(t-j) with the kernel of `gamma_kernel`: its mean lag is s, and
    a linear RNN of `states` units computes it exactly. Tokens before the first one are 0.

    Args:
        lag: The lag s, less than `length`.
        states: None for the delay itself; n for the relative that n states carry. The kernel is
            the wider, the fewer they are.
        length: The number of tokens τ of a sequence. Default: 33, so that s = 16 is half of it.
        ahead: Whether the target looks ahead, y(t) = x(t+s), instead of back. Default: back.

    Returns:
        The target, with the matrix M[t, t-j] = ρ(j).

    Raises:
        InputError: If the lag is as long as the sequence.

    Examples:
        >>> from attnrate.targets.delay import delay_target
        >>> delay_target(1, length=3).matrix
        array([[0., 0., 0.],
               [1., 0., 0.],
               [0., 1., 0.]])

    """
    if lag >= length:
        raise InputError(
            f"lag must be less than length = {length}, or every output is 0",
            lag,
            f"Pass lag={length - 1} at most.",
        )
    kernel = gamma_kernel(lag, states, length) if states else np.eye(length)[lag]
    target = linear_target(kernel, length, LAW)
    name = f"{'ahead' if ahead else 'back'} by {lag}{f', {states} states' if states else ''}"
    return LinearTarget(target.matrix.T if ahead else target.matrix, LAW, name)


def gamma_kernel(lag: int, states: int, length: int) -> Float64[np.ndarray, " length"]:
    """Compute ρ(j) = g C(j+n-1, n-1) λ^j, a discrete Gamma kernel of mean lag s.

    n leaky integrators in a row, each h(t) = λ h(t-1) + input(t) with λ = s/(s+n), have this
    kernel. As j varies it has the mean s and the variance s(s+n)/n, so that s over the width is
    √(sn/(s+n)): n states look back by any s with a relative sharpness of up to √n.

    Args:
        lag: The mean lag s.
        states: The number n of integrators.
        length: The number of lags.

    Returns:
        ρ(0), ..., ρ(length - 1), where g makes Σ ρ² = 1 over these lags.

    """
    j = np.arange(length)
    # in logarithms, so that long kernels do not overflow
    binomial = gammaln(j + states) - gammaln(j + 1) - gammaln(states)
    raw = np.exp(binomial + xlogy(j, lag / (lag + states)))
    found: Float64[np.ndarray, " length"] = raw / np.linalg.norm(raw)
    return found
