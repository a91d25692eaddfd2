"""What k states and one head can remember: a floor from Hankel matrices, and exact delays.

A linear RNN with k states has the kernel c W^j U (Eq. 74). The Hankel matrix (c W^{i+l} U) of this
kernel has rank k at most, because it is the product of (c W^i) and (W^l U). So a kernel whose
Hankel matrix has many large singular values cannot be carried by few states, whatever C_RNN says.
"""

import numpy as np
import torch
from jaxtyping import Float, Float64
from scipy.linalg import hankel
from torch import nn

from attnrate.models import LinearRNN, Transformer
from attnrate.models.positions import LearnedPosition

#: The gap of two logits in `delay_transformer`: weights of wrong positions are e^-40 and less
_SHARPNESS = 40.0


def states_floor(kernel: Float[np.ndarray, " length"], states: int, variance: float = 1.0) -> float:
    """Bound the error of every linear RNN of k states from below, for y(t) = Σ_{j≤t} ρ(j) x(t-j).

    For independent tokens of variance v an RNN with the kernel k(j), with or without offsets, has
    an error of at least Σ_j w_j (ρ(j) - k(j))², with w_j = v (τ-j)/τ. Take an m × m Hankel matrix
    of ρ(o), ..., ρ(o+2m-2). A difference of kernels at j stands in it n_j times, and the matrix of
    the RNN has rank k. So the error is at least c Σ_{i>k} σ_i² (Eckart-Young), with c = min w_j /
    n_j. The best of all o and m is taken.

    For the delay by s it is v (τ-s)/τ (1 - k / min(s+1, τ-s)): no less than the share 1 - k/(s+1)
    of the variance is lost for s < τ/2. Beyond, the bound falls again. RNNs that grow, |λ| > 1, can
    come near a delay by s = τ-1 with a single state, though only for sequences of this length.

    Args:
        kernel: ρ(0), ..., ρ(τ-1).
        states: The number k of states.
        variance: The variance v of a token. Default: 1.

    Returns:
        A number that E mean_t |y(t) - ŷ(t)|² cannot be below.

    Examples:
        >>> import numpy as np
        >>> from attnrate.theory.memory import states_floor
        >>> delay = np.eye(9)[2]
        >>> round(states_floor(delay, states=1) / (7 / 9), 6)  # 1 - 1/3 of the variance
        0.666667

    """
    length = len(kernel)
    weights = variance * (length - np.arange(length)) / length
    best = 0.0
    for m in range(states + 1, (length + 1) // 2 + 1):
        counts = m - np.abs(np.arange(2 * m - 1) - (m - 1))
        for offset in range(length - 2 * m + 2):
            part = slice(offset, offset + 2 * m - 1)
            matrix = hankel(kernel[part][:m], kernel[part][m - 1 :])
            sigma = np.linalg.svd(matrix, compute_uv=False)
            scale = float((weights[part] / counts).min())
            best = max(best, scale * float(np.square(sigma[states:]).sum()))
    return best


def delay_rnn(lag: int) -> LinearRNN:
    """Make the linear RNN of s+1 states that carries the delay y(t) = x(t-s) exactly.

    It is a shift register: h_0(t) = x(t), h_i(t) = h_{i-1}(t-1), y(t) = h_s(t).

    Args:
        lag: The lag s.

    Returns:
        The model, in float64.

    Examples:
        >>> import torch
        >>> from attnrate.theory.memory import delay_rnn
        >>> delay_rnn(1)(torch.tensor([[[1.0], [2.0], [3.0]]])).flatten().tolist()
        [0.0, 1.0, 2.0]

    """
    size = lag + 1
    shift, first = torch.eye(size, dtype=torch.float64).roll(1, 0), torch.eye(size)[:, :1]
    shift[0] = 0.0
    return _linear_rnn(shift, first.double(), torch.eye(size).double()[-1:])


def gamma_rnn(lag: int, states: int, scale: float) -> LinearRNN:
    """Make the linear RNN of n states with the kernel g C(j+n-1, n-1) λ^j, λ = s/(s+n).

    It is n leaky integrators in a row: h_i(t) = λ h_i(t-1) + h_{i-1}(t), where h_{-1} is the input.

    Args:
        lag: The mean lag s of the kernel.
        states: The number n of states.
        scale: The factor g.

    Returns:
        The model, in float64.

    """
    within = torch.ones(states, states, dtype=torch.float64).tril()
    last = scale * torch.eye(states, dtype=torch.float64)[-1:]
    return _linear_rnn(lag / (lag + states) * within, within[:, :1], last)


def _linear_rnn(
    W: Float64[torch.Tensor, "k k"],
    U: Float64[torch.Tensor, "k 1"],
    c: Float64[torch.Tensor, "1 k"],
) -> LinearRNN:
    model = LinearRNN(1, 1, len(W), bias=False).double()
    with torch.no_grad():
        model.W.copy_(W)
        model.U.copy_(U)
        model.c.copy_(c)
    return model


def delay_transformer(lag: int, length: int, largest: float) -> Transformer:
    """Make the Transformer of Eq. 5 with m_h = 2 that carries the delay by s, 1 ≤ s, to rounding.

    The learned encoding gives h(t) = (x(t), q(t), t, t², 1) with q(t) = t-s, the position that is
    asked for. The logits β (2 q(t) t' - t'²) are those of -β (t' - q(t))² up to softmax's gauge, so
    that the head has rank 2 and all weight but e^-β is at q(t). Where t < s nothing is there, and
    q(t) is the last position, which no other output asks for. F̂ is given x and t' at that place,
    and gives x unless t' is the last: relu(x - M a) - relu(-x - M a) with a = relu(t' - τ + 2).

    Args:
        lag: The lag s, from 1 to τ-1.
        length: The number of tokens τ of a sequence.
        largest: A bound of |x|.

    Returns:
        The model, in float64, with f̂ the identity.

    """
    place = torch.arange(length, dtype=torch.float64)
    asked = torch.where(place < lag, length - 1.0, place - lag)
    position = LearnedPosition(1, length, 5)
    model = Transformer(
        1,
        1,
        n=5,
        m_h=2,
        m_v=2,
        position=position,
        f_hat=nn.Identity(),
        F_hat=_gate(length, largest),
    ).double()
    with torch.no_grad():
        position.A.weight.copy_(torch.eye(5)[:, :1])
        one = torch.ones_like(place)
        position.e.copy_(torch.stack([0 * place, asked, place, place**2, one], dim=1))
        h = torch.eye(5)
        model.W_Q.weight.copy_(_SHARPNESS * torch.stack([2 * h[1], -h[4]]))
        model.W_K.weight.copy_(torch.stack([h[2], h[3]]))
        model.W_V.weight.copy_(torch.stack([h[0], h[2]]))
    return model


def _gate(length: int, largest: float) -> nn.Sequential:
    """The ReLU network (x, t') -> x where t' ≤ τ-2, and 0 where t' = τ-1, for |x| ≤ largest."""
    first, second, last = nn.Linear(2, 3), nn.Linear(3, 2), nn.Linear(2, 1)
    with torch.no_grad():
        first.weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]))
        first.bias.copy_(torch.tensor([0.0, 0.0, 2.0 - length]))
        second.weight.copy_(torch.tensor([[1.0, 0.0, -largest], [0.0, 1.0, -largest]]))
        last.weight.copy_(torch.tensor([[1.0, -1.0]]))
        for layer in (second, last):
            layer.bias.zero_()
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), last)
