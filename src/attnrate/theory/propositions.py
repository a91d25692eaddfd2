"""Equivariance (App. A.1) and Prop. 6.1 to 6.3, executed: what was run, and what it says.

Prop. B.1 has a file of its own (`invariants.py`); `all_checks` runs everything.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float, Float64

from attnrate.errors import InputError, require_callable, require_whole
from attnrate.models.transformer import Transformer
from attnrate.targets import AttentionTarget, PositionedInputs, linear_target, seeds
from attnrate.targets.alter import as_permutation
from attnrate.targets.linear import Kernel as AnyKernel
from attnrate.theory.check import Check, Verdict
from attnrate.theory.domain import union
from attnrate.theory.invariants import check_B_1_1, check_B_1_2, check_B_1_3
from attnrate.theory.pod import pod
from attnrate.theory.recurrent import rnn_complexity

__all__ = ["Check", "all_checks", "check_6_1", "check_6_2", "check_6_3", "check_equivariance"]

Tensor = torch.Tensor
Model = Callable[[Tensor], Tensor]
Rho = Callable[[Tensor, Tensor], Tensor]
Kernel = Callable[[np.ndarray], np.ndarray]

_ROUNDING = 1e-11


def all_checks(seed: object = 0) -> tuple[Check, ...]:
    """Every check with its default sizes; a few seconds."""
    first = (check_equivariance, check_6_1, check_6_2, check_6_3)
    return tuple(check(seed=seed) for check in (*first, check_B_1_1, check_B_1_2, check_B_1_3))


def check_equivariance(
    model: Model | None = None,
    d: object = 2,
    length: object = 8,
    permutations: object = 100,
    models: object = 5,
    seed: object = 0,
) -> Check:
    """App. A.1: Ĥ(x∘p) = Ĥ(x)∘p for Eq. 5, and no longer with position encoding.

    `model` maps (n, length, d) to (n, length, out); without it `models` random Transformers in
    float64 are tried. Encoding adds e(t) = 2t to every token, which makes their ranges disjoint.
    """
    d, length = require_whole("d", d, 1), require_whole("length", length, 2)
    permutations = require_whole("permutations", permutations, 1)
    generator = seeds.generator(require_whole("seed", seed, 0, 2**63 - 1))
    if model is None:
        tried: list[Model] = [
            _random_transformer(d, generator) for _ in range(require_whole("models", models, 1))
        ]
    else:
        require_callable("model", model)
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
        "holds" if plain <= _ROUNDING else "does not hold",
        plain,
        f"largest |Ĥ(x∘p) - Ĥ(x)∘p| = {plain:.2g} of the largest output; with the encoding "
        f"x(t) + 2t it is {encoded:.2g}.",
    )


def check_6_1(
    kernel: AnyKernel | None = None, length: object = 12, trials: object = 200, seed: object = 0
) -> Check:
    """Prop. 6.1: with p(t') > t' for some t', the permuted linear target leaves the RNN's space.

    H~_t(z) = Σ_j ρ(t-p(j)) z(j) reads the future exactly when ρ(s) ≠ 0 for some s < D, where
    D = max_j (j - p(j)). Otherwise it stays causal, against the proof; yet it is no convolution,
    since column j would have to be ρ delayed by j and is ρ delayed by p(j). So the proposition
    holds for every ρ ≠ 0, for one of two reasons. Both are measured by exact floors. p permutes the
    first half of the positions, whose inputs are all read later. Random kernels begin with up to
    three zeros; `kernel` replaces them (anything that `linear_target` takes).
    """
    length, trials = require_whole("length", length, 8), require_whole("trials", trials, 1)
    rng = np.random.default_rng(require_whole("seed", seed, 0))
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


def check_6_2(
    coupling: Rho | None = None,
    intervals: object = None,
    p: object = (2, 0, 3, 1),
    samples: object = 200,
    seed: object = 0,
) -> Check:
    """Prop. 6.2: the permuted target has the same C0, C1, C2.

    Eq. 90 asks for φ~(x(p(t))) = φ^(t)(x(t)): H~ at t must know x(t) but sees x(p(t)), another
    token. That is possible when φ is constant on each interval (the query counts by its position
    only), as it is in Theorem A.3; then ρ~(u, v) = ρ(the place of u moved from I_p(t) to I_t, v).
    For a query that counts by its value no ρ~ at all will do with F and f unchanged: for F = f = id
    and fixed u = x(p(t)), the equations u - T + g(a)(a - T) + h(c)(c - T) = 0 for the weights g, h
    of the other two tokens, T = H_t, have no solution (`residual`).
    """
    law = PositionedInputs.shifted(4) if intervals is None else PositionedInputs(intervals)
    order = as_permutation(p, len(law.intervals))
    samples = require_whole("samples", samples, 1)
    rng = np.random.default_rng(require_whole("seed", seed, 0))
    rho = _by_position(law, rng) if coupling is None else coupling
    require_callable("coupling", rho)

    def altered(u: Tensor, v: Tensor) -> Tensor:
        return rho(_moved_back(u, law, order), v)

    H, H_altered = (
        AttentionTarget(torch.tanh, torch.sin, each, len(order), law) for each in (rho, altered)
    )
    x = H.sample(samples, seed)
    gap = float((H_altered(x[:, list(order)]) - H(x)).abs().max())
    domain = union(*law.intervals)
    one, two = (pod(target.rho, domain).sigma for target in (H, H_altered))
    same_rank = len(one) == len(two)
    drift = float(np.max(np.abs(one - two)) / one[0]) if same_rank else float("inf")
    # Levels on [0,1], [2,3], ..., extended linearly over the gaps, which have the width 1. No
    # extension has a smaller Lipschitz constant: the ends of a gap belong to the pieces.
    levels = np.array([[0.0, 0.5, 1.0], [0.0, 1.0, 0.5]])
    before, after = np.abs(np.diff(levels)).max(axis=1)
    residual = _unsolvable(lambda u, v: torch.sin(u * v)[..., 0])
    control = _unsolvable(lambda u, v: torch.sin(3 * v + 0 * u)[..., 0])
    sound = residual > 1e-3 and control <= _ROUNDING and after > before
    return Check(
        "Prop. 6.2",
        "The permuted target H~_t(x∘p) = H_t(x) has the same C0, C1 and C2 as H.",
        f"one coupling on the intervals {law.intervals}, p = {order}, {samples} sequences, "
        f"seed {seed}; POD of ρ and ρ~ to 1e-12; Lipschitz constants of three pieces; the "
        "equations for ρ = sin(uv) on a 5 x 5 grid, τ = 3",
        "holds when corrected"
        if sound and gap <= _ROUNDING and drift <= 1e-10
        else "does not hold",
        max(gap, drift),
        f"with the pieces permuted, largest |H~(x∘p) - H(x)| = {gap:.2g} and largest change of a "
        f"singular value = {drift:.2g} of σ_1.",
        "this needs a ρ whose query counts by its position only (for ρ = sin(uv) and F = f = id no "
        f"ρ~ exists, for the equations leave a residual of {residual:.2g}; for ρ = sin(3v), as a "
        f"control, {control:.1g}) and intervals of one length. And C2 is not kept: pieces 0, 0.5, "
        f"1 on [0,1], [2,3], [4,5] have the Lipschitz constant {before:.3g}, as 0, 1, 0.5 they "
        f"have {after:.3g}, and no extension over the gaps has less; only what lies within the "
        "pieces is unchanged.",
    )


def check_6_3(
    cases: Sequence[tuple[float, Kernel]] | None = None,
    filters: object = 4,
    filter_length: object = 5,
    seed: object = 0,
) -> Check:
    """Prop. 6.3: |ρ(s)| <= e^(-s/γ) and ‖θ‖_1 <= 1 give C_RNN(H) <= γ and C_RNN(H~) <= γ.

    Eq. 76 makes C1 = 1 + decay time, so ρ = e^(-s/γ) itself has C_RNN = 1 + γ. What holds, each
    provided that C1 >= γ (the bound on ρ is not slower than 1 + its true decay time; without it
    C2 is unbounded, as for ρ cut off at a late lag):
      C_RNN(H) <= 1 + γ;
      C_RNN(H~) <= 1 + γ for ρ~(s) = Σ θ(s') ρ(s+s'), Eq. 96, which drops the future that x(t+s')
      reads, so that it is not the H~ of the statement, which is not causal;
      C_RNN(H~) <= C1 Σ_s |θ(s)| e^(s/C1) <= C1 e^((l-1)/C1), C1 that of H~, for the causal filter
      ρ~(s) = Σ θ(s') ρ(s-s'); a pure delay attains it.
    `cases` are pairs (γ, kernel), the kernel a function of an integer array.
    """
    length = require_whole("filter_length", filter_length, 2)
    filters = require_whole("filters", filters, 1)
    rng = np.random.default_rng(require_whole("seed", seed, 0))
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
    with torch.random.fork_rng(devices=[]):  # the layers' own initialisation must leave no trace
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
    with torch.no_grad():
        y = model(x + encoding)
        gaps = [float((model(x[:, p] + encoding) - y[:, p]).abs().max()) for p in orders]
    return max(gaps) / max(float(y.abs().max()), 1e-300)


def _random_kernel(
    rng: np.random.Generator, length: int, trial: int
) -> Float[np.ndarray, " length"]:
    decay = np.exp(-np.arange(length) / rng.uniform(0.5, 8.0))
    kernel = decay if trial % 2 else rng.uniform(0.1, 1.0, length)
    delay = int(rng.integers(0, 4))
    return np.concatenate([np.zeros(delay), kernel])[:length]


def _moving_half(rng: np.random.Generator, length: int) -> list[int]:
    half = length // 2
    while True:
        p = [*rng.permutation(half).tolist(), *range(half, length)]
        if p != list(range(length)):
            return p


def _pieces(u: Tensor, law: PositionedInputs) -> list[Tensor]:
    """For every interval, which tokens are in it."""
    return [(u >= low) & (u <= high) for low, high in law.intervals]


def _by_position(law: PositionedInputs, rng: np.random.Generator) -> Rho:
    """A coupling whose query counts by its position only, of rank 3."""
    levels = torch.tensor(rng.normal(size=(len(law.intervals), 3)))
    waves = torch.tensor(rng.uniform(0.5, 2.0, 3))

    def rho(u: Tensor, v: Tensor) -> Tensor:
        inside = torch.cat(_pieces(u, law), dim=-1).to(levels.dtype)
        return ((inside @ levels) * torch.cos(waves * v)).sum(-1)

    return rho


def _moved_back(u: Tensor, law: PositionedInputs, p: tuple[int, ...]) -> Tensor:
    """Eq. 89: a token of I_p(t) moved to its place in I_t."""
    moved = u.clone()
    inside = _pieces(u, law)
    for t, source in enumerate(p):
        (low, high), (to_low, to_high) = law.intervals[source], law.intervals[t]
        share = (u - low) / (high - low)
        moved = torch.where(inside[source], to_low + share * (to_high - to_low), moved)
    return moved


def _unsolvable(rho: Rho, points: int = 5) -> float:
    """The least residual of the equations in `check_6_2`, as a share of their right-hand side.

    τ = 3 on [0,1], [2,3], [4,5]; t = 0, u = x(p(0)) = 2.5 fixed, a = x(0) and c = x(2) on a grid.
    """
    a, c = torch.meshgrid(
        torch.linspace(0, 1, points).double(), torch.linspace(4, 5, points).double(), indexing="ij"
    )
    u = torch.full_like(a, 2.5)
    tokens = torch.stack([a, u, c], dim=-1)[..., None]
    weights = rho(a[..., None, None], tokens).softmax(-1)
    T = (weights * tokens[..., 0]).sum(-1).flatten()
    rows, columns = (torch.eye(points).double() for _ in range(2))
    g = rows.repeat_interleave(points, 0) * (a.flatten() - T)[:, None]
    h = columns.repeat(points, 1) * (c.flatten() - T)[:, None]
    system, right = torch.cat([g, h], dim=1).numpy(), (T - u.flatten()).numpy()
    solution = np.linalg.lstsq(system, right, rcond=None)[0]
    return float(np.linalg.norm(system @ solution - right) / np.linalg.norm(right))


def _wave(gamma: float, turn: float) -> Kernel:
    return lambda s: np.exp(-s / gamma) * np.cos(turn * s)


def _filtered(kernel: Kernel, theta: Float[np.ndarray, " l"], sign: int) -> Kernel:
    """ρ~(s) = Σ θ(s') ρ(s + sign·s'), ρ zero at negative lags."""

    def altered(s: np.ndarray) -> np.ndarray:
        total = np.zeros(len(s))
        for back, weight in enumerate(theta):
            lag = s + sign * back
            total += weight * np.where(lag >= 0, kernel(np.maximum(lag, 0)), 0.0)
        return total

    return altered
