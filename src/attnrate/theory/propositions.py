"""Equivariance (App. A.1) and Prop. 6.1 to 6.3, each tested by a run, with a verdict.

Prop. 6.2 is in `permuting.py`, Prop. B.1 in `invariants.py`; `check_propositions` runs all checks.
"""

from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float, Float64

from attnrate.errors import InputError, require_callable, require_whole
from attnrate.models.transformer import Transformer
from attnrate.progress import QUIET, Progress
from attnrate.settings import Count, by, checked
from attnrate.targets import linear_target, seeds
from attnrate.targets.linear import Kernel as AnyKernel
from attnrate.theory.check import ROUNDING, Check, Seed, Verdict
from attnrate.theory.invariants import check_B_1_1, check_B_1_2, check_B_1_3
from attnrate.theory.permuting import check_6_2
from attnrate.theory.recurrent import rnn_complexity

__all__ = [
    "Check",
    "check_6_1",
    "check_6_2",
    "check_6_3",
    "check_equivariance",
    "check_propositions",
]


Tensor = torch.Tensor
#: A map of sequences, (n, length, d) -> (n, length, out)
Model = Annotated[Callable[[Tensor], Tensor], by(require_callable)]
#: A kernel as a function of the integer array of lags
Kernel = Callable[[np.ndarray], np.ndarray]


@checked
def check_propositions(seed: Seed = 0) -> tuple[Check, ...]:
    """Check every proposition of the paper that can be run, with default sizes; a few seconds.

    These are equivariance (App. A.1), Prop. 6.1, 6.2 and 6.3, and the three parts of Prop. B.1.
    Each has a function of its own, which also takes a user's model, coupling or kernel.

    Args:
        seed: Draws the models, kernels, permutations and inputs.

    Returns:
        One result for each statement, in the order of the paper.

    Examples:
        >>> for check in ar.check_propositions():
        ...     print(check.name, "-", check.verdict)
        Equivariance (App. A.1) - holds
        Prop. 6.1 - holds when corrected
        Prop. 6.2 - holds when corrected
        Prop. 6.3 - holds when corrected
        Prop. B.1 (1) - holds when corrected
        Prop. B.1 (2) - holds
        Prop. B.1 (3) - does not hold

    """
    checks: tuple[Callable[..., Check], ...] = (
        check_equivariance,
        check_6_1,
        check_6_2,
        check_6_3,
        check_B_1_1,
        check_B_1_2,
        check_B_1_3,
    )
    found = []
    with Progress(after=QUIET) as shown:
        for done, check in enumerate(checks):
            shown.at(
                f"checking statements of the paper: {done} of {len(checks)}", done / len(checks)
            )
            found.append(check(seed=seed))
    return tuple(found)


@checked
def check_equivariance(
    model: Model | None = None,
    d: Count = 2,
    length: Annotated[int, by(require_whole, 2)] = 8,
    permutations: Count = 100,
    models: Count = 5,
    seed: Seed = 0,
) -> Check:
    """Check that a model without position encoding is equivariant: Ĥ(x∘p) = Ĥ(x)∘p (App. A.1).

    The difference is also measured with the encoding x(t) + 2t, which makes the ranges of the
    tokens disjoint and breaks the symmetry.

    Args:
        model: A map (n, length, d) -> (n, length, out) of float64 tensors. By default `models`
            random Transformers of Eq. 5 are tried.
        d: The dimension of the tokens.
        length: The number of tokens of a sequence, 2 or more.
        permutations: The number of random permutations for each model.
        models: The number of random Transformers, where no model is given.
        seed: Draws models, inputs and permutations.

    Returns:
        The check; its value is the largest difference, relative to the largest output.

    Examples:
        >>> ar.check_equivariance(lambda x: x.cumsum(1), permutations=5).verdict
        'does not hold'

    """
    generator = seeds.generator(seed)
    if model is None:
        tried: list[Model] = [_random_transformer(d, generator) for _ in range(models)]
    else:
        tried = [model]
    encoding = 2.0 * torch.arange(length, dtype=torch.float64)[:, None]
    plain = encoded = 0.0
    for each in tried:
        x = torch.rand(16, length, d, generator=generator, dtype=torch.float64)
        orders = [torch.randperm(length, generator=generator) for _ in range(permutations)]
        plain = max(plain, _equivariance_gap(each, x, orders, torch.zeros_like(encoding)))
        encoded = max(encoded, _equivariance_gap(each, x, orders, encoding))
    kind = f"{len(tried)} random Transformers" if model is None else "one given model"
    return Check(
        "Equivariance (App. A.1)",
        "Without position encoding, Ĥ(x∘p) = Ĥ(x)∘p for every permutation p.",
        f"{kind}, d = {d}, length {length}, {permutations} permutations of 16 sequences each, "
        f"float64, seed {seed}",
        "holds" if plain <= ROUNDING else "does not hold",
        plain,
        f"largest |Ĥ(x∘p) - Ĥ(x)∘p| = {plain:.2g} of the largest output; with the encoding "
        f"x(t) + 2t it is {encoded:.2g}.",
    )


@checked
def check_6_1(
    kernel: AnyKernel | None = None,
    length: Annotated[int, by(require_whole, 8)] = 12,
    trials: Count = 200,
    seed: Seed = 0,
) -> Check:
    """Check Prop. 6.1: a permutation takes a linear target out of the RNN's space.

    The proposition asks for p(t') > t' for some t'.

    H~_t(z) = Σ_j ρ(t-p(j)) z(j) reads the future exactly when ρ(s) ≠ 0 for some s < D, where
    D = max_j (j - p(j)). Otherwise it stays causal, which contradicts the proof; but it is no
    convolution, since column j would have to be ρ delayed by j and is ρ delayed by p(j). So the
    proposition holds for every ρ ≠ 0, for one of two reasons. Both are measured by exact floors. p
    permutes the first half of the positions, whose inputs are all read later.

    Args:
        kernel: ρ, as `linear_target` takes it. By default random kernels that begin with up to
            three zeros.
        length: The number of tokens of a sequence, 8 or more.
        trials: The number of random permutations, and of random kernels.
        seed: Draws kernels and permutations.

    Returns:
        The check; its value is the least share of the variance that a time-invariant causal map
        loses.

    Examples:
        >>> ar.check_6_1("exponential", trials=20).verdict
        'holds'

    """
    rng = np.random.default_rng(seed)
    least, causal, wrong, before = np.inf, 0, 0, 0.0
    for trial in range(trials):
        H = linear_target(_random_kernel(rng, length, trial) if kernel is None else kernel, length)
        p = _moving_half(rng, length)
        altered = H.permuted(p)
        size = float(np.mean((H.matrix**2).sum(1))) / 12  # the variance of U[0, 1]
        reach = max(j - p_j for j, p_j in enumerate(p))
        reads_future = bool(np.any(H.matrix[:reach, 0]))
        wrong += (altered.floor("causal") > 0) != reads_future
        causal += not reads_future
        before = max(before, H.floor("causal"))
        least = min(least, altered.floor("time-invariant") / size if size else 0.0)
    good: Verdict = "holds when corrected" if causal else "holds"
    return Check(
        "Prop. 6.1",
        "If H is in the RNN's space and p(t') > t' for some t', the permuted H~ is not, because it "
        "depends on the future.",
        f"{trials} permutations of the first {length // 2} of {length} positions, "
        f"{'random kernels with 0 to 3 leading zeros' if kernel is None else 'one given kernel'}, "
        f"exact floors for U[0,1] inputs, seed {seed}",
        good if least > 1e-9 and wrong == 0 and before == 0 else "does not hold",
        float(least),
        f"the best time-invariant causal map loses at least {least:.2g} of H~'s variance (of H's: "
        f"causal floor {before:.2g}). In {causal} of {trials} cases H~ does not depend on the "
        f"future: those with ρ(s) = 0 for all s < max(j - p(j)), as predicted but for {wrong} "
        "cases.",
        "H~ leaves the space for every ρ ≠ 0, being non-causal or, in those cases, causal but not "
        "time-invariant.",
    )


@checked
def check_6_3(
    cases: Sequence[tuple[float, Kernel]] | None = None,
    filters: Count = 4,
    filter_length: Annotated[int, by(require_whole, 2)] = 5,
    seed: Seed = 0,
) -> Check:
    """Check Prop. 6.3: |ρ(s)| <= e^(-s/γ) and ‖θ‖_1 <= 1 give C_RNN(H) <= γ and C_RNN(H~) <= γ.

    Eq. 76 makes C1 = 1 + decay time, so ρ = e^(-s/γ) itself has C_RNN = 1 + γ. Three statements
    hold, each provided that C1 >= γ: without it C2 is unbounded, as for a ρ that is cut off at a
    late lag.

    - C_RNN(H) <= 1 + γ.
    - C_RNN(H~) <= 1 + γ for ρ~(s) = Σ θ(s') ρ(s+s') (Eq. 96). This ρ~ drops the future that x(t+s')
      reads, so it is not the H~ of the statement, which is not causal.
    - C_RNN(H~) <= C1 Σ_s |θ(s)| e^(s/C1) <= C1 e^((l-1)/C1), with the C1 of H~, for the causal
      filter ρ~(s) = Σ θ(s') ρ(s-s'); a pure delay attains it.

    Args:
        cases: Pairs (γ, kernel), the kernel a function of the integer array of lags. By default
            eight damped waves.
        filters: The number of random filters θ; a pure delay is added.
        filter_length: The length l of the filters, 2 or more.
        seed: Draws the filters.

    Returns:
        The check; its value is the largest ratio of C_RNN to the bounds above.

    Examples:
        >>> import numpy as np
        >>> ar.check_6_3([(2.0, lambda s: np.exp(-s / 2))], filters=1).verdict
        'holds when corrected'

    """
    length, rng = filter_length, np.random.default_rng(seed)
    if cases is None:
        cases = [(g, _wave(g, turn)) for turn in (0.0, np.pi / 3) for g in (0.5, 1.0, 3.0, 10.0)]
    if not cases:
        raise InputError("cases must hold at least one pair (gamma, kernel)", cases)
    signed = [rng.uniform(-1.0, 1.0, length) for _ in range(filters)]
    thetas = [theta / np.abs(theta).sum() for theta in signed] + [np.eye(length)[-1]]
    worst, printed, total, skipped = 0.0, 0, 0, 0
    growth = 0.0
    for gamma, kernel in cases:
        bounds = [(rnn_complexity(kernel), 1 + gamma)]
        for theta in thetas:
            shifted, causal = (rnn_complexity(_filtered(kernel, theta, sign)) for sign in (1, -1))
            weight = float(np.abs(theta) @ np.exp(np.arange(length) / causal.C1))
            bounds += [(shifted, 1 + gamma), (causal, causal.C1 * weight)]
            growth = max(growth, causal.value / (1 + gamma))
        for found, bound in bounds:
            total += 1
            printed += found.value > gamma * (1 + 1e-9)
            if gamma > found.C1:
                skipped += 1
                continue
            worst = max(worst, found.value / bound)
    cut = rnn_complexity(lambda s: np.where(s < 20, np.exp(-s / 4), 0.0)).value
    future = linear_target("exponential", 16).mixed(thetas[0], causal=False).floor("causal")
    return Check(
        "Prop. 6.3",
        "|ρ(s)| <= exp(-s/γ) and ‖θ‖_1 <= 1 imply C_RNN(H) <= γ and C_RNN(H~) <= γ.",
        f"{len(cases)} kernels, {len(thetas)} filters of length {length} (one a pure delay), each "
        f"as in Eq. 96 and causal, {total} values of C_RNN, seed {seed}",
        "holds when corrected" if worst <= 1 + 1e-6 and skipped < total else "does not hold",
        worst,
        f"C_RNN > γ in {printed} of {total}: e^(-s/γ) itself has 1 + γ.",
        f"where C1 >= γ (not so in {skipped}): C_RNN <= 1 + γ for ρ and for ρ~ of Eq. 96, and <= "
        f"C1 Σ|θ(s)| e^(s/C1) for the causal filter; the largest ratio to these bounds is "
        f"{worst:.6g}. A causal filter can raise C_RNN above 1 + γ, here {growth:.3g} times. "
        f"Without C1 >= γ even H fails: e^(-s/4) cut off at lag 20 has C_RNN = {cut:.3g}. The "
        f"printed filter reads the future: causal floor {future:.2g} for ρ = e^-s.",
    )


def _random_transformer(d: int, generator: torch.Generator) -> Transformer:
    """A Transformer of Eq. 5 in float64 with weights drawn from the generator."""
    with torch.random.fork_rng(devices=[]):  # torch initialises the layers, too
        model = Transformer(d, 2, n=8, m_h=4, m_v=6, width=24, depth=2).double()
    with torch.no_grad():
        for weight in model.parameters():
            scale = (2.0 / weight.shape[-1]) ** 0.5
            drawn = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
            weight.copy_(scale * drawn)
    return model


def _equivariance_gap(
    model: Model, x: Float64[Tensor, "n length d"], orders: list[Tensor], encoding: Tensor
) -> float:
    """The largest |Ĥ(x∘p) - Ĥ(x)∘p| over the orders p, relative to the largest output."""
    with torch.no_grad():
        y = model(x + encoding)
        gaps = [float((model(x[:, p] + encoding) - y[:, p]).abs().max()) for p in orders]
    return max(gaps) / max(float(y.abs().max()), 1e-300)


def _random_kernel(
    rng: np.random.Generator, length: int, trial: int
) -> Float[np.ndarray, " length"]:
    """A random kernel that begins with 0 to 3 zeros; it decays in every second trial."""
    decay = np.exp(-np.arange(length) / rng.uniform(0.5, 8.0))
    kernel = decay if trial % 2 else rng.uniform(0.1, 1.0, length)
    delay = int(rng.integers(0, 4))
    return np.concatenate([np.zeros(delay), kernel])[:length]


def _moving_half(rng: np.random.Generator, length: int) -> list[int]:
    """A random permutation of the first half of the positions that moves at least one."""
    half = length // 2
    while True:
        p = [*rng.permutation(half).tolist(), *range(half, length)]
        if p != list(range(length)):
            return p


def _wave(gamma: float, turn: float) -> Kernel:
    """A damped wave e^(-s/γ) cos(turn s)."""
    return lambda s: np.exp(-s / gamma) * np.cos(turn * s)


def _filtered(kernel: Kernel, theta: Float[np.ndarray, " l"], sign: int) -> Kernel:
    """The kernel ρ~(s) = Σ θ(s') ρ(s + sign·s'), with ρ zero at negative lags."""

    def altered(s: np.ndarray) -> np.ndarray:
        total = np.zeros(len(s))
        for back, weight in enumerate(theta):
            lag = s + sign * back
            total += weight * np.where(lag >= 0, kernel(np.maximum(lag, 0)), 0.0)
        return total

    return altered
